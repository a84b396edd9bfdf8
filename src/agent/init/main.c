/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - the loop of init
 *
 * There is one thread and no allocation: everything is in one static struct, whose unused
 * pages take no memory. A request is handled before the next one is read. The loop ends
 * with the creator's connection, unless the sandbox is durable and complete. The sandbox
 * ends with the loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "agent/core/agent.h"

struct init init;

_Alignas(16) char inbox[PROTO_MESSAGE_MAX];

int watch_add(int fd, enum watch what, unsigned slot, unsigned which)
{
	struct epoll_event ev = { .events = EPOLLIN };

	ev.data.u64 = (uint64_t)what << 32 | slot << 2 | which;
	return (int)SYS_4(SYS_epoll_ctl, init.epoll, EPOLL_CTL_ADD, fd, &ev);
}

void watch_drop(int fd)
{
	struct epoll_event none = { 0 };

	(void)SYS_4(SYS_epoll_ctl, init.epoll, EPOLL_CTL_DEL, fd, &none);
}

/* The current directory and the initial descriptors belong to another root. */
static void enter_root(void)
{
	int fd = (int)SYS_4(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);

	for (int i = 0; fd >= 0 && i < 3; i++)
		(void)SYS_3(SYS_dup3, fd, i, 0);
	if (fd > 2)
		(void)sys_close(fd);
	/* Paths of requests are resolved from here. */
	if (SYS_1(SYS_chdir, "/") < 0)
		init_end();
}

/* These directories have fixed numbers. */
static void init_keep_dir(unsigned role, int fd)
{
	int number = PROTO_FD_DIRS + (int)(role - PROTO_ROLE_DIRS);

	(void)SYS_3(SYS_dup3, fd, number, O_CLOEXEC);
	(void)sys_close(fd);
	init.dir[role] = number;
}

static void init_give_dir(int c, uint32_t seq, unsigned role)
{
	conn_reply(c, seq, init.dir[role] < 0 ? -EOPNOTSUPP : 0, PROTO_STAGE_NONE,
		   init.dir[role]);
}

static void init_configure(const struct proto_config *msg, int *fds, size_t n_fds)
{
	if (msg->flags & PROTO_CONFIG_ROOTED)
		enter_root();
	for (size_t i = 0; i < n_fds && i < msg->n; i++) {
		switch (msg->role[i]) {
		case PROTO_ROLE_JOIN:
			init.join[init.n_join++] = fds[i];
			break;
		case PROTO_ROLE_JOIN_BOX:
			init.join_sandbox[init.n_join_sandbox++] = fds[i];
			break;
		case PROTO_ROLE_ALIVE:
			break; /* the descriptor only needs to stay open */
		case PROTO_ROLE_UPPER:
		case PROTO_ROLE_LOWER:
			init_keep_dir(msg->role[i], fds[i]);
			break;
		default:
			if (msg->role[i] < PROTO_ROLE_MAX)
				init.dir[msg->role[i]] = fds[i];
		}
		fds[i] = -1;
	}
	if (msg->flags & PROTO_CONFIG_AHEAD)
		group_ahead();
}

static void init_handle_signal(int c, const struct proto_signal *msg)
{
	struct exec *ex = exec_find(msg->exec);
	long r = ex ? tree_signal(ex, msg) : -ESRCH;

	/*
	 * Kill all processes of the namespace except this one with a single call, so that
	 * none can fork in the meantime and be missed.
	 */
	if (msg->whom == PROTO_WHOM_ALL && msg->sig == 0)
		r = tree_any_catches(SIGTERM) ? 0 : -ESRCH;
	else if (msg->whom == PROTO_WHOM_ALL)
		r = sys_kill(-1, msg->sig) == -EPERM ? -EPERM : 0;
	conn_reply(c, msg->h.seq, r, PROTO_STAGE_NONE, -1);
}

