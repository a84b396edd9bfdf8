/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - parts of sandboxes that are prepared in advance
 *
 * One thread makes parts (warren_prepare()) while no create is under way: a few at once
 * when these run short, all that are wanted when nobody has asked for a while. That
 * number follows the demand: it is doubled whenever a create finds none, and halved after
 * a while in which half of them would have done; never below `min` nor above `max`. The
 * api is told the ids of those that are ready, and asks for sandboxes of these ids as
 * long as it knows any. An id whose part is gone is as good as any other: that sandbox is
 * made at once, from nothing. None is made before there is an api.
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

/* Tell who listens at @sock what there is and what comes; -1: nobody any more. */
void pool_tell(struct pool *s, int sock);

/*
 * Around a fork: a copy of us must not be made while the thread has a lock of the
 * allocator's.
 */
void pool_hold(struct pool *s, bool hold);

/* Around every create: a part of this id is used, if there is one. */
void pool_begin(struct pool *s, const char *id);
void pool_end(struct pool *s);

#endif /* WARDEN_POOL_H */
