/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - handlers: sessions, which are shells on terminals */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/swerex/internal.h"
#include "api/swerex/pyrepr.h"
#include "config/config.h"
#include "service/session/expect.h"
#include "service/session/session_terminal.h"

/* The prompt of a SWE-ReX server; Warren's prompt differs. */
#define PROMPT "SHELLPS1PREFIX"

#define INTERRUPT_MS    200
#define INTERRUPT_TRIES 3
#define STARTUP_MS      1000
#define JOURNAL         (16U << 20) /* bytes that a command may write before they are read */
#define TOLD_SMALL      (512U << 10) /* size up to which an answer is always reported */

enum check {
	CHECK_RAISE,
	CHECK_SILENT,
	CHECK_IGNORE,
};

static struct session_terminal *find_console(struct job *job, struct sandbox *sandbox)
{
	const char *name = field_text(job->body, "session", "default");
	struct session_terminal *c = session_terminal_find(sandbox, name);
	AUTO_BUF struct buf text = BUF_INIT(4096);

	if (c)
		return c;
	buf_puts(&text, "session ");
	python_repr(&text, name, strlen(name));
	buf_puts(&text, " does not exist");
	job_raise(job, SWEREX "SessionDoesNotExistError", text.data, text.len);
	return NULL;
}

/*
 * The act has ended. Return whether it was refused before it started; then the job was
 * already answered.
 */
static bool was_refused(struct job *job, const struct session_terminal_result *r)
{
	job->session_terminal = NULL;
	if (r->outcome != CONSOLE_REFUSED)
		return false;
	job_raise(job, "builtins.RuntimeError", r->screen->data, r->screen->len);
	return true;
}

/* ------------------------------------------------------------------ observations */

/*
 * The result of an act, and its encoding. A large result is encoded by another thread,
 * which only reads the job's body.
 */
struct telling {
	struct job *job;
	struct reply *reply; /* its first bytes are the readable form of the screen */
	struct buf screen;
	uint64_t cut, dropped;
	int exit_code;
	const char *expected;
	void (*write)(struct telling *t);
};

static void tell_make(void *ctx)
{
	struct telling *t = ctx;

	session_terminal_plain(&t->reply->raw[0], &t->screen, t->cut);
	buf_done(&t->screen);
	t->write(t);
}

static void tell_give(void *ctx)
{
	struct telling *t = ctx;
	struct reply *r = t->reply;
	size_t n = reply_size(r);

	/*
	 * The memory of the answer is charged to the screen, but an exception may also
	 * contain a long command.
	 */
	if (n > TOLD_SMALL && n > r->lease.n && !reply_charge(r, t->job->tenant, n)) {
		job_crowded(t->job, "the command has ended, but its result is not known");
		reply_unref(r);
	} else {
		if (n > REPLY_SMALL && n > r->lease.n)
			(void)fair_quota_force(r->account, t->job->tenant, n, &r->lease);
		job_reply(t->job, r);
	}
	free(t);
}

static const char *expected_name(const struct job *job,
				 const struct session_terminal_result *r)
{
	const json_t *list = json_object_get(job->body, "expect");

	return r->expected < 0
		       ? PROMPT
		       : json_string_value(json_array_get(list, (size_t)r->expected));
}

static void session_tell(struct job *job, const struct session_terminal_result *r,
			 int code, void (*write)(struct telling *t))
{
	struct telling *t = malloc(sizeof(*t));
	struct reply *reply = reply_new(job->sx);
	size_t n = r->screen->len;

	if (t && reply) {
		*t = (struct telling){ .job = job,
				       .reply = reply,
				       .screen = *r->screen,
				       .cut = r->cut,
				       .dropped = r->dropped,
				       .exit_code = code,
				       .expected = expected_name(job, r),
				       .write = write };
		*r->screen = (struct buf){ 0 };
		reply->account = service_screens(job->sx->service);
		reply->lease = *r->lease;
		*r->lease = (struct fair_quota_lease){ 0 };
		if (n > REPLY_SMALL &&
		    loop_work(service_loop(job->sx->service), job->tenant, tell_make,
			      tell_give, t) == 0)
			return;
		if (n <= REPLY_SMALL) {
			tell_make(t);
			tell_give(t);
			return;
		}
		buf_done(&t->screen);
	}
	reply_unref(reply);
	free(t);
	job_raisef(job, "builtins.MemoryError", "not enough memory for the answer");
}

static void session_put_output(struct telling *t, const char *name, size_t from, size_t n)
{
	buf_printf(&t->reply->json, "\"%s\":\"", name);
	reply_put(t->reply, REPLY_TEXT, 0, from, n);
	buf_puts(&t->reply->json, "\"");
}