void init_dispatch(int c, size_t size, int *fds, size_t n_fds)
{
	const struct proto_header *h = (const void *)inbox;
	const void *msg = inbox;

	if (!request_is_sound(c, size))
		return;
	if (init.is_worker) {
		if (h->type == PROTO_NOTIFY)
			file_worker_notify(c, msg);
		else
			reach_request(c, size, fds, n_fds);
		return;
	}
	switch (h->type) {
	case PROTO_CONFIG:
		/* KEEP must come before other requests, and only from the creator. */
		if (c == 0 && !init.kept)
			init_configure(msg, fds, n_fds);
		return;
	case PROTO_SPAWN:
		spawn_exec(c, msg, size, fds, n_fds);
		return;
	case PROTO_SIGNAL:
		init_handle_signal(c, msg);
		return;
	case PROTO_LIST:
		tree_list(c, msg, fds, n_fds);
		return;
	case PROTO_WORKER:
		file_worker_start(c, msg);
		return;
	case PROTO_UPPER:
		init_give_dir(c, h->seq, PROTO_ROLE_UPPER);
		return;
	case PROTO_LOWER:
		init_give_dir(c, h->seq, PROTO_ROLE_LOWER);
		return;
	default:
		if (!attach_dispatch(c, msg, fds, n_fds))
			reach_request(c, size, fds, n_fds);
	}
}

/* Take the directories that the child before init opened, if any. */
static void take_directories(void)
{
	for (int i = 0; i < PROTO_ROLE_MAX; i++)
		init.dir[i] = -1;
	for (int i = 0; i < PROTO_DIRS; i++)
		if (SYS_3(SYS_fcntl, PROTO_FD_DIRS + i, F_SETFD, FD_CLOEXEC) == 0)
			init.dir[PROTO_ROLE_DIRS + i] = PROTO_FD_DIRS + i;
	/* Keep their numbers free until CONFIG brings them. */
	if (init.dir[PROTO_ROLE_UPPER] < 0)
		(void)SYS_3(SYS_dup3, 0, PROTO_FD_UPPER, O_CLOEXEC);
	if (init.dir[PROTO_ROLE_LOWER] < 0)
		(void)SYS_3(SYS_dup3, 0, PROTO_FD_LOWER, O_CLOEXEC);
}

static void init_start(void)
{
	struct proto_ready ready = {
		.h = { .version = PROTO_VERSION, .type = PROTO_READY },
	};
	uint64_t all = ~0ULL;

	become_init();
	(void)SYS_5(SYS_prctl, PR_SET_NAME, "init", 0, 0, 0);
	conn_start();
	take_directories();
	/*
	 * All signals are blocked and read from a descriptor; child processes unblock
	 * them.
	 */
	(void)SYS_4(SYS_rt_sigprocmask, SIG_BLOCK, &all, NULL, sizeof(all));
	all = 1ULL << (SIGCHLD - 1);
	init.signals = (int)SYS_4(SYS_signalfd4, -1, &all, sizeof(all),
				  SFD_CLOEXEC | SFD_NONBLOCK);
	init.timer = (int)SYS_2(SYS_timerfd_create, CLOCK_MONOTONIC,
				TFD_CLOEXEC | TFD_NONBLOCK);
	init.epoll = (int)SYS_1(SYS_epoll_create1, EPOLL_CLOEXEC);
	init.gates = init.workers = init.files = true;
	init.null = 0; /* the child before init opened /dev/null as 0, 1 and 2 */
	if (init.signals < 0 || init.timer < 0 || init.epoll < 0 ||
	    watch_add(init.conns[0].fd, WATCH_CONN, 0, 0) < 0 ||
	    (init.listener >= 0 && watch_add(init.listener, WATCH_LISTEN, 0, 0) < 0) ||
	    watch_add(init.signals, WATCH_SIGNAL, 0, 0) < 0 ||
	    watch_add(init.timer, WATCH_TIMER, 0, 0) < 0)
		sys_exit(1);
	conn_send(0, &ready, sizeof(ready), NULL, 0);
}

static void init_handle_event(uint64_t data)
{
	unsigned slot = (unsigned)(data & 0xffffffff) >> 2, what = (unsigned)(data >> 32);

	if (what != WATCH_CONN)
		exec_event(what, slot, (unsigned)data & 3);
	else if (slot < PROTO_CONNECTIONS_MAX)
		conn_receive((int)slot);
}

void init_end(void)
{
	for (;;)
		sys_exit(0);
}

/* A child executes the command itself, so its status is that of the exec. */
int exec_status(struct exec *ex __attribute__((unused)), int status)
{
	return status;
}

/*
 * Reap and ignore file workers, and orphans of other processes, which become init's
 * children.
 */
void exec_stranger(int pid, int status __attribute__((unused)))
{
	(void)file_worker_ended(pid);
}

void agent_main(void)
{
	init_start();
	for (;;) {
		struct epoll_event ev[16];
		long n = SYS_6(SYS_epoll_pwait, init.epoll, ev, 16, -1, NULL, 8);

		for (long i = 0; i < n; i++)
			init_handle_event(ev[i].data.u64);
	}
}
