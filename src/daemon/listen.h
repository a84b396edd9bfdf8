/* SPDX-License-Identifier: Apache-2.0 */
/* listen.h - the sockets on which clients connect */
#ifndef DAEMON_LISTEN_H
#define DAEMON_LISTEN_H

#include "base/error.h"
#include "config/config.h"
#include "daemon/api.h"

/*
 * All that `listen` names. One that systemd holds for us already is taken as it is; one
 * that it holds and that is not named is refused, as nothing would say what it is for.
 */
int listen_open(const struct config *c, struct api_birth *b, struct warren_error *err);

#endif /* DAEMON_LISTEN_H */
