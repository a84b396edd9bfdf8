/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ws.c - the handshake, and frames with wslay
 *
 * wslay parses frames, assembles messages and enforces the protocol. It is given one
 * frame at a time, because it keeps everything that it is given. Otherwise, a pause could
 * not take effect between two messages that arrived together. Bytes that were received
 * before the pause took effect wait in @held; their size is at most that of one read.
 *
 * Frames to the client are not masked, so a message is a header of up to ten bytes and
 * its data; messages bypass wslay's queue. Control frames come from wslay.
 */
#include "net/ws.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>
#include <wslay/wslay.h>

#include "base/base64.h"
#include "net/http_internal.h"

#define MAX_MESSAGE  (1U << 20)
#define PING_MS      30000
#define CLOSE_MS     3000
#define CLOSE_ABSENT 1006
#define REASON_MAX   123
#define KEY_LEN      24
#define HEADER_MAX   14

struct ws {
	struct http_request *req;
	struct ws_options options;
	wslay_event_context_ptr wslay;
	struct loop_timer *timer;
	const char *feed; /* bytes that are available to wslay */
	size_t feed_len;
	char *held; /* bytes received while paused */
	size_t held_len;
	struct loop_task task;      /* processes the held bytes later */
	uint64_t frame_left;        /* remaining payload of the frame */
	uint8_t header[HEADER_MAX]; /* header of the current frame */
	uint8_t header_len;
	bool paused; /* paused by the user */
	bool choked; /* the client does not read */
	bool heard;  /* data has arrived since the timer was set */
	bool pinged;
	bool closing; /* the server has sent a close frame */
	bool ended;   /* the server's half is closed */
	bool dead;    /* the request is closed */
};

/* ------------------------------------------------------------------ sending */

static void note_write(struct ws *ws, int result)
{
	if (result == 1 && !ws->choked) {
		ws->choked = true;
		http_pause(ws->req);
	}
}

static ssize_t ws_on_send(wslay_event_context_ptr ctx, const uint8_t *data, size_t n,
			  int flags, void *user)
{
	struct ws *ws = user;
	int r = ws->ended ? -EPIPE : http_write(ws->req, data, n);

	(void)flags;
	if (r < 0) {
		wslay_event_set_error(ctx, WSLAY_ERR_CALLBACK_FAILURE);
		return -1;
	}
	note_write(ws, r);
	return (ssize_t)n;
}

static void ws_end_half(struct ws *ws)
{
	if (ws->ended)
		return;
	ws->ended = true;
	(void)http_end(ws->req);
	loop_timer_set(ws->timer, CLOSE_MS);
}

/*
 * Send the control frames that wslay has ready; end after close frames from both sides.
 */
static void send_control(struct ws *ws)
{
	if (ws->ended || wslay_event_want_write(ws->wslay) == 0)
		return;
	if (wslay_event_send(ws->wslay) < 0) {
		http_abort(ws->req);
		return;
	}
	if (!wslay_event_get_close_sent(ws->wslay))
		return;
	ws->closing = true;
	/*
	 * Nothing more is read: the client has sent a close frame, or violated the
	 * protocol.
	 */
	if (!wslay_event_want_read(ws->wslay))
		ws_end_half(ws);
	else
		loop_timer_set(ws->timer, CLOSE_MS);
}

int ws_send(struct ws *ws, bool text, const void *data, size_t n)
{
	unsigned char header[10] = { 0x80 | (text ? 1 : 2) };
	size_t header_len = 2;
	struct stream *s = &request_of(ws->req)->conn->stream;
	struct iovec iov[2];
	int r;

	if (!ws->dead)
		send_control(ws); /* control frames come first: a pong does not wait for
				     messages */
	if (ws->closing || ws->ended || ws->dead)
		return -EPIPE;
	if (n < 126) {
		header[1] = (unsigned char)n;
	} else if (n <= 0xffff) {
		header[1] = 126;
		header_len = 4;
	} else {
		header[1] = 127;
		header_len = 10;
	}
	for (size_t i = 2; i < header_len; i++)
		header[i] = (unsigned char)(n >> (8 * (header_len - 1 - i)));
	iov[0] = (struct iovec){ .iov_base = header, .iov_len = header_len };
	iov[1] = (struct iovec){ .iov_base = (void *)(uintptr_t)data, .iov_len = n };
	r = stream_writev(s, iov, n ? 2 : 1);
	request_of(ws->req)->waiting |= r == 1;
	return r;
}

