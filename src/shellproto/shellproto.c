/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shellproto.c - quote commands, parse records, and keep the state
 *
 * script.c has the scripts that the shell runs. After each command, the shell writes a
 * record:
 *
 *	<serial> <$?> <progress> <$!> <$$> <$-> <directory>\0
 *
 * Every field except the first two may be empty. After a marker, the first field is the
 * serial; on the control transport, it is the command's key (control.c). A record counts
 * only for the running command. A record for another command, or an inconsistent one,
 * ends the session.
 */
#include "shellproto/shellproto.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/hex.h"
#include "base/id.h"
#include "base/parse.h"
#include "shellproto/shellproto_internal.h"

#define EXIT_INTERRUPTED 130
#define NOTED            "\n{ @w=d$?;} 2>/dev/null"
#define LONG_TEXT        1024

/*
 * bash reports the line of an error, counted from the beginning of its script. If the
 * count can be changed, it is set so that the first line of a text is 1, and the line
 * before it, if there is one, is 0. An assignment before a command is undone after it; an
 * assignment in a redirection is not.
 */
#define LINE_BASE  (-3)
#define LINE_RESET "2>/dev/null${@k:LINENO=-3:0}"

const char *const session_outcome_names[] = {
	[SHELLPROTO_READY] = "ready",
	[SHELLPROTO_DONE] = "done",
	[SHELLPROTO_SYNTAX] = "syntax error",
	[SHELLPROTO_ABORTED] = "aborted",
	[SHELLPROTO_INTERRUPTED] = "interrupted",
	[SHELLPROTO_ENDED] = "ended",
};

_Static_assert(ARRAY_SIZE(session_outcome_names) == SHELLPROTO_OUTCOME_MAX,
	       "an outcome has no name");

int shellproto_new(enum shellproto_transport transport,
		   const struct shellproto_events *events, void *arg,
		   struct shellproto **ret, struct warren_error *err)
{
	struct shellproto *s = calloc(1, sizeof(*s));
	char id[ID_LEN + 1];

	if (!s)
		return error_errno(err, ENOMEM, "create a session");
	s->transport = transport;
	s->events = events;
	s->arg = arg;
	s->record.max = RECORD_MAX;
	id_make(id);
	shellproto_name(s, id);
	*ret = s;
	return 0;
}

void shellproto_name(struct shellproto *s, const char *id)
{
	(void)snprintf(s->token, sizeof(s->token), "_%.*s", TOKEN_LEN - 1, id);
}

void shellproto_markers(struct shellproto *s,
			void (*make)(void *arg, uint64_t serial,
				     uint8_t ret[SHELLPROTO_MARKER_SIZE]))
{
	s->make_marker = make;
}

/* getrandom(2) of so few bytes does not fail once the kernel has initialised. */
void shellproto_bits(struct shellproto *s, uint8_t ret[SHELLPROTO_MARKER_SIZE])
{
	if (s->make_marker)
		s->make_marker(s->arg, s->serial, ret);
	else if (getrandom(ret, SHELLPROTO_MARKER_SIZE, 0) != SHELLPROTO_MARKER_SIZE)
		abort();
}

void shellproto_resume(struct shellproto *s, uint64_t serial)
{
	s->serial = serial;
	s->state = STATE_RUNNING;
	s->greeted = true;
	if (s->transport == SHELLPROTO_CONTROL)
		control_expect(s);
	else
		framed_expect(s);
}

bool shellproto_is_result(const struct shellproto *s, const char *record, size_t n)
{
	return n > KEY_LEN && memcmp(record, s->key, KEY_LEN) == 0 &&
	       record[KEY_LEN] == ' ';
}

struct shellproto *shellproto_free(struct shellproto *s)
{
	if (s)
		buf_done(&s->record);
	free(s);
	return NULL;
}

void shellproto_freep(struct shellproto **s)
{
	*s = shellproto_free(*s);
}

