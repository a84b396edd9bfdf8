/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.c - handlers: create, find, change and delete sandboxes */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/v1/network.h"
#include "api/v1/sandbox.h"
#include "base/json.h"
#include "config/config.h"
#include "proto/warden_proto.h"
#include "service/network/network.h"

/* ------------------------------------------------------------------- creation */

struct creating {
	struct call *call;
	struct sandbox_waiter waiter;
};

/*
 * A client that disconnects before the answer does not know the id; with an idempotency
 * key, it can repeat the request.
 */
static void sandbox_leave(struct call *c, struct sandbox_waiter *w)
{
	if (body_text(&c->body, "idempotency_key"))
		sandbox_wait_cancel(w);
	else
		sandbox_wait_abandon(w);
}

static void creating_gone(struct call *c)
{
	struct creating *w = c->state;

	if (!w)
		return;
	sandbox_leave(c, &w->waiter);
	c->state = NULL;
	free(w);
}

static void sandbox_answer_created(struct call *c, struct sandbox *sandbox)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);

	sandbox_to_json(&out, sandbox);
	call_created(c, &out, &sandbox, 1);
}

static void fail_create(struct call *c, const struct warren_error *err)
{
	if (err->code == EEXIST)
		call_refuse(c, API_ERR_IDEMPOTENCY_CONFLICT, "%s", err->msg);
	else
		call_fail(c, err);
}

static void forget_failed(void *ctx UNUSED, int r UNUSED,
			  const struct warren_error *err UNUSED)
{
}

void backend_failed(struct api_error *err, const char *name,
		    const struct warren_error *why)
{
	static const int theirs[] = { ECONNREFUSED, ECONNRESET, ENOENT, EACCES,
				      EPERM,        ENODEV,     ENXIO,  ETIMEDOUT,
				      EPIPE,        EIO,        ESRCH,  EPROTO,
				      EREMOTEIO,    EHOSTDOWN };

	(void)api_error_from(err, why);
	for (size_t i = 0; i < ARRAY_SIZE(theirs); i++)
		if (theirs[i] == why->code)
			err->code = API_ERR_BACKEND_UNAVAILABLE;
	api_error_text(err, "backend", "%s", name);
}

static void sandbox_fail_made(struct call *c, const char *name,
			      const struct warren_error *why)
{
	struct api_error err = { 0 };

	if (strcmp(name, WIRE_NATIVE) == 0) {
		call_fail(c, why);
		return;
	}
	backend_failed(&err, name, why);
	call_error(c, &err);
}

/*
 * If the creation fails, the clients that wait for the sandbox get the error, and nothing
 * remains of the sandbox.
 */
static void sandbox_on_made(struct sandbox_waiter *w, struct sandbox *sandbox, int state)
{
	struct creating *k = w->ctx;
	struct call *c = k->call;
	struct warren_error err = WARREN_ERROR_INIT;

	if (state >= 0 && sandbox_state_is_over((enum sandbox_state)state)) {
		(void)error_set(&err,
				sandbox_failure(sandbox) ? sandbox_failure(sandbox) : EIO,
				"%s",
				sandbox_row(sandbox)->error ? sandbox_row(sandbox)->error
							    : "it failed");
		if (sandbox_command_failed(sandbox))
			call_fail_start(c, &err);
		else
			sandbox_fail_made(c, sandbox_row(sandbox)->backend, &err);
		sandbox_delete(sandbox, forget_failed, NULL);
	} else if (!sandbox) {
		call_refuse(c, API_ERR_SANDBOX_NOT_FOUND,
			    "the sandbox was deleted in the meantime");
	} else {
		sandbox_answer_created(c, sandbox);
	}
}

/* An operation that runs a command also needs the scope for commands. */
static bool sandbox_may_run(struct call *c, const char *what)
{
	struct api_error err = { 0 };

	if (access_may(&c->caller, "exec"))
		return true;
	(void)api_error_set(&err, API_ERR_FORBIDDEN,
			    "%s runs a command, and the token lacks the scope 'exec'",
			    what);
	api_error_text(&err, "scope", "exec");
	call_error(c, &err);
	return false;
}

/* Read the main command in the form of the database. Return 0, or a negative value if it
 * was refused. */