void ws_close(struct ws *ws, unsigned code, const char *reason)
{
	size_t n = reason ? strnlen(reason, REASON_MAX) : 0;

	if (ws->closing || ws->ended || ws->dead)
		return;
	(void)wslay_event_queue_close(ws->wslay, (uint16_t)code, (const uint8_t *)reason,
				      n);
	send_control(ws);
}

/* ------------------------------------------------------------------ receiving */

static uint64_t big_endian(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | *p++;
	return v;
}

/* Return the length of the header, as far as the received bytes show it. */
static size_t header_needs(const struct ws *ws)
{
	unsigned len = ws->header[1] & 0x7f;

	if (ws->header_len < 2)
		return 2;
	return 2 +
	       (len == 126   ? 2U
		: len == 127 ? 8U
			     : 0U) +
	       (ws->header[1] & 0x80 ? 4U : 0U);
}

static void header_complete(struct ws *ws)
{
	unsigned len = ws->header[1] & 0x7f;

	ws->frame_left = len == 126   ? big_endian(ws->header + 2, 2)
			 : len == 127 ? big_endian(ws->header + 2, 8)
				      : len;
	if (ws->frame_left == 0)
		ws->header_len = 0;
}

/*
 * The read function for wslay: it never reads past the end of a frame, and no new frame
 * during a pause.
 */
