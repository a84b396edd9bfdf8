/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-network-http.c - the requests of a connection, in pieces of any size; their host
 * names agree; ambiguous framing is refused
 */
#include "lib/tap.h"
#include "network/request_flow.h"

/* The kind of a connection: to a proxy, or to a host. */
struct origin {
	const char *host; /* NULL: the connection is to a proxy */
	uint16_t port;
	bool tls;
};

static const struct origin proxy = { 0 };
static const struct origin plain = { "a.example", 80, false };
static const struct origin other_port = { "a.example", 8080, false };
static const struct origin tls = { "a.example", 443, true };
static const struct origin by_address = { "192.0.2.1", 80, false };

static void log_request(const struct request_flow *f, struct buf *out)
{
	char host[HOST_TEXT_SIZE];

	host_text(&f->request.host, host);
	if (f->connect)
		buf_printf(out, "[CONNECT %s:%u]", host, f->request.port);
	else
		buf_printf(out, "[%s%s %s %s:%u %s]",
			   f->websocket ? "websocket over " : "",
			   f->request.protocol == RULE_HTTPS ? "https" : "http",
			   f->request.method, host, f->request.port,
			   f->request.path ? f->request.path : "?");
}

/*
 * Write everything that is reported as text: "[http GET a.example:80 /](body)." Pieces of
 * a body are joined, so that their sizes do not matter.
 */
static void run(const struct origin *from, const char *text, size_t n, size_t step,
		struct buf *out)
{
	AUTO_REQUEST_FLOW struct request_flow f = REQUEST_FLOW_INIT;
	char name[HOST_TEXT_SIZE];
	struct warren_error err;
	struct host h;
	enum flow_event event = FLOW_MORE;
	size_t fed = 0;

	if (from->host) {
		EQ(host_parse_single(from->host, strlen(from->host), name, &h, &err), 0);
		f.host = &h;
		f.port = from->port;
		f.tls = from->tls;
	}
	while (event != FLOW_REFUSED && !f.connect && (fed < n || event != FLOW_MORE)) {
		size_t part = n - fed < step ? n - fed : step, used;
		AUTO_FREE char *exact = malloc(part ? part : 1);

		(void)memcpy(exact, text + fed, part);
		used = request_flow_feed(&f, exact, part, &event);
		OK(used <= part && (event != FLOW_MORE || used == part));
		fed += used;
		if (event == FLOW_HEAD)
			log_request(&f, out);
		else if (event == FLOW_BODY)
			buf_add(out, f.piece, f.piece_len);
		else if (event == FLOW_END)
			buf_puts(out, ".");
		else if (event == FLOW_REFUSED)
			buf_printf(out, "<%d %s>", f.status, f.why);
	}
	if (f.connect)
		buf_printf(out, "+%zu", n - fed);
}

/* Check the input in one piece and in small ones. */
static void check(const struct origin *from, const char *text, const char *want)
{
	static const size_t steps[] = { 1, 2, 3, 7, 100, 100000 };

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		AUTO_BUF struct buf out = BUF_INIT(1U << 20);

		buf_puts(&out, "");
		run(from, text, strlen(text), steps[i], &out);
		STREQ(out.data, want);
	}
}

#define HOST "Host: a.example\r\n"

TEST(requests_of_a_connection_are_parsed_in_order)
{
	check(&plain,
	      "GET / HTTP/1.1\r\n" HOST "\r\n"
	      "POST /b?c HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nabcde"
	      "PUT /d HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
	      "3\r\nxyz\r\n1;e=1\r\nw\r\n0\r\nT: 1\r\n\r\n"
	      "DELETE /../e HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n",
	      "[http GET a.example:80 /].[http POST a.example:80 /b]abcde."
	      "[http PUT a.example:80 /d]xyzw.[http DELETE a.example:80 ?].");
	check(&tls, "GET /x HTTP/1.1\r\n" HOST "\r\n", "[https GET a.example:443 /x].");
	check(&plain, "GET /x HTTP/1.0\r\n\r\n", "[http GET a.example:80 /x].");
	check(&plain, "OPTIONS * HTTP/1.1\r\n" HOST "\r\n",
	      "[http OPTIONS a.example:80 ?].");
	/* Incomplete requests are not reported. */
	check(&plain, "GET / HTTP/1.1\r\n" HOST, "");
	check(&plain, "PUT / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nabc",
	      "[http PUT a.example:80 /]abc");
}

