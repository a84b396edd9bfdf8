/* SPDX-License-Identifier: Apache-2.0 */
/* unpack_internal.h - definitions that the unpacking processes share */
#ifndef IMAGE_UNPACK_INTERNAL_H
#define IMAGE_UNPACK_INTERNAL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/error.h"
#include "image/unpack.h"

struct pollfd;

#define UNPACK_BLOCK  (256U << 10) /* bytes read, hashed and written at once */
#define UNPACK_PIPE   (1U << 20)   /* size of the pipe between two processes */
#define UNPACK_STALL  120000       /* time without progress before giving up, in ms */
#define UNPACK_IDS    65536U       /* ids of a sandbox, and so of a layer */
#define UNPACK_NOBODY 65534U       /* owner of files with any other id */

/* Maximum numbers of these: */
#define UNPACK_DEPTH 1024 /* maximum number of directories in a name */
/* Maximum length of a component: ".wh." and a name of 255 bytes. */
#define UNPACK_PART_MAX 259
/* Maximum number of links followed for one name, as in the kernel. */
#define UNPACK_FOLLOWED 40
/* Maximum number of components followed, including those of links. */
#define UNPACK_STEPS 4096
#define UNPACK_LINKS 4096 /* maximum number of symbolic links in a spooled archive */
/* Maximum number of directories in a name of a spooled archive. */
#define UNPACK_SPOOL   8
#define UNPACK_SPOOLED 65536 /* maximum number of members of a spooled archive */

/*
 * The range of 65,536 host ids for unpacking processes that root starts. No other process
 * has these ids: ranges of sandboxes start at 0x10000000, directly above. All concurrent
 * unpacking processes can share this range: each has its own user and pid namespace, from
 * which it cannot reach other processes. No file on disk has an id from the range,
 * because the directory is accessed through an id-mapped mount.
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

/* Detect the format by the first bytes; UNPACK_PLAIN if it is unknown. */
enum unpack_format unpack_sniff(const void *data, size_t n);
#define UNPACK_SNIFF 6 /* number of bytes that unpack_sniff() needs */

/* Rules for the untar process. */
struct unpack_rules {
	bool spool;   /* an outer archive: plain files only, see unpack_spool() */
	bool overlay; /* translate whiteouts; otherwise refuse them */
	bool own_ids; /* keep ids and set-id bits */
	uint64_t entries_max;
};

/* A child's final report, in one message. Only the size of the message is trusted. */
struct unpack_report {
	uint64_t entries, skipped, remapped;
	struct warren_error err; /* code 0: success */
};

/*
 * The main functions of the two children: decompress @in to @out, and untar @in into
 * @root.
 */
int unpack_inflate(int in, int out, struct warren_error *err);
int unpack_untar(int in, int root, const struct unpack_rules *rules,
		 struct unpack_report *ret, struct warren_error *err);
/* Load data now that the C library would later read from files of the archive. */
void unpack_warm_up(void);

/* Call poll(2), restart it after signals, and check @watch regularly (-ECANCELED). */
int unpack_poll(struct pollfd *fds, size_t n, int ms, const struct unpack_watch *watch,
		struct warren_error *err);

/* ------------------------------------------------------------ unpack_child.c */

struct unpack_child {
	const char *name; /* "decompress" */
	pid_t pid;        /* 0: there is none */
	int pidfd;
	int control; /* connection: sends mounts, receives the report */
};

#define UNPACK_CHILD_INIT                  \
	{                                  \
		.pidfd = -1, .control = -1 \
	}

/*
 * The job of a child. @dir < 0: it decompresses, in an empty root; otherwise it untars.
 */
struct unpack_job {
	const char *name;
	int in, out, dir;
	const struct unpack_rules *rules;
};

/*
 * Return whether this process may map a range of ids, and can thus keep the ids of an
 * archive.
 */
bool unpack_own_ids(void);
int unpack_child_start(const struct unpack_job *job, struct unpack_child *ret,
		       struct warren_error *err);
/* Wait for the child's report. -EPIPE: it died without one. */
int unpack_child_finish(struct unpack_child *c, const struct unpack_watch *watch,
			struct unpack_report *ret, struct warren_error *err);
/* Kill the child if it still runs, and reap it. */
void unpack_child_done(struct unpack_child *c);

#define AUTO_CHILD CLEANUP(unpack_child_done)

/* ------------------------------------------------------------- unpack_name.c */

/*
 * Normalise a name of an archive: no leading, trailing or double slashes, no ".". "" is
 * the root. -EBADMSG for "..", and for names that are too long or too deep.
 */
int unpack_clean_name(const char *name, size_t depth_max, char ret[4096],
		      struct warren_error *err);

/* Append one component; -ENAMETOOLONG: the name gets too long. */
int unpack_add_part(char name[4096], size_t *len, const char *part, size_t n);

/*
 * Resolve all symbolic links in the normalised name @name below @root, as if @root were
 * "/". Components that do not exist are kept. -ELOOP: there are too many links;
 * -ENAMETOOLONG: the name gets too long.
 */
int unpack_resolve_name(int root, const char *name, char ret[4096]);

/* ------------------------------------------------------------- unpack_tree.c */

struct unpack_meta {
	mode_t mode; /* permissions and set-id bits */
	uid_t uid;
	gid_t gid;
	struct timespec mtime;
};

/* The time of a directory, which is set after its last entry is created. */
struct unpack_late {
	struct timespec mtime;
	size_t name; /* offset in `names` */
};

struct unpack_tree {
	int root;
	bool own_ids;
	uint64_t made, made_max;
	/* The directory that was used last, and its name; -1: none. */
	int dir;
	char dir_name[4096];
	char *names; /* the names that `late` refers to, one after the other */
	size_t names_len, names_cap;
	struct unpack_late *late;
	size_t n_late, late_cap;
};

int unpack_tree_init(struct unpack_tree *t, int root, const struct unpack_rules *rules);
void unpack_tree_done(struct unpack_tree *t);

int unpack_tree_dir(struct unpack_tree *t, const char *name,
		    const struct unpack_meta *meta, int *ret_fd,
		    struct warren_error *err);
/* Create an empty file and open it for writing. */
int unpack_tree_file(struct unpack_tree *t, const char *name, mode_t mode, int *ret_fd,
		     struct warren_error *err);
int unpack_tree_symlink(struct unpack_tree *t, const char *name, const char *target,
			const struct unpack_meta *meta, struct warren_error *err);
int unpack_tree_fifo(struct unpack_tree *t, const char *name,
		     const struct unpack_meta *meta, struct warren_error *err);
int unpack_tree_hardlink(struct unpack_tree *t, const char *name, const char *target,
			 struct warren_error *err);
/* Hide @name in lower layers; an entry of this layer stays visible. */
int unpack_tree_whiteout(struct unpack_tree *t, const char *name,
			 struct warren_error *err);
/* Hide all entries of lower layers in the directory @name. */
int unpack_tree_opaque(struct unpack_tree *t, const char *name, struct warren_error *err);

/* Set owner, mode and time of @fd. */
int unpack_apply(const struct unpack_tree *t, int fd, const struct unpack_meta *meta);
/* Set the times of directories, at the very end. */
int unpack_tree_settle(struct unpack_tree *t, struct warren_error *err);

#endif /* IMAGE_UNPACK_INTERNAL_H */