static int sandbox_read_main(struct call *c, struct buf *text, struct sandbox_row *row)
{
	struct body command = body_object(&c->body, "main");
	const json_t *argv = command.json ? body_json(&command, "argv") : NULL;
	struct json j = { .out = text };

	if (!argv && body_has(&c->body, "on_exit")) {
		call_refuse(c, API_ERR_INVALID_REQUEST,
			    "/on_exit: needs /main, which is missing");
		return -EINVAL;
	}
	if (!argv)
		return 0;
	if (!sandbox_may_run(c, "/main: it"))
		return -EPERM;
	json_open(&j, NULL, '{');
	json_open(&j, "argv", '[');
	for (size_t i = 0; i < json_array_size(argv); i++)
		json_str(&j, NULL, json_string_value(json_array_get(argv, i)));
	json_close(&j, ']');
	json_bool(&j, "pty", body_bool(&command, "pty"));
	json_bool(&j, "stdin", body_bool(&command, "stdin"));
	json_close(&j, '}');
	if (text->failed || !*json_string_value(json_array_get(argv, 0))) {
		call_refuse(c, API_ERR_INVALID_REQUEST,
			    text->failed ? "/main: it is longer than 64 KiB"
					 : "/main/argv/0: it is empty");
		return -EINVAL;
	}
	row->command = text->data;
	row->on_exit = (enum sandbox_on_exit)body_word(&c->body, "on_exit");
	return 0;
}

_Static_assert((int)V1_ON_EXIT_STOP == (int)SANDBOX_EXIT_STOPS &&
		       (int)V1_ON_EXIT_DELETE == (int)SANDBOX_EXIT_DELETES &&
		       (int)V1_ON_EXIT_KEEP == (int)SANDBOX_EXIT_KEEPS,
	       "on_exit must have the same order as in the database");

void v1_create_sandbox(struct call *c)
{
	AUTO_BUF struct buf command = BUF_INIT(64U << 10);
	CLEANUP(wanted_done) struct wanted w = { 0 };
	struct api_error refusal = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct creating *k;
	struct sandbox *sandbox = NULL;
	int r = wanted_read(c->v1, &c->caller, &c->body, &w, &refusal);

	if (r < 0) {
		call_error(c, &refusal);
		return;
	}
	if (sandbox_read_main(c, &command, &w.row) < 0)
		return;
	wanted_hash(&w, &c->body);
	r = sandbox_create(c->v1->service, &w.row, &w.spec, &w.source, &w.request,
			   &sandbox, &err);
	if (r < 0) {
		fail_create(c, &err);
		return;
	}
	if (!sandbox) {
		call_refuse(c, API_ERR_CONFLICT,
			    "the sandbox that was created with this idempotency_key "
			    "has been deleted");
		return;
	}
	if (body_int(&c->body, "wait_ms") == 0) {
		sandbox_answer_created(c, sandbox);
		return;
	}
	k = calloc(1, sizeof(*k));
	if (!k) {
		sandbox_answer_created(c, sandbox);
		return;
	}
	k->call = c;
	k->waiter = (struct sandbox_waiter){ .states = ~(1U << SANDBOX_CREATING),
					     .fn = sandbox_on_made,
					     .ctx = k };
	c->state = k;
	c->gone = creating_gone;
	sandbox_wait(sandbox, &k->waiter, (uint64_t)body_int(&c->body, "wait_ms"));
}

/* --------------------------------------------------------------- batches of sandboxes */

struct batch {
	struct call *call;
	size_t n, left;
	struct sandbox **all; /* space for the sandboxes */
	struct batch_one {
		struct batch *batch;
		char id[ID_LEN + 1];
		struct sandbox_waiter waiter;
	} one[];
};

static void batch_gone(struct call *c)
{
	struct batch *b = c->state;

	if (!b)
		return;
	for (size_t i = 0; i < b->n; i++)
		sandbox_leave(c, &b->one[i].waiter);
	c->state = NULL;
	free((void *)b->all);
	free(b);
}

static void answer_batch(struct batch *b)
{
	AUTO_BUF struct buf out = BUF_INIT(64U << 20);
	bool first = true;

	buf_puts(&out, "{\"sandboxes\":[");
	for (size_t i = 0; i < b->n; i++) {
		b->all[i] = sandbox_find(b->call->v1->service, NULL, b->one[i].id);
		if (!b->all[i])
			continue;
		if (!first)
			buf_puts(&out, ",");
		first = false;
		sandbox_to_json(&out, b->all[i]);
	}
	buf_puts(&out, "]}");
	call_created(b->call, &out, b->all, b->n);
}

