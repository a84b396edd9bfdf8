/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_ops.c - what the warden does to a sandbox: paused, resumed, limited, unmade
 *
 * A sandbox has a queue of jobs, and one under way. A deletion is the last
 * job that is begun: what waits behind it hears that the sandbox is gone.
 */
#include <errno.h>
#include <string.h>

#include "service/core/internal.h"
#include "proto/warden_proto.h"

struct box_job {
	struct box_job *next;
	struct box *box;
	void (*begin)(struct box_job *job);
	enum sandbox_state to; /* of pause and resume */
	const char *why;       /* is told with it */
	bool idle;             /* of pause: nobody asked for it */
	bool save;             /* of pause: by a checkpoint */
	struct warren_limits limits, old;
	struct warren_error lost; /* of an end: why */
	struct permit permit;     /* of a use */
	service_done_fn done;
	void *ctx;
};

void box_next_job(struct box *box)
{
	/* Jobs that are over at once come one after the other, not one within the other. */
	if (box->working)
		return;
	box->working = true;
	while (!box->moving && box->jobs) {
		box->moving = true;
		box->reason = box->jobs->why;
		box->jobs->begin(box->jobs);
	}
	box->working = false;
}

static void add_job(struct box *box, struct box_job job)
{
	struct box_job **at = &box->jobs, *copy = malloc(sizeof(*copy));
	struct warren_error err = WARREN_ERROR_INIT;

	if (!copy) {
		job.done(job.ctx, error_errno(&err, ENOMEM, "change the sandbox"), &err);
		return;
	}
	*copy = job;
	copy->box = box;
	while (*at)
		at = &(*at)->next;
	*at = copy;
	box_next_job(box);
}

/* Tell a user of the sandbox, on whose behalf it goes on, unless its token is worthless by now. */
static void tell_user(const struct box_job *job, struct service *s, int r,
		      const struct warren_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	struct permit before = s->permit;
	int held = r < 0 ? 0 : permit_check(s, &job->permit, &why);

	s->permit = job->permit;
	job->done(job->ctx, held < 0 ? held : r, held < 0 ? &why : err);
	s->permit = before;
}

/* The job under way is over. */
static void end_job(struct box_job *job, int r, const struct warren_error *err)
{
	struct box *box = job->box;
	struct box_job copy = *job;

	box->jobs = job->next;
	box->moving = false;
	box->reason = NULL;
	free(job);
	tell_user(&copy, box->service, r, err);
	box_next_job(box);
}

static int wrong_state(const struct box *box, struct warren_error *err)
{
	enum sandbox_state state = box->row.state;

	return error_set(err, ESTALE, "the sandbox is %s%s", sandbox_state_name(state),
			 state == SANDBOX_PAUSED ? ": resume it first" : "");
}

/* ----------------------------------------------------------------- creating */

struct first {
	struct service *service;
	struct box **ret;
	size_t n;
};

static int take_former(void *ctx, const struct sandbox_row *row)
{
	struct first *f = ctx;
	struct box *box = box_find(f->service, NULL, row->id);

	if (box)
		f->ret[f->n++] = box;
	return 0;
}

/* Of a row without a box nobody can be told: it is as if never asked for. */
static int begin_all(struct service *s, const struct sandbox_row *rows,
		     const struct warren_spec *specs, const struct box_source *sources,
		     size_t n, struct box **ret, struct warren_error *err)
{
	size_t begun = 0;

	for (size_t i = 0; i < n; i++) {
		ret[i] = box_new(s, &rows[i]);
		if (!ret[i]) {
			service_untidy(s);
			continue;
		}
		begun++;
		lease_force(s, LEASE_DESCRIPTORS, rows[i].owner, 1, &ret[i]->descriptors);
		box_make(ret[i], &specs[i], &sources[i]);
	}
	return begun > 0 ? 0 : error_errno(err, ENOMEM, "make a sandbox");
}

/* 1: the request was made before. */
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

