/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-network-dns.c - queries are parsed or refused, and answers are read by the C
 * library's own parser
 */
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <errno.h>

#include "lib/tap.h"
#include "network/dns.h"

/* A query in wire format: "\1a\1b" is a name without its terminator. */
struct wire {
	uint8_t data[1024];
	size_t n;
};

static void put(struct wire *w, const void *bytes, size_t n)
{
	OK(w->n + n <= sizeof(w->data));
	(void)memcpy(w->data + w->n, bytes, n);
	w->n += n;
}

#define PUT(w, s) put(w, s, sizeof(s) - 1)

static void put16(struct wire *w, unsigned v)
{
	put(w, (uint8_t[]){ (uint8_t)(v >> 8), (uint8_t)v }, 2);
}

static void put_header(struct wire *w, unsigned flags, unsigned questions,
		       unsigned answers, unsigned additional)
{
	w->n = 0;
	put16(w, 0x1234);
	put16(w, flags);
	put16(w, questions);
	put16(w, answers);
	put16(w, 0);
	put16(w, additional);
}

static void put_opt(struct wire *w, unsigned size)
{
	put(w, "", 1);
	put16(w, 41);
	put16(w, size);
	put16(w, 0);
	put16(w, 0);
	put16(w, 0);
}

static void ask_name(struct wire *w, const char *name, size_t n, unsigned type)
{
	put_header(w, 0x0100, 1, 0, 0);
	put(w, name, n);
	put(w, "", 1);
	put16(w, type);
	put16(w, 1);
}

#define ASK(w, name, type) ask_name(w, name, sizeof(name) - 1, type)

static void address(const char *text, struct address_net *ret)
{
	char name[HOST_TEXT_SIZE];
	struct warren_error err;
	struct host h;

	EQ(host_parse_single(text, strlen(text), name, &h, &err), 0);
	*ret = h.net;
}

TEST(a_query_is_parsed)
{
	struct wire w;
	struct dns_query q;

	ASK(&w, "\4PyPI\3org", DNS_A);
	EQ(dns_query_parse(w.data, w.n, &q), DNS_OK);
	EQ(q.id, 0x1234);
	EQ(q.type, DNS_A);
	EQ(q.recursion, true);
	EQ(q.edns, false);
	EQ(q.udp_size, 512);
	STREQ(q.name, "PyPI.org");
	/* A truncated query, or one with an extra byte, is refused. */
	for (size_t n = 0; n < w.n; n++) {
		AUTO_FREE uint8_t *exact = malloc(n ? n : 1);

		(void)memcpy(exact, w.data, n);
		EQ(dns_query_parse(exact, n, &q),
		   n < DNS_HEADER ? -EBADMSG : DNS_FORMERR);
	}
	EQ(dns_query_parse(w.data, w.n + 1, &q), DNS_FORMERR);
}

TEST(edns_says_how_much_fits)
{
	static const struct {
		unsigned says, means;
	} sizes[] = {
		{ 1232, 1232 }, { 512, 512 }, { 100, 512 }, { 0, 512 }, { 65535, 65535 }
	};
	struct wire w;
	struct dns_query q;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		put_header(&w, 0, 1, 0, 1);
		PUT(&w, "\1a\0\0\34\0\1");
		put_opt(&w, sizes[i].says);
		EQ(dns_query_parse(w.data, w.n, &q), DNS_OK);
		EQ(q.edns, true);
		EQ(q.udp_size, sizes[i].means);
		EQ(q.type, DNS_AAAA);
		EQ(q.recursion, false);
	}
	/* Two OPT records are refused. */
	put_opt(&w, 512);
	w.data[11] = 2;
	EQ(dns_query_parse(w.data, w.n, &q), DNS_FORMERR);
}

TEST(ambiguous_names_have_no_text)
{
	struct wire w;
	struct dns_query q;

	ASK(&w, "", DNS_A);
	EQ(dns_query_parse(w.data, w.n, &q), DNS_OK);
	STREQ(q.name, "");
	ASK(&w, "\3a.b\1c", DNS_A);
	EQ(dns_query_parse(w.data, w.n, &q), DNS_OK);
	STREQ(q.name, "");
	ASK(&w, "\1c\3a\0b", DNS_A);
	EQ(dns_query_parse(w.data, w.n, &q), DNS_OK);
	STREQ(q.name, "");
	ASK(&w, "\3a b\1c", DNS_A);
	EQ(dns_query_parse(w.data, w.n, &q), DNS_OK);
	STREQ(q.name, "a b.c");
}

