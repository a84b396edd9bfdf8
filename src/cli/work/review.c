/* SPDX-License-Identifier: Apache-2.0 */
/* review.c - the questions about the changes of a work, after its command has ended */
#include "cli/work/review.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/work/choose.h"
#include "cli/work/decide.h"
#include "cli/work/keys.h"
#include "cli/work/pager.h"
#include "cli/work/show.h"
#include "work/commits.h"

/* What an answer leads to. */
enum review_step {
	REVIEW_AGAIN, /* ask the same question again */
	REVIEW_LIST,  /* list what is left, and ask about it */
	REVIEW_LEAVE, /* keep what is left */
};

struct review {
	struct decide d;
	struct changes changes;
	bool ignored; /* there are changes that .gitignore ignores */
	bool commits; /* the sandbox's repository has other commits or branches */
};

static void review_say(const char *text)
{
	(void)fputs(text, stdout);
	(void)fflush(stdout);
}

/* Find out whether there are commits. A command like `git status` changes other files. */
static int review_find_commits(struct review *v, struct warren_error *err)
{
	AUTO_COMMITS_LEFT struct work_commits_left left = { 0 };
	AUTO_CHANGES struct changes all = { 0 };
	struct warren_error ignored = WARREN_ERROR_INIT;
	bool repository = false;
	int r;

	v->commits = false;
	for (size_t i = 0; i < v->changes.n; i++)
		repository |= strcmp(v->changes.v[i].path, ".git") == 0 &&
			      v->changes.v[i].old_mode;
	if (!repository)
		return 0;
	r = changes_list(v->d.work, CHANGES_EXPAND, &all, err);
	for (size_t i = 0; r == 0 && i < all.n; i++)
		v->commits |= change_is_ref(&all.v[i]);
	/*
	 * Commits of a detached HEAD are only in the reflog. If git cannot tell, there
	 * may be some, and files can be reviewed all the same.
	 */
	if (r == 0 && !v->commits)
		v->commits =
			work_commits_left(v->d.work, &left, &ignored) < 0 || left.any;
	return r;
}

/* List the changes. Returns 1 if there are any to decide on. */
static int review_list(struct review *v, unsigned flags, struct warren_error *err)
{
	int r;

	changes_done(&v->changes);
	v->changes = (struct changes){ 0 };
	r = changes_list(v->d.work, flags, &v->changes, err);
	if (r == 0)
		r = review_find_commits(v, err);
	if (r < 0)
		return r;
	v->ignored = false;
	for (size_t i = 0; i < v->changes.n; i++)
		v->ignored |= v->changes.v[i].ignored;
	for (size_t i = 0; i < v->changes.n; i++)
		if (!show_is_repository(&v->changes.v[i]) || v->commits ||
		    show_is_new_repository(&v->changes.v[i]))
			return 1;
	return v->changes.n_skipped > 0;
}

static int review_kept(const struct review *v)
{
	const char *id = v->d.work->id;

	if (!v->d.quiet)
		message_say(v->d.command,
			    "the changes are kept; decide on them with 'warren diff "
			    "%s', 'warren accept %s' and 'warren reject %s'",
			    id, id, id);
	return REVIEW_KEPT;
}

/* ----------------------------------------------------------------- at once */

static int review_accept_all(struct review *v, struct warren_error *err)
{
	AUTO_CHOOSE_ITEMS struct choose_items items = { 0 };
	struct decide_left left = { 0 };
	int r = decide_all(&v->changes, &v->d.options, &items, &left, err);
	int status = 0;

	if (r < 0)
		return r;
	if (items.n)
		status = decide_accept(&v->d, &items);
	if (status == STATUS_FAILED)
		return error_set(err, EIO, "not all of them could be accepted");
	left.repository = v->commits;
	decide_print_left(&v->d, &left);
	return status;
}

static int review_reject_all(struct review *v, struct warren_error *err)
{
	AUTO_CHOOSE_ITEMS struct choose_items items = { 0 };

	items.v = calloc(v->changes.n + 1, sizeof(*items.v));
	if (!items.v)
		return error_errno(err, ENOMEM, "reject changes");
	for (; items.n < v->changes.n; items.n++)
		items.v[items.n].change = &v->changes.v[items.n];
	return decide_reject(&v->d, &items)
		       ? error_set(err, EIO, "not all of them could be rejected")
		       : 0;
}

/* Accept or reject all changes without a question. */
static int review_unasked(struct review *v, enum review_action action,
			  struct warren_error *err)
{
	int r;

