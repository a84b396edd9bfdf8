/* SPDX-License-Identifier: Apache-2.0 */
/* registry_auth.h - authentication challenges from a registry, and stored logins */
#ifndef IMAGE_REGISTRY_AUTH_H
#define IMAGE_REGISTRY_AUTH_H

#include "base/error.h"

enum challenge_scheme {
	CHALLENGE_NONE, /* no supported scheme */
	CHALLENGE_BASIC,
	CHALLENGE_BEARER,
};

struct challenge {
	enum challenge_scheme scheme; /* the best of those offered; bearer is preferred */
	char realm[1024];
	char service[256];
	char scope[1024];
};

/* Parse the value of WWW-Authenticate headers strictly. 0 or -EINVAL. */
int challenge_parse(const char *text, struct challenge *ret) MUST_CHECK;

/* A login for one registry. */
struct creds {
	char *user;
	char *secret;
	char *identity; /* a refresh token, instead of user and secret */
	char note[200]; /* why there are no credentials, for the user; or "" */
};

/*
 * Called while a credential helper runs, which may wait for a person. If it returns true,
 * the call fails with -ECANCELED.
 */
struct helper_watch {
	bool (*cancelled)(void *ctx);
	void *ctx;
};

/*
 * Read the login for @registry from the docker configuration @path (NULL:
 * $DOCKER_CONFIG/config.json or ~/.docker/config.json, if it exists). Credential helpers
 * have precedence. A missing login or a failed helper is not an error; ret->note says
 * why.
 */
int creds_read(const char *path, const char *registry, const struct helper_watch *watch,
	       struct creds *ret, struct warren_error *err) MUST_CHECK;
void creds_done(struct creds *c);

#define HELPER_OUTPUT_MAX (64U << 10)
#define HELPER_INPUT_MAX  (32U << 10) /* fits into a pipe */
#define HELPER_TIMEOUT_MS 30000
#define CREDS_WHERE_MAX   4200

/*
 * Store a login for @registry in the user's docker configuration, or in the credential
 * helper that the configuration names for it; other entries are not changed. @ret_where
 * describes where the login is stored. The login is not checked: see
 * registry_check_login().
 */
int creds_store(const char *registry, const char *user, const char *secret,
		const struct helper_watch *watch, char ret_where[CREDS_WHERE_MAX],
		struct warren_error *err) MUST_CHECK;
/* Remove every login that creds_read() could find for @registry. 1: there was one. */
int creds_erase(const char *registry, const struct helper_watch *watch,
		struct warren_error *err) MUST_CHECK;

/*
 * Run "docker-credential-NAME VERB" (get, store, erase) with @input, without a shell.
 * *@ret_output gets its output, NUL-terminated; the caller frees it. 0: it succeeded; 1:
 * it failed.
 */
int helper_call(const char *name, const char *verb, const char *input,
		const struct helper_watch *watch, char **ret_output,
		struct warren_error *err) MUST_CHECK;

#endif /* IMAGE_REGISTRY_AUTH_H */
