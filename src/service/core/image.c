/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.c - images: each is pulled once for all requests
 *
 * warren-image(1) does the work, as a child of the warden. The api has the read end of a
 * pipe with its reports, in lines of JSON; the program stops when the api closes the
 * pipe. So a pull ends when no client waits for it, unless it was requested as such
 * (IMAGE_PERSISTENT). Only some pulls run at a time; the others wait for their turn.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/list.h"
#include "proto/warden_proto.h"
#include "service/core/image_job.h"
#include "service/core/internal.h"

/*
 * A registry may be slow. This limit for each tenant ensures that one tenant's pulls do
 * not occupy all turns.
 */
#define PULLS_AT_ONCE 8
#define PULLS_OF_ONE  4 /* tenant */
#define PULLS_MAX     256
#define LAYERS_MAX    512

/* ----------------------------------------------------------- requests to warren-image */

struct asking {
	struct service *service;
	char *removed; /* the image to remove; NULL: this is another request */
	void (*done)(void *ctx, int r, const char *json, size_t size,
		     const struct warren_error *err);
	void *ctx;
};

static void image_on_answer(void *ctx, const struct buf *result,
			    const struct warren_error *err)
{
	struct asking a = *(struct asking *)ctx;
	struct warren_error why = err ? *err : (struct warren_error)WARREN_ERROR_INIT;

	free(ctx);
	if (a.removed && !err)
		event_emit_image(a.service, EVENT_IMAGE_REMOVED, a.removed);
	free(a.removed);
	if (why.code == ENOENT)
		why.code = ENOMEDIUM;
	a.done(a.ctx, -why.code, result->data ? result->data : "", result->len, &why);
}

static void image_ask_with(struct service *s, struct warden_proto_image msg,
			   const char *ref, image_ask_fn done, void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct asking *a = malloc(sizeof(*a));
	bool tells = msg.verb == WIRE_IMAGE_RM && !(msg.flags & WIRE_IMAGE_OURS);
	char *removed = tells ? strdup(ref) : NULL;
	bool ready = a && (removed || !tells);
	struct image_job *job = ready ? image_job_start(s, &msg, ref, &err) : NULL;

	if (!job) {
		if (!ready)
			(void)error_errno(&err, ENOMEM, "request an image");
		free(a);
		free(removed);
		done(ctx, -err.code, "", 0, &err);
		return;
	}
	*a = (struct asking){ s, removed, done, ctx };
	job->done = image_on_answer;
	job->ctx = a;
}

void image_ask(struct service *s, enum image_verb verb, const char *ref,
	       image_ask_fn done, void *ctx)
{
	static const struct warden_proto_image verbs[] = {
		[IMAGE_LIST] = { .verb = WIRE_IMAGE_LS },
		[IMAGE_INSPECT] = { .verb = WIRE_IMAGE_INSPECT },
		[IMAGE_REMOVE] = { .verb = WIRE_IMAGE_RM },
		[IMAGE_REMOVE_FORCED] = { .verb = WIRE_IMAGE_RM,
					  .flags = WIRE_IMAGE_FORCE },
		[IMAGE_REMOVE_SNAPSHOT] = { .verb = WIRE_IMAGE_RM,
					    .flags = WIRE_IMAGE_FORCE | WIRE_IMAGE_OURS },
		[IMAGE_TRIM] = { .verb = WIRE_IMAGE_TRIM },
	};

	image_ask_with(s, verbs[verb], ref, done, ctx);
}

int image_follow(struct service *s, int fd, image_ask_fn done, void *ctx,
		 struct warren_error *err)
{
	struct asking *a = malloc(sizeof(*a));
	int r;

	if (!a) {
		(void)close(fd);
		return error_errno(err, ENOMEM, "follow warren-image");
	}
	*a = (struct asking){ s, NULL, done, ctx };
	r = image_job_follow(s, fd, image_on_answer, a, err);
	if (r < 0)
		free(a);
	return r;
}

void image_tag(struct service *s, const char *ref, const char *name, image_ask_fn done,
	       void *ctx)
{
	struct warden_proto_image msg = { .verb = WIRE_IMAGE_TAG };
	struct warren_error err = WARREN_ERROR_INIT;

	if (strlen(name) >= sizeof(msg.to)) {
		(void)error_errno(&err, ENAMETOOLONG, "name the image '%.200s'", ref);
		done(ctx, -err.code, "", 0, &err);
		return;
	}
	(void)strcpy(msg.to, name);
	image_ask_with(s, msg, ref, done, ctx);
}

/* -------------------------------------------------------------------- pulls */

struct pull {
	struct pull *next;
	struct service *service;
	char *backend;        /* "": Warren's own store */
	char *ref, *platform; /* platform: "" means that of this machine */
	char *to;             /* of a push: the reference in the registry */
	char *tenant;         /* the tenant whose turn it uses */
	unsigned flags;
	struct image_job *job; /* NULL: the pull waits for its turn */
	struct image_waiter *waiters;
	struct image_layer *layers;
	size_t n_layers;
	uint64_t change, told;
};

