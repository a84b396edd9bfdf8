/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-http-response.c - for any response of a server behind the proxy, the client gets
 * one valid HTTP answer
 */
#include "net_world.h"

#include "net/http_proxy.h"

static int upstream = -1;

static void on_closed(void *ctx, int why)
{
	(void)ctx;
	(void)why;
	world_open--;
}

static void on_request(struct http_request *req, void *ctx)
{
	int pair[2];

	(void)ctx;
	world_open++;
	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) ==
	       0);
	upstream = pair[0];
	http_proxy(req, pair[1], &(struct http_proxy_options){ .closed = on_closed });
}

static const char *const requests[] = {
	"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nabc",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *request;
	bool head;
	int client;

	if (size < 2 || size > 60000)
		return 0;
	request = requests[data[0] % ARRAY_SIZE(requests)];
	head = request[0] == 'H';
	client = world_start(on_request);
	world_send(client, (const uint8_t *)request, strlen(request), SIZE_MAX);
	assert(upstream >= 0);
	world_send(upstream, data + 2, size - 2, data[1]);
	/*
	 * Remove what the proxy sent to the server from the recorded output, and keep
	 * only what the client received.
	 */
	(void)close(upstream);
	upstream = -1;
	world_out_len = 0;
	world_turn(client);
	assert(world_check_answers(head) <= 1);
	world_end(client);
	return 0;
}
