/* SPDX-License-Identifier: Apache-2.0 */
/* trust.c - let programs in a sandbox trust the authority of warren-egress */
#include <jansson.h>
#include <string.h>

#include "network/policy_json.h"
#include "service/network/internal.h"

const char *const network_trust_env[] = {
	"SSL_CERT_FILE=" WARREN_TRUST_FILE,
	"CURL_CA_BUNDLE=" WARREN_TRUST_FILE,
	"REQUESTS_CA_BUNDLE=" WARREN_TRUST_FILE,
	"PIP_CERT=" WARREN_TRUST_FILE,
	"GIT_SSL_CAINFO=" WARREN_TRUST_FILE,
	"CARGO_HTTP_CAINFO=" WARREN_TRUST_FILE,
	"NODE_EXTRA_CA_CERTS=" WARREN_TRUST_FILE,
	"npm_config_cafile=" WARREN_TRUST_FILE,
	"AWS_CA_BUNDLE=" WARREN_TRUST_FILE,
	"DENO_CERT=" WARREN_TRUST_FILE,
	NULL,
};

bool trust_needed(const char *policy)
{
	/* Most policies have none of these, and need not be parsed. */
	static const char *const fields[] = { "\"headers\"", "\"methods\"", "\"paths\"" };
	AUTO_POLICY struct policy p = { 0 };
	struct warren_error ignored = WARREN_ERROR_INIT;
	bool found = false;
	json_t *in;

	for (size_t i = 0; policy && i < ARRAY_SIZE(fields); i++)
		found = found || strstr(policy, fields[i]);
	if (!found)
		return false;
	in = json_loads(policy, 0, NULL);
	/*
	 * If the policy cannot be read now, trusting the authority without need does no
	 * harm.
	 */
	found = !in || policy_read(in, "/network", &p, &ignored) < 0 ||
		policy_needs_trust(&p);
	json_decref(in);
	return found;
}
