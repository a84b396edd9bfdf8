/* SPDX-License-Identifier: Apache-2.0 */
/* decide.c - accept or reject changes, and report the result */
#include "cli/work/decide.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/work/show.h"
#include "work/commits.h"

enum {
	REPORT_MAX = 64 << 20,
	COMMAND_MAX = 1 << 20
};

/* Is it listed on its own, but decided on with the new repository that it is in? */
static bool decide_is_covered(const struct changes *changes, const struct change *c)
{
	if (c->tree || !(c->guard & GUARD_GIT))
		return false;
	for (size_t i = 0; i < changes->n; i++) {
		const struct change *tree = &changes->v[i];
		size_t n = strlen(tree->path);

		if (show_is_new_repository(tree) &&
		    strncmp(c->path, tree->path, n) == 0 && c->path[n] == '/')
			return true;
	}
	return false;
}

void decide_check_commits(struct work *w, struct decide_left *left)
{
	AUTO_COMMITS_LEFT struct work_commits_left commits = { 0 };
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (left->repository && work_commits_left(w, &commits, &ignored) == 0)
		left->repository = commits.any;
}

bool decide_is_settled(struct work *w, const struct changes *changes)
{
	struct decide_left left = { .repository = true };

	if (changes->n_skipped || changes->n > 1)
		return false;
	if (changes->n == 0)
		return true;
	if (strcmp(changes->v[0].path, ".git") != 0 || !changes->v[0].tree ||
	    !changes->v[0].old_mode)
		return false;
	decide_check_commits(w, &left);
	return !left.repository;
}

int decide_all(const struct changes *changes, const struct accept_options *o,
	       struct choose_items *ret, struct decide_left *ret_left,
	       struct warren_error *err)
{
	struct choose_items items = { .ignored = o->ignored };
	struct decide_left left = { .patterns = changes->patterns };

	items.v = calloc(changes->n + 1, sizeof(*items.v));
	if (!items.v)
		return error_errno(err, ENOMEM, "list changes");
	for (size_t i = 0; i < changes->n; i++) {
		const struct change *c = &changes->v[i];
		unsigned missing = c->guard & ~o->allow;

		/* Only the bits are left; unless they are all, the rest is accepted. */
		if ((missing & GUARD_SETID) && !c->tree && (!c->ignored || o->ignored))
			left.guards |= GUARD_SETID;
		if (!change_is_set_id_only(c))
			missing &= ~(unsigned)GUARD_SETID;

		if (strcmp(c->path, ".git") == 0 && c->tree && c->old_mode) {
			left.repository = true;
		} else if (show_is_repository(c) && c->old_mode) {
			left.guarded++;
		} else if (show_is_linked(c)) {
			left.guarded++;
			left.linked = true;
		} else if (c->ignored && !o->ignored) {
			left.ignored += c->tree ? c->n_files : 1;
			left.moved += c->from != NULL;
		} else if (missing) {
			left.guarded++;
			left.guards |= missing;
		} else if (!decide_is_covered(changes, c)) {
			items.v[items.n++].change = c;
		}
	}
	*ret = items;
	*ret_left = left;
	return 0;
}

/* Print @text, and the command that accepts the changes which @text describes. */
static void decide_suggest(const struct decide *d, const char *text, const char *option)
{
	AUTO_BUF struct buf command = BUF_INIT(COMMAND_MAX);

	decide_put_command(d, option, &command);
	message_say(d->command, "%s: %s", text, command.data ? command.data : "");
}

static void decide_print_ignored(const struct decide *d, const struct decide_left *left)
{
	char text[256];
	size_t n =
		(size_t)snprintf(text, sizeof(text), "%zu ignored %s left", left->ignored,
				 left->ignored == 1 ? "file is" : "files are");

	if (left->moved)
		n += (size_t)snprintf(
			text + n, sizeof(text) - n,
			" (%zu of them %s moved to an ignored place, and %s in the old one, "
			"too)",
			left->moved, left->moved == 1 ? "was" : "were",
			left->moved == 1 ? "stays" : "stay");
	(void)snprintf(text + n, sizeof(text) - n, "; to accept %s",
		       left->ignored == 1 ? "it" : "them");
	decide_suggest(d, text, "--ignored");
}

