/* SPDX-License-Identifier: Apache-2.0 */
/* share.c - what the kernel counts for the service as a whole, shared among its tenants */
#include "service/share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct share_holder {
	struct share_holder *next;
	uint64_t held; /* never 0: who holds none is not listed */
	char tenant[];
};

/* Where it is linked, or would be. */
static struct share_holder **find(struct share *s, const char *tenant)
{
	struct share_holder **p = &s->holders;

	while (*p && strcmp((*p)->tenant, tenant) != 0)
		p = &(*p)->next;
	return p;
}

static uint64_t held_by(const struct share *s, const char *tenant)
{
	for (const struct share_holder *h = s->holders; h; h = h->next)
		if (strcmp(h->tenant, tenant) == 0)
			return h->held;
	return 0;
}

static uint64_t free_of(const struct share *s)
{
	return s->limit > s->used ? s->limit - s->used : 0;
}

int share_take(struct share *s, const char *tenant)
{
	struct share_holder **p = find(s, tenant);

	if (held_by(s, tenant) >= free_of(s))
		return -EDQUOT;
	if (!*p) {
		*p = calloc(1, sizeof(**p) + strlen(tenant) + 1);
		if (!*p)
			return -ENOMEM;
		(void)strcpy((*p)->tenant, tenant);
	}
	(*p)->held++;
	s->used++;
	return 0;
}

void share_give(struct share *s, const char *tenant, uint64_t n)
{
	struct share_holder **p = find(s, tenant);
	struct share_holder *h = *p;

	if (!h)
		return;
	n = n < h->held ? n : h->held;
	h->held -= n;
	s->used -= n;
	if (h->held > 0)
		return;
	*p = h->next;
	free(h);
}

void share_look(const struct share *s, const char *tenant, uint64_t *ret_used,
		uint64_t *ret_maximum)
{
	*ret_used = held_by(s, tenant);
	*ret_maximum = (*ret_used + free_of(s) + 1) / 2;
}
