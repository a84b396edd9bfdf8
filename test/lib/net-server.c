/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net-server.c - a server for tests, with a handler for each feature of src/net
 *
 *	net-server [OPTION VALUE]...
 *
 * Listens on loopback, prints "port N" (and "tls N"), and serves until its input ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/net-server.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/percent.h"
#include "net/http.h"
#include "net/loop.h"
#include "net/tls.h"

struct net_loop *the_loop;
struct http_server *the_server;

static struct tls *the_tls;
static const char *cert_path, *key_path;
struct counts counts;

static const struct http_header text_type = { "Content-Type", "text/plain" };

uint64_t query_u64(const struct http_request *req, const char *name, uint64_t otherwise)
{
	const char *at = req->query;
	char key[64], value[256];
	struct warren_error err;
	uint64_t v = 0;

	while (http_query_next(&at, key, sizeof(key), value, sizeof(value)) > 0)
		if (strcmp(key, name) == 0 && parse_u64(value, UINT64_MAX, &v, &err) >= 0)
			return v;
	return otherwise;
}

void count_closed(struct http_request *req, int why)
{
	(void)req;
	counts.open--;
	if (why == 0)
		counts.answered++;
	else
		counts.lost++;
	counts.last_why = why;
}

/* ------------------------------------------------------------------ immediate answers */

static void hello(struct http_request *req)
{
	(void)http_respond(req, 200, &text_type, 1, "hello\n", 6);
}

static void stats(struct http_request *req)
{
	AUTO_BUF struct buf b = BUF_INIT(4096);
	struct json j = { .out = &b };

	json_open(&j, NULL, '{');
	json_int(&j, "open", counts.open);
	json_int(&j, "answered", counts.answered);
	json_int(&j, "lost", counts.lost);
	json_int(&j, "last_why", counts.last_why);
	json_u64(&j, "connections", http_server_count(the_server));
	json_u64(&j, "received", counts.received);
	json_close(&j, '}');
	(void)http_respond(req, 200, NULL, 0, b.data, b.len);
}

static void about(struct http_request *req)
{
	AUTO_BUF struct buf b = BUF_INIT(1 << 20);
	struct json j = { .out = &b };
	char path[4096], peer[80];

	http_peer_text(req->peer, peer, sizeof(peer));
	json_open(&j, NULL, '{');
	json_str(&j, "method", req->method);
	json_str(&j, "path", req->path);
	json_str(&j, "query", req->query);
	json_str(&j, "peer", peer);
	json_bool(&j, "tls", req->peer->tls);
	json_int(&j, "version", req->major * 10 + req->minor);
	json_int(&j, "length", req->length);
	json_int(&j, "decoded",
		 percent_decode(req->path, strlen(req->path), false, path, sizeof(path)));
	json_str(&j, "test", http_header(req, "x-test"));
	json_str(&j, "host", http_header(req, "HOST"));
	json_str(&j, "id", http_request_id(req));
	json_open(&j, "headers", '{');
	for (size_t i = 0; i < req->n_headers; i++)
		json_str(&j, req->headers[i].name, req->headers[i].value);
	json_close(&j, '}');
	json_close(&j, '}');
	(void)http_respond(req, 200, NULL, 0, b.data, b.len);
}

/* Answer with a header that has the text of the query, including line breaks. */
static void inject(struct http_request *req)
{
	char value[256] = "";
	struct http_header h = { "X-Out", value };

	(void)percent_decode(req->query ? req->query : "",
			     strlen(req->query ? req->query : ""), false, value,
			     sizeof(value));
	(void)http_respond(req, 200, &h, 1, "", 0);
}

static void nothing(struct http_request *req)
{
	(void)http_respond(req, 204, NULL, 0, NULL, 0);
}

