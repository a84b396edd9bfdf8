/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create.h - how an API creates sandboxes by the rules of v1: its schema, defaults,
 * maxima, templates and policy
 */
#ifndef API_CREATE_H
#define API_CREATE_H

#include <jansson.h>

#include "api/access.h"

struct sandbox;

/*
 * Create a sandbox for @caller from @request, an object like the body of create_sandbox.
 * @mark NULL, or a name that is recorded as its template; no template has such a name if
 * it contains a colon. Use sandbox_wait() for the outcome. -EBADMSG: a refusal in @err.
 */
typedef int (*api_create_fn)(void *ctx, const struct caller *caller, json_t *request,
			     const char *mark, struct sandbox **ret,
			     struct api_error *err);

#endif /* API_CREATE_H */
