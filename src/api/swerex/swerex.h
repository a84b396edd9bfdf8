/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swerex.h - the SWE-ReX API: its remote-runtime protocol, for each sandbox
 *
 * A client of SWE-ReX uses the service like a SWE-ReX server at
 *
 *	/swerex/<sandbox>/...	with any token that may use the sandbox, or
 *	/...			with a token for only one sandbox,
 *
 * with the token in X-API-Key. No part of it runs in the sandbox: commands are execs,
 * sessions are consoles (service/session/session_terminal.h), and the sandbox's init
 * handles files.
 *
 *	swerex.c		routes requests and identifies the caller
 *	idempotency.c		responses, which are repeated for repeated requests
 *	reply.c			large responses, encoded as the client reads them
 *	exceptions.c		errors, as the exceptions that a client raises
 *	body_fields.c		the fields of a body
 *	session.c, execute.c, file.c, upload.c	handlers, by subject
 *	codec.c, pyrepr.c				pure functions on bytes
 */
#ifndef API_SWEREX_SWEREX_H
#define API_SWEREX_SWEREX_H

#include <stdbool.h>
#include <sys/types.h>

#include "net/http.h"
#include "service/core/fair_quota.h"

struct config;
struct service;
struct job;
struct live;
struct api_record;

#define SWEREX_BUCKETS 1024

struct swerex {
	struct service *service;
	struct live *live; /* NULL: requests do not end with their tokens */
	const struct config *config;
	uid_t owner; /* user who started the service; needs no token on the unix socket */
	void (*record)(const struct api_record *record); /* NULL: no log */
	/* Private: kept responses, by sandbox and by age. */
	struct job *jobs[SWEREX_BUCKETS];
	struct job *newest, *oldest;
	size_t kept;               /* bytes of kept responses */
	struct fair_quota answers; /* bytes of large responses that clients are reading */
	struct fair_quota bodies;  /* bytes in the bodies of requests in progress */
};

/* Return whether the request is for this API. */
bool swerex_wants(const struct http_request *req);
void swerex_request(struct http_request *req, struct swerex *sx);
/* Free everything. Call this when no sandbox is in use any more. */
void swerex_done(struct swerex *sx);

#endif /* API_SWEREX_SWEREX_H */