bool shellproto_running(const struct shellproto *s)
{
	return s && s->state == STATE_RUNNING;
}

bool shellproto_alive(const struct shellproto *s)
{
	return s->state == STATE_IDLE || s->state == STATE_RUNNING;
}

int shellproto_pid(const struct shellproto *s)
{
	return s->pid;
}

/* ----------------------------------------------------------------- input of the shell */

static void shellproto_ask(struct shellproto *s, struct buf *out)
{
	if (s->transport == SHELLPROTO_CONTROL)
		control_ask(s, out);
	else if (s->transport == SHELLPROTO_TERMINAL)
		terminal_ask(s, out);
	else
		framed_ask(s, out);
	s->state = STATE_RUNNING;
}

bool shellproto_is_known(const struct shellproto *s)
{
	return strchr(s->flags, SCRIPT_KNOWN);
}

/*
 * Remove a DEBUG trap first, because it applies only to the user's commands; the output
 * that it writes during the removal is dropped.
 */
void shellproto_ask_begin(const struct shellproto *s, struct buf *out)
{
	buf_puts(out, ";{ ");
	if (s->has_debug)
		script_add(out, s,
			   "@e=$? @D=$(\"$@k\" trap -p DEBUG);"
			   "\"$@k\" trap - DEBUG;@s() { return $@e; };@s&&:;");
}

void shellproto_ask_end(struct shellproto *s, struct buf *out)
{
	bool bash = strchr(s->flags, SCRIPT_READS);

	buf_puts(out, s->has_debug ? ";} >/dev/null " : ";} ");
	script_add(out, s, bash ? LINE_RESET "\n" : "2>/dev/null\n");
	s->line_reset = bash;
}

static const char *const scripts[] = {
	[SHELLPROTO_CONTROL] = script_control,
	[SHELLPROTO_FRAMED] = script_framed,
	[SHELLPROTO_TERMINAL] = script_terminal,
};

int shellproto_start(struct shellproto *s, struct buf *out, struct warren_error *err)
{
	if (s->state != STATE_NEW)
		return error_set(err, EBUSY, "the session was already started");
	script_add(out, s, scripts[s->transport]);
	script_add(out, s, script_common);
	if (s->transport == SHELLPROTO_TERMINAL) {
		script_add(out, s, script_terminal_end);
		terminal_begin(s, out);
	}
	script_add(out, s, "\"$@k\" true");
	shellproto_ask(s, out);
	return out->failed ? error_errno(err, ENOMEM, "start a session") : 0;
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

/* Add a function that sets $? to the status of the last command, for the next one. */
static void add_status(struct shellproto *s, struct buf *out)
{
	/* Under -e, a failing function is too risky, and $? is 0 in nearly all cases. */
	if (s->exit_code == 0 || strchr(s->flags, 'e'))
		return;
	script_add(out, s, "@s() { return ");
	buf_printf(out, "%d; };", s->exit_code);
	script_add(out, s, "@s&&:;");
}

/*
 * Add a line before the text, if necessary: options that show Warren's own lines (-v, -x)
 * are set again within the eval, and so is a DEBUG trap.
 */
static void add_prelude(struct shellproto *s, struct buf *out)
{
	bool shows = strpbrk(s->flags, "vx");

	if (!shows && !s->has_debug)
		return;
	buf_puts(out, "{ ");
	if (shows) {
		script_add(out, s, "\"$@k\" set -");
		buf_printf(out, "%s%s;", strchr(s->flags, 'v') ? "v" : "",
			   strchr(s->flags, 'x') ? "x" : "");
	}
	if (s->has_debug)
		script_add(out, s, "\"$@k\" eval \"$@D\";");
	add_status(s, out);
	buf_puts(out, "} >/dev/null 2>&1\n");
}

/*
 * Escape as for $'...', on one line and in ASCII, so that each byte is a character,
 * whatever the locale. printf(3) is too slow, because a text may consist only of such
 * bytes.
 */
static void add_escaped(struct buf *out, const char *text, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t plain = i;
		unsigned char c;

		while (plain < n && (unsigned char)text[plain] < 0x80 &&
		       text[plain] != '\'' && text[plain] != '\\' && text[plain] != '\n')
			plain++;
		buf_add(out, text + i, plain - i);
		i = plain;
		if (i == n)
			break;
		c = (unsigned char)text[i++];
		if (c < 0x80)
			buf_add(out, (const char[]){ '\\', (char)(c == '\n' ? 'n' : c) },
				2);
		else
			buf_add(out,
				(const char[]){ '\\', 'x', hex_digit(c >> 4),
						hex_digit(c) },
				4);
	}
}

