/* SPDX-License-Identifier: Apache-2.0 */
/*
 * private_service.h - start a service for this process alone, if no other service runs
 *
 *	AUTO_PRIVATE struct private_service *own = NULL;
 *	AUTO_CLIENT struct client *c = NULL;
 *
 *	r = client_open_or_start(&options, &c, &own, err);
 *	...
 *	c = client_close(c);
 *	own = private_service_end(own);
 *
 * client_open_or_start() connects to the service that WARREN_HOST names or that runs at
 * the usual address. If WARREN_HOST is not set and no service listens there, it starts a
 * private service (daemon/private.h), with the same images and configuration. A private
 * service ends with this process, even if this process is killed, and deletes all of its
 * sandboxes.
 */
#ifndef CLI_CLIENT_PRIVATE_SERVICE_H
#define CLI_CLIENT_PRIVATE_SERVICE_H

#include "base/error.h"
#include "base/macro.h"
#include "cli/client/client.h"

struct private_service;

struct private_options {
	/* Absolute path of a directory that sandboxes may mount; NULL: none. */
	const char *mount;
};

/* Start a private service, and wait until it is ready. @options may be NULL. */
int private_service_start(const struct private_options *options,
			  struct private_service **ret,
			  struct warren_error *err) MUST_CHECK;
/*
 * Get the address of the service, in the form of WARREN_HOST; valid in this process only.
 */
const char *private_service_address(const struct private_service *p);
/*
 * Stop the service, and wait until all of its processes and sandboxes have ended. Accepts
 * NULL; returns NULL.
 */
struct private_service *private_service_end(struct private_service *p);

static inline void private_service_end_p(struct private_service **p)
{
	(void)private_service_end(*p);
}

#define AUTO_PRIVATE CLEANUP(private_service_end_p)

/* *@ret_own is NULL if a service was running. Close the client before ending *@ret_own.
 */
int client_open_or_start(const struct private_options *options, struct client **ret,
			 struct private_service **ret_own,
			 struct warren_error *err) MUST_CHECK;

/*
 * Check whether client_open_or_start() would find a running service, or the one that
 * WARREN_HOST names.
 */
int client_finds_service(bool *ret, struct warren_error *err) MUST_CHECK;

#endif /* CLI_CLIENT_PRIVATE_SERVICE_H */
