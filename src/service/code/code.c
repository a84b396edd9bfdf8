/* SPDX-License-Identifier: Apache-2.0 */
/* code.c - a code run: begin, end, and its sandbox */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/utf8.h"
#include "service/code/internal.h"
#include "spec/spec.h"

#define CODE_CREATE_MS    600000 /* includes the time to pull the image */
#define CODE_ROOM_MS      2      /* time between two attempts to create the sandbox */
#define CODE_ROOM_MAX_MS  5000
#define CODE_ENFORCED_MAX 65536

/* ------------------------------------------------------------------ pending calls */

struct code_ticket *code_ticket_new(struct code_run *run)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct code_ticket *t = malloc(sizeof(*t));

	if (!t) {
		/* This call may free the run. */
		(void)error_errno(&err, ENOMEM, "run the program");
		code_fail(run, &err);
		return NULL;
	}
	t->run = run;
	run->ticket = t;
	return t;
}

struct code_run *code_ticket_use(struct code_ticket *t)
{
	struct code_run *run = t->run;

	if (run)
		run->ticket = NULL;
	free(t);
	return run;
}

/* --------------------------------------------------------------- sandbox of the run */

struct sandbox *code_use_sandbox(struct code_run *run)
{
	struct sandbox *sandbox = sandbox_find(run->service, NULL, run->id);
	struct warren_error err = WARREN_ERROR_INIT;

	if (!sandbox) {
		(void)error_set(&err, ESTALE, "the sandbox is gone");
		code_fail_used(run, &err);
		return NULL;
	}
	sandbox->code_pass = true;
	return sandbox;
}

static void code_delete_sandbox(struct service *s, const char *id)
{
	struct sandbox *sandbox = sandbox_find(s, NULL, id);

	if (sandbox && sandbox->row.state != SANDBOX_DELETING)
		sandbox_delete_for(sandbox, "code", service_ignore, NULL);
}

/* ---------------------------------------------------------------------- end of a run */

/* Cancel everything that is in progress. */
static void code_stop(struct code_run *run)
{
	sandbox_wait_cancel(&run->waiter);
	if (run->ticket)
		run->ticket->run = NULL;
	run->ticket = NULL;
	code_write_cancel(run);
	code_execute_cancel(run);
	code_collect_cancel(run);
	code_warm_cancel(run);
	run->files = files_end(run->files);
	run->room_timer = loop_timer_free(run->room_timer);
	run->room = code_recipe_free(run->room);
}

void code_fail(struct code_run *run, const struct warren_error *err)
{
	if (run->done)
		return;
	run->done = true;
	code_stop(run);
	code_delete_sandbox(run->service, run->id);
	run->on.done(run->ctx, NULL, err);
}

void code_fail_used(struct code_run *run, const struct warren_error *err)
{
	const struct sandbox *sandbox = sandbox_find(run->service, NULL, run->id);
	struct warren_error deleted = WARREN_ERROR_INIT;

	if (!sandbox || sandbox->row.state == SANDBOX_DELETING) {
		(void)error_set(&deleted, EBUSY,
				"the sandbox of the run was deleted before the program "
				"ended");
		err = &deleted;
	}
	code_fail(run, err);
}

void code_finish(struct code_run *run)
{
	struct code_recipe *next = NULL;
	struct service *s = run->service;
	size_t tool = run->tool;
	char id[sizeof(run->id)];

	if (run->done)
		return;
	/* Truncate output only after a complete character. */
	for (int i = 0; i < 2; i++) {
		struct buf *b = &run->result.output[i];

		if (run->result.truncated[i] && b->len > 0)
			b->len -= utf8_cut(b->data, b->len);
	}
	run->done = true;
	code_stop(run);
	next = TAKE_PTR(run->recipe);
	(void)memcpy(id, run->id, sizeof(id));
	/*
	 * The client need not wait for the deletion to be recorded. The deletion begins
	 * before any other request is read, so the client's next run finds it in
	 * progress.
	 */
	run->on.done(run->ctx, &run->result, NULL);
	code_delete_sandbox(s, id);
	code_warm_next(s, next, tool);
}

