/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipes.h - a pool of pipes, through which splice(2) moves bytes between sockets
 *
 * A direction of a flow has a pipe only while it carries a lot of data. The number of
 * pipes is bounded, because the kernel bounds their memory by user: if a flow gets no
 * pipe, its bytes are copied through memory instead.
 */
#ifndef EGRESS_PIPES_H
#define EGRESS_PIPES_H

#include <stddef.h>

#define PIPES_MAX      32
#define PIPES_CAPACITY (1U << 20)

struct pipes;

struct pipe_pair {
	struct pipe_pair *next;
	int in, out; /* written to, read from */
	size_t held; /* bytes in it */
	size_t capacity;
};

struct pipes *pipes_new(void); /* NULL: no memory */
struct pipes *pipes_free(struct pipes *p);
struct pipe_pair *pipes_take(struct pipes *p); /* NULL: there is none left */
/* A pair that still holds bytes is closed. */
void pipes_give(struct pipes *p, struct pipe_pair *pair);

#endif /* EGRESS_PIPES_H */
