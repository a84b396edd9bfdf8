/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - the loop of init
 *
 * One thread, no allocation: everything is in one static struct whose untouched
 * pages cost nothing. A request is answered before the next one is read. The
 * loop ends with the control connection, and the sandbox with the loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>

#include "init/init.h"

struct init init;

static _Alignas(16) char inbox[PROTO_MESSAGE_MAX];

uint64_t now(void)
{
	struct timespec ts = { 0 };

	(void)SYS_2(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void take_caps(uint64_t mask)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	uint64_t now_on = init.caps & mask;
	struct __user_cap_data_struct d[2] = {
		{ .effective = (uint32_t)now_on, .permitted = (uint32_t)init.caps },
		{ .effective = (uint32_t)(now_on >> 32),
		  .permitted = (uint32_t)(init.caps >> 32) },
	};

	(void)SYS_2(SYS_capset, &h, d);
}

static void send_message(const void *data, size_t size, int fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		struct cmsghdr *c = (struct cmsghdr *)(void *)control;

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		__builtin_memcpy(CMSG_DATA(c), &fd, sizeof(fd));
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
	}
	/* Nobody there to hear it: the loop will see the connection's end. */
	(void)SYS_3(SYS_sendmsg, init.control, &msg, MSG_NOSIGNAL);
}

void reply(uint32_t seq, long status, enum proto_stage stage, int fd)
{
	struct proto_reply msg = {
		.h = { .version = PROTO_VERSION, .type = PROTO_REPLY, .seq = seq },
		.status = (int32_t)status,
		.stage = stage,
	};

	send_message(&msg, sizeof(msg), fd);
}

void report(const struct proto_exited *msg)
{
	send_message(msg, sizeof(*msg), -1);
}

int watch_add(int fd, enum watch what, unsigned slot, unsigned which)
{
	struct epoll_event ev = { .events = EPOLLIN };

	ev.data.u64 = (uint64_t)what << 32 | slot << 1 | which;
	return (int)SYS_4(SYS_epoll_ctl, init.epoll, EPOLL_CTL_ADD, fd, &ev);
}

static void configure(const struct proto_config *msg, int *fds, size_t n_fds)
{
	for (size_t i = 0; i < n_fds && i < msg->n; i++) {
		switch (msg->role[i]) {
		case PROTO_ROLE_JOIN:
			init.join[init.n_join++] = fds[i];
			break;
		case PROTO_ROLE_JOIN_BOX:
			init.join_box[init.n_join_box++] = fds[i];
			break;
		case PROTO_ROLE_ALIVE:
			break; /* held open, that is all */
		default:
			if (msg->role[i] < PROTO_ROLE_MAX)
				init.dir[msg->role[i]] = fds[i];
		}
		fds[i] = -1;
	}
}

static void handle_signal(const struct proto_signal *msg)
{
	struct exec *ex = exec_find(msg->exec);
	long r = -ESRCH;

	if (ex && msg->sig == SIGKILL) {
		exec_kill_tree(ex);
		r = 0;
	} else if (ex && ex->pid > 0) {
		r = sys_kill(ex->pid, msg->sig);
	}
	reply(msg->h.seq, r, PROTO_STAGE_NONE, -1);
}

static void dispatch(size_t size, int *fds, size_t n_fds)
{
	const struct proto_header *h = (const void *)inbox;

	if (size < sizeof(*h))
		return;
	if (h->version != PROTO_VERSION) {
		reply(h->seq, -EPROTO, PROTO_STAGE_REQUEST, -1);
		return;
	}
	switch (h->type) {
	case PROTO_CONFIG:
		if (size == sizeof(struct proto_config))
			configure((const void *)inbox, fds, n_fds);
		return;
	case PROTO_SPAWN:
		spawn((const void *)inbox, size, fds, n_fds);
		return;
	case PROTO_SIGNAL:
		if (size == sizeof(struct proto_signal))
			handle_signal((const void *)inbox);
		return;
	case PROTO_OPEN:
		if (size == sizeof(struct proto_open))
			reach_open((const void *)inbox);
		return;
	case PROTO_CONNECT:
		if (size == sizeof(struct proto_connect))
			reach_connect((const void *)inbox);
		return;
	default:
		reply(h->seq, -ENOSYS, PROTO_STAGE_REQUEST, -1);
	}
}

