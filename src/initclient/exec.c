/* SPDX-License-Identifier: Apache-2.0 */
/* exec.c - execs: start, find again, wait, signal */
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

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "initclient/initclient.h"

#define GRACE_MS 5000 /* time for init to enforce a deadline */
#define TRIES    64   /* number of tries to find an unused number */

static int open_in_sandbox(void *ctx, const char *path)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int fd = -1;
	int r = initclient_file_open(NULL, ctx, path, O_RDONLY, 0, "0:0", &fd, &ignored);

	return r < 0 ? r : fd;
}

int initclient_user_find(struct initclient_sandbox *sandbox, const char *text,
			 struct initclient_user *ret, struct warren_error *err)
{
	int r;

	if (!text) {
		*ret = sandbox->user;
		return 0;
	}
	r = user_resolve(text, open_in_sandbox, sandbox, ret, err);
	if (r < 0)
		return r;
	if (sandbox->has_ids ? !sandbox->has_ids(sandbox, ret->uid, ret->gid)
			     : ret->uid >= sandbox->n_ids || ret->gid >= sandbox->n_ids)
		return error_set(err, EINVAL,
				 "user '%s' (%u:%u) cannot exist in this sandbox", text,
				 ret->uid, ret->gid);
	return 0;
}

void initclient_base(const struct initclient_sandbox *sandbox,
		     struct init_request_base *ret)
{
	*ret = (struct init_request_base){
		.env = (const char *const *)sandbox->env,
		.hostname = sandbox->hostname,
		.workdir = sandbox->workdir,
		.user = sandbox->user,
		.nofile = sandbox->nofile,
		.n_ids = sandbox->n_ids,
		.groups = sandbox->groups,
		.framed = sandbox->framed,
		.direct = sandbox->direct,
	};
}

/* Open the file of the caller, or a new one, and the eventfd that reports its growth. */
static int initclient_exec_open_journal(struct initclient_exec *ex,
					const struct warren_exec_spec *spec,
					struct init_request_streams *st,
					struct warren_error *err)
{
	if (spec->out != WARREN_STDIO_JOURNAL && spec->err != WARREN_STDIO_JOURNAL &&
	    !spec->child_result_fd && !spec->child_wakeup_fd && !spec->child_command_fd)
		return 0;
	ex->journal = spec->journal_fd > 0 ? fcntl(spec->journal_fd, F_DUPFD_CLOEXEC, 0)
					   : memfd_create("warren-journal", MFD_CLOEXEC);
	ex->base.output_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ex->journal < 0 || ex->base.output_fd < 0)
		return error_errno(err, errno, "create a journal");
	st->journal = ex->journal;
	st->notify = ex->base.output_fd;
	st->hold = spec->hold;
	return 0;
}

/* Request the exec with a number that this process chose; other processes may start execs
 * in the same sandbox. */
static int initclient_exec_ask(struct initclient_sandbox *sandbox,
			       struct initclient_exec *ex, const struct init_request *q,
			       struct init_reply *a, struct warren_error *err)
{
	struct proto_spawn *head = (struct proto_spawn *)(void *)q->msg.data;
	int r;

	for (int i = 0; i < TRIES; i++) {
		head->exec = ex->id = ++sandbox->next_exec;
		r = client_request(sandbox, q, a, err);
		if (r < 0 || reply_code(&a->m.reply) != EEXIST)
			return r;
		init_reply_done(a);
	}
	return error_set(err, EAGAIN, "too many concurrent starts; try again");
}

static int initclient_exec_start(struct initclient_sandbox *sandbox,
				 struct initclient_exec *ex,
				 const struct warren_exec_spec *spec,
				 struct warren_error *err)
{
	CLEANUP(init_request_done) struct init_request q = REQUEST_INIT;
	CLEANUP(init_reply_done) struct init_reply a = { 0 };
	struct init_request_streams st = REQUEST_STREAMS_INIT;
	struct init_request_base base;
	struct initclient_user user;
	int r;

