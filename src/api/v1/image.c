/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.c - handlers: list, show, remove, pull and push images
 *
 * The output of warren-image(1) is parsed and written again in the terms of openapi.yaml.
 * A client that watches a pull gets the current progress of each layer when it is ready
 * to read, not every step in between, so nothing accumulates for a slow client.
 */
#include <errno.h>
#include <string.h>

#include "api/v1/image.h"
#include "api/v1/sandbox.h"
#include "base/json.h"
#include "config/config.h"
#include "net/loop.h"

#define HEARTBEAT_MS 15000
#define PREFIX       "sha256:"

static const char *image_text_of(json_t *image, const char *key)
{
	const char *s = json_string_value(json_object_get(image, key));

	return s ? s : "";
}

static void v1_image_put_list(struct json *j, const char *key, json_t *list)
{
	json_t *item;
	size_t i;

	json_open(j, key, '[');
	json_array_foreach(list, i, item) json_str(j, NULL, json_string_value(item));
	json_close(j, ']');
}

static void image_put_text(struct json *j, const char *key, const char *value)
{
	if (*value)
		json_str(j, key, value);
}

static void show_image(struct buf *out, json_t *image)
{
	struct json j = { .out = out };
	const char *created = image_text_of(image, "created");

	json_open(&j, NULL, '{');
	json_str(&j, "id", image_text_of(image, "id"));
	v1_image_put_list(&j, "names", json_object_get(image, "names"));
	image_put_text(&j, "platform", image_text_of(image, "platform"));
	json_u64(&j, "size",
		 (uint64_t)json_integer_value(json_object_get(image, "size")));
	json_u64(&j, "layers", json_array_size(json_object_get(image, "layers")));
	json_str(&j, "created_at", *created ? created : NULL);
	image_put_text(&j, "pulled_at", image_text_of(image, "pulled"));
	image_put_text(&j, "user", image_text_of(image, "user"));
	image_put_text(&j, "workdir", image_text_of(image, "workdir"));
	v1_image_put_list(&j, "env", json_object_get(image, "env"));
	v1_image_put_list(&j, "entrypoint", json_object_get(image, "entrypoint"));
	v1_image_put_list(&j, "cmd", json_object_get(image, "cmd"));
	json_close(&j, '}');
}

/* -------------------------------------------------------------------- list of images */

/* The id without "sha256:", which would not be accepted as a cursor. */
static const char *cursor_of(json_t *image)
{
	const char *id = image_text_of(image, "id");

	return strncmp(id, PREFIX, strlen(PREFIX)) == 0 ? id + strlen(PREFIX) : id;
}

static int by_id(const void *a, const void *b)
{
	return strcmp(cursor_of(*(json_t *const *)a), cursor_of(*(json_t *const *)b));
}

/* Images are sorted by id, so that a page begins where the previous one ended. */
static void answer_list(struct call *c, json_t *all)
{
	AUTO_BUF struct buf out = BUF_INIT(64U << 20);
	const char *cursor = c->query.v[V1_LIST_IMAGES_QUERY_CURSOR].text;
	size_t limit = (size_t)c->query.v[V1_LIST_IMAGES_QUERY_LIMIT].number, shown = 0;
	size_t n = json_array_size(all), i = 0;
	json_t **sorted = calloc(n + 1, sizeof(json_t *));

	if (!sorted) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	for (i = 0; i < n; i++)
		sorted[i] = json_array_get(all, i);
	if (n > 0)
		qsort((void *)sorted, n, sizeof(json_t *), by_id);
	buf_puts(&out, "{\"images\":[");
	for (i = 0; i < n && shown < limit; i++) {
		if (cursor && strcmp(cursor_of(sorted[i]), cursor) <= 0)
			continue;
		if (shown++ > 0)
			buf_puts(&out, ",");
		show_image(&out, sorted[i]);
	}
	if (i < n && shown > 0)
		buf_printf(&out, "],\"next_cursor\":\"%s\"}", cursor_of(sorted[i - 1]));
	else
		buf_puts(&out, "],\"next_cursor\":null}");
	free((void *)sorted);
	call_json(c, 200, &out);
}

