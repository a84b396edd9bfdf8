/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tunnel.c - move bytes between a local socket and a port in a sandbox
 *
 * curl connects (over a unix socket, TCP or TLS, and through proxies). This file sends
 * the request to upgrade and reads the answer; from then on, the bytes of the connection
 * are those of the port.
 *
 * A flow is one direction, with one buffer: it is filled when it is empty, and drained
 * when it is not. Neither direction waits for the other. So both ends can send without
 * reading, as over a direct connection.
 */
#include "cli/client/tunnel.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/macro.h"

#define HEAD_MAX (64U << 10)
#define PIECE    (128U << 10)

struct flow {
	char *data;
	size_t at, len; /* bytes @at to @len have not been drained yet */
	bool ended;     /* no more data will come */
	bool passed_on; /* the other side was notified */
};

struct tunnel {
	struct request *request;
	curl_socket_t there; /* socket to the service, only for poll(2) */
	int here;
	struct flow down, up; /* down: to @here; up: to the service */
};

/* ------------------------------------------------------------------ both sides */

/* Return a number of bytes, 0 at the end, or -errno. */
static ssize_t get_there(struct tunnel *t, char *data, size_t n)
{
	size_t got = 0;
	CURLcode r = curl_easy_recv(t->request->easy, data, n, &got);

	if (r == CURLE_AGAIN)
		return -EAGAIN;
	return r == CURLE_OK ? (ssize_t)got : -ECONNRESET;
}

static ssize_t put_there(struct tunnel *t, const char *data, size_t n)
{
	size_t sent = 0;
	CURLcode r = curl_easy_send(t->request->easy, data, n, &sent);

	if (r == CURLE_AGAIN)
		return -EAGAIN;
	return r == CURLE_OK ? (ssize_t)sent : -EPIPE;
}

/*
 * Close this direction towards the service. With TLS, this needs a close_notify record,
 * which curl does not support, but OpenSSL does; without it, the end would look like an
 * attack.
 */
static int end_there(struct tunnel *t)
{
	struct curl_tlssessioninfo *tls = NULL;

	(void)curl_easy_getinfo(t->request->easy, CURLINFO_TLS_SSL_PTR, &tls);
	if (tls && tls->backend == CURLSSLBACKEND_OPENSSL && tls->internals)
		(void)SSL_shutdown(tls->internals);
	else if (tls && tls->internals)
		return -EOPNOTSUPP;
	return shutdown(t->there, SHUT_WR) < 0 ? -errno : 0;
}

static ssize_t get_here(struct tunnel *t, char *data, size_t n)
{
	ssize_t r = recv(t->here, data, n, MSG_DONTWAIT);

	return r < 0 ? -errno : r;
}

static ssize_t put_here(struct tunnel *t, const char *data, size_t n)
{
	ssize_t r = send(t->here, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	return r < 0 ? -errno : r;
}

static int end_here(struct tunnel *t)
{
	return shutdown(t->here, SHUT_WR) < 0 ? -errno : 0;
}

/* ----------------------------------------------------------------------- flows */

struct way {
	ssize_t (*get)(struct tunnel *t, char *data, size_t n);
	ssize_t (*put)(struct tunnel *t, const char *data, size_t n);
	int (*end)(struct tunnel *t);
};

static const struct way down = { get_there, put_here, end_here };
static const struct way up = { get_here, put_there, end_there };

static bool tunnel_blocked(ssize_t r)
{
	return r == -EAGAIN || r == -EINTR;
}

/* Move data without blocking. Return -errno if a side failed. */
static int tunnel_move(struct tunnel *t, struct flow *f, const struct way *way)
{
	ssize_t n;

	while (!f->passed_on) {
		if (f->at < f->len) {
			n = way->put(t, f->data + f->at, f->len - f->at);
			if (n < 0)
				return tunnel_blocked(n) ? 0 : (int)n;
			f->at += (size_t)n;
		} else if (f->ended) {
			f->passed_on = true;
			return way->end(t);
		} else {
			n = way->get(t, f->data, PIECE);
			if (n < 0)
				return tunnel_blocked(n) ? 0 : (int)n;
			f->at = 0;
			f->len = (size_t)n;
			f->ended = n == 0;
		}
	}
	return 0;
}

static short events_of(const struct flow *in, const struct flow *out)
{
	bool fill = !in->ended && in->at == in->len;
	bool drain = out->at < out->len;

	return (short)((fill ? POLLIN : 0) | (drain ? POLLOUT : 0));
}

/*
 * Wait until data can be moved. A side that is neither read nor written now is not
 * watched, because its hangup would wake this process again and again.
 */
static int wait_for_more(const struct tunnel *t)
{
	struct pollfd fds[] = {
		{ .fd = t->there, .events = events_of(&t->down, &t->up) },
		{ .fd = t->here, .events = events_of(&t->up, &t->down) },
	};
	const struct flow *from[] = { &t->down, &t->up };

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i].events == 0 && !from[i]->passed_on)
			fds[i].fd = -1;
	if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
		return errno == EINTR ? 0 : -errno;
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (from[i]->passed_on && fds[i].revents & (POLLHUP | POLLERR))
			return -ECONNRESET;
	return 0;
}

int tunnel_run(struct tunnel *t, int fd)
{
	int r = 0;

	t->here = fd;
	while (r == 0) {
		r = tunnel_move(t, &t->down, &down);
		if (r == 0)
			r = tunnel_move(t, &t->up, &up);
		if (t->down.passed_on && t->up.passed_on)
			return r;
		if (r == 0)
			r = wait_for_more(t);
	}
	return r;
}

