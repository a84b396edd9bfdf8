/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_server.c - serve files and ports of a container to its shim
 *
 * The shim listens on a socket that is mounted into the container, until the guest agent
 * has connected; this happens before any other process runs in the container. The shim
 * sends the requests that init also serves (OPEN, SCAN, CHANGE, WATCH, CONNECT), one at a
 * time, and gives up on a request that is not answered. An abandoned request must not be
 * carried out later: the number of a request is therefore the time by which it must be
 * started (ms, monotonic). If the guest agent was frozen and that time has passed, it
 * answers -ECANCELED and does nothing.
 */
#include "agent/guest/guest_server.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/un.h> /* the C library's sys/un.h includes string.h */
#include <poll.h>
#include <sys/socket.h>

#include "agent/core/agent.h"

struct init init;
_Alignas(16) char inbox[PROTO_MESSAGE_MAX];

void init_dispatch(int c, size_t size, int *fds, size_t n_fds)
{
	const struct proto_header *h = (const void *)inbox;

	if (!request_is_sound(c, size))
		return;
	if ((int32_t)(h->seq - (uint32_t)(agent_now() / 1000000)) < 0) {
		conn_reply(c, h->seq, -ECANCELED, PROTO_STAGE_REQUEST, -1);
		return;
	}
	reach_request(c, size, fds, n_fds);
}

/* The guest agent has no execs. */
void exec_forget(int c __attribute__((unused)))
{
}

/* The container continues when the shim has ended. */
void init_end(void)
{
	for (;;)
		(void)SYS_4(SYS_ppoll, 0, 0, 0, 0);
}

static long guest_server_dial(const char *socket)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	long fd = SYS_3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), r;

	if (fd < 0 || strlen(socket) >= sizeof(to.sun_path))
		return fd < 0 ? fd : -ENAMETOOLONG;
	__builtin_memcpy(to.sun_path, socket, strlen(socket));
	r = SYS_3(SYS_connect, fd, &to, sizeof(to));
	return r < 0 ? r : fd;
}

void guest_server_run(const char *socket)
{
	struct proto_ready ready = {
		.h = { .version = PROTO_VERSION, .type = PROTO_READY },
	};
	long fd = guest_server_dial(socket), root;

	/* Paths of requests are resolved from here. */
	if (fd < 0 || SYS_1(SYS_chdir, "/") < 0)
		return;
	(void)SYS_2(SYS_setgroups, 0, NULL);
	become_init();
	/*
	 * Some system call filters do not know openat2(2), which all file requests need.
	 */
	root = files_resolve(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
	if (root < 0) {
		sys_close(fd);
		return;
	}
	sys_close(root);
	init.listener = -1;
	init.is_worker = true;
	init.conns[0].fd = (int)fd;
	conn_send(0, &ready, sizeof(ready), NULL, 0);
	for (;;) {
		struct pollfd p = { .fd = (int)fd, .events = POLLIN };

		(void)SYS_5(SYS_ppoll, &p, 1, NULL, NULL, 8);
		conn_receive(0);
	}
}
