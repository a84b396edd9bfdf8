/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.c - create and delete snapshots, and finish the work of an earlier process
 *
 *	create	row `creating`; layer (the warden); image (warren-image); row `ready`
 *	delete	row `deleting`; no image; no row
 *
 * If a step fails or the process dies, the snapshot is deleted, now or when gc.c runs
 * next.
 */
#include "service/snapshot/snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/snapshot_name.h"
#include "db/template.h"
#include "proto/warden_proto.h"
#include "service/core/module.h"
#include "service/core/sandbox_job.h"
#include "service/snapshot/internal.h"

#define SNAPSHOT_REMOVALS      4 /* maximum number of images removed at the same time */
#define SNAPSHOT_SWEEP_MAX     8 /* maximum number of leftovers that are taken at a time */
#define SNAPSHOT_DELETIONS_MAX 64 /* more than that are left for a sweep */
/* A client waits this long for a deletion, and is answered; the deletion continues. */
#define SNAPSHOT_ANSWER_MS 5000
/* Delay of another attempt after a deletion failed; it doubles up to the maximum. */
#define SNAPSHOT_RETRY_MS     1000
#define SNAPSHOT_RETRY_MS_MAX 30000
#define SNAPSHOTS_AT_ONCE     8 /* maximum number that is created at the same time */
#define SNAPSHOTS_OF_ONE      4 /* the same, for one tenant */
/* Maximum number that may wait. If a client disconnects, its snapshot still waits. */
#define SNAPSHOTS_MAX        256
#define SNAPSHOT_TRIES       64
#define SNAPSHOT_NAMES_MAX   1000 /* of one snapshot, in the list of its names */
#define SNAPSHOTS_MAX_OF_ONE 64

struct snapshot_module {
	struct snapshot_op *ops; /* in progress */
	struct loop_task sweep;  /* deletes unused snapshots without a name */
	struct loop_task start;  /* starts waiting creations and deletions */
	/*
	 * Deletions fail while images are added, which may take hours: until the timer
	 * fires, no process is started for one.
	 */
	struct loop_timer *retry;
	uint64_t retry_ms; /* 0: the last deletion succeeded */
	bool retrying;     /* the timer is set */
	bool more;         /* there may be more leftovers than the last sweep has taken */
};

static void snapshot_begin(struct snapshot_op *op);
static bool snapshot_start_removal(struct service *s);

static struct snapshot_module *snapshot_module(struct service *s)
{
	return s->modules[MODULE_SNAPSHOT];
}

static void snapshot_on_sweep(void *ctx);

/* At the end of this turn of the loop. */
void snapshot_sweep(struct service *s)
{
	struct snapshot_module *m = snapshot_module(s);

	if (s->closing)
		return;
	if (!m->sweep.fn)
		m->sweep = (struct loop_task){ .fn = snapshot_on_sweep, .ctx = s };
	loop_defer(s->loop, &m->sweep);
}

/* ------------------------------------------------------------------ operations */

struct snapshot_op *snapshot_op_new(struct service *s, const char *tenant,
				    const char *labels)
{
	struct snapshot_op *op = calloc(1, sizeof(*op));

	if (!op)
		return NULL;
	*op = (struct snapshot_op){ .service = s,
				    .report = -1,
				    .labels = strdup(labels) };
	if (!op->labels) {
		free(op);
		return NULL;
	}
	(void)snprintf(op->tenant, sizeof(op->tenant), "%s", tenant);
	LIST_APPEND(snapshot_module(s)->ops, op);
	return op;
}

static unsigned snapshot_count(struct service *s, const char *tenant, bool has_turn)
{
	unsigned n = 0;

	for (const struct snapshot_op *op = snapshot_module(s)->ops; op; op = op->next)
		n += op->done && op->has_turn == has_turn &&
		     (!tenant || strcmp(op->tenant, tenant) == 0);
	return n;
}

/* Start the first waiting creation whose tenant has not reached its maximum. */
static bool snapshot_start_one(struct service *s)
{
	struct permit before = s->permit;

	if (snapshot_count(s, NULL, true) >= SNAPSHOTS_AT_ONCE)
		return false;
	for (struct snapshot_op *op = snapshot_module(s)->ops; op; op = op->next) {
		if (!op->done || op->has_turn ||
		    snapshot_count(s, op->tenant, true) >= SNAPSHOTS_OF_ONE)
			continue;
		op->has_turn = true;
		s->permit = op->permit;
		snapshot_begin(op);
		s->permit = before;
		return true;
	}
	return false;
}

