/* SPDX-License-Identifier: Apache-2.0 */
/* left.c - sandboxes whose creation failed, and could not be undone yet */
#include "backend/left.h"

#include <string.h>

#include "base/list.h"

void left_init(struct left *l)
{
	(void)pthread_mutex_init(&l->lock, NULL);
	l->list = NULL;
}

void left_done(struct left *l, void (*forget)(struct backend_sandbox *sandbox))
{
	struct backend_sandbox *sandbox;

	while ((sandbox = LIST_POP(l->list)))
		forget(sandbox);
	(void)pthread_mutex_destroy(&l->lock);
}

void left_put(struct left *l, struct backend_sandbox *sandbox)
{
	(void)pthread_mutex_lock(&l->lock);
	LIST_PUSH(l->list, sandbox);
	(void)pthread_mutex_unlock(&l->lock);
}

struct backend_sandbox *left_take(struct left *l, const char *id)
{
	struct backend_sandbox **at, *found;

	(void)pthread_mutex_lock(&l->lock);
	LIST_FIND(l->list, at, strcmp((*at)->id, id) == 0);
	found = *at;
	if (found)
		*at = found->next;
	(void)pthread_mutex_unlock(&l->lock);
	return found;
}

void left_list(struct left *l, struct buf *ids)
{
	(void)pthread_mutex_lock(&l->lock);
	for (const struct backend_sandbox *s = l->list; s; s = s->next)
		buf_add(ids, s->id, ID_LEN + 1);
	(void)pthread_mutex_unlock(&l->lock);
}
