/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - commands are quoted, records are read, and one state is kept
 *
 * script.c has what the shell runs. A record, which it writes after each command, is
 *
 *	<serial> <$?> <progress> <$!> <$$> <$-> <directory>\0
 *
 * with any of the fields but the first two empty. Behind a marker the first is the serial; on the
 * control transport it is the command's key (control.c). It is believed only for the command that
 * runs; one of another, or one that does not add up, is the end of the session.
 */
#include "session/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/id.h"
#include "base/parse.h"
#include "session/session_internal.h"

#define EXIT_INTERRUPTED 130
#define LONG_TEXT        1024

const char *const session_outcome_names[] = {
	[SESSION_READY] = "ready",
	[SESSION_DONE] = "done",
	[SESSION_SYNTAX] = "syntax error",
	[SESSION_ABORTED] = "aborted",
	[SESSION_INTERRUPTED] = "interrupted",
	[SESSION_ENDED] = "ended",
};

_Static_assert(ARRAY_SIZE(session_outcome_names) == SESSION_OUTCOME_MAX,
	       "an outcome has no name");

int session_new(enum session_transport transport, const struct session_events *events,
		void *arg, struct session **ret, struct warren_error *err)
{
	struct session *s = calloc(1, sizeof(*s));
	char id[ID_LEN + 1];

	if (!s)
		return error_errno(err, ENOMEM, "make a session");
	s->transport = transport;
	s->events = events;
	s->arg = arg;
	s->record.max = RECORD_MAX;
	id_make(id);
	session_name(s, id);
	*ret = s;
	return 0;
}

void session_name(struct session *s, const char *id)
{
	(void)snprintf(s->token, sizeof(s->token), "_%.*s", TOKEN_LEN - 1, id);
}

void session_markers(struct session *s, void (*make)(void *arg, uint64_t serial,
						     uint8_t ret[SESSION_MARKER_SIZE]))
{
	s->make_marker = make;
}

/* By chance it cannot fail: so few bytes a kernel that has started always has. */
void session_bits(struct session *s, uint8_t ret[SESSION_MARKER_SIZE])
{
	if (s->make_marker)
		s->make_marker(s->arg, s->serial, ret);
	else if (getrandom(ret, SESSION_MARKER_SIZE, 0) != SESSION_MARKER_SIZE)
		abort();
}

void session_resume(struct session *s, uint64_t serial)
{
	s->serial = serial;
	s->state = STATE_RUNNING;
	s->greeted = true;
	if (s->transport == SESSION_CONTROL)
		control_expect(s);
	else
		framed_expect(s);
}

bool session_is_result(const struct session *s, const char *record, size_t n)
{
	return n > KEY_LEN && memcmp(record, s->key, KEY_LEN) == 0 &&
	       record[KEY_LEN] == ' ';
}

struct session *session_free(struct session *s)
{
	if (s)
		buf_done(&s->record);
	free(s);
	return NULL;
}

void session_freep(struct session **s)
{
	*s = session_free(*s);
}

bool session_running(const struct session *s)
{
	return s->state == STATE_RUNNING;
}

bool session_alive(const struct session *s)
{
	return s->state == STATE_IDLE || s->state == STATE_RUNNING;
}

int session_pid(const struct session *s)
{
	return s->pid;
}

/* ------------------------------------------------------------------ to the shell */

static void ask(struct session *s, struct buf *out)
{
	if (s->transport == SESSION_CONTROL)
		control_ask(s, out);
	else if (s->transport == SESSION_TERMINAL)
		terminal_ask(s, out);
	else
		framed_ask(s, out);
	s->state = STATE_RUNNING;
}

static const char *const scripts[] = {
	[SESSION_CONTROL] = script_control,
	[SESSION_FRAMED] = script_framed,
	[SESSION_TERMINAL] = script_terminal,
};

int session_start(struct session *s, struct buf *out, struct warren_error *err)
{
	if (s->state != STATE_NEW)
		return error_set(err, EBUSY, "the session has been started before");
	script_add(out, s, scripts[s->transport]);
	script_add(out, s, script_common);
	if (s->transport == SESSION_TERMINAL) {
		script_add(out, s, script_terminal_end);
		terminal_begin(s, out);
	}
	script_add(out, s, "\"$@k\" true");
	ask(s, out);
	return out->failed ? error_errno(err, ENOMEM, "start a session") : 0;
}

