/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume.c - create and delete volumes, and complete operations of earlier processes
 *
 *	create	row `creating`; file; its mode, if any; row `ready`; answer
 *	delete	row `deleting`; no file; no row; answer
 *
 * If a step fails, the volume is deleted at once; if the process dies, it is deleted when
 * gc.c runs next.
 */
#include "service/volume/volume.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/volume_name.h"
#include "service/core/module.h"

#define VOLUME_SWEEP_MAX 64 /* volumes that one run of gc.c deletes */

struct volume_module {
	struct volume_op *ops; /* creations and deletions in progress */
};

struct volume_op {
	struct volume_op *next;
	struct service *service;
	char id[ID_LEN + 1];
	char tenant[DB_NAME_MAX + 1], name[VOLUME_NAME_MAX + 1];
	service_done_fn done; /* NULL: no callback */
	void *ctx;
	uint32_t mode;               /* of the new root directory; 0: the default */
	struct warren_error failure; /* why a creation is being undone */
};

static struct volume_module *volume_module(struct service *s)
{
	return s->modules[MODULE_VOLUME];
}

/* ------------------------------------------------------------------ operations */

static struct volume_op *volume_op_new(struct service *s, const char *tenant,
				       const char *name, service_done_fn done, void *ctx)
{
	struct volume_op *op = calloc(1, sizeof(*op));

	if (!op)
		return NULL;
	*op = (struct volume_op){ .service = s, .done = done, .ctx = ctx };
	(void)snprintf(op->tenant, sizeof(op->tenant), "%s", tenant);
	(void)snprintf(op->name, sizeof(op->name), "%s", name);
	op->next = volume_module(s)->ops;
	volume_module(s)->ops = op;
	return op;
}

static void volume_op_end(struct volume_op *op, int r, const struct warren_error *err)
{
	struct volume_op **p = &volume_module(op->service)->ops;

	while (*p != op)
		p = &(*p)->next;
	*p = op->next;
	if (op->done)
		op->done(op->ctx, r, err);
	free(op);
}

static bool volume_is_busy(struct service *s, const char *id)
{
	for (const struct volume_op *op = volume_module(s)->ops; op; op = op->next)
		if (strcmp(op->id, id) == 0)
			return true;
	return false;
}

/* Ask the warden about the volume of @op. */
static int volume_op_ask(struct volume_op *op, struct warden_proto_volume *m,
			 volume_reply_fn fn, struct warren_error *err)
{
	int r;

	m->h = (struct warden_proto_header){ .type = WIRE_VOLUME };
	(void)memcpy(m->id, op->id, sizeof(op->id));
	warden_proto_put_tenant(&m->h, op->tenant);
	r = warden_conn_ask(op->service, m, sizeof(*m), fn, op);
	return r < 0 ? error_errno(err, -r, "ask the warden") : 0;
}

/* ---------------------------------------------------------------------- delete */

static void volume_on_deleted(void *ctx, const struct warren_error *failure,
			      const char *data UNUSED, size_t size UNUSED, int fd UNUSED)
{
	struct volume_op *op = ctx;
	struct service *s = op->service;
	struct warren_error err = WARREN_ERROR_INIT;
	int r = failure ? -failure->code : db_forget_volume(s->db, op->id, &err);

	/*
	 * The row stays `deleting`, so clients do not see the volume, and gc.c tries
	 * again.
	 */
	if (r < 0 && !s->closing)
		service_untidy(s);
	if (op->failure.code)
		volume_op_end(op, -op->failure.code, &op->failure);
	else
		volume_op_end(op, 0, NULL);
}

static void volume_op_delete(struct volume_op *op)
{
	struct warden_proto_volume m = { .verb = WIRE_VOLUME_DELETE };
	struct warren_error err = WARREN_ERROR_INIT;

	if (volume_op_ask(op, &m, volume_on_deleted, &err) < 0)
		volume_on_deleted(op, &err, NULL, 0, -1);
}

static int volume_name_user(void *ctx, const char *sandbox)
{
	struct buf *out = ctx;

	buf_printf(out, "%s%s", out->len ? ", " : "", sandbox);
	return 0;
}

