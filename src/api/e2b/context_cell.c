/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context_cell.c - cells and their clients
 *
 * The memory of a cell counts for its tenant: the code until it is sent to the kernel,
 * and the longest event. If the client of a cell leaves, the cell is interrupted; see
 * context_reclaim() for cells that go on.
 */
#include <stdio.h>
#include <string.h>

#include "api/e2b/context.h"
#include "base/list.h"

#define KEEPALIVE_MS 5000
#define REQUEST_MAX  (64U << 20)
#define KEEP_SMALL   (64U << 10) /* small events are not counted */
#define KEEP_STEP    (256U << 10)

static void cell_free(struct cell *k)
{
	k->timer = loop_timer_free(k->timer);
	buf_done(&k->request);
	buf_done(&k->out);
	free(k);
}

static bool cell_has_client(const struct cell *k)
{
	return k && k->call && k->call->req;
}

bool context_is_heard(const struct e2b_context *x)
{
	return x->heard && cell_has_client(x->first);
}

bool cell_keep(struct cell *k, size_t n)
{
	uint64_t steps = (n + KEEP_STEP - 1) / KEEP_STEP * KEEP_STEP;

	if (n <= KEEP_SMALL || n <= k->kept)
		return true;
	if (!http_keep(k->call->req, steps - k->kept))
		return false;
	k->kept = steps;
	return true;
}

void cell_write(struct cell *k, const char *data, size_t n)
{
	struct call *c = k->call;

	if (!cell_has_client(k))
		return;
	if (!k->begun)
		call_begin_stream(c, false);
	k->begun = true;
	if (http_write(c->req, data, n) == 1)
		k->context->blocked = true;
	loop_timer_set(k->timer, KEEPALIVE_MS);
}

/* The response cannot continue. */
static void cell_abort(struct cell *k)
{
	if (cell_has_client(k))
		http_abort(k->call->req);
	k->begun = false; /* there is nothing to complete */
}

void cell_flush(struct cell *k)
{
	if (k->out.failed)
		cell_abort(k);
	else if (k->out.len > 0)
		cell_write(k, k->out.data, k->out.len);
	buf_done(&k->out);
	k->out = (struct buf)BUF_INIT(2 * CONTEXT_SHORT_MAX + 2);
}

void cell_send(struct cell *k, const char *line, size_t n)
{
	if (!cell_has_client(k))
		return;
	buf_add(&k->out, line, n);
	buf_puts(&k->out, "\n");
	if (k->out.len > CONTEXT_SHORT_MAX)
		cell_flush(k);
}

static void cell_send_text(struct cell *k, const char *line)
{
	cell_send(k, line, strlen(line));
}

void cell_send_error(struct cell *k, const char *name, const char *why)
{
	AUTO_BUF struct buf out = BUF_INIT(CONTEXT_SHORT_MAX);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	json_str(&j, "type", "error");
	json_str(&j, "name", name);
	json_str(&j, "value", why);
	json_str(&j, "traceback", "");
	json_close(&j, '}');
	cell_send(k, out.data, out.len);
}

void cell_send_end(struct cell *k)
{
	cell_send_text(k, "{\"type\":\"end_of_execution\"}");
}

/* The response is complete, or the client is gone. */
static void cell_detach(struct cell *k)
{
	struct call *c;

	cell_flush(k);
	c = TAKE_PTR(k->call);
	if (!c)
		return;
	c->state = NULL;
	if (c->req && k->begun)
		(void)http_end(c->req);
	call_unref(c);
}

/* Answer the client of a cell with an error. */
static void cell_fail(struct cell *k, const char *name, const char *why)
{
	if (k->torn) {
		cell_abort(k);
	} else {
		cell_send_error(k, name, why);
		cell_send_end(k);
	}
	cell_detach(k);
}

void context_end_cell(struct e2b_context *x)
{
	struct cell *k = QUEUE_TAKE(x->first, x->tail);

	x->n_cells--;
	x->sent = x->heard = x->blocked = false;
	cell_detach(k);
	cell_free(k);
}

void context_fail_cell(struct e2b_context *x, const char *name, const char *why)
{
	char shown[8192];

	(void)snprintf(shown, sizeof(shown), "%s", why);
	service_hide_dirs(x->e2b->v1->service, shown);
	cell_fail(x->first, name, shown);
	context_end_cell(x);
}

/* ---------------------------------------------------------------------- clients of cells
 */

static void cell_interrupt(struct cell *k)
{
	struct exec *exec = k->context->exec;
	char line[64];
	int n = snprintf(line, sizeof(line), "{\"op\":\"interrupt\",\"id\":%ju}\n",
			 (uintmax_t)k->n);

	if (exec)
		exec_feed(exec, line, (size_t)n, false, e2b_ignore, NULL);
}

