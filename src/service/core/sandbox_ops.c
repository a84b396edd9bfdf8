/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_ops.c - operations of the warden on a sandbox: create, limit, destroy
 */
#include <errno.h>
#include <string.h>

#include "base/snapshot_name.h"
#include "proto/warden_proto.h"
#include "service/core/diff.h"
#include "service/core/internal.h"
#include "service/core/sandbox_job.h"
#include "spec/spec.h"

/* ----------------------------------------------------------------- creation */

struct first {
	struct service *service;
	struct sandbox **ret;
	size_t n;
};

static int take_former(void *ctx, const struct sandbox_row *row)
{
	struct first *f = ctx;
	struct sandbox *sandbox = sandbox_find(f->service, NULL, row->id);

	if (sandbox)
		f->ret[f->n++] = sandbox;
	return 0;
}

/* Sandboxes that one request creates. */
struct creation {
	struct sandbox_row *rows;
	const struct warren_spec *specs;
	const struct sandbox_source *sources;
	size_t n;
	struct sandbox_group *group; /* NULL: each is created on its own */
	struct sandbox **ret;
};

static int begin_all(struct service *s, const struct creation *c,
		     struct warren_error *err)
{
	size_t begun = 0;

	for (size_t i = 0; i < c->n; i++) {
		c->ret[i] = sandbox_new(s, &c->rows[i]);
		if (!c->ret[i]) {
			service_untidy(s);
			(void)error_errno(err, ENOMEM, "allocate a sandbox");
			if (c->group)
				sandbox_group_leave(c->group, err);
			continue;
		}
		begun++;
		lease_force(s, LEASE_DESCRIPTORS, c->rows[i].owner, 1,
			    &c->ret[i]->descriptors);
		sandbox_make(c->ret[i], &c->specs[i], &c->sources[i], c->group);
	}
	if (c->group)
		sandbox_group_begun(c->group, c->rows);
	return begun > 0 || c->group ? 0 : -ENOMEM;
}

/* Return 1 if the same request was made before. */
static int record_all(struct service *s, const struct sandbox_row *rows, size_t n,
		      const struct db_request *request, struct warren_error *err)
{
	AUTO_EVENT_TX struct event_tx tx = { 0 };
	int r = event_begin(s, &tx, err), again;

	if (r < 0)
		return r;
	again = db_insert_sandboxes(s->db, rows, n, request, err);
	if (again < 0)
		return again;
	for (size_t i = 0; again == 0 && i < n; i++)
		event_emit_row(s, EVENT_SANDBOX_CREATED, &rows[i], NULL, NULL, NULL);
	r = event_commit(&tx, err);
	return r < 0 ? r : again;
}

/*
 * The image of a snapshot belongs to its tenant. A request may use it only if it has
 * named the snapshot itself (sandbox_row.snapshot), whatever other names the image has.
 */
static int check_image(struct service *s, const struct sandbox_row *row,
		       const struct warren_spec *spec, struct warren_error *err)
{
	const char *image = row->snapshot ? NULL : spec->image;
	int r = 0;

	if (image && snapshot_is_ref(image))
		r = 1;
	else if (image)
		r = db_is_snapshot_image(s->db, image, err);
	return r > 0 ? error_set(err, ENOMEDIUM,
				 "there is no image '%.200s' on this machine", image)
		     : r;
}

static int create_grouped(struct service *s, const struct creation *c,
			  const struct db_request *request, struct warren_error *err)
{
	struct first former = { .service = s, .ret = c->ret };
	struct fair_quota_lease lease = { 0 };
	size_t parts;
	int r = disk_admit(s, err);

	for (size_t i = 0; r == 0 && i < c->n; i++)
		r = check_image(s, &c->rows[i], &c->specs[i], err);
	if (r == 0)
		r = lease_take(s, LEASE_DESCRIPTORS, c->rows[0].owner, c->n, &lease, err);
	if (r < 0)
		return r;
	parts = pool_ids_take(s, c->rows, c->n);
	r = record_all(s, c->rows, c->n, request, err);
	/* From here on, each sandbox has its own lease. */
	lease_end(s, LEASE_DESCRIPTORS, &lease);
	if (r != 0)
		pool_ids_return(s, c->rows, parts);
	if (r == 1) {
		r = db_each_of_request(s->db, c->rows[0].owner, request->key, take_former,
				       &former, err);
		while (former.n < c->n)
			c->ret[former.n++] = NULL;
		return r < 0 ? r : 1;
	}
	if (r == -EDQUOT)
		s->metrics.denied++;
	return r < 0 ? r : begin_all(s, c, err);
}

