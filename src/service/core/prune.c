/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prune.c - delete rows that are not needed any more, some at a time
 *
 *	tokens	 a day after they were revoked or expired; until then, lists show them
 *	requests a day after they were made, and beyond the maximum number per tenant
 */
#include <string.h>

#include "service/core/internal.h"

#define DAY_MS        (INT64_C(24) * 3600 * 1000)
#define REQUESTS_KEPT 100000 /* maximum number of idempotency keys of one tenant */
#define AT_ONCE       256    /* maximum number of rows in one turn of the loop */
#define PRUNE_MS      60000

/*
 * Each of these functions deletes at most AT_ONCE rows, and returns their number or
 * -errno. If the number is larger than 0, there may be more.
 */
static int prune_tokens(struct service *s, struct warren_error *err)
{
	return db_prune_tokens(s->db, service_time() - DAY_MS, AT_ONCE, err);
}

static int prune_requests(struct service *s, struct warren_error *err)
{
	return db_prune_requests(s->db, service_time() - DAY_MS, AT_ONCE, err);
}

/* Handle one tenant in each turn. */
static int limit_requests(struct service *s, struct warren_error *err)
{
	char next[DB_NAME_MAX + 1];
	int r;

	if (s->prune_owner[0]) {
		r = db_limit_requests(s->db, s->prune_owner, REQUESTS_KEPT, AT_ONCE, err);
		if (r < 0 || r >= AT_ONCE)
			return r;
	}
	(void)memcpy(next, s->prune_owner, sizeof(next));
	r = db_next_requester(s->db, next, err);
	if (r <= 0)
		next[0] = '\0';
	(void)memcpy(s->prune_owner, next, sizeof(next));
	return r > 0 ? AT_ONCE : r;
}

static int save_clock(struct service *s, struct warren_error *err)
{
	return service_clock_save(s->db, err);
}

static int (*const steps[])(struct service *s, struct warren_error *err) = {
	save_clock,
	prune_tokens,
	prune_requests,
	limit_requests,
};

static void prune_on_timer(void *ctx)
{
	struct service *s = ctx;
	struct warren_error ignored = WARREN_ERROR_INIT;
	int r = steps[s->prune_step](s, &ignored);

	survive(s, r);
	if (r < AT_ONCE)
		s->prune_step = (s->prune_step + 1) % ARRAY_SIZE(steps);
	/* If the database cannot be written to now, the next round tries again. */
	loop_timer_set(s->prune_timer, r >= AT_ONCE || s->prune_step != 0 ? 1 : PRUNE_MS);
}

int prune_open(struct service *s)
{
	int r = loop_timer_new(s->loop, prune_on_timer, s, &s->prune_timer);

	if (r == 0)
		loop_timer_set(s->prune_timer, 1000);
	return r;
}

void prune_close(struct service *s)
{
	s->prune_timer = loop_timer_free(s->prune_timer);
}