/* Blanks and comments alone: what a compound command must not consist of. */
static bool is_nothing(const char *text, size_t n)
{
	const char *end = text + n;

	while (text < end) {
		if (*text == '#') {
			text = memchr(text, '\n', (size_t)(end - text));
			if (!text)
				return true;
		} else if (!strchr(" \t\n", *text)) {
			return false;
		}
		text++;
	}
	return true;
}

static void add_quoted(struct buf *out, const char *text, size_t n)
{
	const char *quote;

	while ((quote = memchr(text, '\'', n))) {
		buf_add(out, text, (size_t)(quote - text));
		buf_puts(out, "'\\''");
		n -= (size_t)(quote - text) + 1;
		text = quote + 1;
	}
	buf_add(out, text, n);
}

/*
 * What a report changed is put back: $? and, as they show our own lines otherwise, -v and -x.
 * Under -e a function that fails is too much of a risk; there $? is 0 in nearly all cases.
 */
static void add_prelude(struct session *s, struct buf *out)
{
	bool shows = strpbrk(s->flags, "vx"),
	     fails = s->exit_code && !strchr(s->flags, 'e');

	if (!shows && !fails)
		return;
	buf_puts(out, "{ ");
	if (fails) { /* defined first: `set` would make $? 0 */
		script_add(out, s, "@s(){ return ");
		buf_printf(out, "%d;};", s->exit_code);
	}
	if (shows) {
		script_add(out, s, "\"$@k\" set -");
		buf_printf(out, "%s%s;", strchr(s->flags, 'v') ? "v" : "",
			   strchr(s->flags, 'x') ? "x" : "");
	}
	if (fails)
		script_add(out, s, "@s&&:;");
	buf_puts(out, "} 2>/dev/null;");
}

/*
 * As $'...' has it, in ASCII alone: a character is a byte then, whatever the locale. Not by
 * printf(3): a stranger's text may be nothing else.
 */
static void add_escaped(struct buf *out, const char *text, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n;) {
		size_t plain = i;
		unsigned char c;

		while (plain < n && (unsigned char)text[plain] < 0x80 &&
		       text[plain] != '\'' && text[plain] != '\\')
			plain++;
		buf_add(out, text + i, plain - i);
		i = plain;
		if (i == n)
			break;
		c = (unsigned char)text[i++];
		if (c < 0x80)
			buf_add(out, (const char[]){ '\\', (char)c }, 2);
		else
			buf_add(out,
				(const char[]){ '\\', 'x', digits[c >> 4],
						digits[c & 15] },
				4);
	}
}

/*
 * A bash takes its script from a pipe by one read(2) for each byte, which is dear where system
 * calls are. Its `read -N` does not, so that is how it gets a long text. Not under `set -a`,
 * which would put the text into the environment of what it starts.
 */
static bool is_worth_reading(const struct session *s, size_t n)
{
	return s->transport == SESSION_FRAMED && n > LONG_TEXT &&
	       strchr(s->flags, SCRIPT_READS) && !strchr(s->flags, 'a');
}

static void feed_read(struct session *s, const char *text, size_t n, struct buf *out)
{
	AUTO_BUF struct buf body = BUF_INIT(SESSION_OUT_MAX), head = BUF_INIT(1024);

	add_prelude(s, &head);
	script_add(&body, s, "for @w in -;do ");
	add_escaped(&body, head.data ? head.data : "", head.len);
	add_escaped(&body, text, n);
	script_add(&body, s, "\ndone;{ @w=d$?;} 2>/dev/null");
	script_add(out, s, "\n\"$@k\" read -ru6 -N");
	buf_printf(out, "%zu", body.len);
	script_add(out, s, " @t\n");
	buf_add(out, body.data, body.len);
	script_add(out, s,
		   "\"$@k\" eval \"@t=\\$'$@t'\";\"$@k\" eval \"$@t\" 7>&- 8>&- 6<&-");
	out->failed |= body.failed || head.failed;
	s->was_read = true;
}

