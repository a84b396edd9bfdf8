/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alive.c - find out whether the init of a durable sandbox is alive, without its help
 *
 * The sandbox's state file contains the pid and the start time of its init. The kernel
 * reuses a pid only for a process that starts later, so both together identify one
 * process. A pidfd is opened first, and the start time is read afterwards. So a program
 * can destroy a sandbox, read its usage or change its limits without a message to its
 * init.
 *
 * Only init knows whether it has received KEEP. All inits are asked at the same time. An
 * init that does not answer counts as alive; the service finds out the truth later.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "initclient/sandbox_socket.h"

#define STAT_MAX  1024
#define ANSWER_MS 500  /* time for all inits of a batch to report their state */
#define DYING_MS  2000 /* time for inits that end with their creator */
/* Maximum number of messages other than WELCOME before the connection is closed. */
#define UNASKED    16
#define FIELD_TIME 20 /* index of starttime in stat(5), counted after the name */

/*
 * Get the start time of process @pid, in ticks since boot. -ESRCH: it is gone; other
 * errors do not show whether it is alive.
 */
static int start_time(pid_t pid, uint64_t *ret)
{
	char path[32], text[STAT_MAX];
	const char *p;
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	r = (int)fd_read_file_at(AT_FDCWD, path, text, sizeof(text));
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	/* The name may contain any character, but no parenthesis follows its end. */
	p = strrchr(text, ')');
	for (int i = 0; p && i < FIELD_TIME; i++)
		p = strchr(p + 1, ' ');
	*ret = p ? strtoull(p + 1, NULL, 10) : 0;
	return *ret ? 0 : -EIO;
}

void sandbox_socket_note_init(struct initclient_sandbox *sandbox)
{
	if (sandbox->pid <= 0 || sandbox->init_pid == (uint32_t)sandbox->pid)
		return;
	sandbox->init_pid = start_time(sandbox->pid, &sandbox->init_start) == 0
				    ? (uint32_t)sandbox->pid
				    : 0;
}

/* Find the init for a state file that was written before versions recorded its
 * process. */
static int find_by_socket(int sandboxes, struct initclient_sandbox *sandbox,
			  uid_t *ret_uid, struct warren_error *err)
{
	int r;

	sandbox->control = sandbox_socket_dial(sandboxes, sandbox->base.id);
	if (sandbox->control < 0)
		return error_errno(err,
				   sandbox_socket_nobody(sandbox->control)
					   ? ESRCH
					   : -sandbox->control,
				   "connect to its init");
	r = sandbox_socket_identify(sandbox, ret_uid, err);
	(void)close(TAKE_FD(sandbox->control));
	return r;
}

int sandbox_socket_find_init(int sandboxes, struct initclient_sandbox *sandbox,
			     uid_t *ret_uid, struct warren_error *err)
{
	pid_t pid = (pid_t)sandbox->init_pid;
	AUTO_CLOSE int fd = -1;
	uint64_t start = 0;
	struct stat st = { 0 };
	char path[32];
	int r;

	if (pid <= 0)
		return find_by_socket(sandboxes, sandbox, ret_uid, err);
	fd = pidfd_open(pid, 0);
	if (fd < 0 && errno != ESRCH && errno != EINVAL)
		return error_errno(err, errno, "open its init process");
	r = fd < 0 ? -ESRCH : start_time(pid, &start);
	if (r == 0 && start != sandbox->init_start)
		r = -ESRCH;
	/* This directory belongs to the user of the process, even if the process is not
	 * dumpable; its other files then belong to root. */
	(void)snprintf(path, sizeof(path), "/proc/%d/task", pid);
	if (r == 0 && stat(path, &st) < 0)
		r = errno == ENOENT ? -ESRCH : -errno;
	/* A dead sandbox is removed, so only -ESRCH may count as its death. */
	if (r == -ESRCH)
		return error_set(err, ESRCH, "its init is gone");
	if (r < 0)
		return error_errno(err, -r, "inspect its init process");
	*ret_uid = st.st_uid;
	sandbox->pid = pid;
	sandbox->pidfd = TAKE_FD(fd);
	return 0;
}

