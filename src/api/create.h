/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create.h - create sandboxes for any API by the rules of v1: its schema, defaults,
 * maximum values, templates and policy
 */
#ifndef API_CREATE_H
#define API_CREATE_H

#include <jansson.h>

#include "api/access.h"

struct sandbox;

/*
 * Create a sandbox for @caller from @request, an object like the body of create_sandbox.
 * @mark is NULL, or a name to record as the sandbox's template. It should contain a
 * colon, because no real template has a colon in its name. Use sandbox_wait() for the
 * outcome. -EBADMSG: a refusal in @err.
 */
typedef int (*api_create_fn)(void *ctx, const struct caller *caller, json_t *request,
			     const char *mark, struct sandbox **ret,
			     struct api_error *err);

#endif /* API_CREATE_H */
