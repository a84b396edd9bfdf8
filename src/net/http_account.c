/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_account.c - bytes that a server holds for requests, shared among their owners
 *
 * There are two accounts, one for bodies that are being collected and one for data that
 * handlers keep for answers, so that neither blocks the other. A request with an owner
 * (http_owner()) gets more memory while its owner holds less than the account's weight
 * times the bytes that are then left. So a new owner finds space, even if another owner
 * does not finish its bodies or does not read its answers. Requests without an owner come
 * from the machine's owner, and only the limit of the account applies to them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "net/http_internal.h"

/* For each body, so that a small request is always accepted. */
#define BODY_FREE (16U << 10)

struct http_owner {
	struct http_owner *next;
	unsigned refs; /* requests */
	size_t held[HTTP_ACCOUNTS];
	char name[];
};

static const size_t weights[] = {
	[HTTP_BODIES] = 1, /* one owner alone may use half */
	[HTTP_KEPT] = 3,   /* three quarters */
};
_Static_assert(ARRAY_SIZE(weights) == HTTP_ACCOUNTS, "an account has no weight");

static struct http_owner *find_owner(struct http_accounts *all, const char *name)
{
	struct http_owner *o = all->owners;

	while (o && strcmp(o->name, name) != 0)
		o = o->next;
	if (o)
		return o;
	o = calloc(1, sizeof(*o) + strlen(name) + 1);
	if (!o)
		return NULL;
	(void)strcpy(o->name, name);
	o->next = all->owners;
	all->owners = o;
	return o;
}

int http_account_own(struct http_accounts *all, struct request *r, const char *name)
{
	struct http_owner *o = find_owner(all, name);

	if (!o)
		return -ENOMEM;
	o->refs++;
	http_account_leave(all, r);
	r->owner = o;
	return 0;
}

static bool http_account_has_room(const struct http_accounts *all,
				  enum http_account which, const struct http_owner *o,
				  size_t n)
{
	size_t limit = all->limit[which], used = all->used[which],
	       left = limit > used ? limit - used : 0;

	if (n > left)
		return false;
	return !o || o->held[which] + n <= weights[which] * (left - n);
}

static bool http_account_take(struct http_accounts *all, enum http_account which,
			      struct request *r, size_t n)
{
	if (n > 0 && !http_account_has_room(all, which, r->owner, n))
		return false;
	all->used[which] += n;
	r->held[which] += n;
	if (r->owner)
		r->owner->held[which] += n;
	return true;
}

bool http_account_body(struct http_accounts *all, struct request *r, size_t len)
{
	return len <= BODY_FREE ||
	       http_account_take(all, HTTP_BODIES, r,
				 len - BODY_FREE - r->held[HTTP_BODIES]);
}

bool http_account_window(struct http_accounts *all, struct request *r, size_t n)
{
	return http_account_take(all, HTTP_BODIES, r, n);
}

bool http_account_keep(struct http_accounts *all, struct request *r, size_t n)
{
	return http_account_take(all, HTTP_KEPT, r, n);
}

void http_account_give(struct http_accounts *all, enum http_account which,
		       struct request *r)
{
	all->used[which] -= r->held[which];
	if (r->owner)
		r->owner->held[which] -= r->held[which];
	r->held[which] = 0;
}

void http_account_leave(struct http_accounts *all, struct request *r)
{
	struct http_owner *o = r->owner;

	for (enum http_account i = 0; i < HTTP_ACCOUNTS; i++)
		http_account_give(all, i, r);
	r->owner = NULL;
	if (!o || --o->refs > 0)
		return;
	(void)LIST_REMOVE(all->owners, o);
	free(o);
}
