/* SPDX-License-Identifier: Apache-2.0 */
/* setup_run.c - find the layers of a project, or create them */
#include "cli/work/setup_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/strv.h"
#include "cli/command.h"
#include "cli/work/setup_ask.h"
#include "cli/work/setup_print.h"

/* -------------------------------------------------------------------- plan */

static int ready_plan_with(const struct setup_ready_options *o, char *const *image_env,
			   bool no_script, struct setup_ready *r,
			   struct warren_error *err)
{
	const struct run_options *given = o->options;
	struct setup_options options = {
		.project = o->project,
		.workdir = given->workdir,
		.image = given->image,
		.env = (const char *const *)given->env.v,
		.image_env = (const char *const *)image_env,
		.memory = r->memory,
		.no_script = no_script,
	};

	setup_plan_done(&r->plan);
	return setup_plan_make(o->project_fd, &options, &r->plan, err);
}

static char *ready_choose(const char *given, const char *planned)
{
	const char *text = given ? given : planned;

	return text ? strdup(text) : NULL;
}

const char *setup_ready_network(const struct setup_ready_options *o)
{
	const char *given = o->options->network.mode;

	return given && !o->starts ? given : "packages";
}

/* Decide on the image; one that is missing is built or pulled. */
static int ready_image(const struct setup_ready_options *o, struct setup_ready *r,
		       struct setup_image *image, struct warren_error *err)
{
	int failed = 0;

	if (o->options->image || !r->plan.build.dockerfile)
		r->image = ready_choose(o->options->image, r->plan.image);
	else
		failed = setup_image_build(o->project_fd, o->project, &r->plan.build,
					   o->hide, o->options, setup_ready_network(o),
					   &r->image, err);
	if (failed < 0)
		return failed;
	/* No registry has the image that was just built. */
	return !o->options->image && r->plan.build.dockerfile
		       ? setup_image_find(r->image, image, err)
		       : setup_image_get(o->options, r->image, image, err);
}

/* Variables may redirect a program. */
static void ready_say_for_command(const struct setup_ready_options *o,
				  const struct setup_plan *p)
{
	struct buf AUTO_BUF names = BUF_INIT(2048);

	for (char **v = p->env; v && *v; v++)
		buf_printf(&names, "%s%.*s", names.len ? ", " : "", (int)strcspn(*v, "="),
			   *v);
	if (names.len)
		message_say(o->command,
			    "the project sets these variables for the command: %s%s",
			    names.data, names.failed ? ", ..." : "");
}

static void ready_say_notes(const struct setup_ready_options *o,
			    const struct setup_plan *p)
{
	const struct network_options *network = &o->options->network;

	if (o->options->quiet)
		return;
	for (char **v = p->notes; v && *v; v++)
		message_say(o->command, "%s", *v);
	if (o->starts)
		ready_say_for_command(o, p);
	/* A user who gives rules has decided. */
	for (char **v = p->allow;
	     v && *v && !network->mode && network->rules.allow.n == 0; v++)
		message_say(o->command,
			    "the project wants to reach %s; allow it with --allow %s", *v,
			    *v);
}

/* Without an approval, the project is prepared as if it had no script. */
static int ready_approve(const struct setup_ready_options *o,
			 const struct setup_store *store, char *const *image_env,
			 struct setup_ready *r, struct warren_error *err)
{
	int yes = setup_ask_script(o, store, &r->plan, err);

	if (yes == 0) {
		r->refused = strdup(r->plan.ask);
		yes = r->refused ? ready_plan_with(o, image_env, true, r, err)
				 : error_errno(err, ENOMEM, "plan the setup");
	}
	if (yes < 0)
		return yes;
	yes = setup_ask_starts(o, store, &r->plan, err);
	r->starts = yes > 0;
	return yes < 0 ? yes : 0;
}

/* ------------------------------------------------------------------ layers */