static void file(struct http_request *req)
{
	char path[4096];
	const char *at = strchr(req->path + 1, '/');
	int fd = -1;
	struct stat st;
	uint64_t off = query_u64(req, "off", 0);

	if (at && percent_decode(at, strlen(at), false, path, sizeof(path)) > 0)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0) {
		(void)http_refuse(req, 404, NULL, "no such file");
		return;
	}
	(void)http_respond_file(req, 200, &text_type, 1, fd, off,
				query_u64(req, "n", (uint64_t)st.st_size - off));
}

/* ------------------------------------------------------------------ delayed answers */

struct later {
	struct loop_timer *timer;
	struct http_request *req;
};

static void later_closed(struct http_request *req, int why)
{
	struct later *l = req->user;

	(void)loop_timer_free(l->timer);
	free(l);
	count_closed(req, why);
}

static void later_due(void *ctx)
{
	hello(((struct later *)ctx)->req);
}

static void wait_then_hello(struct http_request *req)
{
	struct later *l = calloc(1, sizeof(*l));

	if (!l || loop_timer_new(the_loop, later_due, l, &l->timer) < 0)
		abort();
	l->req = req;
	req->user = l;
	req->closed = later_closed;
	loop_timer_set(l->timer, query_u64(req, "ms", 100));
}

static void cut_due(void *ctx)
{
	http_cut(((struct later *)ctx)->req, 401, "the token was revoked");
}

/* Cut the request off after a while, with or without the beginning of an answer. */
static void cut(struct http_request *req)
{
	struct later *l = calloc(1, sizeof(*l));

	if (!l || loop_timer_new(the_loop, cut_due, l, &l->timer) < 0)
		abort();
	l->req = req;
	req->user = l;
	req->closed = later_closed;
	if (query_u64(req, "begin", 0)) {
		(void)http_begin_response(req, 200, NULL, 0, -1);
		(void)http_write(req, "first\n", 6);
	}
	loop_timer_set(l->timer, query_u64(req, "ms", 100));
}

static void hang(struct http_request *req)
{
	(void)req;
}

static void events(struct http_request *req)
{
	(void)http_begin_response(req, 200, &text_type, 1, -1);
	(void)http_write(req, "first\n", 6);
}

/* ------------------------------------------------------------------ streamed answers */

struct source {
	uint64_t left;
	bool careless; /* does not wait for the client */
};

static void source_closed(struct http_request *req, int why)
{
	free(req->user);
	count_closed(req, why);
}

static void pour(struct http_request *req)
{
	static char piece[64 << 10];
	struct source *s = req->user;

	if (!piece[1])
		for (size_t i = 0; i < sizeof(piece); i++)
			piece[i] = (char)('a' + i % 26);
	while (s->left > 0) {
		size_t n = s->left < sizeof(piece) ? (size_t)s->left : sizeof(piece);
		int r = http_write(req, piece, n);

		if (r < 0)
			return;
		s->left -= n;
		if (r > 0 && !s->careless)
			return;
	}
	(void)http_end(req);
}

static void start_pouring(struct http_request *req, bool sized, bool careless)
{
	struct source *s = calloc(1, sizeof(*s));

	if (!s)
		abort();
	s->left = query_u64(req, "n", 1 << 20);
	s->careless = careless;
	req->user = s;
	req->drained = pour;
	req->closed = source_closed;
	(void)http_begin_response(req, 200, &text_type, 1,
				  sized ? (int64_t)(s->left + query_u64(req, "lie", 0))
					: -1);
	pour(req);
}

static void chunks(struct http_request *req)
{
	start_pouring(req, false, false);
}

static void sized(struct http_request *req)
{
	start_pouring(req, true, false);
}

static void careless(struct http_request *req)
{
	start_pouring(req, false, true);
}

/* ------------------------------------------------------------------ request bodies */

static void echo_back(struct http_request *req, const char *body, size_t n)
{
	(void)http_respond(req, 200, &text_type, 1, body, n);
}

static void echo(struct http_request *req)
{
	http_collect(req, query_u64(req, "max", 1 << 20), echo_back);
}

