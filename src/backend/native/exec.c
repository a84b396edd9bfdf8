/* SPDX-License-Identifier: Apache-2.0 */
/* exec.c - execs, files and ports, by init's three primitives */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "backend/native/native.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"

#define PATH_DEFAULT "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define PIPE_SIZE    (1 << 20)
#define GRACE_MS     5000 /* for init to enforce a deadline before we call it hung */

/* ------------------------------------------------------------- the message */

static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return strncmp(a, b, n) == 0 && b[n] == '=';
}

/* Is @var set by a later one of the lists? */
static bool overridden(const char *var, const char *const *list)
{
	for (; list && *list; list++)
		if (same_name(var, *list))
			return true;
	return false;
}

static void add_var(struct buf *out, uint32_t *n, const char *var)
{
	buf_add(out, var, strlen(var) + 1);
	(*n)++;
}

/* Our defaults, then the sandbox's, then the exec's own; the last of a name counts. */
static void add_env(struct buf *out, uint32_t *n, const struct native_box *box,
		    const struct native_user *user, const char *const *own)
{
	const char *const *shared = (const char *const *)box->env;
	char home[sizeof(user->home) + 8], host[80];
	const char *defaults[] = { PATH_DEFAULT, home, host };

	(void)snprintf(home, sizeof(home), "HOME=%s", user->home);
	(void)snprintf(host, sizeof(host), "HOSTNAME=%s", box->hostname);
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
		if (!overridden(defaults[i], shared) && !overridden(defaults[i], own))
			add_var(out, n, defaults[i]);
	for (; shared && *shared; shared++)
		if (!overridden(*shared, shared + 1) && !overridden(*shared, own))
			add_var(out, n, *shared);
	for (; own && *own; own++)
		if (!overridden(*own, own + 1))
			add_var(out, n, *own);
}

struct request {
	struct buf msg; /* a struct proto_spawn and its strings */
	int fds[8];     /* to send */
	size_t n_fds;
	int theirs[8]; /* of those, ours to close after sending */
	size_t n_theirs;
};

static void request_done(struct request *q)
{
	buf_done(&q->msg);
	for (size_t i = 0; i < q->n_theirs; i++)
		(void)close(q->theirs[i]);
}

static uint8_t request_fd(struct request *q, int fd, bool close_after)
{
	if (close_after)
		q->theirs[q->n_theirs++] = fd;
	q->fds[q->n_fds++] = fd;
	return (uint8_t)(q->n_fds - 1);
}

