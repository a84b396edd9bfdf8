/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work_signal.h - what SIGINT, SIGTERM and SIGHUP do to `warren work`
 *
 * While a sandbox is open, they are blocked, and passed on to the command (run_io.h).
 * While the review asks, they mean "keep" (keys.h). At all other times, a handler says
 * what happens to the changes, and ends the process with status 128+N. So there is no
 * moment at which a signal loses changes, or leaves the user without a word about them.
 */
#ifndef CLI_WORK_WORK_SIGNAL_H
#define CLI_WORK_WORK_SIGNAL_H

#include <sys/types.h>

/* Install the handler, except for signals that the caller ignores (nohup). */
void work_signals_begin(void);
/* What the handler writes to stderr; a copy of the first 1,023 bytes is kept. */
void work_signals_say(const char *text);
/* A child that the handler ends, and waits for, first; 0: none. */
void work_signals_child(pid_t pid);

#endif /* CLI_WORK_WORK_SIGNAL_H */
