/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile-init.c - a hostile init of a durable sandbox
 *
 *	hostile-init SOCKET UID MODE
 *
 * Binds SOCKET, becomes user UID and listens, like an init that was taken over: the right
 * user on the right socket. Then it prints "ready", and the number of each request on its
 * own line, so that the test knows what was received. Modes:
 *
 *	mute		accepts connections, and never answers
 *	deaf		accepts none, so that its queue fills up
 *	dribble		sends something unrelated every second, and no answer
 *	progress	reports progress every second
 *	malformed	answers with invalid bytes
 *	version		answers in another version
 *	close		accepts a connection and closes it
 *	flood		sends as fast as it can
 *	busy		claims to have no room
 *	unkept		claims that it was never complete
 *	late		answers only the first request; so do those below:
 *	zero		an exec's journal has records of no size
 *	capacity	an exec's journal claims a capacity of a terabyte
 *	overrun		an exec's journal is written to beyond its end
 *	descriptors	an exec starts with a directory for its stdin
 *	unasked		answers requests that were never made
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "proto/init_proto.h"
#include "proto/journal.h"

static const char *mode;
static int listener;

static bool is(const char *name)
{
	return strcmp(mode, name) == 0;
}

static void say(int fd, const void *msg, size_t size)
{
	(void)fd_send_now(fd, msg, size, NULL, 0);
}

static struct proto_reply reply_to(uint32_t seq, int status)
{
	return (struct proto_reply){
		.h = { .version = PROTO_VERSION, .type = PROTO_REPLY, .seq = seq },
		.status = status,
	};
}

static void welcome(int fd, uint32_t seq, uint32_t flags)
{
	struct proto_welcome msg = {
		.h = { .version = PROTO_VERSION, .type = PROTO_WELCOME, .seq = seq },
		.flags = flags,
		.last_exec = 100,
	};

	say(fd, &msg, sizeof(msg));
}

/* Fill the journal that came with SPAWN according to the mode. */
static void write_journal(int journal)
{
	struct journal_header h = { .magic = JOURNAL_MAGIC,
				    .version = JOURNAL_VERSION,
				    .capacity = is("capacity") ? 1ULL << 40 : 1U << 20,
				    .tail = 1U << 19 };
	static char zeroes[1U << 20];

	for (int i = 0; i < (is("overrun") ? 64 : 1); i++)
		(void)!pwrite(journal, zeroes, sizeof(zeroes),
			      JOURNAL_RING + (off_t)i * (off_t)sizeof(zeroes));
	for (unsigned at = 0; is("zero") && at < 1U << 19; at += 8) {
		struct journal_record rec = { .size = 0, .stream = 1 };

		(void)!pwrite(journal, &rec, sizeof(rec), JOURNAL_RING + at);
	}
	if (is("overrun"))
		h.tail = 0;
	(void)!pwrite(journal, &h, sizeof(h), 0);
}

static void spawned(int fd, uint32_t seq, const int *fds, size_t n)
{
	struct proto_reply msg = reply_to(seq, 0);
	int dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (n < 2)
		return;
	if (is("zero") || is("capacity") || is("overrun"))
		write_journal(fds[n - 2]);
	msg.gives = is("descriptors") ? PROTO_GIVES_INPUT : 0;
	(void)fd_send_now(fd, &msg, sizeof(msg), &dir, is("descriptors"));
	(void)!write(fds[n - 1], &(uint64_t){ 1 }, sizeof(uint64_t));
	(void)close(dir);
}

static void answer(int fd, const struct proto_header *h, const int *fds, size_t n)
{
	struct proto_reply msg = reply_to(h->seq, 0);

	if (is("mute") || is("deaf") || is("dribble") || is("flood"))
		return;
	if (is("malformed")) {
		say(fd, "\x02\x00 these are not the words of an init", 36);
	} else if (is("version")) {
		msg.h.version = 77;
		say(fd, &msg, sizeof(msg));
	} else if (is("busy")) {
		msg = reply_to(0, -EBUSY);
		say(fd, &msg, sizeof(msg));
	} else if (is("progress")) {
		msg = reply_to(h->seq, -EINPROGRESS);
		say(fd, &msg, sizeof(msg));
	} else if (h->type == PROTO_HELLO) {
		welcome(fd, h->seq,
			(is("unkept") ? 0 : PROTO_WELCOME_KEPT) | PROTO_WELCOME_GATES);
	} else if (is("unasked")) {
		msg = reply_to(h->seq + 1000, 0);
		say(fd, &msg, sizeof(msg));
	} else if (h->type == PROTO_SPAWN && !is("late")) {
		spawned(fd, h->seq, fds, n);
	}
}

static void unrelated(int fd, uint32_t exec)
{
	struct proto_exited msg = {
		.h = { .version = PROTO_VERSION, .type = PROTO_EXITED },
		.exec = exec,
	};

	say(fd, &msg, sizeof(msg));
}

/* Return false if the connection has ended. */
static bool hear(int fd)
{
	_Alignas(8) static char inbox[PROTO_MESSAGE_MAX];
	int fds[PROTO_FDS_MAX];
	size_t n = PROTO_FDS_MAX;
	ssize_t r = fd_recv(fd, inbox, sizeof(inbox), fds, &n, MSG_DONTWAIT);
	const struct proto_header *h = (const void *)inbox;

	if (r == -EAGAIN)
		return true;
	if (r < (ssize_t)sizeof(*h))
		return false;
	(void)printf("%u\n", h->type);
	(void)fflush(stdout);
	answer(fd, h, fds, n);
	while (n > 0)
		(void)close(fds[--n]);
	return true;
}

static void talk(void)
{
	struct pollfd p[65] = { { .fd = listener, .events = POLLIN } };
	nfds_t n = 1;

	for (uint32_t turn = 0;; turn++) {
		int ms = is("flood") ? 0 : 1000;

		p[0].fd = is("deaf") ? -1 : listener;
		if (poll(p, n, ms) < 0 && errno != EINTR)
			err(1, "poll");
		for (nfds_t i = 1; i < n; i++) {
			if (p[i].revents && !hear(p[i].fd)) {
				(void)close(p[i].fd);
				p[i--] = p[--n];
				continue;
			}
			if (is("dribble") || is("flood"))
				unrelated(p[i].fd, turn);
		}
		if (p[0].fd >= 0 && p[0].revents && n < 65) {
			int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

			if (fd >= 0 && is("close"))
				(void)close(fd);
			else if (fd >= 0)
				p[n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
		}
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	unsigned uid;

	if (argc != 4 || strlen(argv[1]) >= sizeof(name.sun_path))
		errx(2, "usage: hostile-init SOCKET UID MODE");
	(void)strcpy(name.sun_path, argv[1]);
	uid = (unsigned)strtoul(argv[2], NULL, 10);
	mode = argv[3];
	(void)signal(SIGPIPE, SIG_IGN);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&name, sizeof(name)) < 0)
		err(1, "bind '%s'", argv[1]);
	if (is("deaf")) {
		/* As root: the queue is longer than a listener accepts. */
		if (listen(listener, 1) < 0)
			err(1, "listen");
		for (int i = 0; i < 8; i++) {
			int fd = socket(AF_UNIX,
					SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

			(void)connect(fd, (struct sockaddr *)&name, sizeof(name));
		}
	}
	if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 ||
	    setresuid(uid, uid, uid) < 0)
		err(1, "become %u", uid);
	if (!is("deaf") && listen(listener, PROTO_CONNECTIONS_MAX) < 0)
		err(1, "listen");
	(void)puts("ready");
	(void)fflush(stdout);
	talk();
}
