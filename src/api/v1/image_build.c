/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_build.c - handler: build an image from a Dockerfile
 *
 * The options are checked here, by the rules for a new sandbox. They and the body, a tar
 * archive, go to warren-image(1) through a pipe (cli/image/build_request.h). Its output
 * is sent as events; while the client does not read, the build waits. It ends when the
 * client is gone.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/v1/image_archive.h"
#include "api/v1/network.h"
#include "api/v1/sandbox.h"
#include "base/clock.h"
#include "base/json.h"
#include "config/config.h"
#include "net/loop.h"
#include "spec/spec.h"

#define BUILD_HEARTBEAT_MS 15000
#define BUILD_EVENT_MAX    (1U << 20)
#define BUILD_OPTIONS_MAX  (16U << 20)
#define NS_PER_MS          1000000ULL

/* ------------------------------------------------------------------------ events */

/* Send an event, and begin the stream with the first one. False: the client is slow. */
static bool build_put_event(struct image_archive *a, const struct buf *json)
{
	AUTO_BUF struct buf out = BUF_INIT(BUILD_EVENT_MAX);

	if (!a->begun)
		call_begin_stream(a->call, a->sse);
	a->begun = true;
	if (a->sse)
		buf_puts(&out, "data: ");
	buf_add(&out, json->data, json->len);
	buf_puts(&out, a->sse ? "\n\n" : "\n");
	return http_write(a->call->req, out.data, out.len) == 0;
}

static void build_close(struct image_archive *a)
{
	a->stream = image_stream_cancel(a->stream);
	image_archive_close(a);
	a->timer = loop_timer_free(a->timer);
}

/* Everything that the Dockerfile or the context caused is one kind of error. */
static void build_error(const struct warren_error *why, struct api_error *ret)
{
	static const int others[] = { ENOSPC, ENOMEM, EAGAIN,    EMFILE,    ENFILE,
				      EUSERS, EDQUOT, ESHUTDOWN, ETIMEDOUT, EPROTO };

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (why->code == others[i]) {
			(void)api_error_from(ret, why);
			return;
		}
	(void)api_error_set(ret, API_ERR_BUILD_FAILED, "%s", why->msg);
}

static void build_fail(struct image_archive *a, const struct warren_error *why)
{
	AUTO_BUF struct buf out = BUF_INIT(BUILD_EVENT_MAX);
	struct api_error err = { 0 };
	struct call *c = a->call;

	build_close(a);
	build_error(why, &err);
	if (!a->begun) {
		call_error(c, &err);
		return;
	}
	buf_puts(&out, "{\"type\":\"error\",\"error\":");
	api_error_write(&err, http_request_id(c->req), &out);
	buf_puts(&out, "}");
	(void)build_put_event(a, &out);
	if (c->state == a)
		(void)http_end(c->req);
}

static void build_on_done(void *ctx, int r, const char *lines, size_t size,
			  const struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(BUILD_EVENT_MAX);
	struct image_archive *a = ctx;
	struct call *c = a->call;
	struct json j = { .out = &out };
	bool first = true;

	a->stream = NULL;
	if (r < 0) {
		build_fail(a, err);
		return;
	}
	build_close(a);
	json_open(&j, NULL, '{');
	json_str(&j, "type", "done");
	for (const char *end; (end = memchr(lines, '\n', size)); lines = end + 1) {
		json_t *line = json_loadb(lines, (size_t)(end - lines), 0, NULL);
		const char *name = json_string_value(json_object_get(line, "reference"));

		if (first) {
			json_str(&j, "id",
				 json_string_value(json_object_get(line, "id")));
			json_open(&j, "names", '[');
			first = false;
		}
		if (name)
			json_str(&j, NULL, name);
		json_decref(line);
		size -= (size_t)(end - lines) + 1;
	}
	if (!first)
		json_close(&j, ']');
	json_close(&j, '}');
	(void)call_ref(c);
	(void)build_put_event(a, &out);
	if (c->state == a)
		(void)http_end(c->req);
	call_unref(c);
}

static bool build_on_output(void *ctx, const char *text, size_t n)
{
	AUTO_BUF struct buf out = BUF_INIT(BUILD_EVENT_MAX);
	struct image_archive *a = ctx;
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	json_str(&j, "type", "output");
	json_strn(&j, "text", text, n);
	json_close(&j, '}');
	return build_put_event(a, &out);
}

static void build_on_drained(struct http_request *req)
{
	const struct image_archive *a = ((struct call *)req->user)->state;

	if (a && a->stream)
		image_stream_resume(a->stream);
}

