/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_create.c - create a sandbox with the warden; pull its image if it is missing
 *
 * The service asks the warden first, so an image that is present costs no further
 * request. If the warden reports that something is missing, and it could be the image,
 * the service pulls the image and asks the warden again. A sandbox that waits for a pull
 * can be deleted; while the warden creates it, a deletion waits for the answer.
 *
 * Sandboxes of a group (sandbox_group.c) stay in the state `creating` until the last one
 * is prepared.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "proto/warden_proto.h"
#include "service/core/internal.h"
#include "spec/spec.h"

struct create_op {
	struct service *service;
	char id[ID_LEN + 1];
	struct buf msg; /* message to the warden, which may be sent twice */
	char *image, *platform;
	enum sandbox_pull pull;
	bool theirs; /* the backend has its own images, which the service cannot pull */
	bool may_not_pull;
	bool pulled;
	struct warren_error missing; /* the warden's first error */
	struct buf made;             /* the warden's description of the sandbox */
	int conn;                    /* the connection to the sandbox's init; -1: none */
	bool captured; /* the warden also captures the network, and sends its sockets */
	struct image_waiter waiter;
	struct sandbox_group *group; /* NULL: none, or it knows how the creation ended */
	struct create_op *next;      /* next in the group */
};

static void ask_warden(struct create_op *m);

void create_op_free(struct create_op *m)
{
	if (!m)
		return;
	if (m->group)
		sandbox_group_leave(TAKE_PTR(m->group), NULL);
	buf_done(&m->msg);
	buf_done(&m->made);
	if (m->conn >= 0)
		(void)close(m->conn);
	free(m->image);
	free(m->platform);
	free(m);
}

struct create_op *create_op_next(const struct create_op *m)
{
	return m->next;
}

void create_op_link(struct create_op *m, struct create_op *next)
{
	m->next = next;
}

/* @made: the warden has created the sandbox, so it must be destroyed. */
static void sandbox_create_fail_made(struct create_op *m, bool made,
				     const struct warren_error *err)
{
	struct sandbox *sandbox = sandbox_find(m->service, NULL, m->id);
	struct warren_error second = WARREN_ERROR_INIT;
	bool grouped = m->group;

	if (grouped)
		sandbox_group_leave(TAKE_PTR(m->group), err);
	create_op_free(m);
	if (!sandbox)
		return;
	sandbox->service->metrics.failed++;
	sandbox->pulling = NULL;
	if (grouped)
		return; /* the group deletes it */
	sandbox->moving = false;
	sandbox->failure = err->code;
	sandbox->broke = *err;
	/* The warden may have been unable to undo its work. */
	orphans_look_soon(sandbox->service);
	if (made) {
		init_conn_close(sandbox, err);
		sandbox_end(sandbox, err);
	} else if (sandbox_move(sandbox, SANDBOX_FAILED, err->msg, &second) < 0) {
		service_untidy(sandbox->service);
	}
	sandbox_next_job(sandbox);
}

static void sandbox_create_fail(struct create_op *m, const struct warren_error *err)
{
	sandbox_create_fail_made(m, false, err);
}

/* ------------------------------------------------------------------ pulling the image */

static bool is_stored(const struct create_op *m)
{
	const char *image = m->theirs ? NULL : m->image;

	return image && strcmp(image, "host") != 0 && strncmp(image, "dir:", 4) != 0;
}

static void on_pulled(struct image_waiter *w, int r, const struct warren_error *err)
{
	struct create_op *m = w->ctx;
	struct sandbox *sandbox = sandbox_find(m->service, NULL, m->id);

	if (r == 1)
		return;
	if (r < 0) {
		sandbox_create_fail(m, err);
		return;
	}
	sandbox->pulling = NULL;
	m->pulled = true;
	ask_warden(m);
}

static void sandbox_create_pull(struct create_op *m)
{
	struct sandbox *sandbox = sandbox_find(m->service, NULL, m->id);
	struct warren_error err = WARREN_ERROR_INIT;

	m->waiter = (struct image_waiter){ .fn = on_pulled, .ctx = m };
	sandbox->pulling = m;
	if (image_pull(m->service, sandbox->row.owner, NULL, m->image, m->platform,
		       m->pull == BOX_PULL_MISSING ? IMAGE_IF_MISSING : 0, &m->waiter,
		       &err) < 0)
		sandbox_create_fail(m, &err);
}

