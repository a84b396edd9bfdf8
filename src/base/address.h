/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address.h - whether a client may make this machine connect to an address
 *
 * A client that names a host makes this machine connect to it from inside a network, next
 * to servers that trust that network. Only the address that is passed to connect(2) can
 * be checked; others control what a name resolves to, and a number can be written in many
 * ways.
 */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/*
 * Whether it is a global unicast address of version 4 or 6. Loopback, link-local,
 * private, unique-local, shared (carrier-grade NAT), multicast, reserved and
 * documentation addresses are not, nor are the metadata servers of clouds. An address of
 * version 6 that carries one of version 4 (mapped, NAT64) is judged by that; those of
 * tunnels (6to4, Teredo) are never public.
 */
bool address_is_public(const struct sockaddr *a);
/*
 * Whether it is an address of one of this machine's interfaces; also true if they cannot
 * be listed.
 */
bool address_is_own(const struct sockaddr *a);
/*
 * The address that a host is when it is written as a number: dotted, or in the decimal,
 * hexadecimal, octal and short forms that inet_aton(3) takes, or of version 6, in
 * brackets or not, with a zone or not. False: it is a name.
 */
bool address_parse(const char *host, struct sockaddr_storage *ret);

#endif /* BASE_ADDRESS_H */