static void handle_control(void)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(PROTO_FDS_MAX * sizeof(int))];
	struct iovec iov = { .iov_base = inbox, .iov_len = sizeof(inbox) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control };
	int fds[PROTO_FDS_MAX];
	size_t n_fds = 0;
	long r;

	msg.msg_controllen = sizeof(control);
	r = SYS_3(SYS_recvmsg, init.control, &msg, MSG_CMSG_CLOEXEC);
	if (r == -EINTR || r == -EAGAIN)
		return;
	if (r <= 0)
		sys_exit(0); /* the end of the connection is the end of the sandbox */
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = NULL) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			break;
		n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		__builtin_memcpy(fds, CMSG_DATA(c), n_fds * sizeof(int));
	}
	dispatch((size_t)r, fds, n_fds);
	for (size_t i = 0; i < n_fds; i++)
		if (fds[i] >= 0)
			sys_close(fds[i]);
}

/*
 * Become a user that nobody else is, keeping the capabilities. Where the id
 * does not exist (an ordinary user's sandbox with one id) we stay root.
 */
static void become_init(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { 0 };

	(void)SYS_2(SYS_capget, &h, d);
	init.caps = d[0].permitted | (uint64_t)d[1].permitted << 32;
	(void)SYS_5(SYS_prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0);
	if (SYS_3(SYS_setresgid, INIT_ID, INIT_ID, INIT_ID) == 0)
		(void)SYS_3(SYS_setresuid, INIT_ID, INIT_ID, INIT_ID);
	(void)SYS_5(SYS_prctl, PR_SET_KEEPCAPS, 0, 0, 0, 0);
	take_caps(~0ULL);
	/* After the change of ids, which may have set it by the system's default. */
	(void)SYS_5(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static void start(void)
{
	struct proto_ready ready = {
		.h = { .version = PROTO_VERSION, .type = PROTO_READY },
	};
	uint64_t all = ~0ULL;

	become_init();
	(void)SYS_5(SYS_prctl, PR_SET_NAME, "init", 0, 0, 0);
	init.control = CONTROL_FD;
	(void)SYS_3(SYS_fcntl, init.control, F_SETFD,
		    FD_CLOEXEC); /* it came over an exec */
	for (int i = 0; i < PROTO_ROLE_MAX; i++)
		init.dir[i] = -1;
	/* Everything is blocked and read from a descriptor; what we start unblocks all. */
	(void)SYS_4(SYS_rt_sigprocmask, SIG_BLOCK, &all, NULL, sizeof(all));
	all = 1ULL << (SIGCHLD - 1);
	init.signals = (int)SYS_4(SYS_signalfd4, -1, &all, sizeof(all),
				  SFD_CLOEXEC | SFD_NONBLOCK);
	init.timer = (int)SYS_2(SYS_timerfd_create, CLOCK_MONOTONIC,
				TFD_CLOEXEC | TFD_NONBLOCK);
	init.epoll = (int)SYS_1(SYS_epoll_create1, EPOLL_CLOEXEC);
	init.null = 0; /* the child before us opened /dev/null on 0, 1 and 2 */
	if (init.signals < 0 || init.timer < 0 || init.epoll < 0 ||
	    watch_add(init.control, WATCH_CONTROL, 0, 0) < 0 ||
	    watch_add(init.signals, WATCH_SIGNAL, 0, 0) < 0 ||
	    watch_add(init.timer, WATCH_TIMER, 0, 0) < 0)
		sys_exit(1);
	send_message(&ready, sizeof(ready), -1);
}

static void handle_event(uint64_t data)
{
	unsigned slot = (unsigned)(data & 0xffffffff) >> 1;
	char scrap[sizeof(struct signalfd_siginfo) * 8];

	switch ((enum watch)(data >> 32)) {
	case WATCH_CONTROL:
		handle_control();
		break;
	case WATCH_SIGNAL:
		(void)sys_read(init.signals, scrap, sizeof(scrap));
		exec_reap();
		break;
	case WATCH_TIMER:
		(void)sys_read(init.timer, scrap, sizeof(uint64_t));
		exec_deadlines();
		break;
	case WATCH_START:
		if (slot < PROTO_EXECS_MAX)
			spawn_started(&init.execs[slot]);
		break;
	case WATCH_OUT:
		if (slot < PROTO_EXECS_MAX)
			drain(&init.execs[slot], (unsigned)data & 1);
		break;
	}
}

void init_main(void)
{
	start();
	for (;;) {
		struct epoll_event ev[16];
		long n = SYS_6(SYS_epoll_pwait, init.epoll, ev, 16, -1, NULL, 8);

		for (long i = 0; i < n; i++)
			handle_event(ev[i].data.u64);
	}
}