TEST(names_have_a_maximum_length)
{
	struct wire w;
	struct dns_query q;
	char name[260];
	size_t n = 0;

	/* Three labels of 63 bytes and one of 61 have 255 bytes in total, with lengths
	 * and terminator. */
	for (unsigned i = 0; i < 4; i++) {
		size_t len = i < 3 ? 63 : 61;

		name[n++] = (char)len;
		(void)memset(name + n, 'a', len);
		n += len;
	}
	ask_name(&w, name, n, DNS_A);
	EQ(dns_query_parse(w.data, w.n, &q), DNS_OK);
	EQ(strlen(q.name), 253);
	name[192] = 62;
	name[n++] = 'a';
	ask_name(&w, name, n, DNS_A);
	EQ(dns_query_parse(w.data, w.n, &q), DNS_FORMERR);
	/* A label of 64 bytes is invalid: the longest has 63, and a larger value is not a
	 * length. */
	name[0] = 63;
	(void)memset(name + 1, 'a', 64);
	ask_name(&w, name, 64, DNS_A);
	EQ(dns_query_parse(w.data, w.n, &q), DNS_OK);
	name[0] = 64;
	ask_name(&w, name, 65, DNS_A);
	EQ(dns_query_parse(w.data, w.n, &q), DNS_FORMERR);
}

TEST(messages_other_than_plain_queries_are_refused)
{
	struct wire w;
	struct dns_query q;

	ASK(&w, "\1a", DNS_A);
	w.data[2] |= 0x80; /* an answer */
	EQ(dns_query_parse(w.data, w.n, &q), -EBADMSG);
	ASK(&w, "\1a", DNS_A);
	w.data[2] = 5 << 3; /* an update */
	EQ(dns_query_parse(w.data, w.n, &q), DNS_NOTIMP);
	ASK(&w, "\1a", DNS_A);
	w.data[w.n - 1] = 3; /* CHAOS */
	EQ(dns_query_parse(w.data, w.n, &q), DNS_REFUSED);
	put_header(&w, 0, 0, 0, 0);
	EQ(dns_query_parse(w.data, w.n, &q), DNS_FORMERR);
	put_header(&w, 0, 2, 0, 0);
	PUT(&w, "\1a\0\0\1\0\1\1b\0\0\1\0\1");
	EQ(dns_query_parse(w.data, w.n, &q), DNS_FORMERR);
	put_header(&w, 0, 1, 1, 0);
	PUT(&w, "\1a\0\0\1\0\1\0\0\1\0\1\0\0\0\0\0\0");
	EQ(dns_query_parse(w.data, w.n, &q), DNS_FORMERR);
	ASK(&w, "\1a", DNS_A);
	w.data[2] |= 2; /* truncated */
	EQ(dns_query_parse(w.data, w.n, &q), DNS_FORMERR);
}

TEST(compression_pointers_are_not_followed)
{
	struct wire w;
	struct dns_query q;

	/* These pointers lead to themselves, into the header, forwards, and past the end.
	 */
	static const char *const names[] = { "\300\14", "\300\0", "\300\16", "\377\377",
					     "\1a\300\14" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		put_header(&w, 0x0100, 1, 0, 0);
		put(&w, names[i], i == 4 ? 4 : 2);
		put(&w, "\0\1\0\1", 4);
		EQ(dns_query_parse(w.data, w.n, &q), DNS_FORMERR);
	}
	/* The name of a later record cannot have a pointer either. */
	put_header(&w, 0, 1, 0, 1);
	PUT(&w, "\1a\0\0\1\0\1");
	PUT(&w, "\300\14\0\51\2\0\0\0\0\0\0\0");
	EQ(dns_query_parse(w.data, w.n, &q), DNS_FORMERR);
}

/* ----------------------------------------------------------------------- answers */

static void read_answer(const uint8_t *data, size_t n, ns_msg *m)
{
	EQ(ns_initparse(data, (int)n, m), 0);
	EQ(ns_msg_id(*m), 0x1234);
	EQ(ns_msg_getflag(*m, ns_f_qr), 1);
	EQ(ns_msg_getflag(*m, ns_f_ra), 1);
}

