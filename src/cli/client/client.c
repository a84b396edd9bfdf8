/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - find the service, authenticate, and call it */
#include "cli/client/client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/userdirs.h"
#include "cli/client/progress.h"

#define SYSTEM_SOCKET "/run/warren/warren.sock"
#define HOST_EXAMPLE  "unix:" SYSTEM_SOCKET
#define PAGE          "1000"

static int use_socket(struct client *c, const char *path, struct warren_error *err)
{
	if (path[0] != '/')
		return error_set(err, EINVAL,
				 "WARREN_HOST: '%s' is not an absolute path (example: "
				 "WARREN_HOST=" HOST_EXAMPLE ")",
				 path);
	c->socket = strdup(path);
	c->base = strdup("http://localhost");
	if (!c->socket || !c->base || asprintf(&c->host, "unix:%s", path) < 0)
		return error_errno(err, ENOMEM, "find the service");
	return 0;
}

/* Parse "http://host:port" without a path. */
static int use_url(struct client *c, const char *text, struct warren_error *err)
{
	const char *host = strstr(text, "://") + 3;
	size_t n = strcspn(host, "/");

	if (n == 0 || strchr(host, '@') || strspn(host + n, "/") != strlen(host + n))
		return error_set(err, EINVAL,
				 "WARREN_HOST: '%s' is not http[s]://HOST[:PORT] "
				 "(example: WARREN_HOST=https://box.example.org:8443)",
				 text);
	c->base = strndup(text, (size_t)(host - text) + n);
	c->host = c->base ? strdup(c->base) : NULL;
	return c->host ? 0 : error_errno(err, ENOMEM, "find the service");
}

/* Use the default socket. If it does not exist, no service is running, which is reported
 * later. */
static int use_default(struct client *c, struct warren_error *err)
{
	AUTO_FREE char *dir = NULL, *path = NULL;
	int r;

	c->own = true;
	if (geteuid() == 0)
		return use_socket(c, SYSTEM_SOCKET, err);
	r = user_run_dir(&dir, err);
	if (r == 0)
		r = user_dir_check(dir, err);
	if (r < 0 && r != -ENOENT && r != -ENOTDIR)
		return error_wrap(err, "find the service");
	*err = (struct warren_error)WARREN_ERROR_INIT;
	if (asprintf(&path, "%s/warren.sock", dir) < 0)
		return error_errno(err, ENOMEM, "find the service");
	return use_socket(c, path, err);
}

static int use_host(struct client *c, const char *text, struct warren_error *err)
{
	if (!text || !*text)
		return use_default(c, err);
	if (strncmp(text, "unix:", 5) == 0)
		return use_socket(c, text + 5, err);
	if (strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0)
		return use_url(c, text, err);
	return error_set(err, EINVAL,
			 "WARREN_HOST: '%s' is neither unix:/PATH, http://HOST:PORT nor "
			 "https://HOST:PORT (example: WARREN_HOST=" HOST_EXAMPLE ")",
			 text);
}

static int use_token(struct client *c, struct warren_error *err)
{
	const char *token = getenv("WARREN_TOKEN");

	if (!token || !*token)
		return 0;
	/*
	 * The token becomes a header, so it must not contain a character that ends the
	 * line.
	 */
	for (const char *p = token; *p; p++)
		if (*p <= ' ' || *p > '~')
			return error_set(
				err, EINVAL,
				"WARREN_TOKEN is not a token: it has a character that "
				"tokens never contain");
	if (asprintf(&c->authority, "Authorization: Bearer %s", token) < 0) {
		c->authority = NULL;
		return error_errno(err, ENOMEM, "store the token");
	}
	return 0;
}

int client_open(struct client **ret, struct warren_error *err)
{
	AUTO_CLIENT struct client *c = NULL;
	int r = client_open_at(getenv("WARREN_HOST"), &c, err);

	if (r == 0)
		r = use_token(c, err);
	if (r == 0)
		*ret = TAKE_PTR(c);
	return r;
}

int client_open_at(const char *host, struct client **ret, struct warren_error *err)
{
	AUTO_CLIENT struct client *c = calloc(1, sizeof(*c));
	int r;

	if (!c || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return error_errno(err, ENOMEM, "start a client");
	c->ca = getenv("WARREN_CA");
	if (c->ca && !*c->ca)
		c->ca = NULL;
	c->multi = curl_multi_init();
	if (!c->multi)
		return error_errno(err, ENOMEM, "start a client");
	r = use_host(c, host, err);
	if (r == 0)
		*ret = TAKE_PTR(c);
	return r;
}

struct client *client_close(struct client *c)
{
	if (!c)
		return NULL;
	curl_multi_cleanup(c->multi);
	if (c->authority)
		explicit_bzero(c->authority, strlen(c->authority));
	free(c->authority);
	free(c->base);
	free(c->socket);
	free(c->host);
	free(c);
	return NULL;
}

static void put_encoded(struct buf *path, const char *value)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789-._~";

	for (; *value; value++) {
		if (strchr(plain, *value))
			buf_add(path, value, 1);
		else
			buf_printf(path, "%%%02X", (unsigned char)*value);
	}
}

void put_query(struct buf *path, const char *name, const char *value)
{
	bool first = !path->data || !strchr(path->data, '?');

	buf_printf(path, "%c%s=", first ? '?' : '&', name);
	put_encoded(path, value);
}

bool client_said(const struct client *c, const char *code)
{
	return strcmp(c->code, code) == 0;
}

static int read_answer(const struct request *r, json_t **ret, struct warren_error *err)
{
	json_error_t why;

	*ret = json_loadb(r->answer.data ? r->answer.data : "", r->answer.len, 0, &why);
	return *ret ? 0
		    : error_set(err, EPROTO, "%s sent an answer that is not JSON: %s",
				r->client->host, why.text);
}

int client_call(struct client *c, const char *method, const char *path,
		const json_t *body, json_t **ret, struct warren_error *err)
{
	AUTO_REQUEST struct request *request = NULL;
	int r = request_new(c, method, path, &request, err);

	if (r == 0 && body)
		r = request_json(request, body, err);
	if (r == 0)
		r = request_start(request, err);
	if (r == 0)
		r = request_wait(request, err);
	return r == 0 && ret ? read_answer(request, ret, err) : r;
}

int client_list(struct client *c, const char *path, const char *key,
		int (*each)(void *arg, json_t *item), void *arg, struct warren_error *err)
{
	AUTO_BUF struct buf page = BUF_INIT(PATH_LIMIT);
	const char *next;

	buf_puts(&page, path);
	put_query(&page, "limit", PAGE);
	do {
		AUTO_JSON json_t *answer = NULL;
		const json_t *items;
		int r = client_call(c, "GET", page.data, NULL, &answer, err);

		if (r < 0)
			return r;
		items = json_object_get(answer, key);
		for (size_t i = 0; i < json_array_size(items); i++) {
			r = each(arg, json_array_get(items, i));
			if (r != 0)
				return r;
		}
		next = json_string_value(json_object_get(answer, "next_cursor"));
		if (next) {
			page.len = 0;
			buf_puts(&page, path);
			put_query(&page, "limit", PAGE);
			put_query(&page, "cursor", next);
		}
	} while (next && !page.failed);
	return 0;
}
