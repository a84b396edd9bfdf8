/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.c - a relay between two TCP connections that does nothing else
 *
 *	warren-bench-relay PORT
 *
 * It prints the port on which it listens, and connects each client to PORT of this
 * machine, one client at a time. splice(2) moves the bytes through a pipe, as
 * warren-egress does: without policies, counters or other clients, this is the most that
 * one thread can do.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/macro.h"

#define PIPE_SIZE (1U << 20)

struct way {
	int from, to;
	int pipe[2];
	size_t held;
	bool ended;
};

static struct sockaddr_in local(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static ssize_t move(int from, int to, size_t n)
{
	return splice(from, NULL, to, NULL, n, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
}

/* Move bytes until one end has to wait. Return false at the end of the connection. */
static bool relay(struct way *w)
{
	for (;;) {
		ssize_t n;

		if (w->held == 0) {
			n = move(w->from, w->pipe[1], PIPE_SIZE);
			if (n <= 0)
				return n < 0 && errno == EAGAIN;
			w->held = (size_t)n;
		}
		n = move(w->pipe[0], w->to, w->held);
		if (n <= 0)
			return n < 0 && errno == EAGAIN;
		w->held -= (size_t)n;
	}
}

static void serve(int client, int server)
{
	struct way ways[2] = { { .from = client, .to = server },
			       { .from = server, .to = client } };
	bool open = true;

	for (size_t i = 0; i < 2; i++) {
		if (pipe2(ways[i].pipe, O_CLOEXEC | O_NONBLOCK) < 0)
			exit(1);
		(void)fcntl(ways[i].pipe[1], F_SETPIPE_SZ, (int)PIPE_SIZE);
	}
	while (open) {
		struct pollfd p[2];

		for (size_t i = 0; i < 2; i++)
			p[i] = (struct pollfd){
				.fd = i ? server : client,
				.events = (short)((ways[i].held ? 0 : POLLIN) |
						  (ways[1 - i].held ? POLLOUT : 0))
			};
		if (poll(p, 2, -1) < 0)
			break;
		for (size_t i = 0; open && i < 2; i++)
			if (p[i].revents & (POLLIN | POLLHUP | POLLERR) ||
			    p[1 - i].revents & POLLOUT)
				open = relay(&ways[i]);
	}
	for (size_t i = 0; i < 2; i++) {
		(void)close(ways[i].pipe[0]);
		(void)close(ways[i].pipe[1]);
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = local(0),
			   to = local((uint16_t)(argc > 1 ? atoi(argv[1]) : 0));
	socklen_t size = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)signal(SIGPIPE, SIG_IGN);
	if (listener < 0 || bind(listener, (struct sockaddr *)&at, size) < 0 ||
	    listen(listener, 16) < 0 ||
	    getsockname(listener, (struct sockaddr *)&at, &size) < 0)
		return 1;
	(void)printf("%u\n", ntohs(at.sin_port));
	(void)fflush(stdout);
	for (;;) {
		AUTO_CLOSE int client =
			accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		AUTO_CLOSE int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (client < 0 || server < 0 ||
		    connect(server, (struct sockaddr *)&to, sizeof(to)) < 0 ||
		    fcntl(server, F_SETFL, O_NONBLOCK) < 0)
			return 1;
		serve(client, server);
	}
}
