/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - run a command in a container, and relay its streams
 *
 * The relay creates an exec, starts it on a connection that then carries the streams (it
 * is "hijacked"), and gets the exit code on another connection. In between, this process
 * moves bytes in both directions at the same time, so that a command that does not read
 * can still write. It ends when the streams have ended and the daemon reports that the
 * command has ended. To report the end of stdin, one half of the connection is closed.
 *
 * If the command cannot be started, the daemon reports this as output of the command, and
 * the exec has no pid. So the first piece of output is held back if it could be such a
 * message ("...\r\n"), until the daemon was asked. Podman never reports the pid; for its
 * execs, the exit code decides.
 *
 * The daemon may send the command's stdout before the line on stderr that reports the
 * start, and the caller reads neither until it knows of the start. So until stderr has
 * data, the relay keeps unread stdout, up to a maximum.
 *
 * If there is a terminal at descriptor 0, it is set to raw mode, and the terminal inside
 * does all the processing; after SIGWINCH, the terminal inside gets the new size. Docker
 * detaches from a terminal after a sequence of keys, and holds back the first key of the
 * sequence until the next one is typed. This cannot be switched off, so the sequence is
 * set to keys that no user types.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <termios.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/hex.h"
#include "shim/docker/docker.h"
#include "shim/docker/stream_demux.h"

#define CHUNK       (64U << 10)
#define EXEC_ID_LEN 64
#define ANSWER_MAX  (32U << 10)
/*
 * Interval between tries, because a terminal does not exist while its exec is
 * starting.
 */
#define SIZE_EVERY_MS  20
#define SIZE_TRIES     250
#define START_EVERY_MS 10
#define START_MOST_MS  160
#define COPY_EVERY_MS  20 /* interval between tries while the files are copied */
#define COPY_TRIES     50
#define KEPT_MAX       (16U << 20)
#define DETACH_KEYS    "ctrl-^,ctrl-^,ctrl-^,ctrl-@,ctrl-^,ctrl-^,ctrl-@,ctrl-@"

struct relay {
	struct docker d;
	const struct shim_sandbox *place;
	const struct shim_exec *e;
	char id[EXEC_ID_LEN + 1];
	CURL *held; /* keeps the connection open */
	int sock, signals;
	bool in_open; /* more data may come from stdin */
	bool in_told; /* the end of stdin was reported */
	bool over;    /* no more data will come from the connection */
	bool started; /* the daemon reported that the command started, or there is no sign
			 of a failure */
	bool to_tell; /* the shim waits for the report that the command started */
	int starting; /* lock that delays a pause until the command has started; -1: none
		       */
	int ask_ms;   /* time between two queries whether the command has started */
	uint64_t ask_at;     /* time of the next query, in ns */
	unsigned size_tries; /* remaining tries to set the terminal's size */
	struct frames frames;
	size_t in_at, in_len;   /* position and length of data to send */
	size_t out_at, out_len; /* position and length of received data */
	size_t piece;           /* part of it that goes to .to now */
	int to;
	bool keeps;      /* keep unread stdout, so that stderr can continue */
	struct buf kept; /* stdout data before .piece */
	size_t kept_at;  /* part of it that was written */
	char in[CHUNK], out[CHUNK];
};

/* ----------------------------------------------------------------- start of a command */

/* Map the messages of runtimes about a failed start to errno. */
static int code_of(const char *said)
{
	static const struct {
		const char *words;
		int code;
	} known[] = {
		{ "no such file or directory", ENOENT },
		{ "executable file not found", ENOENT },
		{ "permission denied", EACCES },
		{ "exec format error", ENOEXEC },
		{ "is a directory", EACCES },
		{ "not a directory", ENOTDIR },
		{ "unable to find user", EINVAL },
		{ "argument list too long", E2BIG },
		{ "is not running", ESRCH },
		{ "No such container", ESRCH },
		{ "is paused", EBUSY },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcasestr(said, known[i].words))
			return known[i].code;
	return 0;
}

__attribute__((noreturn)) static void not_started(const struct relay *r,
						  const struct warren_error *why)
{
	struct shim_outcome o = { .verdict = SHIM_NOT_STARTED, .err = *why };
	int code = code_of(why->msg);

	if (code)
		o.err.code = code;
	o.code = o.err.code;
	shim_sandbox_exit(r->e, &o);
}