	v->d.options.conflicts = ACCEPT_SKIP;
	r = action == REVIEW_ACCEPT ? review_accept_all(v, err)
				    : review_reject_all(v, err);
	if (r < 0)
		return r;
	r = review_list(v, 0, err);
	if (r <= 0)
		return r < 0 ? r : REVIEW_DONE;
	return action == REVIEW_REJECT ? REVIEW_DONE : review_kept(v);
}

/* --------------------------------------------------------------- questions */

/* Ask a question until one of @keys and Enter are typed; KEYS_END: the terminal ended. */
static int review_ask(const char *question, const char *keys)
{
	for (;;) {
		int key;

		review_say(question);
		key = keys_read();
		if (key == KEYS_END) {
			review_say("\n");
			return key;
		}
		if (key > KEYS_OTHER && strchr(keys, key))
			return key;
	}
}

static void review_summary(const struct review *v)
{
	AUTO_BUF struct buf out = BUF_INIT(SHOW_MAX);

	show_stat(&v->changes, show_width(STDOUT_FILENO), show_colors(STDOUT_FILENO),
		  &out);
	if (out.len)
		(void)fwrite(out.data, 1, out.len, stdout);
}

static enum review_step review_conflicts(struct review *v, struct warren_error *err)
{
	int key = review_ask(
		"Nothing is accepted yet. For files with conflicts: write [m]arkers into "
		"them, [s]kip them, [t]ake those of the sandbox, or [k]eep all for later "
		"[m,s,t,k]? ",
		"mstk");

	if (key == KEYS_END || key == 'k')
		return key == 'k' ? REVIEW_AGAIN : REVIEW_LEAVE;
	v->d.options.conflicts = key == 'm'   ? ACCEPT_MARKERS
				 : key == 's' ? ACCEPT_SKIP
					      : ACCEPT_THEIRS;
	if (review_accept_all(v, err) < 0) {
		message_say(v->d.command, "%s", err->msg);
		return REVIEW_LEAVE;
	}
	v->d.options.conflicts = ACCEPT_STOP;
	/* What was skipped would only be offered again. */
	return key == 's' ? REVIEW_LEAVE : REVIEW_LIST;
}

static enum review_step review_key_accept(struct review *v, struct warren_error *err)
{
	int r = review_accept_all(v, err);

	if (r < 0) {
		message_say(v->d.command, "%s", err->msg);
		return REVIEW_AGAIN;
	}
	return r == DECIDE_CONFLICTS ? review_conflicts(v, err) : REVIEW_LIST;
}

static enum review_step review_key_reject(struct review *v, struct warren_error *err)
{
	int key = review_ask("Discard all these changes for good [y,n]? ", "yn");

	if (key == 'n')
		return REVIEW_AGAIN;
	if (key == KEYS_END)
		return REVIEW_LEAVE;
	if (review_reject_all(v, err) == 0)
		return REVIEW_LIST;
	message_say(v->d.command, "%s", err->msg);
	return REVIEW_AGAIN;
}

static enum review_step review_key_choose(struct review *v, enum choose_ignored ignored,
					  struct warren_error *err)
{
	const struct choose_options o = { .verb = "Accept",
					  .ignored = ignored,
					  .ask_permission = true };
	AUTO_CHOOSE_ITEMS struct choose_items items = { 0 };
	AUTO_CHOOSE struct choose c = { 0 };
	int r = choose_make(v->d.work, &v->changes, &o, &c, err);

	if (r == 0 && c.n == 0) {
		review_say("There are no changes that can be chosen here.\n");
		return REVIEW_AGAIN;
	}
	if (r == 0)
		r = choose_run(&c, err);
	if (r == 0)
		return REVIEW_LEAVE;
	if (r > 0)
		r = choose_items(&c, &items, err);
	if (r < 0) {
		message_say(v->d.command, "%s", err->msg);
		return REVIEW_AGAIN;
	}
	if (!items.n)
		return REVIEW_LIST;
	/* The permissions that were given for them are in the items. */
	return decide_accept(&v->d, &items) ? REVIEW_AGAIN : REVIEW_LIST;
}

