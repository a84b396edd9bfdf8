/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - file operations in a sandbox, as one of its users */
#include "service/files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/list.h"
#include "service/core/undo.h"
#include "service/files/internal.h"

/* The number of descriptors of a request: a file, its directory, and copies of them. */
#define FILES_DESCRIPTORS 4

/*
 * Up to this size, data is part of the message; up to PIECE_SIZE, it is in a file that is
 * reused for later writes; larger data has its own file. Such a file is never shared
 * between two sandboxes, because a worker can read its old contents.
 */
#define WRITE_INLINE_MAX 16384
#define PIECE_SIZE       ((size_t)256 << 10)
#define PIECES           2

struct files {
	struct sandbox *sandbox; /* NULL: the sandbox is gone */
	struct net_loop *loop;
	struct files *next, **prev;
	struct service *service;
	struct fair_quota_lease descriptors;
	struct initclient_user user;
	struct files_ask *asks;   /* unanswered requests */
	struct create_op *making; /* directories that are being created; NULL: none */
	char called[64];          /* name for error messages; "": use the path */
	int pieces;               /* a memfd with data that is being written; -1: none */
	char *room;               /* the memfd, mapped; NULL: not mapped */
	unsigned pieces_busy;     /* bit mask of the PIECES in use */
	unsigned filling;    /* 1 + the number of the piece that files_room() returned; 0:
				none */
	unsigned piece_next; /* bit of the piece that the next request needs; 0: none */
	int large_next;      /* a separate memfd; -1: none */
	bool lasts;          /* it may last: a hibernation does not wait for it */
};

struct files_ask {
	struct files *files; /* NULL: no callback */
	struct files_ask *next, **prev;
	bool in_worker;
	unsigned piece; /* bit of its piece in files->pieces; 0: none */
	int large;      /* a separate memfd; -1: none */
	char what[64];  /* for errors */
	files_fn fn;
	void *ctx;
};

/* ---------------------------------------------------- start of a sequence of requests */

struct beginning {
	struct sandbox *sandbox;
	bool awake;
	char *user;
	void (*fn)(void *ctx, struct files *f, const struct warren_error *err);
	void *ctx;
};

static void files_begun(struct beginning *b, struct files *f,
			const struct warren_error *err)
{
	if (b->awake)
		sandbox_end_brief(b->sandbox);
	b->fn(b->ctx, f, err);
	free(b->user);
	free(b);
}

static void files_on_user(void *ctx, const struct initclient_user *user,
			  const struct warren_error *failure)
{
	struct beginning *b = ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	struct files *f = failure && !user ? NULL : calloc(1, sizeof(*f));

	if (!f) {
		(void)error_errno(&err, ENOMEM, "inspect the sandbox");
		files_begun(b, NULL, user ? &err : failure);
		return;
	}
	*f = (struct files){ .sandbox = b->sandbox,
			     .service = b->sandbox->service,
			     .loop = b->sandbox->service->loop,
			     .user = *user,
			     .pieces = -1,
			     .large_next = -1 };
	if (lease_take(f->service, LEASE_DESCRIPTORS, b->sandbox->row.owner,
		       FILES_DESCRIPTORS, &f->descriptors, &err) < 0) {
		free(f);
		files_begun(b, NULL, &err);
		return;
	}
	DLIST_PUSH(sandbox_files(b->sandbox)->list, f);
	sandbox_begin_brief(b->sandbox);
	files_begun(b, f, NULL);
}

static void files_on_awake(void *ctx, int r, const struct warren_error *err)
{
	struct beginning *b = ctx;

	if (r < 0) {
		files_begun(b, NULL, err);
		return;
	}
	b->awake = true;
	sandbox_begin_brief(b->sandbox);
	sandbox_find_user(b->sandbox, b->user, files_on_user, b);
}

void files_begin(struct sandbox *sandbox, const char *user,
		 void (*fn)(void *ctx, struct files *f, const struct warren_error *err),
		 void *ctx)
{
	struct beginning *b = calloc(1, sizeof(*b));
	struct warren_error err = WARREN_ERROR_INIT;

	if (b && user)
		b->user = strdup(user);
	if (!b || (user && !b->user)) {
		free(b);
		(void)error_errno(&err, ENOMEM, "inspect the sandbox");
		fn(ctx, NULL, &err);
		return;
	}
	b->sandbox = sandbox;
	b->fn = fn;
	b->ctx = ctx;
	sandbox_use(sandbox, files_on_awake, b);
}

