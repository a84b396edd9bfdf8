/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_diff.c - warren diff: list the changed files; warren undo: undo the last command */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/client/commands.h"
#include "cli/common_options.h"

#define DIFF_PAGE 20000

struct diff_options {
	bool quiet;
	bool json;
	const char *second; /* the operand after the sandbox; NULL: none */
};

#define FIELD(name) offsetof(struct diff_options, name)

static const struct opt diff_table[] = {
	{ NULL, OPT_JSON("print the changes as one JSON array", FIELD(json)) },
};

static const struct opt undo_table[] = {
	{ NULL, OPT_QUIET("do not print what was restored", FIELD(quiet)) },
	{ NULL, OPT_JSON("print what was restored as one JSON object", FIELD(json)) },
};

/* A line must not contain characters that break it or control the terminal. */
static void diff_put_path(struct buf *out, const char *path)
{
	const size_t size = strlen(path);

	for (size_t i = 0, n; i < size; i += n)
		if (utf8_shows(path + i, size - i, &n) && path[i] != '\\')
			buf_add(out, path + i, n);
		else
			for (size_t k = 0; k < n; k++)
				buf_printf(out, "\\%03o", (unsigned char)path[i + k]);
}

static void cmd_diff_put_change(struct buf *out, const json_t *change)
{
	const char *kind = print_text_of(change, "kind");

	buf_printf(out, "%c ",
		   strcmp(kind, "added") == 0     ? 'A'
		   : strcmp(kind, "deleted") == 0 ? 'D'
						  : 'C');
	diff_put_path(out, print_text_of(change, "path"));
	buf_puts(out, "\n");
}

/* Print one page, or add it to @all. */
static int diff_page(const struct diff_options *o, json_t *page, json_t *all)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	json_t *changes = json_object_get(page, "changes");

	if (o->json)
		return json_array_extend(all, changes) < 0 ? STATUS_FAILED : 0;
	for (size_t i = 0; i < json_array_size(changes); i++)
		cmd_diff_put_change(&out, json_array_get(changes, i));
	return message_print(client_diff.name, &out);
}

static int diff_all(struct client *c, const char *id, const char *snapshot,
		    const struct diff_options *o)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_JSON json_t *all = json_array();
	json_int_t offset = 0;
	bool more = true, too_deep = false;

	while (more) {
		AUTO_JSON json_t *page = NULL;
		const json_t *next;
		char path[192];
		int status;

		(void)snprintf(path, sizeof(path),
			       "/v1/sandboxes/%s/diff?limit=%d&offset=%lld%s%s", id,
			       DIFF_PAGE, (long long)offset, snapshot ? "&snapshot=" : "",
			       snapshot ? snapshot : "");
		if (client_call(c, "GET", path, NULL, &page, &err) < 0)
			return client_fail(&client_diff, &err);
		status = diff_page(o, page, all);
		if (status)
			return status;
		next = json_object_get(page, "next_offset");
		/* Each page must have changes, or this would not end. */
		more = json_is_integer(next) && json_integer_value(next) > offset;
		offset = json_integer_value(next);
		too_deep |= json_is_true(json_object_get(page, "too_deep"));
	}
	if (too_deep)
		message_say(client_diff.name, "some directories are nested too deeply, "
					      "and were not compared");
	return o->json ? print_json(&client_diff, all) : 0;
}

/* Parse at most @max operands, and find the sandbox, which is the first one. */
static bool diff_begin(const struct command *cmd, int argc, char **argv, int max,
		       struct diff_options *o, struct client **ret, char id[ID_LEN + 1],
		       int *ret_status)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char **words = NULL;

	if (!command_operands(cmd, argc, argv, o, 1, max, &words, ret_status))
		return false;
	o->second = words[1];
	if (words[1]) {
		*ret_status = snapshot_check_operand(cmd, words[1]);
		if (*ret_status)
			return false;
	}
	if (client_open(ret, &err) == 0 &&
	    resolve_id_find_sandbox(*ret, *words, id, &err) == 0)
		return true;
	/* 'warren diff' also shows works (cli/work/forward_client.h); 'undo' does not. */
	if (cmd == &client_diff && (err.code == ECONNREFUSED || err.code == ENOENT))
		(void)error_wrap(&err, "there is no work '%.100s'", *words);
	*ret_status = client_fail(cmd, &err);
	return false;
}

static int diff_run(int argc, char **argv)
{
	AUTO_CLIENT struct client *c = NULL;
	struct diff_options o = { 0 };
	char id[ID_LEN + 1] = "";
	int status = 0;

	return diff_begin(&client_diff, argc, argv, 2, &o, &c, id, &status)
		       ? diff_all(c, id, o.second, &o)
		       : status;
}

static long long undo_count(const json_t *undone, const char *key)
{
	return (long long)json_integer_value(json_object_get(undone, key));
}

static int cmd_undo_run(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLIENT struct client *c = NULL;
	AUTO_JSON json_t *undone = NULL;
	struct diff_options o = { 0 };
	char id[ID_LEN + 1] = "", path[64];
	int status = 0;

	if (!diff_begin(&client_undo, argc, argv, 1, &o, &c, id, &status))
		return status;
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/undo", id);
	if (client_call(c, "POST", path, NULL, &undone, &err) < 0)
		return client_fail(&client_undo, &err);
	if (o.json)
		return print_json(&client_undo, undone);
	if (!o.quiet)
		(void)printf("%lld removed, %lld restored, %lld changed\n",
			     undo_count(undone, "removed"),
			     undo_count(undone, "restored"),
			     undo_count(undone, "changed"));
	return 0;
}

const struct command client_diff = {
	.name = "diff",
	.summary = "List the files that were changed in a sandbox.",
	.about =
		"The sandbox is compared with its image or, if SNAPSHOT is given, with that snapshot,\n"
		"which must have been made from the same image. Each line has A (added), C (changed)\n"
		"or D (deleted), and a path. Control characters and backslashes in a path are shown\n"
		"as octal numbers.\n",
	.opts = &(const struct opts){ .table = diff_table,
				      .n = ARRAY_SIZE(diff_table),
				      .operands = "SANDBOX [SNAPSHOT]",
				      .example = "warren diff k3f9x2m7qd1w ready",
				      .mixed = true },
	.run = diff_run,
	.complete = complete_sandbox,
};

const struct command client_undo = {
	.name = "undo",
	.summary = "Restore the files from before the last command.",
	.about =
		"The command must have been run with --undoable. Processes and sessions continue.\n",
	.opts = &(const struct opts){ .table = undo_table,
				      .n = ARRAY_SIZE(undo_table),
				      .operands = "SANDBOX",
				      .example = "warren undo k3f9x2m7qd1w",
				      .mixed = true },
	.run = cmd_undo_run,
	.complete = complete_sandbox,
};
