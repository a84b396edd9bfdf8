/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry_auth.h - what a registry requests as authentication, and the logins that exist
 */
#ifndef IMAGE_REGISTRY_AUTH_H
#define IMAGE_REGISTRY_AUTH_H

#include "base/error.h"

enum challenge_scheme {
	CHALLENGE_NONE, /* none that we know */
	CHALLENGE_BASIC,
	CHALLENGE_BEARER,
};

struct challenge {
	enum challenge_scheme scheme; /* the best of those offered: bearer before basic */
	char realm[1024];
	char service[256];
	char scope[1024];
};

/* The value of WWW-Authenticate headers, read strictly. 0 or -EINVAL. */
int challenge_parse(const char *text, struct challenge *ret) MUST_CHECK;

/* A login for one registry. */
struct creds {
	char *user;
	char *secret;
	char *identity; /* a refresh token, in place of the two */
	char note[200]; /* why there are no credentials, if a user should know */
};

/* Asked while a helper runs, which may wait for a person: -ECANCELED when it says so. */
struct helper_watch {
	bool (*cancelled)(void *ctx);
	void *ctx;
};

/*
 * What the docker configuration @path (NULL: $DOCKER_CONFIG/config.json or
 * ~/.docker/config.json, if there is one) has for @registry: credential helpers
 * are asked first. No login is no error, nor is a helper that fails: there is a note.
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
 * helper that the configuration names for it; other entries stay as they are. @ret_where
 * says where it is. Nothing is checked: see registry_check_login().
 */
int creds_store(const char *registry, const char *user, const char *secret,
		const struct helper_watch *watch, char ret_where[CREDS_WHERE_MAX],
		struct warren_error *err) MUST_CHECK;
/* Remove every login that creds_read() could find for @registry. 1: there was one. */
int creds_erase(const char *registry, const struct helper_watch *watch,
		struct warren_error *err) MUST_CHECK;

/*
 * Run "docker-credential-NAME VERB" (get, store, erase), with @input and no shell. What
 * it prints goes to @output (to be freed, NUL-terminated). 0: it succeeded; 1: it did
 * not.
 */
int helper_call(const char *name, const char *verb, const char *input,
		const struct helper_watch *watch, char **ret_output,
		struct warren_error *err) MUST_CHECK;

#endif /* IMAGE_REGISTRY_AUTH_H */
