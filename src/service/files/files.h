/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.h - the files of a sandbox, as one of its users
 *
 * A worker of the sandbox's init does all of this inside: it resolves a path there, with
 * the rights of the user; the service never does. A path is absolute, without "." and
 * ".."; or it is relative to an open directory, and cannot lead out of it.
 *
 *	files_begin(sandbox, "1000", begun, ctx);
 *	files_open(f, -1, "/work", O_RDONLY | O_DIRECTORY, 0, opened, ctx);
 *	files_scan(f, dir, scanned, ctx);
 *	files_end(f);
 *
 * Each function answers later, once, from the loop; or immediately if the request cannot
 * be made. A request is carried out even if files_end() comes first; then it has no
 * answer.
 *
 *	files.c			makes requests; core/file_worker.c selects the worker
 *	walk.c			walks a tree, directory by directory
 *	file_tree_ops.c		changes a whole tree
 *	file_target.c		where to write a file: follows links, creates directories
 *	watch.c			reports changes
 *	search.c		searches names and contents
 */
#ifndef SERVICE_FILES_FILES_H
#define SERVICE_FILES_FILES_H

#include "proto/init_proto.h"
#include "service/core/service.h"

struct files;

extern const struct service_room files_hooks;

void files_begin(struct sandbox *sandbox, const char *user,
		 void (*fn)(void *ctx, struct files *f, const struct warren_error *err),
		 void *ctx);
struct files *files_end(struct files *f);
struct service *files_service(const struct files *f);
/* The tenant of the sandbox; NULL: the sandbox is gone. */
const char *files_tenant(const struct files *f);
struct net_loop *files_loop(const struct files *f);
/*
 * Reserve descriptors for @n open directories, besides those of any use of files;
 * -EUSERS: too many.
 */
int files_need(struct files *f, uint64_t n, struct warren_error *err);
/* NULL: it is gone. */
struct sandbox *files_sandbox(const struct files *f);
uint32_t files_uid(const struct files *f);
/*
 * What files_open() passes on is a copy: the inode is not the file's own, and what is
 * written arrives, or fails to, with the next request that names the file.
 */
bool files_are_copies(const struct files *f);

/* What init said. Entries are good until the callback returns. */
struct files_answer {
	int fd;     /* of files_open(), the callback's to close; -1 */
	int events; /* of files_notify(), the same */
	uint32_t value;
	const char *entries;
	size_t size;
};

typedef void (*files_fn)(void *ctx, struct files_answer *a,
			 const struct warren_error *err);

/*
 * Errors of the next requests say "@what '@name'", whatever paths these have: for
 * temporary paths that a client does not know.
 */
void files_call(struct files *f, const char *what, const char *name);
/* @dir is -1 for an absolute path. */
void files_open(struct files *f, int dir, const char *path, int flags, unsigned mode,
		files_fn fn, void *ctx);
/* What is at a path: one entry, without a name. */
void files_stat(struct files *f, int dir, const char *path, bool follow, files_fn fn,
		void *ctx);
/* The next entries of a directory; none at the end. */
void files_scan(struct files *f, int dir, files_fn fn, void *ctx);

struct files_change {
	enum proto_verb verb;
	uint32_t flags; /* PROTO_CHANGE_* */
	uint32_t mode, owner, group;
	int64_t mtime_sec;
	uint32_t mtime_nsec;
	int dir, to;       /* -1: paths are absolute; and as `dir` */
	const char *names; /* each with its NUL, back to back */
	size_t size;       /* at most FILES_NAMES_MAX */
	uint32_t n;
};

#define FILES_NAMES_MAX (PROTO_MESSAGE_MAX - sizeof(struct proto_change))
#define FILES_BATCH     512 /* names in one request, because other requests wait for it */

void files_change(struct files *f, const struct files_change *change, files_fn fn,
		  void *ctx);
/* The same for one path, or a pair of them (@second: not NULL). */
void files_change_one(struct files *f, struct files_change change, const char *path,
		      const char *second, files_fn fn, void *ctx);
/*
 * An inotify instance that a worker creates, and a socket for its events. The service
 * does not read the instance itself, because a process inside could make it block.
 */
