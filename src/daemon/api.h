/* SPDX-License-Identifier: Apache-2.0 */
/* api.h - the process that serves HTTP: unprivileged, confined, owner of the database */
#ifndef DAEMON_API_H
#define DAEMON_API_H

#include <sys/types.h>

#include "base/error.h"
#include "config/config.h"
#include "warden/warden.h"

#define API_LISTENERS_MAX 64

/* The parameters of the api process. */
struct api_birth {
	const struct config *config;
	const struct warden_policy *policy;
	const char *const *backends; /* names, NULL-terminated */
	int warden;                  /* connection to the warden */
	/* A pipe for one struct api_word, sent when the api is ready or cannot start. */
	int told;
	const char *dir;    /* directory of the api's data */
	const char *engine; /* name of the warden's engine */
	uid_t uid;
	gid_t gid;
	uid_t owner; /* user who started the service */
	size_t n_listeners;
	struct {
		int fd;
		bool tls;
	} listeners[API_LISTENERS_MAX];
};

/* The first message of the api process. */
struct api_word {
	struct warren_error err; /* code 0: the api process is ready */
	/* The secret of a token that the api process had to create; "": none. */
	char secret[80];
	size_t sandboxes; /* number of restored sandboxes */
};

/* Never returns. */
__attribute__((noreturn)) void api_main(const struct api_birth *birth);

#endif /* DAEMON_API_H */
