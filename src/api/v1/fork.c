/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.c - handlers: create copies of a sandbox; reset a sandbox
 *
 * A fork is a snapshot that is deleted with its last copy, and sandboxes created from it
 * with the spec of the source. If one cannot be created, or its main command cannot be
 * started, all are deleted.
 */
#include <errno.h>
#include <string.h>

#include "api/v1/sandbox.h"
#include "base/json.h"
#include "service/exec/exec.h"
#include "service/snapshot/snapshot.h"

#define FORK_WAIT_MS 600000 /* for all copies */

struct fork {
	struct call *call;
	char source[ID_LEN + 1];
	size_t n, left;
	int failure;
	struct warren_error err;
	struct sandbox **all; /* space for the copies */
	v1_fork_fn answer;
	struct fork_one {
		struct fork *fork;
		char id[ID_LEN + 1];
		struct sandbox_waiter waiter;
	} one[];
};

static void fork_free(struct fork *f)
{
	call_unref(f->call);
	free((void *)f->all);
	free(f);
}

/* A main command has failed, or the client is gone. */
static void fork_undo(struct fork *f)
{
	sandbox_discard(f->call->v1->service, f->all, f->n);
}

static void fork_answer(struct call *c, struct sandbox **all, size_t n)
{
	AUTO_BUF struct buf out = BUF_INIT(64U << 20);
	size_t shown = 0;

	buf_puts(&out, "{\"sandboxes\":[");
	for (size_t i = 0; i < n; i++) {
		if (!all[i])
			continue;
		if (shown++ > 0)
			buf_puts(&out, ",");
		sandbox_to_json(&out, all[i]);
	}
	buf_puts(&out, "]}");
	call_created(c, &out, all, n);
}

/* All main commands were started, or one could not be. A client that is gone does not
 * know the copies. */
static void fork_end(struct fork *f)
{
	struct service *s = f->call->v1->service;

	for (size_t i = 0; i < f->n; i++)
		f->all[i] = sandbox_find(s, NULL, f->one[i].id);
	if (f->failure || !f->call->req)
		fork_undo(f);
	if (f->call->req && f->failure)
		call_fail(f->call, &f->err);
	else if (f->call->req)
		f->answer(f->call, f->all, f->n);
	fork_free(f);
}

static void fork_on_one(struct sandbox_waiter *w, struct sandbox *sandbox, int state)
{
	struct fork_one *one = w->ctx;
	struct fork *f = one->fork;
	const char *why = sandbox ? sandbox_row(sandbox)->error : NULL;

	if (state != SANDBOX_RUNNING && !f->failure) {
		f->failure = sandbox && sandbox_failure(sandbox)
				     ? sandbox_failure(sandbox)
				     : EREMOTEIO;
		(void)error_set(&f->err, f->failure, "a copy could not be created: %s",
				why ? why : "it was deleted in the meantime");
	}
	if (--f->left == 0)
		fork_end(f);
}

static void fork_fail(struct fork *f, const struct warren_error *err)
{
	if (f->call->req)
		call_fail(f->call, err);
	fork_free(f);
}

/* All copies are running, or none exists (@all NULL): wait for their main commands. */
static void fork_on_created(void *ctx, struct sandbox **all,
			    const struct warren_error *failed)
{
	struct fork *f = ctx;
	struct warren_error err = WARREN_ERROR_INIT;

	if (!all) {
		(void)error_set(&err, failed->code, "a copy could not be created: %s",
				failed->msg);
		fork_fail(f, &err);
		return;
	}
	f->left = f->n + 1; /* one for this function: a wait may end at once */
	for (size_t i = 0; i < f->n; i++) {
		struct fork_one *one = &f->one[i];

		one->fork = f;
		if (all[i])
			(void)memcpy(one->id, sandbox_row(all[i])->id, sizeof(one->id));
		one->waiter = (struct sandbox_waiter){
			.states = ~(1U << SANDBOX_CREATING), .fn = fork_on_one, .ctx = one
		};
	}
	for (size_t i = 0; i < f->n; i++) {
		if (all[i])
			sandbox_wait(all[i], &f->one[i].waiter, FORK_WAIT_MS);
		else
			fork_on_one(&f->one[i].waiter, NULL, SANDBOX_FAILED);
	}
	if (--f->left == 0)
		fork_end(f);
}

/* Create the copies; @f belongs to them afterwards, unless this fails. */
static int fork_create(struct fork *f, struct wanted *w, struct warren_error *err)
{
	struct service *s = f->call->v1->service;
	size_t n = f->n;
	struct sandbox_row *rows = calloc(n, sizeof(*rows));
	struct warren_spec *specs = calloc(n, sizeof(*specs));
	struct sandbox_source *sources = calloc(n, sizeof(*sources));
	int r = rows && specs && sources ? 0 : -ENOMEM;

	if (r < 0)
		(void)error_errno(err, ENOMEM, "create the copies");
	for (size_t i = 0; r == 0 && i < n; i++) {
		rows[i] = w->row;
		specs[i] = w->spec;
		sources[i] = w->source;
		id_make(rows[i].id);
	}
	if (r == 0)
		r = sandbox_create_all(s, rows, specs, sources, n, fork_on_created, f,
				       err);
	free(rows);
	free(specs);
	free(sources);
	return r;
}

static void fork_on_snapshot(void *ctx, int r, const char *id,
			     const struct warren_error *failed)
{
	CLEANUP(wanted_done) struct wanted w = { 0 };
	struct fork *f = ctx;
	struct call *c = f->call;
	struct sandbox *sandbox = sandbox_find(c->v1->service, NULL, f->source);
	struct api_error refusal = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	json_t *body = NULL;

	if (r < 0 || !c->req || !sandbox) {
		if (c->req && r < 0)
			call_fail(c, failed);
		else if (c->req)
			call_refuse(c, API_ERR_SANDBOX_NOT_FOUND,
				    "the sandbox was deleted in the meantime");
		fork_free(f);
		return;
	}
	r = v1_respec_fork(c->v1, sandbox, id, json_object_get(c->body.json, "labels"),
			   &body, &w, &refusal);
	if (r < 0) {
		call_error(c, &refusal);
		fork_free(f);
	} else if (fork_create(f, &w, &err) < 0) {
		fork_fail(f, &err);
	}
	json_decref(body);
}

void v1_fork(struct call *c, size_t n, v1_fork_fn answer)
{
	const struct snapshot_request request = { .labels = "{}",
						  .transient = true,
						  .quota = v1_snapshot_quota(c->v1) };
	struct sandbox *sandbox = call_sandbox(c);
	struct fork *f;

	if (!sandbox || !v1_has_snapshots(c, sandbox))
		return;
	f = calloc(1, sizeof(*f) + n * sizeof(f->one[0]));
	if (f)
		f->all = calloc(n, sizeof(struct sandbox *));
	if (!f || !f->all) {
		free(f);
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	f->call = call_ref(c);
	f->n = n;
	f->answer = answer;
	(void)memcpy(f->source, sandbox_row(sandbox)->id, sizeof(f->source));
	snapshot_create(sandbox, &request, fork_on_snapshot, f);
}

void v1_fork_sandbox(struct call *c)
{
	v1_fork(c, (size_t)body_int(&c->body, "count"), fork_answer);
}