static void session_observe(struct telling *t, const char *shown, size_t n, int code)
{
	AUTO_BUF struct buf why = BUF_INIT(256);
	struct json j = { .out = &t->reply->json, .comma = true };
	const struct buf *all = &t->reply->raw[0];

	if (t->dropped)
		buf_printf(&why,
			   "%ju bytes of output were dropped: the output exceeded its "
			   "limit",
			   (uintmax_t)t->dropped);
	t->reply->status = 200;
	buf_puts(&t->reply->json, "{");
	session_put_output(t, "output", all->data ? (size_t)(shown - all->data) : 0, n);
	if (code < 0)
		json_nil(&j, "exit_code");
	else
		json_int(&j, "exit_code", code);
	json_str(&j, "failure_reason", why.data ? why.data : "");
	json_str(&j, "expect_string", t->expected);
	json_str(&j, "session_type", "bash");
	json_close(&j, '}');
}

static void session_put_command(struct buf *out, const struct job *job)
{
	python_repr(out, field_text(job->body, "command", ""),
		    field_size(job->body, "command"));
}

static void write_ended(struct telling *t)
{
	AUTO_BUF struct buf text = BUF_INIT(4096);

	buf_puts(&text, "End Of File (EOF): the session's shell has ended");
	if (t->exit_code >= 0)
		buf_printf(&text, " with exit code %d", t->exit_code);
	buf_puts(&text, ". Close the session and create a new one. Its output:\n");
	raise_open(t->reply);
	raise_put(t->reply, &text);
	reply_put(t->reply, REPLY_TEXT, 0, 0, t->reply->raw[0].len);
	raise_class(t->reply, "pexpect.exceptions.EOF");
	raise_close(t->reply);
}

/* Report the output so far; the next interrupt reports it again. */
static void raise_with_output(struct telling *t, struct buf *text)
{
	struct reply *r = t->reply;

	raise_put_so_far(text, r->raw[0].data, r->raw[0].len);
	raise_open(r);
	raise_put(r, text);
	raise_class(r, SWEREX "CommandTimeoutError");
	session_put_output(t, "output", 0, r->raw[0].len);
	raise_close(r);
}

static void session_write_timeout(struct telling *t)
{
	AUTO_BUF struct buf text = BUF_INIT(ANSWER_MAX);

	buf_puts(&text, "timeout after ");
	python_float(&text, json_number_value(json_object_get(t->job->body, "timeout")));
	buf_puts(&text, " seconds while running command ");
	session_put_command(&text, t->job);
	raise_with_output(t, &text);
}

static void write_syntax(struct telling *t)
{
	AUTO_BUF struct buf text = BUF_INIT(ANSWER_MAX);
	struct reply *r = t->reply;

	buf_puts(&text, "Error (exit code 2) while checking bash command \n");
	session_put_command(&text, t->job);
	buf_puts(&text, "\n---- Stderr ----\n");
	raise_open(r);
	raise_put(r, &text);
	reply_put(r, REPLY_TEXT, 0, 0, r->raw[0].len);
	buf_puts(&r->json, "\\n---- Stdout ----\\n");
	raise_class(r, SWEREX "BashIncorrectSyntaxError");
	buf_puts(&r->json, "\"bash_stdout\":\"\",");
	session_put_output(t, "bash_stderr", 0, r->raw[0].len);
	raise_close(r);
}

static void write_code(struct telling *t)
{
	AUTO_BUF struct buf text = BUF_INIT(ANSWER_MAX);
	const char *prefix = field_text(t->job->body, "error_msg", "");
	struct reply *r = t->reply;

	if (*prefix)
		buf_printf(&text, "%s: ", prefix);
	buf_puts(&text, "Command ");
	session_put_command(&text, t->job);
	buf_printf(&text, " failed with exit code %d. Here is the output:\n",
		   t->exit_code);
	raise_open(r);
	raise_put(r, &text);
	reply_put(r, REPLY_REPR, 0, 0, r->raw[0].len);
	raise_class(r, SWEREX "NonZeroExitCodeError");
	raise_close(r);
}

/* ---------------------------------------------------------------------- commands */

static enum check read_check(const json_t *body)
{
	const char *word = field_text(body, "check", "raise");

	return strcmp(word, "silent") == 0   ? CHECK_SILENT
	       : strcmp(word, "ignore") == 0 ? CHECK_IGNORE
					     : CHECK_RAISE;
}

static void session_write_result(struct telling *t)
{
	session_observe(t, t->reply->raw[0].data, t->reply->raw[0].len, t->exit_code);
}

