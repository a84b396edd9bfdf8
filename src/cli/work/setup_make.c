/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setup_make.c - run the steps that have no result yet, and keep what they leave
 *
 * A layer is the result of the first n steps, whatever determines them. If a file of a
 * later step has changed, only the steps from there on run again, on top of it; and if a
 * later step fails, it is kept. So the steps run in stages, which end after each step for
 * which that pays: as long as no step reads every file of the project, because after that
 * every change of the project needs a new result. A stage has its own sandbox, and is
 * verified before it is kept.
 *
 * A result of other first steps is never used, nor one with other inputs: it may have
 * what its steps left, such as files in the home directory that a changed script or
 * dependency no longer writes.
 *
 * Locks: this process has that of the whole result, and takes those of results of fewer
 * steps one at a time; a process that waits for a lock has only locks of more steps.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/strv.h"
#include "cli/command.h"
#include "cli/work/setup_print.h"
#include "cli/work/setup_run.h"
#include "os/tree_remove.h"

#define MAKE_NAMED_MAX 10 /* files that are named in messages */

struct setup_make {
	const struct setup_ready_options *o;
	const struct setup_store *store;
	struct setup_ready *ready;
	size_t end; /* the number of steps of the whole result */
	/* Those of the first n steps, before any step ran; "": no layer of them is kept.
	 */
	struct setup_key keys[SETUP_STEPS_MAX + 1];
	uint64_t took_ms;
};

/* ------------------------------------------------------------------- a result */

/* Name the first files of a list, which a project can make long. */
static void make_say_pruned(const struct setup_ready_options *o, char *const *list,
			    const char *did, const char *why, bool kept)
{
	size_t n = strv_len((union strv){ .list_const = list });

	if (o->options->quiet)
		return;
	for (size_t i = 0; i < n && i < MAKE_NAMED_MAX; i++) {
		struct buf AUTO_BUF name = BUF_INIT(8192);

		setup_print_text(&name, list[i]);
		message_say(o->command, "the setup %s %s, %s: it is %skept", did,
			    name.failed ? "a file" : name.data, why, kept ? "" : "not ");
	}
	if (n > MAKE_NAMED_MAX)
		message_say(o->command, "the setup %s %zu more such files%s", did,
			    n - MAKE_NAMED_MAX, n >= 1000 ? " or more" : "");
}