void files_notify(struct files *f, files_fn fn, void *ctx);
/* By the inotify @notify; the answer's value is the watch. */
void files_add_watch(struct files *f, int notify, const char *path, uint32_t mask,
		     files_fn fn, void *ctx);
/*
 * Whether workers do everything, inside the sandbox's memory limit
 * (agent/init/file_worker.c). Then files_write() must be used for writing: it appends @n
 * bytes to what was written to @fd before. -errno: @fn is not called. After a failed
 * write of a @stream (0: none), a PUT of that stream (`mode`) fails too.
 */
bool files_have_workers(const struct files *f);
int files_write(struct files *f, int fd, uint32_t stream, const void *data, size_t n,
		files_fn fn, void *ctx, struct warren_error *err);
/*
 * Memory that a worker can read. It is the same at each call until files_write() is
 * called with its beginning as @data, which is then not copied again. *@size: in, how
 * much is to come; out, how much fits. NULL: there is none, or it is not worth it.
 */
char *files_room(struct files *f, size_t *size);
/* mkdir -p; the value is not 0 if the last one was made. */
void files_make_dirs(struct files *f, const char *path, unsigned mode, files_fn fn,
		     void *ctx);

/* The ids of a user as an exec has them; @fn is called in any case. */
void files_find_owner(struct files *f, const char *user,
		      void (*fn)(void *ctx, uint32_t uid, uint32_t gid,
				 const struct warren_error *err),
		      void *ctx);

/* "/a//b/" to "/a/b". */
void files_tidy(char *path);

/* ---------------------------------------------------------------------- walk.c */

struct walk;

struct walk_entry {
	int dir;          /* that holds it */
	const char *path; /* all of it */
	const char *name;
	const struct proto_found *found;
	unsigned depth; /* 1: in the directory where the walk began */
};

enum walk_say {
	WALK_ON,   /* and into it, if it is a directory */
	WALK_PAST, /* not into it */
	WALK_WAIT, /* until walk_go_on() says which; it may be called from within */
	WALK_STOP,
};

struct walk_options {
	unsigned depth;  /* 0: whatever there is, up to WALK_DEPTH_MAX */
	unsigned sorted; /* by name, at most so many of a directory; 0: as they come, and
			    all */
	bool nofollow;   /* a link at the end of the path is no directory */
	bool strict;     /* a directory that cannot be read ends the walk */
	/*
	 * Called for each batch of a directory's entries, before any of them is entered.
	 */
	enum walk_say (*batch)(void *ctx, int dir, const char *path, const char *entries,
			       size_t size);
	enum walk_say (*entry)(void *ctx, const struct walk_entry *e);
	enum walk_say (*leave)(void *ctx, const struct walk_entry *e);
	/* The walk is over, and freed. */
	void (*end)(void *ctx, int r, const struct warren_error *err);
};

#define WALK_DEPTH_MAX 256

/* Walk the tree below the directory @path; @path itself is not reported. */
void walk_start(struct files *f, const char *path, const struct walk_options *options,
		void *ctx, struct walk **ret);
void walk_go_on(struct walk *w, enum walk_say say);
/* The directory where it began; -1: not yet. */
int walk_root(const struct walk *w);
/* Does not call end(). */
struct walk *walk_free(struct walk *w);

/* ---------------------------------------------------------------------- file_tree_ops.c
 */

/*
 * UNLINK and RMDIR (the whole tree, then @path itself), CHMOD or CHOWN of the tree at
 * @path.
 */
struct tree_job;
void tree_change(struct files *f, const char *path, const struct files_change *change,
		 service_done_fn done, void *ctx, struct tree_job **ret);
struct tree_job *tree_free(struct tree_job *t);

/* --------------------------------------------------------------------- file_target.c */

/* Where to write a file. */
struct place {
	int dir;         /* the directory; the caller's to close */
	char name[256];  /* in it */
	char path[4096]; /* of all, after links */
	bool exists;
	struct proto_entry is; /* if it exists */
};

struct place_job;
/* Follows links; creates missing directories if @parents. */
void place_find(struct files *f, const char *path, bool parents,
		void (*done)(void *ctx, struct place *p, const struct warren_error *err),
		void *ctx, struct place_job **ret);
struct place_job *place_free(struct place_job *j);

#endif /* SERVICE_FILES_FILES_H */
