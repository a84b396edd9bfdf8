/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_accept.c - warren accept: apply changes of a work; warren reject: discard them */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/common_options.h"
#include "cli/work/commands.h"
#include "cli/work/decide.h"
#include "cli/work/input.h"
#include "cli/work/select.h"
#include "cli/work/show.h"
#include "work/commits.h"

struct decide_options {
	bool hunks, as_commits, ignored, force, quiet, json;
	unsigned allow;
	enum accept_conflicts conflicts;
	struct decide_wanted wanted;
};

/* Maximum size of the output of --json. */
#define REPORT_MAX ((size_t)64 << 20)

#define FIELD(name) offsetof(struct decide_options, name)

static int decide_opt_allow(void *field, const char *value, struct warren_error *err)
{
	return decide_parse_allow(value, field, err);
}

static int decide_opt_conflicts(void *field, const char *value, struct warren_error *err)
{
	return decide_parse_conflicts(value, field, err);
}

#define OPT_PATCH                                                                        \
	NULL, "patch", 0, "FILE", "picked.patch",                                        \
		"only the changes in this part of the output of 'warren diff --patch'; " \
		"'-': standard input",                                                   \
		opt_text, FIELD(wanted.patch.path)
#define OPT_PATHS_FROM                                                                               \
	NULL, "paths-from", 0, "FILE", "paths",                                                      \
		"only the paths in this file, each with a NUL byte at the end; '-': standard input", \
		opt_text, FIELD(wanted.paths_from.path)

static const struct opt accept_table[] = {
	{ NULL, "hunks", 'p', NULL, NULL, "choose file by file and hunk by hunk",
	  opt_flag, FIELD(hunks) },
	{ OPT_PATCH },
	{ OPT_PATHS_FROM },
	{ NULL, "as-commits", 0, NULL, NULL,
	  "accept the commits of the sandbox, as branch warren/NAME", opt_flag,
	  FIELD(as_commits) },
	{ NULL, "ignored", 0, NULL, NULL, "also accept files that .gitignore ignores",
	  opt_flag, FIELD(ignored) },
	{ NULL, "allow", 0, "KIND", "git",
	  "also accept changes that need permission: git, set-id, link or hidden",
	  decide_opt_allow, FIELD(allow) },
	{ NULL, "conflicts", 0, "HOW", "markers",
	  "what to do if you changed the same lines: stop (the default), skip, markers, theirs",
	  decide_opt_conflicts, FIELD(conflicts) },
	{ NULL, "force", 0, NULL, NULL,
	  "with --as-commits: replace the branch, even if commits are lost", opt_flag,
	  FIELD(force) },
	{ NULL, OPT_QUIET("print only problems", FIELD(quiet)) },
	{ NULL, OPT_JSON("print the result as one JSON object", FIELD(json)) },
};

static const struct opt reject_table[] = {
	{ NULL, "hunks", 'p', NULL, NULL, "choose file by file and hunk by hunk",
	  opt_flag, FIELD(hunks) },
	{ OPT_PATCH },
	{ OPT_PATHS_FROM },
	{ NULL, OPT_QUIET("print only problems", FIELD(quiet)) },
	{ NULL, OPT_JSON("print the result as one JSON object", FIELD(json)) },
};

/* clang-format off */
static const struct opt_conflict accept_conflict_table[] = {
	{ "hunks", "as-commits", "commits are accepted as a whole" },
	{ "patch", "as-commits", "commits are accepted as a whole" },
	{ "paths-from", "as-commits", "commits are accepted as a whole" },
	{ "hunks", "json", "a terminal is needed to choose hunks" },
	{ "hunks", "patch", "the patch says which hunks" },
	{ "patch", "paths-from", "the patch says which files" },
};
static const struct opt_conflict reject_conflict_table[] = {
	{ "hunks", "json", "a terminal is needed to choose hunks" },
	{ "hunks", "patch", "the patch says which hunks" },
	{ "patch", "paths-from", "the patch says which files" },
};
/* clang-format on */

static int decide_fail(const struct command *cmd, const struct warren_error *err)
{
	message_say(cmd->name, "%s", err->msg);
	return STATUS_FAILED;
}

