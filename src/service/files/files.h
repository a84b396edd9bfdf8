/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.h - the files of a sandbox, as one of its users
 *
 * A worker of the sandbox's init carries out all requests inside the sandbox. It resolves
 * paths with the privileges of the user; the service never resolves them. A path is
 * absolute, without "." and ".."; or it is relative to an open directory, and cannot lead
 * out of it.
 *
 *	files_begin(sandbox, "1000", begun, ctx);
 *	files_open(f, -1, "/work", O_RDONLY | O_DIRECTORY, 0, opened, ctx);
 *	files_scan(f, dir, scanned, ctx);
 *	files_end(f);
 *
 * Each function calls its callback once: later from the loop, or immediately if the
 * request cannot be made. A request is carried out even if files_end() is called first;
 * then its callback is not called.
 *
 *	files.c			makes requests; core/file_worker.c selects the worker
 *	walk.c			walks a tree, directory by directory
 *	file_tree_ops.c		changes a whole tree
 *	file_target.c		finds where to write a file; follows links
 *	file_resolve.c		finds what a path leads to
 *	file_owner.c		finds the ids of a user
 *	watch.c			reports changes
 *	search.c		searches names and contents
 */
#ifndef SERVICE_FILES_FILES_H
#define SERVICE_FILES_FILES_H

#include "proto/init_proto.h"
#include "service/core/service.h"

struct files;

extern const struct service_module files_hooks;

void files_begin(struct sandbox *sandbox, const char *user,
		 void (*fn)(void *ctx, struct files *f, const struct warren_error *err),
		 void *ctx);
struct files *files_end(struct files *f);
/* It may last for long, like a watch: a hibernation does not wait for its end. */
void files_last(struct files *f);
struct service *files_service(const struct files *f);
/* Get the tenant of the sandbox; NULL: the sandbox is gone. */
const char *files_tenant(const struct files *f);
struct net_loop *files_loop(const struct files *f);
/*
 * Reserve descriptors for @n open directories, in addition to those of every struct
 * files. -EUSERS: too many.
 */
int files_need(struct files *f, uint64_t n, struct warren_error *err);
/* NULL: the sandbox is gone. */
struct sandbox *files_sandbox(const struct files *f);
uint32_t files_uid(const struct files *f);
/*
 * Return whether files_open() returns a copy of the file. Then it has a different inode,
 * and written data reaches the file only with the next request that names the file; that
 * request reports errors.
 */
bool files_are_copies(const struct files *f);

/* The reply of init. The entries are valid until the callback returns. */
struct files_answer {
	int fd; /* descriptor from files_open(); the callback must close it; -1: none */
	int events; /* socket from files_notify(); the callback must close it; -1: none */
	uint32_t value;
	const char *entries;
	size_t size;
};

typedef void (*files_fn)(void *ctx, struct files_answer *a,
			 const struct warren_error *err);

/*
 * Errors of the following requests say "@what '@name'" instead of the request's path. For
 * temporary paths that a client does not know.
 */
void files_call(struct files *f, const char *what, const char *name);
/* @dir is -1 for an absolute path. */
void files_open(struct files *f, int dir, const char *path, int flags, unsigned mode,
		files_fn fn, void *ctx);
/* Describe the file at a path, as one entry without a name. */
void files_stat(struct files *f, int dir, const char *path, bool follow, files_fn fn,
		void *ctx);
/*
 * The same, and an entry for each attribute of the file whose name begins with "user.":
 * see PROTO_SCAN_ATTRIBUTES.
 */
void files_stat_attributes(struct files *f, const char *path, files_fn fn, void *ctx);
/*
 * Read the next entries of a directory; there are none at the end. @marks: mark those
 * that have such attributes.
 */
void files_scan(struct files *f, int dir, bool marks, files_fn fn, void *ctx);

struct files_change {
	enum proto_verb verb;
	uint32_t flags; /* PROTO_CHANGE_* */
	uint32_t mode, owner, group;
	int64_t mtime_sec;
	uint32_t mtime_nsec;
	int dir, to;       /* dir -1: absolute paths; to -1: the same as `dir` */
	const char *names; /* NUL-terminated, back to back */
	size_t size;       /* at most FILES_NAMES_MAX */
	uint32_t n;
};

#define FILES_NAMES_MAX (PROTO_MESSAGE_MAX - sizeof(struct proto_change))
/* Maximum number of names in one request, because other requests wait for it. */
#define FILES_BATCH 512

void files_change(struct files *f, const struct files_change *change, files_fn fn,
		  void *ctx);
/* Like files_change(), for one path, or for a pair of paths (if @second is not NULL). */
void files_change_one(struct files *f, struct files_change change, const char *path,
		      const char *second, files_fn fn, void *ctx);
/*
 * An inotify instance that a worker creates, and a socket for its events. The service
 * does not read the instance itself, because a process inside could make it block.
 */
void files_notify(struct files *f, files_fn fn, void *ctx);
/* Add a watch to the inotify instance @notify; the answer's value is its number. */
void files_add_watch(struct files *f, int notify, const char *path, uint32_t mask,
		     files_fn fn, void *ctx);
