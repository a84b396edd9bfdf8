/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_signal.h - receive signals through a descriptor
 *
 * Signals are blocked from the start of `warren run`, so that none ends it while a
 * sandbox is being created. Pending signals are read once there is a command to forward
 * them to. A signal that the caller ignores (nohup) stays ignored.
 */
#ifndef CLI_RUN_SIGNAL_H
#define CLI_RUN_SIGNAL_H

#include <signal.h>

#include "base/error.h"

/* @tty: also block signals that a terminal sends. */
void signals_block(bool tty, sigset_t *ret_set);
/* Open a descriptor that is readable while a signal of @set is pending. */
int signals_open(const sigset_t *set, struct warren_error *err) MUST_CHECK;
/* The next pending signal; 0: none. */
int signals_next(int fd);
/* The same; *@ret_typed: it is a key of the terminal (^C), which a program may handle. */
int signals_next_from(int fd, bool *ret_typed);
/* Return whether the default action of @sig ends a process. */
bool signal_ends(int sig);
/* A name such as "SIGTERM"; @name has space for 16 bytes. */
const char *signal_name(int sig, char name[16]);

#endif /* CLI_RUN_SIGNAL_H */
