/* SPDX-License-Identifier: Apache-2.0 */
/* listen.h - the sockets on which clients connect */
#ifndef DAEMON_LISTEN_H
#define DAEMON_LISTEN_H

#include "base/error.h"
#include "config/config.h"
#include "daemon/api.h"

/*
 * Open all sockets that `listen` names. If systemd has passed a socket for one of them,
 * that socket is used unchanged. A socket from systemd that `listen` does not name is an
 * error, because its transport is unknown.
 */
int listen_open(const struct config *c, struct api_birth *b, struct warren_error *err);

#endif /* DAEMON_LISTEN_H */
