/* SPDX-License-Identifier: Apache-2.0 */
/* look.h - tenants take turns with expensive searches: see look.c */
#ifndef SERVICE_SESSION_LOOK_H
#define SERVICE_SESSION_LOOK_H

#include <stdbool.h>

struct service;
struct look_tenant;

/*
 * A search that waits for its turn. Its owner embeds it, sets fn and ctx, and cancels it
 * before freeing it.
 */
struct look {
	void (*fn)(void *ctx);
	void *ctx;
	struct look *next;
	struct look_tenant *tenant; /* NULL: not waiting */
};

/*
 * Call fn once from the loop when it is its turn; a search that already waits keeps its
 * place. False: out of memory, and fn is not called.
 */
bool look_wait(struct service *s, struct look *l, const char *tenant);
void look_cancel(struct service *s, struct look *l);

int look_open(struct service *s);
void look_close(struct service *s);

#endif /* SERVICE_SESSION_LOOK_H */