static void decide_print_guard(const struct decide *d, enum change_guard guard)
{
	char text[256], option[64];

	(void)snprintf(text, sizeof(text),
		       "some changes need permission (%s); to accept them",
		       change_guard_reason(guard));
	(void)snprintf(option, sizeof(option), "--allow %s", change_guard_name(guard));
	decide_suggest(d, text, option);
}

void decide_print_commits(const struct decide *d)
{
	AUTO_COMMITS_LEFT struct work_commits_left left = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_BUF struct buf text = BUF_INIT(1 << 14);

	if (work_commits_left(d->work, &left, &err) < 0 || left.head)
		message_say(d->command,
			    "the repository changed; to get its commits as a branch: "
			    "warren accept %s --as-commits",
			    d->work->id);
	if (!left.others)
		return;
	work_commits_left_text(&left, d->work->id, &text);
	message_say(d->command, "the sandbox%s made commits in %s",
		    left.head ? " also" : "", text.data ? text.data : "other branches");
}

void decide_print_left(struct decide *d, const struct decide_left *left)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_CHANGES struct changes rest = { 0 };

	if (d->quiet || d->json)
		return;
	if ((left->ignored || left->guards) && d->wanted && d->wanted->paths[0] &&
	    changes_list(d->work, CHANGES_EXPAND, &rest, &ignored) == 0)
		d->rest = &rest;
	if (changes_patterns_text(left->patterns))
		message_say(d->command, "%s", changes_patterns_text(left->patterns));
	if (left->ignored)
		decide_print_ignored(d, left);
	for (unsigned bit = 1; bit <= GUARD_HIDDEN; bit *= 2)
		if ((left->guards & bit) && bit != GUARD_DEVICE)
			decide_print_guard(d, (enum change_guard)bit);
	if (left->guards & GUARD_DEVICE)
		message_say(d->command, "%s", change_guard_reason(GUARD_DEVICE));
	if (left->repository)
		decide_print_commits(d);
	if (left->linked)
		message_say(d->command,
			    "a new worktree or submodule is not accepted, because its "
			    "repository is in several places: add it in the project");
	d->rest = NULL;
}

/* ------------------------------------------------------------------ accept */

static void decide_put_file(struct buf *out, const char *what, const char *path)
{
	if (!path)
		return;
	buf_printf(out, "  %s: ", what);
	show_path(path, out);
	buf_puts(out, "\n");
}

void decide_print_conflicts(const struct decide *d, const struct accept_result *r)
{
	AUTO_BUF struct buf out = BUF_INIT(REPORT_MAX);

	for (size_t i = 0; i < r->n_conflicts; i++) {
		const struct accept_conflict *c = &r->conflicts[i];

		buf_puts(&out, "conflict: ");
		show_path(c->path, &out);
		buf_printf(&out, ": %s\n", c->reason);
		decide_put_file(&out, "your version", c->yours);
		decide_put_file(&out, "the sandbox's version", c->theirs);
		decide_put_file(&out, "both, with markers", c->merged);
	}
	if (!d->json && out.len)
		(void)fwrite(out.data, 1, out.len, stderr);
}

void decide_json_end(const struct decide_done *done, struct json *j)
{
	if (done->listed)
		json_u64(j, "remaining", done->remaining);
	else
		json_nil(j, "remaining");
	json_bool(j, "removed", done->removed);
	json_close(j, '}');
	buf_puts(j->out, "\n");
}