/* Convert a list to JSON; the API accepts only UTF-8. */
static int exec_put_list(json_t *to, const char *key, const char *const *list,
			 const struct docker *d, struct warren_error *err)
{
	json_t *array = json_array();

	for (size_t i = 0; list && list[i]; i++)
		if (json_array_append_new(array, json_string(list[i])) < 0) {
			json_decref(array);
			return error_set(
				err, EILSEQ,
				"%s: create an exec: word %zu of its %s is not UTF-8, "
				"and the Engine API accepts nothing else",
				d->name, i + 1, key);
		}
	return json_object_set_new(to, key, array) < 0
		       ? error_errno(err, ENOMEM, "%s: create an exec", d->name)
		       : 0;
}

static void terminal_size(struct winsize *size)
{
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, size) < 0 || !size->ws_row || !size->ws_col)
		*size = (struct winsize){ .ws_row = 24, .ws_col = 80 };
}

static int make_exec(struct relay *r, const struct shim_sandbox *p,
		     struct warren_error *err)
{
	const struct shim_exec *e = r->e;
	char container[DOCKER_ID_LEN + 1];
	const char *id;
	json_t *body;
	int status = docker_id(&r->d, p, "create an exec", container, err);

	if (status < 0)
		return status;
	body = json_pack("{s:b, s:b, s:b, s:b, s:s*, s:s*, s:s}", "AttachStdin",
			 e->stdin_open || e->pty, "AttachStdout", 1, "AttachStderr",
			 !e->pty, "Tty", e->pty, "WorkingDir", e->cwd, "User",
			 e->user ? e->user : p->user, "DetachKeys", DETACH_KEYS);
	if (!body)
		return error_set(err, EILSEQ,
				 "%s: create an exec: its cwd or user is not UTF-8",
				 r->d.name);
	status = exec_put_list(body, "Cmd", e->argv, &r->d, err);
	if (status == 0)
		status = exec_put_list(body, "Env", e->env, &r->d, err);
	if (status == 0)
		status = docker_ask(&r->d, "create an exec", "POST", body, err,
				    "/containers/%s/exec", container);
	json_decref(body);
	if (status < 0)
		return status;
	id = json_string_value(json_object_get(r->d.answer, "Id"));
	if (!id || !hex_is(id, EXEC_ID_LEN))
		return docker_odd(&r->d, "create an exec", err);
	(void)strcpy(r->id, id);
	return 0;
}

/* Receive more of the answer. Return 0 if there is no more, or -ETIMEDOUT if nothing
 * arrived within @ms. */