/* Lock a layer and all layers below it, and add their directories. */
int setup_ready_use(const struct setup_store *store, const char *key,
		    struct setup_ready *r, struct warren_error *err)
{
	while (key[0]) {
		struct setup_layer *l = &r->chain[r->n_chain];
		AUTO_FREE char *root = NULL, *project = NULL, *below = NULL;
		int failed;

		if (r->n_chain == SETUP_CHAIN_MAX)
			return error_set(err, ELOOP,
					 "too many layers are on top of each other");
		failed = setup_store_use(store, key, l, err);
		if (failed < 0)
			return failed;
		r->n_chain++;
		if (asprintf(&root, "%s/%s/root/upper", store->path, l->key) < 0)
			root = NULL;
		if (asprintf(&project, "%s/%s/project/upper", store->path, l->key) < 0)
			project = NULL;
		if (asprintf(&below, "%s/%s/project/below", store->path, l->key) < 0)
			below = NULL;
		if (!root || !project || !below || strv_add(&r->root_layers, root) < 0 ||
		    strv_add(&r->project_layers, project) < 0 ||
		    strv_add(&r->below_layers, below) < 0)
			return error_errno(err, ENOMEM, "use the setup");
		key = l->base;
	}
	return 0;
}

void setup_ready_forget(struct setup_ready *r)
{
	while (r->n_chain > 0)
		setup_layer_done(&r->chain[--r->n_chain]);
	r->root_layers = strv_free(r->root_layers);
	r->project_layers = strv_free(r->project_layers);
	r->below_layers = strv_free(r->below_layers);
}

int setup_ready_key(const struct setup_ready_options *o, const struct setup_ready *r,
		    size_t n_steps, struct setup_key *ret, struct warren_error *err)
{
	const struct setup_key_of of = { .project = o->project,
					 .image_id = r->found.id,
					 .workdir = r->workdir,
					 .hidden = o->hidden };

	return setup_plan_key_of_prefix(o->project_fd, &r->plan, n_steps, &of, ret, err);
}

int setup_ready_lock(const struct setup_ready_options *o, const struct setup_store *store,
		     const char *key, struct warren_error *err)
{
	int lock = setup_store_lock(store, key, false, err);

	if (lock != -EWOULDBLOCK)
		return lock;
	if (!o->options->quiet)
		message_say(o->command,
			    "another process is running the same setup; waiting for it");
	return setup_store_lock(store, key, true, err);
}

static int ready_find_or_make(const struct setup_ready_options *o,
			      const struct setup_store *store,
			      const struct setup_key *key, struct setup_ready *r,
			      struct warren_error *err)
{
	struct warren_error missing = WARREN_ERROR_INIT;
	int lock, failed = 0;

	(void)strcpy(r->key, key->key);
	r->cached = !o->refresh && setup_ready_use(store, key->key, r, &missing) == 0;
	if (r->cached)
		return 0;
	setup_ready_forget(r);
	lock = setup_ready_lock(o, store, key->key, err);
	if (lock < 0)
		return lock;
	/* Another process may have made it before this one had the lock. */
	r->cached = !o->refresh && setup_ready_use(store, key->key, r, &missing) == 0;
	if (!r->cached) {
		setup_ready_forget(r);
		failed = setup_make(o, store, key, r, err);
	}
	setup_store_unlock(store, key->key, lock);
	return failed;
}

/* ------------------------------------------------------------------- ready */

static bool ready_has_steps(const struct setup_plan *p)
{
	for (size_t i = 0; i < p->steps.n; i++)
		if (!p->steps.v[i].start)
			return true;
	return false;
}

static int ready_env(struct setup_ready *r, struct warren_error *err)
{
	for (char **v = r->plan.env; v && *v; v++)
		if (strv_add(&r->env, *v) < 0)
			return error_errno(err, ENOMEM, "set the environment");
	return 0;
}

