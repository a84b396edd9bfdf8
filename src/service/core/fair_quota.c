/* SPDX-License-Identifier: Apache-2.0 */
/* fair_quota.c - what the kernel counts for the service as a whole, shared among its tenants */
#include "service/core/fair_quota.h"

#include <errno.h>
#include <stdbool.h>
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

static uint64_t weight_of(const struct share *s)
{
	return s->weight ? s->weight : 1;
}

/* Would who holds @held still have less than others can, with the last of @n more? */
static bool has_room(const struct share *s, uint64_t held, uint64_t n)
{
	return n <= free_of(s) && held + n - 1 < weight_of(s) * (free_of(s) - (n - 1));
}

static struct share_holder *add(struct share *s, const char *tenant, uint64_t n)
{
	struct share_holder **p = find(s, tenant);

	if (!*p) {
		*p = calloc(1, sizeof(**p) + strlen(tenant) + 1);
		if (!*p)
			return NULL;
		(void)strcpy((*p)->tenant, tenant);
	}
	(*p)->held += n;
	s->used += n;
	return *p;
}

static void give(struct share *s, struct share_holder *h, uint64_t n)
{
	struct share_holder **p = &s->holders;

	n = n < h->held ? n : h->held;
	h->held -= n;
	s->used -= n;
	if (h->held > 0)
		return;
	while (*p != h)
		p = &(*p)->next;
	*p = h->next;
	free(h);
}

int share_take(struct share *s, const char *tenant)
{
	if (!has_room(s, held_by(s, tenant), 1))
		return -EDQUOT;
	return add(s, tenant, 1) ? 0 : -ENOMEM;
}

void share_give(struct share *s, const char *tenant, uint64_t n)
{
	struct share_holder *h = *find(s, tenant);

	if (h)
		give(s, h, n);
}

int share_lease(struct share *s, const char *tenant, uint64_t n, struct share_lease *ret)
{
	uint64_t before = ret->n, held = held_by(s, tenant);

	if (n > before && !has_room(s, held, n - before))
		return -EDQUOT;
	return share_force(s, tenant, n, ret);
}

int share_force(struct share *s, const char *tenant, uint64_t n, struct share_lease *ret)
{
	struct share_lease next = { .n = n };

	if (n > 0) {
		next.holder = add(s, tenant, n);
		if (!next.holder)
			return -ENOMEM;
	}
	share_end(s, ret);
	*ret = next;
	return 0;
}

void share_end(struct share *s, struct share_lease *lease)
{
	struct share_lease old = *lease;

	*lease = (struct share_lease){ 0 };
	if (old.n > 0)
		give(s, old.holder, old.n);
}

void share_look(const struct share *s, const char *tenant, uint64_t *ret_used,
		uint64_t *ret_maximum)
{
	uint64_t w = weight_of(s);

	*ret_used = held_by(s, tenant);
	/* The least that is not below its weight times what is free then. */
	*ret_maximum = ((*ret_used + free_of(s)) * w + w) / (w + 1);
}