static void leave_sandbox(struct files *f)
{
	struct sandbox *sandbox = f->sandbox;

	if (!sandbox)
		return;
	DLIST_REMOVE(f);
	f->sandbox = NULL;
	if (!f->lasts)
		sandbox_end_brief(sandbox);
}

void files_last(struct files *f)
{
	if (f->sandbox && !f->lasts)
		sandbox_end_brief(f->sandbox);
	f->lasts = true;
}

/* Truncate the file, even if other processes have it open, because its pages are the
 * service's memory. */
static void drop_large(int fd)
{
	int r UNUSED; /* cannot fail, because no process can seal it */

	if (fd < 0)
		return;
	r = ftruncate(fd, 0);
	(void)close(fd);
}

/*
 * Open a memfd for PIECES, and seal its size: a process inside that could truncate it
 * would kill the service, which maps it, with SIGBUS.
 */
static int pieces_open(struct files *f)
{
	AUTO_CLOSE int fd = -1;

	if (f->pieces >= 0)
		return 0;
	fd = memfd_create("warren-write", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, PIECES * PIECE_SIZE) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	f->pieces = TAKE_FD(fd);
	return 0;
}

static void pieces_close(struct files *f)
{
	int r UNUSED; /* cannot fail, because no process can seal it */

	if (f->pieces < 0)
		return;
	if (f->room)
		(void)munmap(f->room, PIECES * PIECE_SIZE);
	f->room = NULL;
	r = fallocate(f->pieces, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		      PIECES * PIECE_SIZE);
	(void)close(TAKE_FD(f->pieces));
}

struct files *files_end(struct files *f)
{
	if (!f)
		return NULL;
	for (struct files_ask *a = f->asks; a; a = a->next)
		a->files = NULL;
	leave_sandbox(f);
	pieces_close(f);
	drop_large(f->large_next);
	lease_end(f->service, LEASE_DESCRIPTORS, &f->descriptors);
	free(f->making);
	free(f);
	return NULL;
}

struct service *files_service(const struct files *f)
{
	return f->service;
}

const char *files_tenant(const struct files *f)
{
	return f->sandbox ? f->sandbox->row.owner : NULL;
}

void files_sandbox_gone(struct sandbox *sandbox)
{
	while (sandbox_files(sandbox)->list)
		leave_sandbox(sandbox_files(sandbox)->list);
}

int files_need(struct files *f, uint64_t n, struct warren_error *err)
{
	if (FILES_DESCRIPTORS + n <= f->descriptors.n)
		return 0;
	if (!f->sandbox)
		return error_set(err, ESTALE, "the sandbox is gone");
	/* Take several more at a time, because a tree has many levels. */
	return lease_take(f->service, LEASE_DESCRIPTORS, f->sandbox->row.owner,
			  FILES_DESCRIPTORS + n + 8, &f->descriptors, err);
}

void files_held(const struct sandbox *sandbox, struct sandbox_held *sum)
{
	for (const struct files *f = sandbox_files(sandbox)->list; f; f = f->next)
		sum->descriptors += f->descriptors.n;
}

struct net_loop *files_loop(const struct files *f)
{
	return f->loop;
}

struct sandbox *files_sandbox(const struct files *f)
{
	return f->sandbox;
}

bool files_are_copies(const struct files *f)
{
	return f->sandbox && f->sandbox->is.base.framed && !f->sandbox->is.base.direct;
}

uint32_t files_uid(const struct files *f)
{
	return f->user.uid;
}

/* ---------------------------------------------------------------------- requests */

static void unlink_ask(struct files_ask *a)
{
	if (a->files)
		DLIST_REMOVE(a);
}

static void files_answered(struct files_ask *a, struct files_answer *answer,
			   const struct warren_error *err)
{
	unlink_ask(a);
	drop_large(a->large);
	if (a->files)
		a->files->pieces_busy &= ~a->piece;
	if (a->files)
		a->fn(a->ctx, err ? NULL : answer, err);
	/*
	 * Close a descriptor that was not taken: there is no callback, or the descriptor
	 * was not requested.
	 */
	if (answer && answer->fd >= 0)
		(void)close(answer->fd);
	if (answer && answer->events >= 0)
		(void)close(answer->events);
	free(a);
}