int sandbox_create_many(struct service *s, struct sandbox_row *rows,
			const struct warren_spec *specs,
			const struct sandbox_source *sources, size_t n,
			const struct db_request *request, struct sandbox **ret,
			struct warren_error *err)
{
	const struct creation c = {
		.rows = rows, .specs = specs, .sources = sources, .n = n, .ret = ret
	};

	return create_grouped(s, &c, request, err);
}

int sandbox_create_all(struct service *s, struct sandbox_row *rows,
		       const struct warren_spec *specs,
		       const struct sandbox_source *sources, size_t n,
		       sandbox_all_fn done, void *ctx, struct warren_error *err)
{
	const struct creation c = { .rows = rows,
				    .specs = specs,
				    .sources = sources,
				    .n = n,
				    .group = sandbox_group_new(s, n, done, ctx),
				    .ret = calloc(n, sizeof(struct sandbox *)) };
	struct db_request none = { 0 };
	int r = c.group && c.ret ? 0 : error_errno(err, ENOMEM, "create the sandboxes");

	if (r == 0)
		r = create_grouped(s, &c, &none, err);
	if (r < 0)
		sandbox_group_free(c.group);
	free((void *)c.ret);
	return r;
}

int sandbox_create(struct service *s, struct sandbox_row *row,
		   const struct warren_spec *spec, const struct sandbox_source *source,
		   const struct db_request *request, struct sandbox **ret,
		   struct warren_error *err)
{
	return sandbox_create_many(s, row, spec, source, 1, request, ret, err);
}

/* ----------------------------------------------------------------- destruction */

struct unmaking {
	struct service *service;
	char id[ID_LEN + 1];
	service_done_fn done;
	void *ctx;
};

static int record_deletion(struct service *s, struct sandbox *sandbox,
			   struct warren_error *err)
{
	AUTO_EVENT_TX struct event_tx tx = { 0 };
	int r = event_begin(s, &tx, err);

	if (r == 0)
		r = event_emit_ends(sandbox, "deleted", err);
	if (r == 0)
		r = db_delete_sandbox(s->db, sandbox->row.id, err);
	if (r < 0)
		return r;
	event_emit(s, EVENT_SANDBOX_DELETED, sandbox, NULL, NULL);
	return event_commit(&tx, err);
}

static void sandbox_ops_forget(struct service *s, struct sandbox *sandbox)
{
	struct warren_error err = WARREN_ERROR_INIT;

	ROOMS_CALL(s, forget, sandbox);
	/* gc.c will find and delete the row later. */
	if (record_deletion(s, sandbox, &err) < 0)
		service_untidy(s);
	s->metrics.deleted++;
	while (sandbox->jobs) {
		struct sandbox_job *job = sandbox->jobs;

		sandbox->jobs = job->next;
		(void)error_set(&err, ESTALE, "the sandbox is gone");
		job->done(job->ctx, -ESTALE, &err);
		free(job->text);
		free(job);
	}
	sandbox_free(sandbox);
}

static void on_destroyed(void *ctx, const struct warren_error *failure,
			 const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct unmaking u = *(struct unmaking *)ctx;
	struct sandbox *sandbox = sandbox_find(u.service, NULL, u.id);

	free(ctx);
	if (fd >= 0)
		(void)close(fd);
	if (!sandbox)
		return;
	sandbox->moving = false;
	if (failure) {
		/* The state stays `deleting`: the next request or start tries again. */
		service_untidy(u.service);
		u.done(u.ctx, -failure->code, failure);
		sandbox_next_job(sandbox);
		return;
	}
	sandbox_ops_forget(u.service, sandbox);
	u.done(u.ctx, 0, NULL);
}

