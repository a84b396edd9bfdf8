/* SPDX-License-Identifier: Apache-2.0 */
/* net-server-upgrade.c - the test server's WebSocket and proxy */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/net-server.h"
#include "net/http_proxy.h"
#include "net/ws.h"

struct echo {
	struct loop_timer *timer; /* a slow echo pauses after each message */
	struct ws *ws;
	uint64_t ms;
};

static void ws_message(struct ws *ws, bool text, const char *data, size_t n)
{
	struct echo *e = ws_user(ws);

	counts.received++;
	if (text && n == 3 && memcmp(data, "bye", 3) == 0)
		ws_close(ws, 1000, "as you wish");
	else if (ws_send(ws, text, data, n) > 0 || e->timer)
		ws_pause(ws);
	if (e->timer)
		loop_timer_set(e->timer, e->ms);
}

static void ws_went(struct ws *ws, unsigned code)
{
	struct echo *e = ws_user(ws);

	(void)loop_timer_free(e->timer);
	free(e);
	counts.open--;
	counts.answered++;
	counts.last_why = code;
}

static void ws_again(void *ctx)
{
	ws_resume(((struct echo *)ctx)->ws);
}

void serve_ws(struct http_request *req)
{
	struct echo *e = calloc(1, sizeof(*e));
	struct ws_options o = {
		.message = ws_message,
		.drained = ws_resume,
		.closed = ws_went,
		.user = e,
		.max_message = query_u64(req, "max", 0),
		.ping_ms = (unsigned)query_u64(req, "ping", 0),
		.protocol = http_header_has(req, "Sec-WebSocket-Protocol", "echo")
				    ? "echo"
				    : NULL,
	};

	if (!e)
		abort();
	e->ms = query_u64(req, "pause", 0);
	if (e->ms && loop_timer_new(the_loop, ws_again, e, &e->timer) < 0)
		abort();
	if (ws_accept(req, &o, &e->ws) < 0) {
		(void)loop_timer_free(e->timer);
		free(e);
	}
}

static void proxy_closed(void *ctx, int why)
{
	count_closed(ctx, why);
}

void serve_proxy(struct http_request *req)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const char *port = req->target + strlen("/proxy/");
	const char *target = strchr(port, '/');
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	a.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
	if (fd < 0)
		abort();
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 && errno != EINPROGRESS) {
		(void)close(fd);
		(void)http_refuse(req, 502, NULL, "nobody listens");
		return;
	}
	http_proxy(req, fd,
		   &(struct http_proxy_options){
			   .target = target,
			   .closed = proxy_closed,
			   .ctx = req,
			   .head_ms = (unsigned)query_u64(req, "ms", 2000) });
}