static void files_on_answer(void *ctx, struct init_reply *a,
			    const struct warren_error *failure)
{
	struct files_ask *ask = ctx;
	struct files_answer answer = { .fd = -1, .events = -1 };
	struct warren_error err = WARREN_ERROR_INIT;
	int code = 0;

	if (!failure && a->m.h.type == PROTO_REPLY) {
		code = reply_code(&a->m.reply);
		if (code == 0 && a->n_fds == 2) {
			answer.fd = TAKE_FD(a->fds[0]);
			answer.events = TAKE_FD(a->fds[1]);
		} else if (code == 0) {
			answer.fd = init_reply_take_only(a);
		}
		answer.value = a->m.reply.value;
	} else if (!failure && a->m.h.type == PROTO_ENTRIES) {
		answer.entries = a->entries;
		answer.size = a->entries_size;
	} else if (!failure) {
		code = EPROTO;
	}
	/*
	 * The process that handled the request is gone. For a file, EAGAIN would mean
	 * that its path was changing, so report another error.
	 */
	if (failure && failure->code == EAGAIN) {
		err = *failure;
		err.code = ECONNRESET;
		failure = &err;
	}
	/* A worker uses the memory of the sandbox, so the sandbox's limit was reached. */
	if (code == ENOMEM && ask->in_worker)
		(void)error_set(&err, ENOBUFS,
				"%s: the sandbox does not have enough memory", ask->what);
	else if (code && !failure && a->m.h.type == PROTO_REPLY)
		(void)reply_refuse(a, &err, "%s", ask->what);
	else if (code)
		(void)error_errno(&err, code, "%s", ask->what);
	files_answered(ask, &answer, failure ? failure : code ? &err : NULL);
}

void files_call(struct files *f, const char *what, const char *name)
{
	(void)snprintf(f->called, sizeof(f->called), "%s '%.40s%s'", what, name,
		       strlen(name) > 40 ? "..." : "");
}

/* Send the message with up to two descriptors, which the caller keeps. */
static void files_ask_worker(struct files *f, const void *msg, size_t size,
			     const int fds[2], const char *what, const char *path,
			     files_fn fn, void *ctx)
{
	struct files_ask *a = f->sandbox ? malloc(sizeof(*a)) : NULL;
	CLEANUP(init_request_done) struct init_request q = REQUEST_INIT;
	struct warren_error err = WARREN_ERROR_INIT;
	int r = 0;

	if (!f->sandbox) {
		(void)error_set(&err, ESTALE, "the sandbox is gone");
		fn(ctx, NULL, &err);
		return;
	}
	if (!a) {
		(void)error_errno(&err, ENOMEM, "%s", what);
		fn(ctx, NULL, &err);
		return;
	}
	*a = (struct files_ask){
		.files = f, .in_worker = f->sandbox->workers, .fn = fn, .ctx = ctx
	};
	a->piece = f->piece_next;
	a->large = TAKE_FD(f->large_next);
	f->piece_next = 0;
	if (!f->called[0])
		files_call(f, what, path);
	(void)memcpy(a->what, f->called, sizeof(a->what));
	f->called[0] = '\0';
	r = init_request_put(&q, msg, size, -1, &err);
	/*
	 * Duplicate the descriptors, because the request may wait longer than the caller
	 * keeps them.
	 */
	for (int i = 0; i < 2 && r == 0 && fds[i] >= 0; i++) {
		int copy = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);

		if (copy < 0) {
			r = error_errno(&err, errno, "%s", what);
			break;
		}
		q.theirs[q.n_theirs++] = copy;
		q.fds[q.n_fds++] = copy;
	}
	if (r < 0) {
		f->pieces_busy &= ~a->piece;
		drop_large(a->large);
		free(a);
		fn(ctx, NULL, &err);
		return;
	}
	DLIST_PUSH(f->asks, a);
	undo_note_request(f->sandbox, msg);
	/* A paused sandbox answers after it was resumed. */
	if (f->sandbox->row.state == SANDBOX_PAUSED)
		sandbox_use(f->sandbox, service_ignore, NULL);
	else
		sandbox_touch(f->sandbox);
	file_queue_ask(f->sandbox, f, &q, files_on_answer, a);
}