static void snapshot_on_start(void *ctx)
{
	while (snapshot_start_one(ctx))
		;
	while (snapshot_start_removal(ctx))
		;
}

/*
 * Start waiting operations, in a later turn of the loop and not within the operation that
 * has just ended.
 */
static void snapshot_next(struct service *s)
{
	struct snapshot_module *m = snapshot_module(s);

	if (!m->start.fn)
		m->start = (struct loop_task){ .fn = snapshot_on_start, .ctx = s };
	loop_defer(s->loop, &m->start);
}

void snapshot_op_free(struct snapshot_op *op)
{
	(void)LIST_REMOVE(snapshot_module(op->service)->ops, op);
	if (op->report >= 0)
		(void)close(op->report);
	(void)loop_timer_free(op->timer);
	free(op->labels);
	free(op);
}

static void snapshot_op_end(struct snapshot_op *op, int r, const struct warren_error *err)
{
	struct service *s = op->service;
	snapshot_done_fn done = op->done;
	service_done_fn deleted = op->deleted;
	char id[ID_LEN + 1];
	void *ctx = op->ctx;

	(void)memcpy(id, op->id, sizeof(id));
	snapshot_op_free(op);
	if (done)
		done(ctx, r, r < 0 ? NULL : id, err);
	if (deleted)
		deleted(ctx, r, err);
	if (!s->closing)
		snapshot_next(s);
}

static bool snapshot_is_busy(struct service *s, const char *id)
{
	for (const struct snapshot_op *op = snapshot_module(s)->ops; op; op = op->next)
		if (strcmp(op->id, id) == 0)
			return true;
	return false;
}

/* ---------------------------------------------------------------------- delete */

static void snapshot_on_retry(void *ctx)
{
	struct service *s = ctx;

	snapshot_module(s)->retrying = false;
	snapshot_sweep(s);
}

/* Sweep again after a delay. */
static void snapshot_retry(struct service *s)
{
	struct snapshot_module *m = snapshot_module(s);

	if (s->closing || m->retrying)
		return;
	if (!m->retry && loop_timer_new(s->loop, snapshot_on_retry, s, &m->retry) < 0) {
		service_untidy(s);
		return;
	}
	m->retry_ms = m->retry_ms ? m->retry_ms * 2 : SNAPSHOT_RETRY_MS;
	if (m->retry_ms > SNAPSHOT_RETRY_MS_MAX)
		m->retry_ms = SNAPSHOT_RETRY_MS_MAX;
	m->retrying = true;
	loop_timer_set(m->retry, m->retry_ms);
}

static void snapshot_on_removed(void *ctx, int r, const char *json UNUSED,
				size_t size UNUSED, const struct warren_error *failure)
{
	struct snapshot_op *op = ctx;
	struct service *s = op->service;
	struct snapshot_module *m = snapshot_module(s);
	struct warren_error err = *failure;

	if (r == 0 || r == -ENOMEDIUM)
		r = db_forget_snapshot(s->db, op->id, &err);
	/* The row stays `deleting`, so clients do not see the snapshot. */
	if (r < 0) {
		snapshot_retry(s);
	} else {
		m->retry_ms = 0;
		if (m->more)
			snapshot_sweep(s);
	}
	snapshot_op_end(op, 0, NULL);
}

/* Start the first waiting deletion. */
static bool snapshot_start_removal(struct service *s)
{
	char ref[sizeof(SNAPSHOT_REGISTRY) + 1 + ID_LEN];
	struct snapshot_op *waits = NULL;
	unsigned n = 0;

	for (struct snapshot_op *op = snapshot_module(s)->ops; op; op = op->next) {
		n += op->removes;
		if (!waits && op->deletes && !op->removes)
			waits = op;
	}
	if (!waits || n >= SNAPSHOT_REMOVALS)
		return false;
	waits->removes = true;
	(void)snprintf(ref, sizeof(ref), SNAPSHOT_REGISTRY "/%s", waits->id);
	image_ask(s, IMAGE_REMOVE_SNAPSHOT, ref, snapshot_on_removed, waits);
	return true;
}

/* The row is `deleting`. */
static void snapshot_op_delete(struct snapshot_op *op)
{
	op->deletes = true;
	snapshot_next(op->service);
}

