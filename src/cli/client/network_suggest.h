/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network_suggest.h - the smallest policy that would have sufficed, from what a sandbox
 * used and what it was denied
 *
 * A record is what warren-egress knows about a sandbox (egress/record.h): the policy
 * `used`, and `denials`, some of which have a `rule` that would have allowed them. Names
 * in it were chosen inside the sandbox, so a rule is used only if policy_read() accepts
 * it.
 */
#ifndef CLI_CLIENT_NETWORK_SUGGEST_H
#define CLI_CLIENT_NETWORK_SUGGEST_H

#include <jansson.h>

#include "base/buf.h"
#include "network/policy.h"

/* Append options of `warren run`: first what was used, then what each denial needs. */
int network_suggest_options(const json_t *record, struct buf *out,
			    struct warren_error *err) MUST_CHECK;
/* Build one policy of both; @ret must be empty. */
int network_suggest_policy(const json_t *record, struct policy *ret,
			   struct warren_error *err) MUST_CHECK;
/* Append the options that would have allowed a denial; nothing: there are none. */
void network_suggest_denial(const json_t *denial, struct buf *out);
/* Append text that a sandbox chose, without characters that control a terminal. */
void network_put_clean(struct buf *out, const char *text);

#endif /* CLI_CLIENT_NETWORK_SUGGEST_H */
