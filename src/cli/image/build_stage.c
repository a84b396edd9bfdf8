/* SPDX-License-Identifier: Apache-2.0 */
/* build_stage.c - check and execute the instructions of the stages */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/date.h"
#include "base/strv.h"
#include "cli/image/build.h"
#include "cli/image/cancel.h"
#include "cli/image/report.h"
#include "image/image.h"
#include "image/oci.h"

bool build_cancelled(void)
{
	return cancel_signal() != 0 || (report_wanted() && !report_is_read());
}

/* ------------------------------------------------------------------- layers */

int build_layer_begin(struct build *b, struct store_new *ret, struct warren_error *err)
{
	int r = store_new_work(&b->store, ret, err);

	if (r == 0 && fchmod(ret->fd, 0755) < 0) {
		r = error_errno(err, errno, "create a directory for a layer");
		store_drop_layer(&b->store, ret);
	}
	return r;
}

static void layer_now(char text[DATE_SIZE])
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	date_iso(text, (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

/* Record the image of the step: the layers before it, and the new one. */
static int layer_record(struct build_step *step, const char *key, const char *diff_id,
			struct warren_error *err)
{
	struct build *b = step->b;
	struct build_stage *stage = &b->stages[step->k];
	AUTO_FREE char *config = NULL;
	char created[DATE_SIZE], id[REF_DIGEST_LEN + 1], private[256];
	struct store_image image;
	int r;

	layer_now(created);
	config = build_config_layers(created, &stage->image, diff_id);
	if (!config)
		return error_errno(err, ENOMEM, "describe the image");
	/* A step of a client's build belongs to the tenant. */
	if (b->request)
		(void)snprintf(private, sizeof(private), BUILD_STEP "%s",
			       b->request->tenant);
	r = build_store_image(&b->store, config,
			      stage->image.id[0] ? &stage->image : NULL,
			      b->request ? private : NULL, id, err);
	/* A step that the cache names can be removed unless it is locked. */
	if (r == 0)
		r = store_find(&b->store, id, &image, err);
	if (r < 0)
		return r;
	r = build_cache_put(&b->store, key, id, err);
	if (r < 0) {
		store_image_done(&image);
		return r;
	}
	store_image_done(&stage->image);
	stage->image = image;
	return 0;
}

/* In an image on top of `host`, the machine's directories hide those of layers. */
static int layer_check_host(const struct store_image *image, int layer,
			    struct warren_error *err)
{
	struct view v;
	AUTO_STRV char **names = NULL;
	int r;

	if (!image->base || strcmp(image->base, "host") != 0)
		return 0;
	r = view_open_plain(layer, &v);
	if (r == 0) {
		r = view_list(&v, "", &names);
		view_close(&v);
	}
	if (r < 0)
		return error_errno(err, -r, "list the new layer");
	for (char **n = names; n && *n; n++)
		if (image_is_host_tree(*n))
			return error_set(
				err, EROFS,
				"'/%s' is a directory of this machine in images on "
				"top of 'host', and cannot be changed",
				*n);
	return 0;
}

int build_layer_end(struct build_step *step, const char *key, struct store_new *layer,
		    int r, struct warren_error *err)
{
	struct store *s = &step->b->store;
	struct build_request *q = step->b->request;
	char diff_id[REF_DIGEST_LEN + 1];
	uint64_t bytes = 0;

	if (r >= 0)
		r = layer_check_host(&step->b->stages[step->k].image, layer->fd, err);
	if (r >= 0)
		r = build_store_finish(layer, build_cancelled, diff_id, &bytes, err);
	if (r >= 0 && q)
		r = build_request_count(q, bytes, err);
	if (r >= 0) {
		r = store_lock(s, false, true);
		if (r < 0)
			(void)error_errno(err, -r, "lock the image store");
	}
	if (r >= 0) {
		r = build_store_layer(s, layer, diff_id, bytes, err);
		if (r >= 0)
			r = layer_record(step, key, diff_id, err);
		store_unlock(s);
	}
	store_drop_layer(s, layer);
	return r;
}

int build_step_cached(struct build_step *step, char key[HASH_LEN + 1],
		      struct warren_error *err)
{
	struct build_stage *stage = &step->b->stages[step->k];
	struct store_image image;
	int r = hash_end(step->hash, key);

	if (r < 0)
		return error_errno(err, -r, "compute the key of a step");
	(void)strcpy(stage->key, key);
	if (step->b->o->no_cache || build_cache_find(&step->b->store, key, &image) < 0)
		return 0;
	store_image_done(&stage->image);
	stage->image = image;
	build_say(step->b, "CACHED");
	return 1;
}

/* ------------------------------------------------------------------ sources */

int build_open_source(struct build *b, size_t k, const char *from, struct view *ret,
		      struct store_image *ret_image, struct warren_error *err)
{
	size_t other = plan_find_stage(&b->plan, k, from);
	const struct store_image *image = ret_image;
	static char *none[] = { NULL };
	const struct store_image empty = { .layers = none };
	int r = 0;

	*ret_image = (struct store_image){ .lock = -1 };
	if (other == PLAN_NO_STAGE)
		r = build_base_image(b, from, ret_image, err);
	else
		image = b->stages[other].image.id[0] ? &b->stages[other].image : &empty;
	if (r == 0)
		r = view_open(&b->store, image, -1, ret, err);
	if (r < 0)
		store_image_done(ret_image);
	return r;
}

/* ------------------------------------------------------------- instructions */

static const struct {
	int (*run)(struct build_step *step, struct warren_error *err);
} builders[DOCKERFILE_KIND_MAX] = {
	[DOCKERFILE_ADD] = { build_copy },
	[DOCKERFILE_COPY] = { build_copy },
	[DOCKERFILE_RUN] = { build_run },
	[DOCKERFILE_WORKDIR] = { build_workdir },
};

/* Execute an instruction that can change files. 1: it added a layer. */
static int stage_step(struct build *b, size_t k, const struct dockerfile_instruction *i,
		      struct warren_error *err)
{
	AUTO_HASH struct hash *h = hash_new();
	struct build_step step = { b, k, i, h };

	b->stages[k].step++;
	build_say_step(b, k, i);
	hash_text(h, b->stages[k].key);
	hash_text(h, dockerfile_kind_name(i->kind));
	return builders[i->kind].run(&step, err);
}

/* Put the number of the line in front of the error, unless it is already there. */
static int stage_name_line(const struct build *b, const struct dockerfile_instruction *i,
			   int r, struct warren_error *err)
{
	char line[300];

	(void)snprintf(line, sizeof(line), "%s:%u: ", b->file.name, i->line);
	if (r < 0 && strncmp(err->msg, line, strlen(line)) != 0)
		return dockerfile_error(&b->file, i->line, err);
	return r;
}

static int stage_instruction(struct build *b, size_t k,
			     const struct dockerfile_instruction *i,
			     struct warren_error *err)
{
	struct build_stage *stage = &b->stages[k];
	int r = dockerfile_apply(&b->file, i, &b->plan.args, &stage->state, err);

	if (r < 0)
		return r;
	if (build_cancelled())
		return error_set(err, ECANCELED, "cancelled");
	if (builders[i->kind].run) {
		r = stage_name_line(b, i, stage_step(b, k, i, err), err);
		if (r < 0)
			return r;
	}
	build_config_history(stage->config, r > 0 ? stage->image.created : "", i->text,
			     r > 0);
	return 0;
}

static int stage_build(struct build *b, size_t k, struct warren_error *err)
{
	const struct plan_stage *plan = &b->plan.stages[k];
	int r = 0;

	b->stages[k].step = 1;
	build_say_step(b, k, &b->file.v[plan->from]);
	if (plan->base_stage != PLAN_NO_STAGE)
		r = build_base_begin(b, k, err);
	for (size_t i = plan->from + 1; r == 0 && i < plan->end; i++)
		r = stage_instruction(b, k, &b->file.v[i], err);
	b->stages[k].done = r == 0;
	return r;
}

/* -------------------------------------------------------------------- check */

/* An image that files are copied from is pulled before anything is executed. */
static int check_from(struct build *b, size_t stage, const char *from,
		      struct warren_error *err)
{
	struct store_image image;
	int r;

	if (!from || plan_find_stage(&b->plan, stage, from) != PLAN_NO_STAGE)
		return 0;
	r = build_base_image(b, from, &image, err);
	if (r == 0)
		store_image_done(&image);
	return r;
}

/* Refuse an unsupported instruction before anything is executed. */
static int check_instruction(struct build *b, size_t stage,
			     const struct dockerfile_instruction *i,
			     struct dockerfile_state *s, struct warren_error *err)
{
	struct dockerfile_copy copy;
	struct dockerfile_run run;
	int r = dockerfile_apply(&b->file, i, &b->plan.args, s, err);

	if (r == 0 && (i->kind == DOCKERFILE_COPY || i->kind == DOCKERFILE_ADD)) {
		r = dockerfile_copy_parse(&b->file, i, s, &copy, err);
		if (r < 0)
			return r;
		r = check_from(b, stage, copy.from, err);
		dockerfile_copy_done(&copy);
	}
	if (r == 0 && i->kind == DOCKERFILE_RUN) {
		r = dockerfile_run_parse(&b->file, i, &b->plan.args, s, &run, err);
		if (r < 0)
			return r;
		for (size_t k = 0; r == 0 && k < run.n_mounts; k++)
			r = check_from(b, stage, run.mounts[k].from, err);
		dockerfile_run_done(&run);
	}
	return r;
}

static int check_stage(struct build *b, size_t k, struct dockerfile_state *states,
		       struct warren_error *err)
{
	const struct plan_stage *plan = &b->plan.stages[k];
	const struct dockerfile_state *from;
	int r = 0;

	if (plan->base_stage == PLAN_NO_STAGE) {
		r = build_base_begin(b, k, err);
		if (r < 0)
			return dockerfile_error(&b->file, b->file.v[plan->from].line,
						err);
	}
	from = plan->base_stage == PLAN_NO_STAGE ? &b->stages[k].state
						 : &states[plan->base_stage];
	r = dockerfile_state_copy(from, &states[k]);
	if (r < 0)
		return error_errno(err, -r, "check the Dockerfile");
	for (size_t i = plan->from + 1; r == 0 && i < plan->end; i++)
		r = stage_name_line(
			b, &b->file.v[i],
			check_instruction(b, k, &b->file.v[i], &states[k], err), err);
	return r;
}

static int check_stages(struct build *b, struct warren_error *err)
{
	struct dockerfile_state *states = calloc(b->plan.n, sizeof(*states));
	int r = states ? 0 : error_errno(err, ENOMEM, "check the Dockerfile");

	for (size_t k = 0; r == 0 && k < b->plan.n; k++)
		if (b->plan.stages[k].needed)
			r = check_stage(b, k, states, err);
	for (size_t k = 0; states && k < b->plan.n; k++)
		dockerfile_state_done(&states[k]);
	free(states);
	return r;
}

int build_stages(struct build *b, struct warren_error *err)
{
	int r;

	b->stages = calloc(b->plan.n, sizeof(*b->stages));
	if (!b->stages)
		return error_errno(err, ENOMEM, "build the stages");
	for (size_t k = 0; k < b->plan.n; k++)
		b->stages[k].image.lock = -1;
	r = check_stages(b, err);
	for (size_t k = 0; r == 0 && k < b->plan.n; k++)
		if (b->plan.stages[k].needed)
			r = stage_build(b, k, err);
	return r;
}
