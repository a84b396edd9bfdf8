/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dns.h - the resolver's wire format: one question in, addresses out
 *
 *	r = dns_query_parse(data, n, &q);
 *	if (r >= 0)
 *		n = dns_answer(&q, r, addresses, n_addresses, ttl, out, size);
 *
 * Only what a resolver of allowed names needs: A and AAAA are answered with addresses,
 * everything else with an empty answer or an error. Nothing of the query is repeated in
 * the answer but its id and its question.
 */
#ifndef NETWORK_DNS_H
#define NETWORK_DNS_H

#include <sys/types.h>

#include "network/host.h"

#define DNS_HEADER 12
/* Header, a question with the longest name, and an EDNS record. */
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
	bool recursion; /* desired, which is repeated */
	uint8_t opcode;
	uint16_t type;
	uint16_t udp_size; /* bytes that the client takes by UDP, at least 512 */
	bool edns;
	/* The question as it is on the wire, in the query's memory; NULL: not readable.
	 */
	const uint8_t *question;
	size_t question_len;
	/*
	 * The name as text, for host_parse_single(), with its case; "": it cannot be one,
	 * because it is the root, or has a dot or a NUL in a label.
	 */
	char name[256];
};

/*
 * Returns DNS_OK: decide and answer; another code: answer with that; -EBADMSG: it is not
 * a query, and must not be answered.
 */
int dns_query_parse(const uint8_t *data, size_t n, struct dns_query *ret);

/*
 * Write an answer of at most @size bytes (at least DNS_ANSWER_MIN) to @out. Of the
 * addresses, those of the question's type are in it. If not all have room, none is in it
 * and it is marked as truncated, so that the client asks again by TCP. By UDP, @size is
 * at most udp_size. Returns its length.
 */
size_t dns_answer(const struct dns_query *q, enum dns_rcode code,
		  const struct address_net *addresses, size_t n, uint32_t ttl,
		  uint8_t *out, size_t size);

/*
 * By TCP, each message has its length in front, in two bytes. The length of the message
 * at @data + 2; 0: more bytes are needed; -EBADMSG: it is too short to be a message.
 */
ssize_t dns_frame(const uint8_t *data, size_t n);

#endif /* NETWORK_DNS_H */
