/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach.c - transfer output, input, signals and the size of a terminal over HTTP
 *
 * The output is one request, which lasts as long as the command; each of its events has
 * the cursor to continue from. Each piece of input is a separate request, which is sent
 * when the previous piece was accepted. So the client reads no more from stdin than the
 * command reads. The terminal is restored before a message is printed.
 */
#include "cli/client/attach.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/base64.h"
#include "base/errno_names.h"
#include "base/fd.h"
#include "cli/client/commands.h"
#include "cli/run_signal.h"
#include "cli/run_tty.h"
#include "cli/splice.h"

#define PIECE        (64U << 10)
#define TRIES        50
#define TRY_AGAIN_MS 200
#define IDLE_MS      60000
#define BYTES        "application/octet-stream"

struct attached {
	const struct attach *a;
	struct request *out, *in;
	uint64_t cursor;
	bool ended;
	bool in_open; /* stdin may have more data */
	bool deaf;    /* stdout has no reader any more */
	bool raw;
	int failure; /* errno of a failed write to stdout */
	int signals; /* descriptor; -1 */
	sigset_t set;
	struct warren_result result;
};

void result_of(const json_t *from, struct warren_result *ret)
{
	const struct {
		const char *key;
		uint64_t *field;
	} counts[] = {
		{ "wall_usec", &ret->wall_usec },
		{ "user_usec", &ret->user_usec },
		{ "system_usec", &ret->system_usec },
		{ "max_memory", &ret->max_memory },
		{ "read_bytes", &ret->read_bytes },
		{ "written_bytes", &ret->written_bytes },
	};

	*ret = (struct warren_result){
		.exit_code = (int)json_integer_value(json_object_get(from, "exit_code")),
		.signal = (int)json_integer_value(json_object_get(from, "signal")),
		.timed_out = json_is_true(json_object_get(from, "timed_out")),
		.oom = json_is_true(json_object_get(from, "oom")),
	};
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		const json_t *n = json_object_get(from, counts[i].key);

		*counts[i].field = json_is_null(n) ? WARREN_UNKNOWN
						   : (uint64_t)json_integer_value(n);
	}
}

int start_status(const struct client *c)
{
	if (client_said(c, "command_not_found"))
		return STATUS_NOT_FOUND;
	return client_said(c, "command_not_executable") ? STATUS_CANNOT_EXEC
							: STATUS_FAILED;
}

/* ------------------------------------------------------------------ output */

static void take_output(struct attached *t, json_t *event)
{
	const json_t *data = json_object_get(event, "data");
	bool is_err = strcmp(print_text_of(event, "stream"), "stderr") == 0;
	AUTO_FREE char *bytes = data ? strdup(json_string_value(data)) : NULL;
	ssize_t n =
		bytes ? base64_decode(bytes, json_string_length(data), bytes) : -ENOMEM;
	int r = n < 0 ? (int)n : 0;

	if (n > 0 && t->a->keep)
		splice_keep(&t->a->keep[is_err], bytes, (size_t)n);
	else if (n > 0 && !t->deaf)
		r = fd_write_all(is_err ? STDERR_FILENO : STDOUT_FILENO, bytes,
				 (size_t)n);
	if (r == -EPIPE)
		t->deaf = true;
	else if (r < 0 && t->failure == 0)
		t->failure = -r;
}

/* Report the gap at its position, as far as two separate streams have a common
 * position. */
static void take_gap(struct attached *t, uint64_t lost)
{
	if (t->a->keep)
		t->a->keep[0].lost += lost; /* the stream is not known */
	else if (!t->a->quiet)
		message_say(t->a->command,
			    "%" PRIu64 " bytes of output were dropped here", lost);
}

static int attach_on_event(void *arg, const char *line, size_t n)
{
	struct attached *t = arg;
	AUTO_JSON json_t *event = json_loadb(line, n, 0, NULL);
	const char *type = print_text_of(event, "type");

	if (!event)
		return -1;
	if (strcmp(type, "output") == 0) {
		take_output(t, event);
	} else if (strcmp(type, "gap") == 0) {
		take_gap(t, (uint64_t)json_integer_value(json_object_get(event, "lost")));
	} else if (strcmp(type, "exit") == 0) {
		result_of(json_object_get(event, "result"), &t->result);
		t->ended = true;
	}
	if (json_is_integer(json_object_get(event, "cursor")))
		t->cursor =
			(uint64_t)json_integer_value(json_object_get(event, "cursor"));
	return t->failure ? -1 : 0;
}