bool code_lease(struct code_run *run, size_t more)
{
	struct warren_error err = WARREN_ERROR_INIT;
	uint64_t bytes = run->result.output[0].len + run->result.output[1].len +
			 run->artifact_bytes + more;

	if (lease_memory(run->service, run->owner, bytes, &run->memory, &err) == 0)
		return true;
	code_fail(run, &err);
	return false;
}

const char *code_sandbox_id(const struct code_run *run)
{
	return run->id;
}

void code_go_on(struct code_run *run)
{
	if (!run->blocked || run->done)
		return;
	run->blocked = false;
	loop_later(run->service->loop, &run->turn);
}

struct code_run *code_cancel(struct code_run *run)
{
	if (!run)
		return NULL;
	if (!run->done) {
		code_stop(run);
		code_delete_sandbox(run->service, run->id);
	}
	for (size_t i = 0; i < run->result.n_artifacts; i++) {
		free(run->result.artifacts[i].path);
		free(run->result.artifacts[i].data);
	}
	free(run->result.artifacts);
	buf_done(&run->result.output[0]);
	buf_done(&run->result.output[1]);
	buf_done(&run->result.enforced);
	buf_done(&run->result.not_enforced);
	lease_end(run->service, LEASE_MEMORY, &run->memory);
	code_plan_done(&run->plan);
	run->recipe = code_recipe_free(run->recipe);
	free(run);
	return NULL;
}

struct code_run *code_abandon(struct code_run *run)
{
	code_stop(run);
	run->done = true;
	return code_cancel(run);
}

/* -------------------------------------------------------------------- start of a run */

/*
 * If the program is the only file, it is sent together with the exec, so that no process
 * needs to write files.
 */
static bool code_brings_file(struct code_run *run, const struct sandbox *sandbox)
{
	const struct code_plan *p = &run->plan;

	run->brings = p->n_files == 1 && p->files[0].size <= EXEC_FILE_MAX &&
		      !strchr(p->files[0].name, '/') && exec_brings_file(sandbox);
	return run->brings;
}

static void code_on_created(struct sandbox_waiter *w, struct sandbox *sandbox, int state)
{
	struct code_run *run = w->ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	struct json j = { .out = &run->result.enforced };

	if (state == SANDBOX_RUNNING) {
		spec_put_enforced(&j, NULL, sandbox->is.enforced, sandbox->is.n_enforced);
		spec_put_not_enforced(&run->result.not_enforced, sandbox->is.enforced,
				      sandbox->is.n_enforced);
		if (run->warm || code_brings_file(run, sandbox))
			code_execute(run);
		else
			code_write(run);
		return;
	}
	if (state >= 0 && sandbox_state_is_over((enum sandbox_state)state))
		(void)error_set(&err,
				sandbox_failure(sandbox) ? sandbox_failure(sandbox) : EIO,
				"%s",
				sandbox_row(sandbox)->error ? sandbox_row(sandbox)->error
							    : "the sandbox failed");
	else if (state == -ETIMEDOUT)
		(void)error_set(&err, ETIMEDOUT, "the sandbox was not created in time");
	else
		(void)error_set(&err, ESTALE, "the sandbox is gone");
	code_fail_used(run, &err);
}

void code_set(struct code_run *run, struct code_plan *plan,
	      const struct code_callbacks *callbacks, void *ctx)
{
	code_plan_done(&run->plan);
	run->plan = *plan;
	*plan = (struct code_plan){ 0 };
	run->on = *callbacks;
	run->ctx = ctx;
	run->result.language = run->plan.language->name;
	run->result.artifacts_complete = true;
	for (int i = 0; i < 2; i++)
		run->result.output[i] =
			(struct buf)BUF_INIT((size_t)run->plan.max_output + 128);
}

/* Takes over @plan. Return NULL if there is no memory. */
static struct code_run *code_new(struct service *s, struct code_plan *plan,
				 const struct code_callbacks *callbacks, void *ctx)
{
	struct code_run *run = calloc(1, sizeof(*run));

	if (!run) {
		code_plan_done(plan);
		return NULL;
	}
	run->service = s;
	run->fd = run->program = -1;
	run->result.enforced = (struct buf)BUF_INIT(CODE_ENFORCED_MAX);
	run->result.not_enforced = (struct buf)BUF_INIT(CODE_ENFORCED_MAX);
	run->waiter = (struct sandbox_waiter){ .states = ~(1U << SANDBOX_CREATING),
					       .fn = code_on_created,
					       .ctx = run };
	code_set(run, plan, callbacks, ctx);
	return run;
}

