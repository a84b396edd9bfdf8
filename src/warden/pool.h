/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - parts of sandboxes that are ready before anybody asks for them
 *
 * One thread makes parts (warren_prepare()) while no create is under way: a few at once when these
 * run short, all that are wanted when nobody has asked for a while. That number follows the demand: it is doubled whenever a
 * create finds none, and halved after a while in which half of them would have done; never
 * below `min` nor above `max`. The api is told the ids of those that are
 * ready, and asks for sandboxes of these ids as long as it knows any. An id whose part
 * is gone is as good as any other: that sandbox is made at once, from nothing. None is made before
 * there is an api.
 */
#ifndef WARDEN_POOL_H
#define WARDEN_POOL_H

#include <stdbool.h>
#include <stddef.h>

struct stock;
struct warren;

/* NULL: there is no memory, or @max is 0. @engine must outlive it. */
struct stock *stock_open(struct warren *engine, size_t min, size_t max);
/* What is left is unmade with the engine. NULL is fine; returns NULL. */
struct stock *stock_close(struct stock *s);

/* Tell who listens at @sock what there is and what comes; -1: nobody any more. */
void stock_tell(struct stock *s, int sock);

/* Around a fork: a copy of us must not be made while the thread has a lock of the allocator's. */
void stock_hold(struct stock *s, bool hold);

/* Around every create: a part of this id is used, if there is one. */
void stock_begin(struct stock *s, const char *id);
void stock_end(struct stock *s);

#endif /* WARDEN_POOL_H */
