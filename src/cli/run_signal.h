/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_signal.h - signals as a descriptor to read
 *
 * From the start of `warren run` on they are blocked, so that none ends us
 * with a sandbox half made; what is pending is read when there is someone to
 * pass it on to. A signal that the caller ignores (nohup) stays ignored.
 */
#ifndef CLI_RUN_SIGNAL_H
#define CLI_RUN_SIGNAL_H

#include <signal.h>

#include "base/error.h"

/* @tty: also those that a terminal sends. */
void signals_block(bool tty, sigset_t *ret_set);
/* A descriptor that is readable while one of @set is pending. */
int signals_open(const sigset_t *set, struct warren_error *err) MUST_CHECK;
/* The next one that is pending, 0: none. */
int signals_next(int fd);
/* Does it end a process that does nothing about it? */
bool signal_ends(int sig);
/* "SIGTERM"; @name has room for 16 bytes. */
const char *signal_name(int sig, char name[16]);

#endif /* CLI_RUN_SIGNAL_H */