/* Strings that a message cannot hold go into a sealed memfd. */
static int spill(struct request *q, struct warren_error *err)
{
	size_t head = sizeof(struct proto_spawn);
	int fd = memfd_create("warren-spawn", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return error_errno(err, errno, "make room for the arguments");
	(void)request_fd(q, fd, true);
	r = fd_write_all(fd, q->msg.data + head, q->msg.len - head);
	if (r == 0 && fcntl(fd, F_ADD_SEALS,
			    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		r = -errno;
	if (r < 0)
		return error_errno(err, -r, "make room for the arguments");
	q->msg.len = head;
	return 0;
}

static int pack(struct request *q, const struct native_box *box,
		const struct native_user *user, const struct warren_exec_spec *spec,
		struct warren_error *err)
{
	struct proto_spawn head = {
		.h = { .type = PROTO_SPAWN },
		.uid = user->uid,
		.gid = user->gid,
		.n_groups = (uint32_t)user->n_groups,
		.timeout_ms = spec->timeout_ms,
		.nofile = box->nofile,
		.rows = spec->rows ? spec->rows : 24,
		.cols = spec->cols ? spec->cols : 80,
		.stdio = { PROTO_STDIO_NULL, PROTO_STDIO_NULL, PROTO_STDIO_NULL },
	};
	const char *cwd = spec->cwd ? spec->cwd : box->workdir;

	if (box->engine->privileged || box->engine->subuid.count)
		head.flags |= PROTO_SPAWN_GROUPS;
	if (!spec->cwd)
		head.flags |= PROTO_SPAWN_MKCWD;
	if (spec->sole)
		head.flags |= PROTO_SPAWN_SOLE;
	if (spec->pty)
		head.flags |= PROTO_SPAWN_PTY;
	(void)memcpy(head.groups, user->groups, sizeof(head.groups));
	buf_add(&q->msg, &head, sizeof(head));
	buf_add(&q->msg, cwd, strlen(cwd) + 1);
	for (const char *const *a = spec->argv; *a; a++, head.argc++)
		buf_add(&q->msg, *a, strlen(*a) + 1);
	add_env(&q->msg, &head.envc, box, user, spec->env);
	if (q->msg.failed || head.argc + head.envc >= PROTO_POINTERS_MAX)
		return error_set(err, E2BIG,
				 "the arguments and the environment are too long");
	head.strings_size = (uint32_t)(q->msg.len - sizeof(head));
	if (q->msg.len > PROTO_MESSAGE_MAX) {
		int r = spill(q, err);

		if (r < 0)
			return r;
		head.flags |= PROTO_SPAWN_MEMFD;
	}
	(void)memcpy(q->msg.data, &head, sizeof(head));
	return 0;
}

/* --------------------------------------------------------------- its streams */

static int open_pipe(struct request *q, struct proto_spawn *head, struct native_exec *ex,
		     int which, struct warren_error *err)
{
	int ends[2], ours = which == 0 ? 1 : 0;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "make a pipe");
	/* Larger pipes mean fewer wake-ups; where the quota is used up, the default serves. */
	if (which == 1)
		(void)fcntl(ends[0], F_SETPIPE_SZ, PIPE_SIZE);
	ex->base.fd[which] = ends[ours];
	head->stdio[which] = request_fd(q, ends[!ours], true);
	return 0;
}

static int open_journal(struct request *q, struct proto_spawn *head,
			struct native_exec *ex, const struct warren_exec_spec *spec,
			struct warren_error *err)
{
	head->journal_limit = spec->journal_limit ? spec->journal_limit : 1U << 20;
	if (head->journal_limit < 65536)
		head->journal_limit = 65536;
	ex->journal = memfd_create("warren-journal", MFD_CLOEXEC);
	ex->base.output_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ex->journal < 0 || ex->base.output_fd < 0)
		return error_errno(err, errno, "make a journal");
	head->flags |= PROTO_SPAWN_JOURNAL;
	(void)request_fd(q, ex->journal, false);
	(void)request_fd(q, ex->base.output_fd, false);
	return 0;
}

static int open_streams(struct request *q, struct native_exec *ex,
			const struct warren_exec_spec *spec, struct warren_error *err)
{
	const enum warren_stdio want[3] = { spec->in, spec->out, spec->err };
	static const uint32_t journal_bit[3] = { 0, PROTO_SPAWN_OUT, PROTO_SPAWN_ERR };
	struct proto_spawn *head = (struct proto_spawn *)(void *)q->msg.data;
	bool journal = false;

	for (int i = 0; i < 3 && !spec->pty; i++) {
		if (want[i] == WARREN_STDIO_PIPE) {
			int r = open_pipe(q, head, ex, i, err);

			if (r < 0)
				return r;
		} else if (want[i] == WARREN_STDIO_JOURNAL) {
			head->flags |= journal_bit[i];
			journal = true;
		}
	}
	return journal ? open_journal(q, head, ex, spec, err) : 0;
}

/* ------------------------------------------------------------------- execs */

static int explain(const struct warren_exec_spec *spec, const struct native_box *box,
		   const struct proto_reply *reply, struct warren_error *err)
{
	static const char *const stages[] = {
		[PROTO_STAGE_NONE] = "start it",
		[PROTO_STAGE_REQUEST] = "pass it to init",
		[PROTO_STAGE_PTY] = "open a terminal",
		[PROTO_STAGE_CGROUP] = "enter its cgroup",
		[PROTO_STAGE_FORK] = "start a process",
		[PROTO_STAGE_JOURNAL] = "open its journal",
		[PROTO_STAGE_IDS] = "take its user and limits",
	};
	int code = -reply->status;

	_Static_assert(ARRAY_SIZE(stages) == PROTO_STAGE_CWD, "a stage has no words");
	if (code <= 0 || code > 4095)
		code = EPROTO;
	if (reply->stage == PROTO_STAGE_CWD) {
		(void)error_errno(err, code, "enter the directory '%s'",
				  spec->cwd ? spec->cwd : box->workdir);
		err->code = ENOTDIR; /* ENOENT is kept for the command itself */
		return -ENOTDIR;
	}
	if (reply->stage == PROTO_STAGE_EXEC)
		return error_errno(err, code, "execute '%s'", spec->argv[0]);
	return error_errno(err, code, "%s",
			   stages[reply->stage < ARRAY_SIZE(stages) ? reply->stage : 0]);
}

static int open_in_box(void *ctx, const char *path)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int fd = -1;
	int r = native_file_open(NULL, ctx, path, O_RDONLY, 0, "0:0", &fd, &ignored);

	return r < 0 ? r : fd;
}

