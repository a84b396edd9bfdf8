/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cancel.h - ^C and similar signals while images are pulled
 *
 * The first signal asks for an orderly end, which removes what was begun; the
 * second of its kind ends the process at once. The store is safe either way.
 */
#ifndef CLI_IMAGE_CANCEL_H
#define CLI_IMAGE_CANCEL_H

void cancel_arm(void);
/* The signal that came, 0: none. */
int cancel_signal(void);

#endif /* CLI_IMAGE_CANCEL_H */
