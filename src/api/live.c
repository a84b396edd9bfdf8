/* SPDX-License-Identifier: Apache-2.0 */
/* live.c - requests under way end with the token that opened them */
#include "api/live.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "net/loop.h"
#include "service/core/service.h"

/*
 * While no other tenant is active, one tenant can use fifteen of sixteen connections.
 * That leaves some for others. With a limit of 20,000 open files, an eighth of which is
 * for connections, it is enough for two thousand streams.
 */
#define TCP_WEIGHT 15

/* Check at least this often, because timers stop while the machine sleeps. */
#define STEP_MS 1000

struct live {
	struct net_loop *loop;
	struct db *db;
	struct live_request all;  /* the head of the list */
	struct loop_task task;    /* checks requests whose token may have changed */
	struct loop_timer *timer; /* fires when the next token expires */
	int64_t due;              /* time of the next expiry; 0: none */
	struct fair_quota tcp;    /* busy connections */
};

static void live_arm(struct live *l)
{
	int64_t left = l->due - service_time();

	left = left < 0 ? 0 : left;
	loop_timer_set(l->timer, left < STEP_MS ? (uint64_t)left : STEP_MS);
}

static void live_cut(struct live_request *r, const char *why)
{
	void (*ended)(struct live_request * r) = r->ended;
	struct http_request *req = r->req;

	live_leave(r);
	if (req)
		http_cut(req, 401, why); /* @r and other requests may be freed now */
	else if (ended)
		ended(r);
}

/*
 * Find the first request that must end, for which @fn returns the reason; the list
 * changes while requests end.
 */
static struct live_request *
live_find(struct live *l, int64_t now, const char **ret_why,
	  const char *(*fn)(struct live *l, struct live_request *r, int64_t now))
{
	for (struct live_request *r = l->all.next; r != &l->all; r = r->next)
		if ((*ret_why = fn(l, r, now)))
			return r;
	return NULL;
}

static const char *live_is_worthless(struct live *l, struct live_request *r,
				     int64_t now UNUSED)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int state;

	if (!r->doubtful)
		return NULL;
	r->doubtful = false;
	state = db_check_token(l->db, r->caller->token, &err);
	/* A token that cannot be looked up is treated as invalid. */
	return state == 0 ? NULL : "the token was revoked";
}

static const char *live_has_expired(struct live *l, struct live_request *r, int64_t now)
{
	int64_t when = r->caller->expires_at;

	if (when && when <= now)
		return "the token has expired";
	if (when && (!l->due || when < l->due))
		l->due = when;
	return NULL;
}

static void live_on_task(void *ctx)
{
	struct live *l = ctx;
	struct live_request *r;
	const char *why;

	while ((r = live_find(l, 0, &why, live_is_worthless)))
		live_cut(r, why);
}

static void live_on_timer(void *ctx)
{
	struct live *l = ctx;
	int64_t now = service_time();
	struct live_request *r;
	const char *why;

	if (l->due <= now || l->all.next == &l->all) {
		do {
			l->due = 0;
			r = live_find(l, now, &why, live_has_expired);
			if (r)
				live_cut(r, why);
		} while (r);
	}
	if (l->due)
		live_arm(l);
}

/* This runs within a statement of the database, so query the database later. */
static void live_on_token(void *ctx, uint64_t seq)
{
	struct live *l = ctx;
	bool any = false;

	for (struct live_request *r = l->all.next; r != &l->all; r = r->next) {
		if (r->caller->token_seq == seq)
			any = r->doubtful = true;
	}
	if (any)
		loop_defer(l->loop, &l->task);
}

int live_new(struct net_loop *loop, struct db *db, uint64_t tcp_max, struct live **ret)
{
	struct live *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	l->loop = loop;
	l->db = db;
	l->tcp = (struct fair_quota){ .limit = tcp_max, .weight = TCP_WEIGHT };
	l->all.next = l->all.prev = &l->all;
	l->task = (struct loop_task){ .fn = live_on_task, .ctx = l };
	r = loop_timer_new(loop, live_on_timer, l, &l->timer);
	if (r < 0) {
		free(l);
		return r;
	}
	db_on_token(db, live_on_token, l);
	*ret = l;
	return 0;
}

struct live *live_free(struct live *l)
{
	if (!l)
		return NULL;
	db_on_token(l->db, NULL, NULL);
	while (l->all.next != &l->all)
		live_leave(l->all.next);
	loop_task_cancel(&l->task);
	l->timer = loop_timer_free(l->timer);
	free(l);
	return NULL;
}

static int live_charge(struct live *l, struct live_request *r, struct api_error *err)
{
	const char *tenant = r->caller->tenant;
	uint64_t used, maximum;
	int code;

	if (l->tcp.limit == 0 || r->req->peer->kind != HTTP_PEER_TCP)
		return 0;
	code = fair_quota_lease(&l->tcp, tenant, 1, &r->busy);
	if (code == 0)
		return 0;
	if (code != -EDQUOT)
		return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	fair_quota_look(&l->tcp, tenant, &used, &maximum);
	(void)api_error_set(
		err, API_ERR_QUOTA_EXCEEDED,
		"the tenant '%s' has %" PRIu64
		" requests in progress over TCP and cannot have more, because other tenants need connections too: end some of them",
		tenant, used);
	api_error_text(err, "quota", "requests in progress over TCP");
	api_error_number(err, "used", used);
	api_error_number(err, "maximum", maximum);
	return -EBADMSG;
}

static void live_add(struct live *l, struct live_request *r, const struct caller *caller)
{
	*r = (struct live_request){
		.next = &l->all, .prev = l->all.prev, .caller = caller, .live = l
	};
	l->all.prev->next = r;
	l->all.prev = r;
	if (caller->expires_at && (!l->due || caller->expires_at < l->due)) {
		l->due = caller->expires_at;
		live_arm(l);
	}
}

int live_enter(struct live *l, struct live_request *r, struct http_request *req,
	       const struct caller *caller, struct api_error *err)
{
	return caller->token[0] ? live_count(l, r, req, caller, err) : 0;
}

int live_count(struct live *l, struct live_request *r, struct http_request *req,
	       const struct caller *caller, struct api_error *err)
{
	if (!l)
		return 0;
	live_add(l, r, caller);
	r->req = req;
	req->handle = &r->req;
	return live_charge(l, r, err);
}

void live_hold(struct live *l, struct live_request *r, const struct caller *caller,
	       void (*ended)(struct live_request *r))
{
	if (!l || !caller->token[0])
		return;
	live_add(l, r, caller);
	r->ended = ended;
}

void live_leave(struct live_request *r)
{
	if (!r->next)
		return;
	r->next->prev = r->prev;
	r->prev->next = r->next;
	if (r->req)
		r->req->handle = NULL;
	fair_quota_end(&r->live->tcp, &r->busy);
	*r = (struct live_request){ 0 };
}
