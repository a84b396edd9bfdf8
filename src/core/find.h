/* SPDX-License-Identifier: Apache-2.0 */
/* find.h - handles of sandboxes without asking their init, for the service's warden */
#ifndef CORE_FIND_H
#define CORE_FIND_H

#include "warren.h"

/*
 * As warren_adopt(), but good only for what needs nothing of the sandbox's init: destroy,
 * pause, stats, update, describe and connection. -ESRCH: it was dead, and is gone now.
 */
int warren_find(struct warren *w, const char *id, struct warren_sandbox **ret_sandbox,
		struct warren_error *err);
/*
 * Do its stats lack what was killed for memory in execs that have ended? Its init counts
 * those.
 */
bool warren_kills_apart(const struct warren_sandbox *sb);

#endif /* CORE_FIND_H */
