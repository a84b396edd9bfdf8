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
 *	1. A rule that denies any of what the request may be: denied.
 *	2. A rule that allows all of what the request may be; without one: denied.
 *	3. If the address that the name resolved to is known: steps 1 and 2 for the
 *	   address. Step 2 is skipped for a public address: the name was allowed.
 *
 * So an address that was not a name's needs a rule with an address or a network, and a
 * special-purpose address needs one for special-purpose addresses (host.h), however it
 * was found.
 *
 * A connection is judged several times, as more of it is known. While @opening, a part
 * that is not known (port 0, protocol 0) may still become anything: the request is
 * denied only if everything that it can become is denied. Nothing may be sent on before
 * it was judged without @opening.
 */
#ifndef NETWORK_DECIDE_H
#define NETWORK_DECIDE_H

#include "network/policy.h"

struct request {
	struct host host; /* one name or one address; host_parse_single() */
	bool has_address; /* the address that the name resolved to is known */
	bool opening;     /* not all is known yet */
	struct host address;
	uint16_t port;
	uint8_t protocol;   /* one of enum rule_protocol: RULE_TCP is not looked into */
	const char *method; /* of a request that is seen; NULL: it is not */
	const char *path;   /* of rule_path(); NULL: not known, or servers differ */
};

enum decision_why {
	DECISION_RULE,    /* a rule allows or denies it */
	DECISION_NO_RULE, /* no rule allows it */
	DECISION_SPECIAL, /* its address is special, and not listed */
	DECISION_INVALID, /* the request has no port, no protocol or no single host */
};

struct decision {
	bool allowed;
	enum decision_why why;
	const struct rule *rule; /* for DECISION_RULE; it is the policy's */
	bool by_address;         /* it is about the address, not about the name */
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
 * Add to @to, as a rule that allows, the smallest rule that would have allowed @q.
 * Returns 1, or 0 if no such rule exists: it was allowed, a rule denies it, or it is
 * invalid.
 */
int decision_suggest(const struct request *q, const struct decision *d, struct policy *to,
		     struct warren_error *err) MUST_CHECK;
/* "no rule allows pypi.org:443 (https)": for people. */
void decision_text(const struct request *q, const struct decision *d, struct buf *out);

/*
 * The rules of a list whose hosts contain @h (host_contains()), from the smallest host to
 * the largest; within a host, in the order of the list. Rules that have no port or no
 * stream of @e are passed over, if it is not NULL.
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
