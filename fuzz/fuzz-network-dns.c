/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-network-dns.c - any bytes are accepted as a query or refused; the C library can
 * parse every answer, and the answer fits
 */
#include <arpa/nameser.h>
#include <stdlib.h>
#include <string.h>

#include "network/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first two bytes are the number of addresses, and the space beyond the minimum. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct address_net addresses[256];
	uint8_t out[DNS_ANSWER_MIN + 4 * 255];
	struct dns_query q;
	size_t n, room, len;
	ns_msg m;
	int r;

	if (size < 2)
		return 0;
	n = data[0];
	room = DNS_ANSWER_MIN + (size_t)4 * data[1];
	for (size_t i = 0; i < n; i++)
		address_net_widen(i % 3 ? AF_INET : AF_INET6, "0123456789abcdef",
				  i % 3 ? 32 : 128, &addresses[i]);
	data += 2;
	size -= 2;
	(void)dns_frame(data, size);
	r = dns_query_parse(data, size, &q);
	if (r < 0)
		return 0;
	len = dns_answer(&q, (enum dns_rcode)r, addresses, n, 60, out, room);
	if (len > room || ns_initparse(out, (int)len, &m) < 0)
		abort();
	if (ns_msg_getflag(m, ns_f_rcode) != r || ns_msg_count(m, ns_s_an) > n)
		abort();
	/* A query that cannot be parsed is answered without addresses. */
	if (r != DNS_OK)
		return ns_msg_count(m, ns_s_an) == 0 ? 0 : (abort(), 0);
	/* If Warren accepts a query, the C library accepts it too. */
	if (ns_initparse(data, (int)size, &m) < 0 || ns_msg_count(m, ns_s_qd) != 1)
		abort();
	if (strlen(q.name) > HOST_NAME_MAX_LEN)
		abort();
	for (int i = 0; i < ns_msg_count(m, ns_s_an); i++) {
		ns_rr rr;

		if (ns_parserr(&m, ns_s_an, i, &rr) < 0 || ns_rr_type(rr) != q.type)
			abort();
	}
	return 0;
}
