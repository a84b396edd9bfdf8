/* SPDX-License-Identifier: Apache-2.0 */
/* exec.c - handlers: start, show and control execs */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/format.h"
#include "api/v1/exec.h"
#include "api/v1/network.h"
#include "api/v1/output_json.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/strv.h"
#include "config/config.h"
#include "service/network/network.h"

/* ----------------------------------------------------------------- requested commands */

void exec_wanted_done(struct exec_wanted *w)
{
	free((void *)w->argv);
	(void)strv_free(w->env_texts);
	free(w->input);
}

static int read_argv(const struct body *body, struct exec_wanted *w)
{
	json_t *argv = body_json(body, "argv");
	size_t n = argv ? json_array_size(argv) : 3;

	w->argv = calloc(n + 1, sizeof(*w->argv));
	if (!w->argv)
		return -ENOMEM;
	for (size_t i = 0; argv && i < n; i++)
		w->argv[i] = json_string_value(json_array_get(argv, i));
	if (!argv) {
		w->argv[0] = "/bin/sh";
		w->argv[1] = "-c";
		w->argv[2] = body_text(body, "command");
	}
	return 0;
}

int exec_read_env(const struct body *body, char ***ret)
{
	json_t *env = body_json(body, "env"), *value;
	char **list = calloc(json_object_size(env) + 1, sizeof(*list));
	const char *name;
	size_t i = 0;

	if (!list)
		return -ENOMEM;
	json_object_foreach(env, name, value)
	{
		if (asprintf(&list[i], "%s=%s", name, json_string_value(value)) < 0) {
			list[i] = NULL;
			break;
		}
		i++;
	}
	*ret = list;
	return i == json_object_size(env) ? 0 : -ENOMEM;
}

static int decode_base64(const char *text, char **ret, size_t *ret_size)
{
	size_t n = strlen(text);
	AUTO_FREE char *data = malloc(n / 4 * 3 + 1);
	ssize_t size = data ? base64_decode(text, n, data) : -ENOMEM;

	if (size < 0)
		return (int)size;
	*ret = TAKE_PTR(data);
	*ret_size = (size_t)size;
	return 0;
}

static int exec_read_input(const struct body *body, struct exec_wanted *w)
{
	const char *text = body_text(body, "input");
	const char *base64 = body_text(body, "input_base64");

	if (base64)
		return decode_base64(base64, &w->input, &w->input_size);
	if (!text)
		return 0;
	w->input = strdup(text);
	w->input_size = strlen(text);
	return w->input ? 0 : -ENOMEM;
}

int exec_check_output(const struct v1 *v1, const struct body *body, struct api_error *err)
{
	uint64_t max = v1->config->journal_max, asked = body_size(body, "output_limit");

	if (!max || !body_has(body, "output_limit") || asked <= max)
		return 0;
	return api_error_set(
		err, API_ERR_POLICY_REFUSED,
		"/output_limit: %ju is more than the %ju that the service allows",
		(uintmax_t)asked, (uintmax_t)max);
}

int exec_wanted_read(const struct config *cfg, const struct body *body,
		     struct exec_wanted *w, struct api_error *err)
{
	uint64_t journal = body_has(body, "output_limit")
				   ? body_size(body, "output_limit")
				   : cfg->journal_default;
	struct body limits = body_object(body, "limits");

	if (journal > cfg->journal_max && body_has(body, "output_limit"))
		return api_error_set(err, API_ERR_POLICY_REFUSED,
				     "/output_limit: the service keeps at most %ju bytes",
				     (uintmax_t)cfg->journal_max);
	if (body_has(body, "input") && body_has(body, "input_base64"))
		return api_error_set(err, API_ERR_INVALID_REQUEST,
				     "/input: give input or input_base64, not both");
	if (read_argv(body, w) < 0 || exec_read_env(body, &w->env_texts) < 0)
		return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	w->start = (struct exec_start){
		.argv = w->argv,
		.env = (const char *const *)w->env_texts,
		.cwd = body_text(body, "cwd"),
		.user = body_text(body, "user"),
		.pty = body_bool(body, "pty"),
		.rows = (uint16_t)body_int(body, "rows"),
		.cols = (uint16_t)body_int(body, "cols"),
		.input = body_bool(body, "stdin") || body_has(body, "input") ||
			 body_has(body, "input_base64"),
		.timeout_ms = (uint64_t)body_int(body, "timeout_ms"),
		.undoable = body_bool(body, "undoable"),
		.journal = journal < cfg->journal_max ? journal : cfg->journal_max,
	};
	body_live_limits(&limits, &w->start.limits);
	return 0;
}