static ssize_t exec_receive(const struct relay *r, char *to, size_t size, int ms)
{
	struct pollfd p = { .fd = r->sock, .events = POLLIN };
	ssize_t n;

	do {
		if (poll(&p, 1, ms) == 0)
			return -ETIMEDOUT;
		n = read(r->sock, to, size);
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	return n < 0 ? -errno : n;
}

/* Read the body of an answer that is not a stream: it is the daemon's error message. */
static int exec_refused(struct relay *r, int status, size_t have,
			struct warren_error *err)
{
	for (;;) {
		ssize_t n;

		json_decref(r->d.answer);
		r->d.answer = json_loadb(r->out, have, JSON_DISABLE_EOF_CHECK, NULL);
		if (r->d.answer || have == ANSWER_MAX)
			break;
		n = exec_receive(r, r->out + have, ANSWER_MAX - have, 500);
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	return docker_failed(&r->d, "start the exec", status, err);
}

static int send_start(struct relay *r, struct warren_error *err)
{
	struct winsize size;
	char body[128], text[512];
	int n, sent;

	terminal_size(&size);
	n = snprintf(body, sizeof(body), "{\"Detach\":false,\"Tty\":%s",
		     r->e->pty ? "true" : "false");
	n += snprintf(body + n, sizeof(body) - (size_t)n,
		      r->e->pty ? ",\"ConsoleSize\":[%u,%u]}" : "}", size.ws_row,
		      size.ws_col);
	sent = snprintf(text, sizeof(text),
			"POST /exec/%s/start HTTP/1.1\r\nHost: docker\r\n"
			"Content-Type: application/json\r\nConnection: Upgrade\r\n"
			"Upgrade: tcp\r\nContent-Length: %d\r\n\r\n%s",
			r->id, n, body);
	n = fd_write_all(r->sock, text, (size_t)sent);
	return n < 0 ? error_errno(err, -n, "%s: start the exec", r->d.name) : 0;
}

static int start_exec(struct relay *r, struct warren_error *err)
{
	uint64_t until = clock_now() + (uint64_t)r->d.patience_ms * 1000000;
	ssize_t head = 0;
	size_t have = 0;
	int status = 0, k;

	k = docker_connect(&r->d, "start the exec", &r->held, &r->sock, err);
	if (k == 0)
		k = send_start(r, err);
	if (k < 0)
		return k;
	while (head == 0) {
		uint64_t t = clock_now();
		ssize_t n = -ETIMEDOUT;

		if (have == ANSWER_MAX)
			return docker_odd(&r->d, "start the exec", err);
		if (t < until)
			n = exec_receive(r, r->out + have, ANSWER_MAX - have,
					 (int)((until - t) / 1000000) + 1);
		if (n == -ETIMEDOUT)
			return error_set(
				err, ETIMEDOUT,
				"%s: start the exec: the daemon at '%s' does not answer",
				r->d.name, r->d.socket);
		if (n < 0)
			return error_errno(err, (int)-n, "%s: start the exec", r->d.name);
		if (n == 0)
			return error_set(
				err, have ? EBADMSG : EHOSTDOWN,
				"%s: start the exec: the daemon closed the connection",
				r->d.name);
		have += (size_t)n;
		head = frame_answer(r->out, have, &status);
	}
	if (head < 0)
		return docker_odd(&r->d, "start the exec", err);
	have -= (size_t)head;
	(void)memmove(r->out, r->out + head, have);
	if (status != 101 && status != 200)
		return exec_refused(r, status, have, err);
	r->out_len = have;
	return 0;
}

/* ------------------------------------------------------------------- end of a command */

static void exec_nap(unsigned ms)
{
	const struct timespec t = { .tv_nsec = (long)ms * 1000000 };

	(void)nanosleep(&t, NULL);
}

/*
 * Get the daemon's state of the exec as r->d.answer. If the daemon is down or silent,
 * wait for it: the command may continue to run.
 */
static int ask_state(struct relay *r, struct warren_error *err)
{
	for (;;) {
		int k = docker_ask(&r->d, "read the exec's result", "GET", NULL, err,
				   "/exec/%s/json", r->id);

		if (k != -EHOSTDOWN && k != -ETIMEDOUT)
			return k;
		exec_nap(200);
	}
}

/* Could this first piece of output be a message of the daemon? */
static bool is_suspect(const struct relay *r, const char *piece, size_t n)
{
	static const char error[] = "Error: ";

	if (!r->d.podman)
		return n >= 2 && memcmp(piece + n - 2, "\r\n", 2) == 0;
	return n > sizeof(error) && memcmp(piece, error, sizeof(error) - 1) == 0 &&
	       memmem(piece, n, ": OCI ", 6);
}

/*
 * Was a process started? If there is no pid, but the daemon reports a running exec, the
 * process is about to start.
 */
static bool has_started(struct relay *r)
{
	struct warren_error err = WARREN_ERROR_INIT;

	for (unsigned ms = 1; ask_state(r, &err) >= 0; ms = ms < 32 ? ms * 2 : ms) {
		const json_t *a = r->d.answer;
		json_int_t code = json_integer_value(json_object_get(a, "ExitCode"));

		if (!r->d.podman && json_integer_value(json_object_get(a, "Pid")) > 0)
			return true;
		if (!json_is_true(json_object_get(a, "Running")))
			return r->d.podman && (code < 125 || code > 127);
		exec_nap(ms);
	}
	return true;
}

static void exec_allow_pause(struct relay *r)
{
	if (r->starting >= 0)
		(void)close(TAKE_FD(r->starting));
}

static void say_started(struct relay *r)
{
	const struct shim_outcome o = { .verdict = SHIM_STARTED };

	exec_allow_pause(r);
	if (r->to_tell)
		(void)fd_write_all(r->e->outcome_fd, &o, sizeof(o));
	r->to_tell = false;
	r->started = true;
}

/*
 * Ask whether the command has started, because the daemon does not report it. Podman
 * reports that an exec runs, but may not report its pid.
 */
static void ask_started(struct relay *r)
{
	struct warren_error err = WARREN_ERROR_INIT;

	if (clock_now() < r->ask_at || ask_state(r, &err) < 0)
		return;
	if (!r->to_tell && r->ask_ms < START_MOST_MS)
		r->ask_ms *= 2;
	r->ask_at = clock_now() + (uint64_t)r->ask_ms * 1000000;
	if (json_integer_value(json_object_get(r->d.answer, "Pid")) > 0)
		say_started(r);
	else if (r->d.podman && json_is_true(json_object_get(r->d.answer, "Running")))
		exec_allow_pause(r);
}

__attribute__((noreturn)) static void say_why(const struct relay *r, const char *said,
					      size_t n)
{
	struct warren_error why;
	AUTO_FREE char *copy = strndup(said, n);
	char text[360];

	docker_clean(text, sizeof(text), copy ? copy : "");
	(void)error_set(&why, EIO, "%s: start the exec: %s", r->d.name,
			text[0] ? text : "the daemon gave no reason");
	not_started(r, &why);
}

/*
 * Has the command ended with its container? This is possible if it was killed, or if the
 * daemon does not know it any more. It does not apply if memory ran out, because that end
 * can be reported.
 */
static bool is_container_gone(struct relay *r)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int k = docker_inspect(&r->d, r->place, &ignored);
	const json_t *state = json_object_get(r->d.answer, "State");

	return k == 0 || (k > 0 && !json_is_true(json_object_get(state, "Running")) &&
			  !json_is_true(json_object_get(state, "OOMKilled")));
}

/* Is the container being killed? The daemon first reports the end of its commands. */
static bool is_container_going(struct relay *r)
{
	for (int looks = 0; looks < 6; looks++) {
		if (is_container_gone(r))
			return true;
		exec_nap(10);
	}
	return false;
}

/* The streams have ended, possibly before the command, which can close them. */
__attribute__((noreturn)) static void docker_exec_finish(struct relay *r)
{
	struct shim_outcome o = { .verdict = SHIM_SIGNALED, .code = SIGKILL };
	json_int_t code;
	unsigned ms = 1;

	/* Data that arrives from now on is not reported. */
	(void)shutdown(r->sock, SHUT_RDWR);
	for (;; ms = ms < 64 ? ms * 2 : 100) {
		/* If the daemon no longer knows the command, it was restarted, and the
		 * command has ended. */
		if (ask_state(r, &o.err) < 0) {
			if (is_container_gone(r))
				o.verdict = SHIM_LOST;
			shim_sandbox_exit(r->e, &o);
		}
		if (!json_is_true(json_object_get(r->d.answer, "Running")))
			break;
		exec_nap(ms);
	}
	if (json_is_integer(json_object_get(r->d.answer, "Pid")) &&
	    json_integer_value(json_object_get(r->d.answer, "Pid")) == 0 && !r->started &&
	    !r->d.podman)
		say_why(r, "", 0);
	say_started(r);
	/* A null means that the daemon does not know the exit code. */
	code = json_is_integer(json_object_get(r->d.answer, "ExitCode"))
		       ? json_integer_value(json_object_get(r->d.answer, "ExitCode"))
		       : -1;
	if ((code < 0 || code == 128 + SIGKILL) && is_container_going(r)) {
		o.verdict = SHIM_LOST;
	} else if (code >= 0 && code <= 255) {
		o.verdict = code > 128 && code <= 128 + SIGRTMAX ? SHIM_SIGNALED
								 : SHIM_EXITED;
		o.code = (int)(o.verdict == SHIM_SIGNALED ? code - 128 : code);
	}
	shim_sandbox_exit(r->e, &o);
}

/* ---------------------------------------------------------------------- relay */

static void exec_tell_size(struct relay *r)
{
	struct warren_error err;
	struct winsize size;
	int k;

	terminal_size(&size);
	k = docker_ask(&r->d, "resize the terminal", "POST", NULL, &err,
		       "/exec/%s/resize?h=%u&w=%u", r->id, size.ws_row, size.ws_col);
	r->size_tries = k >= 0 ? 0 : r->size_tries - 1;
}

/* Find the next piece of the received data. Return false if there is none. */
static bool exec_next_piece(struct relay *r)
{
	size_t used = r->out_len - r->out_at, size = used;

	if (r->e->pty)
		r->to = STDOUT_FILENO;
	else if (frames_next(&r->frames, r->out + r->out_at, used, &used, &size) < 0) {
		r->over = true; /* the next frame cannot be found */
		size = 0;
	} else
		r->to = r->frames.stream;
	r->out_at += used - size;
	r->piece = size;
	if (size == 0)
		return false;
	if (!r->started) {
		const char *piece = r->out + r->out_at;

		if (is_suspect(r, piece, size) && !has_started(r))
			say_why(r, piece, size);
		say_started(r);
	}
	return true;
}

static void from_daemon(struct relay *r)
{
	ssize_t n = read(r->sock, r->out, sizeof(r->out));

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		r->over = true;
	r->out_at = 0;
	r->out_len = n > 0 ? (size_t)n : 0;
}

/* Write to the reader of the output. If the reader is gone, the command must not wait for
 * it. */
static void to_reader(struct relay *r)
{
	ssize_t n = write(r->to, r->out + r->out_at, r->piece);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0)
		n = (ssize_t)r->piece;
	r->out_at += (size_t)n;
	r->piece -= (size_t)n;
	if (r->to == STDERR_FILENO && r->piece == 0)
		r->keeps = false;
}

