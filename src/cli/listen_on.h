/* SPDX-License-Identifier: Apache-2.0 */
/* listen_on.h - listen on an address of this machine that an option names */
#ifndef CLI_LISTEN_ON_H
#define CLI_LISTEN_ON_H

#include "base/error.h"
#include "base/macro.h"

#define LISTEN_PORT_LAST 65535

/*
 * Listen on "8080", "127.0.0.1:8080" or "[::1]:8080"; without an address, on loopback.
 * Port 0 is any free port. Returns the descriptor; -EADDRINUSE: another process listens
 * there.
 */
int cli_listen_on(const char *where, struct warren_error *err) MUST_CHECK;

#endif /* CLI_LISTEN_ON_H */
