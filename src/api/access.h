/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access.h - identifies the caller of a request for every API, and refuses requests
 * forged by web pages
 */
#ifndef API_ACCESS_H
#define API_ACCESS_H

#include "api/errors.h"
#include "db/db.h"
#include "net/http.h"

struct service;

struct caller {
	char tenant[DB_NAME_MAX + 1];
	uint32_t scopes;
	char token[ID_LEN + 1]; /* "": the owner, through the unix socket */
	uint64_t token_seq;
	char sandbox[ID_LEN + 1]; /* the only sandbox that the token may use; "": all */
	int64_t expires_at;       /* when the token expires; 0: never */
};

/*
 * Check that the request is addressed to this service and does not come from a foreign
 * web page: 0, or a refusal in @err.
 */
int access_origin(const char *domain, const struct http_request *req,
		  struct api_error *err);
/* Find the caller by the token @secret: 0, or a refusal in @err. */
int access_token(struct service *service, const char *secret, struct caller *ret,
		 struct api_error *err);
/* The same by the id of the token, which the caller has proved to know in another way. */
int access_token_id(struct service *service, const char *id, struct caller *ret,
		    struct api_error *err);
/*
 * Return whether the client needs no token, because it is @owner, the user who started
 * the service.
 */
bool access_is_owner(uid_t owner, const struct http_peer *peer);
/* Return whether the value of Authorization or X-API-Key looks like a token of Warren. */
bool access_is_token(const char *authorization);
int access_scopes_parse(const char *words, uint32_t *ret);
/*
 * Return whether the body has no Content-Encoding. Ignoring an encoding would change the
 * meaning of the body.
 */
bool access_body_is_plain(const struct http_request *req);
/* Return whether the caller has the scope with this name. */
bool access_may(const struct caller *c, const char *scope);

#endif /* API_ACCESS_H */