/* ------------------------------------------------------------------ start */

static void exec_ignore(void *ctx UNUSED, int r UNUSED,
			const struct warren_error *err UNUSED)
{
}

/*
 * Write the request's input to stdin. A command that does not read its input is not an
 * error.
 */
static void feed_input(struct call *c, struct exec *exec)
{
	struct exec_wanted w = { 0 };

	if (exec_read_input(&c->body, &w) == 0 && w.input)
		exec_feed(exec, w.input, w.input_size,
			  !body_bool(&c->body, "stdin") && !body_bool(&c->body, "pty"),
			  exec_ignore, NULL);
	exec_wanted_done(&w);
}

void call_fail_start(struct call *c, const struct warren_error *why)
{
	static const struct {
		int code;
		enum api_code means;
	} codes[] = {
		{ ENOENT, API_ERR_COMMAND_NOT_FOUND },
		{ ENOTDIR, API_ERR_COMMAND_NOT_FOUND },
		{ EACCES, API_ERR_COMMAND_NOT_EXECUTABLE },
		{ ENOEXEC, API_ERR_COMMAND_NOT_EXECUTABLE },
		{ EOPNOTSUPP, API_ERR_LIMIT_REFUSED },
	};

	/* If the request contains limits, errors about limits have their own code. */
	bool limits = json_object_get(c->body.json, "limits") != NULL;

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		if (codes[i].code == why->code &&
		    (limits || codes[i].means != API_ERR_LIMIT_REFUSED)) {
			call_refuse(c, codes[i].means, "%s", why->msg);
			return;
		}
	}
	call_fail(c, why);
}

static void v1_exec_on_started(void *ctx, struct exec *exec,
			       const struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(32U << 20);
	struct call *c = ctx;

	if (exec)
		feed_input(c, exec);
	if (c->req && !exec) {
		call_fail_start(c, err);
	} else if (c->req) {
		exec_to_json(&out, exec);
		call_json(c, 201, &out);
	}
	call_unref(c);
}

void v1_start_exec(struct call *c)
{
	CLEANUP(exec_wanted_done) struct exec_wanted w = { 0 };
	struct api_error refusal = { 0 };
	struct sandbox *sandbox = call_sandbox(c);

	if (!sandbox)
		return;
	if (exec_wanted_read(c->v1->config, &c->body, &w, &refusal) < 0) {
		call_error(c, &refusal);
		return;
	}
	w.start.hold = body_bool(&c->body, "hold");
	exec_start(sandbox, &w.start, v1_exec_on_started, call_ref(c));
}

/* ------------------------------------------------------- start, and wait for the end */

#define ANSWER_MAX (64U << 20) /* maximum output in one answer */

struct running {
	struct pieces pieces;
	struct exec *exec; /* NULL: not started yet */
	struct waiter waiter;
	struct loop_timer *timer;
	bool waited; /* a client waits for the answer */
	uint64_t wait_ms;
	/* State of reading the output for the answer. */
	uint64_t from, end, cursor;
	struct journal_hint hint;
	uint64_t lost[2];
	int stream;
};

static void running_free(struct running *k)
{
	exec_wait_cancel(&k->waiter);
	k->timer = loop_timer_free(k->timer);
	pieces_done(&k->pieces);
	(void)exec_unref(k->exec);
	free(k);
}

static void exec_running_gone(struct call *c)
{
	struct running *k = c->state;

	c->state = NULL;
	/* If the exec has not started yet, on_running() notices that no client waits. */
	if (k && k->exec)
		running_free(k);
	else if (k)
		k->waited = false;
}

