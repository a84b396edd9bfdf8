/* SPDX-License-Identifier: Apache-2.0 */
/* test-network-socks.c - SOCKS 5 clients, in pieces of any size, and invalid ones */
#include "lib/tap.h"
#include "network/socks.h"

/* All replies, one after the other, and the last event. */
struct talk {
	struct socks s;
	enum socks_event event;
	uint8_t replies[64];
	size_t n_replies, used;
};

static void talk(struct talk *t, const char *bytes, size_t n, size_t step)
{
	size_t fed = 0;

	*t = (struct talk){ 0 };
	while (t->event < SOCKS_REQUEST && (fed < n || t->event == SOCKS_REPLY)) {
		size_t part = n - fed < step ? n - fed : step, used = 99;
		AUTO_FREE uint8_t *exact = malloc(part ? part : 1);

		(void)memcpy(exact, bytes + fed, part);
		t->event = socks_feed(&t->s, exact, part, &used);
		OK(used <= part && (t->event != SOCKS_MORE || used == part));
		fed += used;
		(void)memcpy(t->replies + t->n_replies, t->s.reply, t->s.reply_len);
		t->n_replies += t->s.reply_len;
	}
	t->used = fed;
}

#define S(s) s, sizeof(s) - 1

/* A request of each supported kind, after each greeting. */
TEST(requests_are_parsed_in_any_pieces)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *host;
		unsigned port;
		const char *replies;
		size_t n_replies;
		const char *user;
	} cases[] = {
		{ S("\5\1\0\5\1\0\3\10PyPI.org\1\273"), "pypi.org", 443, S("\5\0"), "" },
		{ S("\5\2\2\0\5\1\0\1\300\0\2\1\0\26"), "192.0.2.1", 22, S("\5\0"), "" },
		{ S("\5\3\1\2\3\1\2me\4pass\5\1\0\4 \1\15\270\0\0\0\0\0\0\0\0\0\0\0\1\0\120"),
		  "2001:db8::1", 80, S("\5\2\1\0"), "me" },
		{ S("\5\1\2\1\0\0\5\1\0\3\11"
		    "127.0.0.1\0\120"),
		  "127.0.0.1", 80, S("\5\2\1\0"), "" },
		{ S("\5\1\0\5\1\0\4\0\0\0\0\0\0\0\0\0\0\377\377\177\0\0\1\0\1"),
		  "127.0.0.1", 1, S("\5\0"), "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (size_t step = 1; step <= cases[i].n; step++) {
			char text[HOST_TEXT_SIZE];
			struct talk t;

			talk(&t, cases[i].bytes, cases[i].n, step);
			EQ(t.event, SOCKS_REQUEST);
			EQ(t.used, cases[i].n);
			host_text(&t.s.host, text);
			STREQ(text, cases[i].host);
			EQ(t.s.port, cases[i].port);
			STREQ(t.s.user, cases[i].user);
			EQ(t.n_replies, cases[i].n_replies);
			EQ(memcmp(t.replies, cases[i].replies, t.n_replies), 0);
		}
}

/* The bytes after a request are not for the proxy. */
TEST(bytes_after_a_request_are_not_used)
{
	struct talk t;

	talk(&t, S("\5\1\0\5\1\0\3\1a\0\1GET / HTTP/1.1"), 100);
	EQ(t.event, SOCKS_REQUEST);
	EQ(t.used, 11);
}

TEST(the_longest_credentials_fit)
{
	static char bytes[3 + 3 + 510 + 11];
	struct talk t;

	(void)memset(bytes, 'x', sizeof(bytes));
	(void)memcpy(bytes, "\5\1\2\1\377", 5);
	bytes[5 + 255] = '\377';
	(void)memcpy(bytes + 3 + 3 + 510, "\5\1\0\3\1a\0\1", 8);
	for (size_t step = 1; step < 600; step += 83) {
		talk(&t, bytes, 3 + 3 + 510 + 8, step);
		EQ(t.event, SOCKS_REQUEST);
		EQ(strlen(t.s.user), 255);
		EQ(strlen(t.s.password), 255);
	}
}

TEST(unsupported_requests_are_refused)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *replies;
		size_t n_replies;
		const char *why;
	} cases[] = {
#define FAIL(c) S("\5\0\5" c "\0\1\0\0\0\0\0\0")
		{ S("\4\1\0\120\300\0\2\1\0"), S(""), "it is not SOCKS 5" },
		{ S("GET / HTTP/1.1"), S(""), "it is not SOCKS 5" },
		{ S("\5\0"), S("\5\377"),
		  "the client offers no method of authentication" },
		{ S("\5\2\1\3"), S("\5\377"),
		  "the client offers no method of authentication" },
		{ S("\5\1\2\5"), S("\5\2"), "it is not SOCKS 5" },
		{ S("\5\1\0\4\1"), S("\5\0"), "it is not SOCKS 5" },
		{ S("\5\1\0\5\2\0\3\1a\0\1"), FAIL("\7"), "only CONNECT is supported" },
		{ S("\5\1\0\5\3\0\1\0\0\0\0\0\1"), FAIL("\7"),
		  "only CONNECT is supported" },
		{ S("\5\1\0\5\1\0\2"), FAIL("\10"),
		  "the type of address is not supported" },
		{ S("\5\1\0\5\1\1\3\1a\0\1"), FAIL("\1"), "the request is malformed" },
		{ S("\5\1\0\5\1\0\3\0\0\1"), FAIL("\2"), "the name is malformed" },
		{ S("\5\1\0\5\1\0\3\3a\0b\0\1"), FAIL("\2"), "the name is malformed" },
		{ S("\5\1\0\5\1\0\3\3*.a\0\1"), FAIL("\2"), "the name is malformed" },
		{ S("\5\1\0\5\1\0\3\60"
		    "10.0.0.0/8\0\1") }, /* wrong length: the parser waits for more */
		{ S("\5\1\0\5\1\0\3\12"
		    "10.0.0.0/8\0\1"),
		  FAIL("\2"), "the name is malformed" },
		{ S("\5\1\0\5\1\0\3\6"
		    "0x7f.1\0\1"),
		  FAIL("\2"), "the name is malformed" },
		{ S("\5\1\0\5\1\0\3\1a\0\0"), FAIL("\2"), "the port is 0" },
#undef FAIL
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (size_t step = 1; step <= cases[i].n; step++) {
			struct talk t;

			talk(&t, cases[i].bytes, cases[i].n, step);
			if (!cases[i].why) {
				EQ(t.event, SOCKS_MORE);
				continue;
			}
			if (t.event != SOCKS_REFUSED ||
			    strncmp(t.s.why, cases[i].why, strlen(cases[i].why)) != 0 ||
			    t.n_replies != cases[i].n_replies ||
			    memcmp(t.replies, cases[i].replies, t.n_replies) != 0)
				TAP_FAIL("case %zu, step %zu: %d %s, %zu bytes", i, step,
					 (int)t.event, t.s.why ? t.s.why : "",
					 t.n_replies);
		}
}

TEST(replies_are_written)
{
	struct socks s = { 0 };

	socks_reply(&s, SOCKS_CONNECTION_REFUSED);
	EQ(s.reply_len, 10);
	EQ(memcmp(s.reply, "\5\5\0\1\0\0\0\0\0\0", 10), 0);
}

TEST_MAIN()
