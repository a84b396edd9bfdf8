/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_tty.h - the caller's terminal while a command has its own
 *
 * Keys must reach the command's terminal unchanged, so ours is raw for that
 * time. It is restored on every way out: by hand before anything is said,
 * at exit, and before a fatal signal ends us. There is one terminal in a
 * process, hence the state in the file.
 */
#ifndef CLI_RUN_TTY_H
#define CLI_RUN_TTY_H

#include <stdint.h>

#include "base/error.h"

/* May be called again after tty_restore(). */
int tty_raw(int fd, struct warren_error *err);
/* Does nothing when nothing is to be restored. */
void tty_restore(void);
/*
 * Rows and columns of the first terminal among stdin, stdout and stderr; 0 and 0: none.
 */
void tty_size(uint16_t *ret_rows, uint16_t *ret_cols);

#endif /* CLI_RUN_TTY_H */
