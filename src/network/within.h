/* SPDX-License-Identifier: Apache-2.0 */
/*
 * within.h - compare and intersect policies: what delegation rests on
 *
 * policy_within() is never true if there is a request that the child allows and the
 * parent does not. It may be false although there is none: several hosts of the parent
 * that together make up one of the child's are not put together.
 */
#ifndef NETWORK_WITHIN_H
#define NETWORK_WITHIN_H

#include "network/policy.h"

/*
 * Does @child never allow more than @parent? 1: it does not; 0: it may, and @err says
 * which rule or limit is why; -ENOMEM. The time is at worst proportional to the number of
 * rules that the parent denies and the child does not, times that of those that the
 * child allows.
 */
int policy_within(const struct policy *parent, const struct policy *child,
		  struct warren_error *err) MUST_CHECK;

/*
 * What both @a and @b allow, exactly: @ret, an empty policy. -E2BIG: it would have more
 * rules, or a rule more ports or paths, than a policy may have.
 */
int policy_intersect(const struct policy *a, const struct policy *b, struct policy *ret,
		     struct warren_error *err) MUST_CHECK;

#endif /* NETWORK_WITHIN_H */