/* The image of a snapshot is not found by its id: only by its tenant, as a snapshot. */
static const char *image_checked(struct call *c, const char *text)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r = db_is_snapshot_image(service_db(c->v1->service), text, &err);

	if (r == 0)
		return text;
	if (r > 0)
		(void)error_set(&err, ENOMEDIUM,
				"there is no image '%.200s' on this machine", text);
	call_fail(c, &err);
	return NULL;
}

const char *v1_image_named(struct call *c, const char *text, char room[V1_IMAGE_SIZE])
{
	AUTO_SNAPSHOT_ROW struct snapshot_row row = { 0 };
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (db_get_snapshot(service_db(c->v1->service), c->caller.tenant, text, &row,
			    &ignored) < 0)
		return image_checked(c, text);
	(void)snprintf(room, V1_IMAGE_SIZE, "%s", row.image);
	return room;
}

void v1_image_fail(struct call *c, const struct warren_error *err)
{
	if (err->code == EEXIST || err->code == EBUSY)
		call_refuse(c, API_ERR_IMAGE_IN_USE, "%s", err->msg);
	else
		call_fail(c, err);
}

static void image_on_list(void *ctx, int r, const char *json, size_t size,
			  const struct warren_error *err)
{
	struct call *c = ctx;
	json_t *all = r == 0 ? json_loadb(json, size, 0, NULL) : NULL;

	if (c->req && r < 0)
		v1_image_fail(c, err);
	else if (c->req && !all)
		call_refuse(c, API_ERR_INTERNAL, "the list of images cannot be read");
	else if (c->req)
		answer_list(c, all);
	json_decref(all);
	call_unref(c);
}

void v1_list_images(struct call *c)
{
	image_ask(c->v1->service, IMAGE_LIST, "", image_on_list, call_ref(c));
}

/* ---------------------------------------------------------- inspect and remove */

static void on_inspected(void *ctx, int r, const char *json, size_t size,
			 const struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(16U << 20);
	struct call *c = ctx;
	json_t *all = r == 0 ? json_loadb(json, size, 0, NULL) : NULL;
	json_t *image = json_array_get(all, 0);

	if (c->req && r < 0) {
		v1_image_fail(c, err);
	} else if (c->req && !image) {
		call_refuse(c, API_ERR_INTERNAL, "the image cannot be read");
	} else if (c->req) {
		show_image(&out, image);
		call_json(c, 200, &out);
	}
	json_decref(all);
	call_unref(c);
}

void v1_inspect_image(struct call *c)
{
	char room[V1_IMAGE_SIZE];
	const char *image =
		v1_image_named(c, c->query.v[V1_INSPECT_IMAGE_QUERY_IMAGE].text, room);

	if (image)
		image_ask(c->v1->service, IMAGE_INSPECT, image, on_inspected,
			  call_ref(c));
}

void v1_image_on_changed(void *ctx, int r, const char *json UNUSED, size_t size UNUSED,
			 const struct warren_error *err)
{
	struct call *c = ctx;

	if (c->req && r < 0)
		v1_image_fail(c, err);
	else if (c->req)
		call_empty(c, 204);
	call_unref(c);
}

void v1_remove_image(struct call *c)
{
	bool force = c->query.v[V1_REMOVE_IMAGE_QUERY_FORCE].number;
	const char *image =
		image_checked(c, c->query.v[V1_REMOVE_IMAGE_QUERY_IMAGE].text);

	if (image)
		image_ask(c->v1->service, force ? IMAGE_REMOVE_FORCED : IMAGE_REMOVE,
			  image, v1_image_on_changed, call_ref(c));
}

/* -------------------------------------------------------------------- pull */

struct pulling {
	struct call *call;
	/* The backend whose images are pulled; NULL: Warren's store. */
	const char *backend;
	struct image_waiter waiter;
	struct loop_timer *timer;
	uint64_t told; /* time of the last reported change of a layer */
	bool sse;
	bool pushes;
	bool blocked; /* the client must read before more is sent */
	bool ended;
};

static void pulling_gone(struct call *c)
{
	struct pulling *p = c->state;

	c->state = NULL;
	if (!p)
		return;
	image_leave(&p->waiter);
	p->timer = loop_timer_free(p->timer);
	free(p);
}