/*
 * bash reads its script from a pipe with one read(2) per byte, which takes long if system
 * calls are slow. `read -N` reads larger pieces, so it is used for a long text. It is not
 * used under `set -a`, which would export the text to child processes.
 */
static bool is_worth_reading(const struct shellproto *s, size_t n)
{
	return s->transport == SHELLPROTO_FRAMED && n > LONG_TEXT &&
	       strchr(s->flags, SCRIPT_READS) && !strchr(s->flags, 'a');
}

static void shellproto_add_lines(struct shellproto *s, struct buf *out, bool prelude,
				 unsigned own)
{
	if (!s->line_reset && strchr(s->flags, SCRIPT_READS)) {
		script_add(out, s, "\n{ :;} " LINE_RESET "\n");
		s->line_reset = true;
	}
	/*
	 * There is at least one: after some syntax errors, bash uses the next word as an
	 * argument.
	 */
	for (int i = LINE_BASE + (int)own + prelude; i < 0; i++)
		buf_puts(out, "\n");
}

/*
 * Under -e, a text may end with a status that is no failure (`! true`), but eval's status
 * would be one. So its status is recorded inside the eval, by a line that only a
 * here-document in the text could affect.
 */
static bool is_noted_within(const struct shellproto *s, const char *text, size_t n)
{
	bool may = strchr(s->flags, 'e') || memmem(text, n, "set -", 5) ||
		   memmem(text, n, "errexit", 7);

	return may && n > 0 && !memmem(text, n, "<<", 2) && text[n - 1] != '\\';
}

static void add_beginning(struct shellproto *s, struct buf *out, bool prelude)
{
	/* If the shell is unknown, a separate command records the beginning. */
	if (!shellproto_is_known(s))
		script_add(out, s, "@w=-;");
	if (!prelude)
		add_status(s, out);
}

/*
 * If a command dies of SIGINT, bash prints a newline, like at a terminal, unless the
 * command is in a loop. So run the text in a loop of one round, if it has no word that
 * could notice this.
 */
static bool is_in_loop(const struct shellproto *s, const char *text, size_t n)
{
	return shellproto_is_known(s) && strchr(s->flags, SCRIPT_READS) &&
	       s->transport != SHELLPROTO_TERMINAL && !memmem(text, n, "break", 5) &&
	       !memmem(text, n, "continue", 8);
}

static void add_eval_begin(struct shellproto *s, struct buf *out, bool loop)
{
	if (loop)
		script_add(out, s, "for @x in 1;do ");
	else
		buf_puts(out, s->transport == SHELLPROTO_CONTROL ? "{ " : "");
}

static void add_eval(struct shellproto *s, struct buf *out)
{
	script_add(out, s, "\"$@k\" eval \"$@t");
	if (s->transport == SHELLPROTO_TERMINAL)
		script_add(out, s, "$@u");
	buf_puts(out, "\"");
}

/*
 * Close Warren's descriptors in the shell while the text runs, and record that it has
 * begun. Each of the two descriptors for results is moved separately, because a bash that
 * does not find the first one again would not look for the second.
 */