struct sum {
	EVP_MD_CTX *md;
	uint64_t bytes;
	struct loop_timer *timer; /* a slow reader pauses after each piece */
	struct http_request *req;
	uint64_t ms;
};

static void sum_closed(struct http_request *req, int why)
{
	struct sum *s = req->user;

	(void)loop_timer_free(s->timer);
	EVP_MD_CTX_free(s->md);
	free(s);
	count_closed(req, why);
}

static void sum_piece(struct http_request *req, const char *data, size_t n)
{
	struct sum *s = req->user;
	unsigned char digest[32];
	char text[120];
	int len = 0;

	counts.received += n;
	s->bytes += n;
	if (n > 0) {
		(void)EVP_DigestUpdate(s->md, data, n);
		if (s->timer) {
			http_pause(req);
			loop_timer_set(s->timer, s->ms);
		}
		return;
	}
	(void)EVP_DigestFinal_ex(s->md, digest, NULL);
	len = snprintf(text, sizeof(text), "%" PRIu64 " ", s->bytes);
	for (size_t i = 0; i < sizeof(digest); i++)
		len += snprintf(text + len, sizeof(text) - (size_t)len, "%02x",
				digest[i]);
	(void)http_respond(req, 200, &text_type, 1, text, (size_t)len);
}

static void sum_resume(void *ctx)
{
	http_resume(((struct sum *)ctx)->req);
}

static void sum(struct http_request *req)
{
	struct sum *s = calloc(1, sizeof(*s));

	if (!s)
		abort();
	s->md = EVP_MD_CTX_new();
	s->req = req;
	s->ms = query_u64(req, "pause", 0);
	if (query_u64(req, "slow", 0))
		http_allow_slow_body(req);
	if (!s->md || EVP_DigestInit_ex(s->md, EVP_sha256(), NULL) != 1)
		abort();
	if (s->ms && loop_timer_new(the_loop, sum_resume, s, &s->timer) < 0)
		abort();
	req->user = s;
	req->closed = sum_closed;
	http_stream(req, sum_piece);
}

static void count_piece(struct http_request *req, const char *data, size_t n)
{
	(void)data;
	counts.received += n;
	if (n == 0)
		hello(req);
}

static void sink(struct http_request *req)
{
	http_stream(req, count_piece);
}

/* --------------------------------------------------------------- upgraded connections */

static void raw_piece(struct http_request *req, const char *data, size_t n)
{
	if (n == 0)
		(void)http_end(req);
	else if (http_write(req, data, n) > 0)
		http_pause(req);
}

static void raw(struct http_request *req)
{
	static const struct http_header up = { "Upgrade", "echo" };

	req->drained = http_resume;
	(void)http_upgrade(req, &up, 1, raw_piece);
}

/* ------------------------------------------------------------------ main program */

static const struct {
	const char *path; /* a path, or a prefix that ends in '/' */
	void (*fn)(struct http_request *req);
} routes[] = {
	{ "/about/", about },  { "/careless", careless }, { "/chunks", chunks },
	{ "/cut", cut },       { "/echo", echo },         { "/events", events },
	{ "/file/", file },    { "/hang", hang },         { "/hello", hello },
	{ "/inject", inject }, { "/nothing", nothing },   { "/proxy/", serve_proxy },
	{ "/raw", raw },       { "/sink", sink },         { "/sized", sized },
	{ "/stats", stats },   { "/sum", sum },           { "/wait", wait_then_hello },
	{ "/ws", serve_ws },
};

static void on_request(struct http_request *req, void *ctx)
{
	(void)ctx;
	counts.open++;
	req->closed = count_closed;
	if (http_header(req, "X-Known"))
		http_known(req, true);
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		size_t n = strlen(routes[i].path);

		if (routes[i].path[n - 1] == '/'
			    ? strncmp(req->path, routes[i].path, n) == 0
			    : strcmp(req->path, routes[i].path) == 0) {
			routes[i].fn(req);
			return;
		}
	}
	(void)http_refuse(req, 404, NULL, "there is nothing here");
}