static void image_put_event(struct pulling *p, const struct buf *json)
{
	AUTO_BUF struct buf out = BUF_INIT(16U << 20);

	if (p->sse)
		buf_puts(&out, "data: ");
	buf_add(&out, json->data, json->len);
	buf_puts(&out, p->sse ? "\n\n" : "\n");
	if (http_write(p->call->req, out.data, out.len) != 0)
		p->blocked = true;
}

static void image_put_layer(struct pulling *p, const struct image_layer *l)
{
	AUTO_BUF struct buf out = BUF_INIT(1024);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	json_str(&j, "type", "layer");
	json_str(&j, "digest", l->digest);
	json_str(&j, "phase", l->phase);
	json_u64(&j, "done", l->done);
	json_u64(&j, "total", l->total);
	json_close(&j, '}');
	image_put_event(p, &out);
}

static void put_layers(struct pulling *p)
{
	size_t n;
	const struct image_layer *layers = image_layers(&p->waiter, &n);
	uint64_t last = p->told;

	for (size_t i = 0; i < n; i++) {
		if (layers[i].change <= p->told)
			continue;
		image_put_layer(p, &layers[i]);
		if (layers[i].change > last)
			last = layers[i].change;
	}
	p->told = last;
}

static void end_with(struct pulling *p, const struct buf *json)
{
	p->ended = true;
	image_put_event(p, json);
	(void)http_end(p->call->req);
}

static void end_failed(struct pulling *p, const struct warren_error *why)
{
	AUTO_BUF struct buf out = BUF_INIT(16384);
	struct api_error err = { 0 };

	if (p->backend)
		backend_failed(&err, p->backend, why);
	else
		(void)api_error_from(&err, why);
	buf_puts(&out, "{\"type\":\"error\",\"error\":");
	api_error_write(&err, http_request_id(p->call->req), &out);
	buf_puts(&out, "}");
	end_with(p, &out);
}

static void on_here(void *ctx, int r, const char *json, size_t size,
		    const struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(16U << 20);
	struct call *c = ctx;
	struct pulling *p = c->state;
	json_t *all = r == 0 ? json_loadb(json, size, 0, NULL) : NULL;

	if (p && p->ended)
		p = NULL; /* the service is stopping, and has informed the client */
	if (p && r < 0) {
		end_failed(p, err);
	} else if (p) {
		buf_puts(&out, "{\"type\":\"done\",\"image\":");
		show_image(&out, json_array_get(all, 0));
		buf_puts(&out, "}");
		end_with(p, &out);
	}
	json_decref(all);
	call_unref(c);
}

static void on_pushed(struct pulling *p, const char *json, size_t size)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };
	json_t *pushed = json_loadb(json, size, 0, NULL);

	json_open(&j, NULL, '{');
	json_str(&j, "type", "done");
	json_str(&j, "id", image_text_of(pushed, "id"));
	json_str(&j, "digest", image_text_of(pushed, "digest"));
	json_str(&j, "name", image_text_of(pushed, "reference"));
	json_close(&j, '}');
	json_decref(pushed);
	end_with(p, &out);
}

static void on_pull(struct image_waiter *w, int r, const struct warren_error *err)
{
	struct pulling *p = w->ctx;
	struct call *c = p->call;

	if (r == 1 && !p->blocked)
		put_layers(p);
	else if (r < 0)
		end_failed(p, err);
	else if (r == 0 && p->pushes)
		on_pushed(p, w->found ? w->found : "", w->found_size);
	else if (r == 0 && w->found)
		on_here(call_ref(c), 0, w->found, w->found_size, NULL);
	else if (r == 0)
		image_ask(c->v1->service, IMAGE_INSPECT, body_text(&c->body, "image"),
			  on_here, call_ref(c));
}

/*
 * A registry may be slow, so pulls that are under way get only a limited time to
 * complete.
 */
static void pulling_stop(struct call *c, bool last)
{
	struct warren_error why = WARREN_ERROR_INIT;
	struct pulling *p = c->state;

	if (!last || !p || p->ended)
		return;
	image_leave(&p->waiter);
	(void)error_set(&why, ESHUTDOWN,
			"the service is stopping and the %s is not complete: %s the "
			"image again after the restart",
			p->pushes ? "push" : "pull", p->pushes ? "push" : "pull");
	p->backend = NULL; /* this is not an error of the backend */
	end_failed(p, &why);
}

