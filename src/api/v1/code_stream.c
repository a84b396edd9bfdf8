/* SPDX-License-Identifier: Apache-2.0 */
/* code_stream.c - a code run as events: its output as it is written, and its end */
#include <string.h>

#include "api/v1/code.h"
#include "base/json.h"
#include "base/utf8.h"

#define CODE_HEARTBEAT_MS 15000
#define CODE_EVENT_MAX    (1U << 20)

/* Return whether the client must read the event before the next one can be sent. */
static bool code_put_event(struct code_call *k, const struct buf *json)
{
	AUTO_BUF struct buf out = BUF_INIT(CODE_EVENT_MAX + 64);

	if (k->sse)
		buf_puts(&out, "data: ");
	buf_add(&out, json->data, json->len);
	buf_puts(&out, k->sse ? "\n\n" : "\n");
	k->broken = k->broken || json->failed || out.failed;
	if (k->broken) {
		/* Defer this, because it would free data that the caller still uses. */
		loop_defer(service_loop(k->call->v1->service), &k->turn);
		return true;
	}
	return http_write(k->call->req, out.data, out.len) != 0;
}

static void code_stream_on_timer(void *ctx)
{
	struct code_call *k = ctx;
	AUTO_BUF struct buf json = BUF_INIT(64);

	loop_timer_set(k->timer, CODE_HEARTBEAT_MS);
	if (k->blocked || k->answering)
		return;
	buf_puts(&json, "{\"type\":\"heartbeat\"}");
	k->blocked = code_put_event(k, &json);
}

void code_stream_started(void *ctx)
{
	struct code_call *k = ctx;

	if (k->begun)
		return;
	k->begun = true;
	call_begin_stream(k->call, k->sse);
	if (loop_timer_new(service_loop(k->call->v1->service), code_stream_on_timer, k,
			   &k->timer) == 0)
		loop_timer_set(k->timer, CODE_HEARTBEAT_MS);
}

static bool code_put_piece(struct code_call *k, int stream, const char *data, size_t n)
{
	AUTO_BUF struct buf json = BUF_INIT(CODE_EVENT_MAX);
	struct json j = { .out = &json };
	bool base64 = !utf8_valid(data, n) || memchr(data, '\0', n);

	if (n == 0)
		return false;
	json_open(&j, NULL, '{');
	json_str(&j, "type", "output");
	json_str(&j, "stream", stream == 2 ? "stderr" : "stdout");
	json_str(&j, "encoding", base64 ? "base64" : "utf-8");
	json_raw(&j, "data", "", 0);
	bytes_to_json(&json, data, n, base64);
	json_close(&j, '}');
	return code_put_event(k, &json);
}

bool code_stream_output(void *ctx, int stream, const char *data, size_t n)
{
	struct code_call *k = ctx;
	char joined[8];
	size_t cut, *kept = &k->kept[stream - 1].n;
	char *begin = k->kept[stream - 1].data;
	bool blocked = false;

	/* A few bytes complete the character that was kept; the rest is handled
	 * separately. */
	while (*kept > 0 && n > 0) {
		(void)memcpy(joined, begin, *kept);
		joined[(*kept)++] = *data++;
		n--;
		cut = utf8_cut(joined, *kept);
		if (cut < *kept)
			blocked |= code_put_piece(k, stream, joined, *kept - cut);
		(void)memcpy(begin, joined + *kept - cut, cut);
		*kept = cut;
	}
	/* The output of a compiler may arrive in one piece. */
	while (n > 0) {
		size_t piece = n < 65536 ? n : 65536;

		cut = utf8_cut(data, piece);
		blocked |= code_put_piece(k, stream, data, piece - cut);
		if (piece == n) {
			(void)memcpy(begin, data + piece - cut, cut);
			*kept = cut;
			break;
		}
		piece -= cut < piece ? cut : 0;
		data += piece;
		n -= piece;
	}
	k->blocked |= blocked;
	return blocked;
}

void code_stream_done(struct code_call *k, const struct code_result *result,
		      const struct warren_error *err)
{
	AUTO_BUF struct buf json = BUF_INIT(8192);
	struct api_error refusal = { 0 };

	k->timer = loop_timer_free(k->timer);
	for (int i = 0; i < 2; i++) {
		(void)code_put_piece(k, i + 1, k->kept[i].data, k->kept[i].n);
		k->kept[i].n = 0;
	}
	if (k->broken)
		return; /* the run is about to end */
	if (!result) {
		api_code_failed(&refusal, err);
		buf_puts(&json, "{\"type\":\"error\",\"error\":");
		api_error_write(&refusal, http_request_id(k->call->req), &json);
		buf_puts(&json, "}");
		(void)code_put_event(k, &json);
		(void)http_end(k->call->req);
		return;
	}
	/* Send the result in slices after this, and then the end of the event. */
	buf_printf(&json, "%s{\"type\":\"exit\",\"result\":", k->sse ? "data: " : "");
	k->blocked = http_write(k->call->req, json.data, json.len) != 0;
	if (!k->blocked)
		code_call_send(k);
}
