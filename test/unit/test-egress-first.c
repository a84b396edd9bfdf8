/* SPDX-License-Identifier: Apache-2.0 */
/* test-egress-first.c - the first bytes of a connection: TLS, HTTP or another protocol */
#include "egress/first.h"

#include "lib/tap.h"

static enum first_kind kind_of(const char *text)
{
	return first_classify(text, strlen(text), false);
}

TEST(http_is_a_line_with_a_version)
{
	EQ(kind_of("GET / HTTP/1.1\r\nHost: a\r\n"), FIRST_HTTP);
	EQ(kind_of("GET / HTTP/1.0\n"), FIRST_HTTP);
	EQ(kind_of("OPTIONS * HTTP/1.1\r\n"), FIRST_HTTP);
	EQ(kind_of("PURGE http://a.example/ HTTP/1.1\r\n"), FIRST_HTTP);
	EQ(kind_of("GET /\r\n"), FIRST_OTHER);
	EQ(kind_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), FIRST_OTHER);
	EQ(kind_of("EHLO example.com\r\n"), FIRST_OTHER);
	EQ(kind_of("PING\r\n"), FIRST_OTHER);
	EQ(kind_of("get / HTTP/1.1\r\n"), FIRST_OTHER);
	EQ(kind_of("SSH-2.0-OpenSSH\r\n"), FIRST_OTHER);
}

TEST(whitespace_does_not_hide_a_request)
{
	static const char *const odd[] = {
		" GET / HTTP/1.1\r\n",     "\tGET / HTTP/1.1\r\n",
		"\r\n GET / HTTP/1.1\r\n", "\r\n\r\nGET / HTTP/1.1\r\n",
		"\v\fGET / HTTP/1.1\r\n",
	};

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		for (size_t n = 0; n < strlen(odd[i]); n++)
			EQ(first_classify(odd[i], n, false), FIRST_MORE);
		EQ(kind_of(odd[i]), FIRST_ODD);
	}
	EQ(kind_of("\r\nGET / HTTP/1.1\r\n"), FIRST_HTTP);
	EQ(kind_of("\nGET / HTTP/1.1\r\n"), FIRST_HTTP);
	/* Other protocols may begin with them. */
	EQ(kind_of(" hello"), FIRST_OTHER);
	EQ(kind_of("\r\n\r\n\x01"), FIRST_OTHER);
}

TEST(every_prefix_of_http_needs_more)
{
	static const char line[] = "DELETE /a/b?c HTTP/1.1\r\n";

	for (size_t n = 0; n < sizeof(line) - 1; n++)
		EQ(first_classify(line, n, false), FIRST_MORE);
	EQ(first_classify(line, sizeof(line) - 1, false), FIRST_HTTP);
}

TEST(a_line_without_an_end_is_not_http)
{
	static char line[FIRST_LINE_MAX];

	(void)memset(line, 'a', sizeof(line));
	(void)memcpy(line, "GET /", 5);
	EQ(first_classify(line, sizeof(line) - 1, false), FIRST_MORE);
	EQ(first_classify(line, sizeof(line), false), FIRST_OTHER);
}

TEST(tls_is_a_handshake_record)
{
	EQ(first_classify("\x16\x03\x01", 3, false), FIRST_TLS);
	EQ(first_classify("\x16\x03\x03\x02\x00\x01", 6, false), FIRST_TLS);
	EQ(first_classify("\x16\x03", 2, false), FIRST_MORE);
	EQ(first_classify("\x16", 1, false), FIRST_MORE);
	EQ(first_classify("\x16\x02", 2, false), FIRST_OTHER);
	EQ(first_classify("\x16\x03\x09", 3, false), FIRST_OTHER);
	EQ(first_classify("\x80\x2e\x01\x03\x01", 5, false), FIRST_OTHER);
	EQ(first_classify("\0\0", 2, false), FIRST_OTHER);
}

static enum first_kind wary(const char *text)
{
	return first_classify(text, strlen(text), true);
}

TEST(lenient_forms_are_odd_if_a_name_is_denied)
{
	static const char *const odd[] = {
		" GET / HTTP/1.1\r\n",
		"\r\n GET / HTTP/1.1\r\n",
		"\tGET / HTTP/1.1\r\n",
		"\v\fGET / HTTP/1.1\r\n",
		"\r\n\r\nGET / HTTP/1.1\r\n",
		"\n\n\nGET / HTTP/1.1\r\n",
		"get / HTTP/1.1\r\n",
		"GET\t/ HTTP/1.1\r\n",
		"GET  / HTTP/1.1\r\n",
		"GET / http/1.1\r\n",
		"GET x HTTP/1.1\r\n",
		"GET / HTTP/1.1 \r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\n",
		"\r\n\r\n\x01\r\nQUIT\n",       /* the same request in another form */
		"\x15\x03\x01\x01\x02\x01\x01", /* an alert */
		"\x14\x03\x01\x01\x01\x01",
		"\x80\x2e\x01\x03\x01", /* SSL 2 */
		"\x16\x03\x09",
	};

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		EQ(wary(odd[i]), FIRST_ODD);
}

TEST(a_wary_caller_still_gets_http_tls_and_other_protocols)
{
	EQ(wary("GET / HTTP/1.1\r\nHost: a\r\n"), FIRST_HTTP);
	EQ(wary("\r\nGET / HTTP/1.1\r\n"), FIRST_HTTP);
	EQ(wary("\nGET / HTTP/1.1\r\n"), FIRST_HTTP);
	EQ(wary("\x16\x03\x01"), FIRST_TLS);
	EQ(wary("SSH-2.0-OpenSSH\r\n"), FIRST_OTHER);
	EQ(wary("EHLO example.com\r\n"), FIRST_OTHER);
	EQ(wary("GET /\r\n"), FIRST_OTHER);
	EQ(wary("get key\r\n"), FIRST_OTHER);
	EQ(first_classify("\0\0\0\x08\x04", 5, true), FIRST_OTHER);
	EQ(first_classify("\x16\x01", 2, true), FIRST_OTHER);
}

TEST(a_wary_caller_waits_for_a_line)
{
	EQ(wary("\r\n"), FIRST_MORE);
	EQ(wary("  "), FIRST_MORE);
	EQ(wary("get / HT"), FIRST_MORE);
	EQ(wary("SSH-2.0"), FIRST_MORE);
	EQ(wary("\x80\x2e"), FIRST_MORE);
	EQ(wary("\x15"), FIRST_MORE);
}

TEST_MAIN()