static void feed_quoted(struct session *s, const char *text, size_t n, struct buf *out)
{
	if (is_worth_reading(s, n) && !is_nothing(text, n)) {
		feed_read(s, text, n, out);
		return;
	}
	/* The empty line: after some syntax errors, bash takes the next word for an argument. */
	script_add(out, s, "\n\"$@k\" eval 'for @w in -;do ");
	if (is_nothing(text, n)) {
		script_add(out, s, "\"$@k\" true");
	} else {
		add_prelude(s, out);
		add_quoted(out, text, n);
	}
	script_add(out, s, "\ndone;{ @w=d$?;} 2>/dev/null' 7>&-");
	buf_puts(out, s->transport == SESSION_FRAMED ? " 8>&- 6<&-" : "");
}

static void feed_typed(struct session *s, const char *text, size_t n, struct buf *out)
{
	AUTO_BUF struct buf prelude = BUF_INIT(1024);

	add_prelude(s, &prelude);
	script_add(out, s, "\n{ @t= @u=;} 2>/dev/null\n");
	if (is_nothing(text, n)) {
		text = "true";
		n = strlen(text);
	} else {
		terminal_type(s, out, prelude.data ? prelude.data : "", prelude.len);
	}
	terminal_type(s, out, text, n);
	terminal_begin(s, out);
	script_add(out, s,
		   "\"$@k\" eval \"for @w in -;do $@t$@u\n"
		   "done;{ @w=d\\$?;} 2>/dev/null\" 7>&- 8>&-");
	out->failed |= prelude.failed;
}

int session_feed(struct session *s, const char *text, size_t n, struct buf *out,
		 uint64_t *ret_serial, struct warren_error *err)
{
	if (s->state == STATE_RUNNING)
		return error_set(err, EBUSY, "the session is running a command");
	if (s->state != STATE_IDLE)
		return error_set(err, EPIPE, "the session has ended");
	if (n > SESSION_COMMAND_MAX)
		return error_set(err, E2BIG,
				 "a command may have %u bytes, this one has %zu",
				 SESSION_COMMAND_MAX, n);
	if (memchr(text, '\0', n))
		return error_set(err, EINVAL, "a command cannot hold a NUL byte");

	s->serial++;
	if (s->transport == SESSION_TERMINAL)
		feed_typed(s, text, n, out);
	else
		feed_quoted(s, text, n, out);
	ask(s, out);
	*ret_serial = s->serial;
	return out->failed ? error_errno(err, ENOMEM, "quote a command") : 0;
}

/* ---------------------------------------------------------------- from the shell */

void session_output(struct session *s, enum session_stream stream, const void *data,
		    size_t n)
{
	/* What was typed is no output, nor what the shell prompts with between commands. */
	if (s->transport == SESSION_TERMINAL &&
	    (s->state == STATE_IDLE ||
	     (s->state == STATE_RUNNING && !s->frames[0].begun)))
		return;
	if (s->greeted && n > 0)
		s->events->output(s->arg, stream, data, n);
}

/* No good can come from it any more. */
static int broken(struct session *s, const char *what, struct warren_error *err)
{
	s->state = STATE_LEAVING;
	return error_set(err, EPROTO, "the session's shell sent %s", what);
}

ssize_t session_collect(struct session *s, const char *data, size_t n,
			struct warren_error *err)
{
	const char *end = memchr(data, '\0', n);
	size_t used = end ? (size_t)(end - data) : n;

	buf_add(&s->record, data, used);
	if (s->record.failed)
		return broken(s, "too long a result", err);
	s->have_record = end;
	return (ssize_t)(end ? used + 1 : used);
}

/* Cut the next word off: it ends at the first blank, and may be empty. */
static char *next_word(char **rest)
{
	char *word = *rest, *blank = word ? strchr(word, ' ') : NULL;

	if (blank)
		*blank = '\0';
	*rest = blank ? blank + 1 : NULL;
	return word;
}

static bool to_number(const char *word, uint64_t max, uint64_t *ret)
{
	struct warren_error ignored;

	return word && parse_u64(word, max, ret, &ignored) >= 0;
}