/* The sandbox is in the state `deleting`: kill its processes and remove it. */
void sandbox_unmake(struct sandbox *sandbox, service_done_fn done, void *ctx)
{
	struct warden_proto_sandbox msg = { .h = { .type = WIRE_DESTROY } };
	struct unmaking *u = malloc(sizeof(*u));
	struct warren_error err = WARREN_ERROR_INIT;
	int r = -ENOMEM;

	sandbox_diffs_end(sandbox);
	if (u) {
		*u = (struct unmaking){ .service = sandbox->service,
					.done = done,
					.ctx = ctx };
		(void)memcpy(u->id, sandbox->row.id, sizeof(u->id));
		r = warden_conn_ask_of(sandbox, &msg, sizeof(msg), on_destroyed, u);
	}
	if (r < 0) {
		free(u);
		sandbox->moving = false;
		service_untidy(sandbox->service);
		done(ctx, error_errno(&err, -r, "delete the sandbox"), &err);
	}
}

static void sandbox_ops_on_deleted(void *ctx, int r, const struct warren_error *err)
{
	struct sandbox_job *job = ctx;

	job->done(job->ctx, r, err);
	free(job->text);
	free(job);
}

static void begin_delete(struct sandbox_job *job)
{
	struct sandbox *sandbox = job->sandbox;
	struct warren_error err = WARREN_ERROR_INIT;

	if (sandbox->row.state != SANDBOX_DELETING) {
		int r = sandbox_move(sandbox, SANDBOX_DELETING, NULL, &err);

		if (r < 0) {
			sandbox_job_end(job, r, &err);
			return;
		}
	}
	sandbox->jobs = job->next; /* later jobs get the error that the sandbox is gone */
	sandbox_unmake(sandbox, sandbox_ops_on_deleted, job);
}

static void sandbox_delete_by(struct sandbox *sandbox, enum sandbox_job_kind kind,
			      const char *why, const struct permit *permit,
			      service_done_fn done, void *ctx)
{
	sandbox_make_cancel(sandbox);
	sandbox_job_add(sandbox, (struct sandbox_job){ .begin = begin_delete,
						       .kind = kind,
						       .why = why,
						       .hurries = true,
						       .permit = *permit,
						       .done = done,
						       .ctx = ctx });
}

void sandbox_delete_for(struct sandbox *sandbox, const char *why, service_done_fn done,
			void *ctx)
{
	sandbox_delete_by(sandbox, JOB_OURS, why, &(struct permit){ 0 }, done, ctx);
}

void sandbox_delete(struct sandbox *sandbox, service_done_fn done, void *ctx)
{
	sandbox_delete_by(sandbox, JOB_END, "request", &sandbox->service->permit, done,
			  ctx);
}

/* ---------------------------------------------------------- failed sandboxes */

static bool may_fail(const struct sandbox *sandbox)
{
	return sandbox->row.state == SANDBOX_CREATING || sandbox_is_made(sandbox);
}

/* The end of a sandbox that persists removes its files only if its creation failed. */
static bool sandbox_ops_keeps(const struct sandbox *sandbox)
{
	return sandbox->persist && sandbox_is_made(sandbox) && !sandbox->command_failed;
}

/* Has the warden found neither the sandbox nor its files? */
static bool sandbox_ops_found_none(const struct warren_error *failure)
{
	return failure->code == ENOENT || failure->code == ESRCH;
}