static unsigned snapshot_count_deletions(struct service *s)
{
	unsigned n = 0;

	for (const struct snapshot_op *op = snapshot_module(s)->ops; op; op = op->next)
		n += op->deletes;
	return n;
}

static void snapshot_on_slow(void *ctx)
{
	struct snapshot_op *op = ctx;
	service_done_fn deleted = op->deleted;

	op->deleted = NULL;
	op->timer = loop_timer_free(op->timer);
	deleted(op->ctx, 0, NULL);
}

/*
 * Delete the snapshot if it has no name and no user. Its row says so from now on, so the
 * client need not wait for its files.
 */
static void snapshot_delete_if_dead(struct service *s, const char *tenant, const char *id,
				    service_done_fn done, void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct snapshot_op *op = NULL;
	struct snapshot_module *m = snapshot_module(s);
	int r = db_delete_snapshot(s->db, id, &err);

	if (r == 0 && snapshot_count_deletions(s) >= SNAPSHOT_DELETIONS_MAX) {
		m->more = true;
		done(ctx, 0, NULL);
		return;
	}
	if (r == 0 && !m->retrying)
		op = snapshot_op_new(s, tenant, "");
	if (op && loop_timer_new(s->loop, snapshot_on_slow, op, &op->timer) < 0) {
		snapshot_op_free(op);
		op = NULL;
	}
	if (!op) {
		snapshot_retry(s);
		done(ctx, 0, NULL);
		return;
	}
	(void)memcpy(op->id, id, sizeof(op->id));
	op->deleted = done;
	op->ctx = ctx;
	loop_timer_set(op->timer, SNAPSHOT_ANSWER_MS);
	snapshot_op_delete(op);
}

static int snapshot_in_use(const struct snapshot_row *row, const char *word,
			   struct warren_error *err)
{
	return error_set(err, EBUSY,
			 "%" PRIu64 " %s created from the snapshot '%s': delete %s first",
			 row->users, row->users == 1 ? "sandbox was" : "sandboxes were",
			 word, row->users == 1 ? "it" : "them");
}

void snapshot_delete(struct service *s, const char *tenant, const char *word, bool force,
		     service_done_fn done, void *ctx)
{
	AUTO_SNAPSHOT_ROW struct snapshot_row row = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	int r = db_get_snapshot(s->db, tenant, word, &row, &err);
	bool by_id = r == 0 && strcmp(word, row.id) == 0;
	bool last = by_id || (r == 0 && !strchr(row.names, ','));
	uint64_t tags = 0;

	if (r == 0)
		r = db_count_snapshot_tags(s->db, row.id, &tags, &err);
	if (r == 0 && by_id && tags > 0)
		r = error_set(&err, EBUSY,
			      "the snapshot '%s' has the files of a template: delete the "
			      "template instead",
			      word);
	if (r == 0 && last && row.users > 0 && !force)
		r = snapshot_in_use(&row, word, &err);
	if (r == 0)
		r = db_unname_snapshot(s->db, tenant, row.id, by_id ? NULL : word, &err);
	if (r < 0) {
		done(ctx, r, &err);
		return;
	}
	event_emit_snapshot(s, EVENT_SNAPSHOT_DELETED, tenant, word);
	if (last && row.users == 0 && tags == 0)
		snapshot_delete_if_dead(s, tenant, row.id, done, ctx);
	else
		done(ctx, 0, NULL);
}

static int snapshot_check_names(const struct snapshot_row *row, struct warren_error *err)
{
	size_t n = 1;

	for (const char *at = row->names; (at = strchr(at, ',')); at++)
		n++;
	return n < SNAPSHOT_NAMES_MAX
		       ? 0
		       : error_set(err, EDQUOT,
				   "the snapshot has %zu names, as many as are allowed: "
				   "remove some",
				   n);
}

int snapshot_tag(struct service *s, const char *tenant, const char *word,
		 const char *name, char ret_id[ID_LEN + 1], struct warren_error *err)
{
	AUTO_SNAPSHOT_ROW struct snapshot_row row = { 0 };
	int r;

	if (!snapshot_name_ok(name))
		return error_set(err, EINVAL,
				 "the name of a snapshot has " SNAPSHOT_NAME_RULE);
	r = db_get_snapshot(s->db, tenant, word, &row, err);
	if (r == 0)
		r = snapshot_check_names(&row, err);
	if (r == 0)
		r = db_name_snapshot(s->db, tenant, row.id, name, err);
	if (r < 0)
		return r;
	snapshot_sweep(s);
	(void)memcpy(ret_id, row.id, sizeof(row.id));
	return 0;
}

