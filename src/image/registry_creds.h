/* SPDX-License-Identifier: Apache-2.0 */
/* registry_creds.h - access to the docker configuration, to read and write logins */
#ifndef IMAGE_REGISTRY_CREDS_H
#define IMAGE_REGISTRY_CREDS_H

#include <jansson.h>

#include "image/registry_auth.h"

#define CREDS_PATH_MAX 4096

/* Get the path of the file: @given, or the user's; "" if there is none. */
void creds_path(const char *given, char path[CREDS_PATH_MAX]);
/*
 * Load the file as JSON. If @given is NULL and there is no file, *@ret is NULL and the
 * result 0.
 */
int creds_load(const char *given, json_t **ret, struct warren_error *err) MUST_CHECK;
/*
 * Return whether the entry @key is for @registry: "https://host:5000/v2/" and "host:5000"
 * are both for host:5000.
 */
bool creds_key_is_for(const char *key, const char *registry);
/* Get the key of @registry's logins in the file and in helpers. */
const char *creds_server(const char *registry);
/* The credential helper that @config names for @registry; NULL: none. */
const char *creds_helper(const json_t *config, const char *registry);
/* Overwrite and free a secret. */
void creds_free_secret(char **s);

/* registry_auth.c: build "Basic ..."; the caller frees it. NULL: out of memory. */
char *auth_basic(const struct creds *c);

#endif /* IMAGE_REGISTRY_CREDS_H */
