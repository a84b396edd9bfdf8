/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_json.h - read a policy from JSON values, which may come from YAML
 *
 * Errors begin with the field, as a JSON pointer: "/allow/0/host: must not be empty".
 */
#ifndef NETWORK_POLICY_JSON_H
#define NETWORK_POLICY_JSON_H

#include <jansson.h>

#include "network/policy.h"

/*
 * Read the policy @in. @at is the JSON pointer to it, such as "" or "/network". -EINVAL:
 * the policy is not valid; -E2BIG: it has too many rules; -ENOMEM. @ret must be an empty
 * policy. On failure, it stays empty.
 */
int policy_read(const json_t *in, const char *at, struct policy *ret,
		struct warren_error *err) MUST_CHECK;
/*
 * Like policy_read(), for the process that adds headers to requests: the policy may also
 * have the field `secrets`, as policy_write_secrets() (header.h) writes it. Every secret
 * in a header must have a value.
 */
int policy_read_secrets(const json_t *in, const char *at, struct policy *ret,
			struct warren_error *err) MUST_CHECK;

#endif /* NETWORK_POLICY_JSON_H */