/* ---------------------------------------------------------------------- create */

/* If this process ends, the next one deletes the snapshot. */
void snapshot_op_fail(struct snapshot_op *op, const struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct service *s = op->service;
	bool leaves = op->recorded && !s->closing;

	/* If this fails, the row is `creating`: leftovers include such rows, too. */
	if (leaves)
		(void)!db_delete_snapshot(s->db, op->id, &ignored);
	snapshot_op_end(op, -err->code, err);
	if (leaves)
		snapshot_sweep(s);
}

/* @more: what the new snapshot adds. */
static int snapshot_deny(const struct snapshot_op *op, const char *what, uint64_t used,
			 uint64_t more, uint64_t maximum, struct warren_error *err)
{
	(void)error_set(err, EUSERS,
			"the tenant '%s' has %" PRIu64 " %s of at most %" PRIu64
			", and the new snapshot adds %" PRIu64 ": delete some",
			op->tenant, used, what, maximum, more);
	return service_deny(op->service, what, used, maximum, err);
}

/* @more: number of bytes that are added. */
static int snapshot_check_quota(const struct snapshot_op *op, uint64_t more,
				struct warren_error *err)
{
	const struct snapshot_quota *quota = &op->quota;
	uint64_t n = 0, bytes = 0;
	int r = db_sum_snapshots(op->service->db, op->tenant, &n, &bytes, err);

	if (r < 0)
		return r;
	n -= op->recorded;
	if (quota->snapshots && n >= quota->snapshots)
		return snapshot_deny(op, "snapshots", n, 1, quota->snapshots, err);
	if (quota->bytes && (more > quota->bytes || bytes > quota->bytes - more))
		return snapshot_deny(op, "bytes of snapshots", bytes, more, quota->bytes,
				     err);
	return 0;
}

/* Read the report: the image and its size. */
static int snapshot_read_report(const char *json, size_t size, char image[128],
				uint64_t *ret_size, struct warren_error *err)
{
	json_t *report = json_loadb(json, size, JSON_REJECT_DUPLICATES, NULL);
	const json_t *made = json_array_get(report, 0);
	const char *id = json_string_value(json_object_get(made, "id"));

	if (id)
		(void)snprintf(image, 128, "%s", id);
	*ret_size = (uint64_t)json_integer_value(json_object_get(made, "size"));
	json_decref(report);
	return id ? 0 : error_errno(err, EPROTO, "read the report of warren-image");
}

void snapshot_on_image(void *ctx, int r, const char *json, size_t size,
		       const struct warren_error *failure)
{
	struct snapshot_op *op = ctx;
	struct service *s = op->service;
	struct warren_error err = *failure;
	struct snapshot_row row = { .tenant = op->tenant };
	const char *name = op->name[0] ? op->name : NULL;
	char image[128] = "";

	(void)memcpy(row.id, op->id, sizeof(row.id));
	row.image = image;
	if (r == 0)
		r = snapshot_read_report(json, size, image, &row.size, &err);
	if (r == 0)
		r = snapshot_check_quota(op, row.size, &err);
	if (r == 0)
		r = db_finish_snapshot(s->db, &row, name, &err);
	if (r < 0) {
		snapshot_op_fail(op, &err);
		return;
	}
	event_emit_snapshot(s, EVENT_SNAPSHOT_CREATED, op->tenant, name ? name : op->id);
	snapshot_sweep(s); /* another snapshot may have lost its name to it */
	snapshot_op_end(op, 0, NULL);
}

/* Called when the files are copied, and the sandbox continues. */
static void snapshot_on_job(void *ctx, int r, const struct warren_error *failure)
{
	struct snapshot_op *op = ctx;
	struct warren_error err =
		failure ? *failure : (struct warren_error)WARREN_ERROR_INIT;

	/* The sandbox has hibernated in the meantime: wake it. */
	if (r == -ESTALE && !op->recorded && !op->service->closing &&
	    op->tries++ < SNAPSHOT_TRIES) {
		const struct sandbox *sandbox =
			sandbox_find(op->service, NULL, op->sandbox);

		if (sandbox && sandbox_state_sleeps(sandbox->row.state)) {
			snapshot_begin(op);
			return;
		}
	}
	if (r < 0) {
		snapshot_op_fail(op, &err);
		return;
	}
	r = image_follow(op->service, TAKE_FD(op->report), snapshot_on_image, op, &err);
	if (r < 0)
		snapshot_op_fail(op, &err);
}

