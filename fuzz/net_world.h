/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_world.h - a server inside a fuzz target: bytes go into one end of a socket pair,
 * and the output must be HTTP
 */
#ifndef FUZZ_NET_WORLD_H
#define FUZZ_NET_WORLD_H

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/http_internal.h"
#include "net/loop_internal.h"

#define WORLD_OUT_MAX (4U << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct net_loop *world_loop;
static struct http_server *world_server;
static size_t world_open; /* requests that have not been closed */
static char *world_out;   /* what the client has received */
static size_t world_out_len;

static inline void world_closed(struct http_request *req, int why)
{
	(void)req;
	(void)why;
	world_open--;
}

/* Start a server with one connection; return the client's end. */
static inline int world_start_with(const struct http_options *options,
				   int (*adopt)(struct http_server *server, int fd))
{
	struct warren_error err;
	int pair[2];

	if (!world_loop) {
		world_out = malloc(WORLD_OUT_MAX);
		assert(world_out && loop_new(&world_loop, &err) == 0);
	}
	assert(http_server_new(world_loop, options, &world_server, &err) == 0);
	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) ==
	       0);
	assert(adopt(world_server, pair[0]) == 0);
	world_out_len = 0;
	return pair[1];
}

static inline int world_adopt_http1(struct http_server *server, int fd)
{
	return http_server_adopt(server, fd, NULL);
}

static inline int world_start(void (*request)(struct http_request *req, void *ctx))
{
	struct http_options options = { .request = request };

	return world_start_with(&options, world_adopt_http1);
}

static inline void world_turn(int client)
{
	for (int i = 0; i < 4; i++) {
		ssize_t n;

		(void)uv_run(&world_loop->uv, UV_RUN_NOWAIT);
		while (world_out_len < WORLD_OUT_MAX &&
		       (n = recv(client, world_out + world_out_len,
				 WORLD_OUT_MAX - world_out_len, MSG_DONTWAIT)) > 0)
			world_out_len += (size_t)n;
	}
}

/* Send @size bytes in two parts, the first of which has @cut bytes. */
static inline void world_send(int client, const uint8_t *data, size_t size, size_t cut)
{
	cut = cut < size ? cut : size;
	(void)send(client, data, cut, MSG_NOSIGNAL);
	world_turn(client);
	(void)send(client, data + cut, size - cut, MSG_NOSIGNAL);
	world_turn(client);
}

/* The client disconnects: all requests must end, and nothing must be left. */
static inline void world_end(int client)
{
	(void)close(client);
	world_turn(-1);
	world_server = http_server_free(world_server);
	world_turn(-1);
	assert(world_open == 0);
}

/* Check that the received data is a sequence of complete answers, of which the last may
 * be truncated. */
static inline size_t world_check_answers(bool head_method)
{
	size_t at = 0, answers = 0;

	while (at < world_out_len) {
		struct http_head h;
		struct http_body body;
		size_t scanned = 0;
		long len = http_head_find(world_out + at, world_out_len - at, &scanned);

		assert(len >= 0);
		if (len == 0)
			break;
		assert(http_head_response(world_out + at, (size_t)len, &h) == 0);
		at += (size_t)len;
		answers++;
		if (h.status == 101)
			break;
		http_body_init(&body,
			       h.status < 200 || h.status == 204 || head_method
				       ? HTTP_BODY_NONE
			       : h.chunked    ? HTTP_BODY_CHUNKED
			       : h.has_length ? HTTP_BODY_LENGTH
					      : HTTP_BODY_UNTIL_CLOSE,
			       h.length);
		while (!body.done && at < world_out_len) {
			const char *piece;
			size_t n;
			long used = http_body_take(&body, world_out + at,
						   world_out_len - at, &piece, &n);

			assert(used > 0);
			at += (size_t)used;
		}
	}
	return answers;
}

#endif /* FUZZ_NET_WORLD_H */