static void fill_who(const struct files *f, struct proto_who *who)
{
	who->uid = f->user.uid;
	who->gid = f->user.gid;
	who->n_groups =
		f->sandbox && f->sandbox->is.base.groups ? (uint32_t)f->user.n_groups : 0;
	(void)memcpy(who->groups, f->user.groups, sizeof(who->groups));
}

static bool path_fits(const char *path, size_t size, files_fn fn, void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;

	if (strlen(path) < size)
		return true;
	(void)error_errno(&err, ENAMETOOLONG, "'%.40s...'", path);
	fn(ctx, NULL, &err);
	return false;
}

void files_open(struct files *f, int dir, const char *path, int flags, unsigned mode,
		files_fn fn, void *ctx)
{
	struct proto_open msg = { .h = { .type = PROTO_OPEN },
				  .flags = flags,
				  .mode = mode };
	struct proto_who who = { 0 };

	if (!path_fits(path, sizeof(msg.path), fn, ctx))
		return;
	fill_who(f, &who);
	msg.uid = who.uid;
	msg.gid = who.gid;
	msg.n_groups = who.n_groups;
	(void)memcpy(msg.groups, who.groups, sizeof(msg.groups));
	(void)strcpy(msg.path, path);
	files_ask_worker(f, &msg, sizeof(msg), (int[]){ dir, -1 }, "open", path, fn, ctx);
}

static void files_ask_one(struct files *f, int dir, const char *path, uint32_t flags,
			  files_fn fn, void *ctx)
{
	struct proto_scan msg = { .h = { .type = PROTO_SCAN },
				  .flags = PROTO_SCAN_ONE | flags };

	if (!path_fits(path, sizeof(msg.path), fn, ctx))
		return;
	fill_who(f, &msg.who);
	(void)strcpy(msg.path, path);
	files_ask_worker(f, &msg, sizeof(msg), (int[]){ dir, -1 }, "inspect", path, fn,
			 ctx);
}

void files_stat(struct files *f, int dir, const char *path, bool follow, files_fn fn,
		void *ctx)
{
	files_ask_one(f, dir, path, follow ? PROTO_SCAN_FOLLOW : 0, fn, ctx);
}

void files_stat_attributes(struct files *f, const char *path, files_fn fn, void *ctx)
{
	files_ask_one(f, -1, path, PROTO_SCAN_ATTRIBUTES, fn, ctx);
}

void files_scan(struct files *f, int dir, bool marks, files_fn fn, void *ctx)
{
	struct proto_scan msg = { .h = { .type = PROTO_SCAN },
				  .flags = marks ? PROTO_SCAN_ATTRIBUTES : 0 };

	fill_who(f, &msg.who);
	files_ask_worker(f, &msg, sizeof(msg), (int[]){ dir, -1 }, "read", "a directory",
			 fn, ctx);
}

void files_change(struct files *f, const struct files_change *c, files_fn fn, void *ctx)
{
	static const char *const verbs[PROTO_VERB_MAX] = {
		[PROTO_MKDIR] = "create the directory",
		[PROTO_UNLINK] = "remove",
		[PROTO_RMDIR] = "remove the directory",
		[PROTO_CHMOD] = "change the mode of",
		[PROTO_CHOWN] = "change the owner of",
		[PROTO_UTIME] = "change the time of",
		[PROTO_RENAME] = "rename",
		[PROTO_SYMLINK] = "create a link to",
		[PROTO_LINK] = "create a hard link to",
		[PROTO_PUT] = "move into place",
		[PROTO_UNLINK_TREE] = "remove",
		[PROTO_CHMOD_TREE] = "change the mode of",
		[PROTO_CHOWN_TREE] = "change the owner of",
		[PROTO_SET_ATTRIBUTES] = "set attributes of",
	};
	_Alignas(8) static char room[PROTO_MESSAGE_MAX];
	struct proto_change *msg = (void *)room;
	struct warren_error err = WARREN_ERROR_INIT;

	if (c->size > FILES_NAMES_MAX || c->size == 0) {
		(void)error_errno(&err, c->size ? E2BIG : ENOMEM, "%s", verbs[c->verb]);
		fn(ctx, NULL, &err);
		return;
	}
	*msg = (struct proto_change){
		.h = { .type = PROTO_CHANGE },
		.verb = c->verb,
		.flags = c->flags,
		.mode = c->mode,
		.owner = c->owner,
		.group = c->group,
		.mtime_sec = c->mtime_sec,
		.mtime_nsec = c->mtime_nsec,
		.n = c->n,
		.strings_size = (uint32_t)c->size,
	};
	fill_who(f, &msg->who);
	(void)memcpy(msg->strings, c->names, c->size);
	files_ask_worker(f, msg, sizeof(*msg) + c->size,
			 (int[]){ c->dir, c->dir >= 0 ? c->to : -1 }, verbs[c->verb],
			 c->names, fn, ctx);
}