	/*
	 * The process would be frozen between its start and its exec, and init would wait
	 * for it.
	 */
	r = sandbox->paused
		    ? error_set(err, EBUSY, "the sandbox is paused: resume it first")
		    : initclient_user_find(sandbox, spec->user, &user, err);
	if (r == 0)
		r = initclient_exec_open_journal(ex, spec, &st, err);
	if (r < 0)
		return r;
	initclient_base(sandbox, &base);
	st.keep_input = ex->kept;
	r = init_request_spawn(&q, &base, &user, spec, 0, &st, err);
	(void)memcpy(ex->base.fd, st.fd, sizeof(st.fd));
	if (r < 0)
		return r;
	/* Add the exec before the request, because its end may be reported before the
	 * reply is read. */
	ex->sandbox = sandbox;
	ex->next = sandbox->execs;
	sandbox->execs = ex;
	r = initclient_exec_ask(sandbox, ex, &q, &a, err);
	if (r == 0 && reply_code(&a.m.reply) != 0)
		return reply_explain(&a, spec, sandbox->workdir, err);
	if (r == 0 && (spec->pty || (ex->kept && spec->in == WARREN_STDIO_PIPE))) {
		ex->base.fd[0] = init_reply_take(&a, PROTO_GIVES_INPUT);
		if (ex->base.fd[0] < 0)
			r = error_set(err, EPROTO, "the sandbox's init sent no %s",
				      spec->pty ? "terminal" : "input");
	}
	if (r == 0 && spec->child_wakeup_fd) {
		ex->base.fd[3] = init_reply_take(&a, PROTO_GIVES_WAKEUP);
		if (ex->base.fd[3] < 0)
			r = error_set(err, EPROTO, "the sandbox's init sent no pipe");
	}
	return r;
}

static struct initclient_exec *
initclient_exec_new(const struct initclient_sandbox *sandbox)
{
	struct initclient_exec *ex = calloc(1, sizeof(*ex));

	if (!ex)
		return NULL;
	ex->base = (struct backend_exec){ { -1, -1, -1, -1 }, -1 };
	ex->journal = ex->poll = ex->ready = -1;
	ex->kept = sandbox->base.durable;
	return ex;
}

int initclient_exec(void *state UNUSED, struct backend_sandbox *base,
		    const struct warren_exec_spec *spec, struct backend_exec **ret_exec,
		    struct warren_error *err)
{
	struct initclient_sandbox *sandbox = (struct initclient_sandbox *)base;
	struct initclient_exec *ex = initclient_exec_new(sandbox);
	int r;

	if (!ex)
		return error_errno(err, ENOMEM, "start '%s'", spec->argv[0]);
	if (spec->timeout_ms && spec->timeout_ms < PROTO_TIMEOUT_MAX)
		ex->deadline = clock_now() + (spec->timeout_ms + GRACE_MS) * 1000000;
	ex->accounts_sandbox = spec->accounts_sandbox;
	r = initclient_exec_start(sandbox, ex, spec, err);
	if (r < 0) {
		initclient_exec_free(&ex->base);
		return r;
	}
	*ret_exec = &ex->base;
	return 0;
}

/* Read the result from the journal, if it contains one. */
static bool take_result(struct initclient_exec *ex, enum journal_state *ret_state)
{
	if (ex->journal < 0 || journal_result(ex->journal, ret_state, &ex->result) <= 0)
		return false;
	ex->done = true;
	return true;
}

static int initclient_attach(struct initclient_sandbox *sandbox,
			     struct initclient_exec *ex, struct warren_error *err)
{
	struct proto_attach msg = { .h = { .type = PROTO_ATTACH },
				    .exec = ex->id,
				    .flags = PROTO_ATTACH_NOTIFY };
	CLEANUP(init_reply_done) struct init_reply a = { 0 };
	enum journal_state state = JOURNAL_RUNNING;
	int r = client_ask(sandbox, &msg, sizeof(msg), ex->base.output_fd, &a, err);

	if (r < 0)
		return r;
	r = reply_code(&a.m.reply);
	/*
	 * Ask init first, then read: if the exec ended in between, the file contains the
	 * result by now.
	 */
	if (take_result(ex, &state) && state == JOURNAL_FAILED)
		return error_errno(err,
				   ex->result.status < 0 && ex->result.status > -4096
					   ? -ex->result.status
					   : EPROTO,
				   "it never started");
	if (r != 0 && !ex->done)
		return error_errno(err, r, "find exec %u", ex->id);
	ex->base.fd[0] = init_reply_take(&a, PROTO_GIVES_INPUT);
	ex->base.fd[3] = init_reply_take(&a, PROTO_GIVES_WAKEUP);
	if (ex->done)
		(void)eventfd_write(ex->base.output_fd, 1);
	return 0;
}

