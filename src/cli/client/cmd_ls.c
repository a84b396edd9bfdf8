/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ls.c - warren ls: list sandboxes, or the commands run in one */
#include <stddef.h>

#include "cli/client/commands.h"
#include "cli/client/spec.h"
#include "cli/client/table.h"
#include "cli/common_options.h"

struct ls_options {
	json_t *labels; /* in the form KEY or KEY=VALUE, as given */
	json_t *states;
	const char *name;
	const char *owner;
	const char *backend;
	const char *tier;
	bool wide;
	bool whole;
	bool quiet;
	bool json;
	bool all; /* no effect: all states are shown by default */
};

#define FIELD(name) offsetof(struct ls_options, name)

/* clang-format off */
static const struct opt ls_table[] = {
	{ NULL, OPT_LABEL("only sandboxes with this label (repeatable)",
		FIELD(labels)) },
	{ NULL, OPT_STATE("only sandboxes in this state (repeatable)",
		FIELD(states)) },
	{ NULL, OPT_NAME("only the sandbox with this name", FIELD(name)) },
	{ NULL, "owner", 0, "TENANT", "research",
	  "only sandboxes of this tenant",
	  opt_text, FIELD(owner) },
	{ NULL, OPT_BACKEND("docker", "only sandboxes on this backend", FIELD(backend)) },
	{ NULL, OPT_TIER("gvisor", "only sandboxes of this isolation tier", FIELD(tier)) },
	{ NULL, "all", 'a', NULL, NULL,
	  "show sandboxes in every state (the default, unlike in docker)",
	  opt_flag, FIELD(all) },
	{ NULL, "wide", 0, NULL, NULL,
	  "also show backend and isolation tier",
	  opt_flag, FIELD(wide) },
	{ NULL, "no-trunc", 0, NULL, NULL,
	  "do not truncate commands",
	  opt_flag, FIELD(whole) },
	{ NULL, OPT_QUIET("print ids only", FIELD(quiet)) },
	{ NULL, OPT_JSON("print one JSON array", FIELD(json)) },
};
/* clang-format on */

static const struct opts ls_opts = {
	.table = ls_table,
	.n = ARRAY_SIZE(ls_table),
	.operands = "[SANDBOX]",
	.example = "warren ls -l team=search",
	.mixed = true,
};

struct listing {
	const struct ls_options *o;
	struct table *table;
	struct buf ids;
	json_t *all;
	json_t *sessions; /* sessions of a sandbox, by the exec of their shell */
};

static void cell_ago(struct table *t, const char *time)
{
	AUTO_BUF struct buf text = BUF_INIT(64);

	put_ago(&text, time);
	table_cell(t, "%s", text.data ? text.data : "");
}

static int add_sandbox(void *arg, json_t *sandbox)
{
	struct listing *l = arg;
	const char *name = print_text_of(sandbox, "name");
	AUTO_BUF struct buf labels = BUF_INIT(16384);

	(void)json_array_append(l->all, sandbox);
	buf_printf(&l->ids, "%s\n", print_text_of(sandbox, "id"));
	table_cell(l->table, "%s", print_text_of(sandbox, "id"));
	table_cell(l->table, "%s", *name ? name : "-");
	table_cell(l->table, "%s", print_text_of(sandbox, "image"));
	table_cell(l->table, "%s", print_text_of(sandbox, "state"));
	if (l->o->wide) {
		table_cell(l->table, "%s", print_text_of(sandbox, "backend"));
		table_cell(l->table, "%s", print_text_of(sandbox, "tier"));
	}
	cell_ago(l->table, print_text_of(sandbox, "created_at"));
	put_labels(&labels, json_object_get(sandbox, "labels"));
	table_cell(l->table, "%s", labels.data ? labels.data : "");
	return 0;
}

/* Write "exited 0", "killed 9" or "timeout". */
static void cell_end(struct table *t, const json_t *exec)
{
	const json_t *result = json_object_get(exec, "result");
	json_int_t sig = json_integer_value(json_object_get(result, "signal"));

	if (!json_is_object(result))
		table_cell(t, "%s", print_text_of(exec, "state"));
	else if (json_is_true(json_object_get(result, "timed_out")))
		table_cell(t, "timed out");
	else if (sig)
		table_cell(t, "killed by %d", (int)sig);
	else
		table_cell(t, "exited %d",
			   (int)json_integer_value(json_object_get(result, "exit_code")));
}

