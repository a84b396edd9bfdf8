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

/*
 * Wait until the port accepts the connection; on failure @err has the service's message.
 */
int tunnel_open(struct client *c, const char *sandbox, unsigned port, struct tunnel **ret,
		struct warren_error *err) MUST_CHECK;
/*
 * Relay bytes between the tunnel and the socket @fd in both directions, until both sides
 * have ended their half; -errno if a connection broke.
 */
int tunnel_run(struct tunnel *t, int fd);
/* @t may be NULL. Always returns NULL. */
struct tunnel *tunnel_close(struct tunnel *t);

#endif /* CLI_CLIENT_TUNNEL_H */