/* Let the user choose hunks, and accept or reject them. */
static int decide_choose(const struct command *cmd, struct decide *d,
			 const struct decide_wanted *wanted, bool accept)
{
	AUTO_CHANGES struct changes changes = { 0 };
	const struct choose_options to_reject = { .verb = "Reject",
						  .allow = ~0U,
						  .ignored = CHOOSE_WITH_IGNORED,
						  .no_edit = true },
				    to_accept = { .verb = "Accept",
						  .allow = d->options.allow,
						  .ignored =
							  d->options.ignored
								  ? CHOOSE_WITH_IGNORED
								  : CHOOSE_NO_IGNORED };
	AUTO_CHOOSE_ITEMS struct choose_items items = { 0 }, all = { 0 };
	AUTO_CHOOSE struct choose c = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_PATHS struct input_paths paths = { 0 };
	int status = 0;
	int r = input_paths(&wanted->paths_from, wanted->paths, &paths, &err);

	if (r == 0)
		r = select_changes(d->work, paths.v,
				   d->options.ignored ? CHANGES_EXPAND : 0, &changes,
				   &err);
	if (r == 0)
		r = choose_make(d->work, &changes, accept ? &to_accept : &to_reject, &c,
				&err);
	if (r == 0 && accept)
		r = decide_all(&changes, &d->options, &all, &d->left, &err);
	if (r == 0)
		r = choose_run(&c, &err);
	if (r == 0) {
		message_say(cmd->name, "interrupted: nothing was changed");
		return STATUS_FAILED;
	}
	if (r > 0)
		r = choose_items(&c, &items, &err);
	if (r < 0)
		return decide_fail(cmd, &err);
	if (items.n)
		status = accept ? decide_accept(d, &items) : decide_reject(d, &items);
	else
		(void)printf("Nothing was chosen\n");
	if (status != STATUS_FAILED)
		decide_print_left(d, &d->left);
	return status;
}

/* ------------------------------------------------------------------ accept */

static void accept_put_commits(const struct work_commits *commits, struct buf *out)
{
	if (commits->n)
		buf_printf(out, "%zu new %s in branch ", commits->n,
			   commits->n == 1 ? "commit" : "commits");
	else
		buf_puts(out, "nothing is new: all commits are in branch ");
	show_path(commits->branch, out);
	buf_puts(out, "\n");
}

static void accept_json_commits(const struct work_commits *commits,
				const struct decide_done *done, struct buf *out)
{
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	json_str(&j, "id", done->id);
	show_json_path(&j, "branch", commits->branch);
	show_json_path(&j, "from", commits->from);
	json_str(&j, "commit", commits->commit);
	json_u64(&j, "commits", commits->n);
	decide_json_end(done, &j);
}

/* Name commits that are left; if nothing is left, remove the work. */
static void accept_commits_end(struct decide *d)
{
	AUTO_CHANGES struct changes left = { 0 };
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (!d->quiet && !d->json)
		decide_print_commits(d);
	d->done.listed = changes_list(d->work, 0, &left, &ignored) == 0;
	d->done.remaining = left.n;
	if (d->done.listed && decide_is_settled(d->work, &left))
		decide_finish(d);
	d->work = work_close(d->work);
}

static int accept_commits(const struct command *cmd, struct decide *d,
			  const struct decide_options *o)
{
	AUTO_COMMITS struct work_commits commits = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_BUF struct buf out = BUF_INIT(1 << 16);
	const unsigned flags = (o->force ? COMMITS_FORCE : 0) |
			       (o->allow & GUARD_HIDDEN ? COMMITS_HIDDEN : 0) |
			       (o->allow & GUARD_GIT ? COMMITS_GIT : 0);

	if (work_commits_accept(d->work, flags, &commits, &err) < 0)
		return decide_fail(cmd, &err);
	(void)memcpy(d->done.id, d->work->id, sizeof(d->done.id));
	if (!d->json && !d->quiet) {
		accept_put_commits(&commits, &out);
		if (message_print(cmd->name, &out))
			return STATUS_FAILED;
	}
	accept_commits_end(d);
	if (!d->json)
		return 0;
	accept_json_commits(&commits, &d->done, &out);
	return message_print(cmd->name, &out);
}

/* Accept the changes that are wanted and that the options permit. */
static int accept_wanted(const struct command *cmd, struct decide *d,
			 const struct decide_wanted *wanted)
{
	AUTO_DECIDE_FOUND struct decide_found found = { 0 };
	const bool named =
		wanted->paths[0] || wanted->paths_from.path || wanted->patch.path;
	struct warren_error err = WARREN_ERROR_INIT;
	int status;

	if (decide_find(d->work, wanted, &d->options, &found, &err) < 0)
		return decide_fail(cmd, &err);
	d->left = found.left;
	if (!found.items.n && !d->json) {
		decide_print_left(d, &found.left);
		message_say(cmd->name, "there is nothing to accept");
		return named || found.left.guarded ? STATUS_FAILED : 0;
	}
	status = decide_accept(d, &found.items);
	if (status == 0 || status == DECIDE_CONFLICTS)
		decide_print_left(d, &found.left);
	return status;
}

