/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capability.h - named sets of rules, and policies from command-line options
 *
 *	--network packages,git	the rules of these capabilities
 *	--allow HOST[:PORT]	one more rule that allows: a host, on all ports or on one
 *	--deny HOST[:PORT]	one more rule that denies
 *
 * The built-in capabilities are in a table: `packages`, `git`, `web` and `none`. The
 * configuration can add capabilities and replace built-in ones.
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
 * A capability from the configuration. It contributes all rules of its policy, including
 * those that deny. The limits of the policy are not used.
 */
struct capability_row {
	const char *name;
	const struct policy *policy;
};

/* Rows from the configuration, which take precedence over built-in ones; zero: none. */
struct capability_table {
	const struct capability_row *rows;
	size_t n;
};

/*
 * Add the rules of the capabilities in @list, which is separated by commas. -EINVAL: a
 * capability is unknown, or `none` is combined with others. On failure, @p may contain
 * some of the rules.
 */
int policy_option_network(struct policy *p, const struct capability_table *more,
			  const char *list, struct warren_error *err) MUST_CHECK;
/* Add a rule for "HOST[:PORT]". -EINVAL: @text does not have this form. */
int policy_option_allow(struct policy *p, const char *text,
			struct warren_error *err) MUST_CHECK;
int policy_option_deny(struct policy *p, const char *text,
		       struct warren_error *err) MUST_CHECK;

#endif /* NETWORK_CAPABILITY_H */