static void on_one_made(struct sandbox_waiter *w, struct sandbox *sandbox UNUSED,
			int state UNUSED)
{
	struct batch_one *one = w->ctx;

	if (--one->batch->left == 0)
		answer_batch(one->batch);
}

static void wait_for_batch(struct call *c, struct sandbox **sandboxes, size_t n,
			   uint64_t ms)
{
	struct batch *b = calloc(1, sizeof(*b) + n * sizeof(b->one[0]));

	if (b)
		b->all = calloc(n, sizeof(struct sandbox *));
	if (!b || !b->all) {
		free(b);
		if (!body_has(&c->body, "idempotency_key"))
			sandbox_discard(c->v1->service, sandboxes, n);
		call_refuse(c, API_ERR_OVERLOADED,
			    "not enough memory to wait for the sandboxes");
		return;
	}
	b->call = c;
	c->state = b;
	c->gone = batch_gone;
	for (size_t i = 0; i < n; i++) {
		struct batch_one *one = &b->one[b->n];

		if (!sandboxes[i])
			continue;
		one->batch = b;
		(void)memcpy(one->id, sandbox_row(sandboxes[i])->id, sizeof(one->id));
		one->waiter = (struct sandbox_waiter){
			.states = ~(1U << SANDBOX_CREATING), .fn = on_one_made, .ctx = one
		};
		b->n++;
	}
	b->left = b->n;
	if (b->n == 0 || ms == 0) {
		answer_batch(b);
		return;
	}
	for (size_t i = 0, at = 0; i < n; i++)
		if (sandboxes[i])
			sandbox_wait(sandboxes[i], &b->one[at++].waiter, ms);
}

struct many {
	size_t n;
	struct wanted *wanted;
	struct sandbox_row *rows;
	struct warren_spec *specs;
	struct sandbox_source *sources;
	struct sandbox **sandboxes;
};

static void many_done(struct many *m)
{
	for (size_t i = 0; m->wanted && i < m->n; i++)
		wanted_done(&m->wanted[i]);
	free(m->wanted);
	free(m->rows);
	free(m->specs);
	free(m->sources);
	free((void *)m->sandboxes);
}

void v1_create_sandboxes(struct call *c)
{
	size_t kinds = json_array_size(body_json(&c->body, "sandboxes"));
	size_t count = (size_t)body_int(&c->body, "count");
	CLEANUP(many_done) struct many m = { .n = kinds * count };
	struct api_error refusal = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct db_request request = { .key = body_text(&c->body, "idempotency_key") };
	int r = 0;

	if (m.n > 1000) {
		call_refuse(c, API_ERR_INVALID_REQUEST,
			    "/count: %zu sandboxes in one request; the maximum is 1000",
			    m.n);
		return;
	}
	m.wanted = calloc(m.n, sizeof(*m.wanted));
	m.rows = calloc(m.n, sizeof(*m.rows));
	m.specs = calloc(m.n, sizeof(*m.specs));
	m.sources = calloc(m.n, sizeof(*m.sources));
	m.sandboxes = calloc(m.n, sizeof(void *));
	if (!m.wanted || !m.rows || !m.specs || !m.sources || !m.sandboxes) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	for (size_t i = 0; r == 0 && i < m.n; i++) {
		struct body one = body_element(&c->body, "sandboxes", i / count);

		r = wanted_read(c->v1, &c->caller, &one, &m.wanted[i], &refusal);
		m.rows[i] = m.wanted[i].row;
		m.specs[i] = m.wanted[i].spec;
		m.sources[i] = m.wanted[i].source;
	}
	if (r < 0) {
		call_error(c, &refusal);
		return;
	}
	wanted_hash_all(&c->body, request.hash);
	r = sandbox_create_many(c->v1->service, m.rows, m.specs, m.sources, m.n, &request,
				m.sandboxes, &err);
	if (r < 0) {
		fail_create(c, &err);
		return;
	}
	wait_for_batch(c, m.sandboxes, m.n, (uint64_t)body_int(&c->body, "wait_ms"));
}

/* ------------------------------------------------------------------- search */

void v1_get_sandbox(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	struct sandbox *sandbox = call_sandbox(c);

	if (!sandbox)
		return;
	sandbox_to_json(&out, sandbox);
	call_json(c, 200, &out);
}

struct listing {
	struct service *service;
	struct buf *out;
	const char *name, *backend, *tier; /* NULL: any */
	const char *keys[QUERY_ITEMS_MAX]; /* labels that may have any value */
	size_t n_keys;
	size_t seen, n;
	uint64_t last;
};

