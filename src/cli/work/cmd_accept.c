/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_accept.c - warren accept: take over changes of a work; warren reject: discard them
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/common_options.h"
#include "cli/work/commands.h"
#include "cli/work/decide.h"
#include "cli/work/select.h"
#include "cli/work/show.h"
#include "work/commits.h"

struct decide_options {
	bool hunks, as_commits, ignored, force, quiet, json;
	unsigned allow;
	enum accept_conflicts conflicts;
};

#define FIELD(name) offsetof(struct decide_options, name)

static int decide_opt_allow(void *field, const char *value, struct warren_error *err)
{
	enum change_guard guard;
	unsigned *allow = field;
	int r = change_guard_parse(value, &guard, err);

	if (r < 0)
		return r;
	if (guard == GUARD_DEVICE)
		return error_set(err, EINVAL,
				 "'%s' is never accepted: use git, set-id, link or "
				 "hidden",
				 value);
	*allow |= guard;
	return 0;
}

static int decide_opt_conflicts(void *field, const char *value, struct warren_error *err)
{
	static const char *const names[] = {
		[ACCEPT_STOP] = "stop",
		[ACCEPT_SKIP] = "skip",
		[ACCEPT_MARKERS] = "markers",
		[ACCEPT_THEIRS] = "theirs",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(value, names[i]) == 0) {
			*(enum accept_conflicts *)field = (enum accept_conflicts)i;
			return 0;
		}
	return error_set(err, EINVAL, "'%s' is not stop, skip, markers or theirs", value);
}

