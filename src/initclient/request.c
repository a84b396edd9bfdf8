/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - build messages to an init, and check messages from it */
#include "initclient/request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/default_path.h"
#include "base/env_merge.h"
#include "base/fd.h"

/* Text is UTF-8, as in docker's images. A C library without this locale uses C. */
#define LANG_DEFAULT "LANG=C.UTF-8"
#define TERM_DEFAULT "TERM=xterm" /* used at a terminal, as in docker */
#define PIPE_SIZE    (1 << 20)

/* --------------------------------------------------------------- messages in general */

void init_request_done(struct init_request *q)
{
	buf_done(&q->msg);
	for (size_t i = 0; i < q->n_theirs; i++)
		(void)close(q->theirs[i]);
	q->n_fds = q->n_theirs = 0;
}

static uint8_t add_fd(struct init_request *q, int fd, bool close_after)
{
	if (close_after)
		q->theirs[q->n_theirs++] = fd;
	q->fds[q->n_fds++] = fd;
	return (uint8_t)(q->n_fds - 1);
}

int init_request_put(struct init_request *q, const void *msg, size_t size, int fd,
		     struct warren_error *err)
{
	buf_add(&q->msg, msg, size);
	if (q->msg.failed)
		return error_errno(err, ENOMEM, "send a request to the sandbox's init");
	if (fd >= 0)
		(void)add_fd(q, fd, false);
	return 0;
}

void init_request_number(const struct init_request *q, uint32_t seq)
{
	struct proto_header *h = (struct proto_header *)(void *)q->msg.data;

	h->version = PROTO_VERSION;
	h->seq = seq;
}

int init_request_send(const struct init_request *q, int sock, uint32_t seq,
		      struct warren_error *err)
{
	int r;

	init_request_number(q, seq);
	r = fd_send_now(sock, q->msg.data, q->msg.len, q->fds, q->n_fds);
	if (r == -EPIPE)
		return error_set(err, EPIPE, "the sandbox's init is gone");
	return r < 0 ? error_errno(err, -r, "send a request to the sandbox's init") : 0;
}

/* --------------------------------------------------------------------- SPAWN */

/*
 * Add the defaults, then the sandbox's variables, then the exec's; the last variable of a
 * name counts. If the exec replaces the environment, add only the exec's variables.
 */
static void request_add_env(struct buf *out, uint32_t *n,
			    const struct init_request_base *base,
			    const struct initclient_user *user, const char *const *own,
			    bool only, bool pty)
{
	char home[sizeof(user->home) + 8], host[80], name[80], login[80];
	const char *const defaults[] = {
		DEFAULT_PATH_ENV,          home, host, LANG_DEFAULT,
		pty ? TERM_DEFAULT : NULL, NULL
	};
	const char *const account[] = { base->account ? name : NULL, login, NULL };
	const char *const *const lists[] = { defaults, account, base->added_env,
					     base->env, own };
	size_t first = only ? ARRAY_SIZE(lists) - 1 : 0;

	(void)snprintf(home, sizeof(home), "HOME=%s", user->home);
	(void)snprintf(host, sizeof(host), "HOSTNAME=%s", base->hostname);
	(void)snprintf(name, sizeof(name), "USER=%s", base->account ? base->account : "");
	(void)snprintf(login, sizeof(login), "LOGNAME=%s",
		       base->account ? base->account : "");
	*n += (uint32_t)env_merge(out, lists + first, ARRAY_SIZE(lists) - first);
}