static void put_exec(const struct attached *t, struct buf *path, const char *what)
{
	buf_printf(path, "/v1/sandboxes/%s/execs/%s%s", t->a->sandbox, t->a->exec, what);
}

static int start_output(struct attached *t, struct warren_error *err)
{
	AUTO_BUF struct buf path = BUF_INIT(PATH_LIMIT);
	char from[24];
	int r;

	(void)snprintf(from, sizeof(from), "%" PRIu64, t->cursor);
	put_exec(t, &path, "/output?encoding=base64");
	put_query(&path, "from", from);
	put_query(&path, "follow", t->a->once ? "false" : "true");
	if (t->a->stream)
		put_query(&path, "stream", t->a->stream);
	if (!t->a->watch)
		put_query(&path, "hold", "true");
	t->out = request_free(t->out);
	r = request_new(t->a->client, "GET", path.data, &t->out, err);
	if (r < 0)
		return r;
	t->out->on_line = attach_on_event;
	t->out->arg = t;
	return request_start(t->out, err);
}

/*
 * The stream ended before the end of the command was reported: find the reason. Return >
 * 0 if there is no more output.
 */
static int ask_why(struct attached *t, struct warren_error *err)
{
	AUTO_BUF struct buf path = BUF_INIT(PATH_LIMIT);
	AUTO_JSON json_t *exec = NULL;
	int r;

	put_exec(t, &path, "");
	r = client_call(t->a->client, "GET", path.data, NULL, &exec, err);
	if (r < 0)
		return r;
	if (strcmp(print_text_of(exec, "state"), "lost") == 0)
		return error_set(err, ESRCH,
				 "the sandbox ended before the command did; the result "
				 "of the command is not known");
	if (strcmp(print_text_of(exec, "state"), "running") == 0)
		return 0;
	result_of(json_object_get(exec, "result"), &t->result);
	t->ended = true;
	return 1;
}

/* The stream ended. Return 0 to continue, 1 if there is no more output, or -errno. */
static int after_output(struct attached *t, unsigned *tries, struct warren_error *err)
{
	static const struct timespec pause = { .tv_nsec = TRY_AGAIN_MS * 1000000L };
	int r;

	if (t->failure)
		return error_errno(err, t->failure, "write to stdout");
	if (t->ended)
		return 1;
	if (t->out->status >= 400) {
		*err = t->out->err;
		return -err->code;
	}
	if (t->a->once && t->out->err.code == 0)
		return 1;
	for (;; (*tries)++) {
		r = ask_why(t, err);
		if (r >= 0 || (r != -ECONNREFUSED && r != -ECONNRESET) || *tries == TRIES)
			break;
		(void)nanosleep(&pause, NULL);
	}
	(*tries)++;
	return r == 0 ? start_output(t, err) : r;
}

/* ------------------------------------------------------------- input and signals */

static void client_attach_close_input(struct attached *t)
{
	AUTO_BUF struct buf path = BUF_INIT(PATH_LIMIT);
	struct warren_error ignored = WARREN_ERROR_INIT;

	t->in_open = false;
	if (t->a->tty)
		return;
	put_exec(t, &path, "/stdin/close");
	(void)!client_call(t->a->client, "POST", path.data, NULL, NULL, &ignored);
}

static int attach_read_input(struct attached *t, struct warren_error *err)
{
	AUTO_BUF struct buf path = BUF_INIT(PATH_LIMIT);
	char piece[PIECE];
	ssize_t n = read(STDIN_FILENO, piece, sizeof(piece));
	int r;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		client_attach_close_input(t);
		return 0;
	}
	put_exec(t, &path, "/stdin");
	r = request_new(t->a->client, "POST", path.data, &t->in, err);
	if (r == 0)
		r = request_bytes(t->in, BYTES, piece, (size_t)n, err);
	return r < 0 ? r : request_start(t->in, err);
}

/* A piece was accepted, or the reader is gone. */
static void after_input(struct attached *t)
{
	if (t->in->err.code != 0) {
		t->in_open = false;
		if (t->in->status < 400)
			message_say(t->a->command, "input stopped: %s", t->in->err.msg);
	}
	t->in = request_free(t->in);
}