static void decide_json_conflicts(const struct accept_result *r, struct json *j)
{
	json_open(j, "conflicts", '[');
	for (size_t i = 0; i < r->n_conflicts; i++) {
		const struct accept_conflict *c = &r->conflicts[i];

		json_open(j, NULL, '{');
		show_json_path(j, "path", c->path);
		json_str(j, "reason", c->reason);
		show_json_path(j, "yours", c->yours);
		show_json_path(j, "theirs", c->theirs);
		show_json_path(j, "merged", c->merged);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void decide_json_left(const struct decide_left *left, struct json *j)
{
	json_open(j, "left", '{');
	json_u64(j, "ignored", left->ignored);
	json_u64(j, "guarded", left->guarded);
	json_open(j, "needs", '[');
	for (unsigned bit = 1; bit <= GUARD_HIDDEN; bit *= 2)
		if (left->guards & bit)
			json_str(j, NULL, change_guard_name((enum change_guard)bit));
	json_close(j, ']');
	json_bool(j, "repository", left->repository);
	json_close(j, '}');
}

void decide_put_json(const struct decide *d, struct buf *out)
{
	const struct decide_done *done = &d->done;
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	json_str(&j, "id", done->id);
	json_u64(&j, done->accepted ? "accepted" : "rejected", done->n);
	if (done->accepted) {
		json_u64(&j, "merged", done->result.merged);
		decide_json_conflicts(&done->result, &j);
		decide_json_left(&d->left, &j);
	}
	decide_json_end(done, &j);
}

void decide_done(struct decide *d)
{
	accept_result_done(&d->done.result);
}

static const char *decide_changes(size_t n)
{
	return n == 1 ? "change" : "changes";
}

int decide_accept(struct decide *d, const struct choose_items *items)
{
	struct decide_done *done = &d->done;
	struct warren_error err = WARREN_ERROR_INIT;
	struct accept_options o = d->options;
	int r;

	o.ignored |= items->ignored;
	decide_done(d);
	*done = (struct decide_done){ .accepted = true };
	r = accept_changes(d->work, items->v, items->n, &o, &done->result, &err);
	if (r < 0 && r != -EEXIST) {
		message_say(d->command, "%s", err.msg);
		return STATUS_FAILED;
	}
	(void)memcpy(done->id, d->work->id, sizeof(done->id));
	done->n = done->result.accepted;
	if (!d->json && !d->quiet && r == 0)
		(void)printf("%zu %s accepted%s\n", done->n, decide_changes(done->n),
			     done->result.merged ? ", some merged with yours" : "");
	decide_print_conflicts(d, &done->result);
	if (r == -EEXIST && !d->json)
		message_say(d->command,
			    "nothing was accepted; decide with --conflicts skip, markers "
			    "or theirs");
	return done->result.n_conflicts ? DECIDE_CONFLICTS : 0;
}

int decide_reject(struct decide *d, const struct choose_items *items)
{
	struct warren_error err = WARREN_ERROR_INIT;

	decide_done(d);
	d->done = (struct decide_done){ .n = items->n };
	if (reject_changes(d->work, items->v, items->n, &err) < 0) {
		message_say(d->command, "%s", err.msg);
		return STATUS_FAILED;
	}
	(void)memcpy(d->done.id, d->work->id, sizeof(d->done.id));
	if (!d->quiet && !d->json)
		(void)printf("%zu %s rejected\n", items->n, decide_changes(items->n));
	return 0;
}

/* ------------------------------------------------------------------ finish */

void decide_print_marked(const struct decide *d)
{
	if (!d->quiet && !d->json)
		(void)printf("Nothing is left to decide, but work %s keeps both versions "
			     "of files that were accepted with markers; to remove the "
			     "work: warren work --remove %s\n",
			     d->work->id, d->work->id);
}

static void decide_print_rest(const struct decide *d, const struct changes *left)
{
	if (d->quiet || d->json)
		return;
	if (left->n)
		(void)printf("%zu %s left: warren diff %s --stat\n", left->n,
			     left->n == 1 ? "change is" : "changes are", d->work->id);
	else
		(void)printf("%zu %s too deep or cannot be read: nothing in %s is "
			     "accepted or rejected; to discard the work: warren "
			     "work --remove %s\n",
			     left->n_skipped,
			     left->n_skipped == 1 ? "directory is" : "directories are",
			     left->n_skipped == 1 ? "it" : "them", d->work->id);
}

void decide_finish(struct decide *d)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CHANGES struct changes left = { 0 };
	int r = changes_list(d->work, 0, &left, &err);

	if (r == 0 && decide_is_settled(d->work, &left))
		changes_done(&left);
	d->done.listed = r == 0;
	d->done.remaining = left.n;
	if (r < 0) {
		message_say(d->command, "%s", err.msg);
	} else if (left.n || left.n_skipped) {
		decide_print_rest(d, &left);
	} else if (accept_has_marked(d->work)) {
		decide_print_marked(d);
	} else {
		if (!d->quiet && !d->json)
			(void)printf("Nothing is left to decide: work %s is removed\n",
				     d->work->id);
		d->done.removed = work_remove(TAKE_PTR(d->work), &err) == 0;
		if (!d->done.removed)
			message_say(d->command, "%s", err.msg);
	}
	d->work = work_close(d->work);
}
