/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_diff.c - warren diff: show what a work changed; or a sandbox of the service */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "cli/common_options.h"
#include "cli/work/commands.h"
#include "cli/work/forward_client.h"
#include "cli/work/input.h"
#include "cli/work/pager.h"
#include "cli/work/select.h"
#include "cli/work/show.h"
#include "work/git_top.h"

struct diff_options {
	bool stat, name_only, name_status, json, patch, ignored;
	struct input paths_from;
};

#define FIELD(name) offsetof(struct diff_options, name)

static const struct opt diff_table[] = {
	{ NULL, "stat", 0, NULL, NULL, "print a row for each change", opt_flag,
	  FIELD(stat) },
	{ NULL, "name-only", 0, NULL, NULL, "print only the paths", opt_flag,
	  FIELD(name_only) },
	{ NULL, "name-status", 0, NULL, NULL,
	  "print a letter and the path of each change", opt_flag, FIELD(name_status) },
	{ NULL, "patch", 0, NULL, NULL,
	  "print a patch for 'git apply', with binary files", opt_flag, FIELD(patch) },
	{ NULL, "ignored", 0, NULL, NULL,
	  "list the files that .gitignore ignores, and those of .git", opt_flag,
	  FIELD(ignored) },
	{ NULL, "paths-from", 0, "FILE", "paths",
	  "only the paths in this file, each with a NUL byte at the end; '-': standard input",
	  opt_text, FIELD(paths_from.path) },
	{ NULL, OPT_JSON("print the changes as one JSON object", FIELD(json)) },
};

/* clang-format off */
static const struct opt_conflict diff_conflicts[] = {
	{ "stat", "name-only", "choose one" },
	{ "stat", "name-status", "choose one" },
	{ "name-only", "name-status", "choose one" },
	{ "patch", "stat", "choose one" },
	{ "patch", "name-only", "choose one" },
	{ "patch", "name-status", "choose one" },
	{ "json", "stat", "choose one" },
	{ "json", "name-only", "choose one" },
	{ "json", "name-status", "choose one" },
	{ "json", "patch", "choose one" },
};
/* clang-format on */

/* git takes the paths of a patch from the top of the repository, and skips others. */
static void diff_say_directory(const struct work *w)
{
	AUTO_FREE char *top = NULL;

	if (git_top(w->project, &top) > 0)
		message_say("diff",
			    "the project is a part of the repository at '%s': apply the "
			    "patch with: git apply '--directory=%s'",
			    top, w->project + strlen(top) + 1);
}

static int diff_print_patches(struct work *w, const struct changes *changes,
			      const struct diff_options *o, struct buf *out,
			      struct warren_error *err)
{
	const struct unified_options options = {
		.context = PATCH_CONTEXT,
		.binary = o->patch,
		.terminal = isatty(STDOUT_FILENO),
		.colors = o->patch ? NULL : show_colors(STDOUT_FILENO),
	};
	AUTO_BUF struct buf left_out = BUF_INIT(4096);
	int r;

	if (!o->patch)
		show_changes_rest(changes, o->ignored, show_width(STDOUT_FILENO),
				  options.colors, out);
	r = show_patches(w, changes, o->ignored, o->patch, &options, out, err);
	if (r < 0)
		return r;
	show_left_out(changes, o->patch, &left_out);
	if (left_out.len && !o->ignored)
		message_say("diff", "%s", left_out.data);
	if (o->patch && out->len)
		diff_say_directory(w);
	return 0;
}

static void diff_print_names(const struct changes *changes, bool status, struct buf *out)
{
	for (size_t i = 0; i < changes->n; i++)
		if (!show_is_repository(&changes->v[i]))
			show_name(&changes->v[i], status, out);
}

