/* SPDX-License-Identifier: Apache-2.0 */
/* pull.h - ask the service to pull or push an image */
#ifndef CLI_CLIENT_PULL_H
#define CLI_CLIENT_PULL_H

#include "cli/client/client.h"

struct pull_request {
	const char *image;
	const char *platform; /* NULL: the platform of the service */
	const char *backend;  /* a backend with its own images; NULL: Warren's store */
	bool quiet;           /* no progress */
};

/*
 * Pull the image and wait; *@ret (@ret may be NULL) gets the service's description of it.
 */
int pull_image(struct client *c, const struct pull_request *request, json_t **ret,
	       struct warren_error *err) MUST_CHECK;

/* Push an image; @body is a PushImage, and *@ret gets the last PushEvent. */
int pull_push_image(struct client *c, const json_t *body, bool quiet, json_t **ret,
		    struct warren_error *err) MUST_CHECK;

#endif /* CLI_CLIENT_PULL_H */
