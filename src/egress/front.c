/* SPDX-License-Identifier: Apache-2.0 */
/* front.c - clients that know about the proxy: SOCKS, and the replies to CONNECT */
#include <errno.h>
#include <string.h>

#include "egress/egress_internal.h"

static enum socks_code front_socks_code(int status)
{
	switch (status) {
	case 200:
		return SOCKS_SUCCEEDED;
	case 403:
		return SOCKS_NOT_ALLOWED;
	case 502:
	case 504:
		return SOCKS_HOST_UNREACHABLE;
	default:
		return SOCKS_FAILED;
	}
}

static int front_send_socks(struct egress_flow *f)
{
	int r = f->socks->reply_len
			? end_write(&f->client, f->socks->reply, f->socks->reply_len)
			: 0;

	f->socks->reply_len = 0;
	return r;
}

void front_reply(struct egress_flow *f, int status, const char *why)
{
	static const char connected[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	enum front_owed reply = f->reply;
	int r = 0;

	f->reply = FRONT_OWES_NOTHING;
	if (reply == FRONT_OWES_SOCKS) {
		socks_reply(f->socks, front_socks_code(status));
		r = front_send_socks(f);
		free(f->socks);
		f->socks = NULL;
	} else if (status == 200) {
		r = end_write(&f->client, connected, sizeof(connected) - 1);
	} else {
		http_flow_fail(f, status, why);
		return;
	}
	if (r < 0)
		egress_flow_reset(f);
	else if (status != 200)
		egress_flow_linger(f);
}

/* The request is complete; the bytes after it belong to the destination. */
static void front_socks_request(struct egress_flow *f, const char *rest, size_t n)
{
	struct host h = f->socks->host;

	buf_add(&f->first, rest, n);
	f->reply = FRONT_OWES_SOCKS;
	if (f->first.failed || !egress_flow_set_host(f, &h, f->socks->port)) {
		front_reply(f, 502, "");
		return;
	}
	egress_flow_open(f);
}

static void front_socks_feed(struct egress_flow *f, const char *data, size_t n)
{
	enum socks_event event = SOCKS_REPLY;

	while (event == SOCKS_REPLY) {
		size_t used = 0;

		event = socks_feed(f->socks, (const uint8_t *)data, n, &used);
		data += used;
		n -= used;
		if (event != SOCKS_REQUEST && front_send_socks(f) < 0) {
			egress_flow_reset(f);
			return;
		}
	}
	if (event == SOCKS_REFUSED)
		egress_flow_linger(f);
	else if (event == SOCKS_REQUEST)
		front_socks_request(f, data, n);
}

void front_socks_read(struct egress_flow *f)
{
	char data[4096];
	ssize_t n = end_read(&f->client, data, sizeof(data));

	if (n == -EAGAIN)
		return;
	if (!f->socks)
		f->socks = calloc(1, sizeof(*f->socks));
	if (n <= 0 || !f->socks)
		egress_flow_reset(f);
	else
		front_socks_feed(f, data, (size_t)n);
}