static void add_redirections(struct shellproto *s, struct buf *out, bool loop)
{
	script_add(out, s, shellproto_is_known(s) ? " 7>&\"${@w:=7}\" 7>&-" : " 7>&-");
	if (s->transport != SHELLPROTO_CONTROL)
		buf_puts(out, s->transport == SHELLPROTO_FRAMED ? " 8>&- 6<&-" : " 8>&-");
	buf_puts(out, loop ? ";done" : s->transport == SHELLPROTO_CONTROL ? ";}" : "");
	if (s->transport == SHELLPROTO_CONTROL)
		buf_puts(out, " 8>&-");
}

static void feed_read(struct shellproto *s, const struct buf *text, bool prelude,
		      struct buf *out)
{
	AUTO_BUF struct buf body = BUF_INIT(SHELLPROTO_OUT_MAX);

	add_escaped(&body, text->data, text->len);
	shellproto_add_lines(s, out, prelude, 1);
	script_add(out, s, "\"$@k\" read -ru6 -N");
	buf_printf(out, "%zu", body.len);
	script_add(out, s, " @t\n");
	buf_add(out, body.data, body.len);
	script_add(out, s, "\"$@k\" eval \"@t=\\$'$@t'\";");
	out->failed |= body.failed;
}

/* Assign the text to @t; if all variables are exported, pass it directly to eval. */
static void feed_assigned(struct shellproto *s, const struct buf *text, bool prelude,
			  struct buf *out)
{
	bool bash = strchr(s->flags, SCRIPT_READS), exported = strchr(s->flags, 'a');

	shellproto_add_lines(s, out, prelude, 0);
	if (exported && !bash)
		return;
	script_add(out, s, bash ? "@t=$'" : "@t='");
	if (bash)
		add_escaped(out, text->data ? text->data : "", text->len);
	else
		add_quoted(out, text->data ? text->data : "", text->len);
	buf_puts(out, "';");
	if (exported)
		script_add(out, s, "\"$@k\" export -n @t;");
}

/* Are more parentheses opened than closed, by a simple count? */
static bool is_open(const char *text, size_t n)
{
	size_t open = 0, closed = 0;

	for (size_t i = 0; i < n; i++) {
		open += text[i] == '(';
		closed += text[i] == ')';
	}
	return open > closed;
}

/*
 * Must a subshell first parse the whole text? This is done for several lines at a
 * terminal, because its clients expect it, unless the text itself makes later lines
 * parsable. It is also done for a substitution that may not end, because bash 5.2 would
 * corrupt its memory.
 */
static bool is_tried_first(const struct shellproto *s, const char *text, size_t n)
{
	if (!shellproto_is_known(s) || !strchr(s->flags, SCRIPT_READS))
		return false;
	if (memmem(text, n, "$(", 2) && is_open(text, n))
		return true;
	return s->transport == SHELLPROTO_TERMINAL && memchr(text, '\n', n) &&
	       !memmem(text, n, "extglob", 7);
}

static void feed_quoted(struct shellproto *s, const char *text, size_t n, struct buf *out)
{
	AUTO_BUF struct buf all = BUF_INIT(SHELLPROTO_COMMAND_MAX + 1024);
	bool literal = strchr(s->flags, 'a') && !strchr(s->flags, SCRIPT_READS), prelude,
	     tried = is_tried_first(s, text, n), loop = is_in_loop(s, text, n);

	if (memmem(text, n, "DEBUG", 5) && shellproto_is_known(s) &&
	    strchr(s->flags, SCRIPT_READS))
		s->has_debug = true;
	add_prelude(s, &all);
	prelude = all.len > 0;
	buf_add(&all, text, n);
	if (is_noted_within(s, text, n))
		script_add(&all, s, NOTED);
	if (is_worth_reading(s, n))
		feed_read(s, &all, prelude, out);
	else
		feed_assigned(s, &all, prelude, out);
	if (tried)
		script_add(out, s, "if @C;then ");
	add_beginning(s, out, prelude);
	add_eval_begin(s, out, loop);
	if (literal) {
		script_add(out, s, "\"$@k\" eval '");
		add_quoted(out, all.data ? all.data : "", all.len);
		buf_puts(out, "'");
	} else {
		add_eval(s, out);
	}
	add_redirections(s, out, loop);
	if (tried)
		script_add(out, s, ";else @w=s;fi");
	out->failed |= all.failed;
}