static const struct opt accept_table[] = {
	{ NULL, "hunks", 'p', NULL, NULL, "choose file by file and hunk by hunk",
	  opt_flag, FIELD(hunks) },
	{ NULL, "as-commits", 0, NULL, NULL,
	  "get the commits of the sandbox, as branch warren/NAME", opt_flag,
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
	{ NULL, OPT_QUIET("print only problems", FIELD(quiet)) },
	{ NULL, OPT_JSON("print the result as one JSON object", FIELD(json)) },
};

/* clang-format off */
static const struct opt_conflict accept_conflict_table[] = {
	{ "hunks", "as-commits", "commits are taken over as a whole" },
	{ "hunks", "json", "a terminal is needed to choose hunks" },
};
static const struct opt_conflict reject_conflict_table[] = {
	{ "hunks", "json", "a terminal is needed to choose hunks" },
};
/* clang-format on */

static int decide_fail(const struct command *cmd, const struct warren_error *err)
{
	message_say(cmd->name, "%s", err->msg);
	return STATUS_FAILED;
}

/* Let the user choose hunks, and accept or reject them. */
static int decide_choose(const struct command *cmd, struct decide *d,
			 const struct changes *changes, const char *verb, bool accept)
{
	AUTO_CHOOSE_ITEMS struct choose_items items = { 0 };
	AUTO_CHOOSE struct choose c = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	int r = choose_make(d->work, changes, d->options.ignored || !accept, verb, &c,
			    &err);

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
	if (!items.n) {
		(void)printf("Nothing was chosen\n");
		return 0;
	}
	return accept ? decide_accept(d, &items) : decide_reject(d, &items);
}

/* ------------------------------------------------------------------ accept */

static int accept_commits(const struct command *cmd, struct work *w,
			  const struct decide_options *o)
{
	AUTO_COMMITS struct work_commits commits = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_BUF struct buf out = BUF_INIT(1 << 16);
	struct json j = { .out = &out };

	if (work_commits_accept(w, o->force, &commits, &err) < 0)
		return decide_fail(cmd, &err);
	if (o->json) {
		json_open(&j, NULL, '{');
		json_str(&j, "id", w->id);
		show_json_path(&j, "branch", commits.branch);
		show_json_path(&j, "from", commits.from);
		json_str(&j, "commit", commits.commit);
		json_u64(&j, "commits", commits.n);
		json_close(&j, '}');
		buf_puts(&out, "\n");
	} else if (!o->quiet) {
		buf_printf(&out, "%zu new %s in branch ", commits.n,
			   commits.n == 1 ? "commit" : "commits");
		show_path(commits.branch, &out);
		buf_puts(&out, "\n");
	}
	return message_print(cmd->name, &out);
}

/* Accept all changes at the paths that the options permit. */
static int accept_all(const struct command *cmd, struct decide *d,
		      const struct changes *changes, bool named)
{
	AUTO_CHOOSE_ITEMS struct choose_items items = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct decide_left left = { 0 };
	int status;

	if (decide_all(changes, &d->options, &items, &left, &err) < 0)
		return decide_fail(cmd, &err);
	if (!items.n && !d->json) {
		decide_print_left(d, &left);
		message_say(cmd->name, "there is nothing to accept");
		return named || left.guarded ? STATUS_FAILED : 0;
	}
	status = decide_accept(d, &items);
	if (status == 0 || status == DECIDE_CONFLICTS)
		decide_print_left(d, &left);
	return status;
}

static int cmd_accept(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CHANGES struct changes changes = { 0 };
	struct decide_options o = { 0 };
	AUTO_WORK struct work *w = NULL;
	struct decide d = { .command = "accept" };
	char **words = NULL;
	int status = 0, r;

	if (!command_operands(&work_accept, argc, argv, &o, 0, 0, &words, &status))
		return status;
	r = select_work(words[0], true, &w, &err);
	if (r < 0)
		return decide_fail(&work_accept, &err);
	if (o.as_commits && words[0] && words[1])
		return decide_fail(
			&work_accept,
			&(struct warren_error){ .msg = "--as-commits takes no paths" });
	if (o.as_commits)
		return accept_commits(&work_accept, w, &o);
	r = select_changes(w, words[0] ? words + 1 : NULL, o.ignored ? CHANGES_EXPAND : 0,
			   &changes, &err);
	if (r < 0)
		return decide_fail(&work_accept, &err);
	d.options = (struct accept_options){ .allow = o.allow,
					     .ignored = o.ignored,
					     .conflicts = o.conflicts };
	d.json = o.json;
	d.quiet = o.quiet;
	d.work = TAKE_PTR(w);
	status = o.hunks ? decide_choose(&work_accept, &d, &changes, "Accept", true)
			 : accept_all(&work_accept, &d, &changes, words[0] && words[1]);
	if (status == STATUS_FAILED)
		d.work = work_close(d.work);
	else
		decide_finish(&d);
	return status;
}

/* ------------------------------------------------------------------ reject */

static int reject_all(const struct command *cmd, struct decide *d,
		      const struct changes *changes)
{
	AUTO_CHOOSE_ITEMS struct choose_items items = { 0 };

	items.v = calloc(changes->n + 1, sizeof(*items.v));
	if (!items.v)
		return decide_fail(cmd, &(struct warren_error){ .msg = "out of memory" });
	for (; items.n < changes->n; items.n++)
		items.v[items.n].change = &changes->v[items.n];
	return decide_reject(d, &items);
}

static int cmd_reject(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CHANGES struct changes changes = { 0 };
	struct decide_options o = { 0 };
	AUTO_WORK struct work *w = NULL;
	struct decide d = { .command = "reject" };
	char **words = NULL;
	int status = 0, r;

	if (!command_operands(&work_reject, argc, argv, &o, 0, 0, &words, &status))
		return status;
	r = select_work(words[0], true, &w, &err);
	if (r == 0)
		r = select_changes(w, words[0] ? words + 1 : NULL, 0, &changes, &err);
	if (r < 0)
		return decide_fail(&work_reject, &err);
	d.json = o.json;
	d.quiet = o.quiet;
	d.work = TAKE_PTR(w);
	status = o.hunks ? decide_choose(&work_reject, &d, &changes, "Reject", false)
			 : reject_all(&work_reject, &d, &changes);
	if (status == STATUS_FAILED)
		d.work = work_close(d.work);
	else
		decide_finish(&d);
	return status;
}

static void decide_complete(int at, struct buf *out)
{
	if (at == 0)
		select_complete(out);
}

const struct command work_accept = {
	.name = "accept",
	.summary = "Take over changes of a work into the project.",
	.about =
		"WORK is the id or name of a work (see 'warren work'); by default, the only one of the\n"
		"current directory. All changes at the paths, or all changes, are taken over, or none.\n"
		"If you changed a file, too, both changes are merged. When nothing is left to decide,\n"
		"the work is removed. Exit status: 1 if changes are in conflict.\n",
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
		"current directory. All changes at the paths, or all changes, are discarded. When\n"
		"nothing is left to decide, the work is removed.\n",
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
