/* SPDX-License-Identifier: Apache-2.0 */
/* test-http2.c - the head of a request of HTTP/2: what is accepted, and what is refused
 */
#include "lib/tap.h"
#include "net/http2_internal.h"

#define FIELDS_MAX 8
#define HEAD_MAX   1000

struct pair {
	const char *name, *value;
};

#define GET                                           \
	{ ":method", "GET" }, { ":scheme", "https" }, \
	{                                             \
		":path", "/a?b"                       \
	}
#define AUTHORITY                      \
	{                              \
		":authority", "host:1" \
	}

static struct http_head head;

/* Return the status of the refusal, or 0; the head's text is in @text. */
static int finish(const struct pair *fields, size_t n, bool ended, struct buf *text)
{
	struct http2_head b;
	int status;

	http2_head_start(&b, HEAD_MAX);
	for (size_t i = 0; i < n && fields[i].name; i++)
		http2_head_add(&b, fields[i].name, strlen(fields[i].name),
			       fields[i].value, strlen(fields[i].value));
	status = http2_head_finish(&b, ended, text, &head);
	http2_head_done(&b);
	return status;
}

static const char *value_of(const char *name)
{
	for (size_t i = 0; i < head.n_fields; i++)
		if (strcmp(head.fields[i].name, name) == 0)
			return head.fields[i].value;
	return NULL;
}

TEST(a_head_becomes_a_request)
{
	const struct pair fields[] = { GET,
				       AUTHORITY,
				       { "cookie", "a=1" },
				       { "x", " y " },
				       { "cookie", "b=2" },
				       { "te", "trailers" } };
	AUTO_BUF struct buf text = BUF_INIT(HEAD_MAX);

	EQ(finish(fields, ARRAY_SIZE(fields), true, &text), 0);
	STREQ(head.method, "GET");
	STREQ(head.target, "/a?b");
	STREQ(value_of("host"), "host:1");
	STREQ(value_of("cookie"), "a=1; b=2");
	STREQ(value_of("x"), "y");
	OK(!head.chunked && head.length == 0);
}

TEST(the_length_of_a_body_is_known_or_not)
{
	const struct pair fields[] = { GET, AUTHORITY, { "content-length", "7" } };
	AUTO_BUF struct buf one = BUF_INIT(HEAD_MAX), two = BUF_INIT(HEAD_MAX),
			    three = BUF_INIT(HEAD_MAX);

	EQ(finish(fields, 4, false, &one), 0);
	OK(head.chunked);
	EQ(finish(fields, 5, false, &two), 0);
	OK(!head.chunked && head.length == 7);
	EQ(finish(fields, 5, true, &three), 400);
}

TEST(malformed_heads_are_refused)
{
	static const struct {
		struct pair fields[FIELDS_MAX];
		int status;
	} cases[] = {
		{ { GET, AUTHORITY }, 0 },
		{ { GET, { "host", "a" } }, 0 },
		{ { GET, AUTHORITY, { "host", "host:1" } }, 0 },
		{ { GET }, 400 },
		{ { GET, AUTHORITY, { "host", "other" } }, 400 },
		{ { GET, { "host", "a" }, { "host", "a" } }, 400 },
		{ { GET, { ":authority", "u@a" } }, 400 },
		{ { GET, AUTHORITY, { ":path", "/" } }, 400 },
		{ { GET, AUTHORITY, { ":status", "200" } }, 400 },
		{ { { ":scheme", "https" }, { ":path", "/" }, AUTHORITY }, 400 },
		{ { { ":method", "GET" }, { ":path", "/" }, AUTHORITY }, 400 },
		{ { { ":method", "GET" }, { ":scheme", "https" }, AUTHORITY }, 400 },
		{ { { ":method", "A B" },
		    { ":scheme", "s" },
		    { ":path", "/" },
		    AUTHORITY },
		  400 },
		{ { { ":method", "GET" },
		    { ":scheme", "s" },
		    { ":path", "*" },
		    AUTHORITY },
		  400 },
		{ { { ":method", "OPTIONS" },
		    { ":scheme", "s" },
		    { ":path", "*" },
		    AUTHORITY },
		  0 },
		{ { { ":method", "GET" },
		    { ":scheme", "s" },
		    { ":path", "http://a/" },
		    AUTHORITY },
		  400 },
		{ { { ":method", "GET" },
		    { ":scheme", "s" },
		    { ":path", "/ HTTP/1.1" },
		    AUTHORITY },
		  400 },
		{ { { ":method", "GET" },
		    { ":scheme", "s" },
		    { ":path", "/\r\na: b" },
		    AUTHORITY },
		  400 },
		{ { GET, AUTHORITY, { "X", "y" } }, 400 },
		{ { GET, AUTHORITY, { "x y", "z" } }, 400 },
		{ { GET, AUTHORITY, { "x", "a\nb" } }, 400 },
		{ { GET, AUTHORITY, { "connection", "close" } }, 400 },
		{ { GET, AUTHORITY, { "transfer-encoding", "chunked" } }, 400 },
		{ { GET, AUTHORITY, { "te", "gzip" } }, 400 },
		{ { GET, AUTHORITY, { "authorization", "a" }, { "authorization", "b" } },
		  400 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_BUF struct buf text = BUF_INIT(HEAD_MAX);

		int status = finish(cases[i].fields, FIELDS_MAX, true, &text);

		if (status != cases[i].status)
			TAP_FAIL("case %zu: %d, not %d", i, status, cases[i].status);
	}
}

TEST(bytes_behind_a_nul_are_refused)
{
	AUTO_BUF struct buf text = BUF_INIT(HEAD_MAX);
	struct http2_head b;

	http2_head_start(&b, HEAD_MAX);
	http2_head_add(&b, "x", 1, "a\0b", 3);
	EQ(http2_head_finish(&b, true, &text, &head), 400);
	http2_head_done(&b);
}

TEST(a_head_has_a_maximum_size)
{
	char value[HEAD_MAX];
	const struct pair fields[] = { GET, AUTHORITY, { "x", value } };

	(void)memset(value, 'v', sizeof(value));
	for (size_t n = HEAD_MAX - 120; n < HEAD_MAX; n++) {
		AUTO_BUF struct buf text = BUF_INIT(HEAD_MAX + 64);
		int status;

		value[n] = '\0';
		status = finish(fields, ARRAY_SIZE(fields), true, &text);
		value[n] = 'v';
		if (n == HEAD_MAX - 120)
			EQ(status, 0);
		if (n == HEAD_MAX - 1)
			EQ(status, 431);
		OK(status == 0 || status == 431);
	}
}

TEST_MAIN()
