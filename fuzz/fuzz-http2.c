/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-http2.c - any frames from a client: the server sends valid frames, and nothing
 * stays open
 *
 * The preface and the client's settings precede the input, so that it begins with frames.
 */
#include "net_world.h"

#define BIG (1U << 20)

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
			      "\0\0\0\4\0\0\0\0\0"  /* SETTINGS */
			      "\0\0\0\4\1\0\0\0\0"; /* the acknowledgement of ours */

static void fuzz_http2_echo(struct http_request *req, const char *body, size_t n)
{
	(void)http_respond(req, 200, NULL, 0, body, n);
}

static void fuzz_http2_piece(struct http_request *req, const char *data, size_t n)
{
	if (!http_response_begun(req))
		(void)http_begin_response(req, 200, NULL, 0, -1);
	if (n > 0 && http_write(req, data, n) > 0)
		http_pause(req);
	else if (n == 0)
		(void)http_end(req);
}

static void fuzz_http2_big(struct http_request *req)
{
	static char body[BIG];

	(void)http_respond(req, 200, NULL, 0, body, sizeof(body));
}

static void fuzz_http2_abort(struct http_request *req)
{
	(void)http_begin_response(req, 200, NULL, 0, 100);
	(void)http_write(req, "x", 1);
	(void)http_end(req);
}

static void fuzz_http2_request(struct http_request *req, void *ctx)
{
	(void)ctx;
	world_open++;
	req->closed = world_closed;
	req->drained = http_resume;
	assert(http_header(req, "host") && req->major == 2);
	assert(!http_header(req, "connection") && !strpbrk(req->target, " \r\n"));
	for (size_t i = 0; i < req->n_headers; i++)
		assert(http_is_token(req->headers[i].name) &&
		       http_is_value(req->headers[i].value));
	switch (req->path[1]) {
	case 'a':
		fuzz_http2_abort(req);
		break;
	case 'b':
		fuzz_http2_big(req);
		break;
	case 'c':
		http_collect(req, 1000, fuzz_http2_echo);
		break;
	case 'h':
		break; /* no answer */
	case 's':
		http_stream(req, fuzz_http2_piece);
		break;
	default:
		(void)http_respond(req, 200, NULL, 0, req->target, strlen(req->target));
	}
}

/* Check that the received data is a sequence of frames that the server may send. */
static void fuzz_http2_check(void)
{
	const unsigned char *p = (const unsigned char *)world_out;

	for (size_t at = 0; world_out_len - at >= 9;) {
		size_t n = (size_t)p[at] << 16 | (size_t)p[at + 1] << 8 | p[at + 2];
		unsigned type = p[at + 3], flags = p[at + 4];

		assert(n <= 16384 && type <= 9 && type != 5);
		assert(type != 0 || n > 0 ||
		       flags & 1); /* DATA is empty only at the end */
		if (world_out_len - at - 9 < n)
			break;
		at += 9 + n;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_options options = { .request = fuzz_http2_request };
	int client;

	if (size < 1 || size > 60000)
		return 0;
	client = world_start_with(&options, http_server_adopt_http2);
	(void)send(client, preface, sizeof(preface) - 1, MSG_NOSIGNAL);
	world_send(client, data + 1, size - 1, data[0]);
	world_end(client);
	fuzz_http2_check();
	return 0;
}
