/* SPDX-License-Identifier: Apache-2.0 */
/* code.c - begin a code run: its plan, and its sandbox */
#include "api/code.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "config/config.h"
#include "proto/warden_proto.h"
#include "spec/spec.h"
#include "warden/warden.h"

/* Time to create the sandbox, and to collect the artifacts. */
#define CODE_GRACE_MS 660000

/* The languages and images of the configuration, in the form that the planner needs. */
struct api_code_config {
	struct code_settings settings;
	struct code_image images[CONFIG_LIST_MAX];
	char names[CONFIG_LIST_MAX][CODE_NAME_MAX + 1];
};

static void api_code_settings(const struct config *c, struct api_code_config *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < c->code_images.n && n < CONFIG_LIST_MAX; i++) {
		const char *text = c->code_images.items[i], *equals = strchr(text, '=');

		(void)snprintf(ret->names[n], sizeof(ret->names[n]), "%.*s",
			       (int)(equals - text), text);
		ret->images[n] = (struct code_image){ ret->names[n], equals + 1 };
		n++;
	}
	ret->settings = (struct code_settings){
		.table = { c->code_rows, c->n_code_rows },
		.images = ret->images,
		.n_images = n,
		.defaults = { .timeout_ms = c->code_timeout_ms,
			      .memory = c->code_memory,
			      .disk = c->code_disk,
			      .pids = c->code_pids },
		.max = { .timeout_ms = c->max.ttl_ms,
			 .memory = c->max.limits[SPEC_MEMORY],
			 .disk = c->max.limits[SPEC_DISK],
			 .pids = c->max.limits[SPEC_PIDS] },
	};
}

/* ---------------------------------------------------------- pulling images in advance */

static void api_code_on_pulled(struct image_waiter *w, int r,
			       const struct warren_error *err UNUSED)
{
	/* Do not report a failure now: when the image is needed, another pull is tried
	 * and reported. */
	if (r <= 0)
		free(w);
}

static void api_code_pull_one(struct service *s, const char *image)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct image_waiter *w;

	if (strcmp(image, "host") == 0 || strncmp(image, "dir:", 4) == 0)
		return;
	w = calloc(1, sizeof(*w));
	if (!w)
		return;
	w->fn = api_code_on_pulled;
	if (image_pull(s, DB_LOCAL, NULL, image, NULL,
		       IMAGE_IF_MISSING | IMAGE_PERSISTENT, w, &err) < 0)
		free(w);
}

void api_code_pull(struct service *s, const struct config *config)
{
	for (size_t i = 0; config->code_pull && i < config->code_images.n; i++)
		api_code_pull_one(s, strchr(config->code_images.items[i], '=') + 1);
	for (size_t i = 0; config->code_pull && i < config->n_code_rows; i++)
		if (config->code_rows[i].image)
			api_code_pull_one(s, config->code_rows[i].image);
}

/* --------------------------------------------------------------- errors and sandboxes */

/* "/field: ..." names the field. */
static int api_code_refuse(struct api_error *err, const struct warren_error *why)
{
	const char *colon = why->msg[0] == '/' ? strchr(why->msg, ':') : NULL;
	enum api_code code = why->code == EPERM    ? API_ERR_POLICY_REFUSED
			     : why->code == ENOMEM ? API_ERR_OVERLOADED
						   : API_ERR_INVALID_REQUEST;
	int r = api_error_set(err, code, "%s", why->msg);

	if (colon)
		api_error_text(err, "pointer", "%.*s", (int)(colon - why->msg), why->msg);
	return r;
}

void api_code_failed(struct api_error *err, const struct warren_error *why)
{
	if (why->msg[0] == '/' && why->code == ENOENT) {
		(void)api_error_set(err, API_ERR_COMMAND_NOT_FOUND, "%s", why->msg);
		api_error_text(err, "pointer", "%.*s", (int)strcspn(why->msg, ":"),
			       why->msg);
	} else if (why->msg[0] == '/') {
		(void)api_code_refuse(err, why);
	} else {
		(void)api_error_from(err, why);
	}
}

struct api_code_made {
	struct warren_spec spec;
	struct warren_mount mounts[2];
	struct sandbox_row row;
	struct sandbox_source source;
	struct buf text;
};

static int api_code_place(const struct code_client *where, const struct code_request *q,
			  struct api_code_made *m, struct api_error *err)
{
	const struct config_backend *b = NULL;
	struct warren_error why = WARREN_ERROR_INIT;
	int r = config_select_backend(
		where->config, where->caller->tenant, where->backend,
		where->tier ? (enum tier)tier_parse(where->tier) : TIER_NONE, &b, &why);

	if (r < 0)
		return api_error_set(err,
				     r == -ENODEV ? API_ERR_BACKEND_UNAVAILABLE
						  : API_ERR_TIER_UNAVAILABLE,
				     "%s: %s", r == -ENODEV ? "/backend" : "/tier",
				     why.msg);
	m->row.backend = b->name;
	m->row.tier = tier_names[b->tier];
	m->source.theirs = b->images != BACKEND_IMAGES_OURS;
	if (!b->network)
		return api_error_set(
			err, API_ERR_NOT_SUPPORTED,
			"/backend: '%s' cannot disable the network of its sandboxes, and code must run without a network",
			b->name);
	if (b->images == BACKEND_IMAGES_NONE && q->image)
		return api_error_set(err, API_ERR_NOT_SUPPORTED,
				     "/image: backend '%s' has no images to choose from",
				     b->name);
	if (b->images == BACKEND_IMAGES_NONE)
		m->spec.image = WIRE_NO_IMAGE;
	if (b->images == BACKEND_IMAGES_THEIRS && strcmp(m->spec.image, "host") == 0)
		return api_error_set(
			err, API_ERR_INVALID_REQUEST,
			"/image: backend '%s' has no default image: name one of its images",
			b->name);
	return 0;
}