/* Variables of the image are filled when the image is known. */
static bool ready_needs_image_env(const struct setup_plan *p)
{
	for (char **v = p->env; v && *v; v++)
		if (strstr(*v, "${containerEnv:"))
			return true;
	for (size_t i = 0; i < p->steps.n; i++)
		if (strstr(p->steps.v[i].run, "${containerEnv:"))
			return true;
	return false;
}

/* The file that makes the next plan of this project faster. */
static int ready_memory(const struct setup_ready_options *o,
			const struct setup_store *store, struct setup_ready *r,
			struct warren_error *err)
{
	struct sha256 h = SHA256_INIT;
	char digits[SHA256_DIGITS + 1];

	sha256_text(&h, o->project);
	sha256_end(&h, digits);
	if (asprintf(&r->memory, "%s/.scan-%.32s", store->path, digits) < 0) {
		r->memory = NULL;
		return error_errno(err, ENOMEM, "plan the setup");
	}
	return 0;
}

static int ready_prepare(const struct setup_ready_options *o, struct setup_store *store,
			 struct setup_ready *r, struct warren_error *err)
{
	struct setup_key key;
	int failed = ready_memory(o, store, r, err);

	if (failed == 0)
		failed = ready_plan_with(o, NULL, false, r, err);
	if (failed == 0)
		ready_say_notes(o, &r->plan);
	if (failed == 0)
		failed = ready_image(o, r, &r->found, err);
	if (failed == 0 && ready_needs_image_env(&r->plan))
		failed = ready_plan_with(o, r->found.env, false, r, err);
	if (failed == 0)
		failed = ready_approve(o, store, r->found.env, r, err);
	if (failed == 0) {
		r->user = ready_choose(o->options->user, r->plan.user);
		r->workdir = ready_choose(o->options->workdir,
					  r->plan.workdir ? r->plan.workdir : o->project);
		failed = r->workdir ? ready_env(r, err)
				    : error_errno(err, ENOMEM, "plan the setup");
	}
	if (failed == 0 && ready_has_steps(&r->plan)) {
		failed = setup_ready_key(o, r, r->plan.steps.n, &key, err);
		if (failed == 0)
			failed = ready_find_or_make(o, store, &key, r, err);
	}
	return failed;
}

int setup_ready(const struct setup_ready_options *o, struct setup_ready *ret,
		struct warren_error *err)
{
	struct setup_ready r = SETUP_READY_INIT;
	struct setup_store store = { .fd = -1 };
	int failed;

	if (o->skip) {
		r.image = ready_choose(o->options->image, NULL);
		r.user = ready_choose(o->options->user, NULL);
		r.workdir = ready_choose(o->options->workdir, o->project);
		*ret = r;
		return r.workdir ? 0 : error_errno(err, ENOMEM, "plan the setup");
	}
	failed = setup_store_open(NULL, &store, err);
	if (failed == 0)
		failed = ready_prepare(o, &store, &r, err);
	setup_store_close(&store);
	if (failed < 0) {
		setup_ready_done(&r);
		return failed;
	}
	*ret = r;
	return 0;
}

void setup_ready_done(struct setup_ready *r)
{
	setup_ready_forget(r);
	setup_plan_done(&r->plan);
	free(r->memory);
	setup_image_done(&r->found);
	free(r->image);
	free(r->user);
	free(r->workdir);
	free(r->refused);
	(void)strv_free(r->env);
	*r = (struct setup_ready)SETUP_READY_INIT;
}

char *setup_ready_starts(const struct setup_ready *r)
{
	struct buf out = BUF_INIT(4 << 20);
	bool any = false;

	for (size_t i = 0; i < r->plan.steps.n; i++) {
		if (!r->plan.steps.v[i].start || !r->starts)
			continue;
		any = true;
		buf_printf(&out, "(\n%s\n) >&2 || echo 'postStartCommand failed' >&2\n",
			   r->plan.steps.v[i].run);
	}
	buf_puts(&out, "exec \"$@\"");
	if (!any || out.failed) {
		buf_done(&out);
		return NULL;
	}
	return out.data;
}
