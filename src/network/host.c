/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - parse and compare hosts */
#include "network/host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "network/punycode.h"

#define SHOWN 80 /* maximum size of a host in a message */

/* ----------------------------------------------------------------------- names */

static bool host_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Letters, digits, '-' and '_' are allowed; names of services contain underscores. */
static bool host_is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || host_is_digit(c) || c == '-' || c == '_';
}

/* Check one label, which is in lower case. */
static int host_check_label(const char *label, size_t n, struct warren_error *err)
{
	if (n == 0)
		return error_set(err, EINVAL, "has an empty label");
	if (n > HOST_LABEL_MAX)
		return error_set(err, EINVAL,
				 "has a label of %zu bytes; the maximum is %d", n,
				 HOST_LABEL_MAX);
	for (size_t i = 0; i < n; i++)
		if (!host_is_name_char(label[i]))
			return error_set(
				err, EINVAL,
				"has a character that names cannot contain: 0x%02x",
				(unsigned char)label[i]);
	if (label[0] == '-' || label[n - 1] == '-')
		return error_set(err, EINVAL, "has a label that begins or ends with '-'");
	if (n >= 4 && memcmp(label, "xn--", 4) == 0 && !punycode_valid(label + 4, n - 4))
		return error_set(err, EINVAL, "'%.*s' is not valid punycode", (int)n,
				 label);
	return 0;
}

/*
 * Is the last label a decimal or hexadecimal number? Programs interpret such a name as an
 * IPv4 address in one of its old forms.
 */
static bool host_ends_in_number(const char *name, size_t n)
{
	size_t at = n;

	while (at > 0 && name[at - 1] != '.')
		at--;
	if (n - at >= 2 && name[at] == '0' && name[at + 1] == 'x') {
		for (at += 2; at < n; at++)
			if (hex_value(name[at]) < 0)
				return false;
		return true;
	}
	for (size_t i = at; i < n; i++)
		if (!host_is_digit(name[i]))
			return false;
	return n > at;
}

/* Check the @n bytes at @name, which are in lower case and followed by a NUL. */
static int host_check_name(const char *name, size_t n, struct warren_error *err)
{
	size_t start = 0;

	if (n > HOST_NAME_MAX_LEN)
		return error_set(err, EINVAL, "has %zu bytes; the maximum is %d", n,
				 HOST_NAME_MAX_LEN);
	if (n > 0 && name[n - 1] == '.')
		return error_set(err, EINVAL, "must not end with a dot");
	for (size_t i = 0; i <= n; i++) {
		int r;

		if (i < n && name[i] != '.')
			continue;
		r = host_check_label(name + start, i - start, err);
		if (r < 0)
			return r;
		start = i + 1;
	}
	if (host_ends_in_number(name, n))
		return error_set(err, EINVAL,
				 "'%.*s' is a number, and not an IPv4 address in dotted "
				 "decimal form",
				 SHOWN, name);
	return 0;
}

static int host_parse_name(const char *text, size_t n, char *name, struct host *ret,
			   struct warren_error *err)
{
	bool suffix = n >= 2 && text[0] == '*' && text[1] == '.';
	size_t skip = suffix ? 1 : 0;
	int r;

	if (n == 1 && text[0] == '*')
		return error_set(err, EINVAL,
				 "must not be '*'; use \"public\": true for every public "
				 "host");
	if (n - skip > HOST_NAME_MAX_LEN + skip)
		return error_set(err, EINVAL, "has %zu bytes; the maximum is %d",
				 n - 2 * skip, HOST_NAME_MAX_LEN);
	if (memchr(text + skip, '*', n - skip))
		return error_set(
			err, EINVAL,
			"a wildcard is only allowed at the beginning: '*.example.com'");
	n -= skip;
	for (size_t i = 0; i < n; i++) {
		char c = text[i + skip];

		name[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
	}
	name[n] = '\0';
	r = host_check_name(name + skip, n - skip, err);
	if (r < 0)
		return r;
	*ret = (struct host){ .kind = suffix ? HOST_SUFFIX : HOST_NAME,
			      .len = (uint8_t)n,
			      .name = name };
	return 0;
}

/* ------------------------------------------------------------------- addresses */

void host_of_address(const struct address_net *a, struct host *ret)
{
	*ret = (struct host){ .kind = HOST_NET,
			      .net = *a,
			      .special = address_net_special(a) != NULL };
}

/* Parse the number after the slash. */
static int host_parse_bits(const char *s, unsigned max, unsigned *ret,
			   struct warren_error *err)
{
	unsigned v = 0;
	size_t n = strlen(s);