/* --------------------------------------------------------------- checks of many inits */

static void alive_ask(int sandboxes, struct sandbox_socket_look *look)
{
	struct proto_hello msg = { .h = { .version = PROTO_VERSION,
					  .type = PROTO_HELLO } };
	struct initclient_sandbox sandbox = { .pidfd = -1 };
	struct warren_error ignored = WARREN_ERROR_INIT;
	uid_t uid;
	int r;

	look->pidfd = -1;
	look->fd = sandbox_socket_dial_now(sandboxes, look->id);
	look->alive = look->fd >= 0 || !sandbox_socket_nobody(look->fd);
	look->asked = false;
	if (look->fd < 0)
		return;
	sandbox.control = look->fd;
	r = sandbox_socket_identify(&sandbox, &uid, &ignored);
	if (r < 0) {
		/* This decides whether it is dead: the socket may outlive the init in a
		 * backlog. */
		look->alive = r != -ESRCH;
		return;
	}
	look->pidfd = sandbox.pidfd;
	if (!sandbox_socket_has_state(sandboxes, look->id))
		look->dying = true;
	else
		look->asked = fd_send_now(look->fd, &msg, sizeof(msg), NULL, 0) == 0;
}

/* Read the answer of an init, if there is one. Return true if it is complete. */
static bool alive_hear(struct sandbox_socket_look *look)
{
	for (int i = 0; i < UNASKED; i++) {
		struct warren_error ignored = WARREN_ERROR_INIT;
		struct init_reply a;
		int r = init_request_receive(look->fd, &a, MSG_DONTWAIT, &ignored);

		if (r == 0)
			return false;
		if (r == -EPIPE)
			look->dying = true;
		if (r < 0)
			return true;
		init_reply_done(&a);
		if (a.m.h.type == PROTO_WELCOME) {
			look->dying = !(a.m.welcome.flags & PROTO_WELCOME_KEPT);
			return true;
		}
		if (a.m.h.type == PROTO_REPLY)
			return true; /* the init is busy, so it is alive */
	}
	return true;
}

static int left_ms(uint64_t deadline)
{
	uint64_t t = clock_now();

	return t < deadline ? (int)((deadline - t + 999999) / 1000000) : 0;
}

static void await_answers(struct sandbox_socket_look *look, size_t n)
{
	uint64_t deadline = clock_now() + ANSWER_MS * 1000000ULL;
	struct pollfd p[DOOR_LOOKS_MAX];
	bool waits = true;

	while (waits) {
		waits = false;
		for (size_t i = 0; i < n; i++) {
			p[i] = (struct pollfd){ .fd = look[i].asked ? look[i].fd : -1,
						.events = POLLIN };
			waits |= look[i].asked;
		}
		if (!waits || poll(p, n, left_ms(deadline)) == 0)
			return;
		for (size_t i = 0; i < n; i++)
			if (look[i].asked && p[i].revents && alive_hear(&look[i]))
				look[i].asked = false;
	}
}

/* The creator is dead. An init without KEEP notices that, and ends; wait for this. */
static void await_ends(struct sandbox_socket_look *look, size_t n)
{
	uint64_t deadline = clock_now() + DYING_MS * 1000000ULL;

	for (size_t i = 0; i < n; i++) {
		struct pollfd p = { .fd = look[i].pidfd, .events = POLLIN };

		if (look[i].dying)
			look[i].alive = poll(&p, 1, left_ms(deadline)) <= 0;
	}
}

void sandbox_socket_look_at(int sandboxes, struct sandbox_socket_look *look, size_t n)
{
	for (size_t i = 0; i < n; i++)
		alive_ask(sandboxes, &look[i]);
	await_answers(look, n);
	await_ends(look, n);
	for (size_t i = 0; i < n; i++) {
		if (look[i].fd >= 0)
			(void)close(look[i].fd);
		if (look[i].pidfd >= 0)
			(void)close(look[i].pidfd);
	}
}
