/* SPDX-License-Identifier: Apache-2.0 */
/* pipes.c - a pool of pipes, which are created when they are needed */
#include "egress/pipes.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/macro.h"

struct pipes {
	struct pipe_pair *unused;
	size_t n; /* number of pairs that exist */
};

struct pipes *pipes_new(void)
{
	return calloc(1, sizeof(struct pipes));
}

static void pipes_close(struct pipes *p, struct pipe_pair *pair)
{
	(void)close(pair->in);
	(void)close(pair->out);
	free(pair);
	p->n--;
}

struct pipes *pipes_free(struct pipes *p)
{
	while (p && p->unused)
		pipes_close(p, LIST_POP(p->unused));
	free(p);
	return NULL;
}

static struct pipe_pair *pipes_make(struct pipes *p)
{
	struct pipe_pair *pair = calloc(1, sizeof(*pair));
	int fds[2], size;

	if (!pair || pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
		free(pair);
		return NULL;
	}
	pair->out = fds[0];
	pair->in = fds[1];
	/* The kernel limits the large pipes of a user; a small pipe works too. */
	(void)fcntl(pair->in, F_SETPIPE_SZ, PIPES_CAPACITY);
	size = fcntl(pair->in, F_GETPIPE_SZ);
	pair->capacity = size > 0 ? (size_t)size : 65536;
	p->n++;
	return pair;
}

struct pipe_pair *pipes_take(struct pipes *p)
{
	if (p->unused)
		return LIST_POP(p->unused);
	return p->n < PIPES_MAX ? pipes_make(p) : NULL;
}

void pipes_give(struct pipes *p, struct pipe_pair *pair)
{
	if (!pair)
		return;
	if (pair->held)
		pipes_close(p, pair);
	else
		LIST_PUSH(p->unused, pair);
}