static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, int flags,
		       void *user)
{
	struct ws *ws = user;
	bool in_payload = ws->frame_left > 0;
	size_t n = len < ws->feed_len ? len : ws->feed_len;
	uint64_t most = in_payload ? ws->frame_left : header_needs(ws) - ws->header_len;

	(void)flags;
	n = n < most ? n : (size_t)most;
	if (n == 0 || (ws->paused && ws->header_len == 0)) {
		wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	(void)memcpy(buf, ws->feed, n);
	ws->feed += n;
	ws->feed_len -= n;
	if (in_payload) {
		ws->frame_left -= n;
		if (ws->frame_left == 0)
			ws->header_len = 0;
		return (ssize_t)n;
	}
	(void)memcpy(ws->header + ws->header_len, buf, n);
	ws->header_len = (uint8_t)(ws->header_len + n);
	if (ws->header_len == header_needs(ws))
		header_complete(ws);
	return (ssize_t)n;
}

static void ws_on_message(wslay_event_context_ptr ctx,
			  const struct wslay_event_on_msg_recv_arg *arg, void *user)
{
	struct ws *ws = user;

	(void)ctx;
	if (wslay_is_ctrl_frame(arg->opcode) || ws->closing)
		return;
	ws->options.message(ws, arg->opcode == WSLAY_TEXT_FRAME, (const char *)arg->msg,
			    arg->msg_length);
}

/* wslay fails on invalid frames, and would close without a code. */
static void ws_reject(struct ws *ws)
{
	static const unsigned char goodbye[] = { 0x80 | WSLAY_CONNECTION_CLOSE, 2,
						 WSLAY_CODE_PROTOCOL_ERROR >> 8,
						 WSLAY_CODE_PROTOCOL_ERROR & 0xff };

	if (!ws->closing && !ws->ended)
		(void)http_write(ws->req, goodbye, sizeof(goodbye));
	ws->closing = true;
	ws_end_half(ws);
}

static void ws_feed(struct ws *ws, const char *data, size_t n)
{
	ws->feed = data;
	ws->feed_len = n;
	if (!ws->ended && wslay_event_want_read(ws->wslay) &&
	    wslay_event_recv(ws->wslay) < 0)
		ws_reject(ws);
	send_control(ws);
	/* Ignore further data after the client's close frame was answered or refused. */
	if (ws->ended || !wslay_event_want_read(ws->wslay))
		ws->feed_len = 0;
}

static void ws_on_bytes(struct http_request *req, const char *data, size_t n)
{
	struct ws *ws = req->user;
	char *held;

	ws->heard = true;
	if (n == 0) {
		ws_end_half(ws);
		return;
	}
	if (ws->held) { /* cannot happen, because nothing is read while bytes are held */
		http_abort(req);
		return;
	}
	ws_feed(ws, data, n);
	if (ws->feed_len == 0)
		return;
	held = malloc(ws->feed_len);
	if (!held) {
		http_abort(req);
		return;
	}
	(void)memcpy(held, ws->feed, ws->feed_len);
	ws->held = held;
	ws->held_len = ws->feed_len;
}

static void ws_go_on(struct ws *ws)
{
	if (ws->paused || ws->choked || ws->dead)
		return;
	if (ws->held)
		loop_defer(request_of(ws->req)->conn->stream.loop, &ws->task);
	else
		http_resume(ws->req);
}

static void ws_on_task(void *ctx)
{
	struct ws *ws = ctx;
	char *held = TAKE_PTR(ws->held);

	if (held) {
		ws_feed(ws, held, ws->held_len);
		if (ws->feed_len > 0) {
			(void)memmove(held, ws->feed, ws->feed_len);
			ws->held_len = ws->feed_len;
			ws->held = TAKE_PTR(held);
		}
		free(held);
	}
	if (!ws->held)
		ws_go_on(ws);
}

void ws_pause(struct ws *ws)
{
	ws->paused = true;
	http_pause(ws->req);
}

void ws_resume(struct ws *ws)
{
	if (!ws->paused)
		return;
	ws->paused = false;
	ws_go_on(ws);
}

/* ------------------------------------------------------------------ lifetime */

static void ws_on_drained(struct http_request *req)
{
	struct ws *ws = req->user;

	if (ws->choked) {
		ws->choked = false;
		ws_go_on(ws);
	}
	if (ws->options.drained && !ws->closing)
		ws->options.drained(ws);
}

static void ws_on_timer(void *ctx)
{
	struct ws *ws = ctx;
	static const struct wslay_event_msg ping = { .opcode = WSLAY_PING };

	if (ws->closing || ws->ended || (ws->pinged && !ws->heard && !ws->paused)) {
		http_abort(ws->req);
		return;
	}
	ws->pinged = !ws->heard;
	ws->heard = false;
	if (ws->pinged) {
		(void)wslay_event_queue_msg(ws->wslay, &ping);
		send_control(ws);
	}
	loop_timer_set(ws->timer, ws->options.ping_ms);
}

static void free_ws(struct ws *ws)
{
	loop_task_cancel(&ws->task);
	(void)loop_timer_free(ws->timer);
	wslay_event_context_free(ws->wslay);
	free(ws->held);
	free(ws);
}

static void ws_on_closed(struct http_request *req, int why)
{
	struct ws *ws = req->user;
	unsigned code = CLOSE_ABSENT;

	(void)why;
	ws->dead = true;
	if (wslay_event_get_close_received(ws->wslay))
		code = wslay_event_get_status_code_received(ws->wslay);
	if (ws->options.closed)
		ws->options.closed(ws, code);
	free_ws(ws);
}

void *ws_user(const struct ws *ws)
{
	return ws->options.user;
}

/* ------------------------------------------------------------------ handshake */

/* Is it the base64 encoding of 16 bytes: 22 characters and two of padding? */
static bool key_ok(const char *key)
{
	return key && strlen(key) == KEY_LEN && base64_valid(key, KEY_LEN) &&
	       strcmp(key + KEY_LEN - 2, "==") == 0;
}

static bool accept_key(const char *key, char out[32])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	char text[KEY_LEN + sizeof(guid)];
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	(void)memcpy(text, key, KEY_LEN);
	(void)memcpy(text + KEY_LEN, guid, sizeof(guid));
	if (EVP_Digest(text, strlen(text), digest, &n, EVP_sha1(), NULL) != 1 || n != 20)
		return false;
	base64_encode(digest, n, out);
	out[base64_size(n)] = '\0';
	return true;
}

