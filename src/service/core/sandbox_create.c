/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_create.c - a sandbox is made by the warden, after a pull of its image if that is missing
 *
 * The warden is asked first: an image that is here costs nothing more. When it
 * says that something is missing, and the image could be that, the image is
 * pulled and the warden asked once again. A sandbox that waits for a pull can be deleted;
 * one that the warden is at cannot, until it has answered.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "service/core/internal.h"
#include "proto/warden_proto.h"

struct making {
	struct service *service;
	char id[ID_LEN + 1];
	struct buf msg; /* for the warden, who may be asked twice */
	char *image, *platform;
	enum box_pull pull;
	bool theirs; /* the backend's own images: we have nothing to pull */
	bool may_not_pull;
	bool pulled;
	struct warren_error missing; /* what the warden said the first time */
	struct image_waiter waiter;
};

static void ask_warden(struct making *m);

static void making_free(struct making *m)
{
	if (!m)
		return;
	buf_done(&m->msg);
	free(m->image);
	free(m->platform);
	free(m);
}

/* @made: by the warden, so that there is something to end. */
static void fail_made(struct making *m, bool made, const struct warren_error *err)
{
	struct box *box = box_find(m->service, NULL, m->id);
	struct warren_error second = WARREN_ERROR_INIT;

	making_free(m);
	if (!box)
		return;
	box->service->figures.failed++;
	box->pulling = NULL;
	box->moving = false;
	box->failure = err->code;
	box->broke = *err;
	if (made) {
		line_close(box, err);
		box_end(box, err);
	} else if (box_move(box, SANDBOX_FAILED, err->msg, &second) < 0) {
		service_untidy(box->service);
	}
	box_next_job(box);
}

static void fail(struct making *m, const struct warren_error *err)
{
	fail_made(m, false, err);
}

/* ------------------------------------------------------------------- the image */

static bool is_stored(const struct making *m)
{
	const char *image = m->theirs ? NULL : m->image;

	return image && strcmp(image, "host") != 0 && strncmp(image, "dir:", 4) != 0;
}

static void on_pulled(struct image_waiter *w, int r, const struct warren_error *err)
{
	struct making *m = w->ctx;
	struct box *box = box_find(m->service, NULL, m->id);

	if (r == 1)
		return;
	if (r < 0) {
		fail(m, err);
		return;
	}
	box->pulling = NULL;
	m->pulled = true;
	ask_warden(m);
}

static void pull(struct making *m)
{
	struct box *box = box_find(m->service, NULL, m->id);
	struct warren_error err = WARREN_ERROR_INIT;

	m->waiter = (struct image_waiter){ .fn = on_pulled, .ctx = m };
	box->pulling = m;
	if (image_pull(m->service, box->row.owner, NULL, m->image, m->platform,
		       m->pull == BOX_PULL_MISSING ? IMAGE_IF_MISSING : 0, &m->waiter,
		       &err) < 0)
		fail(m, &err);
}

/* Is it the image that is missing? */
static void on_looked(void *ctx, int r, const char *json UNUSED, size_t size UNUSED,
		      const struct warren_error *failure UNUSED)
{
	struct making *m = ctx;
	struct warren_error err = m->missing;

	if (r == -ENOMEDIUM)
		(void)error_set(&err, ENOMEDIUM,
				"there is no image '%s' on this machine, and %s",
				m->image,
				m->may_not_pull ? "the token lacks the scope 'pull', "
						  "which pulling it takes"
						: "it is not to be pulled (pull: never)");
	fail(m, &err);
}

/* ------------------------------------------------------------------ the sandbox */

/* What is in force, as the store keeps it and as it is shown. */
static void put_enforced(struct buf *out, const struct warren_enforcement *list, size_t n)
{
	struct json j = { .out = out };

	json_open(&j, NULL, '[');
	for (size_t i = 0; i < n; i++) {
		json_open(&j, NULL, '{');
		json_str(&j, "name", list[i].name);
		json_bool(&j, "enforced", list[i].enforced);
		json_str(&j, "detail", list[i].detail);
		json_close(&j, '}');
	}
	json_close(&j, ']');
}

static int take_over(struct box *box, const char *data, size_t size, int fd,
		     struct warren_error *err)
{
	AUTO_BUF struct buf enforced = BUF_INIT(65536);
	AUTO_EVENT_TX struct event_tx tx = { 0 };
	struct sandbox_row after = box->row;
	int r = line_open(box, fd, data, size, err);