/* Write strings that do not fit into a message to a sealed memfd. */
static int request_spill(struct init_request *q, struct warren_error *err)
{
	size_t head = sizeof(struct proto_spawn);
	int fd = memfd_create("warren-spawn", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return error_errno(err, errno, "allocate memory for the arguments");
	(void)add_fd(q, fd, true);
	r = fd_write_all(fd, q->msg.data + head, q->msg.len - head);
	if (r == 0 && fcntl(fd, F_ADD_SEALS,
			    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		r = -errno;
	if (r < 0)
		return error_errno(err, -r, "allocate memory for the arguments");
	q->msg.len = head;
	return 0;
}

static int request_pack(struct init_request *q, const struct init_request_base *base,
			const struct initclient_user *user,
			const struct warren_exec_spec *spec, uint32_t exec,
			const struct init_request_streams *streams,
			struct warren_error *err)
{
	struct proto_spawn head = {
		.h = { .type = PROTO_SPAWN },
		.exec = exec,
		.uid = user->uid,
		.gid = user->gid,
		.n_groups = (uint32_t)user->n_groups,
		.timeout_ms = spec->timeout_ms,
		.nofile = base->nofile,
		.memory = spec->limits.memory,
		.cpu_millis = spec->limits.cpu_millis,
		.pids = spec->limits.pids,
		.rows = spec->rows ? spec->rows : 24,
		.cols = spec->cols ? spec->cols : 80,
		.stdio = { PROTO_STDIO_NULL, PROTO_STDIO_NULL, PROTO_STDIO_NULL },
		.control = { spec->child_result_fd, spec->child_wakeup_fd,
			     spec->child_command_fd },
	};
	const char *cwd = spec->cwd ? spec->cwd : base->workdir;

	if (base->groups)
		head.flags |= PROTO_SPAWN_GROUPS;
	if (!spec->cwd)
		head.flags |= PROTO_SPAWN_MKCWD;
	if (spec->accounts_sandbox)
		head.flags |= PROTO_SPAWN_SOLE;
	if (spec->pty)
		head.flags |= PROTO_SPAWN_PTY;
	(void)memcpy(head.groups, user->groups, sizeof(head.groups));
	buf_add(&q->msg, &head, sizeof(head));
	buf_add(&q->msg, cwd, strlen(cwd) + 1);
	for (const char *const *a = spec->argv; *a; a++, head.argc++)
		buf_add(&q->msg, *a, strlen(*a) + 1);
	request_add_env(&q->msg, &head.envc, base, user, spec->env, spec->env_only,
			spec->pty);
	if (streams->file) {
		head.flags |= PROTO_SPAWN_FILE;
		buf_add(&q->msg, streams->file, strlen(streams->file) + 1);
		buf_add(&q->msg, streams->content, streams->content_size);
	}
	if (q->msg.failed && !q->msg.full)
		return error_errno(err, ENOMEM, "start '%s'", spec->argv[0]);
	if (q->msg.failed || head.argc + head.envc >= PROTO_POINTERS_MAX)
		return error_set(err, E2BIG,
				 "the arguments and the environment are too long");
	head.strings_size = (uint32_t)(q->msg.len - sizeof(head));
	if (q->msg.len > PROTO_MESSAGE_MAX) {
		int r = request_spill(q, err);

		if (r < 0)
			return r;
		head.flags |= PROTO_SPAWN_MEMFD;
	}
	(void)memcpy(q->msg.data, &head, sizeof(head));
	return 0;
}

static int request_open_pipe(struct init_request *q, struct proto_spawn *head, int which,
			     int *ret_ours, struct warren_error *err)
{
	int ends[2], ours = which == 0 ? 1 : 0;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "create a pipe");
	/*
	 * Larger pipes need fewer wake-ups; if the quota is used up, the default size is
	 * used.
	 */
	if (which == 1)
		(void)fcntl(ends[0], F_SETPIPE_SZ, PIPE_SIZE);
	*ret_ours = ends[ours];
	head->stdio[which] = add_fd(q, ends[!ours], true);
	return 0;
}

static int add_journal(struct init_request *q, struct proto_spawn *head,
		       const struct warren_exec_spec *spec,
		       struct init_request_streams *st, struct warren_error *err)
{
	if (st->journal < 0 || st->notify < 0)
		return error_set(err, EINVAL, "there is no file for the journal");
	head->journal_limit = spec->journal_limit ? spec->journal_limit : 1U << 20;
	if (head->journal_limit < 65536)
		head->journal_limit = 65536;
	head->flags |= PROTO_SPAWN_JOURNAL;
	if (st->hold)
		head->flags |= PROTO_SPAWN_HOLD;
	for (size_t i = 0; i < ARRAY_SIZE(head->control); i++)
		if (head->nofile && head->control[i] >= head->nofile)
			return error_set(
				err, EMFILE,
				"descriptor %u is above the limit of %ju open files",
				head->control[i], (uintmax_t)head->nofile);
	if (st->gate >= 0)
		head->gate = (uint8_t)(1 + add_fd(q, TAKE_FD(st->gate), true));
	if (spec->child_command_fd)
		(void)add_fd(q, spec->command_fd, false);
	(void)add_fd(q, st->journal, false);
	(void)add_fd(q, st->notify, false);
	return 0;
}

static int add_streams(struct init_request *q, const struct warren_exec_spec *spec,
		       struct init_request_streams *st, struct warren_error *err)
{
	const enum warren_stdio want[3] = { spec->in, spec->out, spec->err };
	static const uint32_t journal_bit[3] = { 0, PROTO_SPAWN_OUT, PROTO_SPAWN_ERR };
	struct proto_spawn *head = (struct proto_spawn *)(void *)q->msg.data;
	bool journal =
		spec->child_result_fd || spec->child_wakeup_fd || spec->child_command_fd;
	int r = 0;

	for (int i = 0; i < 3 && r == 0; i++) {
		if (want[i] == WARREN_STDIO_JOURNAL) {
			head->flags |= journal_bit[i];
			journal = true;
		} else if (want[i] == WARREN_STDIO_PIPE && i == 0 && st->keep_input) {
			head->flags |= PROTO_SPAWN_INPUT;
		} else if (want[i] == WARREN_STDIO_PIPE) {
			r = request_open_pipe(q, head, i, &st->fd[i], err);
		}
	}
	return r == 0 && journal ? add_journal(q, head, spec, st, err) : r;
}

int init_request_spawn(struct init_request *q, const struct init_request_base *base,
		       const struct initclient_user *user,
		       const struct warren_exec_spec *spec, uint32_t exec,
		       struct init_request_streams *streams, struct warren_error *err)
{
	int r = request_pack(q, base, user, spec, exec, streams, err);

	return r < 0 ? r : add_streams(q, spec, streams, err);
}

int init_request_check_user(const struct init_request_base *base, const char *text,
			    const struct initclient_user *user, struct warren_error *err)
{
	if (user->uid < base->n_ids && user->gid < base->n_ids)
		return 0;
	return error_set(err, EINVAL, "user '%s' (%u:%u) cannot exist in this sandbox",
			 text, user->uid, user->gid);
}

/* ------------------------------------------------------------------- answers */

void init_reply_done(struct init_reply *a)
{
	while (a->n_fds > 0) {
		int fd = a->fds[--a->n_fds];

		if (fd >= 0)
			(void)close(fd);
	}
}

/* Receive a message into @data, like init_request_receive(), with its size in
 * *@ret_size. */
static int request_receive(int sock, struct init_reply *a, void *data, size_t size,
			   int flags, size_t *ret_size, struct warren_error *err)
{
	struct proto_reply *reply = data;
	bool lost = false;
	ssize_t r;

	a->entries = NULL;
	a->entries_size = 0;
	a->lost = false;
	a->m.why[0] = '\0';
	a->n_fds = ARRAY_SIZE(a->fds);
	r = fd_recv_some(sock, data, size, a->fds, &a->n_fds, flags, &lost);
	/*
	 * The peer closed its socket before it read all our data. The kernel reports this
	 * once, before the data that the peer sent.
	 */
	if (r == -ECONNRESET) {
		a->n_fds = ARRAY_SIZE(a->fds);
		r = fd_recv_some(sock, data, size, a->fds, &a->n_fds, flags, &lost);
	}
	if (r <= 0) {
		a->n_fds = 0;
		/* A temporary lack of memory is no error of init: try again. */
		if (r == -EAGAIN || r == -ENOMEM || r == -ENOBUFS)
			return 0;
		if (r == 0 || r == -ECONNRESET)
			return error_set(err, EPIPE, "the sandbox's init is gone");
		return error_errno(err, (int)-r, "receive from the sandbox's init");
	}
	if (proto_check(data, (size_t)r) < 0) {
		init_reply_done(a);
		return error_set(err, EPROTO, "the sandbox's init violated the protocol");
	}
	if (reply->h.type != PROTO_REPLY)
		init_reply_done(a);
	/* If descriptors cannot be received, or are unexpected, only this request fails.
	 */
	a->lost = lost && reply->h.type == PROTO_REPLY && reply->status == 0;
	if (a->lost)
		reply->status = -EMFILE;
	*ret_size = (size_t)r;
	return 1;
}

int init_request_receive(int sock, struct init_reply *a, int flags,
			 struct warren_error *err)
{
	size_t size;
	int r = request_receive(sock, a, &a->m, sizeof(a->m), flags, &size, err);

	if (r > 0 && a->m.h.type == PROTO_ENTRIES)
		return error_set(err, EPROTO,
				 "the sandbox's init answered a different request");
	return r;
}

int init_request_receive_into(int sock, struct init_reply *a, char *room, int flags,
			      struct warren_error *err)
{
	size_t size = 0;
	int r = request_receive(sock, a, room, PROTO_ANSWER_MAX, flags, &size, err);

	if (r <= 0)
		return r;
	(void)memset(&a->m, 0, sizeof(a->m));
	(void)memcpy(&a->m, room, size < sizeof(a->m) ? size : sizeof(a->m));
	if (a->m.h.type == PROTO_ENTRIES) {
		a->entries = room + sizeof(struct proto_entries);
		a->entries_size = size - sizeof(struct proto_entries);
	}
	return 1;
}

/*
 * Is @fd of the kind of @bit? A descriptor for writing must not be a file, for example.
 */
static bool is_kind(int fd, uint32_t bit)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	if (bit == PROTO_GIVES_COMMAND)
		return S_ISREG(st.st_mode);
	return S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) ||
	       (bit == PROTO_GIVES_INPUT && S_ISCHR(st.st_mode) && isatty(fd));
}

