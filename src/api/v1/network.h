/* SPDX-License-Identifier: Apache-2.0 */
/* network.h - network policies in requests */
#ifndef API_V1_NETWORK_H
#define API_V1_NETWORK_H

#include "api/v1/v1.h"

struct config_backend;
struct egress_usage;
struct json;

/*
 * Read the field `network` of a request of @tenant, and check it against the
 * configuration. With a policy, @out gets it as JSON, with the rules of its capabilities.
 * *@ret_terminates: the policy needs TLS to be terminated. Without @may_use_secrets, only
 * the capabilities of the configuration may use secrets. -EBADMSG: @err says why not.
 */
int network_read(struct v1 *v1, const char *tenant, bool may_use_secrets,
		 const struct body *body, const struct config_backend *backend,
		 struct buf *out, enum v1_network *ret, bool *ret_terminates,
		 struct api_error *err) MUST_CHECK;

/* Write what the sandbox has used, as `key`. */
void network_usage_to_json(struct json *j, const char *key,
			   const struct egress_usage *usage);

#endif /* API_V1_NETWORK_H */