static void build_stop(struct call *c, bool last)
{
	struct image_archive *a = c->state;
	struct warren_error why = WARREN_ERROR_INIT;

	if (!last || !a || !a->stream)
		return;
	(void)error_set(&why, ESHUTDOWN, "the service is stopping: try again");
	build_fail(a, &why);
}

static void build_on_timer(void *ctx)
{
	AUTO_BUF struct buf out = BUF_INIT(64);
	struct image_archive *a = ctx;
	struct warren_error why = WARREN_ERROR_INIT;
	uint64_t now = clock_now(), left;

	if (now >= a->deadline) {
		(void)error_set(&why, ETIMEDOUT,
				"the build did not end within its time (timeout_ms)");
		build_fail(a, &why);
		return;
	}
	left = (a->deadline - now) / NS_PER_MS + 1;
	loop_timer_set(a->timer, left < BUILD_HEARTBEAT_MS ? left : BUILD_HEARTBEAT_MS);
	buf_puts(&out, "{\"type\":\"heartbeat\"}");
	if (a->begun)
		(void)build_put_event(a, &out);
}

/* ----------------------------------------------------------------------- options */

/* `limits` and `network` are checked as those of a new sandbox. */
static int build_read_body(const struct call *c, struct body *ret, struct api_error *err)
{
	static const struct {
		const char *name;
		unsigned param;
	} objects[] = { { "limits", V1_BUILD_IMAGE_QUERY_LIMITS },
			{ "network", V1_BUILD_IMAGE_QUERY_NETWORK } };
	json_t *all = json_object();
	char *text = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(objects); i++) {
		const char *given = c->query.v[objects[i].param].text;
		json_t *value =
			given ? body_load(given, strlen(given), JSON_DECODE_ANY, err)
			      : NULL;

		if (given && !value)
			r = -EBADMSG;
		else if (value)
			(void)json_object_set_new(all, objects[i].name, value);
	}
	if (r == 0)
		text = json_dumps(all, JSON_COMPACT);
	json_decref(all);
	if (r == 0 && !text)
		r = api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	if (r == 0)
		r = body_read(&v1_face.ops[V1_CREATE_SANDBOX], text, strlen(text), ret,
			      err);
	free(text);
	return r;
}

static void build_put_words(struct json *j, const char *key,
			    const struct api_value *words)
{
	json_open(j, key, '[');
	for (size_t i = 0; i < words->n; i++)
		json_str(j, NULL, words->items[i].text);
	json_close(j, ']');
}

static void build_put_text(struct json *j, const char *key, const struct api_value *value)
{
	if (value->text)
		json_str(j, key, value->text);
}

static void build_put_limits(struct json *j, const struct warren_spec *spec)
{
	json_open(j, "limits", '[');
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++) {
		char text[24];

		(void)snprintf(text, sizeof(text), "%" PRIu64, spec_limit_get(spec, i));
		json_str(j, NULL, text);
	}
	json_close(j, ']');
	json_u64(j, "soft", spec->soft_limits);
}

int v1_build_put_rules(struct call *c, const struct body *body, struct json *j,
		       struct image_stream_request *request, struct api_error *err)
{
	AUTO_BUF struct buf policy = BUF_INIT(BUILD_OPTIONS_MAX);
	const struct config_backend *native = config_backend(c->v1->config, "native");
	struct warren_spec spec = { 0 };
	enum v1_network network = V1_NETWORK_LOOPBACK;
	bool terminates = false;
	int r;

	if (!native)
		return api_error_set(err, API_ERR_BACKEND_UNAVAILABLE,
				     "the commands of a build need the backend "
				     "'native', which the service does not have");
	r = limits_read(c->v1->config, body, &spec, err);
	if (r == 0)
		r = network_read(c->v1, c->caller.tenant, false, body, native, &policy,
				 &network, &terminates, err);
	if (r == 0 && terminates)
		r = api_error_set(err, API_ERR_NOT_SUPPORTED,
				  "/network: the commands of a build cannot have a "
				  "policy that looks into TLS");
	if (r < 0)
		return r;
	json_str(j, "tenant", c->caller.tenant);
	json_str(j, "network", v1_network_names[network]);
	if (network == V1_NETWORK_POLICY)
		json_raw(j, "policy", policy.data, policy.len);
	build_put_limits(j, &spec);
	json_u64(j, "steps_max", c->v1->config->quota_snapshot_bytes);
	request->memory = spec.memory;
	request->cpu_millis = spec.cpu_millis;
	request->disk = spec.disk;
	return 0;
}