static bool has_kept(const struct relay *r)
{
	return r->kept_at < r->kept.len;
}

/* Keep a piece of stdout that cannot be written at once; if there is too much, the
 * command waits.
 */
static void exec_keep(struct relay *r)
{
	if (!r->keeps || r->piece == 0 || r->to != STDOUT_FILENO)
		return;
	if (!has_kept(r))
		to_reader(r);
	if (r->piece > KEPT_MAX - r->kept.len)
		return;
	buf_add(&r->kept, r->out + r->out_at, r->piece);
	if (!r->kept.failed) {
		r->out_at += r->piece;
		r->piece = 0;
	}
}

static void exec_write_kept(struct relay *r)
{
	size_t left = r->kept.len - r->kept_at;
	ssize_t n = write(STDOUT_FILENO, r->kept.data + r->kept_at, left);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	r->kept_at += n < 0 ? left : (size_t)n;
	if (!has_kept(r)) {
		buf_done(&r->kept);
		r->kept_at = 0;
	}
}

static void from_writer(struct relay *r)
{
	ssize_t n = read(STDIN_FILENO, r->in, sizeof(r->in));

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		r->in_open = false;
	r->in_at = 0;
	r->in_len = n > 0 ? (size_t)n : 0;
}

static void to_daemon(struct relay *r)
{
	ssize_t n = send(r->sock, r->in + r->in_at, r->in_len - r->in_at,
			 MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) { /* the command has ended, so drop unread input */
		r->in_open = false;
		n = (ssize_t)(r->in_len - r->in_at);
	}
	r->in_at += (size_t)n;
}

