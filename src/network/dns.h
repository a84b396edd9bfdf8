/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dns.h - the DNS wire format: parse one question, write addresses
 *
 *	r = dns_query_parse(data, n, &q);
 *	if (r >= 0)
 *		n = dns_answer(&q, r, addresses, n_addresses, ttl, out, size);
 *
 * This is only what a resolver for allowed names needs: A and AAAA are answered with
 * addresses, everything else with an empty answer or an error. An answer repeats only the
 * id and the question of the query.
 */
#ifndef NETWORK_DNS_H
#define NETWORK_DNS_H

#include <sys/types.h>

#include "network/host.h"

#define DNS_HEADER 12
/* Size of a header, a question with the longest name, and an EDNS record. */
#define DNS_ANSWER_MIN (DNS_HEADER + 255 + 4 + 11)

enum dns_rcode {
	DNS_OK = 0,
	DNS_FORMERR = 1,
	DNS_SERVFAIL = 2,
	DNS_NXDOMAIN = 3,
	DNS_NOTIMP = 4,
	DNS_REFUSED = 5,
};

enum dns_type {
	DNS_A = 1,
	DNS_AAAA = 28,
};

struct dns_query {
	uint16_t id;
	bool recursion; /* the query's flag RD, which the answer repeats */
	uint8_t opcode;
	uint16_t type;
	uint16_t udp_size; /* maximum bytes the client accepts by UDP, at least 512 */
	bool edns;
	/* The question in wire format, in the query's memory; NULL: not readable. */
	const uint8_t *question;
	size_t question_len;
	/*
	 * The name as text for host_parse_single(), with its case unchanged. "": it
	 * cannot be a host name, because it is the root, or has a dot or a NUL in a
	 * label.
	 */
	char name[256];
};

/*
 * Parse a query. DNS_OK: decide and answer it; another code: answer with that code;
 * -EBADMSG: @data is not a query and must not be answered.
 */
int dns_query_parse(const uint8_t *data, size_t n, struct dns_query *ret);

/*
 * Write an answer of at most @size bytes (at least DNS_ANSWER_MIN) to @out. It contains
 * the addresses of the type that the question asks for. If they do not all fit, it
 * contains none and is marked as truncated, so that the client asks again by TCP. For
 * UDP, @size must not exceed udp_size. Returns the length of the answer.
 */
size_t dns_answer(const struct dns_query *q, enum dns_rcode code,
		  const struct address_net *addresses, size_t n, uint32_t ttl,
		  uint8_t *out, size_t size);

/*
 * Over TCP, each message is preceded by its length in two bytes. Returns the length of
 * the message at @data + 2; 0: more bytes are needed; -EBADMSG: the length is too small
 * for a message.
 */
ssize_t dns_frame(const uint8_t *data, size_t n);

#endif /* NETWORK_DNS_H */