/*
 * Read the output of one stream. The journal contains both streams, so it is read once
 * for each of them.
 */
static int next_output(struct pieces *p, int stream, const char **ret_data, size_t *ret_n)
{
	static char piece[65536];
	struct running *k = (struct running *)p;
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_output o;
	int r;

	if (k->stream != stream) {
		k->stream = stream;
		k->cursor = k->from;
		k->lost[stream] = k->from;
	}
	if (k->cursor >= k->end)
		return 0;
	r = exec_output(k->exec, k->cursor, &k->hint, piece, sizeof(piece), &o, &err);
	if (r < 0)
		return r;
	if (o.size == 0)
		return 0;
	k->lost[stream] += o.lost;
	k->cursor = o.cursor;
	/* Output that was written later is left for the next request. */
	if (k->cursor > k->end)
		o.size -= k->cursor - k->end < o.size ? (size_t)(k->cursor - k->end)
						      : o.size;
	*ret_data = piece;
	*ret_n = o.stream == stream + 1 ? o.size : 0;
	return 1;
}

/* Write how many bytes of output the journal dropped before they were read. */
static void put_lost(struct pieces *p, struct buf *out)
{
	const struct running *k = (const struct running *)p;

	buf_printf(out, ",\"lost\":%ju",
		   (uintmax_t)(k->lost[0] > k->lost[1] ? k->lost[0] : k->lost[1]));
}

static struct sandbox *running_sandbox(const struct running *k)
{
	struct service *s = k->pieces.call->v1->service;
	struct sandbox *sandbox = sandbox_find(s, NULL, exec_row(k->exec)->sandbox);

	return sandbox && network_policy(sandbox) ? sandbox : NULL;
}

static void put_network_usage(struct buf *out, const struct running *k)
{
	const struct sandbox *sandbox = running_sandbox(k);
	struct json j = { .out = out, .comma = true };

	if (sandbox)
		network_usage_to_json(&j, "network", network_usage(sandbox));
}

/* Answer with the output; if it is too large, answer only with its end. */
static void answer_running(struct running *k)
{
	AUTO_BUF struct buf out = BUF_INIT(32U << 20);
	struct warren_error err = WARREN_ERROR_INIT;
	int r = exec_extent(k->exec, &k->from, &k->end);

	exec_wait_cancel(&k->waiter);
	k->timer = loop_timer_free(k->timer);
	if (r < 0) {
		(void)error_errno(&err, -r, "read the output");
		call_fail(k->pieces.call, &err);
		return;
	}
	if (r == 1)
		k->end = UINT64_MAX; /* the end is not known: read everything */
	else if (k->end - k->from > ANSWER_MAX)
		k->from = k->end - ANSWER_MAX;
	k->stream = -1;
	show_exec_open(&out, k->exec);
	put_network_usage(&out, k);
	pieces_answer(&k->pieces, &out, k->end - k->from);
}

static void exec_on_counted(void *ctx)
{
	struct call *c = ctx;
	struct running *k = c->state;

	if (k && !c->answered)
		answer_running(k);
	call_unref(c);
}

/* The answer says what the sandbox has used of the network by now. */
static void running_end(struct running *k)
{
	struct sandbox *sandbox = running_sandbox(k);

	if (sandbox)
		network_refresh(sandbox, exec_on_counted, call_ref(k->pieces.call));
	else
		answer_running(k);
}

static void exec_on_ended(struct waiter *w, void *of UNUSED)
{
	running_end(w->ctx);
}

static void on_wait_over(void *ctx)
{
	answer_running(ctx);
}