void files_change_one(struct files *f, struct files_change change, const char *path,
		      const char *second, files_fn fn, void *ctx)
{
	AUTO_BUF struct buf names = BUF_INIT(FILES_NAMES_MAX);
	struct warren_error err = WARREN_ERROR_INIT;

	buf_add(&names, path, strlen(path) + 1);
	if (second)
		buf_add(&names, second, strlen(second) + 1);
	if (names.failed) {
		(void)error_errno(&err, names.full ? ENAMETOOLONG : ENOMEM,
				  "change '%.40s'", path);
		fn(ctx, NULL, &err);
		return;
	}
	change.names = names.data;
	change.size = names.len;
	change.n = second ? 2 : 1;
	files_change(f, &change, fn, ctx);
}

bool files_have_workers(const struct files *f)
{
	return f->sandbox && f->sandbox->workers;
}

/* Return the number of a free piece; PIECES: none. */
static unsigned piece_free(const struct files *f)
{
	unsigned i = 0;

	while (i < PIECES && (f->pieces_busy & (1U << i) || f->filling == i + 1))
		i++;
	return i;
}

char *files_room(struct files *f, size_t *size)
{
	unsigned i = f->filling ? f->filling - 1 : piece_free(f);
	void *p;

	if (!files_have_workers(f) || *size <= WRITE_INLINE_MAX || i == PIECES ||
	    pieces_open(f) < 0)
		return NULL;
	if (!f->room) {
		p = mmap(NULL, PIECES * PIECE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			 f->pieces, 0);
		if (p == MAP_FAILED)
			return NULL;
		f->room = p;
	}
	*size = PIECE_SIZE;
	f->filling = i + 1;
	return f->room + (size_t)i * PIECE_SIZE;
}

static int files_write_at(int fd, const char *data, size_t n, uint64_t offset)
{
	while (n > 0) {
		ssize_t w = pwrite(fd, data, n, (off_t)offset);

		if (w < 0 && errno != EINTR)
			return -errno;
		w = w > 0 ? w : 0;
		data += w;
		offset += (uint64_t)w;
		n -= (size_t)w;
	}
	return 0;
}

/* Write the data to a separate memfd for the next request; the caller closes it. */
static int put_large(struct files *f, const void *data, size_t n)
{
	AUTO_CLOSE int fd = memfd_create("warren-write", MFD_CLOEXEC);
	int r = fd < 0 ? -errno : files_write_at(fd, data, n, 0);

	if (r == 0) {
		f->large_next = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		r = f->large_next < 0 ? -errno : 0;
	}
	return r < 0 ? r : TAKE_FD(fd);
}

/* Store @data. Return a descriptor, which the caller closes, with the data at
 * *@ret_offset; or -errno. */