/* Open the work, and complete what is wanted of it. */
static int decide_open(const struct command *cmd, char **words, struct decide_options *o,
		       struct work **ret)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char **paths;
	const char *id = select_words(words, &paths);

	o->wanted.paths = paths;
	if ((o->as_commits || o->wanted.patch.path) && o->wanted.paths[0]) {
		(void)error_set(&err, EINVAL, "%s takes no paths",
				o->as_commits ? "--as-commits" : "--patch");
		return decide_fail(cmd, &err);
	}
	if (select_work(id, true, ret, &err) < 0)
		return decide_fail(cmd, &err);
	return 0;
}

static int decide_close(struct decide *d, int status)
{
	AUTO_BUF struct buf out = BUF_INIT(REPORT_MAX);

	if (status == STATUS_FAILED) {
		d->work = work_close(d->work);
		return status;
	}
	decide_finish(d);
	if (!d->json)
		return status;
	decide_put_json(d, &out);
	return message_print(d->command, &out) ? STATUS_FAILED : status;
}

static int cmd_accept(int argc, char **argv)
{
	struct decide_options o = { 0 };
	AUTO_WORK struct work *w = NULL;
	AUTO_DECIDE struct decide d = { .command = "accept", .wanted = &o.wanted };
	char **words = NULL;
	int status = 0;

	if (!command_operands(&work_accept, argc, argv, &o, 0, 0, &words, &status))
		return status;
	status = decide_open(&work_accept, words, &o, &w);
	if (status)
		return status;
	d.json = o.json;
	d.quiet = o.quiet;
	if (o.as_commits) {
		d.work = TAKE_PTR(w);
		status = accept_commits(&work_accept, &d, &o);
		d.work = work_close(d.work);
		return status;
	}
	d.options = (struct accept_options){ .allow = o.allow,
					     .ignored = o.ignored,
					     .conflicts = o.conflicts };
	d.hunks = o.hunks;
	d.work = TAKE_PTR(w);
	return decide_close(&d, o.hunks ? decide_choose(&work_accept, &d, &o.wanted, true)
					: accept_wanted(&work_accept, &d, &o.wanted));
}

/* ------------------------------------------------------------------ reject */

static int reject_wanted(const struct command *cmd, struct decide *d,
			 const struct decide_wanted *wanted)
{
	AUTO_DECIDE_FOUND struct decide_found found = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;

	if (decide_find(d->work, wanted, NULL, &found, &err) < 0)
		return decide_fail(cmd, &err);
	return decide_reject(d, &found.items);
}

static int cmd_reject(int argc, char **argv)
{
	struct decide_options o = { 0 };
	AUTO_WORK struct work *w = NULL;
	AUTO_DECIDE struct decide d = { .command = "reject" };
	char **words = NULL;
	int status = 0;

	if (!command_operands(&work_reject, argc, argv, &o, 0, 0, &words, &status))
		return status;
	status = decide_open(&work_reject, words, &o, &w);
	if (status)
		return status;
	d.json = o.json;
	d.quiet = o.quiet;
	d.work = TAKE_PTR(w);
	return decide_close(&d,
			    o.hunks ? decide_choose(&work_reject, &d, &o.wanted, false)
				    : reject_wanted(&work_reject, &d, &o.wanted));
}

static void decide_complete(int at, struct buf *out)
{
	if (at == 0)
		select_complete(out);
}

const struct command work_accept = {
	.name = "accept",
	.summary = "Apply changes of a work to the project.",
	.about =
		"WORK is the id or name of a work (see 'warren work'); by default, the only one of the\n"
		"current directory. Applies either all changes at the paths (by default, all changes of\n"
		"the work) or none. If you also changed a file, both changes are merged. When nothing\n"
		"is left to decide, the work is removed. Exit status: 1 if changes are in conflict.\n",
	.opts = &(const struct opts){ .table = accept_table,
				      .n = ARRAY_SIZE(accept_table),
				      .conflicts = accept_conflict_table,
				      .n_conflicts = ARRAY_SIZE(accept_conflict_table),
				      .operands = "[WORK [PATH...]]",
				      .example = "warren accept k3f9x2m7qd1w src",
				      .mixed = true },
	.run = cmd_accept,
	.complete = decide_complete,
};

const struct command work_reject = {
	.name = "reject",
	.summary = "Discard changes of a work.",
	.about =
		"WORK is the id or name of a work (see 'warren work'); by default, the only one of the\n"
		"current directory. Discards the changes at the paths (by default, all changes of the\n"
		"work). When nothing is left to decide, the work is removed.\n",
	.opts = &(const struct opts){ .table = reject_table,
				      .n = ARRAY_SIZE(reject_table),
				      .conflicts = reject_conflict_table,
				      .n_conflicts = ARRAY_SIZE(reject_conflict_table),
				      .operands = "[WORK [PATH...]]",
				      .example = "warren reject k3f9x2m7qd1w build.log",
				      .mixed = true },
	.run = cmd_reject,
	.complete = decide_complete,
};
