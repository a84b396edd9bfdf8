/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network_options.h - the options --network, --allow and --deny
 *
 *	--network loopback	only the sandbox itself: the default
 *	--network none		nothing
 *	--network CAP[,CAP]	the rules of these capabilities (network/capability.h)
 *	--network learn		every public host; what the command used is reported
 *
 * With capabilities, `learn` or --allow, the sandbox has a policy.
 */
#ifndef CLI_NETWORK_OPTIONS_H
#define CLI_NETWORK_OPTIONS_H

#include "cli/values.h"
#include "network/policy.h"
#include "warren.h"

struct network_options {
	const char *mode;    /* value of --network; NULL: not given */
	struct policy rules; /* rules of --allow and --deny */
};

/* The setters; the field is `mode` of the first, and `rules` of the others. */
value_fn value_network, value_allow, value_deny;

/* clang-format off */
#define OPT_NETWORK(at) \
	"network", 0, "NETWORK", "packages,git", \
	"loopback (the default), none, learn, packages, git, web", \
	value_network, (at)
#define OPT_ALLOW(at) \
	"allow", 0, "HOST[:PORT]", "example.com:443", \
	"allow connections to a host (repeatable)", value_allow, (at)
#define OPT_DENY(at) \
	"deny", 0, "HOST[:PORT]", "'*.example.com'", \
	"deny connections to a host that is allowed otherwise", value_deny, (at)
/* clang-format on */

/* Messages before the hosts that were used, or denied. */
#define NETWORK_SAY_LEARN "the command used this network:"
#define NETWORK_SAY_DENIED \
	"the network policy denied %ju of its requests; with these options, it allows all:"

/* Check combinations of the options. */
int network_options_check(const struct network_options *o,
			  struct warren_error *err) MUST_CHECK;
/* Return whether the sandbox has a policy. */
bool network_options_has_policy(const struct network_options *o);
/* Return whether it is `learn`. */
bool network_options_learn(const struct network_options *o);
/* The network of the sandbox, without the policy. */
enum warren_network network_options_mode(const struct network_options *o);
/*
 * Build the policy, from the built-in capabilities only. @ret must be empty. -EINVAL: a
 * capability is unknown. On failure, @ret may contain some of the rules.
 */
int network_options_policy(const struct network_options *o, struct policy *ret,
			   struct warren_error *err) MUST_CHECK;
void network_options_done(struct network_options *o);

#endif /* CLI_NETWORK_OPTIONS_H */