static bool has_label(const struct sandbox_row *row, const char *key)
{
	for (size_t i = 0; i < row->n_labels; i++)
		if (strcmp(row->labels[i].key, key) == 0)
			return true;
	return false;
}

static int sandbox_list_one(void *ctx, const struct sandbox_row *row)
{
	struct listing *l = ctx;
	const struct sandbox *sandbox;

	l->last = row->seq;
	l->seen++;
	if ((l->name && (!row->name || strcmp(l->name, row->name) != 0)) ||
	    (l->backend && strcmp(l->backend, row->backend) != 0) ||
	    (l->tier && strcmp(l->tier, row->tier) != 0))
		return 0;
	for (size_t i = 0; i < l->n_keys; i++)
		if (!has_label(row, l->keys[i]))
			return 0;
	if (l->n++ > 0)
		buf_puts(l->out, ",");
	sandbox = sandbox_find(l->service, NULL, row->id);
	sandbox_row_to_json(l->out, row, sandbox && sandbox_is_saved(sandbox));
	return 0;
}

/* Split "key=value" or "key" of each parameter in place. */
static size_t sandbox_read_labels(struct api_value *v, struct db_label *labels,
				  struct listing *l)
{
	size_t n = 0;

	for (size_t i = 0; i < v->n; i++) {
		char *text = (char *)(uintptr_t)v->items[i].text, *eq = strchr(text, '=');

		if (eq) {
			*eq = '\0';
			labels[n++] = (struct db_label){ text, eq + 1 };
		} else {
			l->keys[l->n_keys++] = text;
		}
	}
	return n;
}

void v1_list_sandboxes(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(64U << 20);
	struct api_value *v = c->query.v;
	struct db_label labels[QUERY_ITEMS_MAX];
	struct sandbox_filter filter = {
		.owner = c->caller.scopes & V1_SCOPE_ADMIN ? NULL : c->caller.tenant,
		.labels = labels,
		.max = (size_t)v[V1_LIST_SANDBOXES_QUERY_LIMIT].number,
	};
	struct listing l = { .service = c->v1->service,
			     .out = &out,
			     .name = v[V1_LIST_SANDBOXES_QUERY_NAME].text,
			     .backend = v[V1_LIST_SANDBOXES_QUERY_BACKEND].text,
			     .tier = v[V1_LIST_SANDBOXES_QUERY_TIER].text };
	const char *owner = v[V1_LIST_SANDBOXES_QUERY_OWNER].text;
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (owner && filter.owner && strcmp(owner, filter.owner) != 0) {
		call_refuse(c, API_ERR_FORBIDDEN,
			    "listing the sandboxes of other tenants needs the scope "
			    "'admin'");
		return;
	}
	if (owner)
		filter.owner = owner;
	filter.n_labels =
		sandbox_read_labels(&v[V1_LIST_SANDBOXES_QUERY_LABEL], labels, &l);
	for (size_t i = 0; i < v[V1_LIST_SANDBOXES_QUERY_STATE].n; i++) {
		uint32_t states = sandbox_state_bits(
			v[V1_LIST_SANDBOXES_QUERY_STATE].items[i].text);

		filter.states |= states ? states : 1U << 31;
	}
	if (!call_page(c, &v[V1_LIST_SANDBOXES_QUERY_CURSOR], &filter.last))
		return;
	buf_puts(&out, "{\"sandboxes\":[");
	r = db_list_sandboxes(service_db(c->v1->service), &filter, sandbox_list_one, &l,
			      &err);
	if (r < 0) {
		call_fail(c, &err);
		return;
	}
	if (l.seen == filter.max && l.last)
		buf_printf(&out, "],\"next_cursor\":\"%ju\"}", (uintmax_t)l.last);
	else
		buf_puts(&out, "],\"next_cursor\":null}");
	call_json(c, 200, &out);
}

/* --------------------------------------------------------- changes and deletion */

/* @synced: what the answer says survives a power cut. */
static void sandbox_changed(struct call *c, int r, const struct warren_error *err,
			    bool synced)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	struct sandbox *sandbox;

	if (c->req && r < 0) {
		call_fail(c, err);
	} else if (c->req) {
		sandbox = sandbox_find(c->v1->service, NULL, c->route.param[0]);
		if (!sandbox) {
			call_refuse(c, API_ERR_SANDBOX_NOT_FOUND,
				    "the sandbox was deleted in the meantime");
		} else {
			sandbox_to_json(&out, sandbox);
			call_json_when(c, 200, &out, synced);
		}
	}
	call_unref(c);
}

