/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decide.h - one function that judges every request: DNS, HTTP, CONNECT, TLS and SOCKS
 *
 *	struct policy_index *x;
 *	struct request q = REQUEST_INIT;
 *	struct decision d;
 *
 *	r = policy_index_new(&policy, &x, err);
 *	r = host_parse_single(text, n, name, &q.host, err);
 *	q.port = 443;
 *	q.protocol = RULE_TLS;
 *	policy_decide(x, &q, &d);
 *
 * The order of a decision:
 *
 *	1. If a rule denies any form that the request may still take: denied.
 *	2. If no rule allows every form that the request may still take: denied.
 *	3. If the address that the name resolved to is known: repeat these steps for the
 *	   address. Step 2 is skipped for a public address: the name was allowed.
 *
 * So a request for an address without a name needs a rule with an address or a network. A
 * special-purpose address always needs a rule for special-purpose addresses (host.h),
 * whether or not it comes from a name.
 *
 * A connection is judged several times, as more becomes known about it. While @opening is
 * set, an unknown part (port 0, protocol 0) may still become anything: the request is
 * denied only if every form that it can take is denied. Nothing may be forwarded before
 * the request was allowed without @opening.
 */
#ifndef NETWORK_DECIDE_H
#define NETWORK_DECIDE_H

#include "network/policy.h"

struct request {
	struct host host; /* one name or one address; host_parse_single() */
	bool has_address; /* the address that the name resolved to is known */
	bool opening;     /* some parts are not known yet */
	struct host address;
	uint16_t port;
	uint8_t protocol;   /* one of enum rule_protocol; RULE_TCP is not inspected */
	const char *method; /* method of an inspected request; NULL: not inspected */
	const char *path;   /* result of rule_path(); NULL: unknown or ambiguous */
};

enum decision_why {
	DECISION_RULE,    /* a rule allows or denies the request */
	DECISION_NO_RULE, /* no rule allows the request */
	DECISION_SPECIAL, /* the address is special-purpose, and no rule lists it */
	DECISION_INVALID, /* the request has no port, no protocol or no single host */
};

struct decision {
	bool allowed;
	enum decision_why why;
	const struct rule *rule; /* for DECISION_RULE; borrowed from the policy */
	bool by_address;         /* the address was decisive, not the name */
};

struct policy_index;

/* @p is borrowed, and must not change. -ENOMEM. */
int policy_index_new(const struct policy *p, struct policy_index **ret,
		     struct warren_error *err) MUST_CHECK;
/* Accepts NULL; returns NULL. */
struct policy_index *policy_index_free(struct policy_index *x);

static inline void policy_index_free_p(struct policy_index **x)
{
	(void)policy_index_free(*x);
}

#define AUTO_POLICY_INDEX CLEANUP(policy_index_free_p)

void policy_decide(const struct policy_index *x, const struct request *q,
		   struct decision *ret);
/*
 * Return whether TLS to this host and port must be terminated, so that its requests can
 * be inspected: a rule adds headers to some of them, or the policy allows some requests
 * but not a connection that is not inspected. Only for names; the client must show the
 * name (SNI).
 */
bool policy_terminates(const struct policy_index *x, const struct host *h, uint16_t port);
/*
 * The rule whose headers must be added to the inspected request @q, which is allowed;
 * NULL: none. For a request that is not allowed, do not add any.
 */
const struct rule *policy_headers(const struct policy_index *x, const struct request *q);
/*
 * Add to @to, as a rule that allows, the smallest rule that would have allowed @q.
 * Returns 1, or 0 if no such rule exists: @q was allowed, a rule denies it, or it is
 * invalid.
 */
int decision_suggest(const struct request *q, const struct decision *d, struct policy *to,
		     struct warren_error *err) MUST_CHECK;
/* Describe the decision for users: "no rule allows pypi.org:443 (https)". */
void decision_text(const struct request *q, const struct decision *d, struct buf *out);

/*
 * Iterate over the rules in a list whose hosts contain @h (host_contains()), from the
 * smallest host to the largest; rules with the same host are in list order. If @e is not
 * NULL, rules that share no port or no stream with it are skipped.
 */
struct policy_walk {
	const struct policy_index *index;
	const struct extent *extent;
	uint32_t node, entry, end;
	bool deny, everything;
};

void policy_walk_start(struct policy_walk *w, const struct policy_index *x, bool deny,
		       const struct host *h, const struct extent *e);
const struct rule *policy_walk_next(struct policy_walk *w); /* NULL: there are no more */

#endif /* NETWORK_DECIDE_H */
