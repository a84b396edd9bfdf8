/* SPDX-License-Identifier: Apache-2.0 */
/* test-egress-first.c - the first bytes of a connection: TLS, HTTP or another protocol */
#include "egress/first.h"

#include "lib/tap.h"

static enum first_kind kind_of(const char *text)
{
	return first_classify(text, strlen(text));
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
	EQ(kind_of(" GET / HTTP/1.1\r\n"), FIRST_OTHER);
	EQ(kind_of("\r\nGET / HTTP/1.1\r\n"), FIRST_OTHER);
	EQ(kind_of("SSH-2.0-OpenSSH\r\n"), FIRST_OTHER);
}

TEST(every_prefix_of_http_needs_more)
{
	static const char line[] = "DELETE /a/b?c HTTP/1.1\r\n";

	for (size_t n = 0; n < sizeof(line) - 1; n++)
		EQ(first_classify(line, n), FIRST_MORE);
	EQ(first_classify(line, sizeof(line) - 1), FIRST_HTTP);
}

TEST(a_line_without_an_end_is_not_http)
{
	static char line[FIRST_LINE_MAX];

	(void)memset(line, 'a', sizeof(line));
	(void)memcpy(line, "GET /", 5);
	EQ(first_classify(line, sizeof(line) - 1), FIRST_MORE);
	EQ(first_classify(line, sizeof(line)), FIRST_OTHER);
}

TEST(tls_is_a_handshake_record)
{
	EQ(first_classify("\x16\x03\x01", 3), FIRST_TLS);
	EQ(first_classify("\x16\x03\x03\x02\x00\x01", 6), FIRST_TLS);
	EQ(first_classify("\x16\x03", 2), FIRST_MORE);
	EQ(first_classify("\x16", 1), FIRST_MORE);
	EQ(first_classify("\x16\x02", 2), FIRST_OTHER);
	EQ(first_classify("\x16\x03\x09", 3), FIRST_OTHER);
	EQ(first_classify("\x80\x2e\x01\x03\x01", 5), FIRST_OTHER);
	EQ(first_classify("\0\0", 2), FIRST_OTHER);
}

TEST_MAIN()
