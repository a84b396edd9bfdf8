/* SPDX-License-Identifier: Apache-2.0 */
/* forward_ports.c - listen for the ports of a sandbox, and move their connections */
#include "cli/work/forward_ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "cli/command.h"
#include "cli/listen_on.h"

#define FORWARD_PORTS_MAX 64
#define FORWARD_NEXT_MAX  100 /* ports that are tried after the wanted one */
#define FORWARD_CONN_MAX  128 /* connections at a time */
#define FORWARD_STACK     ((size_t)256 << 10)

struct forward_ports {
	struct warren_sandbox *sb;
	const char *command;
	struct run_io_source source; /* .fd: an epoll of the listeners */
	struct forward_port {
		int listener;
		uint16_t port; /* of the sandbox */
		bool failed;   /* a failure was reported */
	} v[FORWARD_PORTS_MAX];
	size_t n;
};

/* ------------------------------------------------------------- connections */

static atomic_uint forward_connections;

struct forward_conn {
	int here, there;
	atomic_uint users; /* threads */
};

static struct forward_conn *forward_conn_unref(struct forward_conn *c)
{
	if (atomic_fetch_sub(&c->users, 1) > 1)
		return NULL;
	(void)close(c->here);
	(void)close(c->there);
	free(c);
	(void)atomic_fetch_sub(&forward_connections, 1);
	return NULL;
}

/* Move one direction until its end; a failure ends the other direction, too. */
static void forward_move(int from, int to)
{
	char data[65536];

	for (;;) {
		ssize_t n = recv(from, data, sizeof(data), 0);
		ssize_t at = 0;

		if (n < 0 && errno == EINTR)
			continue;
		while (n > 0 && at < n) {
			ssize_t sent =
				send(to, data + at, (size_t)(n - at), MSG_NOSIGNAL);

			if (sent < 0 && errno != EINTR)
				n = -1;
			at += sent > 0 ? sent : 0;
		}
		if (n == 0)
			(void)shutdown(to, SHUT_WR);
		if (n < 0) {
			(void)shutdown(from, SHUT_RDWR);
			(void)shutdown(to, SHUT_RDWR);
		}
		if (n <= 0)
			return;
	}
}

static void *forward_up(void *ctx)
{
	struct forward_conn *c = ctx;

	forward_move(c->here, c->there);
	return forward_conn_unref(c);
}

static void *forward_down(void *ctx)
{
	struct forward_conn *c = ctx;

	forward_move(c->there, c->here);
	return forward_conn_unref(c);
}

static int forward_thread(void *(*run)(void *), struct forward_conn *c)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r = pthread_attr_init(&attr);

	if (r != 0)
		return -r;
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)pthread_attr_setstacksize(&attr, FORWARD_STACK);
	/* Signals are blocked in this process, and so in its threads. */
	r = pthread_create(&thread, &attr, run, c);
	(void)pthread_attr_destroy(&attr);
	return -r;
}

/* Start moving; the descriptors are owned by the threads. */
static int forward_start(int here, int there)
{
	struct forward_conn *c = malloc(sizeof(*c));
	int r;

	if (!c) {
		(void)close(here);
		(void)close(there);
		return -ENOMEM;
	}
	*c = (struct forward_conn){ .here = here, .there = there, .users = 2 };
	(void)atomic_fetch_add(&forward_connections, 1);
	r = forward_thread(forward_up, c);
	if (r < 0)
		atomic_store(&c->users, 1); /* no thread uses it, only this function */
	else
		r = forward_thread(forward_down, c);
	if (r < 0) {
		(void)shutdown(here, SHUT_RDWR);
		(void)shutdown(there, SHUT_RDWR);
		(void)forward_conn_unref(c);
	}
	return r;
}

/* A client must not mistake it for a connection that ended. */
static void forward_reset(int fd)
{
	static const struct linger reset = { .l_onoff = 1 };

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	(void)close(fd);
}

