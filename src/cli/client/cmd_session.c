/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_session.c - warren session: shells that keep their state between commands
 *
 * `session SANDBOX CMD` is the short form: it runs the command in the sandbox's only
 * session, or in a new session if there is none.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/fd.h"
#include "cli/client/commands.h"
#include "cli/client/spec.h"
#include "cli/client/table.h"
#include "cli/common_options.h"
#include "cli/run_signal.h"

#define TURN_MS 1000

struct session_options {
	struct env_list env;
	const char *shell;
	const char *workdir;
	const char *user;
	const char *session;
	uint64_t timeout_ms;
	bool undoable;
	bool quiet;
	bool json;
};

#define FIELD(name) offsetof(struct session_options, name)

/* clang-format off */
static const struct opt open_table[] = {
	{ NULL, OPT_SHELL(FIELD(shell)) },
	{ NULL, OPT_ENV(FIELD(env)) },
	{ NULL, OPT_WORKDIR("working directory (default: the sandbox's)", FIELD(workdir)) },
	{ NULL, OPT_USER("user name, uid or uid:gid (default: the sandbox's)",
		FIELD(user)) },
	{ NULL, OPT_UNDOABLE_ALL(FIELD(undoable)) },
	{ NULL, OPT_JSON("print the session as one JSON object", FIELD(json)) },
};

static const struct opt run_table[] = {
	{ NULL, "session", 's', "SESSION", "m4c7r9t2b5xz",
	  "session to use (default: the sandbox's only one, or a new one)",
	  opt_text, FIELD(session) },
	{ NULL, OPT_TIMEOUT("stop the command after this time, status 124; the shell stays",
		FIELD(timeout_ms)) },
	{ NULL, OPT_UNDOABLE(FIELD(undoable)) },
	{ NULL, OPT_JSON("print the result with its output as one JSON object",
		FIELD(json)) },
	{ NULL, OPT_QUIET("print no messages of Warren except errors", FIELD(quiet)) },
};

static const struct opt ls_table[] = {
	{ NULL, OPT_QUIET("print ids only", FIELD(quiet)) },
	{ NULL, OPT_JSON("print one JSON array", FIELD(json)) },
};

static const struct opt close_table[] = {
	{ NULL, OPT_JSON("print what was removed, one JSON object on each line", FIELD(json)) },
};
/* clang-format on */

static const struct command session_open, session_run, session_ls, session_close;

/* ------------------------------------------------------------------- open */

static int open_one(struct client *c, const char *sandbox,
		    const struct session_options *o, bool undoable, json_t **ret,
		    struct warren_error *err)
{
	AUTO_JSON json_t *body = json_object();
	json_t *env = env_json(&o->env);
	char path[96];

	if (env)
		(void)json_object_set_new(body, "env", env);
	spec_put_text(body, "shell", o->shell);
	spec_put_text(body, "cwd", o->workdir);
	spec_put_text(body, "user", o->user);
	if (undoable)
		(void)json_object_set_new(body, "undoable", json_true());
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/sessions", sandbox);
	return client_call(c, "POST", path, body, ret, err);
}

static int run_open(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(256);
	struct warren_error err = WARREN_ERROR_INIT;
	struct session_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	AUTO_JSON json_t *session = NULL;
	char sandbox[ID_LEN + 1];
	char **words = NULL;
	int status = 0;

	if (command_operands(&session_open, argc, argv, &o, 1, 1, &words, &status)) {
		if (client_open(&c, &err) < 0 ||
		    resolve_id_find_sandbox(c, *words, sandbox, &err) < 0 ||
		    open_one(c, sandbox, &o, o.undoable, &session, &err) < 0) {
			status = client_fail(&session_open, &err);
		} else if (o.json) {
			status = print_json(&session_open, session);
		} else {
			buf_printf(&out, "%s\n", print_text_of(session, "id"));
			status = message_print(session_open.name, &out);
		}
	}
	env_list_done(&o.env);
	return status;
}

/* ------------------------------------------------------------------- run */

struct search {
	char id[ID_LEN + 1];
	unsigned found;
};

static int session_consider(void *arg, json_t *session)
{
	struct search *s = arg;

	if (strcmp(print_text_of(session, "state"), "ended") == 0)
		return 0;
	s->found++;
	(void)snprintf(s->id, sizeof(s->id), "%s", print_text_of(session, "id"));
	return 0;
}

/* Find the session that was named, or the only one, or open a new one. */
static int session_choose(struct client *c, const char *sandbox,
			  const struct session_options *o, char ret_id[ID_LEN + 1],
			  struct warren_error *err)
{
	AUTO_JSON json_t *made = NULL;
	struct search s = { 0 };
	char path[96];
	int r;

