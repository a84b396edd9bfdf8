/* SPDX-License-Identifier: Apache-2.0 */
/* decide.c - accept or reject changes, and report the result */
#include "cli/work/decide.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/work/show.h"

enum {
	REPORT_MAX = 64 << 20
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

void decide_print_left(const struct decide *d, const struct decide_left *left)
{
	const char *id = d->work->id;

	if (d->quiet || d->json)
		return;
	if (changes_patterns_text(left->patterns))
		message_say(d->command, "%s", changes_patterns_text(left->patterns));
	if (left->ignored)
		message_say(d->command,
			    "%zu ignored %s left; to accept %s: warren accept %s "
			    "--ignored",
			    left->ignored, left->ignored == 1 ? "file is" : "files are",
			    left->ignored == 1 ? "it" : "them", id);
	if (left->moved)
		message_say(d->command,
			    "%zu of them %s moved to an ignored place, and %s also where "
			    "%s until then",
			    left->moved, left->moved == 1 ? "was" : "were",
			    left->moved == 1 ? "stays" : "stay",
			    left->moved == 1 ? "it was" : "they were");
	for (unsigned bit = 1; bit <= GUARD_HIDDEN; bit *= 2)
		if ((left->guards & bit) && bit != GUARD_DEVICE)
			message_say(d->command,
				    "some changes need permission (%s); to accept them: "
				    "warren accept %s --allow %s",
				    change_guard_reason((enum change_guard)bit), id,
				    change_guard_name((enum change_guard)bit));
	if (left->guards & GUARD_DEVICE)
		message_say(d->command, "%s", change_guard_reason(GUARD_DEVICE));
	if (left->repository)
		message_say(d->command,
			    "the repository changed; to get its commits as a branch: "
			    "warren accept %s --as-commits",
			    id);
	if (left->linked)
		message_say(d->command,
			    "a new worktree or submodule is not accepted, because its "
			    "repository is in several places: add it in the project");
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

void decide_put_json(struct buf *out, const char *id, size_t n,
		     const struct accept_result *r, const struct decide_left *left)
{
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	json_str(&j, "id", id);
	json_u64(&j, r ? "accepted" : "rejected", n);
	if (r) {
		json_u64(&j, "merged", r->merged);
		decide_json_conflicts(r, &j);
	}
	if (r && left)
		decide_json_left(left, &j);
	json_close(&j, '}');
	buf_puts(out, "\n");
}

static int decide_print_json(const struct decide *d, size_t n,
			     const struct accept_result *r)
{
	AUTO_BUF struct buf out = BUF_INIT(REPORT_MAX);

	decide_put_json(&out, d->work->id, n, r, &d->left);
	return message_print(d->command, &out);
}

static const char *decide_changes(size_t n)
{
	return n == 1 ? "change" : "changes";
}

int decide_accept(struct decide *d, const struct choose_items *items)
{
	AUTO_ACCEPT_RESULT struct accept_result result = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct accept_options o = d->options;
	int r, status = 0;

	o.ignored |= items->ignored;
	r = accept_changes(d->work, items->v, items->n, &o, &result, &err);
	if (r < 0 && r != -EEXIST) {
		message_say(d->command, "%s", err.msg);
		return STATUS_FAILED;
	}
	if (d->json)
		status = decide_print_json(d, result.accepted, &result);
	else if (!d->quiet && r == 0)
		(void)printf("%zu %s accepted%s\n", result.accepted,
			     decide_changes(result.accepted),
			     result.merged ? ", some merged with yours" : "");
	decide_print_conflicts(d, &result);
	if (r == -EEXIST && !d->json)
		message_say(d->command,
			    "nothing was accepted; decide with --conflicts skip, markers "
			    "or theirs");
	return status ? status : result.n_conflicts ? DECIDE_CONFLICTS : 0;
}

int decide_reject(struct decide *d, const struct choose_items *items)
{
	struct warren_error err = WARREN_ERROR_INIT;

	if (reject_changes(d->work, items->v, items->n, &err) < 0) {
		message_say(d->command, "%s", err.msg);
		return STATUS_FAILED;
	}
	if (d->json)
		return decide_print_json(d, items->n, NULL);
	if (!d->quiet)
		(void)printf("%zu %s rejected\n", items->n, decide_changes(items->n));
	return 0;
}

void decide_finish(struct decide *d)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CHANGES struct changes left = { 0 };
	bool speaks = !d->quiet && !d->json;

	if (changes_list(d->work, 0, &left, &err) < 0) {
		message_say(d->command, "%s", err.msg);
	} else if (!left.n && left.n_skipped) {
		if (speaks)
			(void)printf(
				"%zu %s too deep or cannot be read: nothing in %s is "
				"accepted or rejected; to discard the work: warren "
				"work --remove %s\n",
				left.n_skipped,
				left.n_skipped == 1 ? "directory is" : "directories are",
				left.n_skipped == 1 ? "it" : "them", d->work->id);
	} else if (left.n) {
		if (speaks)
			(void)printf("%zu %s left: warren diff %s --stat\n", left.n,
				     left.n == 1 ? "change is" : "changes are",
				     d->work->id);
	} else {
		if (speaks)
			(void)printf("Nothing is left to decide: work %s is removed\n",
				     d->work->id);
		if (work_remove(TAKE_PTR(d->work), &err) < 0)
			message_say(d->command, "%s", err.msg);
	}
	d->work = work_close(d->work);
}