/* --------------------------------------------------------------------- opening */

static int wait_there(const struct tunnel *t, short events)
{
	struct pollfd p = { .fd = t->there, .events = events };

	return poll(&p, 1, -1) < 0 && errno != EINTR ? -errno : 0;
}

static int tunnel_ask(struct tunnel *t, const char *sandbox, unsigned port)
{
	AUTO_BUF struct buf head = BUF_INIT(PATH_LIMIT);
	const struct client *c = t->request->client;
	const char *host = strstr(c->base, "://");
	size_t at = 0;

	buf_printf(&head,
		   "GET /v1/sandboxes/%s/tunnels/%u HTTP/1.1\r\nHost: %s\r\n"
		   "Upgrade: tcp\r\nConnection: Upgrade\r\n",
		   sandbox, port, host ? host + 3 : "localhost");
	if (c->authority) {
		buf_puts(&head, c->authority);
		buf_puts(&head, "\r\n");
	}
	buf_puts(&head, "\r\n");
	if (head.failed)
		return -ENOMEM;
	while (at < head.len) {
		ssize_t n = put_there(t, head.data + at, head.len - at);
		int r = n == -EAGAIN ? wait_there(t, POLLOUT) : n < 0 ? (int)n : 0;

		if (r < 0)
			return r;
		at += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Read @need more bytes; if it is 0, whatever arrives next. */
static int tunnel_read_more(struct tunnel *t, size_t need)
{
	struct flow *f = &t->down;
	size_t from = f->len;

	do {
		ssize_t n = f->len < HEAD_MAX
				    ? get_there(t, f->data + f->len, HEAD_MAX - f->len)
				    : -EMSGSIZE;
		int r = n == -EAGAIN ? wait_there(t, POLLIN) : n < 0 ? (int)n : 0;

		if (r < 0)
			return r;
		if (n == 0)
			return -ECONNRESET;
		f->len += n > 0 ? (size_t)n : 0;
		f->data[f->len] = '\0';
	} while (f->len == from || f->len - from < need);
	return 0;
}

/* Report an error of the service; its body may not have arrived yet. */
static int tunnel_refused(struct tunnel *t, const char *body, struct warren_error *err)
{
	const char *length = strcasestr(t->down.data, "\r\nContent-Length:");
	size_t n = length ? strtoul(length + strlen("\r\nContent-Length:"), NULL, 10) : 0;
	size_t at = (size_t)(body - t->down.data), have = t->down.len - at;
	AUTO_JSON json_t *said = NULL;
	const char *message;

	if (n <= HEAD_MAX && have < n && tunnel_read_more(t, n - have) == 0)
		have = n;
	said = json_loadb(t->down.data + at, have, 0, NULL);
	message = json_string_value(json_object_get(said, "message"));
	return error_set(err, EREMOTEIO, "%s", message ? message : "it was refused");
}

/* Read the header of the answer; the data after it is the first output of the port. */
static int take_answer(struct tunnel *t, struct warren_error *err)
{
	const char *end = NULL;

	while (!end) {
		int r = tunnel_read_more(t, 0);

		if (r < 0)
			return error_errno(err, -r, "read the answer of %s",
					   t->request->client->host);
		end = strstr(t->down.data, "\r\n\r\n");
	}
	end += 4;
	if (strncmp(t->down.data, "HTTP/1.1 101 ", 13) != 0)
		return tunnel_refused(t, end, err);
	t->down.at = (size_t)(end - t->down.data);
	return 0;
}

static int connect_there(struct tunnel *t, struct warren_error *err)
{
	CURL *e = t->request->easy;

	(void)curl_easy_setopt(e, CURLOPT_CONNECT_ONLY, 1L);
	(void)curl_easy_setopt(e, CURLOPT_HTTPPROXYTUNNEL, 1L);
	if (curl_easy_perform(e) != CURLE_OK ||
	    curl_easy_getinfo(e, CURLINFO_ACTIVESOCKET, &t->there) != CURLE_OK)
		return error_set(err, ECONNREFUSED, "no service at %s",
				 t->request->client->host);
	if (!client_trusts(t->request->client, t->there))
		return client_refuse(t->request->client, err);
	return 0;
}

int tunnel_open(struct client *c, const char *sandbox, unsigned port, struct tunnel **ret,
		struct warren_error *err)
{
	struct tunnel *t = calloc(1, sizeof(*t));
	int r = 0;

	if (t) {
		t->down.data = malloc(PIECE + 1);
		t->up.data = malloc(PIECE);
	}
	if (!t || !t->down.data || !t->up.data) {
		(void)tunnel_close(t);
		return error_errno(err, ENOMEM, "open a tunnel");
	}
	r = request_new(c, "GET", "/", &t->request, err);
	if (r == 0)
		r = connect_there(t, err);
	if (r == 0 && tunnel_ask(t, sandbox, port) < 0)
		r = error_set(err, ECONNRESET, "the connection to %s broke", c->host);
	if (r == 0)
		r = take_answer(t, err);
	if (r < 0)
		(void)tunnel_close(t);
	else
		*ret = t;
	return r;
}

struct tunnel *tunnel_close(struct tunnel *t)
{
	if (!t)
		return NULL;
	t->request = request_free(t->request);
	free(t->down.data);
	free(t->up.data);
	free(t);
	return NULL;
}
