/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.c - the parameters of a query
 *
 * A value that is too long must not count as missing: without its `username`, a request
 * would use the files of another user. So all values are checked before the request is
 * handled, and a handler finds each value that the client has sent.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/e2b/internal.h"

#define QUERY_NAME_MAX 64

/*
 * The longest value of each parameter, in bytes. One that is not listed is as long as the
 * client wants: the head of a request has a limit (request.header).
 */
static const struct {
	const char *name;
	size_t max;
} query_limits[] = {
	{ "path", E2B_PATH_MAX },         { "username", E2B_USER_MAX },
	{ "template", E2B_TEMPLATE_MAX }, { "name", E2B_TEMPLATE_MAX },
	{ "teamID", E2B_WORD_MAX },       { "nextToken", E2B_TEMPLATE_MAX },
	{ "startedAfter", E2B_WORD_MAX }, { "state", E2B_WORD_MAX },
	{ "order", E2B_WORD_MAX },        { "level", E2B_WORD_MAX },
	{ "force", E2B_WORD_MAX },        { "limit", E2B_NUMBER_MAX },
	{ "logsOffset", E2B_NUMBER_MAX }, { "start", E2B_NUMBER_MAX },
	{ "cursor", E2B_NUMBER_MAX },     { "direction", E2B_WORD_MAX },
	{ "search", E2B_WORD_MAX },       { "end", E2B_NUMBER_MAX },
	{ "uid", E2B_NUMBER_MAX },        { "gid", E2B_NUMBER_MAX },
	{ "mode", E2B_NUMBER_MAX },       { "signature", E2B_SIGNATURE_MAX },
	{ "sandboxID", E2B_WORD_MAX },    { "signature_expiration", E2B_NUMBER_MAX },
};

/*
 * Decode the value of a parameter. 1: it is there; 0: it is not; an error of
 * percent_decode().
 */
static int query_find(const char *query, const char *name, char *ret, size_t size)
{
	char key[QUERY_NAME_MAX];
	const char *at = query;
	int r = 1;

	ret[0] = '\0';
	while (at && r == 1) {
		const char *value = at;

		r = http_query_next(&at, key, sizeof(key), NULL, 0);
		if (r == 1 && strcmp(key, name) == 0)
			return http_query_next(&value, key, sizeof(key), ret, size);
	}
	return r < 0 ? r : 0;
}

bool e2b_query(const struct call *c, const char *name, char *ret, size_t size)
{
	if (query_find(c->req->query, name, ret, size) == 1)
		return true;
	ret[0] = '\0';
	return false;
}

char *e2b_query_whole(const struct call *c, const char *name)
{
	size_t size = c->req->query ? strlen(c->req->query) + 1 : 1;
	char *value = malloc(size);

	if (value)
		(void)e2b_query(c, name, value, size);
	return value;
}

static int query_check_length(const char *name, const char *value, struct api_error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(query_limits); i++)
		if (strcmp(query_limits[i].name, name) == 0 &&
		    strlen(value) > query_limits[i].max)
			return api_error_set(err, API_ERR_INVALID_REQUEST,
					     "%s: it has %zu bytes; the maximum is %zu",
					     name, strlen(value), query_limits[i].max);
	return 0;
}

int e2b_query_check(const struct http_request *req, struct api_error *err)
{
	size_t size = req->query ? strlen(req->query) + 1 : 0;
	AUTO_FREE char *value = size > 1 ? malloc(size) : NULL;
	const char *at = value ? req->query : NULL;
	char key[QUERY_NAME_MAX];
	int r = 1;

	if (size > 1 && !value)
		return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	while (at && r == 1) {
		r = http_query_next(&at, key, sizeof(key), value, size);
		if (r == 1 && query_check_length(key, value, err) < 0)
			return -EBADMSG;
	}
	return r < 0 ? api_error_set(err, API_ERR_INVALID_REQUEST,
				     "the query is not percent-encoded UTF-8")
		     : 0;
}