static void on_running(void *ctx, struct exec *exec, const struct warren_error *err)
{
	struct running *k = ctx;
	struct call *c = k->pieces.call;

	if (exec)
		feed_input(c, exec);
	if (!k->waited) {
		free(k);
		call_unref(c);
		return;
	}
	call_unref(c);
	if (!exec) {
		c->state = NULL;
		free(k);
		call_fail_start(c, err);
		return;
	}
	k->exec = exec_ref(exec);
	if (exec_row(exec)->ended || k->wait_ms == 0) {
		running_end(k);
		return;
	}
	exec_wait(exec, &k->waiter);
	if (k->wait_ms < 3600000 &&
	    loop_timer_new(service_loop(c->v1->service), on_wait_over, k, &k->timer) == 0)
		loop_timer_set(k->timer, k->wait_ms);
}

/*
 * Do what is done when the request's wait time is over: the exec continues, and the
 * answer contains its id.
 */
static void on_run_stop(struct call *c, bool last)
{
	struct running *k = c->state;

	if (last && k && k->exec && !c->answered)
		answer_running(k);
}

void v1_run_exec(struct call *c)
{
	CLEANUP(exec_wanted_done) struct exec_wanted w = { 0 };
	struct api_error refusal = { 0 };
	struct sandbox *sandbox = call_sandbox(c);
	struct running *k;

	if (!sandbox)
		return;
	if (exec_wanted_read(c->v1->config, &c->body, &w, &refusal) < 0) {
		call_error(c, &refusal);
		return;
	}
	k = calloc(1, sizeof(*k));
	if (!k) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	*k = (struct running){ .pieces = { .call = call_ref(c),
					   .base64 = body_word(&c->body, "encoding") ==
						     V1_ENCODING_BASE64,
					   .next = next_output,
					   .tail = put_lost },
			       .waited = true,
			       .wait_ms = (uint64_t)body_int(&c->body, "wait_ms") };
	k->waiter = (struct waiter){ .fn = exec_on_ended, .ctx = k };
	c->state = k;
	c->gone = exec_running_gone;
	c->stop = on_run_stop;
	exec_start(sandbox, &w.start, on_running, k);
}

/* ------------------------------------------------------------------ lists and details */

struct looking {
	struct call *call;
	struct exec *exec;
	struct waiter waiter;
	struct loop_timer *timer;
};

static void looking_gone(struct call *c)
{
	struct looking *k = c->state;

	if (!k)
		return;
	exec_wait_cancel(&k->waiter);
	k->timer = loop_timer_free(k->timer);
	(void)exec_unref(k->exec);
	c->state = NULL;
	free(k);
}

static void answer_exec(struct call *c, struct exec *exec)
{
	AUTO_BUF struct buf out = BUF_INIT(32U << 20);

	exec_to_json(&out, exec);
	call_json(c, 200, &out);
}

static void exec_on_looked(struct waiter *w, void *of)
{
	struct exec *exec = of;
	answer_exec(((struct looking *)w->ctx)->call, exec);
}

static void on_look_over(void *ctx)
{
	struct looking *k = ctx;

	answer_exec(k->call, k->exec);
}

static void on_look_stop(struct call *c, bool last UNUSED)
{
	struct looking *k = c->state;

	if (k && !c->answered)
		answer_exec(c, k->exec);
}

void v1_get_exec(struct call *c)
{
	uint64_t ms = (uint64_t)c->query.v[V1_GET_EXEC_QUERY_WAIT_MS].number;
	struct exec *exec = call_exec(c);
	struct looking *k;

	if (!exec)
		return;
	k = ms > 0 && !exec_row(exec)->ended && !exec_lost(exec) ? calloc(1, sizeof(*k))
								 : NULL;
	if (!k) {
		answer_exec(c, exec);
		(void)exec_unref(exec);
		return;
	}
	*k = (struct looking){ .call = c, .exec = exec };
	k->waiter = (struct waiter){ .fn = exec_on_looked, .ctx = k };
	c->state = k;
	c->gone = looking_gone;
	c->stop = on_look_stop;
	exec_wait(exec, &k->waiter);
	if (loop_timer_new(service_loop(c->v1->service), on_look_over, k, &k->timer) == 0)
		loop_timer_set(k->timer, ms);
}

/* The database cannot be queried while it walks over rows, so collect the ids first. */
struct ids {
	size_t n, max;
	char (*id)[ID_LEN + 1];
	uint32_t last;
};