/* Say which sandboxes use the volume. */
static int volume_in_use(struct service *s, const struct volume_row *row,
			 struct warren_error *err)
{
	AUTO_BUF struct buf users = BUF_INIT(1024);
	int r = db_each_volume_user(s->db, row->id, 8, volume_name_user, &users, err);

	if (r < 0)
		return r;
	return error_set(err, EBUSY,
			 "%" PRIu64 " %s the volume '%s': %s%s; delete %s first",
			 row->users, row->users == 1 ? "sandbox uses" : "sandboxes use",
			 row->name, users.data ? users.data : "",
			 row->users > 8 ? ", ..." : "", row->users == 1 ? "it" : "them");
}

void volume_delete(struct service *s, const char *tenant, const char *name,
		   service_done_fn done, void *ctx)
{
	AUTO_VOLUME_ROW struct volume_row row = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct volume_op *op = NULL;
	int r = db_get_volume(s->db, tenant, name, &row, &err);

	if (r == 0 && row.users > 0)
		r = volume_in_use(s, &row, &err);
	if (r == 0) {
		op = volume_op_new(s, tenant, name, done, ctx);
		r = op ? 0 : error_errno(&err, ENOMEM, "delete a volume");
	}
	if (!op) {
		done(ctx, r, &err);
		return;
	}
	(void)memcpy(op->id, row.id, sizeof(op->id));
	r = db_delete_volume(s->db, op->id, &err);
	if (r < 0) {
		volume_op_end(op, r, &err);
		return;
	}
	event_emit_volume(s, EVENT_VOLUME_DELETED, tenant, name);
	volume_op_delete(op);
}

/* ---------------------------------------------------------------------- create */

/* Everything of the volume exists, or an error prevents that. */
static void volume_on_complete(void *ctx, const struct warren_error *failure,
			       const char *data UNUSED, size_t size UNUSED, int fd UNUSED)
{
	struct volume_op *op = ctx;
	struct service *s = op->service;
	struct warren_error err =
		failure ? *failure : (struct warren_error)WARREN_ERROR_INIT;
	int r = failure ? -failure->code : db_finish_volume(s->db, op->id, &err);

	if (r == 0) {
		event_emit_volume(s, EVENT_VOLUME_CREATED, op->tenant, op->name);
		volume_op_end(op, 0, NULL);
		return;
	}
	/* The next process deletes it if this one ends. */
	if (s->closing) {
		volume_op_end(op, r, &err);
		return;
	}
	op->failure = err;
	volume_op_delete(op);
}

static void volume_on_created(void *ctx, const struct warren_error *failure,
			      const char *data, size_t size, int fd)
{
	struct volume_op *op = ctx;
	struct warden_proto_volume m = { .verb = WIRE_VOLUME_CHANGE,
					 .flags = WIRE_VOLUME_SET_MODE,
					 .mode = op->mode,
					 .path = "/" };
	struct warren_error err = WARREN_ERROR_INIT;

	if (failure || !op->mode)
		volume_on_complete(op, failure, data, size, fd);
	else if (volume_op_ask(op, &m, volume_on_complete, &err) < 0)
		volume_on_complete(op, &err, NULL, 0, -1);
}

static int volume_deny(struct service *s, const char *tenant, const char *what,
		       uint64_t used, uint64_t maximum, struct warren_error *err)
{
	(void)error_set(err, EUSERS,
			"the tenant '%s' has %" PRIu64 " %s of at most %" PRIu64
			": delete some",
			tenant, used, what, maximum);
	return service_deny(s, what, used, maximum, err);
}

static int volume_check_quota(struct service *s, const struct volume_request *q,
			      uint64_t size, struct warren_error *err)
{
	uint64_t n = 0, bytes = 0;
	int r = db_sum_volumes(s->db, q->tenant, &n, &bytes, err);

	if (r < 0)
		return r;
	if (q->quota.volumes && n >= q->quota.volumes)
		return volume_deny(s, q->tenant, "volumes", n, q->quota.volumes, err);
	if (q->quota.bytes && (size > q->quota.bytes || bytes > q->quota.bytes - size))
		return volume_deny(s, q->tenant, "bytes of volumes", bytes,
				   q->quota.bytes, err);
	return 0;
}

