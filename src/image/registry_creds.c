/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry_creds.c - logins from docker's configuration: auths, credsStore, credHelpers
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/fd.h"
#include "image/registry_creds.h"

#define CONFIG_MAX       (1 << 20)
#define DOCKER_HUB       "docker.io"
#define DOCKER_HUB_LOGIN "https://index.docker.io/v1/" /* name of its stored logins */
#define TOKEN_USER \
	"<token>" /* with this name, the secret of a helper is a refresh token */

void creds_free_secret(char **s)
{
	if (*s)
		OPENSSL_cleanse(*s, strlen(*s));
	free(*s);
	*s = NULL;
}

void creds_done(struct creds *c)
{
	creds_free_secret(&c->user);
	creds_free_secret(&c->secret);
	creds_free_secret(&c->identity);
	c->note[0] = '\0';
}

void creds_path(const char *given, char path[CREDS_PATH_MAX])
{
	const char *dir = secure_getenv("DOCKER_CONFIG"), *home = secure_getenv("HOME");

	path[0] = '\0';
	if (given)
		(void)snprintf(path, CREDS_PATH_MAX, "%s", given);
	else if (dir && *dir)
		(void)snprintf(path, CREDS_PATH_MAX, "%s/config.json", dir);
	else if (home && *home)
		(void)snprintf(path, CREDS_PATH_MAX, "%s/.docker/config.json", home);
}

int creds_load(const char *given, json_t **ret, struct warren_error *err)
{
	AUTO_FREE char *text = malloc(CONFIG_MAX);
	char path[CREDS_PATH_MAX];
	json_error_t why;
	ssize_t n;

	if (!text)
		return error_errno(err, ENOMEM, "read the docker configuration");
	creds_path(given, path);
	*ret = NULL;
	if (!path[0])
		return 0;
	n = fd_read_file_at(AT_FDCWD, path, text, CONFIG_MAX);
	if (!given && (n == -ENOENT || n == -ENOTDIR || n == -EACCES))
		return 0;
	if (n < 0)
		return error_errno(err, (int)-n, "read the docker configuration %s",
				   path);
	*ret = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &why);
	OPENSSL_cleanse(text, (size_t)n);
	if (!json_is_object(*ret)) {
		json_decref(*ret);
		*ret = NULL;
		return error_set(err, EINVAL,
				 "%s is not a docker configuration: line %d is not JSON",
				 path, why.line > 0 ? why.line : 1);
	}
	return 0;
}

/* Decode base64("user:secret"), as `docker login` stores it. */
static int decode_auth(const char *auth, struct creds *c)
{
	size_t n = strlen(auth);
	AUTO_FREE char *plain = NULL;
	char *colon;

	if (n == 0 || n > 128 << 10)
		return -EINVAL;
	plain = calloc(1, n);
	if (!plain)
		return -ENOMEM;
	if (base64_decode(auth, n, plain) < 0)
		return -EINVAL;
	colon = strchr(plain, ':');
	if (!colon)
		return -EINVAL;
	c->user = strndup(plain, (size_t)(colon - plain));
	c->secret = strdup(colon + 1);
	OPENSSL_cleanse(plain, n);
	return c->user && c->secret ? 0 : -ENOMEM;
}

static const char *registry_creds_text_of(const json_t *object, const char *key)
{
	const char *s = json_string_value(json_object_get(object, key));

	return s && *s ? s : NULL;
}

static int take_entry(const json_t *entry, struct creds *c, struct warren_error *err)
{
	const char *auth = registry_creds_text_of(entry, "auth"),
		   *identity = registry_creds_text_of(entry, "identitytoken");
	const char *user = registry_creds_text_of(entry, "username"),
		   *secret = registry_creds_text_of(entry, "password");
	int code = 0;

	if (identity) {
		c->identity = strdup(identity);
		code = c->identity ? 0 : -ENOMEM;
	} else if (auth) {
		code = decode_auth(auth, c);
	} else if (user && secret) {
		c->user = strdup(user);
		c->secret = strdup(secret);
		code = c->user && c->secret ? 0 : -ENOMEM;
	}
	if (code < 0)
		return error_errno(err, -code,
				   "read a login of the docker configuration");
	return 0;
}