static int exec_take_id(void *ctx, const struct exec_row *row)
{
	struct ids *ids = ctx;

	if (ids->n == ids->max)
		return 1;
	(void)memcpy(ids->id[ids->n++], row->id, sizeof(ids->id[0]));
	ids->last = row->number;
	return 0;
}

static bool exec_matches(struct call *c, struct exec *exec)
{
	static const char *const states[] = { "running", "exited", "lost" };
	const struct exec_row *row = exec_row(exec);
	const char *state = row->ended        ? states[1]
			    : exec_lost(exec) ? states[2]
					      : states[0];
	struct api_value *v = c->query.v;

	if (v[V1_LIST_EXECS_QUERY_STATE].given &&
	    strcmp(v[V1_LIST_EXECS_QUERY_STATE].text, state) != 0)
		return false;
	return !v[V1_LIST_EXECS_QUERY_PTY].given ||
	       (v[V1_LIST_EXECS_QUERY_PTY].number != 0) == row->pty;
}

void v1_list_execs(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(64U << 20);
	struct sandbox *sandbox = call_sandbox(c);
	uint64_t after = 0;
	struct ids ids = { .max = (size_t)c->query.v[V1_LIST_EXECS_QUERY_LIMIT].number };
	struct warren_error err = WARREN_ERROR_INIT;
	size_t shown = 0;
	int r;

	if (!sandbox || !call_page(c, &c->query.v[V1_LIST_EXECS_QUERY_CURSOR], &after))
		return;
	ids.id = calloc(ids.max, sizeof(*ids.id));
	r = ids.id ? db_each_exec(service_db(c->v1->service), sandbox_row(sandbox)->id,
				  after < UINT32_MAX ? (uint32_t)after : UINT32_MAX,
				  ids.max + 1, exec_take_id, &ids, &err)
		   : error_errno(&err, ENOMEM, "list the execs");
	if (r < 0) {
		free(ids.id);
		call_fail(c, &err);
		return;
	}
	buf_puts(&out, "{\"execs\":[");
	for (size_t i = 0; i < ids.n; i++) {
		struct exec *exec = exec_of_sandbox(sandbox, ids.id[i]);

		if (exec && exec_matches(c, exec)) {
			if (shown++ > 0)
				buf_puts(&out, ",");
			exec_to_json(&out, exec);
		}
		(void)exec_unref(exec);
	}
	if (r == 1)
		buf_printf(&out, "],\"next_cursor\":\"%u\"}", ids.last);
	else
		buf_puts(&out, "],\"next_cursor\":null}");
	free(ids.id);
	call_json(c, 200, &out);
}

/* ---------------------------------------------------------- signals and terminal size */

static void exec_on_done(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;

	if (c->req && r < 0)
		call_fail(c, err);
	else if (c->req)
		call_empty(c, 204);
	call_unref(c);
}

void v1_signal_exec(struct call *c)
{
	static const int whom[] = { WARREN_WHOM_TREE, WARREN_WHOM_FIRST,
				    WARREN_WHOM_REST };
	int sig = format_signal(body_text(&c->body, "signal"));
	struct exec *exec = call_exec(c);

	if (!exec)
		return;
	exec_signal(exec, sig, whom[body_word(&c->body, "to")], exec_on_done,
		    call_ref(c));
	(void)exec_unref(exec);
}

void v1_close_stdin(struct call *c)
{
	struct exec *exec = call_exec(c);

	if (!exec)
		return;
	exec_close_input(exec, exec_on_done, call_ref(c));
	(void)exec_unref(exec);
}

void v1_resize_exec(struct call *c)
{
	struct exec *exec = call_exec(c);
	struct warren_error err = WARREN_ERROR_INIT;

	if (!exec)
		return;
	if (exec_resize(exec, (uint16_t)body_int(&c->body, "rows"),
			(uint16_t)body_int(&c->body, "cols"), &err) < 0)
		call_fail(c, &err);
	else
		call_empty(c, 204);
	(void)exec_unref(exec);
}
