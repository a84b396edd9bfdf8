/* SPDX-License-Identifier: Apache-2.0 */
/* access.c - check whether the caller may do what it requests */
#include "api/v1/v1.h"

#include <errno.h>
#include <string.h>

#include "config/config.h"

#define BELOW_SANDBOX "/v1/sandboxes/{"

static bool is_below_sandbox(const struct route *route)
{
	return route->n_params > 0 &&
	       strncmp(route->op->path, BELOW_SANDBOX, strlen(BELOW_SANDBOX)) == 0;
}

int access_sandbox(struct v1 *v1, const struct caller *caller, const char *word,
		   char ret_id[ID_LEN + 1], struct api_error *err)
{
	bool all = caller->scopes & V1_SCOPE_ADMIN;
	struct warren_error why = WARREN_ERROR_INIT;
	int r = sandbox_resolve(v1->service, caller->tenant, all, word, ret_id, &why);

	if (r == -ENOENT)
		return api_error_set(err, API_ERR_SANDBOX_NOT_FOUND, "%s", why.msg);
	if (r == -ENOTUNIQ)
		return api_error_set(err, API_ERR_AMBIGUOUS_ID, "%s", why.msg);
	return r < 0 ? api_error_from(err, &why) : 0;
}

/*
 * Replace the sandbox that the path names by its id. A missing sandbox is refused later.
 */
static int resolve_route(struct v1 *v1, struct route *route, const struct caller *caller,
			 struct api_error *err)
{
	int r;

	if (!is_below_sandbox(route))
		return 0;
	r = access_sandbox(v1, caller, route->param[0], route->sandbox, err);
	if (r == 0)
		route->param[0] = route->sandbox;
	return r < 0 && err->code != API_ERR_SANDBOX_NOT_FOUND ? r : 0;
}

/*
 * A token for one sandbox gives access to that sandbox only. A snapshot or a fork of it
 * belongs to the tenant: it lasts, counts, and a name may replace what others use.
 */
static bool is_its_own(const struct route *route, const struct caller *caller)
{
	return is_below_sandbox(route) && strcmp(route->param[0], caller->sandbox) == 0 &&
	       route->op != &v1_face.ops[V1_CREATE_SNAPSHOT] &&
	       route->op != &v1_face.ops[V1_FORK_SANDBOX];
}

static int read_token(struct v1 *v1, const char *auth, struct caller *ret,
		      struct api_error *err)
{
	if (strncasecmp(auth, "Bearer ", 7) != 0)
		return api_error_set(err, API_ERR_UNAUTHORIZED,
				     "Authorization must be 'Bearer <token>'");
	return access_token(v1->service, auth + 7, ret, err);
}

int access_check(struct v1 *v1, struct http_request *req, struct route *route,
		 struct caller *ret, struct api_error *err)
{
	struct api_error ambiguous = { 0 };
	const struct api_op *op = route->op;
	const char *auth = http_header(req, "Authorization");
	int r = access_origin(v1->config->domain, req, err);

	*ret = (struct caller){ .tenant = DB_LOCAL };
	if (r < 0)
		return r;
	/* The Authorization header of a forwarded request may be meant for the server in
	 * the sandbox. */
	if (auth && op->any_method && access_is_owner(v1->owner, req->peer) &&
	    !access_is_token(auth))
		auth = NULL;
	if (auth) {
		r = read_token(v1, auth, ret, err);
		/* A public operation is also allowed with an invalid token. */
		if (r < 0 && op->scope)
			return r;
		if (r < 0)
			*err = (struct api_error){ 0 };
	} else if (access_is_owner(v1->owner, req->peer)) {
		ret->scopes = V1_SCOPE_ADMIN;
	} else if (op->scope) {
		return api_error_set(
			err, API_ERR_UNAUTHORIZED,
			"a token is required: Authorization: Bearer <token>; "
			"'warren token create' creates one");
	}
	/* Only a client with the scope is informed that a name is ambiguous. */
	r = op->scope ? resolve_route(v1, route, ret, &ambiguous) : 0;
	if (op->scope && ret->sandbox[0] && !is_its_own(route, ret))
		return api_error_set(err, API_ERR_FORBIDDEN,
				     "the token is valid only for the sandbox '%s'%s",
				     ret->sandbox,
				     is_below_sandbox(route) && strcmp(route->param[0],
								       ret->sandbox) == 0
					     ? ", not for copies of it"
					     : "");
	if (op->scope && !(ret->scopes & (op->scope | V1_SCOPE_ADMIN))) {
		unsigned bit = (unsigned)__builtin_ctz(op->scope);

		r = api_error_set(err, API_ERR_FORBIDDEN,
				  "the token lacks the scope '%s'", v1_scope_names[bit]);
		api_error_text(err, "scope", "%s", v1_scope_names[bit]);
		return r;
	}
	if (r < 0)
		*err = ambiguous;
	return r;
}