static int add_exec(void *arg, json_t *exec)
{
	struct listing *l = arg;
	AUTO_BUF struct buf argv = BUF_INIT(1U << 20);

	const json_t *session = json_object_get(l->sessions, print_text_of(exec, "id"));

	(void)json_array_append(l->all, exec);
	buf_printf(&l->ids, "%s\n", print_text_of(exec, "id"));
	table_cell(l->table, "%s", print_text_of(exec, "id"));
	if (session)
		table_cell(l->table, "%s", print_text_of(session, "state"));
	else
		cell_end(l->table, exec);
	table_cell(l->table, "%s",
		   *print_text_of(exec, "user") ? print_text_of(exec, "user") : "-");
	cell_ago(l->table, print_text_of(exec, "started_at"));
	/* Show the session, because the user opened a session; the shell is a detail. */
	if (session)
		buf_printf(&argv, "session %s (%s)", print_text_of(session, "id"),
			   print_text_of(session, "shell"));
	else
		put_argv(&argv, json_object_get(exec, "argv"));
	if (session)
		(void)json_object_set(exec, "session_id", json_object_get(session, "id"));
	table_cell(l->table, l->o->whole ? "%s" : "%.40s", argv.data ? argv.data : "");
	return 0;
}

static int ls_note_session(void *arg, json_t *session)
{
	const struct listing *l = arg;

	(void)json_object_set(l->sessions, print_text_of(session, "exec_id"), session);
	return 0;
}

static void put_filters(struct buf *path, const struct ls_options *o)
{
	buf_puts(path, "/v1/sandboxes");
	for (size_t i = 0; i < json_array_size(o->labels); i++)
		put_query(path, "label", json_string_value(json_array_get(o->labels, i)));
	for (size_t i = 0; i < json_array_size(o->states); i++)
		put_query(path, "state", json_string_value(json_array_get(o->states, i)));
	if (o->name)
		put_query(path, "name", o->name);
	if (o->owner)
		put_query(path, "owner", o->owner);
	if (o->backend)
		put_query(path, "backend", o->backend);
	if (o->tier)
		put_query(path, "tier", o->tier);
}

static int print_listing(const struct listing *l)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);

	if (l->o->json)
		return print_json(&client_ls, l->all);
	if (l->o->quiet)
		return message_print(client_ls.name, &l->ids);
	table_put(l->table, 0, "\n", &out);
	return message_print(client_ls.name, &out);
}

static int ls_list(const struct ls_options *o, const char *sandbox)
{
	AUTO_TABLE struct table sandboxes =
		TABLE_INIT("ID", "NAME", "IMAGE", "STATE", "CREATED", "LABELS");
	AUTO_TABLE struct table wide = TABLE_INIT("ID", "NAME", "IMAGE", "STATE",
						  "BACKEND", "TIER", "CREATED", "LABELS");
	AUTO_TABLE struct table execs =
		TABLE_INIT("EXEC", "STATE", "USER", "STARTED", "COMMAND");
	struct listing l = { .o = o,
			     .table = sandbox   ? &execs
				      : o->wide ? &wide
						: &sandboxes,
			     .ids = BUF_INIT(OUTPUT_MAX),
			     .all = json_array(),
			     .sessions = json_object() };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_BUF struct buf path = BUF_INIT(PATH_LIMIT);
	AUTO_CLIENT struct client *c = NULL;
	char id[ID_LEN + 1] = "";
	int r = client_open(&c, &err), status;

	if (r == 0 && sandbox)
		r = resolve_id_find_sandbox(c, sandbox, id, &err);
	if (r == 0 && sandbox) {
		buf_printf(&path, "/v1/sandboxes/%s/sessions", id);
		r = client_list(c, path.data, "sessions", ls_note_session, &l, &err);
		path.len = 0;
	}
	if (r == 0 && sandbox)
		buf_printf(&path, "/v1/sandboxes/%s/execs", id);
	else if (r == 0)
		put_filters(&path, o);
	if (r == 0)
		r = client_list(c, path.data, sandbox ? "execs" : "sandboxes",
				sandbox ? add_exec : add_sandbox, &l, &err);
	status = r < 0 ? client_fail(&client_ls, &err) : print_listing(&l);
	buf_done(&l.ids);
	json_decref(l.all);
	json_decref(l.sessions);
	return status;
}

/* Are there options that apply only to lists of sandboxes? */
static bool ls_chooses(const struct ls_options *o)
{
	return o->labels || o->states || o->name || o->owner || o->backend || o->tier ||
	       o->wide;
}

static int ls_refuse(const char *sandbox)
{
	message_say(client_ls.name,
		    "the commands of '%.100s' cannot be selected with --label, --state, "
		    "--name, --owner, --backend, --tier or --wide: these apply to "
		    "sandboxes (example: %s)",
		    sandbox, ls_opts.example);
	return STATUS_FAILED;
}

static int client_cmd_ls(int argc, char **argv)
{
	struct ls_options o = { 0 };
	char **words = NULL;
	int status = 0;

	if (command_operands(&client_ls, argc, argv, &o, 0, 1, &words, &status))
		status = *words && ls_chooses(&o) ? ls_refuse(*words)
						  : ls_list(&o, *words);
	json_decref(o.labels);
	json_decref(o.states);
	return status;
}

const struct command client_ls = {
	.name = "ls",
	.summary = "List sandboxes, or the commands run in one.",
	.opts = &ls_opts,
	.run = client_cmd_ls,
	.complete = complete_sandbox,
};
