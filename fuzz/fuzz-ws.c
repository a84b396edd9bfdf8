/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-ws.c - any frames of a client: text is UTF-8, messages are bounded, and pauses are
 * respected
 */
#include "net_world.h"

#include "net/ws.h"

#define MESSAGE_MAX 2000

static const char handshake[] = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
				"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
				"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

static struct ws *socket_now;
static bool paused;

static void on_message(struct ws *ws, bool text, const char *data, size_t n)
{
	(void)text;
	assert(!paused && n <= MESSAGE_MAX);
	(void)ws_send(ws, false, data, n);
	if (n == 1) {
		paused = true;
		ws_pause(ws);
	} else if (n == 2) {
		ws_close(ws, 1000, "two");
	}
}

static void on_closed(struct ws *ws, unsigned code)
{
	(void)code;
	assert(ws == socket_now);
	socket_now = NULL;
	world_open--;
}

static void on_request(struct http_request *req, void *ctx)
{
	struct ws_options options = { .message = on_message,
				      .closed = on_closed,
				      .max_message = MESSAGE_MAX };

	(void)ctx;
	world_open++;
	assert(ws_accept(req, &options, &socket_now) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int client;

	if (size < 1 || size > 60000)
		return 0;
	paused = false;
	client = world_start(on_request);
	world_send(client, (const uint8_t *)handshake, sizeof(handshake) - 1, SIZE_MAX);
	assert(socket_now);
	world_send(client, data + 1, size - 1, data[0]);
	for (int i = 0; i < 1000 && socket_now && paused; i++) {
		paused = false;
		ws_resume(socket_now);
		world_turn(client);
	}
	world_end(client);
	assert(!socket_now);
	return 0;
}