static int exec_user(struct native_box *box, const char *text, struct native_user *ret,
		     struct warren_error *err)
{
	int r;

	if (!text) {
		*ret = box->user;
		return 0;
	}
	r = user_resolve(text, open_in_box, box, ret, err);
	if (r < 0)
		return r;
	if (!idmap_has(box->engine, box, ret->uid, ret->gid))
		return error_set(err, EINVAL,
				 "user '%s' (%u:%u) has no id in this sandbox", text,
				 ret->uid, ret->gid);
	return 0;
}

int native_exec(void *state UNUSED, struct backend_box *base,
		const struct warren_exec_spec *spec, struct backend_exec **ret_exec,
		struct warren_error *err)
{
	CLEANUP(request_done)
	struct request q = { .msg = BUF_INIT(sizeof(struct proto_spawn) +
					     PROTO_STRINGS_MAX) };
	struct native_box *box = (struct native_box *)base;
	struct native_exec *ex = calloc(1, sizeof(*ex));
	struct proto_reply reply;
	struct native_user user;
	int fd = -1, r;

	if (!ex)
		return error_errno(err, ENOMEM, "start '%s'", spec->argv[0]);
	if (spec->timeout_ms && spec->timeout_ms < PROTO_TIMEOUT_MAX)
		ex->deadline = clock_now() + (spec->timeout_ms + GRACE_MS) * 1000000;
	ex->base = (struct backend_exec){ { -1, -1, -1 }, -1 };
	ex->journal = ex->poll = ex->ready = -1;
	ex->id = ++box->next_exec;
	ex->sole = spec->sole;
	/* It would freeze between its start and its exec, and init would wait for it. */
	r = box->paused ? error_set(err, EBUSY, "the sandbox is paused: resume it first")
			: exec_user(box, spec->user, &user, err);
	if (r == 0)
		r = pack(&q, box, &user, spec, err);
	if (r == 0)
		r = open_streams(&q, ex, spec, err);
	if (r == 0) {
		struct proto_spawn *head = (struct proto_spawn *)(void *)q.msg.data;

		head->exec = ex->id;
		/* Known before the request: its end may be told before the reply is read. */
		ex->box = box;
		ex->next = box->execs;
		box->execs = ex;
		r = client_request(box, &head->h, q.msg.len, q.fds, q.n_fds, &reply, &fd,
				   err);
	}
	if (r == 0 && reply.status < 0)
		r = explain(spec, box, &reply, err);
	if (r == 0 && spec->pty && fd < 0)
		r = error_set(err, EPROTO, "the sandbox's init sent no terminal");
	if (r < 0) {
		if (fd >= 0)
			(void)close(fd);
		native_exec_free(&ex->base);
		return r;
	}
	if (spec->pty)
		ex->base.fd[0] = fd;
	else if (fd >= 0)
		(void)close(fd);
	*ret_exec = &ex->base;
	return 0;
}