static void sandbox_ops_on_ended(void *ctx, const struct warren_error *failure,
				 const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct sandbox_job *job = ctx;
	struct sandbox *sandbox = job->sandbox;
	struct warren_error err = WARREN_ERROR_INIT;

	if (fd >= 0)
		(void)close(fd);
	/* The next process finds the state in the database, and does the same. */
	if (sandbox->service->closing) {
		sandbox_job_end(job, 0, NULL);
		return;
	}
	sandbox->broke = job->lost;
	if (sandbox_ops_keeps(sandbox) && (!failure || !sandbox_ops_found_none(failure) ||
					   job->to == SANDBOX_ON_DISK)) {
		/* After a failure, gc.c connects again, which shows what is left of it.
		 */
		if (failure)
			service_untidy(sandbox->service);
		else
			sandbox_is_asleep(sandbox);
		sandbox_job_end(job, 0, NULL);
		return;
	}
	/* Its files are missing. */
	if (sandbox_ops_keeps(sandbox))
		failure = NULL;
	/* The state in the database stays as it is until it can be changed. */
	if ((may_fail(sandbox) &&
	     sandbox_move(sandbox, job->to, job->lost.msg, &err) < 0) ||
	    failure)
		service_untidy(sandbox->service);
	sandbox_job_end(job, 0, NULL);
}

static void begin_end(struct sandbox_job *job)
{
	struct warden_proto_sandbox msg = { .h = { .type = sandbox_ops_keeps(job->sandbox)
								   ? WIRE_HIBERNATE
								   : WIRE_DESTROY } };
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (!may_fail(job->sandbox)) {
		sandbox_job_end(job, 0, NULL);
		return;
	}
	r = warden_conn_ask_of(job->sandbox, &msg, sizeof(msg), sandbox_ops_on_ended,
			       job);
	if (r < 0) {
		(void)error_errno(&err, -r, "send a request to the warden");
		sandbox_ops_on_ended(job, &err, NULL, 0, -1);
	}
}

/*
 * Set the state only after all processes of the sandbox have ended, so that a client that
 * sees `failed` knows that nothing of the sandbox runs.
 */
void sandbox_end_as(struct sandbox *sandbox, enum sandbox_state to,
		    const struct warren_error *why)
{
	sandbox_job_add(
		sandbox,
		(struct sandbox_job){ .begin = begin_end,
				      .to = to,
				      .why = to == SANDBOX_FAILED ? "failed" : "reboot",
				      .hurries = true,
				      .lost = *why,
				      .done = service_ignore });
}

void sandbox_end(struct sandbox *sandbox, const struct warren_error *why)
{
	sandbox_end_as(sandbox, SANDBOX_FAILED, why);
}

/* ------------------------------------------------------------- lost connections */

static void on_reconnected(void *ctx, int r, const struct warren_error *err)
{
	sandbox_job_end(ctx, r, err);
}

static void begin_reconnect(struct sandbox_job *job)
{
	const struct sandbox *sandbox = job->sandbox;

	if (sandbox->conn >= 0 || !sandbox_is_made(sandbox))
		sandbox_job_end(job, 0, NULL);
	else
		sandbox_reconnect(job->sandbox, on_reconnected, job);
}

static void on_reconnect_over(void *ctx, int r, const struct warren_error *err)
{
	sandbox_reconnected(ctx, r, err);
}

void sandbox_reconnect_in_turn(struct sandbox *sandbox)
{
	sandbox_job_add(sandbox, (struct sandbox_job){ .begin = begin_reconnect,
						       .follows = true,
						       .done = on_reconnect_over,
						       .ctx = sandbox });
}

/* ------------------------------------------------------------ limits and usage */

/* If the kernel refused the change, undo it in the database as well. */
static void on_updated(void *ctx, const struct warren_error *failure,
		       const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct sandbox_job *job = ctx;
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (fd >= 0)
		(void)close(fd);
	if (failure)
		(void)spec_set_limits(job->sandbox, &job->old, &ignored);
	else
		event_emit(job->sandbox->service, EVENT_SANDBOX_UPDATED, job->sandbox,
			   NULL, NULL);
	sandbox_job_end(job, failure ? -failure->code : 0, failure);
}

