/* SPDX-License-Identifier: Apache-2.0 */
/* unpack_internal.h - what the processes of an unpacking share */
#ifndef IMAGE_UNPACK_INTERNAL_H
#define IMAGE_UNPACK_INTERNAL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/error.h"
#include "image/unpack.h"

struct pollfd;

#define UNPACK_BLOCK    (256U << 10) /* what is read, hashed and written at a time */
#define UNPACK_PIPE     (1U << 20)   /* what fits between two of the processes */
#define UNPACK_STALL    120000       /* ms without a byte moving until we give up */
#define UNPACK_IDS      65536U       /* ids of a sandbox: what a layer can show */
#define UNPACK_NOBODY   65534U       /* whose what belongs to any other id is */
#define UNPACK_DEPTH    1024         /* directories in a name */
#define UNPACK_FOLLOWED 40           /* links on the way to one name, as in the kernel */
#define UNPACK_STEPS    4096  /* components on such a way, those of the links included */
#define UNPACK_LINKS    4096  /* symbolic links in a spooled archive */
#define UNPACK_SPOOL    8     /* directories in a name of a spooled archive */
#define UNPACK_SPOOLED  65536 /* members of a spooled archive */

/*
 * The range of ids that the processes of an unpacking have outside when root
 * starts them: 65,536 that no other process has. Sandboxes take theirs from
 * 0x10000000 upwards; this is the range right below. One is enough for any
 * number of unpackings at a time: each has a user and a pid namespace of its
 * own, in which no other process can be named, and nothing on disk ever belongs
 * to the range, since the directory is seen through an id-mapped mount.
 */
#define UNPACK_ID_BASE 0x0fff0000U

enum unpack_format {
	UNPACK_PLAIN,
	UNPACK_GZIP,
	UNPACK_ZSTD,
	UNPACK_XZ,
	UNPACK_BZIP2,
	UNPACK_FORMATS,
};

/* Detected by the first bytes; anything unknown is plain. */
enum unpack_format unpack_sniff(const void *data, size_t n);
#define UNPACK_SNIFF 6 /* bytes that it takes */

/* What untar does and for whom. */
struct unpack_rules {
	bool spool;   /* an outer archive: plain files only, see unpack_spool() */
	bool overlay; /* whiteouts are translated, else refused */
	bool own_ids; /* ids and set-id bits are kept */
	uint64_t entries_max;
};

/* A child's report at its end, in one message. Only its size is trusted. */
struct unpack_report {
	uint64_t entries, skipped, remapped;
	struct warren_error err; /* code 0: it went well */
};

/* The work of the two children: from descriptor to descriptor, to @root. */
int unpack_inflate(int in, int out, struct warren_error *err);
int unpack_untar(int in, int root, const struct unpack_rules *rules,
		 struct unpack_report *ret, struct warren_error *err);
/* What the C library would otherwise look up in the archive's own files. */
void unpack_warm_up(void);

/* poll(2) in spite of signals, and with @watch asked in the meantime (-ECANCELED). */
int unpack_poll(struct pollfd *fds, size_t n, int ms, const struct unpack_watch *watch,
		struct warren_error *err);

/* ------------------------------------------------------------ unpack_child.c */

struct unpack_child {
	const char *name; /* "decompress" */
	pid_t pid;        /* 0: there is none */
	int pidfd;
	int control; /* its connection: mounts to it, a report from it */
};

#define UNPACK_CHILD_INIT                  \
	{                                  \
		.pidfd = -1, .control = -1 \
	}

/* What a child gets. @dir < 0: it decompresses, in an empty root; else it untars. */
struct unpack_job {
	const char *name;
	int in, out, dir;
	const struct unpack_rules *rules;
};

/* Whether this process may map a range of ids, and so keep those of an archive. */
bool unpack_own_ids(void);
int unpack_child_start(const struct unpack_job *job, struct unpack_child *ret,
		       struct warren_error *err);
/* Wait for its report. -EPIPE: it died without one. */
int unpack_child_finish(struct unpack_child *c, const struct unpack_watch *watch,
			struct unpack_report *ret, struct warren_error *err);
/* Kill it if it still runs, and reap it. */
void unpack_child_done(struct unpack_child *c);

#define AUTO_CHILD CLEANUP(unpack_child_done)

/* ------------------------------------------------------------- unpack_name.c */

/*
 * A name of an archive, made clean: no leading, trailing or double slashes, no
 * ".". "" is the root. -EBADMSG for "..", and what is too long or too deep.
 */
int unpack_clean_name(const char *name, size_t depth_max, char ret[4096],
		      struct warren_error *err);

/* One component more; -ENAMETOOLONG. */
int unpack_add_part(char name[4096], size_t *len, const char *part, size_t n);

/*
 * The directory that the clean name @name leads to below @root, with no links on its
 * way or at its end: those of the tree are followed as if @root were "/". What does
 * not exist is no link. -ELOOP, -ENAMETOOLONG.
 */
int unpack_resolve_name(int root, const char *name, char ret[4096]);

/* ------------------------------------------------------------- unpack_tree.c */

struct unpack_meta {
	mode_t mode; /* permissions and set-id bits */
	uid_t uid;
	gid_t gid;
	struct timespec mtime;
};

/* A directory's time, to be set once nothing more is made in it. */
struct unpack_late {
	struct timespec mtime;
	size_t name; /* where in names */
};

struct unpack_tree {
	int root;
	bool own_ids;
	uint64_t made, made_max;
	/* The directory that was used last, and its name; -1 when none. */
	int dir;
	char dir_name[4096];
	char *names; /* of late, one after the other */
	size_t names_len, names_cap;
	struct unpack_late *late;
	size_t n_late, late_cap;
};

int unpack_tree_init(struct unpack_tree *t, int root, const struct unpack_rules *rules);
void unpack_tree_done(struct unpack_tree *t);

int unpack_tree_dir(struct unpack_tree *t, const char *name,
		    const struct unpack_meta *meta, int *ret_fd,
		    struct warren_error *err);
/* An empty file, open for writing. */
int unpack_tree_file(struct unpack_tree *t, const char *name, mode_t mode, int *ret_fd,
		     struct warren_error *err);
int unpack_tree_symlink(struct unpack_tree *t, const char *name, const char *target,
			const struct unpack_meta *meta, struct warren_error *err);
int unpack_tree_fifo(struct unpack_tree *t, const char *name,
		     const struct unpack_meta *meta, struct warren_error *err);
int unpack_tree_hardlink(struct unpack_tree *t, const char *name, const char *target,
			 struct warren_error *err);
/* Hide @name of lower layers; what this layer has there stays. */
int unpack_tree_whiteout(struct unpack_tree *t, const char *name,
			 struct warren_error *err);
/* Hide everything that lower layers have in the directory @name. */
int unpack_tree_opaque(struct unpack_tree *t, const char *name, struct warren_error *err);

/* Owner, mode and time of what is open as @fd. */
int unpack_apply(const struct unpack_tree *t, int fd, const struct unpack_meta *meta);
/* The times of directories, at the very end. */
int unpack_tree_settle(struct unpack_tree *t, struct warren_error *err);

#endif /* IMAGE_UNPACK_INTERNAL_H */