int box_create_many(struct service *s, struct sandbox_row *rows,
		    const struct warren_spec *specs, const struct box_source *sources,
		    size_t n, const struct db_request *request, struct box **ret,
		    struct warren_error *err)
{
	struct first former = { .service = s, .ret = ret };
	struct share_lease lease = { 0 };
	size_t parts;
	int r = disk_admit(s, err);

	if (r == 0)
		r = lease_take(s, LEASE_DESCRIPTORS, rows[0].owner, n, &lease, err);
	if (r < 0)
		return r;
	parts = stock_take(s, rows, n);
	r = record_all(s, rows, n, request, err);
	/* From here on each box has its own. */
	lease_end(s, LEASE_DESCRIPTORS, &lease);
	if (r != 0)
		stock_return(s, rows, parts);
	if (r == 1) {
		r = db_each_of_request(s->db, rows[0].owner, request->key, take_former,
				       &former, err);
		while (former.n < n)
			ret[former.n++] = NULL;
		return r < 0 ? r : 1;
	}
	if (r == -EDQUOT)
		s->figures.denied++;
	return r < 0 ? r : begin_all(s, rows, specs, sources, n, ret, err);
}

int box_create(struct service *s, struct sandbox_row *row, const struct warren_spec *spec,
	       const struct box_source *source, const struct db_request *request,
	       struct box **ret, struct warren_error *err)
{
	return box_create_many(s, row, spec, source, 1, request, ret, err);
}

/* ----------------------------------------------------------------- unmaking */

struct unmaking {
	struct service *service;
	char id[ID_LEN + 1];
	service_done_fn done;
	void *ctx;
};

static int remove_journal(void *ctx, const struct exec_row *row)
{
	run_remove_journal(ctx, row->journal);
	return 0;
}

static int record_deletion(struct service *s, struct box *box, struct warren_error *err)
{
	AUTO_EVENT_TX struct event_tx tx = { 0 };
	int r = event_begin(s, &tx, err);

	if (r == 0)
		r = event_emit_ends(box, "deleted", err);
	if (r == 0)
		r = db_delete_sandbox(s->db, box->row.id, err);
	if (r < 0)
		return r;
	event_emit(s, EVENT_SANDBOX_DELETED, box, NULL, NULL);
	return event_commit(&tx, err);
}

static void forget(struct service *s, struct box *box)
{
	struct warren_error err = WARREN_ERROR_INIT;

	if (db_each_exec(s->db, box->row.id, 0, 0, remove_journal, s, &err) < 0)
		service_untidy(s);
	/* Its row is found again, and deleted then. */
	if (record_deletion(s, box, &err) < 0)
		service_untidy(s);
	s->figures.deleted++;
	while (box->jobs) {
		struct box_job *job = box->jobs;

		box->jobs = job->next;
		(void)error_set(&err, ESTALE, "the sandbox is gone");
		job->done(job->ctx, -ESTALE, &err);
		free(job);
	}
	box_free(box);
}

static void on_destroyed(void *ctx, const struct warren_error *failure,
			 const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct unmaking u = *(struct unmaking *)ctx;
	struct box *box = box_find(u.service, NULL, u.id);

	free(ctx);
	if (fd >= 0)
		(void)close(fd);
	if (!box)
		return;
	box->moving = false;
	if (failure) {
		/* It stays `deleting`: whoever comes next tries again. */
		service_untidy(u.service);
		u.done(u.ctx, -failure->code, failure);
		box_next_job(box);
		return;
	}
	forget(u.service, box);
	u.done(u.ctx, 0, NULL);
}

/* The box is `deleting`: kill, remove, forget. */
void box_unmake(struct box *box, service_done_fn done, void *ctx)
{
	struct wire_box msg = { .h = { .type = WIRE_DESTROY } };
	struct unmaking *u = malloc(sizeof(*u));
	struct warren_error err = WARREN_ERROR_INIT;
	int r = -ENOMEM;

	if (u) {
		*u = (struct unmaking){ .service = box->service,
					.done = done,
					.ctx = ctx };
		(void)memcpy(u->id, box->row.id, sizeof(u->id));
		r = link_ask_of(box, &msg, sizeof(msg), on_destroyed, u);
	}
	if (r < 0) {
		free(u);
		box->moving = false;
		service_untidy(box->service);
		done(ctx, error_errno(&err, -r, "delete the sandbox"), &err);
	}
}

