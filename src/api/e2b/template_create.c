/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template_create.c - sandboxes of a template: its files, its limits, and its commands
 *
 * The files of a build are kept, its processes are not. So each new sandbox starts the
 * start command, and its creation is answered when the ready command succeeds. So does
 * one that was paused without memory when it continues, and each copy: a fork, and a
 * sandbox of a snapshot.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/e2b/internal.h"
#include "base/clock.h"
#include "base/list.h"
#include "config/config.h"
#include "net/loop.h"
#include "service/exec/exec.h"
#include "service/template/template.h"

#define READY_LOOK_MS  100   /* between two checks */
#define READY_CHECK_MS 30000 /* maximum time of one check */
/* Maximum time until the template is ready; SDKs wait for 60 seconds. */
#define READY_MS      50000
#define READY_JOURNAL 65536
#define NS_PER_MS     1000000ULL

void template_start_done(struct template_start *t)
{
	free(t->start);
	free(t->ready);
	*t = (struct template_start){ 0 };
}

static char *template_copy(const json_t *spec, const char *key)
{
	const char *text = json_string_value(json_object_get(spec, key));

	return text ? strdup(text) : NULL;
}

static void template_start_read(const struct template_build_row *row, const json_t *spec,
				struct template_start *ret)
{
	ret->start = template_copy(spec, "startCmd");
	ret->ready = template_copy(spec, "readyCmd");
	(void)snprintf(ret->build, sizeof(ret->build), "%s/%s", row->template, row->id);
}

/* Find the build that E2B_LABEL_BUILD names, if it belongs to the tenant. */
static int template_find_labelled(struct db *db, const char *tenant, const char *label,
				  struct template_build_row *ret,
				  struct warren_error *err)
{
	AUTO_TEMPLATE_ROW struct template_row row = { 0 };
	const char *slash = strchr(label, '/');
	char id[ID_LEN + 1];
	int r;

	if (!slash || slash - label != ID_LEN)
		return -ENOENT;
	(void)snprintf(id, sizeof(id), "%s", label);
	r = db_get_template(db, tenant, id, &row, err);
	return r < 0 ? r : db_get_template_build(db, row.id, slash + 1, ret, err);
}

void e2b_find_build_start(const struct call *c, const char *label,
			  struct template_start *ret)
{
	AUTO_TEMPLATE_BUILD_ROW struct template_build_row row = { 0 };
	struct warren_error ignored = WARREN_ERROR_INIT;
	json_t *spec;

	if (template_find_labelled(service_db(c->v1->service), c->caller.tenant, label,
				   &row, &ignored) < 0)
		return;
	spec = json_loads(row.spec, 0, NULL);
	template_start_read(&row, spec, ret);
	json_decref(spec);
}

static int template_put_limit(json_t *limits, const char *key, const json_t *value,
			      json_int_t unit)
{
	return value ? json_object_set_new(limits, key,
					   json_integer(json_integer_value(value) * unit))
		     : 0;
}

static int template_put_fields(const struct template_build_row *row, const json_t *spec,
			       json_t *out)
{
	json_t *limits = json_object();
	int r = template_put_limit(limits, "cpu_millis",
				   json_object_get(spec, "cpuCount"), 1000);

	r |= template_put_limit(limits, "memory", json_object_get(spec, "memoryMB"),
				1 << 20);
	r |= template_put_limit(limits, "disk", json_object_get(spec, "diskMB"), 1 << 20);
	r |= json_object_set_new(out, "limits", limits);
	r |= json_object_set_new(out, "image", json_string(row->snapshot));
	r |= json_object_set_new(out, "pull", json_string("never"));
	r |= json_object_set(out, "user", json_object_get(spec, "user"));
	if (json_object_get(spec, "workdir"))
		r |= json_object_set(out, "workdir", json_object_get(spec, "workdir"));
	return r;
}

int e2b_put_template(struct call *c, json_t *out, const char *name,
		     char ret_id[ID_LEN + 1], char ret_name[E2B_NAME_MAX + 1],
		     struct template_start *ret, struct warren_error *err)
{
	AUTO_TEMPLATE_ROW struct template_row template = { 0 };
	AUTO_TEMPLATE_BUILD_ROW struct template_build_row row = { 0 };
	char tag[E2B_NAME_MAX + 1];
	json_t *spec;
	int r = e2b_find_template(c, name, &template, tag, err);