/* Check the request, and record the volume of @op. */
static int volume_record(struct volume_op *op, const struct volume_request *q,
			 struct warden_proto_volume *m, struct warren_error *err)
{
	AUTO_VOLUME_ROW struct volume_row from = { 0 };
	struct volume_row row = { .tenant = q->tenant,
				  .name = q->name,
				  .labels = q->labels,
				  .size = q->size,
				  .created_at = service_time() };
	int r = 0;

	if (!volume_name_ok(q->name))
		return error_set(err, EINVAL,
				 "the name of a volume has " VOLUME_NAME_RULE);
	if (q->from) {
		r = db_get_volume(op->service->db, q->tenant, q->from, &from, err);
		row.size = from.size;
		(void)memcpy(m->from, from.id, sizeof(from.id));
		m->verb = WIRE_VOLUME_COPY;
	}
	m->size = row.size;
	if (r == 0)
		r = volume_check_quota(op->service, q, row.size, err);
	if (r < 0)
		return r;
	id_make(op->id);
	(void)memcpy(row.id, op->id, sizeof(row.id));
	return db_insert_volume(op->service->db, &row, err);
}

void volume_create(struct service *s, const struct volume_request *request,
		   service_done_fn done, void *ctx)
{
	struct warden_proto_volume m = { .verb = WIRE_VOLUME_CREATE };
	struct volume_op *op =
		volume_op_new(s, request->tenant, request->name, done, ctx);
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (!op) {
		(void)error_errno(&err, ENOMEM, "create a volume");
		done(ctx, -ENOMEM, &err);
		return;
	}
	op->mode = request->mode;
	r = volume_record(op, request, &m, &err);
	if (r < 0) {
		volume_op_end(op, r, &err);
		return;
	}
	if (volume_op_ask(op, &m, volume_on_created, &err) < 0)
		volume_on_created(op, &err, NULL, 0, -1);
}

/* ----------------------------------------------------------------------- files */

void volume_ask(struct service *s, const char *tenant, const char *name,
		struct warden_proto_volume *m, volume_reply_fn fn, void *ctx)
{
	AUTO_VOLUME_ROW struct volume_row row = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	int r = db_get_volume(s->db, tenant, name, &row, &err);

	if (r == -ENOENT)
		(void)error_set(&err, ENOTBLK, "there is no volume '%s'", name);
	if (r == 0) {
		m->h = (struct warden_proto_header){ .type = WIRE_VOLUME };
		(void)memcpy(m->id, row.id, sizeof(row.id));
		warden_proto_put_tenant(&m->h, tenant);
		r = warden_conn_ask(s, m, sizeof(*m), fn, ctx);
		if (r < 0)
			(void)error_errno(&err, -r, "ask the warden");
	}
	if (r < 0)
		fn(ctx, &err, NULL, 0, -1);
}

/* -------------------------------------------------------------------- leftovers */

struct volume_sweep {
	size_t n;
	char id[VOLUME_SWEEP_MAX][ID_LEN + 1];
};

static int volume_sweep_take(void *ctx, const char *id)
{
	struct volume_sweep *all = ctx;

	(void)snprintf(all->id[all->n++], ID_LEN + 1, "%s", id);
	return 0;
}

static void volume_gc(struct service *s)
{
	struct volume_sweep all = { 0 };
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (db_each_unfinished_volume(s->db, "", VOLUME_SWEEP_MAX, volume_sweep_take,
				      &all, &ignored) < 0)
		return;
	for (size_t i = 0; i < all.n; i++) {
		struct volume_op *op = volume_is_busy(s, all.id[i])
					       ? NULL
					       : volume_op_new(s, "", "", NULL, NULL);

		if (!op)
			continue;
		(void)memcpy(op->id, all.id[i], sizeof(op->id));
		volume_op_delete(op);
	}
	if (all.n == VOLUME_SWEEP_MAX)
		service_untidy(s);
}

const struct service_module volume_hooks = {
	.number = MODULE_VOLUME,
	.service_size = sizeof(struct volume_module),
	.gc = volume_gc,
};
