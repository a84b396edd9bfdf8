/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.h - what an engine must remember of a durable sandbox, as the text of a file
 *
 * Everything else is in the kernel's objects and in init. The text is a list
 * of "key=value", each ended by a NUL (values may hold anything else), in any
 * order but for the first, which names the format's version, and the last.
 * Read strictly: a key that is unknown, missing or there twice is an error, as
 * is a version other than ours, so that a binary refuses what a newer one wrote.
 */
#ifndef NATIVE_STATE_H
#define NATIVE_STATE_H

#include "base/buf.h"
#include "base/error.h"

#define STATE_VERSION 1
#define STATE_MAX     (8U << 20) /* the environment alone may have half of it */

struct native_box;

void state_encode(const struct native_box *box, struct buf *out);
/* Into @box, which must be new. @text becomes the box's, which has pointers into it. */
int state_parse(struct native_box *box, char *text, size_t size,
		struct warren_error *err);

#endif /* NATIVE_STATE_H */