static void image_on_drained(struct http_request *req)
{
	struct pulling *p = ((struct call *)req->user)->state;

	if (!p || p->ended)
		return;
	p->blocked = false;
	put_layers(p);
}

static void image_on_timer(void *ctx)
{
	struct pulling *p = ctx;
	AUTO_BUF struct buf out = BUF_INIT(64);

	if (p->ended)
		return;
	loop_timer_set(p->timer, HEARTBEAT_MS);
	buf_puts(&out, "{\"type\":\"heartbeat\"}");
	if (!p->blocked)
		image_put_event(p, &out);
}

/* Find the backend whose images to use; *@ret is NULL for Warren's store. */
static bool find_backend(struct call *c, const char **ret)
{
	const char *name = body_text(&c->body, "backend");
	const struct config_backend *b =
		name ? config_backend(c->v1->config, name) : NULL;

	*ret = NULL;
	if (!name)
		return true;
	if (!b) {
		call_refuse(c, API_ERR_BACKEND_UNAVAILABLE,
			    "/backend: there is no backend '%s'", name);
		return false;
	}
	if (b->images == BACKEND_IMAGES_NONE ||
	    (b->images == BACKEND_IMAGES_THEIRS && body_has(&c->body, "platform"))) {
		call_refuse(c, API_ERR_NOT_SUPPORTED, "/%s: backend '%s' %s",
			    b->images == BACKEND_IMAGES_NONE ? "backend" : "platform",
			    name,
			    b->images == BACKEND_IMAGES_NONE
				    ? "has no images to choose from"
				    : "pulls images by itself, for its own machine");
		return false;
	}
	if (b->images == BACKEND_IMAGES_THEIRS)
		*ret = b->name;
	return true;
}

static struct pulling *pulling_new(struct call *c, bool sse)
{
	struct pulling *p = calloc(1, sizeof(*p));

	if (!p || loop_timer_new(service_loop(c->v1->service), image_on_timer, p,
				 &p->timer) < 0) {
		free(p);
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return NULL;
	}
	p->call = c;
	p->sse = sse;
	p->waiter = (struct image_waiter){ .fn = on_pull, .ctx = p };
	c->state = p;
	c->gone = pulling_gone;
	return p;
}

static void pulling_begin(struct pulling *p)
{
	struct call *c = p->call;

	c->req->drained = image_on_drained;
	c->stop = pulling_stop;
	call_begin_stream(c, p->sse);
	loop_timer_set(p->timer, HEARTBEAT_MS);
	put_layers(p);
}

void v1_push_image(struct call *c)
{
	bool sse = c->query.v[V1_PUSH_IMAGE_QUERY_FORMAT].number ==
		   V1_PUSH_IMAGE_FORMAT_IS_SSE;
	const char *to = body_text(&c->body, "name");
	struct warren_error err = WARREN_ERROR_INIT;
	char room[V1_IMAGE_SIZE];
	const char *image = v1_image_named(c, body_text(&c->body, "image"), room);
	struct pulling *p = image ? pulling_new(c, sse) : NULL;

	if (!p)
		return;
	p->pushes = true;
	if (image_push(c->v1->service, c->caller.tenant, image, to ? to : "", &p->waiter,
		       &err) < 0)
		call_fail(c, &err);
	else
		pulling_begin(p);
}

void v1_pull_image(struct call *c)
{
	const char *image = body_text(&c->body, "image"), *backend = NULL;
	struct warren_error err = WARREN_ERROR_INIT;
	struct pulling *p;

	if (!find_backend(c, &backend))
		return;
	if (strcmp(image, "host") == 0 || strncmp(image, PREFIX, strlen(PREFIX)) == 0) {
		call_refuse(c, API_ERR_INVALID_REQUEST,
			    "/image: '%s' does not name an image in a registry; use a "
			    "reference like python:3.12",
			    image);
		return;
	}
	p = pulling_new(c, c->query.v[V1_PULL_IMAGE_QUERY_FORMAT].number ==
				   V1_PULL_IMAGE_FORMAT_IS_SSE);
	if (!p)
		return;
	p->backend = backend;
	if (image_pull(c->v1->service, c->caller.tenant, backend, image,
		       body_text(&c->body, "platform"), IMAGE_PERSISTENT, &p->waiter,
		       &err) < 0)
		call_fail(c, &err);
	else
		pulling_begin(p);
}