static void sandbox_on_changed(void *ctx, int r, const struct warren_error *err)
{
	sandbox_changed(ctx, r, err, false);
}

static void sandbox_on_hibernated(void *ctx, int r, const struct warren_error *err)
{
	sandbox_changed(ctx, r, err, true);
}

void v1_pause_sandbox(struct call *c)
{
	struct sandbox *sandbox = call_sandbox(c);

	if (sandbox && body_bool(&c->body, "checkpoint"))
		sandbox_checkpoint(sandbox, sandbox_on_changed, call_ref(c));
	else if (sandbox)
		sandbox_pause(sandbox, true, sandbox_on_changed, call_ref(c));
}

void v1_resume_sandbox(struct call *c)
{
	struct sandbox *sandbox = call_sandbox(c);

	if (sandbox)
		sandbox_pause(sandbox, false, sandbox_on_changed, call_ref(c));
}

void v1_stop_sandbox(struct call *c)
{
	struct sandbox *sandbox = call_sandbox(c);

	if (sandbox)
		sandbox_stop(sandbox, (uint64_t)body_int(&c->body, "timeout_ms"),
			     sandbox_on_changed, call_ref(c));
}

/* Can the backend of the sandbox do this? */
static bool sandbox_may_hibernate(struct call *c, const struct sandbox *sandbox,
				  bool memory)
{
	const struct sandbox_row *row = sandbox_row(sandbox);
	const struct config_backend *b = config_backend(c->v1->config, row->backend);

	if (!b || !b->hibernates)
		call_refuse(c, API_ERR_NOT_SUPPORTED,
			    "backend '%s' cannot hibernate sandboxes", row->backend);
	else if (memory && !b->memory)
		call_refuse(c, API_ERR_NOT_SUPPORTED,
			    "/memory: backend '%s' cannot save the processes of a "
			    "sandbox: without 'memory', only its files are kept",
			    row->backend);
	else if (memory && row->command)
		call_refuse(c, API_ERR_NOT_SUPPORTED,
			    "/memory: the output of a main command cannot be saved: "
			    "without 'memory', the command runs again when the sandbox "
			    "wakes");
	else
		return true;
	return false;
}

void v1_reset_sandbox(struct call *c)
{
	struct sandbox *sandbox = call_sandbox(c);
	const struct config_backend *b =
		sandbox ? config_backend(c->v1->config, sandbox_row(sandbox)->backend)
			: NULL;

	if (sandbox && (!b || !b->hibernates))
		call_refuse(c, API_ERR_NOT_SUPPORTED,
			    "backend '%s' cannot reset sandboxes",
			    sandbox_row(sandbox)->backend);
	else if (sandbox)
		sandbox_reset(sandbox, sandbox_on_changed, call_ref(c));
}

void v1_hibernate_sandbox(struct call *c)
{
	struct sandbox *sandbox = call_sandbox(c);
	bool memory = body_bool(&c->body, "memory");

	if (!sandbox || !sandbox_may_hibernate(c, sandbox, memory))
		return;
	if (memory)
		sandbox_hibernate_memory(sandbox, sandbox_on_hibernated, call_ref(c));
	else
		sandbox_hibernate(sandbox, (uint64_t)body_int(&c->body, "timeout_ms"),
				  sandbox_on_hibernated, call_ref(c));
}

static void sandbox_on_started(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;

	/* Errors about the state have their own messages. */
	if (c->req && r < 0 && r != -ESTALE && r != -EDQUOT) {
		call_fail_start(c, err);
		call_unref(c);
		return;
	}
	sandbox_on_changed(c, r, err);
}

void v1_start_sandbox(struct call *c)
{
	struct sandbox *sandbox = call_sandbox(c);

	if (!sandbox || (sandbox_row(sandbox)->command &&
			 !sandbox_may_run(c, "starting the sandbox")))
		return;
	sandbox_start(sandbox, sandbox_on_started, call_ref(c));
}

static void sandbox_on_deleted(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;

	/* Deleting a sandbox that is already gone is not an error. */
	if (c->req && r < 0 && r != -ESTALE)
		call_fail(c, err);
	else if (c->req)
		call_empty(c, 204);
	call_unref(c);
}

void v1_delete_sandbox(struct call *c)
{
	struct sandbox *sandbox = call_sandbox(c);

	if (sandbox)
		sandbox_delete(sandbox, sandbox_on_deleted, call_ref(c));
}