void native_exec_free(struct backend_exec *base)
{
	struct native_exec *ex = (struct native_exec *)base;
	struct native_exec **p = ex->box ? &ex->box->execs : NULL;

	while (p && *p && *p != ex)
		p = &(*p)->next;
	if (p && *p)
		*p = ex->next;
	for (size_t i = 0; i < ARRAY_SIZE(base->fd); i++)
		if (base->fd[i] >= 0)
			(void)close(base->fd[i]);
	if (base->output_fd >= 0)
		(void)close(base->output_fd);
	if (ex->journal >= 0)
		(void)close(ex->journal);
	if (ex->poll >= 0)
		(void)close(ex->poll);
	if (ex->ready >= 0)
		(void)close(ex->ready);
	free(ex);
}

/*
 * Readable when init has said something, or when what it said of this exec was
 * heard while another was waited for.
 */
int native_exec_wait_fd(struct backend_exec *base)
{
	struct native_exec *ex = (struct native_exec *)base;
	struct epoll_event ev = { .events = EPOLLIN };

	if (ex->poll >= 0 || !ex->box)
		return ex->poll;
	ex->ready = eventfd(ex->done, EFD_CLOEXEC | EFD_NONBLOCK);
	ex->poll = epoll_create1(EPOLL_CLOEXEC);
	if (ex->ready < 0 || ex->poll < 0 ||
	    epoll_ctl(ex->poll, EPOLL_CTL_ADD, ex->ready, &ev) < 0 ||
	    epoll_ctl(ex->poll, EPOLL_CTL_ADD, ex->box->control, &ev) < 0) {
		if (ex->poll >= 0)
			(void)close(TAKE_FD(ex->poll));
	}
	return ex->poll;
}

static void fill_result(const struct proto_exited *from, struct warren_result *to)
{
	*to = (struct warren_result){
		.exit_code = WIFEXITED(from->status) ? WEXITSTATUS(from->status) : -1,
		.signal = WIFSIGNALED(from->status) ? WTERMSIG(from->status) : 0,
		.timed_out = from->flags & PROTO_EXITED_TIMED_OUT,
		.oom = from->oom_kills > 0,
		.wall_usec = from->wall_usec,
		.user_usec = from->user_usec,
		.system_usec = from->system_usec,
		.max_memory = from->max_memory,
		.read_bytes = from->read_bytes,
		.written_bytes = from->written_bytes,
	};
}

/* How long to wait at most: what the caller said, and init's own deadline with some grace. */
static int64_t wait_span(const struct native_exec *ex, int64_t timeout_ms)
{
	uint64_t t = clock_now();
	int64_t left;

	if (!ex->deadline || ex->box->paused)
		return timeout_ms;
	left = t < ex->deadline ? (int64_t)((ex->deadline - t) / 1000000) + 1 : 0;
	return timeout_ms < 0 || left < timeout_ms ? left : timeout_ms;
}

int native_exec_wait(struct backend_exec *base, int64_t timeout_ms,
		     struct warren_result *ret, struct warren_error *err)
{
	struct native_exec *ex = (struct native_exec *)base;
	uint64_t until;

	/* Beyond a hundred years: for ever. */
	if (timeout_ms >= (int64_t)PROTO_TIMEOUT_MAX)
		timeout_ms = -1;
	until = timeout_ms > 0 ? clock_now() + (uint64_t)timeout_ms * 1000000 : 0;

	while (!ex->done) {
		uint64_t t;
		int r;

		if (!ex->box)
			return error_set(err, ESRCH, "the sandbox is gone");
		r = client_pump(ex->box, wait_span(ex, timeout_ms), err);
		if (r < 0)
			return r;
		t = clock_now();
		if (!ex->done && ex->deadline && !ex->box->paused && t >= ex->deadline)
			return error_set(
				err, ETIMEDOUT,
				"the sandbox's init did not keep the deadline: it hangs");
		if (!ex->done && timeout_ms >= 0) {
			if (t >= until)
				return 0;
			timeout_ms = (int64_t)((until - t) / 1000000) + 1;
		}
	}
	fill_result(&ex->result, ret);
	return 1;
}

