/* SPDX-License-Identifier: Apache-2.0 */
/* api.h - the process that serves HTTP: unprivileged, confined, owner of the database */
#ifndef DAEMON_API_H
#define DAEMON_API_H

#include <sys/types.h>

#include "base/error.h"
#include "config/config.h"
#include "warden/warden.h"

#define API_LISTENERS_MAX 64

/* What it is given at birth. */
struct api_birth {
	const struct config *config;
	const struct warden_policy *policy;
	const char *const *backends; /* their names, NULL-terminated */
	int warden;                  /* the connection to it */
	int told; /* a pipe: struct api_word, once, when it is ready or cannot be */
	const char *dir; /* of its own */
	uid_t uid;
	gid_t gid;
	uid_t owner; /* who started it */
	size_t n_listeners;
	struct {
		int fd;
		bool tls;
	} listeners[API_LISTENERS_MAX];
};

/* The first thing that it says. */
struct api_word {
	struct warren_error err; /* code 0: it is ready */
	char secret[80];         /* of a token that it had to make; "": none */
	size_t sandboxes;        /* that were found again */
};

/* Never returns. */
__attribute__((noreturn)) void api_main(const struct api_birth *birth);

#endif /* DAEMON_API_H */
