/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create_request.c - from a CreateSandbox to a row of the database and a spec for the
 * engine
 *
 * A field that the request omits gets the service's default. A value above a maximum or
 * against the policy is refused here, with an error in terms of the request; the warden
 * checks again. The spec is also stored as JSON, in the form that clients see.
 */
#include <errno.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "api/v1/network.h"
#include "api/v1/sandbox.h"
#include "base/json.h"
#include "base/snapshot_name.h"
#include "base/strv.h"
#include "config/config.h"
#include "proto/warden_proto.h"
#include "service/network/network.h"
#include "spec/spec.h"
#include "warden/warden.h"

static int refuse_above(struct api_error *err, const char *pointer, uint64_t asked,
			uint64_t max)
{
	int r = api_error_set(err, API_ERR_POLICY_REFUSED,
			      "%s: %ju is more than the %ju that the service allows",
			      pointer, (uintmax_t)asked, (uintmax_t)max);

	api_error_text(err, "pointer", "%s", pointer);
	return r;
}

int limits_read(const struct config *cfg, const struct body *body,
		struct warren_spec *spec, struct api_error *err)
{
	struct body limits = body_object(body, "limits");

	spec->persist = body_bool(body, "persist");
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++) {
		bool given = body_has(&limits, spec_limits[i].name);
		uint64_t max = cfg->max.limits[i];
		uint64_t value = given ? body_limit(&limits, i) : cfg->defaults.limits[i];
		char pointer[64];

		if (!given)
			spec->soft_limits |= spec_limits[i].bit;
		if (max && value > max && given) {
			(void)snprintf(pointer, sizeof(pointer), "/limits/%s",
				       spec_limits[i].name);
			return refuse_above(err, pointer, value, max);
		}
		/* A disk that persists has a size, for which its tenant is charged. */
		if (i == SPEC_DISK && spec->persist && value == 0)
			value = SPEC_PERSIST_DISK;
		spec_limit_set(spec, i, max && value > max ? max : value);
	}
	return 0;
}

static int create_request_read_env(const struct body *body, struct wanted *w)
{
	json_t *env = body_json(body, "env"), *value;
	size_t n = json_object_size(env), more = strv_len(network_trust_env), i = 0;
	const char *name;

	w->env = calloc(n + more + 1, sizeof(*w->env));
	w->env_texts = calloc(n + more + 1, sizeof(*w->env_texts));
	if (!w->env || !w->env_texts)
		return -ENOMEM;
	json_object_foreach(env, name, value)
	{
		if (asprintf(&w->env_texts[i], "%s=%s", name, json_string_value(value)) <
		    0) {
			w->env_texts[i] = NULL;
			return -ENOMEM;
		}
		w->env[i] = w->env_texts[i];
		i++;
	}
	for (size_t k = 0; w->terminates && k < more; k++) {
		const char *text = network_trust_env[k];

		if (json_object_getn(env, text, strcspn(text, "=")))
			continue;
		w->env_texts[i] = strdup(text);
		if (!w->env_texts[i])
			return -ENOMEM;
		w->env[i] = w->env_texts[i];
		i++;
	}
	w->spec.env = w->env;
	return 0;
}

static int create_request_read_labels(const struct body *body, struct wanted *w)
{
	json_t *labels = body_json(body, "labels"), *value;
	const char *key;

	w->labels = calloc(json_object_size(labels) + 1, sizeof(*w->labels));
	if (!w->labels)
		return -ENOMEM;
	json_object_foreach(labels, key, value) w->labels[w->row.n_labels++] =
		(struct db_label){ key, json_string_value(value) };
	w->row.labels = w->labels;
	return 0;
}

