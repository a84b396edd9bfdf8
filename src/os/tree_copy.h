/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_copy.h - copy a directory tree exactly, as a layer of an overlay
 *
 * Contents (holes stay holes), owners, modes, times, links, hard links between copied
 * files, named pipes and extended attributes are kept. So are the marks of an overlay
 * with userxattr: whiteouts and opaque directories. Other attributes of the overlay are
 * dropped, because they are valid only for the original. Sockets are skipped, because
 * nothing listens on a copy. Device nodes are refused.
 *
 * The tree is untrusted: links are never followed, and the depth is limited. The caller
 * chooses the privileges: the process that copies should have no more than the tree's
 * owner. No other process may change the tree during the copy; if one does, the copy may
 * be inconsistent or fail, but it never accesses files outside the two trees.
 *
 * Nothing is allocated with malloc(3), so that a process can call this after clone(2).
 */
#ifndef OS_TREE_COPY_H
#define OS_TREE_COPY_H

#include <stdint.h>

#include "base/error.h"

#define TREE_COPY_DEPTH_MAX   500
#define TREE_COPY_KEEP_INODES 1024 /* stay free with tree_copy.keep_free */

/* Which attributes are the marks of an overlay. */
enum tree_copy_marks {
	TREE_COPY_USER, /* user.overlay.*, in both trees: overlays with userxattr */
	/*
	 * trusted.overlay.* in one of the trees, which belongs to an overlay without
	 * userxattr. An attribute user.overlay.* of its files has no meaning there. The
	 * marks are translated; -EOPNOTSUPP: a file has one without an equivalent.
	 */
	TREE_COPY_FROM_TRUSTED,
	TREE_COPY_TO_TRUSTED,
};

struct tree_copy {
	enum tree_copy_marks marks;
	uint64_t max_bytes; /* maximum size of all contents (else -EFBIG); 0: no limit */
	/*
	 * Bytes of the filesystem of the copy that stay free (else -ENOSPC), even if
	 * others write to it, and some of its inodes; 0: none.
	 */
	uint64_t keep_free;
	/*
	 * Refuse files of users other than root: the caller could not remove the copies.
	 */
	bool only_root;
	/* Maximum number of files with several names (else -E2BIG); 0: no limit. */
	uint64_t max_linked;
	uint64_t max_linked_paths; /* of the paths that are recorded for them; bytes */
	/* The result: */
	uint64_t files;   /* all kinds, and directories */
	uint64_t bytes;   /* contents, without holes */
	uint64_t sockets; /* sockets that were skipped */
	uint64_t linked, linked_paths;
};

/*
 * Copy the contents and the attributes of directory @from to the empty directory @to.
 * Both may be O_PATH. After a failure, @to contains an incomplete copy.
 */
int tree_copy(int from, int to, struct tree_copy *c, struct warren_error *err);

/*
 * Copy only the contents of the file @from, of which @st is known, to the empty file @to.
 * Returns 0 or -errno.
 */
struct stat;
int tree_copy_contents(struct tree_copy *c, int from, int to, const struct stat *st);

#endif /* OS_TREE_COPY_H */