	if (o->session)
		return find_session(c, sandbox, o->session, ret_id, err);
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/sessions", sandbox);
	r = client_list(c, path, "sessions", session_consider, &s, err);
	if (r < 0)
		return r;
	if (s.found > 1)
		return error_set(err, EEXIST,
				 "'%s' has %u sessions: name one (example: --session %s)",
				 sandbox, s.found, s.id);
	if (s.found == 0) {
		r = open_one(c, sandbox, o, false, &made, err);
		if (r < 0)
			return r;
		(void)snprintf(s.id, sizeof(s.id), "%s", print_text_of(made, "id"));
	}
	(void)memcpy(ret_id, s.id, sizeof(s.id));
	return 0;
}

/* Join the words of a command with spaces; a single word is used unchanged. */
static char *cmd_session_join(char **words)
{
	AUTO_BUF struct buf text = BUF_INIT(1U << 20);

	for (size_t i = 0; words[i]; i++) {
		buf_puts(&text, i ? " " : "");
		buf_puts(&text, words[i]);
	}
	return text.failed ? NULL : TAKE_PTR(text.data);
}

struct running {
	json_t *result; /* owned */
	int failure;
};

static int session_on_event(void *arg, const char *line, size_t n)
{
	struct running *run = arg;
	AUTO_JSON json_t *e = json_loadb(line, n, 0, NULL);
	const char *type = print_text_of(e, "type");
	const json_t *data = json_object_get(e, "data");
	int r = 0;

	if (!e)
		return -1;
	if (strcmp(type, "output") == 0) {
		AUTO_FREE char *bytes = data ? strdup(json_string_value(data)) : NULL;
		ssize_t len =
			bytes ? base64_decode(bytes, json_string_length(data), bytes)
			      : -1;
		bool to_err = strcmp(print_text_of(e, "stream"), "stderr") == 0;

		r = len < 0 ? -EPROTO
			    : fd_write_all(to_err ? STDERR_FILENO : STDOUT_FILENO, bytes,
					   (size_t)len);
	} else if (strcmp(type, "gap") == 0) {
		message_say(session_run.name,
			    "%" JSON_INTEGER_FORMAT " bytes of output were dropped here",
			    json_integer_value(json_object_get(e, "lost")));
	} else if (strcmp(type, "result") == 0) {
		json_decref(run->result);
		run->result = json_incref(json_object_get(e, "session"));
	}
	if (r < 0)
		run->failure = -r;
	return r;
}

/*
 * Do not wait for this request here, because the result of the command is still needed.
 */
static void cmd_session_interrupt(struct client *c, const char *at)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	char path[160];

	(void)snprintf(path, sizeof(path), "%s/interrupt", at);
	(void)!client_call(c, "POST", path, NULL, NULL, &ignored);
}

/*
 * Wait until the command has ended. ^C interrupts the command and keeps the shell; after
 * a second ^C, another signal or a closed stdout, do not wait any longer. Return > 0 for
 * the signal to exit with.
 */
static int wait_for_it(struct client *c, const char *at, struct request *request,
		       const struct running *run, int signals, struct warren_error *err)
{
	struct curl_waitfd fd = { .fd = signals, .events = CURL_WAIT_POLLIN };
	unsigned times = 0;
	int r = 0;

	while (r == 0 && !request->ended && !run->failure) {
		int sig;

		r = client_turn(c, &fd, 1, TURN_MS, err);
		while (r == 0 && (sig = signals_next(signals)) > 0) {
			if (!signal_ends(sig))
				continue;
			if (times == 0)
				cmd_session_interrupt(c, at);
			if (sig != SIGINT || times++ > 0)
				return sig;
		}
	}
	if (run->failure)
		cmd_session_interrupt(c, at);
	if (run->failure == EPIPE)
		return SIGPIPE;
	if (run->failure)
		return error_errno(err, run->failure, "write to stdout");
	return r < 0 ? r : request_wait(request, err);
}

/* @run gets the result of the command. Return > 0 for the signal to exit with. */
static int session_ask(struct client *c, const char *at, const json_t *body, bool json,
		       struct running *run, struct warren_error *err)
{
	AUTO_REQUEST struct request *request = NULL;
	AUTO_CLOSE int signals = -1;
	sigset_t set;
	char path[160];
	int r;

	signals_block(false, &set);
	signals = signals_open(&set, err);
	if (signals < 0)
		return signals;
	(void)snprintf(path, sizeof(path), "%s/%s", at, json ? "run" : "stream");
	r = request_new(c, "POST", path, &request, err);
	if (r == 0)
		r = request_json(request, body, err);
	if (r < 0)
		return r;
	if (!json)
		request->on_line = session_on_event;
	request->arg = run;
	r = request_start(request, err);
	if (r == 0)
		r = wait_for_it(c, at, request, run, signals, err);
	if (r == 0 && json)
		run->result =
			json_loadb(request->answer.data, request->answer.len, 0, NULL);
	if (r == 0 && !run->result)
		return error_set(err, EPROTO, "the result of the command is not known");
	return r;
}

