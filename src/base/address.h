/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address.h - decides whether a client may make this machine connect to an address
 *
 * A client that names a host makes this machine connect from inside its own network,
 * whose servers may trust this machine. Only the address that is passed to connect(2) can
 * be checked: others control what a name resolves to, and an address can be written in
 * many ways.
 */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/*
 * An address (128 bits) or a network: only the first @bits of @bytes count, the rest is
 * zero. IPv4 addresses are mapped into IPv6 (::ffff:0:0/96), and an IPv6 address that
 * maps or translates an IPv4 address (NAT64) counts as that IPv4 address. So each address
 * has only one form.
 */
struct address_net {
	uint8_t bytes[16];
	uint8_t bits;
};

/*
 * Convert an address of 4 or 16 bytes; @bits is the number of bits that count in that
 * family.
 */
void address_net_widen(int family, const void *bytes, unsigned bits,
		       struct address_net *ret);
/* Convert a socket address. False: @a is neither IPv4 nor IPv6. */
bool address_widen(const struct sockaddr *a, struct address_net *ret);
bool address_net_is_v4(const struct address_net *n);
/* Return whether all of @inner is in @net; an IPv4 address is in no IPv6 network. */
bool address_net_has(const struct address_net *net, const struct address_net *inner);
/*
 * Get the kind of special-purpose block that contains all of @net, such as "loopback";
 * NULL: none. A network that is larger than a block is not in it.
 */
const char *address_net_special(const struct address_net *net);

/*
 * Return whether @a is a global unicast address, IPv4 or IPv6. Loopback, link-local,
 * private, unique-local, shared (carrier-grade NAT), multicast, reserved and
 * documentation addresses are not public. Neither are the metadata servers of clouds. An
 * IPv6 address that contains an IPv4 address (mapped, NAT64) is judged by the latter.
 * Tunnel addresses (6to4, Teredo) are never public.
 */
bool address_is_public(const struct sockaddr *a);
/*
 * Return whether @a is an address of one of this machine's interfaces; also true if the
 * interfaces cannot be listed.
 */
bool address_is_own(const struct sockaddr *a);
/*
 * Parse a numeric host: IPv4 in dotted form or in the decimal, hexadecimal, octal and
 * short forms of inet_aton(3), or IPv6 with optional brackets and zone. Return false if
 * @host is a name.
 */
bool address_parse(const char *host, struct sockaddr_storage *ret);

#endif /* BASE_ADDRESS_H */
