/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_session.c - the tool session_run: a command in a shell that keeps its state
 *
 * A shell has a name in its sandbox and is opened when it is first used. A command that
 * is cancelled is stopped; its shell stays.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/mcp/internal.h"
#include "config/config.h"
#include "service/session/session.h"

#define SHELL_PREFIX   "mcp:" /* no other API gives such names */
#define SHELL_PROGRESS 4096

struct mcp_shell {
	struct mcp_call *call;
	struct session_command command;
	char session[ID_LEN + 1]; /* "": the command is not running */
	struct mcp_clip clip[2];
	uint64_t seen;
};

static struct session *shell_find(struct sandbox *sandbox, const char *name)
{
	struct session *found = NULL;

	for (struct session *s = session_next(sandbox, NULL); s;
	     s = session_next(sandbox, s)) {
		const char *its = session_row(s)->name;

		if (its && strcmp(its, name) == 0 &&
		    strcmp(session_state(s), "ended") != 0 &&
		    (!found || session_number(s) < session_number(found)))
			found = s;
	}
	return found;
}

static void shell_stop(struct mcp_call *c)
{
	struct mcp_shell *k = c->state;
	struct sandbox *sandbox = sandbox_find(c->mcp->service, NULL, c->sandbox);
	struct session *session = NULL;

	if (c->cancelled && k->session[0] && sandbox)
		session = session_find(sandbox, k->session);
	session_forget(&k->command);
	/* A loop in the shell itself can only be stopped with an interrupt; a program may
	 * ignore an interrupt. */
	if (session) {
		session_interrupt(session, SIGINT);
		session_interrupt(session, SIGKILL);
	}
	mcp_clip_done(&k->clip[0]);
	mcp_clip_done(&k->clip[1]);
	free(k);
}

static void shell_on_output(struct session_command *command, int stream, const void *data,
			    size_t n)
{
	struct mcp_shell *k = command->ctx;
	size_t tail = n < SHELL_PROGRESS ? n : SHELL_PROGRESS;

	mcp_clip_add(&k->clip[stream == 2], data, n);
	k->seen += n;
	mcp_call_progress(k->call, k->seen, (const char *)data + n - tail, tail);
}

static void shell_on_gap(struct session_command *command, uint64_t lost)
{
	struct mcp_shell *k = command->ctx;

	k->clip[0].lost += lost;
}

static void shell_on_result(struct session_command *command,
			    const struct session_result *r)
{
	struct mcp_shell *k = command->ctx;
	struct mcp_call *c = k->call;
	const char *name = mcp_arg_text(c, "session");
	AUTO_BUF struct buf out = BUF_INIT(MCP_RESULT_MAX);
	struct json j = { .out = &out };

	k->session[0] = '\0';
	json_open(&j, NULL, '{');
	json_str(&j, "sandbox", c->sandbox);
	json_str(&j, "session", name ? name : "main");
	mcp_clip_write(&j, "stdout", &k->clip[0]);
	mcp_clip_write(&j, "stderr", &k->clip[1]);
	json_int(&j, "exit_code", r->exit_code);
	json_bool(&j, "timed_out", r->timed_out);
	json_u64(&j, "duration_ms", r->wall_usec / 1000);
	json_bool(&j, "truncated",
		  mcp_clip_is_cut(&k->clip[0]) || mcp_clip_is_cut(&k->clip[1]));
	if (r->cwd)
		json_str(&j, "cwd", r->cwd);
	json_bool(&j, "ended", r->ended);
	json_bool(&j, "new_state", r->new_state);
	json_close(&j, '}');
	mcp_tool_result(c, &out, r->exit_code != 0 || r->timed_out);
}

static void shell_run(struct mcp_call *c, struct session *session)
{
	struct mcp_shell *k = c->state;
	struct warren_error err = WARREN_ERROR_INIT;
	const char *text = mcp_arg_text(c, "command");

	(void)strcpy(k->session, session_row(session)->id);
	if (session_run(session, text, mcp_arg_size(c, "command"),
			(uint64_t)mcp_arg_int(c, "timeout_ms"), &k->command, &err) < 0) {
		k->session[0] = '\0';
		mcp_tool_error(c,
			       "%s; use another name in 'session' for commands at the "
			       "same time",
			       err.msg);
		return;
	}
	if (c->exchange)
		mcp_exchange_keep_alive(c->exchange);
}

static void shell_name(const struct mcp_call *c, char name[80])
{
	const char *asked = mcp_arg_text(c, "session");

	(void)snprintf(name, 80, SHELL_PREFIX "%s", asked ? asked : "main");
}

static void shell_on_opened(void *ctx, struct session *session,
			    const struct warren_error *err)
{
	struct mcp_call *c = ctx;
	struct sandbox *sandbox;
	struct session *first;
	char name[80];

	shell_name(c, name);
	sandbox = session ? sandbox_find(c->mcp->service, NULL, c->sandbox) : NULL;
	first = sandbox ? shell_find(sandbox, name) : NULL;
	/* Two calls may open the same session at once: the older one is kept. */
	if (first && first != session)
		session_close(session, mcp_ignore, NULL);
	if (!c->done && first)
		shell_run(c, first);
	else if (!c->done)
		mcp_tool_error(c, "a shell cannot be opened: %s",
			       err ? err->msg : "the sandbox is gone");
	mcp_call_unref(c);
}

/* The shell that ended with a hibernation was replaced, if necessary. */
static void shell_on_usable(void *ctx, int r, const struct warren_error *err)
{
	struct mcp_call *c = ctx;
	struct sandbox *sandbox = sandbox_find(c->mcp->service, NULL, c->sandbox);
	struct session *session = NULL;
	char name[80];

	shell_name(c, name);
	if (r == 0 && sandbox)
		session = shell_find(sandbox, name);
	if (!c->done && session)
		shell_run(c, session);
	else if (!c->done)
		mcp_tool_error(c, "a shell cannot be opened: %s",
			       r < 0 ? err->msg : "the session is gone");
	mcp_call_unref(c);
}

static void shell_placed(struct mcp_call *c, struct sandbox *sandbox)
{
	struct mcp_shell *k = calloc(1, sizeof(*k));
	uint64_t max = c->mcp->config->sessions_max;
	struct exec_start start = { 0 };
	struct session *session;
	char name[80];
	size_t n = 0;

	if (!k) {
		mcp_tool_error(c, "out of memory; try again");
		return;
	}
	k->call = c;
	k->command = (struct session_command){ .output = shell_on_output,
					       .gap = shell_on_gap,
					       .result = shell_on_result,
					       .ctx = k };
	mcp_clip_init(&k->clip[0], (size_t)mcp_arg_int(c, "max_output"));
	mcp_clip_init(&k->clip[1], (size_t)mcp_arg_int(c, "max_output"));
	c->state = k;
	c->stop = shell_stop;
	shell_name(c, name);
	session = shell_find(sandbox, name);
	for (struct session *s = session_next(sandbox, NULL); s;
	     s = session_next(sandbox, s))
		n++;
	start.name = name;
	if (session)
		session_use(sandbox, session_row(session)->id, shell_on_usable,
			    mcp_call_ref(c));
	else if (max && n >= max)
		mcp_tool_error(c,
			       "the sandbox has %zu sessions, the maximum that the "
			       "service allows: use one of them",
			       n);
	else
		session_open(sandbox, &start, NULL, shell_on_opened, mcp_call_ref(c));
}

void mcp_tool_session_run(struct mcp_call *c)
{
	mcp_place(c, shell_placed);
}