static void forward_accept(struct forward_ports *f, struct forward_port *p)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int here = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC), there = -1, r;

	if (here < 0)
		return;
	if (atomic_load(&forward_connections) >= FORWARD_CONN_MAX)
		r = error_set(&err, EBUSY, "port %u has too many connections", p->port);
	else
		r = warren_connect(f->sb, p->port, &there, &err);
	if (r < 0) {
		forward_reset(here);
	} else {
		r = forward_start(here, there);
		if (r < 0)
			(void)error_errno(&err, -r, "forward port %u", p->port);
	}
	/* Once: a client that waits for its server retries continually. */
	if (r < 0 && !p->failed && err.code != ECONNREFUSED)
		message_say(f->command, "%s", err.msg);
	p->failed |= r < 0 && err.code != ECONNREFUSED;
}

static void forward_ports_step(void *ctx)
{
	struct forward_ports *f = ctx;
	struct epoll_event events[8];
	int n = epoll_wait(f->source.fd, events, ARRAY_SIZE(events), 0);

	for (int i = 0; i < n; i++)
		forward_accept(f, &f->v[events[i].data.u32]);
}

/* ---------------------------------------------------------------- listeners */

/* The same port, or the next free one. */
static int forward_listen_near(uint16_t port, struct warren_error *err)
{
	char where[32];
	int fd = -1;

	for (unsigned i = 0; i <= FORWARD_NEXT_MAX && port + i <= LISTEN_PORT_LAST; i++) {
		(void)snprintf(where, sizeof(where), "127.0.0.1:%u", port + i);
		fd = cli_listen_on(where, err);
		if (fd != -EADDRINUSE)
			break;
	}
	/* All are taken, or only root may listen there. */
	return fd == -EADDRINUSE || fd == -EACCES ? cli_listen_on("127.0.0.1:0", err)
						  : fd;
}

static int forward_ports_add(struct forward_ports *f, uint16_t port, bool quiet,
			     struct warren_error *err)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = (uint32_t)f->n };
	struct sockaddr_in addr = { 0 };
	socklen_t n = sizeof(addr);
	int fd;

	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].port == port)
			return 0;
	fd = forward_listen_near(port, err);
	if (fd < 0)
		return error_wrap(err, "forward port %u of the project", port);
	f->v[f->n++] = (struct forward_port){ .listener = fd, .port = port };
	/* A connection that was reset before accept(2) must not block the command. */
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ||
	    epoll_ctl(f->source.fd, EPOLL_CTL_ADD, fd, &event) < 0 ||
	    getsockname(fd, (struct sockaddr *)&addr, &n) < 0)
		return error_errno(err, errno, "forward port %u of the project", port);
	if (!quiet)
		message_say(f->command, "port %u of the project is at 127.0.0.1:%u", port,
			    ntohs(addr.sin_port));
	return 0;
}

int forward_ports_open(const char *command, bool quiet, const uint16_t *ports, size_t n,
		       struct warren_sandbox *sb, struct forward_ports **ret,
		       struct warren_error *err)
{
	struct forward_ports *f = calloc(1, sizeof(*f));
	int r = 0;

	if (!f)
		return error_errno(err, ENOMEM, "forward ports");
	*f = (struct forward_ports){ .sb = sb,
				     .command = command,
				     .source = { .step = forward_ports_step, .ctx = f } };
	f->source.fd = epoll_create1(EPOLL_CLOEXEC);
	if (f->source.fd < 0)
		r = error_errno(err, errno, "forward ports");
	for (size_t i = 0; r == 0 && i < n && i < FORWARD_PORTS_MAX; i++)
		r = forward_ports_add(f, ports[i], quiet, err);
	if (r < 0)
		f = forward_ports_close(f);
	else
		*ret = f;
	return r;
}

const struct run_io_source *forward_ports_source(const struct forward_ports *f)
{
	return &f->source;
}

struct forward_ports *forward_ports_close(struct forward_ports *f)
{
	for (size_t i = 0; f && i < f->n; i++)
		(void)close(f->v[i].listener);
	if (f && f->source.fd >= 0)
		(void)close(f->source.fd);
	free(f);
	return NULL;
}