static void begin_update(struct sandbox_job *job)
{
	struct warden_proto_update msg = { .h = { .type = WIRE_UPDATE } };
	struct sandbox *sandbox = job->sandbox;
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (sandbox->row.state != SANDBOX_RUNNING &&
	    sandbox->row.state != SANDBOX_PAUSED) {
		sandbox_job_end(job, sandbox_wrong_state(sandbox, &err), &err);
		return;
	}
	for (size_t i = 0; i < SPEC_LIVE_MAX; i++)
		msg.limits[i] = spec_live_get(&job->limits, i);
	sandbox_limits(sandbox, &job->old);
	r = spec_set_limits(sandbox, &job->limits, &err);
	if (r == 0) {
		r = warden_conn_ask_of(sandbox, &msg, sizeof(msg), on_updated, job);
		if (r < 0)
			(void)error_errno(&err, -r, "send a request to the warden");
	}
	if (r < 0)
		sandbox_job_end(job, r, &err);
}

void sandbox_update(struct sandbox *sandbox, const struct warren_limits *limits,
		    service_done_fn done, void *ctx)
{
	sandbox_job_add(sandbox, (struct sandbox_job){ .begin = begin_update,
						       .limits = *limits,
						       .kind = JOB_CHANGE,
						       .permit = sandbox->service->permit,
						       .done = done,
						       .ctx = ctx });
}

struct counting {
	struct service *service;
	char id[ID_LEN + 1];
	void (*done)(void *ctx, int r, const struct warren_stats *stats,
		     const struct warren_error *err);
	void *ctx;
};

static void sandbox_ops_on_stats(void *ctx, const struct warren_error *failure,
				 const char *data, size_t size, int fd)
{
	struct counting *c = ctx;
	const struct sandbox *sandbox;
	struct warren_error err = WARREN_ERROR_INIT;
	struct warden_proto_stats stats;

	if (fd >= 0)
		(void)close(fd);
	if (failure) {
		c->done(c->ctx, -failure->code, NULL, failure);
	} else if (size != sizeof(stats)) {
		c->done(c->ctx, error_errno(&err, EPROTO, "count"), NULL, &err);
	} else {
		(void)memcpy(&stats, data, sizeof(stats));
		sandbox = sandbox_find(c->service, NULL, c->id);
		if (sandbox && stats.kills_apart)
			stats.is.oom_kills += sandbox->oom_kills;
		c->done(c->ctx, 0, &stats.is, NULL);
	}
	free(c);
}

void sandbox_stats(struct sandbox *sandbox,
		   void (*done)(void *ctx, int r, const struct warren_stats *stats,
				const struct warren_error *err),
		   void *ctx)
{
	struct warden_proto_sandbox msg = { .h = { .type = WIRE_STATS } };
	struct counting *c = malloc(sizeof(*c));
	struct warren_error err = WARREN_ERROR_INIT;
	int r = -ENOMEM;

	if (c) {
		*c = (struct counting){ .service = sandbox->service,
					.done = done,
					.ctx = ctx };
		(void)memcpy(c->id, sandbox->row.id, sizeof(c->id));
		r = warden_conn_ask_of(sandbox, &msg, sizeof(msg), sandbox_ops_on_stats,
				       c);
	}
	if (r < 0) {
		free(c);
		done(ctx, error_errno(&err, -r, "send a request to the warden"), NULL,
		     &err);
	}
}

struct deleting {
	size_t left;
	service_done_fn done;
	void *ctx;
};

static void on_one_deleted(void *ctx, int r UNUSED, const struct warren_error *err UNUSED)
{
	struct deleting *d = ctx;

	if (--d->left > 0)
		return;
	d->done(d->ctx, 0, NULL);
	free(d);
}

void service_delete_all(struct service *s, service_done_fn done, void *ctx)
{
	struct deleting *d = malloc(sizeof(*d));

	if (!d) {
		done(ctx, -ENOMEM, NULL);
		return;
	}
	/* Start at 1, so that this does not end before all deletions have started. */
	*d = (struct deleting){ .left = 1, .done = done, .ctx = ctx };
	for (size_t i = 0; i < SANDBOX_BUCKETS; i++) {
		struct sandbox *next;

		for (struct sandbox *sandbox = s->sandboxes[i]; sandbox; sandbox = next) {
			next = sandbox->hash_next;
			d->left++;
			sandbox_delete(sandbox, on_one_deleted, d);
		}
	}
	on_one_deleted(d, 0, NULL);
}
