/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers.c - two processes that may have to wait for the sandbox: one for files, one for
 * signals
 */
#include "shim/core/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "shim/core/file_copy.h"
#include "shim/core/shell_pool.h"

#define PENDING_MAX 256
/* Shorter than the time after which the client gives up. */
#define STUCK_SECS (SIGNAL_SECS + 5)

enum {
	FILES,
	SIGNALS,
	WORKERS
};

static struct worker {
	pid_t pid; /* 0: none */
	int sock;
	struct work pending[PENDING_MAX]; /* requests that it has not answered */
	size_t n_pending;
	uint64_t heard; /* time of its last message, or of its last idle moment, in ns */
} workers[WORKERS];

struct parcel {
	struct work w;
	_Alignas(8) char msg[PROTO_MESSAGE_MAX];
};

static struct parcel parcel; /* static, because it is too large for the stack; never used
				by two callers at a time */
static int upstairs = -1;    /* in a worker: socket for its answers */
static int kill_gate = -1;   /* see work_kill_gate() */

/* ---------------------------------------------------------------- code of the workers */

void work_send(const struct work *w, const void *msg, size_t size, int fd)
{
	parcel.w = *w;
	if (size > 0)
		(void)memcpy(parcel.msg, msg, size);
	(void)fd_send(upstairs, &parcel, offsetof(struct parcel, msg) + size, &fd,
		      fd >= 0);
}

void work_reply(const struct work *w, long status, uint32_t value, int fd,
		const char *why)
{
	struct {
		struct proto_reply r;
		char why[PROTO_WHY_MAX];
	} m = {
		.r = { .h = { .version = PROTO_VERSION,
			      .type = PROTO_REPLY,
			      .seq = w->seq },
		       .status = (int32_t)status,
		       .value = value },
	};
	size_t size = sizeof(m.r);

	if (why && why[0])
		size += (size_t)snprintf(m.why, sizeof(m.why), "%.*s",
					 (int)sizeof(m.why) - 1, why) +
			1;
	work_send(w, &m, size, fd);
}

void work_sign(void)
{
	work_reply(&(struct work){ .conn = -1 }, -EINPROGRESS, 0, -1, NULL);
}

static void workers_carry_out(size_t size, int *fds, size_t n_fds)
{
	struct work w = parcel.w;

	switch (w.kind) {
	case WORK_REQUEST: {
		static _Alignas(8) char msg[PROTO_MESSAGE_MAX];

		(void)memcpy(msg, parcel.msg, size);
		files_work(&w, msg, size, fds, n_fds);
		break;
	}
	case WORK_SAVE:
	case WORK_RESTORE:
		save_work(&w, fds, n_fds);
		break;
	case WORK_GONE:
		spool_abandon(w.connection);
		break;
	case WORK_KILL: {
		static struct target targets[WORK_KILLS_MAX];

		/* Copy the request, because answers are also built in the parcel. */
		size = size < sizeof(targets) ? size : sizeof(targets);
		(void)memcpy(targets, parcel.msg, size);
		tree_kill_overdue(&w, targets, size / sizeof(*targets));
		break;
	}
	case WORK_ALL:
		everyone_work(&w);
		break;
	case WORK_SIGNAL:
	case WORK_LIST:
		tree_work(&w, n_fds > 0 ? fds[0] : -1);
		break;
	}
}

/* Reap children that no process waits for: relays to ports, file copies. */
static void reap_others(void)
{
	siginfo_t info = { 0 };

	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid &&
	       !shell_pool_has(info.si_pid)) {
		(void)waitpid(info.si_pid, NULL, 0);
		info.si_pid = 0;
	}
}

static void workers_worker_main(int sock) __attribute__((noreturn));
static void workers_worker_main(int sock)
{
	upstairs = sock;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)prctl(PR_SET_NAME, "warren-worker");
	(void)signal(SIGPIPE, SIG_IGN);
	for (;;) {
		struct pollfd p = { .fd = sock, .events = POLLIN };
		int fds[PROTO_FDS_MAX];
		size_t n_fds = ARRAY_SIZE(fds);
		ssize_t n;

		reap_others();
		if (poll(&p, 1, spool_tick() ? SPOOL_TICK_MS : shell_pool_tick()) <= 0)
			continue;
		n = fd_recv(sock, &parcel, sizeof(parcel), fds, &n_fds, 0);

		if (n == -EINTR)
			continue;
		if (n < (ssize_t)offsetof(struct parcel, msg))
			_exit(0);
		workers_carry_out((size_t)n - offsetof(struct parcel, msg), fds, n_fds);
		for (size_t i = 0; i < n_fds; i++)
			if (fds[i] >= 0)
				(void)close(fds[i]);
	}
}

/* ------------------------------------------------------------------- code of the loop */