static void on_deleted(void *ctx, int r, const struct warren_error *err)
{
	struct box_job *job = ctx;

	job->done(job->ctx, r, err);
	free(job);
}

static void begin_delete(struct box_job *job)
{
	struct box *box = job->box;
	struct warren_error err = WARREN_ERROR_INIT;

	if (box->row.state != SANDBOX_DELETING) {
		int r = box_move(box, SANDBOX_DELETING, NULL, &err);

		if (r < 0) {
			end_job(job, r, &err);
			return;
		}
	}
	box->jobs = job->next; /* what follows will hear that it is gone */
	box_unmake(box, on_deleted, job);
}

void box_delete_for(struct box *box, const char *why, service_done_fn done, void *ctx)
{
	box_make_cancel(box);
	add_job(box,
		(struct box_job){
			.begin = begin_delete, .why = why, .done = done, .ctx = ctx });
}

void box_delete(struct box *box, service_done_fn done, void *ctx)
{
	box_delete_for(box, "request", done, ctx);
}

/* ---------------------------------------------------------- what has failed */

static bool may_fail(const struct box *box)
{
	return box->row.state == SANDBOX_CREATING || box->row.state == SANDBOX_RUNNING ||
	       box->row.state == SANDBOX_PAUSED;
}

static void on_ended(void *ctx, const struct warren_error *failure,
		     const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct box_job *job = ctx;
	struct box *box = job->box;
	struct warren_error err = WARREN_ERROR_INIT;

	if (fd >= 0)
		(void)close(fd);
	/* The next process finds it as the store has it, and does the same. */
	if (box->service->closing) {
		end_job(job, 0, NULL);
		return;
	}
	box->undead = failure;
	box->broke = job->lost;
	/* The store's word stays until it can be changed. */
	if ((may_fail(box) && box_move(box, SANDBOX_FAILED, job->lost.msg, &err) < 0) ||
	    box->undead)
		service_untidy(box->service);
	end_job(job, 0, NULL);
}

static void begin_end(struct box_job *job)
{
	struct wire_box msg = { .h = { .type = WIRE_DESTROY } };
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (!may_fail(job->box) && !job->box->undead) {
		end_job(job, 0, NULL);
		return;
	}
	r = link_ask_of(job->box, &msg, sizeof(msg), on_ended, job);
	if (r < 0) {
		(void)error_errno(&err, -r, "ask the warden");
		on_ended(job, &err, NULL, 0, -1);
	}
}

/* Nothing of it is left alive, and then it has failed: who sees `failed` sees no process of it. */
void box_end(struct box *box, const struct warren_error *why)
{
	add_job(box, (struct box_job){ .begin = begin_end,
				       .why = "failed",
				       .lost = *why,
				       .done = service_ignore });
}

/* ------------------------------------------------------------- its connection */

static void on_reconnected(void *ctx, int r, const struct warren_error *err)
{
	end_job(ctx, r, err);
}

static void begin_reconnect(struct box_job *job)
{
	const struct box *box = job->box;

	if (box->conn >= 0 ||
	    (box->row.state != SANDBOX_RUNNING && box->row.state != SANDBOX_PAUSED))
		end_job(job, 0, NULL);
	else
		box_reconnect(job->box, on_reconnected, job);
}

static void on_reconnect_over(void *ctx, int r, const struct warren_error *err)
{
	box_reconnected(ctx, r, err);
}

void box_reconnect_in_turn(struct box *box)
{
	add_job(box, (struct box_job){ .begin = begin_reconnect,
				       .done = on_reconnect_over,
				       .ctx = box });
}

/* ---------------------------------------------------------- pause and resume */

