/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_tty.h - put the caller's terminal into raw mode while a command has its own
 * terminal
 *
 * Keys must reach the command's terminal unchanged, so the caller's terminal is raw for
 * that time. It is restored in every case: explicitly before a message is printed, at
 * exit, and before a fatal signal ends the process. A process has one terminal, so the
 * state is a static variable.
 */
#ifndef CLI_RUN_TTY_H
#define CLI_RUN_TTY_H

#include <stdint.h>

#include "base/error.h"

/* May be called again after tty_restore(). */
int tty_raw(int fd, struct warren_error *err);
/* Restore the terminal, if it is raw. */
void tty_restore(void);
/* Get the size of the first terminal among stdin, stdout and stderr; 0 and 0: none. */
void tty_size(uint16_t *ret_rows, uint16_t *ret_cols);

#endif /* CLI_RUN_TTY_H */