static int workers_worker_start(struct worker *k, unsigned which)
{
	int ends[2], size = 1 << 20;

	if (k->pid > 0)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	for (int i = 0; i < 2; i++)
		(void)setsockopt(ends[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	k->pid = fork();
	if (k->pid == 0) {
		int sock = fcntl(ends[1], F_DUPFD_CLOEXEC, 5);
		int within = which == FILES && this_sandbox.within >= 0
				     ? fcntl(this_sandbox.within, F_DUPFD_CLOEXEC, 5)
				     : -1;

		/* Close all connections and streams of execs in this process. */
		if (within < 0 && which == FILES && this_sandbox.within >= 0)
			_exit(1); /* it could not serve files as promised */
		this_sandbox.within = within < 0 ? -1 : dup3(within, 4, O_CLOEXEC);
		if (dup3(sock, 3, O_CLOEXEC) < 0 ||
		    close_range(this_sandbox.within < 0 ? 4 : 5, ~0U, 0) < 0)
			_exit(1);
		workers_worker_main(3);
	}
	(void)close(ends[1]);
	if (k->pid < 0 || watch_add(ends[0], WATCH_WORK, which, 0) < 0) {
		(void)close(ends[0]);
		k->pid = 0;
		return -EAGAIN;
	}
	k->sock = ends[0];
	return 0;
}

uint64_t work_connection(int c)
{
	struct stat st;

	return c >= 0 && init.conns[c].fd >= 0 && fstat(init.conns[c].fd, &st) == 0
		       ? st.st_ino
		       : 0;
}

/* The loop does not wait: if the socket of a worker is full, the request is refused. */
static int workers_ask(unsigned which, struct work w, const void *msg, size_t size,
		       int *fds, size_t n_fds)
{
	struct worker *k = &workers[which];
	int r = workers_worker_start(k, which);

	if (w.kind != WORK_GONE)
		w.connection = work_connection(w.conn);
	if (r == 0 && k->n_pending == PENDING_MAX)
		r = -EAGAIN;
	if (r < 0)
		return r;
	parcel.w = w;
	if (size > 0)
		(void)memcpy(parcel.msg, msg, size);
	r = fd_send(k->sock, &parcel, offsetof(struct parcel, msg) + size, fds, n_fds);
	if (k->n_pending == 0)
		k->heard = agent_now();
	if (r == 0 && w.kind != WORK_GONE)
		k->pending[k->n_pending++] = w;
	return r;
}

/* A worker that has not been started need not be informed. */
void work_gone(uint64_t connection)
{
	struct work w = { .kind = WORK_GONE, .conn = -1, .connection = connection };

	if (workers[FILES].pid > 0)
		(void)workers_ask(FILES, w, NULL, 0, NULL, 0);
}

void work_request(int c, const void *msg, size_t size, int *fds, size_t n_fds)
{
	const struct proto_header *h = msg;
	struct work w = { .kind = WORK_REQUEST, .conn = c, .seq = h->seq };
	int r = workers_ask(FILES, w, msg, size, fds, n_fds);

	if (r < 0)
		conn_reply(c, h->seq, r, PROTO_STAGE_NONE, -1);
}

void work_signal(int c, const struct exec *ex, const struct proto_signal *msg)
{
	struct work w = { .kind = WORK_SIGNAL,
			  .conn = c,
			  .seq = msg->h.seq,
			  .target = *child_target(ex),
			  .sig = msg->sig,
			  .pid = msg->pid,
			  .whom = (enum proto_whom)msg->whom };
	int r = workers_ask(SIGNALS, w, NULL, 0, NULL, 0);

	if (r < 0)
		conn_reply(c, msg->h.seq, r, PROTO_STAGE_NONE, -1);
}

static bool kills_everyone(const struct work *w)
{
	return w->kind == WORK_ALL && w->sig == SIGKILL;
}

/* Open the gate if no request to kill everything is left. */
static void kill_gate_look(void)
{
	const struct worker *k = &workers[SIGNALS];

	for (size_t i = 0; i < k->n_pending; i++)
		if (kills_everyone(&k->pending[i]))
			return;
	if (kill_gate < 0)
		return;
	(void)eventfd_write(kill_gate, 1);
	(void)close(TAKE_FD(kill_gate));
}

void work_signal_everyone(int c, const struct proto_signal *msg)
{
	struct work w = {
		.kind = WORK_ALL, .conn = c, .seq = msg->h.seq, .sig = msg->sig
	};
	int r = 0;

	if (kills_everyone(&w) && kill_gate < 0)
		r = kill_gate = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = r < 0 ? -errno : workers_ask(SIGNALS, w, NULL, 0, NULL, 0);
	kill_gate_look();
	if (r < 0)
		conn_reply(c, msg->h.seq, r, PROTO_STAGE_NONE, -1);
}

int work_kill_gate(void)
{
	return kill_gate;
}

void work_list(int c, const struct exec *ex, const struct proto_list *msg, int *fds,
	       size_t n_fds)
{
	struct work w = { .kind = WORK_LIST,
			  .conn = c,
			  .seq = msg->h.seq,
			  .target = *child_target(ex) };
	int r = workers_ask(SIGNALS, w, NULL, 0, fds, n_fds);

	if (r < 0)
		conn_reply(c, msg->h.seq, r, PROTO_STAGE_NONE, -1);
}

int work_save(int c, uint32_t seq, enum work_kind kind, int pid, int *fds, size_t n_fds)
{
	struct work w = { .kind = kind, .conn = c, .seq = seq, .pid = pid };

	if (workers[FILES].n_pending > 0 || workers[SIGNALS].n_pending > 0)
		return -EBUSY;
	/* The signal worker has a shell inside, so end it; the other worker closes its
	 * own shell on request. */
	if (workers[SIGNALS].pid > 0)
		(void)kill(workers[SIGNALS].pid, SIGKILL);
	return workers_ask(FILES, w, NULL, 0, fds, n_fds);
}

int work_kill(const struct target *targets, size_t n)
{
	struct work w = { .kind = WORK_KILL, .conn = -1 };

	_Static_assert(WORK_KILLS_MAX * sizeof(*targets) <= PROTO_MESSAGE_MAX,
		       "they do not fit into a message");
	return workers_ask(SIGNALS, w, targets, n * sizeof(*targets), NULL, 0);
}

static void workers_settle(struct worker *k, const struct work *w)
{
	for (size_t i = 0; i < k->n_pending; i++) {
		const struct work *p = &k->pending[i];

		if (p->kind == w->kind && p->conn == w->conn && p->seq == w->seq &&
		    p->connection == w->connection) {
			k->pending[i] = k->pending[--k->n_pending];
			break;
		}
	}
	kill_gate_look();
}

static bool is_interim(const struct proto_reply *r, size_t size)
{
	return size >= sizeof(*r) && r->h.type == PROTO_REPLY &&
	       r->status == -EINPROGRESS;
}

/*
 * Extend the time of requests that wait behind a long job. Otherwise, they would time
 * out, and the sandbox would be abandoned.
 */
static void ask_patience(const struct worker *k)
{
	for (size_t i = 0; i < k->n_pending; i++) {
		const struct work *w = &k->pending[i];

		if (w->conn >= 0 && work_connection(w->conn) == w->connection)
			conn_reply(w->conn, w->seq, -EINPROGRESS, PROTO_STAGE_NONE, -1);
	}
}

static void workers_pass_on(struct worker *k, size_t size, int fd)
{
	const struct proto_reply *said = (const void *)parcel.msg;
	const struct work *w = &parcel.w;

	if (k == &workers[SIGNALS])
		kill_spare();
	if (is_interim(said, size)) {
		ask_patience(k);
		return;
	}
	workers_settle(k, w);
	if (w->kind == WORK_SAVE || w->kind == WORK_RESTORE)
		save_over(w->kind == WORK_SAVE, (const void *)parcel.msg, size);
	if (w->kind == WORK_KILL) {
		kill_over(size >= sizeof(*said) ? said->status : -EPROTO);
	} else if (w->conn >= 0 && w->connection &&
		   work_connection(w->conn) == w->connection) {
		conn_send(w->conn, parcel.msg, size, &fd, fd >= 0);
	}
}

void work_heard(unsigned which)
{
	struct worker *k = &workers[which];

	for (int i = 0; i < 16 && k->pid > 0; i++) {
		size_t n_fds = 1;
		int fd = -1;
		ssize_t n = fd_recv(k->sock, &parcel, sizeof(parcel), &fd, &n_fds,
				    MSG_DONTWAIT);

		if (n < (ssize_t)offsetof(struct parcel, msg)) {
			if (n != -EAGAIN && n != -EINTR)
				(void)kill(k->pid, SIGKILL); /* it is replaced after it
								has been reaped */
			return;
		}
		k->heard = agent_now();
		workers_pass_on(k, (size_t)n - offsetof(struct parcel, msg), fd);
		if (fd >= 0)
			(void)close(fd);
	}
}

/*
 * All work of the signal worker has a deadline, and it reports progress. If it reports
 * nothing, it is stuck, and is replaced, because it must not delay other signals.
 */
uint64_t work_next(void)
{
	const struct worker *k = &workers[SIGNALS];

	return k->pid > 0 && k->n_pending > 0 ? k->heard + STUCK_SECS * 1000000000ULL : 0;
}

void work_deadlines(void)
{
	uint64_t by = work_next();

	if (by == 0 || agent_now() < by)
		return;
	/* It is replaced after it has been reaped. */
	(void)kill(workers[SIGNALS].pid, SIGKILL);
	workers[SIGNALS].heard = agent_now();
}

/* No process will answer the request any more: answer it with an error. */
static void give_up(const struct work *w)
{
	struct warren_error why = { .code = EIO };

	if (w->kind == WORK_SAVE || w->kind == WORK_RESTORE)
		save_died(w->kind == WORK_SAVE, &why);
	if (w->kind == WORK_KILL)
		kill_over(-why.code);
	if (w->conn < 0 || work_connection(w->conn) != w->connection)
		return;
	reply_why = why.msg[0] ? why.msg : NULL;
	conn_reply(w->conn, w->seq, -why.code, PROTO_STAGE_NONE, -1);
	reply_why = NULL;
}

bool work_reaped(int pid)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		struct worker *k = &workers[i];

		if (k->pid != pid)
			continue;
		(void)close(k->sock);
		k->pid = 0;
		while (k->n_pending > 0)
			give_up(&k->pending[--k->n_pending]);
		kill_gate_look();
		return true;
	}
	return false;
}
