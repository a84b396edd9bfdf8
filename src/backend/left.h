/* SPDX-License-Identifier: Apache-2.0 */
/*
 * left.h - sandboxes whose creation failed, and could not be undone yet
 *
 * Such a sandbox has no state file, so it cannot be found by its id, and it may still
 * have processes. The engine keeps its handle. list() reports its id; find(), with which
 * every deletion begins, tries again to remove it. When the process of the engine ends,
 * the next engine of the same name removes what is left.
 */
#ifndef BACKEND_LEFT_H
#define BACKEND_LEFT_H

#include <pthread.h>

#include "base/buf.h"
#include "initclient/handle.h"

struct left {
	pthread_mutex_t lock;
	struct backend_sandbox *list;
};

void left_init(struct left *l);
/* Free all handles with @forget. */
void left_done(struct left *l, void (*forget)(struct backend_sandbox *sandbox));
/* Add @sandbox to the list, which then owns it. */
void left_put(struct left *l, struct backend_sandbox *sandbox);
/* Remove a handle by its id and return it. NULL: the id is not in the list. */
struct backend_sandbox *left_take(struct left *l, const char *id);
/* Append all ids to @ids, with their NUL. */
void left_list(struct left *l, struct buf *ids);

#endif /* BACKEND_LEFT_H */