/* Handle the answer to the question whether the image is missing. */
static void sandbox_create_on_looked(void *ctx, int r, const char *json UNUSED,
				     size_t size UNUSED,
				     const struct warren_error *failure UNUSED)
{
	struct create_op *m = ctx;
	struct warren_error err = m->missing;

	if (r == -ENOMEDIUM)
		(void)error_set(
			&err, ENOMEDIUM, "there is no image '%s' on this machine, and %s",
			m->image,
			m->may_not_pull
				? "the token lacks the scope 'pull', which is needed to pull it"
				: "the request forbids pulling it (pull: never)");
	sandbox_create_fail(m, &err);
}

/* --------------------------------------------------------------- creating the sandbox */

static int sandbox_create_take_over(struct sandbox *sandbox, const char *data,
				    size_t size, int fd, struct warren_error *err)
{
	AUTO_BUF struct buf enforced = BUF_INIT(65536);
	AUTO_EVENT_TX struct event_tx tx = { 0 };
	struct sandbox_row after = sandbox->row;
	struct json j = { .out = &enforced };
	int r = init_conn_open(sandbox, fd, data, size, err);

	if (r < 0)
		return r;
	init_conn_is_new(sandbox);
	spec_put_enforced(&j, NULL, sandbox->is.enforced, sandbox->is.n_enforced);
	after.state = SANDBOX_RUNNING;
	r = event_begin(sandbox->service, &tx, err);
	if (r == 0)
		r = db_start_sandbox(sandbox->service->db, sandbox->row.id,
				     enforced.failed ? "[]" : enforced.data,
				     service_time(), err);
	if (r < 0)
		return r;
	event_emit_row(sandbox->service, EVENT_SANDBOX_STARTED, &after, NULL,
		       sandbox->reason, NULL);
	r = event_commit(&tx, err);
	if (r == 0)
		sandbox_moved(sandbox, SANDBOX_RUNNING);
	sandbox->loaded = r == 0;
	return r;
}

static void on_not_taken(void *ctx UNUSED, const struct warren_error *failure UNUSED,
			 const char *data UNUSED, size_t size UNUSED, int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

int create_op_take_over(struct create_op *m, struct warren_error *err)
{
	struct sandbox *sandbox = sandbox_find(m->service, NULL, m->id);

	return sandbox_create_take_over(sandbox, m->made.data, m->made.len,
					TAKE_FD(m->conn), err);
}

void create_op_finish(struct create_op *m)
{
	struct service *s = m->service;
	struct sandbox *sandbox = sandbox_find(s, NULL, m->id);

	sandbox->moving = false;
	s->metrics.created++;
	/* If the image was pulled, the time is not counted. */
	if (!m->pulled)
		figure_add(s, FIGURE_CREATE, (clock_now() - sandbox->created) / 1000);
	create_op_free(m);
	ROOMS_CALL(s, created, sandbox);
	loop_defer(s->loop, &sandbox->waiters_task);
	sandbox_arm(sandbox);
	sandbox_next_job(sandbox);
}

/* All modules have finished: the sandbox begins to run. */
static void sandbox_create_on_prepared(void *ctx, int r,
				       const struct warren_error *failed)
{
	struct create_op *m = ctx;
	struct service *s = m->service;
	struct sandbox *sandbox = sandbox_find(s, NULL, m->id);
	struct warren_error err = *failed;

	/* See sandbox_create_on_created(). */
	if (!sandbox || s->closing) {
		create_op_free(m);
		return;
	}
	if (r == 0 && m->group)
		sandbox_group_ready(TAKE_PTR(m->group), m);
	else if (r < 0 || create_op_take_over(m, &err) < 0)
		sandbox_create_fail_made(m, true, &err);
	else
		create_op_finish(m);
}

int create_take_fds(struct sandbox *sandbox, bool captured, int fd, int *ret_conn,
		    struct warren_error *err)
{
	int fds[WIRE_CREATE_FDS], r;

	if (!captured) {
		*ret_conn = fd;
		return 0;
	}
	r = fd < 0 ? -EBADMSG : fd_unbundle(fd, fds, ARRAY_SIZE(fds));
	if (r < 0)
		return error_errno(err, -r, "take over the sandbox");
	*ret_conn = fds[0];
	(void)memcpy(sandbox->captured, fds + 1, sizeof(sandbox->captured));
	return 0;
}

static void sandbox_create_on_created(void *ctx, const struct warren_error *failure,
				      const char *data, size_t size, int fd)
{
	struct create_op *m = ctx;
	struct service *s = m->service;
	struct sandbox *sandbox = sandbox_find(s, NULL, m->id);
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	/*
	 * It is unknown whether the warden created the sandbox. In the state `creating`,
	 * it is destroyed at the next start.
	 */
	if (!sandbox || s->closing) {
		if (fd >= 0)
			(void)close(fd);
		create_op_free(m);
		return;
	}
	if (failure && failure->code == ENOENT && is_stored(m) && !m->pulled) {
		m->missing = *failure;
		if (m->pull == BOX_PULL_NEVER)
			image_ask(s, IMAGE_INSPECT, m->image, sandbox_create_on_looked,
				  m);
		else
			sandbox_create_pull(m);
		return;
	}
	/*
	 * The warden created the sandbox, but the connection did not arrive: destroy it,
	 * because no other process will.
	 */
	if (failure && failure->code == EMFILE)
		(void)warden_conn_ask_of(
			sandbox,
			&(struct warden_proto_sandbox){ .h = { .type = WIRE_DESTROY } },
			sizeof(struct warden_proto_sandbox), on_not_taken, NULL);
	if (failure) {
		sandbox_create_fail_made(m, false, failure);
		return;
	}
	r = create_take_fds(sandbox, m->captured, fd, &m->conn, &err);
	buf_add(&m->made, data, size);
	if (r == 0 && m->made.failed)
		r = error_errno(&err, ENOMEM, "create a sandbox");
	if (r < 0)
		sandbox_create_on_prepared(m, r, &err);
	else
		hooks_await(sandbox, offsetof(struct service_module, prepare),
			    sandbox_create_on_prepared, m);
}

static void ask_warden(struct create_op *m)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r = warden_conn_ask(m->service, m->msg.data, m->msg.len,
				sandbox_create_on_created, m);

	if (r == -ESHUTDOWN) {
		/* As above: the next process decides what happens to it. */
		create_op_free(m);
	} else if (r < 0) {
		(void)error_errno(&err, -r, "request a sandbox");
		sandbox_create_fail(m, &err);
	}
}