/* Write the spec as it is shown, with everything that is needed later. */
static void create_request_write_spec(const struct body *body, struct wanted *w)
{
	const struct warren_spec *s = &w->spec;
	struct json j = { .out = &w->text };
	json_t *env = body_json(body, "env"), *value;
	const char *name;

	json_open(&j, NULL, '{');
	for (size_t i = 0; i < spec_n_fields; i++)
		if (spec_fields[i].kind == SPEC_TEXT && spec_text_get(s, &spec_fields[i]))
			json_str(&j, spec_fields[i].name,
				 spec_text_get(s, &spec_fields[i]));
	json_open(&j, "env", '{');
	json_object_foreach(env, name, value)
		json_str(&j, name, json_string_value(value));
	json_close(&j, '}');
	spec_put_resources(&j, s);
	json_str(&j, "network", v1_network_names[w->network]);
	json_bool(&j, "read_only", s->read_only);
	json_str(&j, "on_idle", v1_on_idle_names[w->on_idle]);
	json_str(&j, "on_ttl", v1_on_ttl_names[w->on_ttl]);
	if (w->on_ttl != V1_ON_TTL_DELETE && w->row.expires_at)
		json_int(&j, SANDBOX_LIFETIME, w->row.expires_at - w->row.created_at);
	json_bool(&j, "persist", s->persist);
	json_bool(&j, "wake_on_use", w->wake_on_use);
	json_close(&j, '}');
}

/* Refuse fields that the backend does not support; no requested field is ignored. */
static int check_fields(const struct config_backend *b, const struct body *body,
			struct wanted *w, struct api_error *err)
{
	const struct {
		const char *field;
		bool refused;
		const char *why;
	} rules[] = {
		{ "image", b->images == BACKEND_IMAGES_NONE,
		  "has no images to choose from" },
		{ "platform", b->images != BACKEND_IMAGES_OURS,
		  "pulls images by itself" },
		{ "pull",
		  b->images != BACKEND_IMAGES_OURS && w->source.pull != BOX_PULL_MISSING,
		  "pulls missing images by itself" },
		{ "network", !b->network,
		  "does not control the network of its sandboxes" },
		{ "persist", !b->persists && body_bool(body, "persist"),
		  "cannot keep the files of its sandboxes on disk from the start" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		if (!rules[i].refused || !body_has(body, rules[i].field))
			continue;
		(void)api_error_set(err, API_ERR_NOT_SUPPORTED, "/%s: backend '%s' %s",
				    rules[i].field, b->name, rules[i].why);
		api_error_text(err, "pointer", "/%s", rules[i].field);
		api_error_text(err, "backend", "%s", b->name);
		return -EBADMSG;
	}
	if (b->images == BACKEND_IMAGES_NONE)
		w->spec.image = WIRE_NO_IMAGE;
	if (b->images == BACKEND_IMAGES_THEIRS && !body_has(body, "image")) {
		(void)api_error_set(
			err, API_ERR_INVALID_REQUEST,
			"/image: backend '%s' has no default image: name one of its images",
			b->name);
		api_error_text(err, "pointer", "/image");
		return -EBADMSG;
	}
	return 0;
}

/* Choose the backend and the tier as requested, or return an error. */
static int create_request_read_backend(const struct config *cfg, const char *tenant,
				       const struct body *body, struct wanted *w,
				       struct api_error *err)
{
	const char *name = body_text(body, "backend"), *tier = body_text(body, "tier");
	const struct config_backend *b = NULL;
	struct warren_error why = WARREN_ERROR_INIT;
	int r;

	r = config_select_backend(cfg, tenant, name,
				  tier ? (enum tier)tier_parse(tier) : TIER_NONE, &b,
				  &why);
	if (r < 0) {
		(void)api_error_set(err,
				    r == -ENODEV ? API_ERR_BACKEND_UNAVAILABLE
						 : API_ERR_TIER_UNAVAILABLE,
				    "%s: %s", r == -ENODEV ? "/backend" : "/tier",
				    why.msg);
		api_error_text(err, "pointer", "%s", r == -ENODEV ? "/backend" : "/tier");
		if (name)
			api_error_text(err, "backend", "%s", name);
		return -EBADMSG;
	}
	w->row.backend = b->name;
	w->row.tier = tier_names[b->tier];
	w->backend = b;
	w->source.theirs = b->images != BACKEND_IMAGES_OURS;
	return check_fields(b, body, w, err);
}

static int read_times(const struct config *cfg, const struct body *body,
		      struct sandbox_row *row, struct api_error *err)
{
	uint64_t ttl = body_has(body, "ttl_ms") ? (uint64_t)body_int(body, "ttl_ms")
						: cfg->defaults.ttl_ms;