/*
 * Return whether workers do everything, inside the sandbox's memory limit
 * (agent/init/file_worker.c). Then writes must use files_write(), which appends @n bytes
 * to the earlier writes to @fd. -errno: @fn is not called. After a failed write of a
 * @stream (0: none), a PUT of that stream (`mode`) fails too.
 */
bool files_have_workers(const struct files *f);
int files_write(struct files *f, int fd, uint32_t stream, const void *data, size_t n,
		files_fn fn, void *ctx, struct warren_error *err);
/*
 * Memory that a worker can read. Each call returns the same memory until the caller
 * passes it to files_write() as @data; then the data is not copied. *@size is the
 * expected number of bytes, and becomes the number that fits. NULL: there is no such
 * memory, or the data is too small for it.
 */
char *files_room(struct files *f, size_t *size);
/*
 * Create a directory and its missing parents; the answer's value is not 0 if the
 * directory did not exist.
 */
void files_make_dirs(struct files *f, const char *path, unsigned mode, files_fn fn,
		     void *ctx);

/* Find the ids of a user, as an exec would have them. @fn is called even on failure. */
void files_find_owner(struct files *f, const char *user,
		      void (*fn)(void *ctx, uint32_t uid, uint32_t gid,
				 const struct warren_error *err),
		      void *ctx);

/* Remove redundant slashes: "/a//b/" becomes "/a/b". */
void files_tidy(char *path);

/* ---------------------------------------------------------------------- walk.c */

struct walk;

struct walk_entry {
	int dir;          /* the directory that holds it */
	const char *path; /* the whole path */
	const char *name;
	const struct proto_found *found;
	unsigned depth; /* 1: in the directory where the walk started */
};

enum walk_say {
	WALK_ON,   /* continue, and enter the entry if it is a directory */
	WALK_PAST, /* continue, but do not enter the entry */
	WALK_WAIT, /* wait for walk_go_on(), which may be called from the callback */
	WALK_STOP,
};

struct walk_options {
	unsigned depth; /* 0: no limit, up to WALK_DEPTH_MAX */
	/*
	 * Sort by name, with at most this many entries per directory; 0: all entries,
	 * unsorted.
	 */
	unsigned sorted;
	bool whole;    /* a sorted directory with more entries fails with E2BIG */
	bool nofollow; /* do not follow a link at the end of the path */
	bool marks;    /* mark files with attributes: see files_scan() */
	bool strict;   /* stop at a directory that cannot be read */
	/*
	 * Called for each batch of a directory's entries, before any of them is entered.
	 */
	enum walk_say (*batch)(void *ctx, int dir, const char *path, const char *entries,
			       size_t size);
	enum walk_say (*entry)(void *ctx, const struct walk_entry *e);
	enum walk_say (*leave)(void *ctx, const struct walk_entry *e);
	/* Called when a directory cannot be read and is skipped; may be NULL. */
	void (*unread)(void *ctx);
	/* The walk has ended and is freed. */
	void (*end)(void *ctx, int r, const struct warren_error *err);
};

#define WALK_DEPTH_MAX 256

/* Walk the tree below the directory @path; @path itself is not reported. */
void walk_start(struct files *f, const char *path, const struct walk_options *options,
		void *ctx, struct walk **ret);
void walk_go_on(struct walk *w, enum walk_say say);
/* The directory where the walk started; -1: not opened yet. */
int walk_root(const struct walk *w);
/* Does not call end(). */
struct walk *walk_free(struct walk *w);

/* ---------------------------------------------------------------------- file_tree_ops.c
 */

/*
 * UNLINK and RMDIR (first the whole tree, then @path itself), CHMOD or CHOWN the tree at
 * @path.
 */
struct tree_job;
void tree_change(struct files *f, const char *path, const struct files_change *change,
		 service_done_fn done, void *ctx, struct tree_job **ret);
struct tree_job *tree_free(struct tree_job *t);

/* --------------------------------------------------------------------- file_target.c */

/* The target of a write. */
struct file_target {
	int dir;         /* the directory; the caller closes it */
	char name[256];  /* name in the directory */
	char path[4096]; /* the whole path, with links resolved */
	bool exists;
	struct proto_entry is; /* attributes of the target, if it exists */
};

struct file_target_op;
/* Find the target. Follows links; creates missing directories if @parents is set. */
void file_target_find(struct files *f, const char *path, bool parents,
		      void (*done)(void *ctx, struct file_target *p,
				   const struct warren_error *err),
		      void *ctx, struct file_target_op **ret);
struct file_target_op *file_target_free(struct file_target_op *j);

/* -------------------------------------------------------------------- file_resolve.c */

/* What a path leads to. */
struct file_resolved {
	char path[4096]; /* absolute; no name in it is a link */
	bool exists;     /* otherwise, only the last name does not exist */
	struct proto_entry is;
};

struct file_resolve_op;
/* Follow all links of the path, like realpath(3). ELOOP: there are too many. */
void file_resolve(struct files *f, const char *path,
		  void (*done)(void *ctx, const struct file_resolved *r,
			       const struct warren_error *err),
		  void *ctx, struct file_resolve_op **ret);
struct file_resolve_op *file_resolve_free(struct file_resolve_op *op);

#endif /* SERVICE_FILES_FILES_H */
