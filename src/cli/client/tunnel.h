/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tunnel.h - a connection to a port in a sandbox, through the service
 *
 *	r = tunnel_open(c, id, 5432, &t, err);
 *	r = tunnel_run(t, fd);
 *	t = tunnel_close(t);
 */
#ifndef CLI_CLIENT_TUNNEL_H
#define CLI_CLIENT_TUNNEL_H

#include "cli/client/client.h"

struct tunnel;

/* Waits until the port has taken it; -errno with the service's words when it did not. */
int tunnel_open(struct client *c, const char *sandbox, unsigned port, struct tunnel **ret,
		struct warren_error *err) MUST_CHECK;
/*
 * Moves bytes between it and the socket @fd, both ways at once, until each side has ended
 * its half; -errno when one of them broke off.
 */
int tunnel_run(struct tunnel *t, int fd);
/* NULL is fine; returns NULL. */
struct tunnel *tunnel_close(struct tunnel *t);

#endif /* CLI_CLIENT_TUNNEL_H */
