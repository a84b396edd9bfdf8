/* SPDX-License-Identifier: Apache-2.0 */
/* registry_creds.h - the docker configuration, for the files that read and write logins
 */
#ifndef IMAGE_REGISTRY_CREDS_H
#define IMAGE_REGISTRY_CREDS_H

#include <jansson.h>

#include "image/registry_auth.h"

#define CREDS_PATH_MAX 4096

/* Where the file is: @given, or the user's; "" if nowhere. */
void creds_path(const char *given, char path[CREDS_PATH_MAX]);
/* The file as JSON; NULL and 0 when there is none and none was asked for. */
int creds_load(const char *given, json_t **ret, struct warren_error *err) MUST_CHECK;
/* "https://host:5000/v2/" and "host:5000" are logins for host:5000. */
bool creds_key_is_for(const char *key, const char *registry);
/* What the logins of @registry are stored under, in the file and by helpers. */
const char *creds_server(const char *registry);
/* The credential helper that @config names for @registry; NULL: none. */
const char *creds_helper(const json_t *config, const char *registry);
/* Overwritten before it is freed. */
void creds_free_secret(char **s);

/* registry_auth.c: "Basic ...", to be freed; NULL: no memory. */
char *auth_basic(const struct creds *c);

#endif /* IMAGE_REGISTRY_CREDS_H */
