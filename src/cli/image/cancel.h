/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cancel.h - handle ^C and similar signals while images are pulled
 *
 * The first signal requests an orderly end, which removes partial data; a second signal
 * of the same kind ends the process at once. The store stays consistent either way.
 */
#ifndef CLI_IMAGE_CANCEL_H
#define CLI_IMAGE_CANCEL_H

void cancel_arm(void);
/* Get the signal that was received, 0: none. */
int cancel_signal(void);

#endif /* CLI_IMAGE_CANCEL_H */
