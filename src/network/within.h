/* SPDX-License-Identifier: Apache-2.0 */
/*
 * within.h - compare and intersect policies, as the basis for delegating access
 *
 * policy_within() never returns 1 if there is a request that the child allows and the
 * parent does not. It may return 0 although there is no such request: it does not notice
 * that several hosts of the parent together cover one host of the child.
 */
#ifndef NETWORK_WITHIN_H
#define NETWORK_WITHIN_H

#include "network/policy.h"

/*
 * Check that @child never allows more than @parent. 1: it does not; 0: it may, and @err
 * names the rule or limit; -ENOMEM. The worst-case time is proportional to A * B. A is
 * the number of denying rules that only the parent has; B is the number of rules with
 * which the child allows.
 *
 * Headers (header.h) are compared, too: the child must add the same headers as the parent
 * to the same requests. With more, it would use a secret that the parent does not give;
 * with fewer, a client could send its own header where the parent replaces it.
 */
int policy_within(const struct policy *parent, const struct policy *child,
		  struct warren_error *err) MUST_CHECK;

/*
 * Add to @ret, an empty policy, exactly what both @a and @b allow. Headers come from @a,
 * the policy of the grantor: a request has the headers that @a adds to it. A rule of @b
 * may repeat them or have none; where it has others, nothing is allowed. The values of
 * secrets are not copied. -E2BIG: the result
 * would have too many rules, or a rule with too many ports or paths.
 */
int policy_intersect(const struct policy *a, const struct policy *b, struct policy *ret,
		     struct warren_error *err) MUST_CHECK;

/*
 * Add to @p what @by denies, and the limits of @by that @p does not have. What @p allows
 * or limits otherwise does not change, so policy_within() may still be 0. Has no effect
 * if it is repeated. -ENOMEM; -E2BIG: @p would have too many rules.
 */
int policy_restrict(struct policy *p, const struct policy *by,
		    struct warren_error *err) MUST_CHECK;

#endif /* NETWORK_WITHIN_H */