static void start_next(struct service *s);

/* Map an error to one of those that image_pull() documents. */
static int image_meaning(int code)
{
	static const int kept[] = { EINVAL, E2BIG,  ENAMETOOLONG, ENOSPC,
				    ENOMEM, EMFILE, ENFILE };

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (code == kept[i])
			return code;
	return code == ENOENT ? ENOMEDIUM : code == EDQUOT ? ENOSPC : ECOMM;
}

static void pull_free(struct pull *p)
{
	(void)LIST_REMOVE(p->service->pulls, p);
	free(p->backend);
	free(p->ref);
	free(p->platform);
	free(p->to);
	free(p->tenant);
	free(p->layers);
	free(p);
}

static void tell_all(struct pull *p, const struct buf *found,
		     const struct warren_error *err)
{
	struct service *s = p->service;
	struct image_waiter *waiters = TAKE_PTR(p->waiters), *w;

	/* Later requests must start a new pull. */
	pull_free(p);
	for (w = waiters; w; w = w->next)
		w->pull = NULL;
	while (waiters) {
		w = waiters;
		waiters = w->next;
		w->found = found && found->len > 0 ? found->data : NULL;
		w->found_size = w->found ? found->len : 0;
		w->fn(w, err ? -err->code : 0, err);
	}
	start_next(s);
}

static void image_on_done(void *ctx, const struct buf *result,
			  const struct warren_error *err)
{
	struct warren_error why = err ? *err : (struct warren_error)WARREN_ERROR_INIT;
	const struct pull *p = ctx;

	/* Report the other daemon's error unchanged. */
	if (err && !p->backend[0])
		why.code = image_meaning(why.code);
	/* If the image already existed, no layer was reported, and it was not pulled. */
	if (!err && !(p->flags & IMAGE_PUSH) &&
	    (p->n_layers > 0 || !(p->flags & IMAGE_IF_MISSING)))
		event_emit_image(p->service, EVENT_IMAGE_PULLED, p->ref);
	tell_all(ctx, result, err ? &why : NULL);
}

static struct image_layer *find_layer(struct pull *p, const char *digest)
{
	struct image_layer *more;

	for (size_t i = 0; i < p->n_layers; i++)
		if (strcmp(p->layers[i].digest, digest) == 0)
			return &p->layers[i];
	if (p->n_layers == LAYERS_MAX)
		return NULL;
	more = reallocarray(p->layers, p->n_layers + 1, sizeof(*more));
	if (!more)
		return NULL;
	p->layers = more;
	more = &p->layers[p->n_layers++];
	*more = (struct image_layer){ 0 };
	(void)snprintf(more->digest, sizeof(more->digest), "%s", digest);
	return more;
}

static void on_layer(void *ctx, json_t *line)
{
	struct pull *p = ctx;
	const char *digest = json_string_value(json_object_get(line, "digest"));
	const char *phase = json_string_value(json_object_get(line, "phase"));
	struct image_layer *l = digest && phase ? find_layer(p, digest) : NULL;

	if (!l)
		return;
	(void)snprintf(l->phase, sizeof(l->phase), "%s", phase);
	l->done = (uint64_t)json_integer_value(json_object_get(line, "done"));
	l->total = (uint64_t)json_integer_value(json_object_get(line, "total"));
	l->change = ++p->change;
}

static void image_on_turn(void *ctx)
{
	struct pull *p = ctx;
	struct image_waiter *next;

	if (p->told == p->change)
		return;
	p->told = p->change;
	for (struct image_waiter *w = p->waiters; w; w = next) {
		next = w->next;
		w->fn(w, 1, NULL);
	}
}

static int image_start(struct pull *p, struct warren_error *err)
{
	bool pushes = p->flags & IMAGE_PUSH;
	struct warden_proto_image msg = { .verb = pushes ? WIRE_IMAGE_PUSH
							 : WIRE_IMAGE_PULL };

	if (strlen(p->to) >= sizeof(msg.to))
		return error_errno(err, ENAMETOOLONG, "push '%.200s'", p->ref);
	(void)strcpy(msg.to, p->to);
	if (p->flags & IMAGE_IF_MISSING)
		msg.flags = WIRE_IMAGE_MISSING;
	(void)snprintf(msg.platform, sizeof(msg.platform), "%s", p->platform);
	(void)snprintf(msg.h.backend, sizeof(msg.h.backend), "%s", p->backend);
	p->job = image_job_start(p->service, &msg, p->ref, err);
	if (!p->job)
		return -err->code;
	p->job->objects = pushes;
	p->job->layer = on_layer;
	p->job->turn = image_on_turn;
	p->job->done = image_on_done;
	p->job->ctx = p;
	return 0;
}

static bool has_turn(const struct service *s, const char *tenant)
{
	unsigned all = 0, own = 0;

	for (const struct pull *p = s->pulls; p; p = p->next) {
		all += p->job != NULL;
		own += p->job && strcmp(p->tenant, tenant) == 0;
	}
	return all < PULLS_AT_ONCE && own < PULLS_OF_ONE;
}

