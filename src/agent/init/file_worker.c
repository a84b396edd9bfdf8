/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_worker.c - file workers: children of init for file operations that can block or
 * use memory
 *
 * write(2), chmod(2), open(2) and similar calls wait for locks that code inside can hold
 * for any time, and the pages of a file in memory are charged to the process that writes
 * them. init must meet the deadlines of all execs and is outside the limits, so init must
 * not make such calls itself. A client that works on files asks init for a worker, and
 * sends its requests to that worker over a separate connection.
 *
 * A worker is as well protected as init: init's user, init's program, not dumpable, all
 * signals blocked. There are two differences. The sandbox's root may kill or stop it,
 * because it is not process 1. And the OOM killer chooses it first, so that a file that
 * is too large causes only its own request to fail. In both cases, the end of the
 * connection shows this, and the next request uses another worker.
 *
 * It closes all of init's descriptors before its first lookup. Afterwards it has only its
 * connection, /dev/null, and the descriptors of the current request.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "agent/core/agent.h"
#include "agent/core/spawn.h"

static struct worker {
	int pid;        /* 0: free */
	int conn;       /* init's end of the connection, for the last message */
	uint64_t kills; /* number of OOM kills at the last check */
} workers[PROTO_WORKERS_MAX];

/*
 * The files in /proc of a process belong to its user only if it is dumpable. No other
 * process has init's user.
 */
static void worker_die_first(void)
{
	long fd;

	(void)SYS_5(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
	fd = files_resolve(AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY, 0);
	(void)SYS_5(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (fd < 0)
		return;
	if (on_proc((int)fd))
		(void)sys_write(fd, "1000", 4);
	sys_close(fd);
}

__attribute__((noreturn)) static void file_worker_main(int conn, const int *own,
						       int n_own)
{
	int keep[] = { 0, 1, 2, conn };
	long r = n_own ? spawn_join(own, n_own)
		       : spawn_join(init.join_sandbox, init.n_join_sandbox);

	for (int c = 0; c < PROTO_CONNECTIONS_MAX; c++)
		init.conns[c] = (struct conn){ .fd = -1 };
	init.conns[0].fd = conn;
	init.listener = -1;
	init.kept = false; /* a worker ends with its connection */
	init.is_worker = true;
	if (r == 0)
		r = spawn_close_others(keep, sizeof(keep) / sizeof(keep[0]));
	if (r < 0) {
		conn_reply(0, 0, r, PROTO_STAGE_CGROUP, -1);
		init_end();
	}
	worker_die_first();
	(void)SYS_5(SYS_prctl, PR_SET_NAME, "files", 0, 0, 0);
	for (;;) {
		struct pollfd p = { .fd = conn, .events = POLLIN };

		(void)SYS_5(SYS_ppoll, &p, 1, NULL, NULL, 8);
		conn_receive(0);
	}
}

static long worker_fork(struct worker *w, int *ret_conn)
{
	int ends[2], own[1], n_own = 0;
	long r = group_files(own, &n_own);

	if (r < 0)
		return r;
	r = SYS_4(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
	if (r == 0) {
		w->kills = group_files_kills();
		r = SYS_2(SYS_clone, SIGCHLD, 0);
		if (r == 0)
			file_worker_main(ends[1], own, n_own);
		if (r < 0) {
			sys_close(ends[0]);
			sys_close(ends[1]);
		}
	}
	for (int i = 0; i < n_own; i++)
		sys_close(own[i]);
	if (r < 0)
		return r;
	w->pid = (int)r;
	w->conn = ends[1];
	*ret_conn = ends[0];
	return 0;
}

void file_worker_start(int c, const struct proto_worker *msg)
{
	struct worker *w = workers;
	int conn = -1;
	long r = -EBUSY;

	while (w < workers + PROTO_WORKERS_MAX && w->pid)
		w++;
	if (w < workers + PROTO_WORKERS_MAX)
		r = msg->flags ? -EINVAL : worker_fork(w, &conn);
	conn_reply(c, msg->h.seq, r, PROTO_STAGE_FORK, conn);
	if (conn >= 0)
		sys_close(conn);
}

bool file_worker_ended(int pid)
{
	struct proto_reply last = { .h = { .version = PROTO_VERSION,
					   .type = PROTO_REPLY } };
	struct worker *w = workers;
	uint64_t kills;

	while (w < workers + PROTO_WORKERS_MAX && w->pid != pid)
		w++;
	if (w == workers + PROTO_WORKERS_MAX)
		return false;
	kills = group_files_kills();
	last.status = kills > w->kills ? -ENOMEM : -EOWNERDEAD;
	(void)SYS_6(SYS_sendto, w->conn, &last, sizeof(last), MSG_DONTWAIT | MSG_NOSIGNAL,
		    NULL, 0);
	sys_close(w->conn);
	w->pid = 0;
	/* Forget the other workers: this process has nothing to do with them. */
	for (int i = 0; i < PROTO_WORKERS_MAX; i++)
		workers[i].kills = kills;
	return true;
}

/* -------------------------------------------------------------------- NOTIFY */

/*
 * Wait for space as long as necessary: if events are lost in the meantime, the kernel's
 * queue reports it.
 */
__attribute__((noreturn)) static void notify_main(int events, int sock)
{
	_Alignas(8) static char room[PROTO_EVENTS_MAX];
	int keep[] = { 0, 1, 2, events, sock };

	if (spawn_close_others(keep, sizeof(keep) / sizeof(keep[0])) < 0)
		init_end();
	(void)SYS_5(SYS_prctl, PR_SET_NAME, "watch", 0, 0, 0);
	for (;;) {
		struct pollfd p[] = { { .fd = events, .events = POLLIN },
				      { .fd = sock } };
		long n;

		(void)SYS_5(SYS_ppoll, p, 2, NULL, NULL, 8);
		if (p[1].revents)
			init_end();
		n = sys_read(events, room, sizeof(room));
		if (n == -EAGAIN || n == -EINTR)
			continue;
		if (n <= 0 || SYS_6(SYS_sendto, sock, room, n, MSG_NOSIGNAL, NULL, 0) < 0)
			init_end();
	}
}

static long notify_start(int fds[2])
{
	int ends[2];
	long r = SYS_1(SYS_inotify_init1, IN_CLOEXEC | IN_NONBLOCK);

	if (r < 0)
		return r;
	fds[0] = (int)r;
	r = SYS_4(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
	if (r == 0) {
		fds[1] = ends[0];
		r = SYS_2(SYS_clone, SIGCHLD, 0);
		if (r == 0)
			notify_main(fds[0], ends[1]);
		sys_close(ends[1]);
	}
	return r < 0 ? r : 0;
}

void file_worker_notify(int c, const struct proto_notify *msg)
{
	struct proto_reply out = {
		.h = { .version = PROTO_VERSION, .type = PROTO_REPLY, .seq = msg->h.seq },
	};
	int fds[2] = { -1, -1 };

	/*
	 * Reap children that have ended; the others become children of init when this
	 * process ends.
	 */
	while (SYS_4(SYS_wait4, -1, NULL, WNOHANG, NULL) > 0)
		;
	out.status = (int32_t)notify_start(fds);
	conn_send(c, &out, sizeof(out), fds, out.status == 0 ? 2 : 0);
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			sys_close(fds[i]);
}