static void on_input(void *ctx, unsigned events)
{
	char line[64];
	ssize_t n = read(STDIN_FILENO, line, sizeof(line));
	struct warren_error err;

	(void)ctx;
	(void)events;
	if (n > 0 && line[0] == 'r' && the_tls) {
		int r = tls_set_files(the_tls, cert_path, key_path, &err);

		(void)printf("reload %d\n", r);
		(void)fflush(stdout);
	} else if (n > 0 && line[0] == 'd') {
		http_server_drain(the_server);
	} else if (n == 0) {
		loop_stop(the_loop);
	}
}

static struct http_options options = { .request = on_request };
static const char *unix_path, *listen_fd;

static const struct {
	const char *name;
	unsigned *number;
	const char **text;
} settings[] = {
	{ "--connections", &options.limits.connections, NULL },
	{ "--reserve", &options.limits.reserve, NULL },
	{ "--header-bytes", &options.limits.header_bytes, NULL },
	{ "--header-ms", &options.limits.header_ms, NULL },
	{ "--idle-ms", &options.limits.idle_ms, NULL },
	{ "--kept-ms", &options.limits.kept_ms, NULL },
	{ "--body-ms", &options.limits.body_ms, NULL },
	{ "--write-ms", &options.limits.write_ms, NULL },
	{ "--half-close-ms", &options.limits.half_close_ms, NULL },
	{ "--bodies", &options.limits.bodies, NULL },
	{ "--cert", NULL, &cert_path },
	{ "--key", NULL, &key_path },
	{ "--unix", NULL, &unix_path },
	{ "--fd", NULL, &listen_fd },
};

static void set(const char *name, const char *value)
{
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		if (strcmp(settings[i].name, name) != 0)
			continue;
		if (settings[i].number)
			*settings[i].number = (unsigned)strtoul(value, NULL, 10);
		else
			*settings[i].text = value;
		return;
	}
	(void)fprintf(stderr, "net-server: no option %s\n", name);
	exit(EXIT_FAILURE);
}

static void check(int r, const struct warren_error *err)
{
	if (r >= 0)
		return;
	(void)fprintf(stderr, "net-server: %s\n", err->msg);
	exit(EXIT_FAILURE);
}

static void listen_on(struct warren_error *err)
{
	uint16_t port = 0;

	check(http_server_listen_tcp(the_server, "127.0.0.1:0", NULL, &port, err), err);
	(void)printf("port %u\n", port);
	if (cert_path) {
		check(tls_new(&the_tls, err), err);
		check(tls_set_files(the_tls, cert_path, key_path, err), err);
		check(http_server_listen_tcp(the_server, "127.0.0.1:0", the_tls, &port,
					     err),
		      err);
		(void)printf("tls %u\n", port);
	}
	if (unix_path)
		check(http_server_listen_unix(the_server, unix_path, 0600, err), err);
	if (listen_fd)
		check(http_server_listen_fd(the_server, (int)strtol(listen_fd, NULL, 10),
					    NULL, err),
		      err);
	(void)printf("ready\n");
	(void)fflush(stdout);
}

int main(int argc, char **argv)
{
	struct loop_watch *input = NULL;
	struct warren_error err;

	for (int i = 1; i + 1 < argc; i += 2)
		set(argv[i], argv[i + 1]);
	(void)signal(SIGPIPE, SIG_IGN);
	check(loop_new(&the_loop, &err), &err);
	check(http_server_new(the_loop, &options, &the_server, &err), &err);
	listen_on(&err);
	if (loop_watch(the_loop, STDIN_FILENO, LOOP_READ, on_input, NULL, &input) < 0)
		return EXIT_FAILURE;
	loop_run(the_loop);
	(void)loop_watch_free(input);
	the_server = http_server_free(the_server);
	the_loop = loop_free(the_loop);
	the_tls = tls_free(the_tls);
	return counts.open == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