static void start_next(struct service *s)
{
	struct warren_error err = WARREN_ERROR_INIT;

	for (struct pull *p = s->pulls; p; p = p->next) {
		if (!p->job && has_turn(s, p->tenant) && image_start(p, &err) < 0) {
			tell_all(p, NULL, &err); /* then this function is called again */
			return;
		}
	}
}

static struct pull *image_join(struct service *s, const struct pull *same, size_t *ret_n)
{
	*ret_n = 0;
	for (struct pull *p = s->pulls; p; p = p->next) {
		(*ret_n)++;
		/*
		 * A request that must contact the registry cannot share a pull that may
		 * use the local image.
		 */
		if (strcmp(p->backend, same->backend) == 0 &&
		    strcmp(p->ref, same->ref) == 0 &&
		    strcmp(p->platform, same->platform) == 0 &&
		    strcmp(p->to, same->to) == 0 &&
		    !((p->flags ^ same->flags) & IMAGE_PUSH) &&
		    (same->flags & IMAGE_IF_MISSING || !(p->flags & IMAGE_IF_MISSING)))
			return p;
	}
	return NULL;
}

static struct pull *pull_new(struct service *s, const struct pull *like)
{
	struct pull *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	*p = (struct pull){ .service = s,
			    .backend = strdup(like->backend),
			    .ref = strdup(like->ref),
			    .platform = strdup(like->platform),
			    .to = strdup(like->to),
			    .tenant = strdup(like->tenant),
			    .flags = like->flags };
	if (!p->backend || !p->ref || !p->platform || !p->to || !p->tenant) {
		pull_free(p);
		return NULL;
	}
	LIST_APPEND(s->pulls, p);
	return p;
}

static size_t image_count_of(const struct service *s, const char *tenant)
{
	size_t n = 0;

	for (const struct pull *p = s->pulls; p; p = p->next)
		n += strcmp(p->tenant, tenant) == 0;
	return n;
}

/* A pull that waits for a turn of another tenant now waits for a turn of this tenant. */
static void image_take_over(struct pull *p, const char *tenant)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	char *copy = p->job ? NULL : strdup(tenant);

	if (!copy)
		return;
	free(p->tenant);
	p->tenant = copy;
	/* If starting a pull fails, it is tried again when the next pull ends. */
	if (has_turn(p->service, tenant))
		(void)image_start(p, &ignored);
}

/* Start what @like describes, or join it. */
static int image_transfer(struct service *s, const struct pull *like,
			  struct image_waiter *w, struct warren_error *err)
{
	size_t n;
	struct pull *p = image_join(s, like, &n);
	bool joined = p != NULL;

	if (!p && (n >= PULLS_MAX || image_count_of(s, like->tenant) >= PULLS_MAX / 2))
		return error_set(err, EAGAIN, "%zu images are already being %s", n,
				 like->flags & IMAGE_PUSH ? "transferred" : "pulled");
	if (!p)
		p = pull_new(s, like);
	if (!p)
		return error_errno(err, ENOMEM, "transfer '%s'", like->ref);
	p->flags |= like->flags & IMAGE_PERSISTENT;
	if (!joined && has_turn(s, like->tenant) && image_start(p, err) < 0) {
		pull_free(p);
		return -err->code;
	}
	w->pull = p;
	LIST_PUSH(p->waiters, w);
	if (joined)
		image_take_over(p, like->tenant);
	return 0;
}

/* The texts of a struct pull belong to it, except in a description of one. */
static char *image_text(const char *text)
{
	return (char *)(uintptr_t)(text ? text : "");
}

int image_pull(struct service *s, const char *tenant, const char *backend,
	       const char *ref, const char *platform, unsigned flags,
	       struct image_waiter *w, struct warren_error *err)
{
	const struct pull like = { .backend = image_text(backend),
				   .ref = image_text(ref),
				   .platform = image_text(platform),
				   .to = image_text(NULL),
				   .tenant = image_text(tenant),
				   .flags = flags };

	return image_transfer(s, &like, w, err);
}

int image_push(struct service *s, const char *tenant, const char *ref, const char *to,
	       struct image_waiter *w, struct warren_error *err)
{
	const struct pull like = { .backend = image_text(NULL),
				   .ref = image_text(ref),
				   .platform = image_text(NULL),
				   .to = image_text(to),
				   .tenant = image_text(tenant),
				   .flags = IMAGE_PUSH };

	return image_transfer(s, &like, w, err);
}

void image_leave(struct image_waiter *w)
{
	struct pull *p = w->pull;
	struct service *s;

	if (!p)
		return;
	(void)LIST_REMOVE(p->waiters, w);
	w->pull = NULL;
	if (p->waiters || p->flags & IMAGE_PERSISTENT)
		return;
	if (p->job)
		image_job_cancel(p->job);
	s = p->service;
	pull_free(p);
	start_next(s);
}

const struct image_layer *image_layers(const struct image_waiter *w, size_t *ret_n)
{
	*ret_n = w->pull ? w->pull->n_layers : 0;
	return w->pull ? w->pull->layers : NULL;
}
