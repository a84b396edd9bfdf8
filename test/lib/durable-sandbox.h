/* SPDX-License-Identifier: Apache-2.0 */
/*
 * durable-sandbox.h - for tests of durable sandboxes: named engines in a separate world
 *
 * Everything that a failed test leaves behind ends with its world (world.h), because
 * nothing else would remove it.
 */
#ifndef TEST_DURABLE_BOX_H
#define TEST_DURABLE_BOX_H

#include <sys/socket.h>
#include <sys/un.h>

#include "backend/native/native.h"
#include "base/fd.h"
#include "core/handle.h"
#include "lib/world.h"

#define SECONDS 120
#define MIB     (1ULL << 20)

static inline int open_named(const char *name, struct warren **ret,
			     struct warren_error *err)
{
	AUTO_FREE char *state = sandbox_path("state"), *run = sandbox_path("run");
	struct warren_options options = { .backend = "native",
					  .state_dir = state,
					  .run_dir = run,
					  .engine_name = name };

	return warren_open(&options, ret, err);
}

static inline struct warren *engine(void)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = NULL;

	(void)alarm(SECONDS);
	GOOD(open_named("shim", &w, &err));
	return w;
}

static inline struct warren_sandbox *make_durable(struct warren *w)
{
	return sandbox_make(w, &(struct warren_spec){ .durable = true });
}

static inline struct warren_sandbox *adopt(struct warren *w, const char *id)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb = NULL;

	GOOD(warren_adopt(w, id, &sb, &err));
	STREQ(warren_id(sb), id);
	return sb;
}

/* Return the number of durable sandboxes; @id is the id of the first. */
static inline size_t count_durable(struct warren *w, char id[ID_LEN + 1])
{
	struct warren_error err = WARREN_ERROR_INIT;
	char **ids = NULL;
	size_t n = 0;

	GOOD(warren_list(w, &ids, &err));
	while (ids[n])
		n++;
	if (n > 0)
		(void)strcpy(id, ids[0]);
	free(ids);
	return n;
}

static inline pid_t init_pid(const struct warren_sandbox *sb)
{
	return ((const struct native_sandbox *)sb->sandbox)->pid;
}

/* Reap orphans of this process, so that only live processes are counted. */
static inline void bury(void)
{
	for (int i = 0; i < 20; i++) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		sandbox_nap();
	}
}

/* Run @child in a separate process, which is then killed with SIGKILL. */
static inline void killed_after(void (*child)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		child();
		(void)kill(getpid(), SIGKILL);
	}
	OK(pid > 0);
	EQ(waitpid(pid, &status, 0), pid);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		TAP_FAIL("it ended by itself: %x", (unsigned)status);
}

/* Create a file for a journal, in the directory of the test. */
static inline int journal_file(const char *name)
{
	AUTO_FREE char *path = sandbox_path("%s", name);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	OK(fd > 0);
	return fd;
}

/* ------------------------------------------------------------------ output */

/* The data of each stream, NUL-terminated, and the position up to which it was read. */
struct heard {
	char *text[4];
	size_t size[4];
	uint64_t cursor, lost;
	bool end;
};

static inline void hear_piece(struct heard *h, int stream, const char *data, size_t n)
{
	OK(stream >= 1 && stream <= 3);
	h->text[stream] = realloc(h->text[stream], h->size[stream] + n + 1);
	OK(h->text[stream]);
	(void)memcpy(h->text[stream] + h->size[stream], data, n);
	h->size[stream] += n;
	h->text[stream][h->size[stream]] = '\0';
}

/* Read what is available now. Return true if something arrived or the exec has ended. */
static inline bool hear(struct warren_exec *ex, struct heard *h)
{
	static char piece[JOURNAL_CHUNK];
	struct warren_error err = WARREN_ERROR_INIT;
	bool any = false;

	for (;;) {
		struct warren_output o;

		GOOD(warren_exec_output(ex, h->cursor, piece, sizeof(piece), &o, &err));
		h->lost += o.lost;
		h->end = o.end;
		if (o.size == 0)
			return any || o.end;
		hear_piece(h, o.stream, piece, o.size);
		h->cursor = o.cursor;
		any = true;
	}
}

static inline void await_output(struct warren_exec *ex)
{
	struct pollfd p = { .fd = warren_exec_output_fd(ex), .events = POLLIN };
	uint64_t n;

	OK(poll(&p, 1, SANDBOX_PATIENCE * 1000) > 0);
	(void)!read(p.fd, &n, sizeof(n));
}

/* Read until stream @stream contains @text. */
static inline void hear_until(struct warren_exec *ex, struct heard *h, int stream,
			      const char *text)
{
	for (;;) {
		(void)hear(ex, h);
		if (h->text[stream] && strstr(h->text[stream], text))
			return;
		if (h->end)
			TAP_FAIL("the end came before \"%s\"", text);
		await_output(ex);
	}
}

static inline void hear_all(struct warren_exec *ex, struct heard *h)
{
	for (;;) {
		(void)hear(ex, h);
		if (h->end)
			return;
		await_output(ex);
	}
}

static inline void say(struct warren_exec *ex, int which, const char *text)
{
	EQ(fd_write_all(warren_exec_fd(ex, which), text, strlen(text)), 0);
}

/* -------------------------------------------------------------- protocol */

static inline int dial_init(struct warren_sandbox *sb)
{
	AUTO_FREE char *path = sandbox_path("run/boxes/%s", warren_id(sb));
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	OK(fd >= 0 && strlen(path) < sizeof(name.sun_path));
	(void)strcpy(name.sun_path, path);
	EQ(connect(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	return fd;
}

/* Receive the next message in time; 0 at the end. */
static inline int next_message(int fd, struct init_reply *a)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int r;

	OK(poll(&p, 1, SANDBOX_PATIENCE * 1000) > 0);
	r = init_request_receive(fd, a, MSG_DONTWAIT, &err);
	if (r == -EPIPE || r == -ECONNRESET)
		return 0;
	if (r != 1)
		TAP_FAIL("%d: %s", r, err.msg);
	return 1;
}

#define SEND(fd, type_, seq_, ...)                                  \
	do {                                                        \
		struct type_ msg_ = { __VA_ARGS__ };                \
		msg_.h.version = PROTO_VERSION;                     \
		msg_.h.seq = (seq_);                                \
		EQ(fd_send((fd), &msg_, sizeof(msg_), NULL, 0), 0); \
	} while (0)

/* Send HELLO, which must be answered: init exists and works. */
static inline struct proto_welcome hello(int fd, uint32_t flags)
{
	struct init_reply a = { 0 };

	SEND(fd, proto_hello, 77, .h.type = PROTO_HELLO, .flags = flags);
	do
		EQ(next_message(fd, &a), 1);
	while (a.m.h.type == PROTO_EXITED);
	EQ(a.m.h.type, PROTO_WELCOME);
	EQ(a.m.h.seq, 77);
	return a.m.welcome;
}

#endif /* TEST_DURABLE_BOX_H */
