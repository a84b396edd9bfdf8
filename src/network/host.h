/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - the hosts that a rule or a request names
 *
 * A host is an exact name, a suffix ("*.example.com": every name below, not the name
 * itself), an address, a network in CIDR form, or every public host. There is one parser
 * for rules and for requests, and it accepts one spelling of each: everything that two
 * programs could read differently is refused, with the reason.
 *
 * Names are compared without case; they are kept in lower case.
 *
 * Special-purpose addresses (loopback, link-local, private, carrier-grade NAT, metadata,
 * multicast and so on: base/address.h has the table) are never allowed by accident. A
 * network allows them only if all of it is in one special-purpose block: 10.0.0.0/8 does,
 * 0.0.0.0/0 means its public part. To deny, a network means all of its addresses.
 */
#ifndef NETWORK_HOST_H
#define NETWORK_HOST_H

#include "base/address.h"
#include "base/error.h"

#define HOST_NAME_MAX_LEN 253
#define HOST_LABEL_MAX    63
/* Bytes of a host as text, with the NUL: "*." and a name, or a network. */
#define HOST_TEXT_SIZE (HOST_NAME_MAX_LEN + 3)

enum host_kind {
	HOST_NAME,
	HOST_SUFFIX,
	HOST_NET,    /* one address, or a network */
	HOST_PUBLIC, /* every name, and every public address */
};

struct host {
	enum host_kind kind;
	bool special;     /* all of the network is in a special-purpose block */
	uint8_t len;      /* of the name */
	const char *name; /* of a suffix: with its dot, ".example.com" */
	struct address_net net;
};

/*
 * Parse the @n bytes at @text. A name is written to @name, which has HOST_TEXT_SIZE bytes
 * and must live as long as the host. Errors are sentences without the field: "must not
 * be empty".
 */
int host_parse(const char *text, size_t n, char *name, struct host *ret,
	       struct warren_error *err) MUST_CHECK;
/* The same, for what a request names: one name or one address. */
int host_parse_single(const char *text, size_t n, char *name, struct host *ret,
		      struct warren_error *err) MUST_CHECK;
/*
 * "HOST" or "HOST:PORT"; brackets must enclose an IPv6 address in front of a port. 0 as
 * the port: there is none.
 */
int host_parse_port(const char *text, size_t n, char *name, struct host *ret,
		    uint16_t *ret_port, struct warren_error *err) MUST_CHECK;
void host_of_address(const struct address_net *a, struct host *ret);
/* As host_parse() reads it; "" for HOST_PUBLIC. */
void host_text(const struct host *h, char out[HOST_TEXT_SIZE]);

/*
 * Whether everything that @inner means, @outer means as well, in rules that allow.
 */
bool host_covers(const struct host *outer, const struct host *inner);
/*
 * Whether a rule that denies @denied denies something that one that allows @allowed
 * would allow. Every name may resolve to any public address.
 */
bool host_overlaps(const struct host *denied, const struct host *allowed);
/* Whether a rule that denies @denied applies to @h, one name or one address. */
bool host_denies(const struct host *denied, const struct host *h);

/*
 * An order in which what a host covers follows it, before anything else: names by their
 * characters from the end, networks by their bits. HOST_PUBLIC is the greatest.
 */
int host_compare(const struct host *a, const struct host *b);
/*
 * Whether the text or the bits of @outer contain those of @inner: host_covers() without
 * the difference between public and special.
 */
bool host_contains(const struct host *outer, const struct host *inner);

#endif /* NETWORK_HOST_H */