static int session_run_command(struct client *c, const char *sandbox, const char *session,
			       const char *command, const struct session_options *o)
{
	AUTO_JSON json_t *body = json_object();
	struct warren_error err = WARREN_ERROR_INIT;
	struct running run = { 0 };
	char at[128];
	int r, status;

	spec_put_text(body, "command", command);
	spec_put_number(body, "timeout_ms", o->timeout_ms);
	if (o->undoable)
		(void)json_object_set_new(body, "undoable", json_true());
	if (!o->json)
		spec_put_text(body, "encoding", "base64");
	(void)snprintf(at, sizeof(at), "/v1/sandboxes/%s/sessions/%s", sandbox, session);
	r = session_ask(c, at, body, o->json, &run, &err);
	if (r != 0) {
		json_decref(run.result);
		return r > 0 ? STATUS_SIGNAL + r : client_fail(&session_run, &err);
	}
	status = o->json ? print_json(&session_run, run.result) : 0;
	if (json_is_true(json_object_get(run.result, "timed_out"))) {
		if (!o->quiet && !o->json)
			message_say(session_run.name, "timed out; the shell still runs");
		status = STATUS_TIMEOUT;
	} else if (status == 0) {
		status =
			(int)json_integer_value(json_object_get(run.result, "exit_code"));
		status = status < 0 ? STATUS_FAILED : status;
	}
	if (json_is_true(json_object_get(run.result, "new_state")) && !o->quiet &&
	    !o->json)
		message_say(session_run.name,
			    "the sandbox has hibernated: this shell is new, without the "
			    "variables, jobs and directory of the one before");
	if (json_is_true(json_object_get(run.result, "ended")) && !o->quiet && !o->json)
		message_say(session_run.name,
			    "the shell has ended, and the session with it");
	json_decref(run.result);
	return status;
}

/* Without a command, read one command from each line, at a terminal or from a pipe. */
static int session_interactive(const char *name, const struct session_options *o)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLIENT struct client *c = NULL;
	char sandbox[ID_LEN + 1], session[ID_LEN + 1];
	bool person = isatty(STDIN_FILENO);
	AUTO_FREE char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int status = 0;

	if (client_open(&c, &err) < 0 ||
	    resolve_id_find_sandbox(c, name, sandbox, &err) < 0 ||
	    session_choose(c, sandbox, o, session, &err) < 0)
		return client_fail(&session_run, &err);
	if (person)
		(void)fprintf(stderr,
			      "Session %s. Each line is a command; Ctrl-D ends.\n",
			      session);
	for (;;) {
		if (person)
			(void)fprintf(stderr, "%s> ", name);
		n = getline(&line, &room, stdin);
		if (n < 0)
			break;
		if (n > 0 && line[n - 1] == '\n')
			line[--n] = '\0';
		if (line[strspn(line, " \t")])
			status = session_run_command(c, sandbox, session, line, o);
	}
	if (person)
		(void)fputc('\n', stderr);
	return status;
}

static int session_cmd_run(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct session_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	AUTO_FREE char *command = NULL;
	char sandbox[ID_LEN + 1], session[ID_LEN + 1];
	const char *name = NULL;
	char **words = NULL;
	int status = 0;

	if (argc == 2 && argv[1][0] != '-')
		return session_interactive(argv[1], &o);
	if (!command_in_sandbox(&session_run, argc, argv, &o, &name, &words, &status))
		return status;
	command = cmd_session_join(words);
	if (!command) {
		message_say(session_run.name, "a command can be at most 1 MiB long");
		return STATUS_FAILED;
	}
	if (client_open(&c, &err) < 0 ||
	    resolve_id_find_sandbox(c, name, sandbox, &err) < 0 ||
	    session_choose(c, sandbox, &o, session, &err) < 0)
		return client_fail(&session_run, &err);
	return session_run_command(c, sandbox, session, command, &o);
}

/* ----------------------------------------------------------- list and close */

static int session_collect(void *arg, json_t *item)
{
	return json_array_append(arg, item);
}