/* Return the end of the word of @text that begins at @at; a space ends it. */
static size_t word_end(const char *text, size_t n, size_t at)
{
	while (at < n && !strchr(" \t", text[at]))
		at++;
	return at;
}

static size_t skip_blanks(const char *text, size_t n, size_t at)
{
	while (at < n && strchr(" \t", text[at]))
		at++;
	return at;
}

/*
 * If the last line of @text replaces the shell by a bash (`exec bash`, `exec -l /bin/bash
 * -l`), return the end of the bash's name, otherwise 0.
 */
static size_t shellproto_find_exec(const char *text, size_t n)
{
	size_t at, end, name;

	while (n > 0 && strchr(" \t\n", text[n - 1]))
		n--;
	at = n;
	while (at > 0 && !strchr("\n;&|", text[at - 1]))
		at--;
	at = skip_blanks(text, n, at);
	if (n - at < 5 || memcmp(text + at, "exec", 4) != 0 ||
	    !strchr(" \t", text[at + 4]))
		return 0;
	at = skip_blanks(text, n, at + 4);
	while (at < n && text[at] == '-')
		at = skip_blanks(text, n, word_end(text, n, at));
	end = word_end(text, n, at);
	for (name = end; name > at && text[name - 1] != '/'; name--)
		;
	if (end - name != 4 || memcmp(text + name, "bash", 4) != 0)
		return 0;
	/*
	 * Only options may follow: a bash with a script or a text is not an interactive
	 * shell.
	 */
	for (at = skip_blanks(text, n, end); at < n;
	     at = skip_blanks(text, n, word_end(text, n, at)))
		if (text[at] != '-' ||
		    (at + 1 < n && text[at + 1] != '-' &&
		     memchr(text + at, 'c', word_end(text, n, at) - at)))
			return 0;
	return end;
}

/*
 * The bash that replaces the shell does not know the protocol. Its terminal already has
 * the input that sets it up, and the request to report the end of the command.
 */
static void type_ahead(struct shellproto *s, struct buf *out)
{
	script_add(out, s, script_terminal);
	script_add(out, s, "set +m\n");
	script_add(out, s, script_common);
	script_add(out, s, script_terminal_end);
	script_add(out, s, "{ @e=0 @w=d0 @a='");
	buf_add(out, s->marker, HALF_LEN);
	script_add(out, s, "' @b=");
	buf_puts(out, s->marker + HALF_LEN);
	script_add(out, s, " @n=");
	buf_printf(out, "%ju", (uintmax_t)s->serial);
	script_add(out, s, ";\"$@k\" eval \"$@r\";} 2>/dev/null\n");
}

static void feed_typed(struct shellproto *s, const char *text, size_t n, struct buf *out)
{
	AUTO_BUF struct buf prelude = BUF_INIT(1024), noted = BUF_INIT(256);
	bool tried = is_tried_first(s, text, n);
	size_t exec = shellproto_find_exec(text, n);

	add_prelude(s, &prelude);
	script_add(out, s, "\n{ @t= @u=;} 2>/dev/null\n");
	terminal_type(s, out, prelude.data ? prelude.data : "", prelude.len);
	terminal_type(s, out, text, exec);
	if (exec > 0) /* otherwise, line editing would draw the typed text */
		terminal_type(s, out, " --noediting", strlen(" --noediting"));
	terminal_type(s, out, text + exec, n - exec);
	if (is_noted_within(s, text, n)) {
		script_add(&noted, s, NOTED);
		terminal_type(s, out, noted.data ? noted.data : "", noted.len);
	}
	terminal_begin(s, out);
	if (tried)
		script_add(out, s, "if @C;then ");
	add_beginning(s, out, prelude.len > 0);
	add_eval(s, out);
	add_redirections(s, out, false);
	if (tried)
		script_add(out, s, ";else @w=s;fi");
	out->failed |= prelude.failed || noted.failed;
}

