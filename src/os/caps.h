/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caps.h - the capabilities that root has inside a sandbox, and functions that drop all
 * others
 */
#ifndef OS_CAPS_H
#define OS_CAPS_H

#include <stdint.h>

#include "base/error.h"

/* Bit mask of the capabilities that root inside keeps. */
extern const uint64_t caps_kept;

/*
 * Reduce the bounding, permitted and effective sets of this thread to @keep, and clear
 * the other sets. Does not change errno.
 */
int caps_reduce(uint64_t keep, struct warren_error *err);

/*
 * Reduce only the bounding set of this thread to @keep: no program that it executes can
 * gain another capability. Does not change errno.
 */
int caps_bound(uint64_t keep, struct warren_error *err);

/*
 * Drop all capabilities. An ordinary user, who may not change the bounding set, keeps it;
 * with no_new_privs, nothing can be gained from it.
 */
int caps_drop_all(struct warren_error *err);

/*
 * Make @keep effective and ambient, so that it survives an execve(2) by a user other than
 * root. Does not change errno.
 */
int caps_hand_down(uint64_t keep, struct warren_error *err);

/* Return whether this thread has @cap (CAP_*) now. */
bool caps_have(int cap);

#endif /* OS_CAPS_H */