static int session_run_ls(int argc, char **argv)
{
	AUTO_TABLE struct table t =
		TABLE_INIT("SESSION", "STATE", "SHELL", "USER", "COMMANDS", "DIRECTORY");
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	AUTO_JSON json_t *all = json_array();
	struct warren_error err = WARREN_ERROR_INIT;
	struct session_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char sandbox[ID_LEN + 1], path[96];
	char **words = NULL;
	int status = 0;

	if (!command_operands(&session_ls, argc, argv, &o, 1, 1, &words, &status))
		return status;
	if (client_open(&c, &err) < 0 ||
	    resolve_id_find_sandbox(c, *words, sandbox, &err) < 0)
		return client_fail(&session_ls, &err);
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/sessions", sandbox);
	if (client_list(c, path, "sessions", session_collect, all, &err) < 0)
		return client_fail(&session_ls, &err);
	if (o.json)
		return print_json(&session_ls, all);
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *s = json_array_get(all, i);

		if (o.quiet)
			buf_printf(&out, "%s\n", print_text_of(s, "id"));
		table_cell(&t, "%s", print_text_of(s, "id"));
		table_cell(&t, "%s", print_text_of(s, "state"));
		table_cell(&t, "%s", print_text_of(s, "shell"));
		table_cell(&t, "%s", print_text_of(s, "user"));
		table_cell(&t, "%lld",
			   (long long)json_integer_value(json_object_get(s, "commands")));
		table_cell(&t, "%s", print_text_of(s, "cwd"));
	}
	if (!o.quiet)
		table_put(&t, 0, "\n", &out);
	return message_print(session_ls.name, &out);
}

static int run_close(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct session_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char sandbox[ID_LEN + 1], session[ID_LEN + 1], path[128];
	char **words = NULL;
	int status = 0;

	if (!command_operands(&session_close, argc, argv, &o, 2, 0, &words, &status))
		return status;
	if (client_open(&c, &err) < 0 ||
	    resolve_id_find_sandbox(c, *words, sandbox, &err) < 0)
		return client_fail(&session_close, &err);
	while (*++words) {
		if (find_session(c, sandbox, *words, session, &err) == 0) {
			(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/sessions/%s",
				       sandbox, session);
			if (client_call(c, "DELETE", path, NULL, NULL, &err) == 0) {
				if (o.json && print_gone(&session_close, session) != 0)
					return STATUS_FAILED;
				continue;
			}
		}
		status = client_fail(&session_close, &err);
	}
	return status;
}

static const struct command session_open = {
	.name = "session open",
	.summary = "Open a session and print its id.",
	.opts = &(const struct opts){ .table = open_table,
				      .n = ARRAY_SIZE(open_table),
				      .operands = "SANDBOX",
				      .example = "warren session open k3f9x2m7qd1w",
				      .mixed = true },
	.run = run_open,
	.complete = complete_sandbox,
};

static const struct command session_run = {
	.name = "session run",
	.summary = "Run a command in a session.",
	.about =
		"The session's shell reads the words, joined with spaces: quote what your own shell\n"
		"must not change. 'warren session SANDBOX CMD' is the same.\n",
	.opts = &(const struct opts){ .table = run_table,
				      .n = ARRAY_SIZE(run_table),
				      .operands = "SANDBOX [--] CMD...",
				      .example = "warren session run k3f9x2m7qd1w "
						 "'cd /work; export A=1'" },
	.run = session_cmd_run,
	.complete = complete_sandbox,
};

static const struct command session_ls = {
	.name = "session ls",
	.summary = "List the sessions of a sandbox.",
	.opts = &(const struct opts){ .table = ls_table,
				      .n = ARRAY_SIZE(ls_table),
				      .operands = "SANDBOX",
				      .example = "warren session ls k3f9x2m7qd1w",
				      .mixed = true },
	.run = session_run_ls,
	.complete = complete_sandbox,
};

static const struct command session_close = {
	.name = "session close",
	.summary = "Close sessions: kill the shell and everything it started.",
	.opts = &(const struct opts){ .table = close_table,
				      .n = ARRAY_SIZE(close_table),
				      .operands = "SANDBOX SESSION...",
				      .example = "warren session close k3f9x2m7qd1w "
						 "m4c7r9t2b5xz",
				      .mixed = true },
	.run = run_close,
	.complete = complete_sandbox,
};

static const struct command *const verbs[] = { &session_open, &session_run, &session_ls,
					       &session_close, NULL };

static int run_session(int argc, char **argv)
{
	const char *near = NULL;
	bool help = argc > 1 &&
		    (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0);

	/*
	 * The short form begins with a sandbox or an option of `run`. A single word may
	 * also be a mistyped verb.
	 */
	if (argc > 1 && !help && !command_among(verbs, argv[1], &near) &&
	    (argc > 2 || !near))
		return session_cmd_run(argc, argv);
	return verbs_run(&client_session, argc, argv);
}

const struct command client_session = {
	.name = "session",
	.summary = "Run commands in a shell that keeps its state.",
	.about =
		"'warren session SANDBOX CMD' runs a command in the sandbox's session, and\n"
		"'warren session SANDBOX' each line of its input.\n",
	.opts = &(const struct opts){ .operands = "COMMAND [ARG...]",
				      .example =
					      "warren session k3f9x2m7qd1w 'cd /work'" },
	.run = run_session,
	.verbs = verbs,
};