/* The next use, start or resume lets it continue. */
static void snapshot_left_paused(struct sandbox *sandbox, struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	err->code = EREMOTEIO;
	sandbox->left_paused = true;
	if (sandbox->row.state != SANDBOX_RUNNING ||
	    sandbox_move(sandbox, SANDBOX_PAUSED, NULL, &ignored) < 0)
		return;
	sandbox->auto_paused = true;
	sandbox_arm(sandbox);
}

static void snapshot_on_copied(void *ctx, const struct warren_error *failure,
			       const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct sandbox_job *job = ctx;
	struct snapshot_op *op = job->ctx;
	struct warren_error err =
		failure ? *failure : (struct warren_error)WARREN_ERROR_INIT;

	if (!failure && fd < 0)
		(void)error_errno(&err, EPROTO, "make a snapshot");
	if (err.code == WIRE_LEFT_PAUSED)
		snapshot_left_paused(job->sandbox, &err);
	op->report = fd;
	sandbox_job_end(job, -err.code, err.code ? &err : NULL);
}

int snapshot_op_record(struct snapshot_op *op, struct warren_error *err)
{
	struct snapshot_row row = { .tenant = op->tenant,
				    .source = op->sandbox,
				    .labels = op->labels,
				    .transient = op->transient,
				    .created_at = service_time() };
	int r = snapshot_check_quota(op, 0, err);

	(void)memcpy(row.id, op->id, sizeof(row.id));
	if (r == 0)
		r = db_insert_snapshot(op->service->db, &row, err);
	op->recorded = r == 0;
	return r;
}

static void snapshot_begin_job(struct sandbox_job *job)
{
	struct warden_proto_snapshot msg = { .h = { .type = WIRE_SNAPSHOT } };
	struct sandbox *sandbox = job->sandbox;
	enum sandbox_state state = sandbox->row.state;
	struct snapshot_op *op = job->ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	int r = 0;

	if (state != SANDBOX_RUNNING && state != SANDBOX_PAUSED &&
	    !sandbox_state_is_stopped(state))
		r = sandbox_wrong_state(sandbox, &err);
	if (r == 0)
		r = snapshot_op_record(op, &err);
	if (r == 0) {
		(void)memcpy(msg.snapshot, op->id, sizeof(op->id));
		r = warden_conn_ask_of(sandbox, &msg, sizeof(msg), snapshot_on_copied,
				       job);
		if (r < 0)
			(void)error_errno(&err, -r, "send a request to the warden");
	}
	if (r < 0)
		sandbox_job_end(job, r, &err);
}

static void snapshot_on_awake(void *ctx, int r, const struct warren_error *failure)
{
	struct snapshot_op *op = ctx;
	struct sandbox *sandbox = sandbox_find(op->service, NULL, op->sandbox);
	struct warren_error err =
		failure ? *failure : (struct warren_error)WARREN_ERROR_INIT;

	if (r == 0 && !sandbox)
		r = error_set(&err, ESTALE, "the sandbox is gone");
	if (r < 0) {
		snapshot_op_fail(op, &err);
		return;
	}
	sandbox_job_add(sandbox, (struct sandbox_job){ .begin = snapshot_begin_job,
						       .why = "snapshot",
						       .kind = JOB_CHANGE,
						       .permit = op->service->permit,
						       .done = snapshot_on_job,
						       .ctx = op });
}

static void snapshot_begin(struct snapshot_op *op)
{
	struct sandbox *sandbox = sandbox_find(op->service, NULL, op->sandbox);
	struct warren_error err = WARREN_ERROR_INIT;

	/* The token may have become invalid while the creation waited. */
	if (permit_check(op->service, &op->permit, &err) < 0)
		snapshot_op_fail(op, &err);
	else if (sandbox && sandbox_state_sleeps(sandbox->row.state))
		sandbox_use(sandbox, snapshot_on_awake, op);
	else
		snapshot_on_awake(op, 0, NULL);
}