/* Write the request for warren-image(1), and what it needs of the tenant's quotas. */
static int build_read_options(struct call *c, struct buf *out,
			      struct image_stream_request *request, struct api_error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(BUILD_OPTIONS_MAX);
	const struct api_value *v = c->query.v;
	AUTO_BODY struct body body = { 0 };
	struct json j = { .out = &text };
	int r = build_read_body(c, &body, err);

	json_open(&j, NULL, '{');
	if (r == 0)
		r = v1_build_put_rules(c, &body, &j, request, err);
	if (r < 0)
		return r;
	json_str(&j, "dockerfile", v[V1_BUILD_IMAGE_QUERY_DOCKERFILE].text);
	build_put_text(&j, "target", &v[V1_BUILD_IMAGE_QUERY_TARGET]);
	build_put_words(&j, "tags", &v[V1_BUILD_IMAGE_QUERY_TAG]);
	build_put_words(&j, "args", &v[V1_BUILD_IMAGE_QUERY_BUILD_ARG]);
	build_put_words(&j, "labels", &v[V1_BUILD_IMAGE_QUERY_LABEL]);
	json_bool(&j, "no_cache", v[V1_BUILD_IMAGE_QUERY_NO_CACHE].number);
	json_bool(&j, "quiet", v[V1_BUILD_IMAGE_QUERY_QUIET].number);
	json_bool(&j, "pull", v[V1_BUILD_IMAGE_QUERY_PULL].number);
	json_close(&j, '}');
	buf_printf(out, "%010zu\n", text.len);
	buf_add(out, text.data, text.len);
	return text.failed || out->failed
		       ? api_error_set(err, API_ERR_OVERLOADED, "out of memory")
		       : 0;
}

/* A build runs commands in new sandboxes. */
int v1_build_check_scopes(const struct call *c, struct api_error *err)
{
	static const char *const scopes[] = { "write", "exec" };

	for (size_t i = 0; i < ARRAY_SIZE(scopes); i++) {
		if (access_may(&c->caller, scopes[i]))
			continue;
		(void)api_error_set(err, API_ERR_FORBIDDEN,
				    "a build runs commands in new sandboxes, and the "
				    "token lacks the scope '%s'",
				    scopes[i]);
		api_error_text(err, "scope", "%s", scopes[i]);
		return -EBADMSG;
	}
	return 0;
}

static int build_check_request(const struct call *c, struct api_error *err)
{
	const struct api_value *args = &c->query.v[V1_BUILD_IMAGE_QUERY_BUILD_ARG];

	for (size_t i = 0; i < args->n; i++)
		if (strcspn(args->items[i].text, "=") == 0 ||
		    !strchr(args->items[i].text, '=')) {
			(void)api_error_set(err, API_ERR_INVALID_REQUEST,
					    "build_arg: '%.80s' is not NAME=VALUE",
					    args->items[i].text);
			api_error_text(err, "parameter", "build_arg");
			return -EBADMSG;
		}
	return c->req->has_body ? v1_build_check_scopes(c, err)
				: api_error_set(err, API_ERR_INVALID_REQUEST,
						"the body must be the context, as a tar "
						"archive");
}

void v1_build_image(struct call *c)
{
	static const struct image_stream_ops ops = { .opened = image_archive_upload,
						     .done = build_on_done,
						     .output = build_on_output };
	struct image_stream_request request = { .kind = IMAGE_STREAM_BUILD,
						.tenant = c->caller.tenant };
	uint64_t ms = (uint64_t)c->query.v[V1_BUILD_IMAGE_QUERY_TIMEOUT_MS].number;
	struct warren_error why = WARREN_ERROR_INIT;
	struct api_error err = { 0 };
	struct image_archive *a = image_archive_new(c);

	if (!a)
		return;
	a->sse = c->query.v[V1_BUILD_IMAGE_QUERY_FORMAT].number ==
		 V1_BUILD_IMAGE_FORMAT_IS_SSE;
	a->deadline = clock_now() + ms * NS_PER_MS;
	c->stop = build_stop;
	c->req->drained = build_on_drained;
	if (build_check_request(c, &err) < 0 ||
	    build_read_options(c, &a->waits, &request, &err) < 0) {
		call_error(c, &err);
		return;
	}
	if (loop_timer_new(service_loop(c->v1->service), build_on_timer, a, &a->timer) <
	    0) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	if (image_stream_start(c->v1->service, &request, &ops, a, &a->stream, &why) < 0) {
		call_fail(c, &why);
		return;
	}
	loop_timer_set(a->timer, ms < BUILD_HEARTBEAT_MS ? ms : BUILD_HEARTBEAT_MS);
}
