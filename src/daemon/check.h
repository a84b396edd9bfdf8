/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h - check a configuration for this machine and user, without starting the service
 */
#ifndef DAEMON_CHECK_H
#define DAEMON_CHECK_H

#include "base/error.h"

struct config;

/* Check whether the configured directories are writable. Called before anything is
 * created. */
int check_dirs(const struct config *c, struct warren_error *err) MUST_CHECK;
/*
 * Run check_dirs(), and check the TLS files. Prints a note to stderr if the api's account
 * or a directory of `mounts` does not exist.
 */
int check_fits(const struct config *c, struct warren_error *err) MUST_CHECK;

#endif /* DAEMON_CHECK_H */
