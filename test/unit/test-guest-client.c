/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-guest-client.c - the guest agent is trusted as little as an init: invalid answers
 * are errors
 */
#include "shim/core/guest_client.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "lib/tap.h"

#define ASKED_MAX 3 /* number of requests before it closes the connection */

struct shim_sandbox this_sandbox = { .name = "here", .within = -1 };

static const struct shim_driver silent_one;
static int signs[2] = { -1, -1 }; /* one byte for each report that it takes longer */
static struct {
	int status;
	uint32_t seq, value;
	bool has_fd;
} heard;

static int copy_looks;             /* how often a copy is still seen */
static int copied[2] = { -1, -1 }; /* one byte when the copy has ended */
static int copy_silent_answer;     /* of the driver */

bool shim_sandbox_is_copied(const struct shim_sandbox *p UNUSED)
{
	if (copy_looks == 0)
		return false;
	if (--copy_looks == 0)
		OK(write(copied[1], "", 1) == 1);
	return true;
}

static int copy_silent(struct shim_sandbox *p UNUSED, struct warren_error *err)
{
	return copy_silent_answer ? error_errno(err, -copy_silent_answer, "paused") : 0;
}

void work_sign(void)
{
	OK(write(signs[1], "", 1) == 1);
}

void work_reply(const struct work *w, long status, uint32_t value, int fd,
		const char *why UNUSED)
{
	heard.status = (int)status;
	heard.seq = w->seq;
	heard.value = value;
	heard.has_fd = fd >= 0;
}

void work_send(const struct work *w UNUSED, const void *msg, size_t size, int fd)
{
	const struct proto_reply *r = msg;

	OK(size >= sizeof(*r));
	heard.status = r->status;
	heard.seq = r->h.seq;
	heard.value = r->value;
	heard.has_fd = fd >= 0;
}

/* Answer the next request. Return false if there is none. */
static bool answer_one(int sock, int status, uint32_t value, int fd)
{
	static _Alignas(8) char msg[PROTO_MESSAGE_MAX];
	const struct proto_header *h = (const void *)msg;
	struct proto_reply r = { .h = { .version = PROTO_VERSION, .type = PROTO_REPLY },
				 .status = status,
				 .value = value };
	size_t n_fds = 0;

	if (fd_recv(sock, msg, sizeof(msg), NULL, &n_fds, 0) < (ssize_t)sizeof(*h))
		return false;
	r.h.seq = h->seq;
	return fd_send(sock, &r, sizeof(r), &fd, fd >= 0) == 0;
}

/* Start a process that acts as the guest agent; *@ret_sock is its end of the
 * connection. */
static pid_t begin_inside(int *ret_sock)
{
	int ends[2];
	pid_t pid;

	OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	OK(pipe2(signs, O_CLOEXEC) == 0);
	pid = fork();
	OK(pid >= 0);
	if (pid == 0) {
		(void)close(ends[0]);
		*ret_sock = ends[1];
		return 0;
	}
	(void)close(ends[1]);
	this_sandbox.within = ends[0];
	this_sandbox.driver = &silent_one;
	return pid;
}

/* Start a guest agent that answers every request with @status and @fd. Return its pid. */
static pid_t start(int status, int fd)
{
	int sock;
	pid_t pid = begin_inside(&sock);

	if (pid == 0) {
		for (uint32_t i = 1; i <= ASKED_MAX; i++)
			if (!answer_one(sock, status, i, fd))
				break;
		_exit(0);
	}
	return pid;
}

static void ask(void)
{
	struct work w = { .seq = 77 };
	struct proto_open msg = { .h = { .version = PROTO_VERSION, .type = PROTO_OPEN },
				  .path = "/etc/passwd" };

	(void)memset(&heard, 0xff, sizeof(heard)); /* nothing yet */
	within_work(&w, &msg, sizeof(msg), NULL, 0);
	EQ(heard.seq, 77U);
}

static void end(pid_t pid)
{
	int status = -1;

	(void)close(this_sandbox.within);
	OK(waitpid(pid, &status, 0) == pid);
	EQ(status, 0);
}

/* Is the other end of @fd closed in all processes? */
static bool has_ended(int fd)
{
	char c;

	OK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	return read(fd, &c, 1) == 0;
}

TEST(answers_of_the_guest_agent_are_forwarded)
{
	const int statuses[] = { 0, -ENOENT };

	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		pid_t pid = start(statuses[i], statuses[i] ? -1 : STDIN_FILENO);

		ask();
		end(pid);
		EQ(heard.status, statuses[i]);
		EQ(heard.value, 1U); /* asked once */
		EQ(heard.has_fd, statuses[i] == 0);
	}
}

/*
 * Such an answer is invalid: the request was not too late, and only the shim reports that
 * it takes longer.
 */
TEST(a_wrong_answer_is_not_retried)
{
	const int lies[] = { -ECANCELED, -EINPROGRESS };

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		int ends[2];
		pid_t pid;

		OK(pipe2(ends, O_CLOEXEC) == 0);
		pid = start(lies[i], ends[1]);
		(void)close(ends[1]);
		ask();
		end(pid);
		EQ(heard.status, -EPROTO);
		EQ(heard.value, 0U);
		OK(!heard.has_fd);
		OK(has_ended(ends[0])); /* the descriptor is closed */
		(void)close(ends[0]);
	}
}

TEST(a_late_guest_agent_is_asked_again)
{
	int sock;
	pid_t pid = begin_inside(&sock);
	char c;

	if (pid == 0) {
		if (read(signs[0], &c, 1) != 1 || !answer_one(sock, -ECANCELED, 0, -1) ||
		    !answer_one(sock, 0, 2, -1))
			_exit(1);
		_exit(0);
	}
	ask();
	end(pid);
	EQ(heard.status, 0);
	EQ(heard.value, 2U);
}

/* The guest agent is frozen until the copy has ended, and then finds it too late. */
TEST(a_request_waits_while_the_files_are_copied)
{
	static const struct shim_driver frozen = { .silent = copy_silent };
	int sock;
	pid_t pid;
	char c;

	OK(pipe2(copied, O_CLOEXEC) == 0);
	pid = begin_inside(&sock);
	if (pid == 0) {
		if (read(copied[0], &c, 1) != 1 || !answer_one(sock, -ECANCELED, 0, -1) ||
		    !answer_one(sock, 0, 2, -1))
			_exit(1);
		_exit(0);
	}
	this_sandbox.driver = &frozen;
	copy_silent_answer = 0;
	copy_looks = 2;
	ask();
	end(pid);
	EQ(heard.status, 0);
	EQ(heard.value, 2U);

	/* The control: without a copy, the sandbox is paused. */
	pid = begin_inside(&sock);
	if (pid == 0) {
		while (read(sock, &c, 1) > 0)
			;
		_exit(0);
	}
	this_sandbox.driver = &frozen;
	copy_silent_answer = -EBUSY;
	ask();
	end(pid);
	EQ(heard.status, -EBUSY);
}

TEST_MAIN()
