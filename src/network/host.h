/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - the hosts that a rule or a request names
 *
 * A host is an exact name, a suffix ("*.example.com": every name below, not the name
 * itself), an address, a network in CIDR form, or every public host. One parser reads the
 * hosts in rules and in requests. It accepts only one spelling of each host. Everything
 * that two programs could read differently is refused, with the reason.
 *
 * Names are compared without regard to case, and stored in lower case.
 *
 * Special-purpose addresses (loopback, link-local, private, carrier-grade NAT, metadata,
 * multicast and so on: base/address.h has the table) are never allowed by accident. In a
 * rule that allows, a network includes them only if all of it is in one special-purpose
 * block: 10.0.0.0/8 includes them, but 0.0.0.0/0 means only its public addresses. In a
 * rule that denies, a network means all of its addresses.
 */
#ifndef NETWORK_HOST_H
#define NETWORK_HOST_H

#include "base/address.h"
#include "base/error.h"

#define HOST_NAME_MAX_LEN 253
#define HOST_LABEL_MAX    63
/* Size of a host as text, with the NUL: "*." and a name, or a network. */
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
	uint8_t len;      /* length of the name */
	const char *name; /* a suffix includes its dot: ".example.com" */
	struct address_net net;
};

/*
 * Parse the @n bytes at @text. A name is written to @name, which has HOST_TEXT_SIZE bytes
 * and must live as long as the host. Errors are sentences without the field: "must not
 * be empty".
 */
int host_parse(const char *text, size_t n, char *name, struct host *ret,
	       struct warren_error *err) MUST_CHECK;
/* Like host_parse(), for the host of a request: one name or one address. */
int host_parse_single(const char *text, size_t n, char *name, struct host *ret,
		      struct warren_error *err) MUST_CHECK;
/*
 * Parse "HOST" or "HOST:PORT". An IPv6 address before a port must be in brackets. The
 * port is 0 if there is none.
 */
int host_parse_port(const char *text, size_t n, char *name, struct host *ret,
		    uint16_t *ret_port, struct warren_error *err) MUST_CHECK;
void host_of_address(const struct address_net *a, struct host *ret);
/* Format a host as host_parse() reads it; "" for HOST_PUBLIC. */
void host_text(const struct host *h, char out[HOST_TEXT_SIZE]);

/* Return whether @outer includes everything that @inner includes, in rules that allow. */
bool host_covers(const struct host *outer, const struct host *inner);
/*
 * Return whether a rule that denies @denied denies a part of what a rule for @allowed
 * allows. Every name may resolve to any public address.
 */
bool host_overlaps(const struct host *denied, const struct host *allowed);
/* Return whether a rule that denies @denied applies to @h, one name or one address. */
bool host_denies(const struct host *denied, const struct host *h);

/*
 * Compare two hosts for sorting. Directly after a host come all hosts that it covers:
 * names are sorted by their characters from the end, networks by their bits. HOST_PUBLIC
 * is the greatest.
 */
int host_compare(const struct host *a, const struct host *b);
/*
 * Return whether the text or the bits of @outer contain those of @inner. Like
 * host_covers(), but does not distinguish between public and special-purpose addresses.
 */
bool host_contains(const struct host *outer, const struct host *inner);

#endif /* NETWORK_HOST_H */
