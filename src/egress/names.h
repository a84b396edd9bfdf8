/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.h - the addresses that stand for names in a sandbox
 *
 * The resolver answers an allowed name with two addresses, one IPv4 and one IPv6, that
 * have the same low bits: the number of the name. A connection to such an address is a
 * connection to the name. The addresses mean nothing outside the sandbox.
 *
 *	198.18.0.0/15			a block for benchmarks, which is never routed
 *	fd77:6172:7265:6e::/96		a unique local prefix
 *
 * Number 1 is the sandbox's view of warren-egress itself: its resolver and its proxies.
 * At most NAMES_MAX names are known at a time. When there are more, a new one replaces
 * the least recently used one that has no connections.
 *
 * Clients may remember an address for longer than they should. If it then stood for
 * another name, they would talk to the wrong host. So the first number is random in each
 * table, and a name that replaces another one gets another number. An old address most
 * likely stands for nothing, and the connection is reset.
 */
#ifndef EGRESS_NAMES_H
#define EGRESS_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/macro.h"

#define NAMES_MAX   16384
#define NAMES_SELF  1U
#define NAMES_FIRST 2U
/* Number of addresses in the IPv4 block. */
#define NAMES_SPACE ((1U << 17) - NAMES_FIRST)

struct names;
struct name;

int names_new(struct names **ret) MUST_CHECK; /* -ENOMEM */
struct names *names_free(struct names *t);

/*
 * Get the number of the name @text, in lower case; a new name gets a number. -EBUSY: each
 * known name has connections; -ENOMEM.
 */
int names_put(struct names *t, const char *text, uint32_t *ret_number) MUST_CHECK;
/* Get the name with a number, and mark it as used; NULL: there is none. */
const char *names_get(struct names *t, uint32_t number);
/* Count the connections of a number: a number with connections is not replaced. */
void names_hold(struct names *t, uint32_t number);
void names_release(struct names *t, uint32_t number);

/* The addresses that stand for a number: IPv4, then IPv6. */
void names_addresses(uint32_t number, struct address_net ret[2]);
/*
 * Return whether the address is in one of the blocks above. Sets *@ret_number to its
 * number, which need not have a name.
 */
bool names_number(const struct address_net *a, uint32_t *ret_number);

#endif /* EGRESS_NAMES_H */
