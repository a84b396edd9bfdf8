/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fair_quota.c - distributes resources that the kernel limits for the whole service among
 * tenants
 */
#include "service/core/fair_quota.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"

struct fair_quota_holder {
	struct fair_quota_holder *next;
	uint64_t held; /* never 0: tenants that hold nothing are not listed */
	char tenant[];
};

/* Return the place where the tenant is or would be linked. */
static struct fair_quota_holder **fair_quota_find(struct fair_quota *s,
						  const char *tenant)
{
	struct fair_quota_holder **p;

	LIST_FIND(s->holders, p, strcmp((*p)->tenant, tenant) == 0);
	return p;
}

static uint64_t held_by(const struct fair_quota *s, const char *tenant)
{
	for (const struct fair_quota_holder *h = s->holders; h; h = h->next)
		if (strcmp(h->tenant, tenant) == 0)
			return h->held;
	return 0;
}

static uint64_t free_of(const struct fair_quota *s)
{
	return s->limit > s->used ? s->limit - s->used : 0;
}

static uint64_t weight_of(const struct fair_quota *s)
{
	return s->weight ? s->weight : 1;
}

/* Would a tenant that holds @held and gets @n more still leave enough for the others? */
static bool fair_quota_has_room(const struct fair_quota *s, uint64_t held, uint64_t n)
{
	return n <= free_of(s) && held + n - 1 < weight_of(s) * (free_of(s) - (n - 1));
}

static struct fair_quota_holder *fair_quota_add(struct fair_quota *s, const char *tenant,
						uint64_t n)
{
	struct fair_quota_holder **p = fair_quota_find(s, tenant);

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

static void service_fair_quota_give(struct fair_quota *s, struct fair_quota_holder *h,
				    uint64_t n)
{
	n = n < h->held ? n : h->held;
	h->held -= n;
	s->used -= n;
	if (h->held > 0)
		return;
	(void)LIST_REMOVE(s->holders, h);
	free(h);
}

int fair_quota_take(struct fair_quota *s, const char *tenant)
{
	if (!fair_quota_has_room(s, held_by(s, tenant), 1))
		return -EDQUOT;
	return fair_quota_add(s, tenant, 1) ? 0 : -ENOMEM;
}

void fair_quota_give(struct fair_quota *s, const char *tenant, uint64_t n)
{
	struct fair_quota_holder *h = *fair_quota_find(s, tenant);

	if (h)
		service_fair_quota_give(s, h, n);
}

int fair_quota_lease(struct fair_quota *s, const char *tenant, uint64_t n,
		     struct fair_quota_lease *ret)
{
	uint64_t before = ret->n, held = held_by(s, tenant);

	if (n > before && !fair_quota_has_room(s, held, n - before))
		return -EDQUOT;
	return fair_quota_force(s, tenant, n, ret);
}

int fair_quota_force(struct fair_quota *s, const char *tenant, uint64_t n,
		     struct fair_quota_lease *ret)
{
	struct fair_quota_lease next = { .n = n };

	if (n > 0) {
		next.holder = fair_quota_add(s, tenant, n);
		if (!next.holder)
			return -ENOMEM;
	}
	fair_quota_end(s, ret);
	*ret = next;
	return 0;
}

void fair_quota_end(struct fair_quota *s, struct fair_quota_lease *lease)
{
	struct fair_quota_lease old = *lease;

	*lease = (struct fair_quota_lease){ 0 };
	if (old.n > 0)
		service_fair_quota_give(s, old.holder, old.n);
}

void fair_quota_look(const struct fair_quota *s, const char *tenant, uint64_t *ret_used,
		     uint64_t *ret_maximum)
{
	uint64_t w = weight_of(s);

	*ret_used = held_by(s, tenant);
	/* This is the smallest value that is not below the weight times the rest that is
	 * free. */
	*ret_maximum = ((*ret_used + free_of(s)) * w + w) / (w + 1);
}