static void attach_resize(const struct attached *t)
{
	AUTO_BUF struct buf path = BUF_INIT(PATH_LIMIT);
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_JSON json_t *size = NULL;
	uint16_t rows, cols;

	tty_size(&rows, &cols);
	if (!rows || !cols)
		return;
	size = json_pack("{s:i, s:i}", "rows", rows, "cols", cols);
	put_exec(t, &path, "/resize");
	(void)!client_call(t->a->client, "POST", path.data, size, NULL, &ignored);
}

/* Pass a signal on. If the command has ended, the signal does not matter, and the stream
 * will report the end. */
static void attach_pass_on(const struct attached *t, int sig)
{
	AUTO_BUF struct buf path = BUF_INIT(PATH_LIMIT);
	struct warren_error err = WARREN_ERROR_INIT;
	const char *name = signal_abbrev(sig);
	AUTO_JSON json_t *body = NULL;

	if (!name)
		return;
	body = json_pack("{s:s}", "signal", name);
	put_exec(t, &path, "/signal");
	if (client_call(t->a->client, "POST", path.data, body, NULL, &err) < 0 &&
	    err.code != ENOENT && !client_said(t->a->client, "wrong_state"))
		message_say(t->a->command, "cannot send SIG%s to the command: %s", name,
			    err.msg);
}

static void attach_handle_signal(struct attached *t, int sig)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	switch (sig) {
	case SIGWINCH:
		attach_resize(t);
		return;
	case SIGTSTP: /* not from the keyboard, because the terminal is in raw mode */
		tty_restore();
		(void)raise(SIGSTOP);
		return;
	case SIGCONT:
		if (t->raw)
			(void)tty_raw(STDIN_FILENO, &ignored);
		if (t->a->tty)
			attach_resize(t);
		return;
	default:
		attach_pass_on(t, sig);
	}
}

/* -------------------------------------------------------------------- loop */

static int attach_loop(struct attached *t, struct warren_error *err)
{
	unsigned tries = 0;
	bool told = false;

	for (;;) {
		struct curl_waitfd fds[2] = {
			{ .fd = t->signals, .events = CURL_WAIT_POLLIN },
			{ .fd = STDIN_FILENO, .events = CURL_WAIT_POLLIN }
		};
		bool in = t->in_open && !t->in;
		unsigned first = t->signals < 0, n = 1 - first + in;
		int sig, r = client_turn(t->a->client, fds + first, n, IDLE_MS, err);

		if (r < 0)
			return r;
		while (t->signals >= 0 && fds[0].revents &&
		       (sig = signals_next(t->signals)) > 0)
			attach_handle_signal(t, sig);
		if (t->in && t->in->ended)
			after_input(t);
		else if (in && fds[1].revents && attach_read_input(t, err) < 0)
			return -err->code;
		if (t->deaf && !told && !t->a->watch)
			attach_pass_on(t, SIGPIPE);
		told = t->deaf;
		if (t->deaf && t->a->watch)
			return 1;
		if (!t->out->ended)
			continue;
		r = after_output(t, &tries, err);
		if (r != 0)
			return r;
	}
}

static int attach_prepare(struct attached *t, struct warren_error *err)
{
	if (!t->a->watch) {
		signals_block(t->a->tty, &t->set);
		t->signals = signals_open(&t->set, err);
		if (t->signals < 0)
			return t->signals;
	}
	t->raw = t->a->tty && t->a->in && isatty(STDIN_FILENO);
	if (t->raw && tty_raw(STDIN_FILENO, err) < 0)
		return -err->code;
	return 0;
}

int attach_run(const struct attach *a, struct warren_result *ret_result, bool *ret_ended,
	       struct warren_error *err)
{
	struct attached t = {
		.a = a, .cursor = a->from, .in_open = a->in, .signals = -1
	};
	int r = attach_prepare(&t, err);

	if (r == 0)
		r = start_output(&t, err);
	if (r == 0)
		r = attach_loop(&t, err);
	t.in = request_free(t.in);
	t.out = request_free(t.out);
	tty_restore();
	/* The signals stay blocked, so that the remaining work, such as a deletion, is
	 * done. */
	if (t.signals >= 0)
		(void)close(t.signals);
	if (r < 0)
		return r;
	*ret_result = t.result;
	if (ret_ended)
		*ret_ended = t.ended;
	return 0;
}