	if (cfg->max.ttl_ms && (!ttl || ttl > cfg->max.ttl_ms)) {
		if (body_has(body, "ttl_ms"))
			return refuse_above(err, "/ttl_ms", ttl, cfg->max.ttl_ms);
		ttl = cfg->max.ttl_ms;
	}
	row->created_at = service_time();
	row->last_used = row->created_at;
	row->expires_at = ttl ? row->created_at + (int64_t)ttl : 0;
	row->idle_timeout_ms = body_has(body, "idle_timeout_ms")
				       ? (uint64_t)body_int(body, "idle_timeout_ms")
				       : cfg->defaults.idle_timeout_ms;
	return 0;
}

static int refuse_action(struct api_error *err, const char *field, const char *why)
{
	(void)api_error_set(err, API_ERR_NOT_SUPPORTED, "/%s: %s", field, why);
	api_error_text(err, "pointer", "/%s", field);
	return -EBADMSG;
}

/* `idle_action` is another name for `on_idle`; the request counts before its template. */
static int create_request_read_actions(const struct config *cfg, const struct body *asked,
				       const struct body *body, struct wanted *w,
				       struct api_error *err)
{
	bool alias = body_has(asked, "idle_action") ||
		     (body_has(body, "idle_action") && !body_has(asked, "on_idle"));
	const char *field = alias ? "idle_action" : "on_idle";
	const struct config_backend *b = config_backend(cfg, w->row.backend);
	bool hibernates = b && b->hibernates;

	if (body_has(asked, "idle_action") && body_has(asked, "on_idle")) {
		(void)api_error_set(err, API_ERR_INVALID_REQUEST,
				    "/idle_action: this is another name for on_idle; "
				    "give only one of them");
		api_error_text(err, "pointer", "/idle_action");
		return -EBADMSG;
	}
	w->on_idle = (enum v1_on_idle)body_word(body, field);
	w->on_ttl = (enum v1_on_ttl)body_word(body, "on_ttl");
	if (w->on_idle == V1_ON_IDLE_HIBERNATE && !hibernates)
		return refuse_action(err, field,
				     "its backend cannot hibernate sandboxes");
	if (w->on_ttl == V1_ON_TTL_HIBERNATE && !hibernates)
		return refuse_action(err, "on_ttl",
				     "its backend cannot hibernate sandboxes");
	if (w->on_ttl != V1_ON_TTL_DELETE && cfg->max.ttl_ms)
		return refuse_action(err, "on_ttl",
				     "the service deletes sandboxes at a maximum age");
	return 0;
}

/*
 * A pull makes the service connect to a host that the client names. Without the scope for
 * it, a client can use the local images, and those that the administrator chose.
 */
static int read_pull(const struct caller *caller, const struct body *asked,
		     struct wanted *w, struct api_error *err)
{
	int r;

	if (access_may(caller, "pull"))
		return 0;
	w->source.may_not_pull = body_has(asked, "image");
	w->spec.no_pull = w->source.may_not_pull;
	if (!body_has(asked, "pull") || w->source.pull != BOX_PULL_ALWAYS)
		return 0;
	r = api_error_set(err, API_ERR_FORBIDDEN,
			  "/pull: the token lacks the scope 'pull'");
	api_error_text(err, "scope", "pull");
	return r;
}

/* Find out whether the image is a snapshot of the tenant. */
static int read_snapshot(struct v1 *v1, const struct caller *caller,
			 const struct body *body, struct wanted *w, struct api_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	int r;

	if (!body_has(body, "image"))
		return 0;
	if (snapshot_is_ref(w->spec.image)) {
		r = api_error_set(err, API_ERR_INVALID_REQUEST,
				  "/image: name a snapshot by its name or id");
		api_error_text(err, "pointer", "/image");
		return r;
	}
	r = db_get_snapshot(service_db(v1->service), caller->tenant, w->spec.image,
			    &w->snapshot, &why);
	if (r == -ENOENT || !w->backend->snapshots)
		return 0;
	if (r < 0)
		return api_error_from(err, &why);
	(void)snprintf(w->snapshot_ref, sizeof(w->snapshot_ref), SNAPSHOT_REGISTRY "/%s",
		       w->snapshot.id);
	w->source.pull = BOX_PULL_NEVER;
	return 0;
}

static void create_request_fill_row(const struct caller *caller, const struct body *body,
				    struct wanted *w)
{
	id_make(w->row.id);
	w->row.state = SANDBOX_CREATING;
	w->row.owner = caller->tenant;
	w->row.image = w->spec.image;
	if (w->snapshot_ref[0]) {
		w->row.snapshot = w->snapshot.id;
		w->spec.image = w->snapshot_ref;
	}
	w->row.network = v1_network_names[w->network];
	w->row.policy = w->network == V1_NETWORK_POLICY ? w->policy.data : NULL;
	w->row.name = body_text(body, "name");
	w->row.template = body_text(body, "template");
	w->row.spec = w->text.data;
	w->row.memory = w->spec.memory;
	w->row.cpu_millis = w->spec.cpu_millis;
	w->row.disk = w->spec.disk;
}

int wanted_read(struct v1 *v1, const struct caller *caller, const struct body *body,
		struct wanted *w, struct api_error *err)
{
	const struct config *cfg = v1->config;
	const struct body *asked = body;
	struct warren_error why = WARREN_ERROR_INIT;
	int r;