void snapshot_create(struct sandbox *sandbox, const struct snapshot_request *request,
		     snapshot_done_fn done, void *ctx)
{
	struct service *s = sandbox->service;
	struct warren_error err = WARREN_ERROR_INIT;
	struct snapshot_op *op;

	if (request->name && !snapshot_name_ok(request->name)) {
		done(ctx,
		     error_set(&err, EINVAL,
			       "the name of a snapshot has " SNAPSHOT_NAME_RULE),
		     NULL, &err);
		return;
	}
	if (snapshot_count(s, NULL, false) >= SNAPSHOTS_MAX ||
	    snapshot_count(s, sandbox->row.owner, false) >= SNAPSHOTS_MAX_OF_ONE) {
		done(ctx,
		     error_set(&err, EAGAIN,
			       "too many snapshots wait for their turn: try again later"),
		     NULL, &err);
		return;
	}
	op = snapshot_op_new(s, sandbox->row.owner, request->labels);
	if (!op) {
		(void)error_errno(&err, ENOMEM, "make a snapshot");
		done(ctx, -ENOMEM, NULL, &err);
		return;
	}
	op->permit = s->permit;
	id_make(op->id);
	(void)memcpy(op->sandbox, sandbox->row.id, sizeof(op->sandbox));
	if (request->name)
		(void)snprintf(op->name, sizeof(op->name), "%s", request->name);
	op->quota = request->quota;
	op->transient = request->transient;
	op->done = done;
	op->ctx = ctx;
	snapshot_next(s);
}

/* -------------------------------------------------------------------- leftovers */

struct snapshot_sweep {
	struct service *service;
	size_t n, max;
	char id[SNAPSHOT_SWEEP_MAX][ID_LEN + 1];
};

/* Snapshots that are being created or deleted are not left over. */
static int snapshot_sweep_take(void *ctx, const char *id)
{
	struct snapshot_sweep *all = ctx;

	if (all->n < all->max && !snapshot_is_busy(all->service, id))
		(void)snprintf(all->id[all->n++], ID_LEN + 1, "%s", id);
	return 0;
}

static size_t snapshot_count_ops(struct service *s)
{
	size_t n = 0;

	for (const struct snapshot_op *op = snapshot_module(s)->ops; op; op = op->next)
		n++;
	return n;
}

/*
 * After a failure, a single deletion shows whether others can succeed. Among the rows are
 * at most as many busy ones as there are operations.
 */
static void snapshot_gc(struct service *s)
{
	struct snapshot_module *m = snapshot_module(s);
	struct snapshot_sweep all = { .service = s,
				      .max = m->retry_ms ? 1 : SNAPSHOT_SWEEP_MAX };
	struct warren_error ignored = WARREN_ERROR_INIT;
	size_t n = 0;

	if (m->retrying)
		return;
	if (db_each_dead_snapshot(s->db, all.max + snapshot_count_ops(s),
				  snapshot_sweep_take, &all, &ignored) < 0) {
		snapshot_retry(s);
		return;
	}
	m->more = all.n == all.max;
	for (size_t i = 0; i < all.n; i++) {
		struct snapshot_op *op = NULL;

		if (db_delete_snapshot(s->db, all.id[i], &ignored) == 0)
			op = snapshot_op_new(s, "", "");
		if (!op)
			continue;
		(void)memcpy(op->id, all.id[i], sizeof(op->id));
		snapshot_op_delete(op);
		n++;
	}
	/* The database cannot be written to. */
	if (n < all.n)
		snapshot_retry(s);
}

static void snapshot_on_sweep(void *ctx)
{
	snapshot_gc(ctx);
}

/*
 * The row of the sandbox is deleted in this turn of the loop, and then the sandbox no
 * longer uses its snapshot.
 */
static void snapshot_sandbox_forget(struct sandbox *sandbox)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (db_has_snapshot(sandbox->service->db, sandbox->row.id, &ignored) > 0)
		snapshot_sweep(sandbox->service);
}

static void snapshot_close(struct service *s)
{
	struct snapshot_module *m = snapshot_module(s);

	m->retry = loop_timer_free(m->retry);
	while (m->ops)
		snapshot_op_free(m->ops);
}

const struct service_module snapshot_hooks = {
	.number = MODULE_SNAPSHOT,
	.service_size = sizeof(struct snapshot_module),
	.close = snapshot_close,
	.forget = snapshot_sandbox_forget,
	.gc = snapshot_gc,
};