static int ws_refuse(struct http_request *req, int status, const char *why)
{
	static const struct http_header version = { "Sec-WebSocket-Version", "13" };

	if (status == 426)
		(void)http_respond(req, status, &version, 1, why, strlen(why));
	else
		(void)http_refuse(req, status, NULL, why);
	return -EINVAL;
}

int ws_check(const struct http_request *req, const char **ret_why)
{
	const char *version = http_header(req, "Sec-WebSocket-Version");
	int status = 0;

	if (req->major != 1) {
		*ret_why = "a WebSocket needs HTTP/1.1";
		status = 400;
	} else if (strcmp(req->method, "GET") != 0 || req->minor != 1 || req->has_body ||
		   !http_header_has(req, "Connection", "upgrade") ||
		   !http_header_has(req, "Upgrade", "websocket")) {
		*ret_why = "this needs a WebSocket handshake";
		status = 400;
	} else if (!version || strcmp(version, "13") != 0) {
		*ret_why = "WebSocket version 13 is required";
		status = 426;
	} else if (!key_ok(http_header(req, "Sec-WebSocket-Key"))) {
		*ret_why = "Sec-WebSocket-Key is malformed";
		status = 400;
	}
	return status;
}

static struct ws *new_ws(struct http_request *req, const struct ws_options *options)
{
	static const struct wslay_event_callbacks callbacks = {
		.recv_callback = on_recv,
		.send_callback = ws_on_send,
		.on_msg_recv_callback = ws_on_message,
	};
	struct ws *ws = calloc(1, sizeof(*ws));

	if (!ws)
		return NULL;
	ws->req = req;
	ws->options = *options;
	ws->task = (struct loop_task){ .fn = ws_on_task, .ctx = ws };
	if (ws->options.max_message == 0)
		ws->options.max_message = MAX_MESSAGE;
	if (ws->options.ping_ms == 0)
		ws->options.ping_ms = PING_MS;
	if (loop_timer_new(request_of(req)->conn->stream.loop, ws_on_timer, ws,
			   &ws->timer) < 0 ||
	    wslay_event_context_server_init(&ws->wslay, &callbacks, ws) != 0) {
		(void)loop_timer_free(ws->timer);
		free(ws);
		return NULL;
	}
	wslay_event_config_set_max_recv_msg_length(ws->wslay, ws->options.max_message);
	loop_timer_set(ws->timer, ws->options.ping_ms);
	return ws;
}

int ws_accept(struct http_request *req, const struct ws_options *options, struct ws **ret)
{
	char accept[32] = "";
	struct http_header headers[] = { { "Upgrade", "websocket" },
					 { "Sec-WebSocket-Accept", accept },
					 { "Sec-WebSocket-Protocol",
					   options->protocol } };
	const char *why = NULL;
	struct ws *ws;
	int r = ws_check(req, &why);

	if (r != 0)
		return ws_refuse(req, r, why);
	if (!accept_key(http_header(req, "Sec-WebSocket-Key"), accept) ||
	    !(ws = new_ws(req, options))) {
		(void)http_refuse(req, 500, NULL, "out of memory");
		return -ENOMEM;
	}
	/* Nothing has been sent yet. If the protocol name is invalid, the caller has a
	 * bug. */
	r = http_upgrade(req, headers, options->protocol ? 3 : 2, ws_on_bytes);
	if (r < 0 && !request_of(req)->upgraded) {
		free_ws(ws);
		return r;
	}
	req->user = ws;
	req->drained = ws_on_drained;
	req->closed = ws_on_closed;
	if (ret)
		*ret = ws;
	return 0;
}