	for (size_t i = 0; i < n && i < 4; i++)
		v = host_is_digit(s[i]) ? v * 10 + (unsigned)(s[i] - '0') : 1000;
	if (n == 0 || n > 3 || v > max || (n > 1 && s[0] == '0'))
		return error_set(err, EINVAL,
				 "'/%.8s' is not a number of bits from 0 to %u", s, max);
	*ret = v;
	return 0;
}

/* Are all bits outside of the prefix zero? */
static bool host_net_is_clean(const struct address_net *n)
{
	unsigned at = n->bits / 8;

	if (n->bits % 8 && (uint8_t)(n->bytes[at] << n->bits % 8) != 0)
		return false;
	for (at += n->bits % 8 ? 1 : 0; at < 16; at++)
		if (n->bytes[at])
			return false;
	return true;
}

/*
 * Parse an address, optionally with a number of bits. Return 1 if it is not an address.
 */
static int host_parse_net(const char *text, size_t n, struct host *ret,
			  struct warren_error *err)
{
	char copy[INET6_ADDRSTRLEN + 8];
	uint8_t bytes[16];
	struct address_net net;
	unsigned bits;
	char *slash;
	int family, r;

	if (n >= sizeof(copy))
		return 1;
	(void)memcpy(copy, text, n);
	copy[n] = '\0';
	slash = strchr(copy, '/');
	if (slash)
		*slash++ = '\0';
	family = strchr(copy, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(family, copy, bytes) != 1)
		return 1;
	bits = family == AF_INET ? 32 : 128;
	if (slash) {
		r = host_parse_bits(slash, bits, &bits, err);
		if (r < 0)
			return r;
	}
	address_net_widen(family, bytes, bits, &net);
	if (!host_net_is_clean(&net))
		return error_set(err, EINVAL, "has bits set after the first %u bits",
				 bits);
	host_of_address(&net, ret);
	return 0;
}

void host_text(const struct host *h, char out[HOST_TEXT_SIZE])
{
	char address[INET6_ADDRSTRLEN] = "";
	bool v4 = address_net_is_v4(&h->net);
	unsigned bits = v4 ? h->net.bits - 96U : h->net.bits;

	out[0] = '\0';
	if (h->kind == HOST_NAME || h->kind == HOST_SUFFIX)
		(void)snprintf(out, HOST_TEXT_SIZE, "%s%s",
			       h->kind == HOST_SUFFIX ? "*" : "", h->name);
	if (h->kind != HOST_NET)
		return;
	(void)inet_ntop(v4 ? AF_INET : AF_INET6, h->net.bytes + (v4 ? 12 : 0), address,
			sizeof(address));
	if (h->net.bits == 128)
		(void)snprintf(out, HOST_TEXT_SIZE, "%s", address);
	else
		(void)snprintf(out, HOST_TEXT_SIZE, "%s/%u", address, bits);
}

/* ---------------------------------------------------------------- hosts of all kinds */

/* Characters that a host must not contain anywhere, and the error for each. */
static const struct {
	char c;
	const char *why;
} host_unwanted[] = {
	{ '\0', "contains a NUL" },
	{ '%', "must not contain percent-encoding or a zone" },
	{ '@', "must not contain a user name ('@')" },
	{ '[', "must not have brackets" },
	{ ']', "must not have brackets" },
};

int host_parse(const char *text, size_t n, char *name, struct host *ret,
	       struct warren_error *err)
{
	int r;

	if (n == 0)
		return error_set(err, EINVAL, "must not be empty");
	for (size_t i = 0; i < ARRAY_SIZE(host_unwanted); i++)
		if (memchr(text, host_unwanted[i].c, n))
			return error_set(err, EINVAL, "%s", host_unwanted[i].why);
	r = host_parse_net(text, n, ret, err);
	if (r <= 0)
		return r;
	if (memchr(text, '/', n))
		return error_set(err, EINVAL,
				 "'%.*s' is neither a name nor a network such as "
				 "192.0.2.0/24",
				 (int)(n < SHOWN ? n : SHOWN), text);
	if (memchr(text, ':', n))
		return error_set(err, EINVAL,
				 "'%.*s' is not an IPv6 address, and a port is not part "
				 "of the host",
				 (int)(n < SHOWN ? n : SHOWN), text);
	return host_parse_name(text, n, name, ret, err);
}

int host_parse_single(const char *text, size_t n, char *name, struct host *ret,
		      struct warren_error *err)
{
	struct host h;
	int r = host_parse(text, n, name, &h, err);

	if (r < 0)
		return r;
	if (h.kind == HOST_SUFFIX || (h.kind == HOST_NET && memchr(text, '/', n)))
		return error_set(err, EINVAL, "must be one name or one address");
	*ret = h;
	return 0;
}

static int host_port_number(const char *s, size_t n, uint16_t *ret,
			    struct warren_error *err)
{
	unsigned v = 0;