bool creds_key_is_for(const char *key, const char *registry)
{
	size_t n;

	if (strcmp(registry, DOCKER_HUB) == 0 && strcmp(key, DOCKER_HUB_LOGIN) == 0)
		return true;
	if (strncasecmp(key, "https://", 8) == 0)
		key += 8;
	else if (strncasecmp(key, "http://", 7) == 0)
		key += 7;
	n = strcspn(key, "/");
	return n == strlen(registry) && strncasecmp(key, registry, n) == 0;
}

static const json_t *find_entry(json_t *auths, const char *registry)
{
	const json_t *entry = NULL;
	const char *key;
	json_t *value;

	if (strcmp(registry, DOCKER_HUB) == 0)
		entry = json_object_get(auths, DOCKER_HUB_LOGIN);
	if (!entry)
		entry = json_object_get(auths, registry);
	if (entry)
		return entry;
	json_object_foreach(auths, key, value)
	{
		if (creds_key_is_for(key, registry))
			return value;
	}
	return NULL;
}

static int take_helped(const char *output, const char *name, struct creds *c)
{
	json_t *root = json_loads(output, JSON_REJECT_DUPLICATES, NULL);
	const char *user = registry_creds_text_of(root, "Username"),
		   *secret = registry_creds_text_of(root, "Secret");

	if (!secret) {
		(void)snprintf(c->note, sizeof(c->note),
			       "docker-credential-%.64s returned no login", name);
	} else if (user && strcmp(user, TOKEN_USER) == 0) {
		c->identity = strdup(secret);
	} else {
		c->user = strdup(user ? user : "");
		c->secret = strdup(secret);
	}
	json_decref(root);
	return !secret || c->identity || (c->user && c->secret) ? 0 : -ENOMEM;
}

static int ask_helper(const char *name, const char *registry,
		      const struct helper_watch *watch, struct creds *c)
{
	const char *server = creds_server(registry);
	struct warren_error why = WARREN_ERROR_INIT;
	char *output = NULL;
	int code = helper_call(name, "get", server, watch, &output, &why);

	if (code == -ECANCELED)
		return code;
	if (code < 0)
		(void)snprintf(c->note, sizeof(c->note), "%.190s", why.msg);
	else if (code > 0)
		(void)snprintf(c->note, sizeof(c->note),
			       "docker-credential-%.64s has no login for %.90s", name,
			       server);
	code = code == 0 ? take_helped(output, name, c) : 0;
	creds_free_secret(&output);
	return code;
}

const char *creds_server(const char *registry)
{
	return strcmp(registry, DOCKER_HUB) == 0 ? DOCKER_HUB_LOGIN : registry;
}

const char *creds_helper(const json_t *config, const char *registry)
{
	const json_t *helpers = json_object_get(config, "credHelpers");
	const char *helper = registry_creds_text_of(helpers, registry);

	if (!helper)
		helper = registry_creds_text_of(helpers, creds_server(registry));
	return helper ? helper : registry_creds_text_of(config, "credsStore");
}

int creds_read(const char *path, const char *registry, const struct helper_watch *watch,
	       struct creds *ret, struct warren_error *err)
{
	CLEANUP(creds_done) struct creds c = { 0 };
	const char *helper;
	json_t *config = NULL;
	int code = creds_load(path, &config, err);

	if (code < 0)
		return code;
	helper = creds_helper(config, registry);
	if (helper)
		code = ask_helper(helper, registry, watch, &c);
	if (code == -ECANCELED)
		(void)error_set(err, ECANCELED, "cancelled");
	else if (code < 0)
		(void)error_errno(err, -code, "read a login");
	if (code == 0 && !c.user && !c.identity)
		code = take_entry(find_entry(json_object_get(config, "auths"), registry),
				  &c, err);
	json_decref(config);
	if (code == 0) {
		*ret = c;
		c = (struct creds){ 0 };
	}
	return code;
}
