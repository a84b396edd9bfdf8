/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h - check a configuration for this machine and user, without starting the service
 */
#ifndef DAEMON_CHECK_H
#define DAEMON_CHECK_H

#include "base/error.h"

struct config;

/* Can what must be written be? Said before anything is made. */
int check_dirs(const struct config *c, struct warren_error *err) MUST_CHECK;
/*
 * That, and all else that a start would stumble over or be silent about: notes go to
 * stderr.
 */
int check_fits(const struct config *c, struct warren_error *err) MUST_CHECK;

#endif /* DAEMON_CHECK_H */
