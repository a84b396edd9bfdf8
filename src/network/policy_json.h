/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_json.h - read a policy from JSON values, which YAML becomes as well
 *
 * Errors begin with the field, as a JSON pointer: "/allow/0/host: must not be empty".
 */
#ifndef NETWORK_POLICY_JSON_H
#define NETWORK_POLICY_JSON_H

#include <jansson.h>

#include "network/policy.h"

/*
 * @at is the pointer to @in, "" or "/network". -EINVAL: the policy is not valid; -E2BIG:
 * it has too many rules; -ENOMEM.
 * @ret is an empty policy, and stays one on failure.
 */
int policy_read(const json_t *in, const char *at, struct policy *ret,
		struct warren_error *err) MUST_CHECK;

#endif /* NETWORK_POLICY_JSON_H */