void sandbox_make(struct sandbox *sandbox, const struct warren_spec *spec,
		  const struct sandbox_source *source, struct sandbox_group *group)
{
	struct create_op *m = calloc(1, sizeof(*m));
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	sandbox->moving = true; /* requests that arrive in the meantime wait */
	if (!m && group) {
		sandbox_group_leave(group, NULL);
		return;
	}
	if (!m) {
		sandbox->moving = false;
		sandbox->failure = ENOMEM;
		if (sandbox_move(sandbox, SANDBOX_FAILED, "out of memory", &err) < 0)
			service_untidy(sandbox->service);
		return;
	}
	*m = (struct create_op){
		.service = sandbox->service,
		.msg = BUF_INIT(WIRE_MESSAGE_MAX),
		.made = BUF_INIT(2UL * WIRE_MESSAGE_MAX),
		.conn = -1,
		.image = spec->image ? strdup(spec->image) : NULL,
		.platform = source->platform ? strdup(source->platform) : NULL,
		.pull = source->may_not_pull ? BOX_PULL_NEVER : source->pull,
		.may_not_pull = source->may_not_pull,
		.theirs = source->theirs,
		.captured = spec->network == WARREN_NETWORK_CAPTURED,
		.group = group
	};
	(void)memcpy(m->id, sandbox->row.id, sizeof(m->id));
	r = warden_proto_put_create(&m->msg, sandbox->row.backend, sandbox->row.id, spec);
	if (r == 0)
		warden_proto_put_tenant((struct warden_proto_header *)(void *)m->msg.data,
					sandbox->row.owner);
	if ((spec->image && !m->image) || (source->platform && !m->platform))
		r = -ENOMEM;
	if (r < 0) {
		(void)error_errno(&err, -r, "request a sandbox");
		sandbox_create_fail(m, &err);
	} else if (is_stored(m) && (m->pull == BOX_PULL_ALWAYS ||
				    (m->pull == BOX_PULL_MISSING && m->platform))) {
		sandbox_create_pull(m);
	} else {
		ask_warden(m);
	}
}

void sandbox_make_cancel(struct sandbox *sandbox)
{
	struct create_op *m = sandbox->pulling;

	if (!m)
		return;
	sandbox->pulling = NULL;
	sandbox->moving = false;
	image_leave(&m->waiter);
	create_op_free(m);
}
