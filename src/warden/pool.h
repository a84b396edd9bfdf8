/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - parts of sandboxes that are prepared in advance
 *
 * One thread prepares parts (warren_prepare()) while no create is under way: a few
 * immediately when they run short, the rest when there was no request for a while. Their
 * number follows the demand: it doubles whenever a create finds none, and halves after a
 * while in which half of them would have been enough; it is never below `min` or above
 * `max`. The warden tells the api which ids are ready, and the api requests sandboxes
 * with these ids as long as it knows any. If the part of an id is gone, that sandbox is
 * created from nothing. No part is prepared before there is an api.
 */
#ifndef WARDEN_POOL_H
#define WARDEN_POOL_H

#include <stdbool.h>
#include <stddef.h>

struct pool;
struct warren;

/* NULL: there is no memory, or @max is 0. @engine must outlive it. */
struct pool *pool_open(struct warren *engine, size_t min, size_t max);
/* What is left is destroyed with the engine. NULL is fine; returns NULL. */
struct pool *pool_close(struct pool *s);

/*
 * Report the ids that are ready, now and later, to the listener at @sock; -1: to none any
 * more.
 */
void pool_tell(struct pool *s, int sock);

/*
 * Call around a fork: this process must not be copied while the thread holds a lock of
 * the allocator.
 */
void pool_hold(struct pool *s, bool hold);

/* Call around every create: the part with this id is used, if there is one. */
void pool_begin(struct pool *s, const char *id);
void pool_end(struct pool *s);

#endif /* WARDEN_POOL_H */
