/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access.h - who the caller is, for every API: tokens, the owner, and requests that a
 * browser was tricked into
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
	char token[ID_LEN + 1]; /* "" : the owner, by the unix socket */
	uint64_t token_seq;
	char sandbox[ID_LEN + 1]; /* the only one that the token is for; "": all */
	int64_t expires_at;       /* of the token; 0: never */
};

/*
 * Whether the request is addressed to this service, and not sent by a foreign web page:
 * 0, or the refusal.
 */
int access_origin(const char *domain, const struct http_request *req,
		  struct api_error *err);
/* The caller that @secret belongs to; otherwise a refusal. */
int access_token(struct service *service, const char *secret, struct caller *ret,
		 struct api_error *err);
/* Whether the peer needs no token: @owner is the user who started the service. */
bool access_is_owner(uid_t owner, const struct http_peer *peer);
/* Whether that value of Authorization looks like one of Warren's tokens. */
bool access_is_token(const char *authorization);
int access_scopes_parse(const char *words, uint32_t *ret);
/*
 * Whether its body is not encoded: a Content-Encoding that is ignored would change its
 * meaning.
 */
bool access_body_is_plain(const struct http_request *req);
/* Whether the caller has the scope of that name. */
bool access_may(const struct caller *c, const char *scope);

#endif /* API_ACCESS_H */