	if (r == -ENOENT) {
		*err = (struct warren_error)WARREN_ERROR_INIT;
		return 0;
	}
	if (r == 0)
		r = db_find_template_tag(service_db(c->v1->service), template.id, tag,
					 &row, err);
	/* A template that was never built does not hide another one of its name. */
	if (r == -ENOENT && e2b_has_template(name)) {
		*err = (struct warren_error)WARREN_ERROR_INIT;
		return 0;
	}
	if (r < 0)
		return r;
	spec = json_loads(row.spec, 0, NULL);
	r = template_put_fields(&row, spec, out);
	template_start_read(&row, spec, ret);
	json_decref(spec);
	(void)memcpy(ret_id, template.id, sizeof(template.id));
	(void)snprintf(ret_name, E2B_NAME_MAX + 1, "%s", template.name);
	return r ? error_errno(err, ENOMEM, "read a template") : 1;
}

/* ------------------------------------------------------------------- commands */

/* A sandbox that is becoming ready. */
struct starting {
	struct starting *next;
	struct e2b *e2b;   /* NULL: the service is closing */
	struct call *call; /* a reference */
	char sandbox[ID_LEN + 1];
	char *ready;
	struct exec *exec; /* the check; a reference; NULL: none */
	struct waiter waiter;
	struct loop_timer *timer;
	uint64_t deadline;
	service_done_fn done;
	void *ctx;
};

static void starting_check(struct starting *s);

void e2b_forget_starting(struct e2b *e)
{
	while (e->starting)
		LIST_POP(e->starting)->e2b = NULL;
}

static void starting_end(struct starting *s, int r, const struct warren_error *err)
{
	struct call *c = s->call;
	service_done_fn done = s->done;
	void *ctx = s->ctx;

	if (s->e2b)
		(void)LIST_REMOVE(s->e2b->starting, s);
	exec_wait_cancel(&s->waiter);
	s->exec = exec_unref(s->exec);
	s->timer = loop_timer_free(s->timer);
	free(s->ready);
	free(s);
	done(ctx, r, err);
	call_unref(c);
}

static void starting_exec(struct starting *s, const char *command, uint64_t timeout_ms,
			  exec_fn done)
{
	struct sandbox *sandbox = sandbox_find(s->call->v1->service, NULL, s->sandbox);
	static const char script[] = "if [ -x /bin/bash ]; then exec /bin/bash -l -c "
				     "\"$0\"; fi; exec /bin/sh -l -c \"$0\"";
	const char *const argv[] = { "/bin/sh", "-c", script, command, NULL };
	const struct exec_start start = { .argv = argv,
					  .account = true,
					  .timeout_ms = timeout_ms,
					  .journal = READY_JOURNAL };
	struct warren_error err = WARREN_ERROR_INIT;

	if (sandbox)
		exec_start(sandbox, &start, done, s);
	else
		starting_end(s,
			     error_set(&err, ESTALE,
				       "the sandbox was deleted in the meantime"),
			     &err);
}

static void starting_on_timer(void *ctx)
{
	struct starting *s = ctx;
	struct warren_error err = WARREN_ERROR_INIT;

	if (!s->call->req)
		starting_end(s, error_set(&err, ECANCELED, "the client is gone"), &err);
	else if (clock_now() >= s->deadline)
		starting_end(s,
			     error_set(&err, ETIMEDOUT,
				       "the template was not ready after %d seconds: its "
				       "ready command did not succeed",
				       READY_MS / 1000),
			     &err);
	else
		starting_check(s);
}

/* The check has ended. */
static void starting_on_exec(struct waiter *w, void *of UNUSED)
{
	struct starting *s = w->ctx;
	const struct exec_row *row = exec_row(s->exec);
	bool ready = row->ended && !exec_lost(s->exec) && row->result.exit_code == 0 &&
		     !row->result.signal;

	s->exec = exec_unref(s->exec);
	if (ready)
		starting_end(s, 0, NULL);
	else
		loop_timer_set(s->timer, READY_LOOK_MS);
}

static void starting_on_check(void *ctx, struct exec *exec,
			      const struct warren_error *err)
{
	struct starting *s = ctx;

	if (!exec) {
		starting_end(s, -err->code, err);
		return;
	}
	s->exec = exec_ref(exec);
	s->waiter = (struct waiter){ .fn = starting_on_exec, .ctx = s };
	exec_wait(s->exec, &s->waiter);
}

static void starting_check(struct starting *s)
{
	uint64_t now = clock_now();
	uint64_t left = now < s->deadline ? (s->deadline - now) / NS_PER_MS : 0;

	/* A timeout of 0 is none. */
	starting_exec(s, s->ready,
		      left < 1                ? 1
		      : left < READY_CHECK_MS ? left
					      : READY_CHECK_MS,
		      starting_on_check);
}

