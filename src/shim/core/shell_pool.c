/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shell_pool.c - persistent shells inside, each for one user; the least recently used one
 * is closed when a new one is needed
 */
#include "shim/core/shell_pool.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/default_path.h"
#include "base/fd.h"
#include "shim/core/file_copy.h"
#include "shim/core/scripts.h"

#define POOL_SHELLS_MAX 4
#define IDLE_NS         60000000000ULL /* time after which an unused shell is closed */
#define SIGN_NS         (WORK_SIGN_MS * 1000000ULL)

static struct pool_shell {
	pid_t pid; /* 0: none */
	int in, out;
	int outcome; /* file in which the platform reports why it did not start */
	int said;    /* stderr of its tool; unread data is lost */
	char user[32];
	uint64_t used;
} pool_shells[POOL_SHELLS_MAX];

static void pool_shell_close(struct pool_shell *h)
{
	if (h->pid <= 0)
		return;
	(void)kill(-h->pid, SIGKILL);
	(void)kill(h->pid, SIGKILL);
	(void)waitpid(h->pid, NULL, 0);
	(void)close(h->in);
	(void)close(h->out);
	(void)close(h->outcome);
	(void)close(h->said);
	*h = (struct pool_shell){ 0 };
}

int shell_pool_tick(void)
{
	uint64_t t = clock_now(), next = 0;

	for (size_t i = 0; i < POOL_SHELLS_MAX; i++) {
		struct pool_shell *h = &pool_shells[i];

		if (h->pid > 0 && h->used + IDLE_NS <= t)
			pool_shell_close(h);
		if (h->pid > 0 && (next == 0 || h->used + IDLE_NS < next))
			next = h->used + IDLE_NS;
	}
	return next ? (int)((next - t) / 1000000) + 1 : -1;
}

void shell_pool_release(void)
{
	for (size_t i = 0; i < POOL_SHELLS_MAX; i++)
		pool_shell_close(&pool_shells[i]);
}

bool shell_pool_has(pid_t pid)
{
	for (size_t i = 0; i < POOL_SHELLS_MAX; i++)
		if (pool_shells[i].pid == pid)
			return true;
	return false;
}

static int pool_shell_start(struct pool_shell *h, const char *user,
			    struct warren_error *err)
{
	const char *plain[] = { inside.shell, NULL };
	const char *served[] = { this_sandbox.helper, "tools", inside.shell, NULL };
	const char *const *argv = this_sandbox.helper ? served : plain;
	int p[4][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } }, r = 0;

	if (!inside.shell[0])
		return error_set(err, EOPNOTSUPP,
				 "%s: the image has no shell to do this with: no /bin/sh",
				 this_sandbox.name);
	for (int i = 0; i < 4 && r == 0; i++)
		r = pipe2(p[i], O_CLOEXEC | (i == 3 ? O_NONBLOCK : 0)) < 0 ? -errno : 0;
	if (r == 0)
		r = child_start(argv, user[0] ? user : NULL, p[0][0], p[1][1], p[3][1],
				p[2][1]);
	/* Close the child's ends, and after a failure also the shim's. */
	for (int i = 0; i < 4; i++)
		for (int end = 0; end < 2; end++)
			if (p[i][end] >= 0 && (r < 0 || end == (i != 0)))
				(void)close(p[i][end]);
	if (r < 0)
		return error_errno(err, -r, "start a process");
	*h = (struct pool_shell){ .pid = r,
				  .in = p[0][1],
				  .out = p[1][0],
				  .outcome = p[2][0],
				  .said = p[3][0] };
	(void)fcntl(h->outcome, F_SETFL, O_RDONLY | O_NONBLOCK);
	(void)strcpy(h->user, user);
	(void)fcntl(h->in, F_SETFL, O_WRONLY | O_NONBLOCK);
	(void)fcntl(h->out, F_SETFL, O_RDONLY | O_NONBLOCK);
	return 1;
}

/*
 * Is the shell ready for the next script? An idle shell prints nothing. A shell may have
 * ended because it was killed from inside or by a stop, and a shell that prints something
 * must not get the next script.
 */