TEST(each_request_must_name_the_host_of_the_connection)
{
	static const char other[] = "[http GET a.example:80 /]."
				    "<421 the header Host names another host>";

	check(&plain,
	      "GET / HTTP/1.1\r\n" HOST "\r\nGET / HTTP/1.1\r\nHost: b.example\r\n\r\n",
	      other);
	check(&plain,
	      "GET / HTTP/1.1\r\n" HOST "\r\nGET / HTTP/1.1\r\nHost: a.example.\r\n\r\n",
	      other);
	check(&plain,
	      "GET / HTTP/1.1\r\n" HOST
	      "\r\nGET / HTTP/1.1\r\nHost: a.example:81\r\n\r\n",
	      other);
	check(&plain,
	      "GET / HTTP/1.1\r\n" HOST "\r\nGET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n",
	      other);
	check(&plain, "GET / HTTP/1.1\r\nHost: A.Example:80\r\n\r\n",
	      "[http GET a.example:80 /].");
	check(&other_port, "GET / HTTP/1.1\r\nHost: a.example:8080\r\n\r\n",
	      "[http GET a.example:8080 /].");
	check(&other_port, "GET / HTTP/1.1\r\nHost: a.example:80\r\n\r\n",
	      "<421 the header Host names another host>");
	check(&by_address, "GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n",
	      "[http GET 192.0.2.1:80 /].");
	check(&by_address, "GET / HTTP/1.1\r\n" HOST "\r\n",
	      "<421 the header Host names another host>");
	check(&by_address, "GET / HTTP/1.1\r\nHost: 192.0.02.1\r\n\r\n",
	      "<421 the header Host names another host>");
	check(&plain, "GET http://a.example/x HTTP/1.1\r\n" HOST "\r\n",
	      "[http GET a.example:80 /x].");
	check(&plain, "GET http://b.example/x HTTP/1.1\r\n" HOST "\r\n",
	      "<421 the request target names another host>");
	check(&plain, "GET https://a.example/x HTTP/1.1\r\n" HOST "\r\n",
	      "<421 the request target names another host>");
	check(&tls, "GET https://a.example/x HTTP/1.1\r\n" HOST "\r\n",
	      "[https GET a.example:443 /x].");
	check(&plain, "CONNECT b.example:443 HTTP/1.1\r\nHost: b.example\r\n\r\n",
	      "<405 CONNECT is only for a proxy>");
}

TEST(a_proxy_learns_the_host_from_the_target)
{
	check(&proxy,
	      "GET http://A.example/x?y HTTP/1.1\r\n" HOST "\r\n"
	      "GET http://b.example:8080 HTTP/1.1\r\nHost: b.example:8080\r\n\r\n"
	      "GET http://[2001:db8::1]:81/ HTTP/1.0\r\n\r\n",
	      "[http GET a.example:80 /x].[http GET b.example:8080 /]."
	      "[http GET 2001:db8::1:81 /].");
	check(&proxy, "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\nTLS",
	      "[CONNECT a.example:443]+3");
	check(&proxy, "CONNECT [::1]:22 HTTP/1.0\r\n\r\n", "[CONNECT ::1:22]+0");
	check(&proxy, "CONNECT a.example HTTP/1.1\r\n" HOST "\r\n",
	      "<400 CONNECT needs a port>");
	check(&proxy, "CONNECT / HTTP/1.1\r\n" HOST "\r\n",
	      "<400 the target of CONNECT is not a host>");
	check(&proxy, "CONNECT http://a.example:1/ HTTP/1.1\r\n" HOST "\r\n",
	      "<400 the target of CONNECT is not a host>");
	check(&proxy, "CONNECT u@a.example:1 HTTP/1.1\r\n" HOST "\r\n",
	      "<400 the target of CONNECT is not a host>");
	check(&proxy, "CONNECT a.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n",
	      "<421 the header Host names another host>");
	check(&proxy,
	      "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nContent-Length: 1\r\n\r\nx",
	      "<400 CONNECT has no body>");
	check(&proxy, "GET / HTTP/1.1\r\n" HOST "\r\n",
	      "<400 a proxy needs an absolute target>");
	check(&proxy, "GET a.example:80 HTTP/1.1\r\n" HOST "\r\n",
	      "<400 the request target is not a path>");
	check(&proxy, "GET https://a.example/ HTTP/1.1\r\n" HOST "\r\n",
	      "<400 https needs CONNECT>");
	check(&proxy, "GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n",
	      "<421 the header Host names another host>");
	check(&proxy, "GET http://a%2eexample/ HTTP/1.1\r\nHost: a%2eexample\r\n\r\n",
	      "<400 the host of the request target is malformed>");
	check(&proxy, "GET http://0x7f.1/ HTTP/1.1\r\nHost: 0x7f.1\r\n\r\n",
	      "<400 the host of the request target is malformed>");
	check(&proxy, "GET http://*.a/ HTTP/1.1\r\nHost: *.a\r\n\r\n",
	      "<400 the host of the request target is malformed>");
}