int native_exec_signal(struct backend_exec *base, int sig, struct warren_error *err)
{
	struct native_exec *ex = (struct native_exec *)base;
	struct proto_signal msg = { .h = { .type = PROTO_SIGNAL },
				    .exec = ex->id,
				    .sig = sig };
	struct proto_reply reply;
	int fd = -1, r;

	if (!ex->box || ex->done)
		return error_set(err, ESRCH, "it has ended");
	r = client_request(ex->box, &msg.h, sizeof(msg), NULL, 0, &reply, &fd, err);
	if (fd >= 0)
		(void)close(fd);
	if (r < 0)
		return r;
	if (reply.status < 0)
		return error_errno(err, reply.status > -4096 ? -reply.status : EPROTO,
				   "send signal %d", sig);
	return 0;
}

int native_exec_resize(struct backend_exec *base, uint16_t rows, uint16_t cols,
		       struct warren_error *err)
{
	struct winsize ws = { .ws_row = rows, .ws_col = cols };

	if (ioctl(base->fd[0], TIOCSWINSZ, &ws) < 0)
		return error_errno(err, errno, "resize the terminal");
	return 0;
}

/* --------------------------------------------------------- files and ports */

int native_file_open(void *state UNUSED, struct backend_box *base, const char *path,
		     int flags, mode_t mode, const char *user, int *ret_fd,
		     struct warren_error *err)
{
	struct native_box *box = (struct native_box *)base;
	struct proto_open msg = { .h = { .type = PROTO_OPEN },
				  .flags = flags,
				  .mode = mode };
	struct proto_reply reply;
	struct native_user u;
	int fd = -1, r;

	if (strlen(path) >= sizeof(msg.path))
		return error_errno(err, ENAMETOOLONG, "open '%.64s...'", path);
	(void)strcpy(msg.path, path);
	if (user && strcmp(user, "0:0") == 0)
		u = (struct native_user){ 0 };
	else if ((r = exec_user(box, user, &u, err)) < 0)
		return r;
	msg.uid = u.uid;
	msg.gid = u.gid;
	msg.n_groups = (uint32_t)u.n_groups;
	(void)memcpy(msg.groups, u.groups, sizeof(msg.groups));
	r = client_request(box, &msg.h, sizeof(msg), NULL, 0, &reply, &fd, err);
	if (r < 0)
		return r;
	if (reply.status < 0 || fd < 0)
		return error_errno(
			err,
			reply.status < 0 && reply.status > -4096 ? -reply.status : EPROTO,
			"open '%s'", path);
	*ret_fd = fd;
	return 0;
}

/* The connection may still be under way: wait for it here, not in init. */
static int await_connected(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof(int);
	int code = 0, r;

	do
		r = poll(&p, 1, 5000);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
		return -errno;
	if (code == 0 && fcntl(fd, F_SETFL, 0) < 0)
		return -errno;
	return -code;
}

int native_connect(void *state UNUSED, struct backend_box *base, uint16_t port,
		   int *ret_fd, struct warren_error *err)
{
	struct native_box *box = (struct native_box *)base;
	int code = ECONNREFUSED;

	for (uint16_t ipv6 = 0; ipv6 < 2; ipv6++) {
		struct proto_connect msg = { .h = { .type = PROTO_CONNECT },
					     .port = port,
					     .ipv6 = ipv6 };
		struct proto_reply reply;
		AUTO_CLOSE int fd = -1;
		int r = client_request(box, &msg.h, sizeof(msg), NULL, 0, &reply, &fd,
				       err);

		if (r < 0)
			return r;
		if (reply.status == 0 && fd >= 0)
			r = await_connected(fd);
		else
			r = reply.status < 0 && reply.status > -4096 ? reply.status
								     : -EPROTO;
		if (r == 0) {
			*ret_fd = TAKE_FD(fd);
			return 0;
		}
		if (ipv6 == 0)
			code = -r;
	}
	return error_errno(err, code, "connect to port %u of the sandbox", port);
}