int init_reply_take(struct init_reply *a, uint32_t bit)
{
	size_t at = 0;

	if (a->m.h.type != PROTO_REPLY || !(a->m.reply.gives & bit))
		return -1;
	for (uint32_t b = 1; b < bit; b <<= 1)
		at += (a->m.reply.gives & b) != 0;
	return at < a->n_fds && is_kind(a->fds[at], bit) ? TAKE_FD(a->fds[at]) : -1;
}

int init_reply_take_only(struct init_reply *a)
{
	return a->m.h.type == PROTO_REPLY && a->n_fds == 1 ? TAKE_FD(a->fds[0]) : -1;
}

int reply_code(const struct proto_reply *reply)
{
	if (reply->status == 0)
		return 0;
	return reply->status < 0 && reply->status > -4096 ? -reply->status : EPROTO;
}

int reply_refuse(const struct init_reply *a, struct warren_error *err, const char *fmt,
		 ...)
{
	int code = reply_code(&a->m.reply);
	char what[128];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	if (a->m.why[0])
		return error_set(err, code ? code : EPROTO, "%s: %s", what, a->m.why);
	return error_errno(err, code ? code : EPROTO, "%s", what);
}

int reply_explain(const struct init_reply *a, const struct warren_exec_spec *spec,
		  const char *workdir, struct warren_error *err)
{
	const struct proto_reply *reply = &a->m.reply;
	static const char *const stages[] = {
		[PROTO_STAGE_NONE] = "start it",
		[PROTO_STAGE_REQUEST] = "pass it to init",
		[PROTO_STAGE_PTY] = "open a terminal",
		[PROTO_STAGE_CGROUP] = "enter its cgroup",
		[PROTO_STAGE_FORK] = "start a process",
		[PROTO_STAGE_JOURNAL] = "open its journal",
		[PROTO_STAGE_IDS] = "set its user and limits",
	};
	int code = reply_code(reply);

	if (a->m.why[0])
		return error_set(err, code ? code : EPROTO, "%s", a->m.why);
	_Static_assert(ARRAY_SIZE(stages) == PROTO_STAGE_CWD, "a stage has no words");
	if (reply->stage == PROTO_STAGE_CGROUP && code == EOPNOTSUPP)
		return error_set(
			err, EOPNOTSUPP,
			"a limit of an exec cannot be enforced here: memory and pids "
			"need cgroups, processors need cgroup v2");
	if (reply->stage == PROTO_STAGE_CWD) {
		(void)error_errno(err, code, "enter the directory '%s'",
				  spec->cwd ? spec->cwd : workdir);
		err->code = ENOTDIR; /* ENOENT is reserved for the command itself */
		return -ENOTDIR;
	}
	/* ENOENT is reserved for the command here as well. */
	if (reply->stage == PROTO_STAGE_FILE) {
		(void)error_errno(err, code, "write the file of the command");
		if (code == ENOENT || code == ENOTDIR)
			err->code = ESTALE;
		return -err->code;
	}
	if (reply->stage == PROTO_STAGE_EXEC)
		return error_errno(err, code, "execute '%s'", spec->argv[0]);
	return error_errno(err, code, "%s",
			   stages[reply->stage < ARRAY_SIZE(stages) ? reply->stage : 0]);
}

void result_fill(const struct proto_exited *from, struct warren_result *to)
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