	for (size_t i = 0; i < n && i < 6; i++)
		v = host_is_digit(s[i]) ? v * 10 + (unsigned)(s[i] - '0') : 1000000;
	if (n == 0 || n > 5 || v < 1 || v > UINT16_MAX || s[0] == '0')
		return error_set(err, EINVAL, "'%.*s' is not a port from 1 to 65535",
				 (int)(n < SHOWN ? n : SHOWN), s);
	*ret = (uint16_t)v;
	return 0;
}

int host_parse_port(const char *text, size_t n, char *name, struct host *ret,
		    uint16_t *ret_port, struct warren_error *err)
{
	const char *end = text + n, *port = NULL;
	struct host h;
	uint16_t number = 0;
	int r;

	if (n > 0 && text[0] == '[') {
		const char *close = memchr(text, ']', n);

		if (!close || (close + 1 < end && close[1] != ':'))
			return error_set(
				err, EINVAL,
				"must be an address in brackets, optionally followed by ':' and a port");
		if (!memchr(text, ':', (size_t)(close - text)))
			return error_set(err, EINVAL,
					 "only an IPv6 address is in brackets");
		port = close + 1 < end ? close + 2 : NULL;
		text++;
		n = (size_t)(close - text);
	} else {
		const char *colon = memchr(text, ':', n);

		/* If there are several colons, it is an IPv6 address. */
		if (colon && !memchr(colon + 1, ':', (size_t)(end - colon - 1))) {
			port = colon + 1;
			n = (size_t)(colon - text);
		}
	}
	r = host_parse(text, n, name, &h, err);
	if (r == 0 && port)
		r = host_port_number(port, (size_t)(end - port), &number, err);
	if (r < 0)
		return r;
	*ret = h;
	*ret_port = number;
	return 0;
}

/* ----------------------------------------------------------------- comparison */

static bool host_is_net(const struct host *h)
{
	return h->kind == HOST_NET;
}

int host_compare(const struct host *a, const struct host *b)
{
	size_t n = a->len < b->len ? a->len : b->len;
	int ka = a->kind == HOST_PUBLIC ? 2 : host_is_net(a);
	int kb = b->kind == HOST_PUBLIC ? 2 : host_is_net(b);
	int c;

	if (ka != kb || ka == 2)
		return ka - kb;
	if (host_is_net(a)) {
		/*
		 * Compare the families first: otherwise, some IPv6 networks would be
		 * between an IPv4 network and its parent.
		 */
		c = address_net_is_v4(&a->net) - address_net_is_v4(&b->net);
		if (c == 0)
			c = memcmp(a->net.bytes, b->net.bytes, 16);
		return c ? c : (int)a->net.bits - (int)b->net.bits;
	}
	for (size_t i = 1; i <= n; i++)
		if (a->name[a->len - i] != b->name[b->len - i])
			return (unsigned char)a->name[a->len - i] -
			       (unsigned char)b->name[b->len - i];
	return (int)a->len - (int)b->len;
}

bool host_contains(const struct host *outer, const struct host *inner)
{
	if (outer->kind == HOST_PUBLIC || inner->kind == HOST_PUBLIC)
		return outer->kind == HOST_PUBLIC;
	if (host_is_net(outer) || host_is_net(inner))
		return outer->kind == inner->kind &&
		       address_net_has(&outer->net, &inner->net);
	if (outer->kind == HOST_NAME)
		return inner->kind == HOST_NAME && outer->len == inner->len &&
		       memcmp(outer->name, inner->name, outer->len) == 0;
	return inner->len >= outer->len && memcmp(inner->name + inner->len - outer->len,
						  outer->name, outer->len) == 0;
}

bool host_covers(const struct host *outer, const struct host *inner)
{
	return host_contains(outer, inner) && outer->special == inner->special;
}

bool host_denies(const struct host *denied, const struct host *h)
{
	if (denied->kind == HOST_PUBLIC)
		return !h->special;
	return host_contains(denied, h);
}

bool host_overlaps(const struct host *denied, const struct host *allowed)
{
	/* A host that is allowed by name can have any public address. */
	if (host_is_net(denied) && !host_is_net(allowed))
		return !denied->special;
	if (!host_is_net(denied) && denied->kind != HOST_PUBLIC && host_is_net(allowed))
		return false;
	if (denied->kind == HOST_PUBLIC)
		return !allowed->special;
	if (host_is_net(denied) && denied->special && !allowed->special)
		return false; /* only the public part is allowed */
	return host_contains(denied, allowed) || host_contains(allowed, denied);
}
