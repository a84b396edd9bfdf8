/* SPDX-License-Identifier: Apache-2.0 */
/* access.c - whether he who asks may do what he asks for */
#include "api/v1/v1.h"

#include <string.h>

#include "config/config.h"

/* A token that is for one sandbox opens what is below that, and nothing beside it. */
static bool is_its_own(const struct route *route, const struct caller *caller)
{
	return route->n_params > 0 &&
	       strncmp(route->op->path, "/v1/sandboxes/{", strlen("/v1/sandboxes/{")) ==
		       0 &&
	       strcmp(route->param[0], caller->sandbox) == 0;
}

static int read_token(struct v1 *v1, const char *auth, struct caller *ret,
		      struct api_error *err)
{
	if (strncasecmp(auth, "Bearer ", 7) != 0)
		return api_error_set(err, API_ERR_UNAUTHORIZED,
				     "Authorization must be 'Bearer <token>'");
	return access_token(v1->service, auth + 7, ret, err);
}

int access_check(struct v1 *v1, struct http_request *req, const struct route *route,
		 struct caller *ret, struct api_error *err)
{
	const struct api_op *op = route->op;
	const char *auth = http_header(req, "Authorization");
	int r = access_origin(v1->config->domain, req, err);

	*ret = (struct caller){ .tenant = DB_LOCAL };
	if (r < 0)
		return r;
	/* What is handed on to a server in a sandbox may be meant for that one. */
	if (auth && op->any_method && access_is_owner(v1->owner, req->peer) &&
	    !access_is_token(auth))
		auth = NULL;
	if (auth) {
		r = read_token(v1, auth, ret, err);
		/* What is open to all is open to who shows something that is worth nothing. */
		if (r < 0 && op->scope)
			return r;
		if (r < 0)
			*err = (struct api_error){ 0 };
	} else if (access_is_owner(v1->owner, req->peer)) {
		ret->scopes = V1_SCOPE_ADMIN;
	} else if (op->scope) {
		return api_error_set(err, API_ERR_UNAUTHORIZED,
				     "a token is needed: Authorization: Bearer <token>; "
				     "'warren token create' makes one");
	}
	if (op->scope && ret->sandbox[0] && !is_its_own(route, ret))
		return api_error_set(err, API_ERR_FORBIDDEN,
				     "the token is for the sandbox '%s' and for nothing "
				     "else",
				     ret->sandbox);
	if (op->scope && !(ret->scopes & (op->scope | V1_SCOPE_ADMIN))) {
		unsigned bit = (unsigned)__builtin_ctz(op->scope);

		r = api_error_set(err, API_ERR_FORBIDDEN,
				  "the token lacks the scope '%s'", v1_scope_names[bit]);
		api_error_text(err, "scope", "%s", v1_scope_names[bit]);
		return r;
	}
	return 0;
}