void context_disown_cell(struct e2b_context *x, const char *name, const char *why)
{
	struct cell *k = x->first;

	if (!k->call)
		return;
	cell_fail(k, name, why);
	x->blocked = false;
	k->left_at = service_time();
	cell_interrupt(k);
}

static void cell_turn(const struct cell *k)
{
	struct e2b_context *x = k->context;

	loop_later(service_loop(x->e2b->v1->service), &x->turn);
}

static void cell_gone(struct call *c)
{
	struct cell *k = c->state;
	struct e2b_context *x = k ? k->context : NULL;

	c->state = NULL;
	if (!k)
		return;
	call_unref(TAKE_PTR(k->call));
	buf_done(&k->request);
	if (x->first == k && x->sent) {
		x->blocked = false;
		k->left_at = service_time();
		cell_interrupt(k);
		cell_turn(k);
	}
}

static void cell_on_drained(struct http_request *req)
{
	struct cell *k = ((struct call *)req->user)->state;

	if (!k)
		return;
	k->context->blocked = false;
	cell_turn(k);
}

/*
 * Does the kernel, although it runs, not read a cell whose client has left? The request
 * would stay in memory, which is counted for no client.
 */
static bool cell_is_stuck(const struct cell *k)
{
	const struct e2b_context *x = k->context;
	const struct sandbox *sandbox =
		sandbox_find(x->e2b->v1->service, NULL, x->sandbox);

	return !k->call && x->first == k && x->sent && !x->fed && sandbox &&
	       sandbox_row(sandbox)->state == SANDBOX_RUNNING;
}

static void cell_on_timer(void *ctx)
{
	struct cell *k = ctx;
	struct e2b_context *x = k->context;

	if (cell_is_stuck(k)) {
		context_replace(x);
		return;
	}
	if (context_reclaim(x))
		return;
	if (!x->blocked && !(x->first == k && x->line.complete)) {
		cell_send_text(k, "{\"type\":\"keepalive\"}");
		cell_flush(k);
	}
	loop_timer_set(k->timer, KEEPALIVE_MS);
}

/* The kernel continues; the next process interrupts the cell. */
static void cell_on_stop(struct call *c, bool last UNUSED)
{
	struct cell *k = c->state;

	if (k)
		cell_fail(k, "ServiceStopped",
			  "the service is restarting and interrupts the cell; the "
			  "variables are kept");
}

/* ------------------------------------------------------------------------------- run */

static void cell_write_request(struct cell *k, json_t *env, const char *code,
			       const char *language)
{
	struct json j = { .out = &k->request };
	char *vars = json_is_object(env) ? json_dumps(env, JSON_COMPACT) : NULL;

	json_open(&j, NULL, '{');
	json_str(&j, "op", "execute");
	json_u64(&j, "id", k->n);
	json_str(&j, "code", code);
	if (vars)
		json_raw(&j, "env_vars", vars, strlen(vars));
	if (language)
		json_str(&j, "language", language);
	json_close(&j, '}');
	buf_puts(&k->request, "\n");
	if (json_is_object(env) && !vars)
		k->request.failed = true;
	free(vars);
}

/* NULL: refused. */
static struct cell *cell_new(struct e2b_context *x, struct call *c, json_t *env,
			     const char *code, const char *language)
{
	struct cell *k = calloc(1, sizeof(*k));

	if (!k || loop_timer_new(service_loop(c->v1->service), cell_on_timer, k,
				 &k->timer) < 0) {
		free(k);
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return NULL;
	}
	k->context = x;
	k->n = ++x->n;
	k->request = (struct buf)BUF_INIT(REQUEST_MAX);
	k->out = (struct buf)BUF_INIT(2 * CONTEXT_SHORT_MAX + 2);
	cell_write_request(k, env, code, language);
	if (k->request.failed || !http_keep(c->req, k->request.len)) {
		cell_free(k);
		call_refuse(c, API_ERR_OVERLOADED,
			    "the cells of the tenant that run or wait take too much "
			    "memory");
		return NULL;
	}
	return k;
}

void context_run(struct e2b_context *x, struct call *c, json_t *env, const char *code,
		 const char *language)
{
	struct cell *k;

	if (x->n_cells >= CELLS_MAX) {
		e2b_refuse(c, 429,
			   "%d cells of the context run or wait: wait until some of them "
			   "have ended",
			   CELLS_MAX);
		return;
	}
	k = cell_new(x, c, env, code, language);
	if (!k)
		return;
	k->call = call_ref(c);
	c->state = k;
	c->gone = cell_gone;
	c->stop = cell_on_stop;
	c->req->drained = cell_on_drained;
	loop_timer_set(k->timer, KEEPALIVE_MS);
	QUEUE_PUT(x->tail, k);
	x->n_cells++;
	if (!context_reclaim(x))
		context_go_on(x);
}