static void starting_on_started(void *ctx, struct exec *exec,
				const struct warren_error *err)
{
	struct starting *s = ctx;

	if (!exec)
		starting_end(s, -err->code, err);
	else if (!s->ready)
		starting_end(s, 0, NULL);
	else
		starting_check(s);
}

static int note_exec(void *ctx, const struct exec_row *row UNUSED)
{
	*(bool *)ctx = true;
	return 0;
}

/* The client of the first request may have left before the start command began. */
static bool never_ran(const struct call *c, const struct sandbox *sandbox)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	bool any = false;

	return db_each_exec(service_db(c->v1->service), sandbox_row(sandbox)->id, 0, 1,
			    note_exec, &any, &ignored) >= 0 &&
	       !any;
}

void e2b_start_template(struct call *c, struct sandbox *sandbox,
			const struct template_start *t, bool again, service_done_fn done,
			void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;
	bool starts = t->start && (!again || never_ran(c, sandbox));
	struct starting *s;

	if (!starts && !t->ready) {
		done(ctx, 0, NULL);
		return;
	}
	s = calloc(1, sizeof(*s));
	if (s)
		s->ready = t->ready ? strdup(t->ready) : NULL;
	if (!s || (t->ready && !s->ready) ||
	    loop_timer_new(service_loop(c->v1->service), starting_on_timer, s,
			   &s->timer) < 0) {
		if (s)
			free(s->ready);
		free(s);
		done(ctx, error_errno(&err, ENOMEM, "start a template"), &err);
		return;
	}
	s->call = call_ref(c);
	(void)strcpy(s->sandbox, sandbox_row(sandbox)->id);
	s->deadline = clock_now() + READY_MS * NS_PER_MS;
	s->done = done;
	s->ctx = ctx;
	s->e2b = call_e2b(c);
	LIST_PUSH(s->e2b->starting, s);
	if (starts)
		starting_exec(s, t->start, 0, starting_on_started);
	else
		starting_check(s);
}

struct template_ran {
	const char *command;
	int64_t since;
	bool did;
};

static int template_note_ran(void *ctx, const struct exec_row *row)
{
	struct template_ran *ran = ctx;
	json_t *argv =
		row->started_at < ran->since ? NULL : json_loads(row->argv, 0, NULL);
	const char *last =
		json_string_value(json_array_get(argv, json_array_size(argv) - 1));

	ran->did |= last && strcmp(last, ran->command) == 0;
	json_decref(argv);
	return 0;
}

/* Of several clients that connect at the same time, one runs the command. */
static bool template_runs(const struct call *c, const struct sandbox *sandbox,
			  const char *command)
{
	struct template_ran ran = { command, sandbox_row(sandbox)->changed_at, false };
	struct warren_error ignored = WARREN_ERROR_INIT;

	for (const struct starting *s = call_e2b(c)->starting; s; s = s->next)
		if (strcmp(s->sandbox, sandbox_row(sandbox)->id) == 0)
			return true;
	return command &&
	       db_each_exec(service_db(c->v1->service), sandbox_row(sandbox)->id, 0, 0,
			    template_note_ran, &ran, &ignored) >= 0 &&
	       ran.did;
}

void e2b_restart_template(struct call *c, struct sandbox *sandbox, service_done_fn done,
			  void *ctx)
{
	AUTO_TEMPLATE_BUILD_ROW struct template_build_row row = { 0 };
	const char *build = e2b_label(sandbox, E2B_LABEL_BUILD);
	const char *template = e2b_label(sandbox, E2B_LABEL_TEMPLATE_ID);
	struct db *db = service_db(c->v1->service);
	struct warren_error err = WARREN_ERROR_INIT;
	struct template_start start = { 0 };
	json_t *spec;
	int r = -ENOENT;

	/* Sandboxes of earlier versions do not have the first label. */
	if (build)
		r = template_find_labelled(db, sandbox_row(sandbox)->owner, build, &row,
					   &err);
	else if (template)
		r = db_find_snapshot_build(db, template, sandbox_row(sandbox)->image,
					   &row, &err);

	if (r < 0) {
		done(ctx, r == -ENOENT ? 0 : r, &err);
		return;
	}
	spec = json_loads(row.spec, 0, NULL);
	template_start_read(&row, spec, &start);
	json_decref(spec);
	if (template_runs(c, sandbox, start.start)) {
		free(start.start);
		start.start = NULL;
	}
	e2b_start_template(c, sandbox, &start, false, done, ctx);
	template_start_done(&start);
}