static int code_create_sandbox(struct code_run *run, const struct code_sandbox *sandbox,
			       struct warren_error *err)
{
	struct db_request none = { 0 };
	struct sandbox *made = NULL;
	int r = sandbox_create(run->service, sandbox->row, sandbox->spec, sandbox->source,
			       &none, &made, err);

	if (r < 0)
		return r;
	(void)memcpy(run->id, made->row.id, sizeof(run->id));
	(void)strncpy(run->owner, made->row.owner, sizeof(run->owner) - 1);
	made->code_run = true;
	sandbox_wait(made, &run->waiter, CODE_CREATE_MS);
	return 0;
}

/* Free a run that has no sandbox. */
static void code_free_new(struct code_run *run)
{
	code_stop(run);
	run->done = true;
	(void)code_cancel(run);
}

int code_create(struct service *s, struct code_plan *plan,
		const struct code_sandbox *sandbox,
		const struct code_callbacks *callbacks, void *ctx, struct code_run **ret,
		struct warren_error *err)
{
	struct code_run *run = code_new(s, plan, callbacks, ctx);
	int r;

	if (!run)
		return error_errno(err, ENOMEM, "run the program");
	r = code_create_sandbox(run, sandbox, err);
	if (r < 0)
		code_free_new(run);
	else
		*ret = run;
	return r;
}

/*
 * Will there soon be room for a sandbox? The sandbox of a run is deleted after the
 * answer, and counts against the quota until then. So a client that starts one run after
 * another could exceed its quota. If warm runs are ended to make room, their sandboxes
 * also need a moment.
 */
static bool code_room_comes(const struct service *s, const char *owner)
{
	for (size_t i = 0; i < SANDBOX_BUCKETS; i++)
		for (const struct sandbox *sandbox = s->sandboxes[i]; sandbox;
		     sandbox = sandbox->hash_next)
			if (sandbox->code_run && sandbox->row.state == SANDBOX_DELETING &&
			    strcmp(sandbox->row.owner, owner) == 0)
				return true;
	return false;
}

static void code_on_room(void *ctx)
{
	struct code_run *run = ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	struct code_sandbox sandbox = code_recipe_sandbox(run->room);
	bool comes = code_room_comes(run->service, sandbox.row->owner);
	int r = code_create_sandbox(run, &sandbox, &err);

	if (r == -EDQUOT && comes && clock_now() < run->room_until) {
		loop_timer_set(run->room_timer, CODE_ROOM_MS);
		return;
	}
	run->room = code_recipe_free(run->room);
	if (r < 0)
		code_fail(run, &err);
}

/* Return false if the run cannot wait. */
static bool code_await_room(struct code_run *run, const struct code_sandbox *sandbox)
{
	if (!code_room_comes(run->service, sandbox->row->owner))
		return false;
	run->room = code_recipe_new(&run->plan, sandbox);
	if (!run->room ||
	    loop_timer_new(run->service->loop, code_on_room, run, &run->room_timer) < 0)
		return false;
	run->room_until = clock_now() + CODE_ROOM_MAX_MS * 1000000ULL;
	loop_timer_set(run->room_timer, CODE_ROOM_MS);
	return true;
}

bool code_waits(const struct code_run *run)
{
	return run && run->room;
}

int code_begin(struct service *s, struct code_plan *plan,
	       const struct code_sandbox *sandbox, const struct code_callbacks *callbacks,
	       void *ctx, struct code_run **ret, struct warren_error *err)
{
	struct code_recipe *next;
	struct code_run *run;
	int r;

	*ret = code_warm_take(s, plan, sandbox, callbacks, ctx);
	if (*ret)
		return 0;
	next = code_warm_recipe(s, plan, sandbox);
	run = code_new(s, plan, callbacks, ctx);
	if (!run) {
		(void)code_recipe_free(next);
		return error_errno(err, ENOMEM, "run the program");
	}
	run->recipe = next;
	r = code_create_sandbox(run, sandbox, err);
	if (r == -EDQUOT) {
		code_warm_drop_of(s, sandbox->row->owner);
		if (code_await_room(run, sandbox))
			r = 0;
	}
	if (r < 0)
		code_free_new(run);
	else
		*ret = run;
	return r;
}