static void on_command(void *ctx, const struct session_terminal_result *r)
{
	struct job *job = ctx;
	enum check check = read_check(job->body);
	int code = check == CHECK_IGNORE ? -1 : r->exit_code;

	if (was_refused(job, r))
		return;
	if (r->outcome == CONSOLE_TIMED_OUT)
		session_tell(job, r, -1, session_write_timeout);
	else if (r->outcome == CONSOLE_ENDED)
		session_tell(job, r, r->exit_code, write_ended);
	else if (r->outcome == CONSOLE_SYNTAX)
		session_tell(job, r, -1, write_syntax);
	else if (check == CHECK_RAISE && code < 0)
		job_raisef(job, SWEREX "NoExitCodeError",
			   "timeout while getting exit code");
	else if (check == CHECK_RAISE && code != 0)
		session_tell(job, r, code, write_code);
	else
		session_tell(job, r, code, session_write_result);
}

void job_withdraw(struct job *job)
{
	session_terminal_withdraw(job->session_terminal, job);
}

/* Remove an echo: a program may repeat what was typed. */
static void without_echo(const struct job *job, const char **text, size_t *n)
{
	const char *command = field_text(job->body, "command", "");
	size_t len = field_size(job->body, "command");

	python_strip(text, n);
	if (len > 0 && *n >= len && memcmp(*text, command, len) == 0) {
		*text += len;
		*n -= len;
	}
	python_strip(text, n);
}

static void write_interaction(struct telling *t)
{
	const char *text = t->reply->raw[0].data;
	size_t n = t->reply->raw[0].len;

	if (!field_bool(t->job->body, "is_interactive_quit"))
		without_echo(t->job, &text, &n);
	session_observe(t, text, n, 0);
}

static void on_interaction(void *ctx, const struct session_terminal_result *r)
{
	struct job *job = ctx;

	if (was_refused(job, r))
		return;
	if (r->outcome == CONSOLE_TIMED_OUT)
		session_tell(job, r, -1, session_write_timeout);
	else if (r->outcome == CONSOLE_ENDED)
		session_tell(job, r, r->exit_code, write_ended);
	else
		session_tell(job, r, 0, write_interaction);
}

static void write_interrupted(struct telling *t)
{
	const char *text = t->reply->raw[0].data;
	size_t n = t->reply->raw[0].len;

	python_strip(&text, &n);
	session_observe(t, text, n, 0);
}

static void on_interrupt(void *ctx, const struct session_terminal_result *r)
{
	struct job *job = ctx;

	if (was_refused(job, r))
		return;
	if (r->outcome == CONSOLE_TIMED_OUT)
		job_raisef(job, "pexpect.exceptions.TIMEOUT",
			   "Failed to interrupt session");
	else if (r->outcome == CONSOLE_ENDED)
		session_tell(job, r, r->exit_code, write_ended);
	else
		session_tell(job, r, 0, write_interrupted);
}

static void swerex_session_interrupt(struct job *job, struct session_terminal *c,
				     struct session_terminal_act *act)
{
	const json_t *tries = json_object_get(job->body, "n_retry");

	act->kind = CONSOLE_INTERRUPT;
	act->tries = tries ? (unsigned)json_integer_value(tries) : INTERRUPT_TRIES;
	if (act->timeout_ms < 0)
		act->timeout_ms = INTERRUPT_MS;
	session_terminal_do(c, act, on_interrupt, job);
}

static void act_on(struct job *job, struct session_terminal *c,
		   struct session_terminal_act *act)
{
	bool interactive = field_bool(job->body, "is_interactive_command");
	bool quits = field_bool(job->body, "is_interactive_quit");

	act->text = field_text(job->body, "command", "");
	act->size = field_size(job->body, "command");
	job->session_terminal = c;
	if (strcmp(field_text(job->body, "action_type", "bash"), "bash") != 0) {
		swerex_session_interrupt(job, c, act);
	} else if (!json_object_get(job->body, "command")) {
		job_raisef(job, "builtins.ValueError", "a bash action needs a command");
	} else if (memchr(act->text, '\0', act->size)) {
		job_raisef(job, "builtins.ValueError", "embedded null byte");
	} else if (interactive && quits) {
		job_raisef(job, "builtins.AssertionError",
			   "a command cannot both begin and end an interaction");
	} else if (interactive || quits) {
		act->kind = CONSOLE_TYPE;
		session_terminal_do(c, act, on_interaction, job);
	} else {
		act->wants_code = read_check(job->body) != CHECK_IGNORE;
		session_terminal_do(c, act, on_command, job);
	}
}

void swerex_run_in_session(struct job *job, struct sandbox *sandbox)
{
	struct session_terminal *c = find_console(job, sandbox);
	struct session_terminal_act act = { .timeout_ms =
						    field_ms(job->body, "timeout") };
	struct expect *compiled;
	const char **expect;

	if (!c)
		return;
	expect = field_texts(json_object_get(job->body, "expect"), &act.n_expect);
	compiled = expect ? expect_new(expect, act.n_expect) : NULL;
	if (!compiled) {
		job_raisef(job, "builtins.ValueError",
			   "at most %d patterns can be expected, and their regular "
			   "expressions may have at most %d steps",
			   EXPECT_MAX, EXPECT_COST);
	} else {
		compiled = expect_free(compiled);
		act.expect = expect;
		act_on(job, c, &act);
	}
	free(expect);
}

