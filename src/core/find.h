/* SPDX-License-Identifier: Apache-2.0 */
/*
 * find.h - for the warden: sandbox handles that need no reply from the sandbox's init
 */
#ifndef CORE_FIND_H
#define CORE_FIND_H

#include "warren.h"

/*
 * Like warren_adopt(), but the handle supports only operations that do not need the
 * sandbox's init: destroy, pause, stats, update, describe and connection. -ESRCH: the
 * sandbox had ended; its remains were removed, if that was possible. Then the next call
 * returns -ENOENT.
 */
int warren_find(struct warren *w, const char *id, struct warren_sandbox **ret_sandbox,
		struct warren_error *err);
/*
 * Return whether warren_stats() omits OOM kills in execs that have ended. The sandbox's
 * init counts those.
 */
bool warren_kills_apart(const struct warren_sandbox *sb);

#endif /* CORE_FIND_H */
