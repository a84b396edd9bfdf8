/* SPDX-License-Identifier: Apache-2.0 */
/* caps.h - the capabilities of root inside, and dropping the rest */
#ifndef OS_CAPS_H
#define OS_CAPS_H

#include <stdint.h>

#include "base/error.h"

/* The set that root inside keeps, as a mask. */
extern const uint64_t caps_kept;

/*
 * Reduce every set of this thread to @keep: bounding, permitted, effective; others to
 * none. It leaves errno alone.
 */
int caps_reduce(uint64_t keep, struct warren_error *err);

/*
 * What is in @keep is effective, and goes over an execve(2) by one who is not root
 * (ambient). It leaves errno alone, too.
 */
int caps_hand_down(uint64_t keep, struct warren_error *err);

/* Do we have @cap (CAP_*) now? */
bool caps_have(int cap);

#endif /* OS_CAPS_H */
