/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-http.c - any bytes from a client: answers are valid HTTP, nothing stays open, and
 * another parser finds the same requests
 */
#include <http_parser.h>

#include "net_world.h"

static void echo(struct http_request *req, const char *body, size_t n)
{
	(void)http_respond(req, 200, NULL, 0, body, n);
}

static void on_piece(struct http_request *req, const char *data, size_t n)
{
	if (!http_response_begun(req))
		(void)http_begin_response(req, 200, NULL, 0, -1);
	if (n > 0)
		(void)http_write(req, data, n);
	else
		(void)http_end(req);
}

static void on_request(struct http_request *req, void *ctx)
{
	char name[64], value[64];
	const char *at = req->query;

	(void)ctx;
	world_open++;
	req->closed = world_closed;
	while (http_query_next(&at, name, sizeof(name), value, sizeof(value)) > 0)
		assert(strlen(name) < sizeof(name) && strlen(value) < sizeof(value));
	assert(http_header(req, "host") || req->minor == 0);
	if (req->path[1] == 'c')
		http_collect(req, 1000, echo);
	else if (req->path[1] == 's')
		http_stream(req, on_piece);
	else if (req->path[1] != 'h')
		(void)http_respond(req, 200, NULL, 0, req->target, strlen(req->target));
}

static int count_field(http_parser *p, const char *at, size_t n)
{
	(void)at;
	(void)n;
	++*(size_t *)p->data;
	return 0;
}

static int stop(http_parser *p)
{
	(void)p;
	return 2; /* it has no body, and nothing follows it */
}

/* Check that a request for this parser is not two requests for another one. */
static void compare(const uint8_t *data, size_t size)
{
	AUTO_FREE char *copy = malloc(size + 1);
	http_parser_settings settings = { .on_header_field = count_field,
					  .on_headers_complete = stop };
	size_t fields = 0, scanned = 0;
	http_parser p = { .data = &fields };
	struct http_head h;
	long len = http_head_find((const char *)data, size, &scanned);

	if (!copy || len <= 0)
		return;
	(void)memcpy(copy, data, (size_t)len);
	if (http_head_request(copy, (size_t)len, &h) != 0)
		return;
	http_parser_init(&p, HTTP_REQUEST);
	(void)http_parser_execute(&p, &settings, (const char *)data, (size_t)len);
	if (p.http_errno == HPE_INVALID_METHOD)
		return; /* the other parser knows only some methods */
	assert(p.http_errno == HPE_OK);
	assert(p.http_major == 1 && p.http_minor == h.minor && fields == h.n_fields);
	assert(strcmp(http_method_str((enum http_method)p.method), h.method) == 0);
	assert(h.chunked == ((p.flags & F_CHUNKED) != 0));
	assert(!h.has_length || p.content_length == h.length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int client;

	if (size < 1 || size > 60000)
		return 0;
	compare(data + 1, size - 1);
	client = world_start(on_request);
	world_send(client, data + 1, size - 1, data[0]);
	world_end(client);
	/*
	 * Answers to HEAD have no body. If the input may contain HEAD, check only the
	 * heads.
	 */
	if (!memmem(data, size, "HEAD", 4))
		(void)world_check_answers(false);
	return 0;
}
