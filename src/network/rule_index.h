/* SPDX-License-Identifier: Apache-2.0 */
/* rule_index.h - the first rule for a request, without trying all of them */
#ifndef NETWORK_RULE_INDEX_H
#define NETWORK_RULE_INDEX_H

#include "network/decide.h"

enum rule_headers {
	RULES_ALL,
	RULES_WITH_HEADERS,
	RULES_WITHOUT_HEADERS,
};

struct rule_query {
	bool deny;   /* among the rules that deny */
	bool covers; /* the rule must cover the extent, and not only touch it */
	enum rule_headers headers;
	const struct host *host;     /* one name or one address */
	const struct extent *extent; /* its path is not a prefix */
};

/*
 * Return the first rule that applies: of the smallest host first, and in the order of the
 * list among the rules for the same host. NULL: there is none.
 */
const struct rule *policy_find_rule(const struct policy_index *x,
				    const struct rule_query *q);

#endif /* NETWORK_RULE_INDEX_H */