static void exec_on_signal(struct relay *r)
{
	struct signalfd_siginfo si;

	while (read(r->signals, &si, sizeof(si)) == (ssize_t)sizeof(si))
		r->size_tries = SIZE_TRIES;
}

/* Do one turn of the loop: wait, and move what can be moved. */
static void exec_turn(struct relay *r)
{
	bool in_waits = r->in_at<r->in_len, out_waits = r->piece> 0;
	bool asks = r->to_tell || r->starting >= 0;
	bool behind_kept = has_kept(r) && r->to == STDOUT_FILENO;
	struct pollfd p[] = {
		{ .fd = r->in_open && !in_waits ? STDIN_FILENO : -1, .events = POLLIN },
		{ .fd = r->sock,
		  .events = (short)((out_waits || r->over ? 0 : POLLIN) |
				    (in_waits ? POLLOUT : 0)) },
		{ .fd = out_waits && !behind_kept ? r->to : -1, .events = POLLOUT },
		{ .fd = r->signals, .events = POLLIN },
		{ .fd = has_kept(r) ? STDOUT_FILENO : -1, .events = POLLOUT },
	};

	/* Ignore a connection that was hung up until its output is written. */
	if (p[1].events == 0)
		p[1].fd = -1;
	if (poll(p, ARRAY_SIZE(p),
		 asks            ? r->ask_ms
		 : r->size_tries ? SIZE_EVERY_MS
				 : -1) < 0)
		return;
	if (asks)
		ask_started(r);
	if (p[3].revents)
		exec_on_signal(r);
	if (r->size_tries)
		exec_tell_size(r);
	if (p[4].revents)
		exec_write_kept(r);
	if (p[2].revents)
		to_reader(r);
	if (p[1].revents & (POLLOUT | POLLERR))
		to_daemon(r);
	if (!out_waits && p[1].revents & (POLLIN | POLLHUP | POLLERR))
		from_daemon(r);
	if (p[0].revents)
		from_writer(r);
}

