/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code.h - begin a code run on behalf of a client, for all APIs
 *
 * Turns a request into a plan and a sandbox, with the service's defaults, maximum values
 * and policy. service/code/code.h then does the rest.
 */
#ifndef API_CODE_H
#define API_CODE_H

#include "api/access.h"
#include "api/errors.h"
#include "service/code/code.h"

struct config;
struct warden_policy;

struct code_client {
	struct service *service;
	const struct config *config;
	const struct warden_policy *policy;
	const struct caller *caller;
	const char *backend, *tier; /* NULL: the default of the service */
	uint64_t cpu_millis;        /* 0: the default */
};

/*
 * Like code_begin(). What @request points to must stay valid until the run is done or
 * cancelled.
 */
int api_code_begin(const struct code_client *where, const struct code_request *request,
		   const struct code_callbacks *callbacks, void *ctx,
		   struct code_run **ret, struct api_error *err) MUST_CHECK;
/* Convert the error of a run that has no result. */
void api_code_failed(struct api_error *err, const struct warren_error *why);
/* Pull the images of languages in the background, if this is configured. */
void api_code_pull(struct service *s, const struct config *config);

#endif /* API_CODE_H */