int shellproto_feed(struct shellproto *s, const char *text, size_t n, struct buf *out,
		    uint64_t *ret_serial, struct warren_error *err)
{
	if (s->state == STATE_RUNNING)
		return error_set(err, EBUSY, "the session is running a command");
	if (s->state != STATE_IDLE)
		return error_set(err, EPIPE, "the session has ended");
	if (n > SHELLPROTO_COMMAND_MAX)
		return error_set(err, E2BIG,
				 "a command may have at most %u bytes; this one has %zu",
				 SHELLPROTO_COMMAND_MAX, n);
	if (memchr(text, '\0', n))
		return error_set(err, EINVAL, "a command cannot contain a NUL byte");

	s->serial++;
	if (s->transport == SHELLPROTO_TERMINAL)
		feed_typed(s, text, n, out);
	else
		feed_quoted(s, text, n, out);
	shellproto_ask(s, out);
	if (s->transport == SHELLPROTO_TERMINAL && shellproto_find_exec(text, n) > 0)
		type_ahead(s, out);
	*ret_serial = s->serial;
	return out->failed ? error_errno(err, ENOMEM, "quote a command") : 0;
}

/* ---------------------------------------------------------------- output of the shell */

void shellproto_output(struct shellproto *s, enum shellproto_stream stream,
		       const void *data, size_t n)
{
	/* Typed text and prompts between commands are not output. */
	if (s->transport == SHELLPROTO_TERMINAL &&
	    (s->state == STATE_IDLE ||
	     (s->state == STATE_RUNNING && !s->frames[0].begun)))
		return;
	if (s->greeted && n > 0)
		s->events->output(s->arg, stream, data, n);
}

/* Record that the session cannot be used any more. */
static int shellproto_broken(struct shellproto *s, const char *what,
			     struct warren_error *err)
{
	s->state = STATE_LEAVING;
	return error_set(err, EPROTO, "the session's shell sent %s", what);
}

ssize_t shellproto_collect(struct shellproto *s, const char *data, size_t n,
			   struct warren_error *err)
{
	const char *end = memchr(data, '\0', n);
	size_t used = end ? (size_t)(end - data) : n;

	buf_add(&s->record, data, used);
	if (s->record.failed)
		return shellproto_broken(s, "a result that is too long", err);
	s->have_record = end;
	return (ssize_t)(end ? used + 1 : used);
}

/* Get the next word: it ends at the first space, and may be empty. */
static char *shellproto_next_word(char **rest)
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

static bool shellproto_judge(const char *progress, uint64_t status, bool early,
			     struct shellproto_result *r)
{
	uint64_t code = status;

	switch (*progress) {
	case '\0':
		r->outcome = r->serial == 0 ? SHELLPROTO_READY : SHELLPROTO_SYNTAX;
		break;
	case '-':
		/* At a terminal, the prompt reports a command that an error stopped. */
		r->outcome = early ? SHELLPROTO_ABORTED : SHELLPROTO_DONE;
		break;
	case 'i':
	case 'I':
		r->outcome = SHELLPROTO_INTERRUPTED;
		code = EXIT_INTERRUPTED;
		break;
	case 'd':
		r->outcome = SHELLPROTO_DONE;
		if (!to_number(progress + 1, 255, &code))
			return false;
		break;
	default:
		return false;
	}
	r->exit_code = (int)code;
	return true;
}