/* Write the spec as clients see it. After a restart, the next process uses it to delete
 * the sandbox. */
static void api_code_write_spec(struct api_code_made *m)
{
	const struct warren_spec *s = &m->spec;
	struct json j = { .out = &m->text };

	json_open(&j, NULL, '{');
	json_str(&j, "image", s->image);
	json_str(&j, "workdir", s->workdir);
	json_open(&j, "env", '{');
	json_close(&j, '}');
	spec_put_resources(&j, s);
	json_str(&j, "network", "none");
	json_bool(&j, "read_only", true);
	json_str(&j, "on_idle", "delete");
	json_bool(&j, "wake_on_use", false);
	json_bool(&j, "code_run", true);
	json_close(&j, '}');
}

/* The sandbox has no network, a read-only root, and two filesystems in memory that it
 * can write to. */
static void api_code_spec(const struct code_client *where, const struct code_plan *p,
			  struct api_code_made *m)
{
	const struct config *c = where->config;

	m->mounts[0] =
		(struct warren_mount){ .target = CODE_DIR, .size = p->limits.disk };
	m->mounts[1] = (struct warren_mount){ .target = "/tmp", .size = p->tmp };
	m->spec = (struct warren_spec){
		.image = p->image,
		.workdir = CODE_DIR,
		.network = WARREN_NETWORK_NONE,
		.read_only = true,
		.mounts = m->mounts,
		.n_mounts = ARRAY_SIZE(m->mounts),
		.soft_limits = SPEC_LIMIT_BITS,
	};
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++)
		spec_limit_set(&m->spec, i, c->defaults.limits[i]);
	m->spec.memory = p->limits.memory;
	m->spec.pids = p->limits.pids;
	m->spec.disk = CODE_DISK_MIN;
	if (where->cpu_millis)
		m->spec.cpu_millis = where->cpu_millis;
}

/* A limit in the client's request is enforced, or the run is refused. */
static void api_code_insist(const struct code_client *where, const struct code_request *q,
			    struct warren_spec *spec)
{
	if (q->limits.memory)
		spec->soft_limits &= ~(uint64_t)WARREN_LIMIT_MEMORY;
	if (q->limits.pids)
		spec->soft_limits &= ~(uint64_t)WARREN_LIMIT_PIDS;
	if (where->cpu_millis)
		spec->soft_limits &= ~(uint64_t)WARREN_LIMIT_CPU;
}

static int api_code_make(const struct code_client *where, const struct code_request *q,
			 const struct code_plan *p, struct api_code_made *m,
			 struct api_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	int r;

	api_code_spec(where, p, m);
	api_code_insist(where, q, &m->spec);
	r = api_code_place(where, q, m, err);
	if (r < 0)
		return r;
	r = policy_check(where->policy, &m->spec, &why);
	if (r < 0)
		return api_error_policy(err, &why);
	/* Pulling an image that the client names requires the scope for it. */
	m->source.may_not_pull = q->image && !access_may(where->caller, "pull");
	m->spec.no_pull = m->source.may_not_pull;
	api_code_write_spec(m);
	if (m->text.failed)
		return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	id_make(m->row.id);
	m->row.state = SANDBOX_CREATING;
	m->row.owner = where->caller->tenant;
	m->row.image = m->spec.image;
	m->row.network = "none";
	m->row.spec = m->text.data;
	m->row.memory = m->spec.memory;
	m->row.cpu_millis = m->spec.cpu_millis;
	m->row.disk = m->spec.disk;
	m->row.created_at = m->row.last_used = service_time();
	m->row.expires_at =
		m->row.created_at + (int64_t)(p->limits.timeout_ms + CODE_GRACE_MS);
	return 0;
}

/* api_error_from() maps errors of the core. */
static int api_code_start(const struct code_client *where, struct code_plan *p,
			  struct api_code_made *m, const struct code_callbacks *callbacks,
			  void *ctx, struct code_run **ret, struct api_error *err)
{
	struct code_sandbox sandbox = { &m->row, &m->spec, &m->source };
	struct warren_error why = WARREN_ERROR_INIT;
	int r = code_begin(where->service, p, &sandbox, callbacks, ctx, ret, &why);

	if (r == 0)
		return 0;
	(void)api_error_from(err, &why);
	if (r == -EDQUOT || r == -EUSERS)
		api_error_denial(err, service_denied(where->service, &why));
	return -EBADMSG;
}

int api_code_begin(const struct code_client *where, const struct code_request *request,
		   const struct code_callbacks *callbacks, void *ctx,
		   struct code_run **ret, struct api_error *err)
{
	AUTO_CODE_PLAN struct code_plan plan = { 0 };
	struct api_code_made made = { .text = BUF_INIT(64U << 10) };
	AUTO_FREE struct api_code_config *config = calloc(1, sizeof(*config));
	struct warren_error why = WARREN_ERROR_INIT;
	int r;

	if (!config)
		return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	api_code_settings(where->config, config);
	if (code_plan_make(&config->settings, request, &plan, &why) < 0)
		return api_code_refuse(err, &why);
	r = api_code_make(where, request, &plan, &made, err);
	if (r == 0)
		r = api_code_start(where, &plan, &made, callbacks, ctx, ret, err);
	buf_done(&made.text);
	return r;
}