static void on_undone(void *ctx UNUSED, const struct warren_error *failure UNUSED,
		      const char *data UNUSED, size_t size UNUSED, int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

/* It cannot be written down: it shall be as the store has it. */
static void undo_pause(const struct box *box, enum sandbox_state to)
{
	struct wire_box msg = { .h = { .type = to == SANDBOX_PAUSED ? WIRE_RESUME
								    : WIRE_PAUSE } };

	(void)link_ask_of(box, &msg, sizeof(msg), on_undone, NULL);
}

static void on_paused(void *ctx, const struct warren_error *failure,
		      const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct box_job *job = ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	int r = 0;

	if (fd >= 0)
		(void)close(fd);
	if (!failure)
		r = box_move(job->box, job->to, NULL, &err);
	if (r < 0)
		undo_pause(job->box, job->to);
	if (!failure && r == 0) {
		job->box->auto_paused = job->to == SANDBOX_PAUSED && job->idle;
		job->box->saved = job->to == SANDBOX_PAUSED && job->save;
		box_arm(job->box);
	}
	end_job(job, failure ? -failure->code : r, failure ? failure : &err);
}

static void begin_pause(struct box_job *job)
{
	struct wire_box msg = { .h = { .type = job->to != SANDBOX_PAUSED ? WIRE_RESUME
					       : job->save               ? WIRE_CHECKPOINT
									 : WIRE_PAUSE } };
	struct box *box = job->box;
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (job->save && box->row.state == SANDBOX_PAUSED && !box->saved) {
		end_job(job,
			error_set(&err, ESTALE,
				  "the sandbox is paused, with all its memory: resume it "
				  "before a checkpoint"),
			&err);
		return;
	}
	/* Twice is no mistake; and it was used while this waited. */
	if (box->row.state == job->to || (job->idle && !box_is_idle(box))) {
		box->auto_paused = box->auto_paused && job->idle;
		box_arm(box);
		end_job(job, 0, NULL);
		return;
	}
	if (box->row.state != SANDBOX_RUNNING && box->row.state != SANDBOX_PAUSED) {
		end_job(job, wrong_state(box, &err), &err);
		return;
	}
	r = link_ask_of(box, &msg, sizeof(msg), on_paused, job);
	if (r < 0)
		end_job(job, error_errno(&err, -r, "ask the warden"), &err);
}

void box_pause_for(struct box *box, const char *why, service_done_fn done, void *ctx)
{
	add_job(box, (struct box_job){ .begin = begin_pause,
				       .to = SANDBOX_PAUSED,
				       .why = why,
				       .idle = true,
				       .done = done,
				       .ctx = ctx });
}

void box_pause(struct box *box, bool pause, service_done_fn done, void *ctx)
{
	add_job(box, (struct box_job){ .begin = begin_pause,
				       .to = pause ? SANDBOX_PAUSED : SANDBOX_RUNNING,
				       .why = "request",
				       .done = done,
				       .ctx = ctx });
}

void box_checkpoint(struct box *box, service_done_fn done, void *ctx)
{
	add_job(box, (struct box_job){ .begin = begin_pause,
				       .to = SANDBOX_PAUSED,
				       .save = true,
				       .why = "request",
				       .done = done,
				       .ctx = ctx });
}

bool box_is_saved(const struct box *box)
{
	return box->saved && box->row.state == SANDBOX_PAUSED;
}

static void begin_use(struct box_job *job)
{
	struct box *box = job->box;
	struct warren_error err = WARREN_ERROR_INIT;
	int r = permit_check(box->service, &job->permit, &err);

	if (r < 0)
		end_job(job, r, &err);
	else if (box->row.state == SANDBOX_PAUSED && box->auto_paused && box->wake_on_use)
		begin_pause(job);
	else if (box->row.state == SANDBOX_RUNNING && box->conn >= 0)
		end_job(job, 0, NULL);
	else if (box->row.state == SANDBOX_RUNNING)
		end_job(job, line_refuse(box, &err), &err);
	else
		end_job(job, wrong_state(box, &err), &err);
}

/* What is about to be paused is not used any more: a use waits for what is under way. */
void box_use(struct box *box, service_done_fn done, void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;

	box_touch(box);
	if (box->row.state != SANDBOX_RUNNING && box->row.state != SANDBOX_PAUSED)
		done(ctx, wrong_state(box, &err), &err);
	else if (box->row.state == SANDBOX_RUNNING && box->conn >= 0 && !box->jobs)
		done(ctx, 0, NULL);
	else
		add_job(box, (struct box_job){ .begin = begin_use,
					       .to = SANDBOX_RUNNING,
					       .why = "use",
					       .permit = box->service->permit,
					       .done = done,
					       .ctx = ctx });
}

/* ------------------------------------------------------------ limits, usage */

/* What the kernel refused is undone in the store, too. */
static void on_updated(void *ctx, const struct warren_error *failure,
		       const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct box_job *job = ctx;
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (fd >= 0)
		(void)close(fd);
	if (failure)
		(void)spec_set_limits(job->box, &job->old, &ignored);
	else
		event_emit(job->box->service, EVENT_SANDBOX_UPDATED, job->box, NULL,
			   NULL);
	end_job(job, failure ? -failure->code : 0, failure);
}

static void begin_update(struct box_job *job)
{
	struct wire_update msg = { .h = { .type = WIRE_UPDATE },
				   .memory = job->limits.memory,
				   .cpu_millis = job->limits.cpu_millis,
				   .pids = job->limits.pids };
	struct box *box = job->box;
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (box->row.state != SANDBOX_RUNNING && box->row.state != SANDBOX_PAUSED) {
		end_job(job, wrong_state(box, &err), &err);
		return;
	}
	spec_get_limits(box, &job->old);
	r = spec_set_limits(box, &job->limits, &err);
	if (r == 0) {
		r = link_ask_of(box, &msg, sizeof(msg), on_updated, job);
		if (r < 0)
			(void)error_errno(&err, -r, "ask the warden");
	}
	if (r < 0)
		end_job(job, r, &err);
}

void box_update(struct box *box, const struct warren_limits *limits, service_done_fn done,
		void *ctx)
{
	add_job(box, (struct box_job){ .begin = begin_update,
				       .limits = *limits,
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

static void on_stats(void *ctx, const struct warren_error *failure, const char *data,
		     size_t size, int fd)
{
	struct counting *c = ctx;
	const struct box *box;
	struct warren_error err = WARREN_ERROR_INIT;
	struct wire_stats stats;

	if (fd >= 0)
		(void)close(fd);
	if (failure) {
		c->done(c->ctx, -failure->code, NULL, failure);
	} else if (size != sizeof(stats)) {
		c->done(c->ctx, error_errno(&err, EPROTO, "count"), NULL, &err);
	} else {
		(void)memcpy(&stats, data, sizeof(stats));
		box = box_find(c->service, NULL, c->id);
		if (box && stats.kills_apart)
			stats.is.oom_kills += box->oom_kills;
		c->done(c->ctx, 0, &stats.is, NULL);
	}
	free(c);
}

void box_stats(struct box *box,
	       void (*done)(void *ctx, int r, const struct warren_stats *stats,
			    const struct warren_error *err),
	       void *ctx)
{
	struct wire_box msg = { .h = { .type = WIRE_STATS } };
	struct counting *c = malloc(sizeof(*c));
	struct warren_error err = WARREN_ERROR_INIT;
	int r = -ENOMEM;

	if (c) {
		*c = (struct counting){ .service = box->service,
					.done = done,
					.ctx = ctx };
		(void)memcpy(c->id, box->row.id, sizeof(c->id));
		r = link_ask_of(box, &msg, sizeof(msg), on_stats, c);
	}
	if (r < 0) {
		free(c);
		done(ctx, error_errno(&err, -r, "ask the warden"), NULL, &err);
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
	/* One more, so that it is not over before all are begun. */
	*d = (struct deleting){ .left = 1, .done = done, .ctx = ctx };
	for (size_t i = 0; i < BOX_BUCKETS; i++) {
		struct box *next;

		for (struct box *box = s->boxes[i]; box; box = next) {
			next = box->hash_next;
			d->left++;
			box_delete(box, on_one_deleted, d);
		}
	}
	on_one_deleted(d, 0, NULL);
}