/* ------------------------------------------------------- opening and closing sessions */

static void write_created(struct telling *t)
{
	t->reply->status = 200;
	buf_puts(&t->reply->json, "{");
	session_put_output(t, "output", 0, t->reply->raw[0].len);
	buf_puts(&t->reply->json, ",\"session_type\":\"bash\"}");
}

static void write_source_timeout(struct telling *t)
{
	AUTO_BUF struct buf text = BUF_INIT(65536);

	buf_puts(&text, "timeout while the session's files were sourced");
	raise_with_output(t, &text);
}

static void on_sourced(void *ctx, const struct session_terminal_result *r)
{
	struct job *job = ctx;

	if (was_refused(job, r))
		return;
	if (r->outcome == CONSOLE_TIMED_OUT)
		session_tell(job, r, -1, write_source_timeout);
	else if (r->outcome == CONSOLE_ENDED)
		session_tell(job, r, r->exit_code, write_ended);
	else
		session_tell(job, r, 0, write_created);
}

static void session_answer_created(struct job *job)
{
	AUTO_BUF struct buf out = BUF_INIT(64);

	buf_puts(&out, "{\"output\":\"\",\"session_type\":\"bash\"}");
	job_answer(job, 200, &out);
}

static void session_on_created(void *ctx, struct session_terminal *c,
			       const struct warren_error *err)
{
	struct job *job = ctx;
	const json_t *sources = json_object_get(job->body, "startup_source"), *path;
	AUTO_BUF struct buf text = BUF_INIT(1U << 20);
	struct session_terminal_act act = { .timeout_ms = field_ms(job->body,
								   "startup_timeout") };
	size_t i;

	if (!c && err->code == EEXIST) {
		job_raisef(job, SWEREX "SessionExistsError", "%s", err->msg);
		return;
	}
	if (!c && err->code == ENOENT) {
		job_raisef(job, "builtins.FileNotFoundError",
			   "the image has no bash, which a session needs");
		return;
	}
	if (!c) {
		job_fail(job, err, NULL);
		return;
	}
	if (json_array_size(sources) == 0) {
		session_answer_created(job);
		return;
	}
	json_array_foreach(sources, i, path)
		buf_printf(&text, "%ssource %s", i ? " ; " : "", json_string_value(path));
	if (act.timeout_ms < 0)
		act.timeout_ms = STARTUP_MS;
	act.text = text.data;
	act.size = text.len;
	job->session_terminal = c;
	session_terminal_do(c, &act, on_sourced, job);
}

void swerex_create_session(struct job *job, struct sandbox *sandbox)
{
	const char *name = field_text(job->body, "session", "default");
	const struct config *cfg = job->sx->config;
	struct exec_start start = { .journal = JOURNAL };
	size_t n = 0;

	for (struct session *session = session_next(sandbox, NULL); session;
	     session = session_next(sandbox, session))
		n++;
	if (cfg->journal_max && start.journal > cfg->journal_max)
		start.journal = cfg->journal_max;
	if (strlen(name) > CONSOLE_NAME_MAX)
		job_raisef(job, "builtins.ValueError",
			   "a session's name has at most %d bytes", CONSOLE_NAME_MAX);
	else if (cfg->sessions_max && n >= cfg->sessions_max)
		job_raisef(job, "builtins.RuntimeError",
			   "the sandbox has %zu sessions, the maximum that the "
			   "service allows",
			   n);
	else
		session_terminal_open(sandbox, name, &start, session_on_created, job);
}

static void answer_closed(struct job *job)
{
	AUTO_BUF struct buf out = BUF_INIT(64);

	buf_puts(&out, "{\"session_type\":\"bash\"}");
	job_answer(job, 200, &out);
}

static void on_one_closed(void *ctx, int r, const struct warren_error *err)
{
	if (r < 0 && r != -ESRCH)
		job_fail(ctx, err, NULL);
	else
		answer_closed(ctx);
}

void swerex_close_session(struct job *job, struct sandbox *sandbox)
{
	struct session_terminal *c = find_console(job, sandbox);

	if (c)
		session_terminal_close(c, on_one_closed, job);
}

static void on_all_closed(void *ctx, int r, const struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(64);

	buf_puts(&out, "{}");
	if (r < 0)
		job_fail(ctx, err, NULL);
	else
		job_answer(ctx, 200, &out);
}

void swerex_close(struct job *job, struct sandbox *sandbox)
{
	session_terminal_close_all(sandbox, on_all_closed, job);
}
