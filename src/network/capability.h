/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capability.h - named sets of rules, and policies from the options of a command line
 *
 *	--network packages,git	the rules of these capabilities
 *	--allow HOST[:PORT]	one more rule that allows: a host, on all ports or on one
 *	--deny HOST[:PORT]	one that denies
 *
 * The shipped capabilities are a table: `packages`, `git`, `web` and `none`. A
 * configuration can add others, and replace those that are shipped.
 */
#ifndef NETWORK_CAPABILITY_H
#define NETWORK_CAPABILITY_H

#include "network/policy.h"

struct capability_rule {
	const char *host;  /* NULL: every public host */
	uint16_t ports[2]; /* 0: none */
	uint8_t protocols; /* enum rule_protocol */
};

struct capability {
	const char *name, *help;
	const struct capability_rule *rules;
	size_t n_rules;
};

extern const struct capability capabilities[];
extern const size_t n_capabilities;

/*
 * A capability of a configuration: all rules of its policy, those that deny as well. Its
 * limits are not used.
 */
struct capability_row {
	const char *name;
	const struct policy *policy;
};

/* The rows of a configuration, which take precedence; zero: none. */
struct capability_table {
	const struct capability_row *rows;
	size_t n;
};

/*
 * Add the rules of the capabilities in @list, with commas in between. -EINVAL: one is not
 * known, or `none` is not alone. On failure, @p may have a part of them.
 */
int policy_option_network(struct policy *p, const struct capability_table *more,
			  const char *list, struct warren_error *err) MUST_CHECK;
/* Add a rule for "HOST[:PORT]". -EINVAL: it is not one. */
int policy_option_allow(struct policy *p, const char *text,
			struct warren_error *err) MUST_CHECK;
int policy_option_deny(struct policy *p, const char *text,
		       struct warren_error *err) MUST_CHECK;

#endif /* NETWORK_CAPABILITY_H */