	w->text = (struct buf)BUF_INIT(4U << 20);
	r = template_apply(v1, body, &w->merged, err);
	if (r < 0)
		return r;
	if (r == 1)
		body = &w->merged;
	w->spec = (struct warren_spec){
		.image = body_has(body, "image") ? body_text(body, "image") : cfg->image,
		.hostname = body_text(body, "hostname"),
		.user = body_text(body, "user"),
		.workdir = body_text(body, "workdir"),
		.read_only = body_bool(body, "read_only"),
	};
	w->source = (struct sandbox_source){ .pull = (enum sandbox_pull)body_word(body,
										  "pull"),
					     .platform = body_text(body, "platform") };
	w->wake_on_use = body_bool(body, "wake_on_use");
	w->policy = (struct buf)BUF_INIT(16U << 20);
	r = create_request_read_backend(cfg, caller->tenant, body, w, err);
	if (r == 0)
		r = network_read(
			v1, caller->tenant,
			access_may(caller, "secrets") || !body_has(asked, "network"),
			body, w->backend, &w->policy, &w->network, &w->terminates, err);
	w->spec.network = w->network == V1_NETWORK_NONE     ? WARREN_NETWORK_NONE
			  : w->network == V1_NETWORK_POLICY ? WARREN_NETWORK_CAPTURED
							    : WARREN_NETWORK_LOOPBACK;
	if (r == 0)
		r = read_pull(caller, asked, w, err);
	if (r == 0)
		r = read_snapshot(v1, caller, body, w, err);
	if (r == 0)
		r = limits_read(cfg, body, &w->spec, err);
	if (r == 0)
		r = read_times(cfg, body, &w->row, err);
	if (r == 0)
		r = create_request_read_actions(cfg, asked, body, w, err);
	if (r < 0)
		return r;
	if (create_request_read_env(body, w) < 0 ||
	    create_request_read_labels(body, w) < 0)
		return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	r = mounts_read(v1, caller->tenant, body, w, err);
	if (r < 0)
		return r;
	r = policy_check(v1->policy, &w->spec, &why);
	if (r < 0)
		return api_error_policy(err, &why);
	create_request_write_spec(body, w);
	mounts_finish(w);
	/* For the other backends, the service adds it while the sandbox is running. */
	if (w->terminates && !w->backend->trusts)
		w->mounts[w->spec.n_mounts++] =
			(struct warren_mount){ .source = v1->policy->bundle,
					       .target = WARREN_TRUST_FILE,
					       .read_only = true };
	if (w->text.failed)
		return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	create_request_fill_row(caller, body, w);
	return 0;
}

void wanted_done(struct wanted *w)
{
	(void)strv_free(w->env_texts);
	free((void *)w->env);
	mounts_done(w);
	snapshot_row_done(&w->snapshot);
	free(w->labels);
	buf_done(&w->text);
	buf_done(&w->policy);
	body_done(&w->merged);
}

void wanted_hash_all(const struct body *body, uint8_t hash[DB_HASH_SIZE])
{
	char *text =
		body->json ? json_dumps(body->json, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

	(void)SHA256((const unsigned char *)(text ? text : "{}"),
		     strlen(text ? text : "{}"), hash);
	free(text);
}

void wanted_hash(struct wanted *w, const struct body *body)
{
	w->request.key = body_text(body, "idempotency_key");
	if (w->request.key)
		wanted_hash_all(body, w->request.hash);
}