static bool judge(const char *progress, uint64_t status, struct session_result *r)
{
	uint64_t code = status;

	switch (*progress) {
	case '\0':
		r->outcome = r->serial == 0 ? SESSION_READY : SESSION_SYNTAX;
		break;
	case '-':
		r->outcome = SESSION_ABORTED;
		break;
	case 'i':
	case 'I':
		r->outcome = SESSION_INTERRUPTED;
		code = EXIT_INTERRUPTED;
		break;
	case 'd':
		r->outcome = SESSION_DONE;
		if (!to_number(progress + 1, 255, &code))
			return false;
		break;
	default:
		return false;
	}
	r->exit_code = (int)code;
	return true;
}

static void remember_job(struct session *s, int pid)
{
	size_t n = s->n_jobs < JOBS_MAX ? s->n_jobs : JOBS_MAX;

	for (size_t i = 0; i < n; i++)
		if (s->jobs[i] == pid)
			return;
	s->jobs[s->n_jobs++ % JOBS_MAX] = pid;
}

/* Does it begin with what only the report of the command that runs can know? */
static bool is_of_this_command(const struct session *s, const char *word)
{
	uint64_t serial;

	if (s->transport == SESSION_CONTROL)
		return word && strcmp(word, s->key) == 0;
	return to_number(word, UINT64_MAX, &serial) && serial == s->serial;
}

/* A command at a terminal knows the marker that says so: it can claim that, and no success. */
static bool may_claim(const struct session *s, const struct session_result *r)
{
	return !s->frames[0].early ||
	       (r->outcome == SESSION_ABORTED && r->exit_code != 0);
}

static bool parse_record(struct session *s, struct session_result *r)
{
	char *rest = s->record.data, *job, *flags, *progress;
	uint64_t status, job_pid, pid;

	if (!is_of_this_command(s, next_word(&rest)) ||
	    !to_number(next_word(&rest), 255, &status))
		return false;
	r->serial = s->serial;
	progress = next_word(&rest);
	job = next_word(&rest);
	if (!to_number(next_word(&rest), INT32_MAX, &pid))
		return false;
	flags = next_word(&rest);
	if (!rest || !judge(progress, status, r) || !may_claim(s, r))
		return false;

	r->cwd = rest;
	if (to_number(job, INT32_MAX, &job_pid))
		remember_job(s, (int)job_pid);
	(void)snprintf(s->flags, sizeof(s->flags), "%.*s", FLAGS_MAX - 1, flags);
	s->pid = (int)pid;
	s->exit_code = r->exit_code;
	return true;
}

int session_take_record(struct session *s, struct warren_error *err)
{
	struct session_result r = { 0 };

	s->have_record = false;
	if (s->state != STATE_RUNNING)
		return broken(s, "a result of nothing", err);
	if (s->record.len == 0 || !parse_record(s, &r))
		return broken(s, "a result that does not add up", err);
	s->state = STATE_IDLE;
	s->greeted = true;
	s->events->result(s->arg, &r);
	s->record.len = 0;
	return 0;
}

int session_on_bytes(struct session *s, enum session_stream stream, const void *data,
		     size_t n, struct warren_error *err)
{
	/* What an `exec`ed program writes, or a job that outlives the shell. */
	if (s->state != STATE_RUNNING && s->state != STATE_IDLE) {
		if (stream != SESSION_RESULTS)
			session_output(s, stream, data, n);
		return 0;
	}
	if (s->transport == SESSION_CONTROL)
		return control_on_bytes(s, stream, data, n, err);
	if (stream == SESSION_RESULTS)
		return broken(s, "something on a stream that it does not have", err);
	return framed_on_bytes(s, stream, data, n, err);
}

void session_on_eof(struct session *s, enum session_stream stream)
{
	if (stream == SESSION_RESULTS && session_alive(s))
		s->state = STATE_LEAVING;
}

void session_on_exit(struct session *s, int exit_code)
{
	struct session_result r = {
		.serial = s->serial,
		.outcome = SESSION_ENDED,
		.exit_code = exit_code,
	};

	if (s->state == STATE_ENDED)
		return;
	framed_flush(s);
	s->state = STATE_ENDED;
	s->events->result(s->arg, &r);
}