struct waiting {
	struct call *call;
	struct sandbox_waiter waiter;
};

static void waiting_gone(struct call *c)
{
	struct waiting *w = c->state;

	if (!w)
		return;
	sandbox_wait_cancel(&w->waiter);
	c->state = NULL;
	free(w);
}

static void on_reached(struct sandbox_waiter *waiter, struct sandbox *sandbox, int state)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	struct waiting *w = waiter->ctx;

	buf_printf(&out, "{\"reached\":%s,\"state\":\"%s\"",
		   state >= 0 ? "true" : "false",
		   sandbox ? sandbox_state_name(sandbox_row(sandbox)->state) : "gone");
	if (sandbox) {
		buf_puts(&out, ",\"sandbox\":");
		sandbox_to_json(&out, sandbox);
	}
	buf_puts(&out, "}");
	call_json(w->call, 200, &out);
}

static void on_wait_stop(struct call *c, bool last UNUSED)
{
	struct waiting *w = c->state;
	struct sandbox *sandbox = w ? w->waiter.sandbox : NULL;

	if (!sandbox)
		return;
	sandbox_wait_cancel(&w->waiter);
	on_reached(&w->waiter, sandbox, -ETIMEDOUT);
}

void v1_wait_sandbox(struct call *c)
{
	struct api_value *states = &c->query.v[V1_WAIT_SANDBOX_QUERY_STATE];
	struct sandbox *sandbox = call_sandbox(c);
	struct waiting *w = sandbox ? calloc(1, sizeof(*w)) : NULL;

	if (!sandbox)
		return;
	if (!w) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	w->call = c;
	w->waiter = (struct sandbox_waiter){ .fn = on_reached, .ctx = w };
	for (size_t i = 0; i < states->n; i++) {
		uint32_t bits = sandbox_state_bits(states->items[i].text);

		/* Clients that know only `failed` are told of every such end. */
		if (bits & 1U << SANDBOX_FAILED)
			bits |= 1U << SANDBOX_LOST;
		w->waiter.states |= bits ? bits : 1U << SANDBOX_GONE;
	}
	if (states->n == 0)
		w->waiter.states = 1U << SANDBOX_RUNNING;
	c->state = w;
	c->gone = waiting_gone;
	c->stop = on_wait_stop;
	sandbox_wait(sandbox, &w->waiter,
		     (uint64_t)c->query.v[V1_WAIT_SANDBOX_QUERY_TIMEOUT_MS].number);
}

static void sandbox_on_stats(void *ctx, int r, const struct warren_stats *stats,
			     const struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };
	struct call *c = ctx;
	const struct sandbox *sandbox =
		sandbox_find(c->v1->service, NULL, c->route.param[0]);
	struct sandbox_held held = { 0 };
	struct egress_usage used = { 0 };

	if (sandbox) {
		sandbox_held(sandbox, &held);
		used = *network_usage(sandbox);
	}
	if (c->req && r < 0) {
		call_fail(c, err);
	} else if (c->req) {
		json_open(&j, NULL, '{');
		json_u64(&j, "memory", stats->memory);
		json_u64(&j, "memory_peak", stats->memory_peak);
		json_u64(&j, "cpu_usec", stats->cpu_usec);
		json_u64(&j, "pids", stats->pids);
		json_u64(&j, "oom_kills", stats->oom_kills);
		json_u64(&j, "sockets", stats->sockets);
		json_u64(&j, "disk", stats->disk);
		json_u64(&j, "inodes", stats->inodes);
		json_u64(&j, "output", held.output);
		json_u64(&j, "descriptors", held.descriptors);
		network_usage_to_json(&j, "network", &used);
		json_close(&j, '}');
		call_json(c, 200, &out);
	}
	call_unref(c);
}

static void sandbox_on_counted(void *ctx)
{
	struct call *c = ctx;
	struct sandbox *sandbox = sandbox_find(c->v1->service, NULL, c->route.param[0]);

	if (c->req && sandbox)
		sandbox_stats(sandbox, sandbox_on_stats, call_ref(c));
	else if (c->req)
		call_refuse(c, API_ERR_SANDBOX_NOT_FOUND,
			    "it was deleted in the meantime");
	call_unref(c);
}

void v1_get_sandbox_stats(struct call *c)
{
	struct sandbox *sandbox = call_sandbox(c);

	if (sandbox)
		network_refresh(sandbox, sandbox_on_counted, call_ref(c));
}