static int files_put_piece(struct files *f, const char *data, size_t n,
			   uint64_t *ret_offset)
{
	size_t filled = f->filling ? (size_t)(f->filling - 1) * PIECE_SIZE : 0;
	bool there = f->filling && data == f->room + filled;
	unsigned i = there ? f->filling - 1 : piece_free(f);
	uint64_t offset = (uint64_t)i * PIECE_SIZE;
	int fd, r = 0;

	*ret_offset = 0;
	if (n > PIECE_SIZE || i == PIECES || pieces_open(f) < 0)
		return put_large(f, data, n);
	if (!there)
		r = files_write_at(f->pieces, data, n, offset);
	if (r < 0)
		return r;
	fd = fcntl(f->pieces, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return -errno;
	*ret_offset = offset;
	f->piece_next = 1U << i;
	f->pieces_busy |= f->piece_next;
	if (there)
		f->filling = 0;
	return fd;
}

int files_write(struct files *f, int fd, uint32_t stream, const void *data, size_t n,
		files_fn fn, void *ctx, struct warren_error *err)
{
	_Alignas(8) static char room[sizeof(struct proto_write) + WRITE_INLINE_MAX];
	struct proto_write *msg = (void *)room;
	bool small = n <= WRITE_INLINE_MAX;
	AUTO_CLOSE int from = -1;
	uint64_t offset = 0;

	if (n > UINT32_MAX)
		return error_errno(err, EFBIG, "write");
	if (!f->sandbox)
		return error_set(err, ESTALE, "the sandbox is gone");
	if (!small) {
		from = files_put_piece(f, data, n, &offset);
		if (from < 0)
			return error_errno(err, -from, "write");
	}
	*msg = (struct proto_write){ .h = { .type = PROTO_WRITE },
				     .stream = stream,
				     .size = (uint32_t)n,
				     .offset = offset };
	if (small)
		(void)memcpy(msg->data, data, n);
	files_ask_worker(f, msg, sizeof(*msg) + (small ? n : 0), (int[]){ fd, from },
			 "write", "a file", fn, ctx);
	return 0;
}

void files_notify(struct files *f, files_fn fn, void *ctx)
{
	struct proto_notify msg = { .h = { .type = PROTO_NOTIFY } };

	files_ask_worker(f, &msg, sizeof(msg), (int[]){ -1, -1 }, "watch", "files", fn,
			 ctx);
}

void files_add_watch(struct files *f, int notify, const char *path, uint32_t mask,
		     files_fn fn, void *ctx)
{
	struct proto_watch msg = { .h = { .type = PROTO_WATCH }, .mask = mask };

	if (!path_fits(path, sizeof(msg.path), fn, ctx))
		return;
	fill_who(f, &msg.who);
	(void)strcpy(msg.path, path);
	files_ask_worker(f, &msg, sizeof(msg), (int[]){ notify, -1 }, "watch", path, fn,
			 ctx);
}

/* ---------------------------------------------------------------------- mkdir -p */

struct create_op {
	struct files *files;
	unsigned mode;
	size_t done; /* position in the path; all directories before it have been
			requested */
	files_fn fn;
	void *ctx;
	char path[4096];
};

static void make_more(struct create_op *m);

static void files_on_made(void *ctx, struct files_answer *a,
			  const struct warren_error *err)
{
	struct create_op *m = ctx;

	if (!err && m->path[m->done]) {
		make_more(m);
		return;
	}
	m->files->making = NULL;
	m->fn(m->ctx, a, err);
	free(m);
}

/* Request as many of "/a", "/a/b", "/a/b/c" as fit into a message. */
static void make_more(struct create_op *m)
{
	AUTO_BUF struct buf names = BUF_INIT(FILES_NAMES_MAX);
	struct files_change c = { .verb = PROTO_MKDIR,
				  .flags = PROTO_CHANGE_LENIENT,
				  .mode = 0755,
				  .dir = -1,
				  .to = -1 };
	size_t n = m->done;

	while (m->path[n]) {
		n += 1 + strcspn(m->path + n + 1, "/");
		/* The last directory has its own mode, so it needs a separate request. */
		if (c.n > 0 && (!m->path[n] || c.n >= FILES_BATCH ||
				names.len + n + 1 > FILES_NAMES_MAX))
			break;
		if (!m->path[n])
			c.mode = m->mode;
		buf_add(&names, m->path, n);
		buf_add(&names, "", 1);
		c.n++;
		m->done = n;
	}
	c.names = names.data;
	c.size = names.failed ? 0 : names.len;
	files_change(m->files, &c, files_on_made, m);
}

void files_make_dirs(struct files *f, const char *path, unsigned mode, files_fn fn,
		     void *ctx)
{
	struct create_op *m = calloc(1, sizeof(*m));
	struct warren_error err = WARREN_ERROR_INIT;

	if (!m || strlen(path) >= sizeof(m->path) || path[0] != '/' || !path[1]) {
		free(m);
		(void)error_errno(&err,
				  !m        ? ENOMEM
				  : path[1] ? ENAMETOOLONG
					    : EEXIST,
				  "create the directory '%.40s'", path);
		fn(ctx, NULL, &err);
		return;
	}
	m->files = f;
	m->mode = mode;
	m->fn = fn;
	m->ctx = ctx;
	(void)strcpy(m->path, path);
	f->making = m;
	make_more(m);
}
