/* SPDX-License-Identifier: Apache-2.0 */
/* look.h - tenants take turns with expensive searches: see look.c */
#ifndef SERVICE_SESSION_LOOK_H
#define SERVICE_SESSION_LOOK_H

#include <stdbool.h>

struct service;
struct look_tenant;

/* Its owner embeds it, with fn and ctx, and cancels it before it is gone. */
struct look {
	void (*fn)(void *ctx);
	void *ctx;
	struct look *next;
	struct look_tenant *tenant; /* NULL: it does not wait */
};

/*
 * Its turn comes, once, from the loop, though it waits already; false: no memory, none
 * comes.
 */
bool look_wait(struct service *s, struct look *l, const char *tenant);
void look_cancel(struct service *s, struct look *l);

int look_open(struct service *s);
void look_close(struct service *s);

#endif /* SERVICE_SESSION_LOOK_H */