__attribute__((noreturn)) static void exec_relay(struct relay *r)
{
	for (;;) {
		bool more = true;

		while (r->piece == 0 && (more = exec_next_piece(r)))
			exec_keep(r);
		if (!more && r->over && !has_kept(r))
			docker_exec_finish(r);
		if (!r->in_open && !r->in_told && r->in_at == r->in_len) {
			(void)shutdown(r->sock, SHUT_WR);
			r->in_told = true;
		}
		exec_turn(r);
	}
}

/*
 * Call this before the command is started, so that keys typed in the meantime also go to
 * it.
 */
static int exec_prepare(struct relay *r, struct warren_error *err)
{
	struct termios t;
	sigset_t set;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGWINCH);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (r->e->pty && tcgetattr(STDIN_FILENO, &t) == 0) {
		cfmakeraw(&t);
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &t);
	}
	/*
	 * Make the descriptors non-blocking. The command does not share them, so this
	 * affects only this process.
	 */
	for (int fd = 0; fd < 3; fd++)
		(void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	return r->signals < 0
		       ? error_errno(err, errno, "%s: watch for signals", r->d.name)
		       : 0;
}

/*
 * The container is paused: has a copy of its files paused it, or is the pause over? In
 * between, both may change, so the caller tries again for a while.
 */
static bool exec_awaits_copy(struct relay *r, const struct warren_error *why,
			     unsigned *tries)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	const json_t *state;

	if (code_of(why->msg) != EBUSY)
		return false;
	exec_allow_pause(r);
	if (shim_sandbox_is_copied(r->place)) {
		exec_nap(COPY_EVERY_MS);
		return true;
	}
	if (docker_inspect(&r->d, r->place, &ignored) <= 0)
		return false;
	state = json_object_get(r->d.answer, "State");
	return !json_is_true(json_object_get(state, "Paused")) && (*tries)++ < COPY_TRIES;
}

/* Create the exec, and keep a pause away until it has started. */
static int exec_create(struct relay *r, struct warren_error *err)
{
	unsigned tries = 0;
	int k;

	do {
		k = docker_lock_start(&r->d, r->place, &r->starting, err);
		if (k == 0)
			k = make_exec(r, r->place, err);
	} while (k < 0 && exec_awaits_copy(r, err, &tries));
	return k;
}

void docker_exec(struct shim_sandbox *p, const struct shim_exec *e)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct relay *r = calloc(1, sizeof(*r));

	if (!r)
		_exit(127);
	r->place = p;
	r->e = e;
	r->in_open = e->stdin_open || e->pty;
	r->in_told = !r->in_open;
	r->to_tell = e->tell_start && e->outcome_fd >= 0;
	r->size_tries = e->pty ? SIZE_TRIES : 0;
	r->keeps = !e->pty && !e->tell_start;
	r->starting = -1;
	r->ask_ms = START_EVERY_MS;
	r->ask_at = clock_now() + START_EVERY_MS * 1000000ULL;
	r->kept = (struct buf)BUF_INIT(KEPT_MAX + 1);
	if (docker_open(&r->d, p->name, p->config, &err) < 0 ||
	    exec_prepare(r, &err) < 0 || exec_create(r, &err) < 0 ||
	    start_exec(r, &err) < 0)
		not_started(r, &err);
	exec_relay(r);
}