/* Remove what is not part of the result. */
static int make_clean(const struct setup_ready_options *o, struct setup_new *n,
		      struct warren_error *err)
{
	static const char *const rest[] = { "root/work",      "root/lock",
					    "root/upper/tmp", "root/upper/run",
					    "project/work",   "project/lock" };
	struct setup_pruned CLEANUP(setup_pruned_done) pruned = { 0 };
	AUTO_CLOSE int project = -1, upper = -1;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(rest); i++) {
		char dir[32];
		const char *name = strrchr(rest[i], '/') + 1;
		AUTO_CLOSE int fd = -1;

		(void)snprintf(dir, sizeof(dir), "%.*s", (int)(name - rest[i] - 1),
			       rest[i]);
		fd = openat(n->fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		r = fd < 0 ? -errno : tree_remove(n->fd, fd, name);
		if (r < 0 && r != -ENOENT)
			return error_errno(err, -r, "clean up the setup: %s", rest[i]);
	}
	project = openat(n->fd, "project", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	upper = openat(n->fd, "project/upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (project < 0 || upper < 0)
		return error_errno(err, errno, "inspect the changes of the setup");
	r = setup_prune(upper, o->project_fd, &pruned, err);
	if (r == 0)
		r = setup_split(project, err);
	if (r < 0)
		return r;
	make_say_pruned(o, pruned.changed, "changed", "which is a file of the project",
			false);
	make_say_pruned(o, pruned.added, "wrote",
			"which is neither in a directory of dependencies nor excluded by "
			".gitignore",
			false);
	return 0;
}

/* In the root, only what agents take as instructions is not part of the result. */
static int make_clean_root(const struct setup_make *m, const struct setup_new *n,
			   struct warren_error *err)
{
	struct setup_pruned CLEANUP(setup_pruned_done) pruned = { 0 };
	const struct setup_ready *ready = m->ready;
	AUTO_CLOSE int root =
		openat(n->fd, "root/upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = root < 0 ? error_errno(err, errno, "inspect what the setup wrote")
			 : setup_prune_root(root, ready->workdir, ready->env, &pruned,
					    err);

	if (r < 0)
		return r;
	make_say_pruned(m->o, pruned.added, "wrote",
			"which agents or all programs read as instructions", false);
	make_say_pruned(m->o, pruned.changed, "changed", "which shells or git read",
			true);
	return 0;
}

static uint64_t make_now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int make_commit(struct setup_make *m, struct setup_work *w,
		       struct warren_error *err)
{
	const struct setup_ready *r = m->ready;
	const struct setup_steps *steps = &r->plan.steps;
	struct setup_layer l = {
		.lock = -1,
		.project = (char *)(uintptr_t)m->o->project,
		.image = (char *)(uintptr_t)(r->image ? r->image : "host"),
		.created_ms = make_now_ms(),
		.took_ms = m->took_ms,
		.part = w->end < m->end,
	};
	char AUTO_STRV **titles = NULL;

	for (size_t i = 0; i < w->end; i++) {
		struct buf AUTO_BUF title = BUF_INIT(4096);

		if (steps->v[i].start)
			continue;
		buf_printf(&title, "%s%s%s", steps->v[i].title,
			   steps->v[i].dir[0] ? " in " : "", steps->v[i].dir);
		if (title.failed || strv_add(&titles, title.data) < 0)
			return error_errno(err, ENOMEM, "keep the setup");
	}
	l.steps = titles;
	(void)strcpy(l.key, m->keys[w->end].key);
	if (r->n_chain > 0)
		(void)strcpy(l.base, r->chain[0].key);
	return setup_store_commit(m->store, w->made, &l, err);
}

/* The user may have changed files while the steps ran: then the result has no valid key.
 */
static int make_check_key(const struct setup_make *m, size_t n, struct warren_error *err)
{
	struct setup_key now;
	int r = setup_ready_key(m->o, m->ready, n, &now, err);

	if (r == 0 && strcmp(now.key, m->keys[n].key) != 0)
		r = error_set(
			err, EAGAIN,
			"files that determine the setup changed while it ran; start "
			"again");
	return r;
}

/* Run the steps from @first to @end on top of the layers in use, and keep the result. */
static int make_stage(struct setup_make *m, size_t first, size_t end,
		      struct warren_error *err)
{
	struct setup_new n = { .fd = -1 };
	struct setup_work w = { .o = m->o,
				.ready = m->ready,
				.made = &n,
				.store_path = m->store->path,
				.first = first,
				.end = end,
				.verify_first = end == m->end ? 0 : first };
	int r = setup_store_begin(m->store, &n, err);

	if (r == 0)
		r = setup_steps_run(&w, err);
	m->took_ms += w.took_ms;
	if (r == 0)
		r = make_check_key(m, end, err);
	if (r == 0)
		r = make_clean(m->o, &n, err);
	if (r == 0)
		r = make_clean_root(m, &n, err);
	if (r == 0)
		r = make_commit(m, &w, err);
	setup_store_drop(m->store, &n);
	return r;
}

/* ------------------------------------------------------------------- stages */

/* Compute the keys of results that can be found again after a change of the project. */
static void make_keys(struct setup_make *m, const struct setup_key *whole)
{
	const struct setup_steps *steps = &m->ready->plan.steps;
	struct warren_error ignored = WARREN_ERROR_INIT;
	unsigned reads = 0;
	size_t last = steps->n;

	while (last > 0 && steps->v[last - 1].start)
		last--;
	for (size_t n = 1; n < last; n++) {
		reads |= steps->v[n - 1].reads;
		if (!(reads & SETUP_READS_ALL) && !steps->v[n - 1].start)
			(void)!setup_ready_key(m->o, m->ready, n, &m->keys[n], &ignored);
	}
	m->end = steps->n;
	m->keys[m->end] = *whole;
}

/* Use the result of as many steps as possible. Returns their number. */
static size_t make_use_nearest(struct setup_make *m)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	for (size_t n = m->end; n-- > 1;) {
		if (!m->keys[n].key[0])
			continue;
		if (setup_ready_use(m->store, m->keys[n].key, m->ready, &ignored) == 0 &&
		    m->ready->n_chain < SETUP_CHAIN_MAX)
			return n;
		/* Even if it has the maximum number of layers. */
		setup_ready_forget(m->ready);
	}
	return 0;
}

/* Where the stage that begins with step @first ends: there may be only so many layers. */
static size_t make_stage_end(const struct setup_make *m, size_t first)
{
	size_t all = 0, n, at = 0, each;

	for (n = 1; n < m->end; n++)
		all += m->keys[n].key[0] != 0;
	each = all / SETUP_CHAIN_MAX + 1;
	if (m->ready->n_chain + 1 >= SETUP_CHAIN_MAX)
		return m->end;
	for (n = 1; n < m->end; n++) {
		at += m->keys[n].key[0] != 0;
		if (n > first && m->keys[n].key[0] && at % each == 0)
			return n;
	}
	return m->end;
}

/* Make the result of the first @end steps, unless another process has just done that. */
static int make_part(struct setup_make *m, size_t first, size_t end,
		     struct warren_error *err)
{
	const char *key = m->keys[end].key;
	struct warren_error missing = WARREN_ERROR_INIT;
	struct setup_layer other = { .lock = -1 };
	int lock = setup_ready_lock(m->o, m->store, key, err), r = 0;

	if (lock < 0)
		return lock;
	if (setup_store_use(m->store, key, &other, &missing) < 0)
		r = make_stage(m, first, end, err);
	setup_layer_done(&other);
	setup_ready_forget(m->ready);
	if (r == 0)
		r = setup_ready_use(m->store, key, m->ready, err);
	setup_store_unlock(m->store, key, lock);
	return r;
}

/* Remove the results of these steps, and all that start from them. */
static int make_forget(struct setup_make *m, struct warren_error *err)
{
	int r = 0;

	for (size_t n = m->end; r == 0 && n > 0; n--)
		if (m->keys[n].key[0])
			r = setup_store_remove_above(m->store, m->keys[n].key, err);
	return r;
}

int setup_make(const struct setup_ready_options *o, const struct setup_store *store,
	       const struct setup_key *key, struct setup_ready *ready,
	       struct warren_error *err)
{
	struct setup_make m = { .o = o, .store = store, .ready = ready };
	size_t first = 0, end;
	int r = 0;

	make_keys(&m, key);
	if (o->refresh)
		r = make_forget(&m, err);
	else
		first = make_use_nearest(&m);
	for (end = make_stage_end(&m, first); r == 0 && end < m.end;
	     end = make_stage_end(&m, first)) {
		r = make_part(&m, first, end, err);
		first = end;
	}
	/* What another process made may have the maximum number of layers. */
	if (r == 0 && ready->n_chain == SETUP_CHAIN_MAX) {
		setup_ready_forget(ready);
		first = 0;
	}
	if (r == 0)
		r = make_stage(&m, first, m.end, err);
	setup_ready_forget(ready);
	return r < 0 ? r : setup_ready_use(store, key->key, ready, err);
}