	if (r < 0)
		return r;
	put_enforced(&enforced, box->is.enforced, box->is.n_enforced);
	after.state = SANDBOX_RUNNING;
	r = event_begin(box->service, &tx, err);
	if (r == 0)
		r = db_start_sandbox(box->service->db, box->row.id,
				     enforced.failed ? "[]" : enforced.data,
				     service_time(), err);
	if (r < 0)
		return r;
	event_emit_row(box->service, EVENT_SANDBOX_STARTED, &after, NULL, box->reason,
		       NULL);
	r = event_commit(&tx, err);
	if (r == 0)
		box_moved(box, SANDBOX_RUNNING);
	box->loaded = r == 0;
	return r;
}

static void on_not_taken(void *ctx UNUSED, const struct warren_error *failure UNUSED,
			 const char *data UNUSED, size_t size UNUSED, int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

static void on_created(void *ctx, const struct warren_error *failure, const char *data,
		       size_t size, int fd)
{
	struct making *m = ctx;
	struct service *s = m->service;
	struct box *box = box_find(s, NULL, m->id);
	struct warren_error err = WARREN_ERROR_INIT;

	/* Whether the warden made it nobody knows: as `creating` it is unmade by the next. */
	if (!box || s->closing) {
		if (fd >= 0)
			(void)close(fd);
		making_free(m);
		return;
	}
	if (failure && failure->code == ENOENT && is_stored(m) && !m->pulled) {
		m->missing = *failure;
		if (m->pull == BOX_PULL_NEVER)
			image_ask(s, IMAGE_INSPECT, m->image, on_looked, m);
		else
			pull(m);
		return;
	}
	/* The warden made it, and its connection did not reach us: nobody else would end it. */
	if (failure && failure->code == EMFILE)
		(void)link_ask_of(box,
				  &(struct wire_box){ .h = { .type = WIRE_DESTROY } },
				  sizeof(struct wire_box), on_not_taken, NULL);
	if (failure || take_over(box, data, size, fd, &err) < 0) {
		fail_made(m, !failure, failure ? failure : &err);
		return;
	}
	box->moving = false;
	s->figures.created++;
	/* How long a registry takes says nothing about us. */
	if (!m->pulled)
		figure_add(s, FIGURE_CREATE, (clock_now() - box->created) / 1000);
	making_free(m);
	loop_defer(s->loop, &box->waiters_task);
	box_arm(box);
	box_next_job(box);
}

static void ask_warden(struct making *m)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r = link_ask(m->service, m->msg.data, m->msg.len, on_created, m);

	if (r == -ESHUTDOWN) {
		making_free(m); /* as above: the next process decides */
	} else if (r < 0) {
		(void)error_errno(&err, -r, "ask for a sandbox");
		fail(m, &err);
	}
}

void box_make(struct box *box, const struct warren_spec *spec,
	      const struct box_source *source)
{
	struct making *m = calloc(1, sizeof(*m));
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	box->moving = true; /* what comes meanwhile waits */
	if (!m) {
		box->moving = false;
		box->failure = ENOMEM;
		if (box_move(box, SANDBOX_FAILED, "no memory is left", &err) < 0)
			service_untidy(box->service);
		return;
	}
	*m = (struct making){
		.service = box->service,
		.msg = BUF_INIT(WIRE_MESSAGE_MAX),
		.image = spec->image ? strdup(spec->image) : NULL,
		.platform = source->platform ? strdup(source->platform) : NULL,
		.pull = source->may_not_pull ? BOX_PULL_NEVER : source->pull,
		.may_not_pull = source->may_not_pull,
		.theirs = source->theirs
	};
	(void)memcpy(m->id, box->row.id, sizeof(m->id));
	r = wire_put_create(&m->msg, box->row.backend, box->row.id, spec);
	if (r == 0)
		wire_put_tenant((struct wire_header *)(void *)m->msg.data,
				box->row.owner);
	if ((spec->image && !m->image) || (source->platform && !m->platform))
		r = -ENOMEM;
	if (r < 0) {
		(void)error_errno(&err, -r, "ask for a sandbox");
		fail(m, &err);
	} else if (is_stored(m) && (m->pull == BOX_PULL_ALWAYS ||
				    (m->pull == BOX_PULL_MISSING && m->platform))) {
		pull(m);
	} else {
		ask_warden(m);
	}
}

void box_make_cancel(struct box *box)
{
	struct making *m = box->pulling;

	if (!m)
		return;
	box->pulling = NULL;
	box->moving = false;
	image_leave(&m->waiter);
	making_free(m);
}