static enum review_step review_key_view(struct review *v)
{
	const struct unified_options options = {
		.context = PATCH_CONTEXT,
		.terminal = true,
		.colors = show_colors(STDOUT_FILENO),
	};
	AUTO_BUF struct buf out = BUF_INIT(SHOW_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	int r = 0;

	show_changes_rest(&v->changes, false, show_width(STDOUT_FILENO), options.colors,
			  &out);
	for (size_t i = 0; i < v->changes.n && r == 0; i++)
		if (show_in_diff(&v->changes.v[i]) && !v->changes.v[i].ignored)
			r = show_patch(v->d.work, &v->changes.v[i], &options, &out, &err);
	keys_pause();
	if (r == 0 && out.len)
		r = pager_show(&out, &err);
	keys_continue();
	if (r < 0)
		message_say(v->d.command, "%s", err.msg);
	return REVIEW_AGAIN;
}

static enum review_step review_key_branch(struct review *v)
{
	AUTO_COMMITS struct work_commits commits = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_BUF struct buf out = BUF_INIT(1 << 16);

	if (work_commits_accept(v->d.work, 0, &commits, &err) < 0) {
		message_say(v->d.command, "%s", err.msg);
		return REVIEW_AGAIN;
	}
	buf_printf(&out, "%zu new %s in branch ", commits.n,
		   commits.n == 1 ? "commit" : "commits");
	show_path(commits.branch, &out);
	buf_puts(&out, "\n");
	review_say(out.data ? out.data : "");
	return REVIEW_AGAIN;
}

static void review_help(const struct review *v)
{
	review_say("a - accept all changes that need no permission\n"
		   "r - reject all changes\n"
		   "c - choose file by file and hunk by hunk\n"
		   "v - view all differences in the pager\n");
	if (v->ignored)
		review_say("i - choose among the files that .gitignore ignores\n");
	if (v->commits)
		review_say("b - get the commits of the sandbox as a branch\n");
	review_say("k - keep the changes, and decide later (so do q and ^C)\n");
}

static enum review_step review_answer(struct review *v, int key, struct warren_error *err)
{
	switch (key) {
	case 'a':
		return review_key_accept(v, err);
	case 'r':
		return review_key_reject(v, err);
	case 'c':
		return review_key_choose(v, CHOOSE_NO_IGNORED, err);
	case 'i':
		return review_key_choose(v, CHOOSE_ONLY_IGNORED, err);
	case 'v':
		return review_key_view(v);
	case 'b':
		return review_key_branch(v);
	case 'k':
	case 'q':
		return REVIEW_LEAVE;
	default:
		break;
	}
	if (key == KEYS_END)
		return REVIEW_LEAVE;
	review_help(v);
	return REVIEW_AGAIN;
}

static int review_menu(const struct review *v)
{
	char question[256], keys[16];

	(void)snprintf(question, sizeof(question),
		       "[a]ccept all, [r]eject all, [c]hoose, %s[v]iew, %sor [k]eep for "
		       "later [a,r,c,%sv,%sk,?]? ",
		       v->ignored ? "[i]gnored files, " : "",
		       v->commits ? "get commits as [b]ranch, " : "",
		       v->ignored ? "i," : "", v->commits ? "b," : "");
	(void)snprintf(keys, sizeof(keys), "arcvkq?%s%s", v->ignored ? "i" : "",
		       v->commits ? "b" : "");
	return review_ask(question, keys);
}

static int review_asked(struct review *v, struct warren_error *err)
{
	enum review_step step = REVIEW_LIST;
	int r = 1;

	while (step != REVIEW_LEAVE) {
		if (step == REVIEW_LIST) {
			r = review_list(v, CHANGES_LINES, err);
			if (r <= 0)
				break;
			review_summary(v);
		}
		step = review_answer(v, review_menu(v), err);
	}
	return r < 0 ? r : r == 0 ? REVIEW_DONE : REVIEW_KEPT;
}

int review_at_exit(struct work *w, const struct review_options *o,
		   struct warren_error *err)
{
	struct review v = {
		.d = { .command = o->command, .work = w, .quiet = o->quiet },
	};
	int r = review_list(&v, 0, err);

	if (r == 0)
		r = REVIEW_DONE;
	else if (r > 0 && o->action != REVIEW_ASK)
		r = review_unasked(&v, o->action, err);
	else if (r > 0 && keys_begin()) {
		keys_settle();
		r = review_asked(&v, err);
		keys_end();
		if (r == REVIEW_KEPT)
			r = review_kept(&v);
	} else if (r > 0) {
		r = review_kept(&v);
	}
	/* The paths of files with markers were printed before. */
	if (r == REVIEW_DONE && accept_has_marked(w)) {
		decide_print_marked(&v.d);
		r = REVIEW_KEPT;
	}
	changes_done(&v.changes);
	decide_done(&v.d);
	return r;
}