static int diff_print(struct work *w, const struct changes *changes,
		      const struct diff_options *o, struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(SHOW_MAX);
	int r = 0;

	if (o->json)
		show_changes_json(w, changes, &out);
	else if (o->name_only || o->name_status)
		diff_print_names(changes, o->name_status, &out);
	else if (o->stat)
		show_stat(changes, show_width(STDOUT_FILENO), show_colors(STDOUT_FILENO),
			  &out);
	else
		r = diff_print_patches(w, changes, o, &out, err);
	if (r < 0)
		return r;
	if (out.failed)
		return error_set(err, EFBIG,
				 "the differences are too large to be shown at once: "
				 "give paths, or use --stat");
	return pager_show(&out, err);
}

/* Return the work or sandbox that is named: the first word that is not an option. */
static char *diff_subject(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--") == 0)
			return i + 1 < argc ? argv[i + 1] : NULL;
		else if (argv[i][0] != '-')
			return argv[i];
	return NULL;
}

/* Is there an option that only works have? */
static bool diff_is_of_work(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		for (size_t k = 0; k < ARRAY_SIZE(diff_table); k++) {
			const char *name = diff_table[k].name;
			const size_t n = strlen(name);

			if (strcmp(name, "json") != 0 && strncmp(argv[i], "--", 2) == 0 &&
			    strncmp(argv[i] + 2, name, n) == 0 &&
			    (!argv[i][2 + n] || argv[i][2 + n] == '='))
				return true;
		}
	return false;
}

static int cmd_diff(int argc, char **argv)
{
	char *subject = diff_subject(argc, argv);
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CHANGES struct changes changes = { 0 };
	AUTO_PATHS struct input_paths paths = { 0 };
	AUTO_WORK struct work *w = NULL;
	struct diff_options o = { 0 };
	char **words = NULL, **named;
	const char *id;
	int status = 0, r;
	unsigned flags;

	if (subject && !diff_is_of_work(argc, argv) &&
	    select_words((char *[]){ subject, NULL }, &named) && !work_exists(subject))
		return forward_client(argv);
	if (!command_operands(&work_diff, argc, argv, &o, 0, 0, &words, &status))
		return status;
	flags = (o.ignored ? CHANGES_EXPAND : 0) | (o.stat || o.json ? CHANGES_LINES : 0);
	id = select_words(words, &named);
	r = select_work(id, false, &w, &err);
	if (r == 0)
		r = input_paths(&o.paths_from, *named ? named : NULL, &paths, &err);
	if (r == 0)
		r = select_changes(w, paths.v, flags, &changes, &err);
	if (r == 0)
		r = diff_print(w, &changes, &o, &err);
	if (r == 0)
		return 0;
	message_say("diff", "%s", err.msg);
	return STATUS_FAILED;
}

static void diff_complete(int at, struct buf *out)
{
	if (at)
		return;
	select_complete(out);
	forward_client_complete("diff", out);
}

const struct command work_diff = {
	.name = "diff",
	.summary = "Show what was changed in a work or a sandbox.",
	.about =
		"WORK is the id or name of a work (see 'warren work'); by default, the only one of the\n"
		"current directory, so that 'warren diff src' works there. The changes at the paths,\n"
		"or all changes, are shown as 'git diff' shows them. On a terminal, $PAGER shows them\n"
		"(default: less).\n\n"
		"  warren diff [--json] SANDBOX [SNAPSHOT]\n\n"
		"lists the files that were changed in a sandbox of the service, compared with its\n"
		"image or with a snapshot that was made from the same image. Each line has A (added),\n"
		"C (changed) or D (deleted), and a path. Control characters and backslashes in a path\n"
		"are shown as octal numbers. With --json, the changes are one JSON array.\n",
	.opts = &(const struct opts){ .table = diff_table,
				      .n = ARRAY_SIZE(diff_table),
				      .conflicts = diff_conflicts,
				      .n_conflicts = ARRAY_SIZE(diff_conflicts),
				      .operands = "[WORK [PATH...]]",
				      .example = "warren diff k3f9x2m7qd1w src",
				      .mixed = true },
	.run = cmd_diff,
	.complete = diff_complete,
};