/* A second request follows one that some servers would end at another position. */
TEST(smuggling_is_refused)
{
	static const char *const heads[] = {
		"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
		"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
		"Content-Length: 4\r\nContent-Length: 5\r\n",
		"Content-Length: 4\r\nContent-Length: 4\r\n",
		"Content-Length: 4, 4\r\n",
		"Content-Length: +4\r\n",
		"Content-Length: 0x4\r\n",
		"Content-Length: \r\n",
		"Content-Length: 99999999999999999999\r\n",
		"Content-Length : 4\r\n",
		" Content-Length: 4\r\n",
		"X: y\r\n Content-Length: 4\r\n",
		"Transfer-Encoding: chunked, identity\r\n",
		"Transfer-Encoding: xchunked\r\n",
		"Transfer-Encoding: \vchunked\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		"Transfer-Encoding : chunked\r\n",
		"X: y\nTransfer-Encoding: chunked\r\n",
		"X: y\rTransfer-Encoding: chunked\r\n",
		"Host: a.example\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		AUTO_BUF struct buf text = BUF_INIT(4096), out = BUF_INIT(4096);

		buf_printf(&text, "POST / HTTP/1.1\r\n" HOST "%s\r\n0\r\n\r\n", heads[i]);
		buf_puts(&text, "GET /hidden HTTP/1.1\r\n" HOST "\r\n");
		run(&plain, text.data, text.len, 100000, &out);
		if (!out.data || out.data[0] != '<')
			TAP_FAIL("%s: %s", heads[i], out.data);
	}
	/* Sizes and ends of chunks must be exact. */
	check(&plain,
	      "POST / HTTP/1.1\r\n" HOST
	      "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
	      "[http POST a.example:80 /]<400 a chunk of the body is malformed>");
	check(&plain,
	      "POST / HTTP/1.1\r\n" HOST
	      "Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n",
	      "[http POST a.example:80 /]<400 a chunk of the body is malformed>");
	check(&plain,
	      "POST / HTTP/1.1\r\n" HOST
	      "Transfer-Encoding: chunked\r\n\r\n3\r\nabcX\r\n0\r\n\r\n",
	      "[http POST a.example:80 /]abc<400 a chunk of the body is malformed>");
	check(&plain, "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
	      "<400 Transfer-Encoding in an HTTP/1.0 message>");
	check(&plain, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	      "<505 only HTTP/1.0 and HTTP/1.1 are supported>");
	check(&plain, "\26\3\1", "<400 it is not a request>");
	check(&plain, "GET / HTTP/1.1\r\n\r\n", "<400 Host is missing>");
}

TEST(only_upgrades_to_websocket_are_allowed)
{
	static const char no[] = "[http GET a.example:80 /].";

	check(&plain,
	      "GET / HTTP/1.1\r\n" HOST
	      "Connection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n",
	      "[websocket over http GET a.example:80 /].");
	check(&plain, "GET / HTTP/1.1\r\n" HOST "Upgrade: websocket\r\n\r\n", no);
	check(&plain, "GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\n\r\n", no);
	check(&plain,
	      "GET / HTTP/1.1\r\n" HOST "Connection: upgrade, HTTP2-Settings\r\n"
	      "Upgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n",
	      no);
	check(&plain,
	      "GET / HTTP/1.1\r\n" HOST
	      "Connection: upgrade\r\nUpgrade: websocket, h2c\r\n\r\n",
	      no);
	check(&plain,
	      "GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: websocket\r\n"
	      "Upgrade: h2c\r\n\r\n",
	      no);
	/* A server may take the body for another request. */
	check(&plain,
	      "GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: websocket\r\n"
	      "Content-Length: 1\r\n\r\nx",
	      "[http GET a.example:80 /]x.");
}

TEST(a_header_that_names_another_path_makes_the_path_ambiguous)
{
	static const char *const names[] = { "X-Original-URL", "x-rewrite-url",
					     "X_Original_Url", "X-Rewrite_URL" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char text[256];

		(void)snprintf(text, sizeof(text),
			       "GET /ok HTTP/1.1\r\n" HOST "%s: /other\r\n\r\n",
			       names[i]);
		check(&plain, text, "[http GET a.example:80 ?].");
	}
	check(&plain, "GET /ok HTTP/1.1\r\n" HOST "X-Original: /other\r\n\r\n",
	      "[http GET a.example:80 /ok].");
}

TEST(a_head_has_a_maximum_size)
{
	static const char start[] = "GET / HTTP/1.1\r\n" HOST "X: ";
	static char text[REQUEST_HEAD_MAX + 200];

	for (size_t len = REQUEST_HEAD_MAX; len <= REQUEST_HEAD_MAX + 1; len++)
		for (size_t step = 1; step < 100000; step = step * 40 + 1) {
			AUTO_BUF struct buf out = BUF_INIT(4096);

			(void)memset(text, 'x', sizeof(text));
			(void)memcpy(text, start, sizeof(start) - 1);
			(void)memcpy(text + len - 4, "\r\n\r\n", 4);
			run(&plain, text, len, step, &out);
			STREQ(out.data, len > REQUEST_HEAD_MAX
						? "<431 the header is too long>"
						: "[http GET a.example:80 /].");
		}
}

TEST_MAIN()