static void remember_job(struct shellproto *s, int pid)
{
	size_t n = s->n_jobs < JOBS_MAX ? s->n_jobs : JOBS_MAX;

	for (size_t i = 0; i < n; i++)
		if (s->jobs[i] == pid)
			return;
	s->jobs[s->n_jobs++ % JOBS_MAX] = pid;
}

/* Does the word contain the secret of the running command? */
static bool is_of_this_command(const struct shellproto *s, const char *word)
{
	uint64_t serial;

	if (s->transport == SHELLPROTO_CONTROL)
		return word && strcmp(word, s->key) == 0;
	return to_number(word, UINT64_MAX, &serial) && serial == s->serial;
}

/*
 * May the command make this claim? A command at a terminal can read the first marker, so
 * it can claim that an error stopped it, but it cannot claim success.
 */
static bool may_claim(const struct shellproto *s, const struct shellproto_result *r)
{
	return !s->frames[0].early ||
	       (r->outcome == SHELLPROTO_ABORTED && r->exit_code != 0);
}

static bool parse_record(struct shellproto *s, struct shellproto_result *r)
{
	char *rest = s->record.data, *job, *flags, *progress;
	uint64_t status, job_pid, pid;

	if (!is_of_this_command(s, shellproto_next_word(&rest)) ||
	    !to_number(shellproto_next_word(&rest), 255, &status))
		return false;
	r->serial = s->serial;
	progress = shellproto_next_word(&rest);
	job = shellproto_next_word(&rest);
	if (!to_number(shellproto_next_word(&rest), INT32_MAX, &pid))
		return false;
	flags = shellproto_next_word(&rest);
	if (!rest || !shellproto_judge(progress, status, s->frames[0].early, r) ||
	    !may_claim(s, r))
		return false;

	r->cwd = rest;
	if (to_number(job, INT32_MAX, &job_pid))
		remember_job(s, (int)job_pid);
	(void)snprintf(s->flags, sizeof(s->flags), "%.*s", FLAGS_MAX - 1, flags);
	s->pid = (int)pid;
	s->exit_code = r->exit_code;
	return true;
}

int shellproto_take_record(struct shellproto *s, struct warren_error *err)
{
	struct shellproto_result r = { 0 };

	s->have_record = false;
	if (s->state != STATE_RUNNING)
		return shellproto_broken(s, "a result for no command", err);
	if (s->record.len == 0 || !parse_record(s, &r))
		return shellproto_broken(s, "an inconsistent result", err);
	s->state = STATE_IDLE;
	s->greeted = true;
	s->events->result(s->arg, &r);
	s->record.len = 0;
	return 0;
}

int shellproto_on_bytes(struct shellproto *s, enum shellproto_stream stream,
			const void *data, size_t n, struct warren_error *err)
{
	/* This is output of a program that replaced the shell with `exec`, or of a job
	 * that outlives the shell. */
	if (s->state != STATE_RUNNING && s->state != STATE_IDLE) {
		if (stream != SHELLPROTO_RESULTS)
			shellproto_output(s, stream, data, n);
		return 0;
	}
	if (s->transport == SHELLPROTO_CONTROL)
		return control_on_bytes(s, stream, data, n, err);
	if (stream == SHELLPROTO_RESULTS)
		return shellproto_broken(s, "data on a stream that it does not have",
					 err);
	return framed_on_bytes(s, stream, data, n, err);
}

void shellproto_on_eof(struct shellproto *s, enum shellproto_stream stream)
{
	if (stream == SHELLPROTO_RESULTS && shellproto_alive(s))
		s->state = STATE_LEAVING;
}

void shellproto_on_exit(struct shellproto *s, int exit_code)
{
	struct shellproto_result r = {
		.serial = s->serial,
		.outcome = SHELLPROTO_ENDED,
		.exit_code = exit_code,
	};

	if (s->state == STATE_ENDED)
		return;
	framed_flush(s);
	s->state = STATE_ENDED;
	s->events->result(s->arg, &r);
}
