/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dns.c - parse queries, write answers
 *
 * The question is at the beginning of a message, so a compression pointer in its name
 * could only point into the header. Such a pointer is refused, so no pointer is ever
 * followed. An answer refers to the name of its question with the one pointer that it
 * needs.
 */
#include "network/dns.h"

#include <errno.h>
#include <string.h>

enum {
	FLAG_QR = 0x8000,
	FLAG_TC = 0x0200,
	FLAG_RD = 0x0100,
	FLAG_RA = 0x0080,
	CLASS_IN = 1,
	TYPE_OPT = 41,
	UDP_MIN = 512,
	OUR_UDP_SIZE = 1232, /* fits into any packet of IPv6 */
	NAME_WIRE_MAX = 255,
	OPT_LEN = 11,
};

static uint16_t dns_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint8_t *dns_put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
	return p + 2;
}

ssize_t dns_frame(const uint8_t *data, size_t n)
{
	size_t len;

	if (n < 2)
		return 0;
	len = dns_get16(data);
	if (len < DNS_HEADER)
		return -EBADMSG;
	return n - 2 < len ? 0 : (ssize_t)len;
}

/* Return the length of the name at @data in wire format; 0: it is malformed or contains a
 * pointer. */
static size_t dns_name_len(const uint8_t *data, size_t n)
{
	size_t at = 0;

	while (at < n && at < NAME_WIRE_MAX) {
		if (data[at] == 0)
			return at + 1;
		if (data[at] > HOST_LABEL_MAX)
			return 0;
		at += 1U + data[at];
	}
	return 0;
}

/* Write the text of a name that dns_name_len() accepted; "" if the text would be
 * ambiguous. */
static void dns_name_text(const uint8_t *data, char out[256])
{
	size_t n = 0;

	for (size_t at = 0; data[at]; at += 1U + data[at]) {
		size_t len = data[at];

		if (memchr(data + at + 1, '.', len) || memchr(data + at + 1, '\0', len)) {
			n = 0;
			break;
		}
		if (n > 0)
			out[n++] = '.';
		(void)memcpy(out + n, data + at + 1, len);
		n += len;
	}
	out[n] = '\0';
}

/* Parse the additional records, of which EDNS contains the size. Return false if they are
 * malformed. */
static bool dns_parse_additional(const uint8_t *p, size_t n, unsigned count,
				 struct dns_query *q)
{
	for (; count > 0; count--) {
		size_t name = dns_name_len(p, n), len;

		if (name == 0 || n - name < 10)
			return false;
		p += name;
		len = 10U + dns_get16(p + 8);
		n -= name;
		if (n < len)
			return false;
		if (dns_get16(p) == TYPE_OPT) {
			/* There may be only one EDNS record, and its name must be the
			 * root. */
			if (q->edns || name != 1)
				return false;
			q->edns = true;
			if (dns_get16(p + 2) > UDP_MIN)
				q->udp_size = dns_get16(p + 2);
		}
		p += len;
		n -= len;
	}
	return n == 0;
}

int dns_query_parse(const uint8_t *data, size_t n, struct dns_query *ret)
{
	struct dns_query q = { .udp_size = UDP_MIN };
	unsigned flags, additional;
	size_t name;

	if (n < DNS_HEADER || dns_get16(data + 2) & FLAG_QR)
		return -EBADMSG;
	flags = dns_get16(data + 2);
	q.id = dns_get16(data);
	q.opcode = (uint8_t)(flags >> 11 & 15);
	q.recursion = flags & FLAG_RD;
	*ret = q;
	if (q.opcode != 0)
		return DNS_NOTIMP;
	additional = dns_get16(data + 10);
	if (dns_get16(data + 4) != 1 || dns_get16(data + 6) || dns_get16(data + 8) ||
	    (flags & FLAG_TC))
		return DNS_FORMERR;
	data += DNS_HEADER;
	n -= DNS_HEADER;
	name = dns_name_len(data, n);
	if (name == 0 || n - name < 4)
		return DNS_FORMERR;
	q.question = data;
	q.question_len = name + 4;
	q.type = dns_get16(data + name);
	dns_name_text(data, q.name);
	if (!dns_parse_additional(data + name + 4, n - name - 4, additional, &q))
		return DNS_FORMERR;
	*ret = q;
	return dns_get16(data + name + 2) == CLASS_IN ? DNS_OK : DNS_REFUSED;
}

/* Return the bytes of @a if it has that type, otherwise NULL. */
static const uint8_t *dns_address_bytes(uint16_t type, const struct address_net *a,
					size_t *ret_len)
{
	bool v4 = address_net_is_v4(a);

	if (type != (v4 ? DNS_A : DNS_AAAA))
		return NULL;
	*ret_len = v4 ? 4 : 16;
	return a->bytes + (v4 ? 12 : 0);
}

static uint8_t *dns_put_record(uint8_t *p, uint16_t type, uint32_t ttl,
			       const uint8_t *bytes, size_t len)
{
	p = dns_put16(p, 0xc000 | DNS_HEADER); /* a pointer to the name in the question */
	p = dns_put16(p, type);
	p = dns_put16(p, CLASS_IN);
	p = dns_put16(p, ttl >> 16);
	p = dns_put16(p, ttl & 0xffff);
	p = dns_put16(p, (unsigned)len);
	(void)memcpy(p, bytes, len);
	return p + len;
}

size_t dns_answer(const struct dns_query *q, enum dns_rcode code,
		  const struct address_net *addresses, size_t n, uint32_t ttl,
		  uint8_t *out, size_t size)
{
	uint8_t *p = out + DNS_HEADER, *first;
	size_t room = size - DNS_HEADER - q->question_len - (q->edns ? OPT_LEN : 0);
	unsigned flags = FLAG_QR | FLAG_RA | (unsigned)q->opcode << 11 | (unsigned)code,
		 count = 0;

	if (q->question_len)
		(void)memcpy(p, q->question, q->question_len);
	p += q->question_len;
	first = p;
	for (size_t i = 0; code == DNS_OK && i < n; i++) {
		size_t len = 0;
		const uint8_t *bytes = dns_address_bytes(q->type, &addresses[i], &len);

		if (!bytes)
			continue;
		if ((size_t)(p - first) + DNS_HEADER + len > room ||
		    count == UINT16_MAX) {
			flags |= FLAG_TC;
			count = 0;
			p = first;
			break;
		}
		p = dns_put_record(p, q->type, ttl, bytes, len);
		count++;
	}
	if (q->edns) {
		*p++ = 0;
		p = dns_put16(p, TYPE_OPT);
		p = dns_put16(p, OUR_UDP_SIZE);
		(void)memset(p, 0, 6);
		p += 6;
	}
	(void)dns_put16(out, q->id);
	(void)dns_put16(out + 2, flags | (q->recursion ? FLAG_RD : 0));
	(void)dns_put16(out + 4, q->question_len ? 1 : 0);
	(void)dns_put16(out + 6, count);
	(void)dns_put16(out + 8, 0);
	(void)dns_put16(out + 10, q->edns);
	return (size_t)(p - out);
}
