/* SPDX-License-Identifier: Apache-2.0 */
/* build_base.c - the images that the stages of a build begin with */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/snapshot_name.h"
#include "cli/image/build.h"
#include "cli/image/pull.h"
#include "image/oci.h"
#include "image/snapshot.h"

#define DIR_PREFIX "dir:"

/* "dir:PATH" becomes an image of one layer. */
static int base_import(struct build *b, const char *path, char id[REF_DIGEST_LEN + 1],
		       struct warren_error *err)
{
	const struct oci_options o = { 0 };
	AUTO_CLOSE int fd = -1;

	if (!b->o->allow_dir)
		return error_set(
			err, EPERM,
			"'dir:%s' is a directory of this machine, outside of the "
			"context: use --allow-dir if you trust the Dockerfile",
			path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "open '%s'", path);
	return oci_import(&b->store, fd, NULL, &o, id, err);
}

/*
 * An image without layers that is stacked on `host`. It is remembered like a step, so
 * that the next build begins with the same one.
 */
static int base_host(struct build *b, struct store_image *ret, struct warren_error *err)
{
	const struct snapshot_options o = { .parent = "host" };
	AUTO_HASH struct hash *h = hash_new();
	char key[HASH_LEN + 1], id[REF_DIGEST_LEN + 1];
	int r;

	hash_text(h, "warren build 1 on host");
	r = hash_end(h, key);
	if (r < 0)
		return error_errno(err, -r, "compute the key of a step");
	if (build_cache_find(&b->store, key, ret) == 0)
		return 0;
	r = store_lock(&b->store, false, true);
	if (r < 0)
		return error_errno(err, -r, "lock the image store");
	r = snapshot_record(&b->store, NULL, &o, NULL, id, err);
	if (r == 0)
		r = build_cache_put(&b->store, key, id, err);
	if (r == 0)
		r = store_find(&b->store, id, ret, err);
	store_unlock(&b->store);
	return r;
}

static int base_check(const char *ref, struct store_image *image,
		      struct warren_error *err)
{
	const char *platform = oci_platform();
	size_t n = strlen(platform);

	if (strncmp(image->platform, platform, n) == 0 &&
	    (!image->platform[n] || image->platform[n] == '/'))
		return 0;
	(void)error_set(err, ENOTSUP, "image '%.200s' is for %s, and this machine is %s",
			ref, image->platform, platform);
	store_image_done(image);
	return -err->code;
}

int build_base_image(struct build *b, const char *ref, struct store_image *ret,
		     struct warren_error *err)
{
	const struct build_request *q = b->request;
	const struct pull_rules rules = { .public_only = q,
					  .for_project = b->o->for_project,
					  .insecure = q ? &q->insecure : NULL,
					  .trusted = q ? &q->trusted : NULL };
	char id[REF_DIGEST_LEN + 1];
	int r = q ? build_request_may_use(b, ref, err) : 0;

	if (b->o->for_project && ref_is_of_project(ref))
		return error_set(err, EPERM, "the image '%s' was built for a project",
				 ref);

	if (r < 0)
		return r;
	if (strcmp(ref, "host") == 0)
		return base_host(b, ret, err);
	if (q && snapshot_is_ref(ref)) {
		r = store_find(&b->store, ref, ret, err);
		return r < 0 ? r : base_check(ref, ret, err);
	}
	if (strncmp(ref, DIR_PREFIX, strlen(DIR_PREFIX)) == 0)
		r = base_import(b, ref + strlen(DIR_PREFIX), id, err);
	else
		r = image_pull_ref(&b->store, ref, &rules, !b->o->pull, b->o->quiet, id,
				   err);
	if (r == 0)
		r = store_find(&b->store, id, ret, err);
	return r < 0 ? r : base_check(ref, ret, err);
}

static int base_key(const struct build *b, struct build_stage *stage, const char *id,
		    struct warren_error *err)
{
	AUTO_HASH struct hash *h = hash_new();
	int r;

	hash_text(h, "warren build 1");
	hash_text(h, id);
	/* Another tenant's commands may have had another network. */
	if (b->request)
		hash_text(h, b->request->tenant);
	if (b->o->cache_scope) {
		hash_text(h, "scope");
		hash_text(h, b->o->cache_scope);
	}
	r = hash_end(h, stage->key);
	return r < 0 ? error_errno(err, -r, "compute the key of a step") : 0;
}

/* Begin with another stage, which keeps its own lock on its files. */
static int base_from_stage(struct build *b, const struct build_stage *from,
			   struct build_stage *stage, struct warren_error *err)
{
	int r = dockerfile_state_copy(&from->state, &stage->state);

	if (r < 0)
		return error_errno(err, -r, "begin a stage");
	(void)strcpy(stage->key, from->key);
	stage->config = json_deep_copy(from->config);
	return from->image.id[0]
		       ? store_find(&b->store, from->image.id, &stage->image, err)
		       : 0;
}

int build_base_begin(struct build *b, size_t k, struct warren_error *err)
{
	const struct plan_stage *plan = &b->plan.stages[k];
	struct build_stage *stage = &b->stages[k];
	int r = 0;

	if (plan->base_stage != PLAN_NO_STAGE)
		return base_from_stage(b, &b->stages[plan->base_stage], stage, err);
	if (strcmp(plan->base, "scratch") == 0) {
		stage->config = build_config_empty();
		return stage->config ? base_key(b, stage, "scratch", err)
				     : error_errno(err, ENOMEM, "begin a stage");
	}
	r = build_base_image(b, plan->base, &stage->image, err);
	if (r == 0)
		r = build_config_read(&b->store, stage->image.id, &stage->config, err);
	if (r == 0)
		r = build_config_state(stage->config, &stage->state, err);
	return r < 0 ? r : base_key(b, stage, stage->image.id, err);
}
