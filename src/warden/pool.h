/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - parts of sandboxes that are prepared in advance
 *
 * One thread prepares parts (warren_prepare()) while no sandbox is being created: a few
 * at once when they run short, the rest when the warden was idle for a while. Their
 * number follows the demand: it doubles when no part is ready for a new sandbox, and
 * halves after a period in which half of the parts would have been enough. It stays
 * between `min` and `max`. The warden tells the api which ids are ready, and the api uses
 * these ids first for new sandboxes. If the part with an id no longer exists, the warden
 * creates that sandbox without it. The warden prepares no parts before an api is
 * connected.
 */
#ifndef WARDEN_POOL_H
#define WARDEN_POOL_H

#include <stdbool.h>
#include <stddef.h>

struct pool;
struct warren;

/* NULL: out of memory, or @max is 0. @engine must outlive the pool. */
struct pool *pool_open(struct warren *engine, size_t min, size_t max);
/* The engine destroys the parts that are left. Accepts NULL; returns NULL. */
struct pool *pool_close(struct pool *s);

/*
 * Report the ids that are ready, now and later, to the api at @sock; -1: stop reporting.
 */
void pool_tell(struct pool *s, int sock);

/*
 * Stop preparing parts while a fork is in progress. Otherwise, the process could be
 * copied while the thread holds a lock of the allocator.
 */
void pool_hold(struct pool *s, bool hold);

/*
 * Call both around every creation, which uses the part with this id, if there is one.
 */
void pool_begin(struct pool *s, const char *id);
void pool_end(struct pool *s);

#endif /* WARDEN_POOL_H */