int initclient_exec_attach(void *state UNUSED, struct backend_sandbox *base,
			   uint32_t number, int journal_fd,
			   struct backend_exec **ret_exec, struct warren_error *err)
{
	struct initclient_sandbox *sandbox = (struct initclient_sandbox *)base;
	struct initclient_exec *ex = initclient_exec_new(sandbox);
	int r = 0;

	if (!ex)
		return error_errno(err, ENOMEM, "find exec %u", number);
	ex->id = number;
	ex->journal = fcntl(journal_fd, F_DUPFD_CLOEXEC, 0);
	ex->base.output_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ex->journal < 0 || ex->base.output_fd < 0)
		r = error_errno(err, errno, "find exec %u", number);
	if (r == 0) {
		ex->sandbox = sandbox;
		ex->next = sandbox->execs;
		sandbox->execs = ex;
		r = initclient_attach(sandbox, ex, err);
	}
	if (r < 0) {
		initclient_exec_free(&ex->base);
		return r;
	}
	*ret_exec = &ex->base;
	return 0;
}

uint32_t initclient_exec_number(const struct backend_exec *ex)
{
	return ((const struct initclient_exec *)ex)->id;
}

void initclient_exec_free(struct backend_exec *base)
{
	struct initclient_exec *ex = (struct initclient_exec *)base;

	if (ex->sandbox)
		(void)LIST_REMOVE(ex->sandbox->execs, ex);
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
 * Return a descriptor that is readable when init has sent a message, or when the end of
 * this exec was received while waiting for another.
 */
int initclient_exec_wait_fd(struct backend_exec *base)
{
	struct initclient_exec *ex = (struct initclient_exec *)base;
	struct epoll_event ev = { .events = EPOLLIN };

	if (ex->poll >= 0 || !ex->sandbox)
		return ex->poll;
	ex->ready = eventfd(ex->done, EFD_CLOEXEC | EFD_NONBLOCK);
	ex->poll = epoll_create1(EPOLL_CLOEXEC);
	if (ex->ready < 0 || ex->poll < 0 ||
	    epoll_ctl(ex->poll, EPOLL_CTL_ADD, ex->ready, &ev) < 0 ||
	    epoll_ctl(ex->poll, EPOLL_CTL_ADD, ex->sandbox->control, &ev) < 0) {
		if (ex->poll >= 0)
			(void)close(TAKE_FD(ex->poll));
	}
	return ex->poll;
}

/* Return the maximum time to wait: the caller's, or init's deadline plus some grace. */
static int64_t wait_span(const struct initclient_exec *ex, int64_t timeout_ms)
{
	uint64_t t = clock_now();
	int64_t left;

	if (!ex->deadline || ex->sandbox->paused)
		return timeout_ms;
	left = t < ex->deadline ? (int64_t)((ex->deadline - t) / 1000000) + 1 : 0;
	return timeout_ms < 0 || left < timeout_ms ? left : timeout_ms;
}

int initclient_exec_wait(struct backend_exec *base, int64_t timeout_ms,
			 struct warren_result *ret, struct warren_error *err)
{
	struct initclient_exec *ex = (struct initclient_exec *)base;
	uint64_t until;

	/* A time of more than a hundred years means forever. */
	if (timeout_ms >= (int64_t)PROTO_TIMEOUT_MAX)
		timeout_ms = -1;
	until = timeout_ms > 0 ? clock_now() + (uint64_t)timeout_ms * 1000000 : 0;

	while (!ex->done) {
		uint64_t t;
		int r;

		if (!ex->sandbox)
			return error_set(err, ESRCH, "the sandbox is gone");
		r = client_pump(ex->sandbox, wait_span(ex, timeout_ms), err);
		/*
		 * The connection may have ended before the exec, but the file may contain
		 * the result.
		 */
		if (r < 0 && !(ex->kept && take_result(ex, &(enum journal_state){ 0 })))
			return r;
		t = clock_now();
		if (!ex->done && ex->deadline && !ex->sandbox->paused &&
		    t >= ex->deadline)
			return error_set(
				err, ETIMEDOUT,
				"the sandbox's init missed the deadline: it hangs");
		if (!ex->done && timeout_ms >= 0) {
			if (t >= until)
				return 0;
			timeout_ms = (int64_t)((until - t) / 1000000) + 1;
		}
	}
	result_fill(&ex->result, ret);
	return 1;
}

/* Send a request about @ex whose reply is a status. */
static int exec_tell(struct initclient_exec *ex, const void *msg, size_t size,
		     const char *what, struct warren_error *err)
{
	CLEANUP(init_reply_done) struct init_reply a = { 0 };
	int r;

	if (!ex->sandbox || (ex->done && !ex->kept))
		return error_set(err, ESRCH, "it has ended");
	r = client_ask(ex->sandbox, msg, size, -1, &a, err);
	if (r < 0)
		return r;
	r = reply_code(&a.m.reply);
	return r ? error_errno(err, r, "%s", what) : 0;
}

int initclient_exec_signal_to(struct backend_exec *base, int sig, enum warren_whom whom,
			      struct warren_error *err)
{
	static const enum proto_whom to[] = {
		[WARREN_WHOM_FIRST] = PROTO_WHOM_FIRST,
		[WARREN_WHOM_TREE] = PROTO_WHOM_TREE,
		[WARREN_WHOM_REST] = PROTO_WHOM_REST,
		[WARREN_WHOM_NEW] = PROTO_WHOM_NEW,
	};
	struct initclient_exec *ex = (struct initclient_exec *)base;
	struct proto_signal msg = { .h = { .type = PROTO_SIGNAL },
				    .exec = ex->id,
				    .sig = sig,
				    .whom = to[whom] };
	char what[32];

	(void)snprintf(what, sizeof(what), "send signal %d", sig);
	return exec_tell(ex, &msg, sizeof(msg), what, err);
}

int initclient_exec_signal(struct backend_exec *base, int sig, struct warren_error *err)
{
	return initclient_exec_signal_to(base, sig, WARREN_WHOM_FIRST, err);
}

int initclient_exec_close_input(struct backend_exec *base, struct warren_error *err)
{
	struct initclient_exec *ex = (struct initclient_exec *)base;
	struct proto_close_input msg = { .h = { .type = PROTO_CLOSE_INPUT },
					 .exec = ex->id };

	if (base->fd[0] >= 0)
		(void)close(TAKE_FD(base->fd[0]));
	return ex->kept ? exec_tell(ex, &msg, sizeof(msg), "close its input", err) : 0;
}

/* This request has no answer to wait for. */
int initclient_exec_ack(struct backend_exec *base, uint64_t cursor,
			struct warren_error *err)
{
	struct initclient_exec *ex = (struct initclient_exec *)base;
	struct proto_ack msg = { .h = { .type = PROTO_ACK },
				 .exec = ex->id,
				 .cursor = cursor };
	CLEANUP(init_request_done) struct init_request q = REQUEST_INIT;
	int r = ex->sandbox ? init_request_put(&q, &msg, sizeof(msg), -1, err)
			    : error_set(err, ESRCH, "the sandbox is gone");

	return r < 0 ? r : init_request_send(&q, ex->sandbox->control, 0, err);
}

int initclient_exec_resize(struct backend_exec *base, uint16_t rows, uint16_t cols,
			   struct warren_error *err)
{
	struct winsize ws = { .ws_row = rows, .ws_col = cols };

	if (ioctl(base->fd[0], TIOCSWINSZ, &ws) < 0)
		return error_errno(err, errno, "resize the terminal");
	return 0;
}

int initclient_exec_output(struct backend_exec *base, uint64_t cursor, void *buf,
			   size_t size, struct warren_output *ret,
			   struct warren_error *err)
{
	struct initclient_exec *ex = (struct initclient_exec *)base;
	int r;

	if (ex->journal < 0)
		return error_set(err, EINVAL, "this exec has no journal");
	r = journal_read(ex->journal, cursor, &ex->hint, buf, size, ret);
	if (r == -EMSGSIZE)
		return error_set(err, EMSGSIZE, "the buffer must hold %u bytes",
				 JOURNAL_CHUNK);
	if (r < 0)
		return error_errno(err, -r, "read the journal");
	return 0;
}