TEST(answers_have_the_addresses_of_their_type)
{
	static const char *const texts[] = { "192.0.2.1", "2001:db8::1", "192.0.2.2",
					     "::ffff:192.0.2.3" };
	static const struct {
		unsigned type;
		const char *want[4];
	} cases[] = {
		{ DNS_A, { "192.0.2.1", "192.0.2.2", "192.0.2.3" } },
		{ DNS_AAAA, { "2001:db8::1" } },
		{ 15, { NULL } },  /* MX */
		{ 255, { NULL } }, /* ANY */
		{ 65, { NULL } },  /* HTTPS */
	};
	struct address_net addresses[4];

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		address(texts[i], &addresses[i]);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t out[512];
		struct dns_query q;
		struct wire w;
		ns_msg m;
		unsigned want = 0;

		ASK(&w, "\4PyPI\3org", cases[i].type);
		EQ(dns_query_parse(w.data, w.n, &q), DNS_OK);
		read_answer(out,
			    dns_answer(&q, DNS_OK, addresses, 4, 300, out, sizeof(out)),
			    &m);
		while (cases[i].want[want])
			want++;
		EQ(ns_msg_getflag(m, ns_f_rcode), ns_r_noerror);
		EQ(ns_msg_getflag(m, ns_f_tc), 0);
		EQ(ns_msg_getflag(m, ns_f_rd), 1);
		EQ(ns_msg_count(m, ns_s_qd), 1);
		EQ(ns_msg_count(m, ns_s_an), want);
		EQ(ns_msg_count(m, ns_s_ar), 0);
		for (unsigned k = 0; k < want; k++) {
			char text[INET6_ADDRSTRLEN];
			ns_rr rr;

			EQ(ns_parserr(&m, ns_s_an, (int)k, &rr), 0);
			STREQ(ns_rr_name(rr), "PyPI.org");
			EQ(ns_rr_type(rr), cases[i].type);
			EQ(ns_rr_ttl(rr), 300);
			EQ(ns_rr_rdlen(rr), cases[i].type == DNS_A ? 4 : 16);
			(void)inet_ntop(cases[i].type == DNS_A ? AF_INET : AF_INET6,
					ns_rr_rdata(rr), text, sizeof(text));
			STREQ(text, cases[i].want[k]);
		}
	}
}

TEST(errors_have_no_addresses)
{
	static const enum dns_rcode codes[] = { DNS_FORMERR, DNS_SERVFAIL, DNS_NXDOMAIN,
						DNS_NOTIMP, DNS_REFUSED };
	struct address_net a;

	address("192.0.2.1", &a);
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		uint8_t out[512];
		struct dns_query q;
		struct wire w;
		ns_msg m;

		ASK(&w, "\1a", DNS_A);
		EQ(dns_query_parse(w.data, w.n, &q), DNS_OK);
		read_answer(out, dns_answer(&q, codes[i], &a, 1, 1, out, sizeof(out)),
			    &m);
		EQ(ns_msg_getflag(m, ns_f_rcode), codes[i]);
		EQ(ns_msg_count(m, ns_s_qd), 1);
		EQ(ns_msg_count(m, ns_s_an), 0);
		/* If a query cannot be parsed, the answer has no question. */
		put_header(&w, 0x2800, 7, 0, 0);
		EQ(dns_query_parse(w.data, w.n, &q), DNS_NOTIMP);
		read_answer(out, dns_answer(&q, codes[i], &a, 1, 1, out, sizeof(out)),
			    &m);
		EQ(ns_msg_count(m, ns_s_qd), 0);
		EQ(ns_msg_getflag(m, ns_f_opcode), 5);
	}
}

/* As many addresses as fit are sent; otherwise, the client must use TCP. */
TEST(answers_that_do_not_fit_are_truncated)
{
	struct address_net addresses[100];
	uint8_t out[4096];
	struct dns_query q;
	struct wire w;
	ns_msg m;

	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++)
		address("192.0.2.1", &addresses[i]);
	put_header(&w, 0, 1, 0, 1);
	PUT(&w, "\1a\0\0\1\0\1");
	put_opt(&w, 1232);
	EQ(dns_query_parse(w.data, w.n, &q), DNS_OK);
	for (size_t n = 0; n <= ARRAY_SIZE(addresses); n++) {
		/* An answer consists of header, question, EDNS, and 16 bytes for each
		 * address. */
		size_t full = 12 + 7 + 11 + 16 * n;
		size_t len = dns_answer(&q, DNS_OK, addresses, n, 1, out, q.udp_size);

		read_answer(out, len, &m);
		EQ(ns_msg_count(m, ns_s_ar), 1);
		EQ(ns_msg_getflag(m, ns_f_tc), full > 1232);
		EQ(ns_msg_count(m, ns_s_an), full > 1232 ? 0 : n);
		EQ(len, full > 1232 ? 30 : full);
		/* Over TCP, all of them fit. */
		EQ(dns_answer(&q, DNS_OK, addresses, n, 1, out, sizeof(out)), full);
	}
	EQ(12 + 7 + 11 + 16 * 75, 1230);
}

TEST(messages_by_tcp_have_a_length)
{
	uint8_t data[20] = { 0, 13 };

	EQ(dns_frame(data, 0), 0);
	EQ(dns_frame(data, 1), 0);
	EQ(dns_frame(data, 14), 0);
	EQ(dns_frame(data, 15), 13);
	EQ(dns_frame(data, 20), 13);
	data[1] = 11;
	EQ(dns_frame(data, 20), -EBADMSG);
}

TEST_MAIN()
