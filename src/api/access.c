/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access.c - identify the caller
 *
 * On the unix socket, which only the owner can open (0600), the owner of this process and
 * root need no token, because they could read the database anyway. All other clients need
 * a token. Requests that a web page makes a browser send are refused because of their
 * Origin, or because their Host is not the name of a listener.
 */
#include "api/access.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/v1/ops.h"
#include "service/core/service.h"

int access_scopes_parse(const char *words, uint32_t *ret)
{
	uint32_t scopes = 0;

	while (*words) {
		size_t n = strcspn(words, " ,");
		bool known = n == 0;

		for (size_t i = 0; n > 0 && v1_scope_names[i]; i++) {
			if (strlen(v1_scope_names[i]) == n &&
			    memcmp(v1_scope_names[i], words, n) == 0) {
				scopes |= 1U << i;
				known = true;
			}
		}
		if (!known)
			return -EINVAL;
		words += n + (words[n] != '\0');
	}
	*ret = scopes;
	return 0;
}

bool access_is_token(const char *authorization)
{
	if (strncasecmp(authorization, "Bearer ", 7) == 0)
		authorization += 7;
	return strncasecmp(authorization, "wrn_", 4) == 0 ||
	       strncasecmp(authorization, "e2b_", 4) == 0;
}

/* Return the length of "name:port" without the port, or of "[::1]:80" without the port
 * but with the brackets. */
static size_t host_length(const char *host)
{
	const char *end = host[0] == '[' ? strchr(host, ']') : NULL;

	return end ? (size_t)(end + 1 - host) : strcspn(host, ":");
}

/* Is @host an address, localhost, the service's domain, or a name below it? */
static bool host_is_ours(const char *domain, const char *host)
{
	size_t n = host_length(host), d = strlen(domain);
	struct in6_addr v6;
	struct in_addr v4;
	char name[256];

	if (n == 0 || n >= sizeof(name) || (host[n] != '\0' && host[n] != ':'))
		return false;
	(void)memcpy(name, host, n);
	name[n] = '\0';
	if (inet_pton(AF_INET, name, &v4) == 1 || strcasecmp(name, "localhost") == 0)
		return true;
	if (name[0] == '[' && name[n - 1] == ']') {
		name[n - 1] = '\0';
		return inet_pton(AF_INET6, name + 1, &v6) == 1;
	}
	return d > 0 && n >= d && strcasecmp(name + n - d, domain) == 0 &&
	       (n == d || name[n - d - 1] == '.');
}

int access_origin(const char *domain, const struct http_request *req,
		  struct api_error *err)
{
	const char *origin = http_header(req, "Origin");
	const char *host = http_header(req, "Host");
	const char *at;

	if (req->peer->kind == HTTP_PEER_UNIX)
		return 0;
	if (!host || !host_is_ours(domain, host))
		return api_error_set(
			err, API_ERR_FORBIDDEN,
			"this service does not serve the host '%.100s': use its "
			"address, or the domain in its configuration",
			host ? host : "");
	if (!origin)
		return 0;
	at = strstr(origin, "://");
	if (!at || strcasecmp(at + 3, host) != 0)
		return api_error_set(err, API_ERR_FORBIDDEN,
				     "requests from pages of '%.100s' are not allowed",
				     origin);
	return 0;
}

/* Set the caller from its token, which was looked up with the result @r. */
static int access_set(struct service *service, int r, const struct token_row *row,
		      const struct warren_error *why, struct caller *ret,
		      struct api_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (r == -EKEYEXPIRED)
		return api_error_set(err, API_ERR_UNAUTHORIZED, "the token has expired");
	if (r == -EKEYREVOKED)
		return api_error_set(err, API_ERR_UNAUTHORIZED, "the token was revoked");
	if (r == -ENOENT)
		return api_error_set(err, API_ERR_UNAUTHORIZED, "the token is not valid");
	if (r < 0)
		return api_error_from(err, why);
	(void)snprintf(ret->tenant, sizeof(ret->tenant), "%s", row->tenant);
	(void)memcpy(ret->token, row->id, sizeof(ret->token));
	ret->token_seq = row->seq;
	ret->expires_at = row->expires_at;
	(void)snprintf(ret->sandbox, sizeof(ret->sandbox), "%s",
		       row->sandbox ? row->sandbox : "");
	if (access_scopes_parse(row->scopes, &ret->scopes) < 0)
		return api_error_set(err, API_ERR_UNAUTHORIZED, "the token is not valid");
	if (ret->scopes & V1_SCOPE_IMAGES)
		ret->scopes |= V1_SCOPE_PULL;
	if (db_touch_token(service_db(service), row, service_time(), &ignored) < 0)
		service_metrics(service)->store_errors++;
	return 0;
}

int access_token(struct service *service, const char *secret, struct caller *ret,
		 struct api_error *err)
{
	AUTO_TOKEN_ROW struct token_row row = { 0 };
	struct warren_error why = WARREN_ERROR_INIT;
	int r = db_find_token(service_db(service), secret, service_time(), &row, &why);

	return access_set(service, r, &row, &why, ret, err);
}

int access_token_id(struct service *service, const char *id, struct caller *ret,
		    struct api_error *err)
{
	AUTO_TOKEN_ROW struct token_row row = { 0 };
	struct warren_error why = WARREN_ERROR_INIT;
	int r = db_get_token(service_db(service), id, service_time(), &row, &why);

	return access_set(service, r, &row, &why, ret, err);
}
bool access_is_owner(uid_t owner, const struct http_peer *peer)
{
	return peer->kind == HTTP_PEER_UNIX &&
	       (peer->uid == 0 || peer->uid == geteuid() || peer->uid == owner);
}

bool access_body_is_plain(const struct http_request *req)
{
	const char *encoding = http_header(req, "Content-Encoding");

	return !req->has_body || !encoding || !*encoding ||
	       strcasecmp(encoding, "identity") == 0;
}

bool access_may(const struct caller *c, const char *scope)
{
	uint32_t bit = 0;

	return access_scopes_parse(scope, &bit) == 0 &&
	       (c->scopes & (bit | V1_SCOPE_ADMIN)) != 0;
}