static bool pool_shell_is_idle(const struct pool_shell *h)
{
	struct pollfd p = { .fd = h->out, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

static int pool_shell_find(const char *user, struct pool_shell **ret,
			   struct warren_error *err)
{
	struct pool_shell *h = &pool_shells[0];

	for (size_t i = 0; i < POOL_SHELLS_MAX; i++) {
		if (pool_shells[i].pid > 0 && !pool_shell_is_idle(&pool_shells[i]))
			pool_shell_close(&pool_shells[i]);
		if (pool_shells[i].pid > 0 && strcmp(pool_shells[i].user, user) == 0) {
			*ret = &pool_shells[i];
			return 0;
		}
		if (pool_shells[i].used < h->used)
			h = &pool_shells[i];
	}
	pool_shell_close(h);
	*ret = h;
	return pool_shell_start(h, user, err);
}

/*
 * Wrap the script so that it is read completely before any of it runs, and so that its
 * output ends with the mark.
 */
static void shell_pool_wrap(const struct buf *script, const char *mark, bool fresh,
			    struct buf *text)
{
	if (fresh) {
		buf_puts(text, "LC_ALL=C TZ=UTC0\nexport LC_ALL TZ\nunset CDPATH ENV\n"
			       "PATH=$PATH:" DEFAULT_PATH "\numask 022\ncd /\n");
		buf_puts(text, script_tools);
		if (this_sandbox.helper)
			buf_puts(text, script_served);
	}
	buf_puts(text, "{\n");
	buf_add(text, script->data, script->len);
	buf_puts(text, "\n} </dev/null 2>&1\necho \"\n");
	buf_puts(text, mark);
	buf_puts(text, "$?\"\n");
}

/* Is the mark at the end? If so, return the status, and remove the mark. */
static int find_end(struct buf *out, const char *mark, size_t from)
{
	char want[MARK_LEN + 2] = "\n";
	char *at;

	(void)strcat(want, mark);
	at = out->len > from
		     ? memmem(out->data + from, out->len - from, want, MARK_LEN + 1)
		     : NULL;
	if (!at || !memchr(at + 1, '\n', (size_t)(out->data + out->len - at - 1)))
		return -EAGAIN;
	out->len = (size_t)(at - out->data);
	at += 1 + MARK_LEN;
	/* If it is not the end, no number follows the mark. */
	return isdigit((unsigned char)*at) ? (int)strtol(at, NULL, 10) & 0xff : -EPROTO;
}

static int shell_pool_take(struct pool_shell *h, struct buf *out)
{
	char *room = buf_reserve(out, 65536);
	ssize_t n = room ? read(h->out, room, 65536) : -1;

	if (!room)
		return -EFBIG;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	out->len += (size_t)n;
	return n == 0 ? -EPIPE : (int)n;
}

static int shell_pool_converse(struct pool_shell *h, const struct buf *text,
			       struct buf *out, const char *mark, int secs)
{
	uint64_t patience = (uint64_t)shim_sandbox_patience() * 1000000000,
		 heard = clock_now();
	uint64_t end = heard + (uint64_t)secs * 1000000000;
	uint64_t signed_at = heard;
	size_t sent = 0, start = out->len;

	for (;;) {
		struct pollfd p[2] = { { .fd = h->out, .events = POLLIN },
				       { .fd = sent < text->len ? h->in : -1,
					 .events = POLLOUT } };
		uint64_t until = heard + patience < end ? heard + patience : end;
		uint64_t t = clock_now();
		ssize_t n;
		int r;

		if (t >= until)
			return -ETIMEDOUT;
		/* Do this even while the shell prints without a pause. */
		if (t - signed_at >= SIGN_NS) {
			work_sign();
			signed_at = t;
		}
		(void)poll(p, 2,
			   spool_wait_ms(until - t > SIGN_NS
						 ? WORK_SIGN_MS
						 : (int)((until - t) / 1000000) + 1));
		if (!p[0].revents)
			spool_guard();
		if (p[1].revents) {
			n = write(h->in, text->data + sent, text->len - sent);
			if (n < 0 && errno != EAGAIN && errno != EINTR)
				return -EPIPE;
			sent += n > 0 ? (size_t)n : 0;
		}
		if (!p[0].revents)
			continue;
		r = shell_pool_take(h, out);
		if (r < 0)
			return r;
		heard = t;
		/* The mark may be split between two reads. */
		r = find_end(out, mark,
			     out->len - start > (size_t)r + 64 ? out->len - (size_t)r - 64
							       : start);
		if (r != -EAGAIN)
			return r;
	}
}

/* Explain why the exchange failed: the platform or its tool may have reported it. */
static int shell_pool_explain(const struct pool_shell *h, int r, struct warren_error *err)
{
	struct shim_outcome o;
	char said[4096];
	ssize_t n;

	if (r == -EPIPE && read(h->outcome, &o, sizeof(o)) == sizeof(o) &&
	    o.verdict == SHIM_NOT_STARTED && o.err.code > 0) {
		*err = o.err;
		err->msg[sizeof(err->msg) - 1] = '\0';
		return -err->code;
	}
	n = r == -EPIPE ? read(h->said, said, sizeof(said) - 1) : 0;
	said[n > 0 ? n : 0] = '\0';
	said[strcspn(said, "\r\n")] = '\0';
	/*
	 * EPIPE is about the shell's stdin, not about the client's file, so report
	 * another error.
	 */
	return error_set(err, r == -EPIPE ? EREMOTEIO : -r, "%s: exec: %.300s",
			 this_sandbox.name,
			 said[0]           ? said
			 : r == -ETIMEDOUT ? "the sandbox does not answer"
			 : r == -EPIPE     ? "the sandbox's shell is gone"
					   : strerrordesc_np(-r));
}

/* Discard earlier messages of the tool, which are not about the current script. */
static void forget_said(const struct pool_shell *h)
{
	char scrap[4096];

	for (int i = 0; i < 16 && read(h->said, scrap, sizeof(scrap)) > 0; i++)
		;
}

int shell_pool_run(const char *user, const struct buf *script, struct buf *out, int secs,
		   struct warren_error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(64U << 20);
	char mark[MARK_LEN + 1];
	struct pool_shell *h = NULL;
	int r = pool_shell_find(user, &h, err);

	if (r < 0)
		return r;
	mark_make(mark);
	shell_pool_wrap(script, mark, r > 0, &text);
	if (r == 0)
		forget_said(h);
	r = text.failed || script->failed
		    ? -ENOMEM
		    : shell_pool_converse(h, &text, out, mark, secs);
	h->used = clock_now();
	if (r >= 0)
		return r;
	r = shell_pool_explain(h, r, err);
	pool_shell_close(h);
	return r;
}
