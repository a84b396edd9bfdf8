/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - shared by the files of the module */
#ifndef SERVICE_NETWORK_INTERNAL_H
#define SERVICE_NETWORK_INTERNAL_H

#include "net/loop.h"
#include "service/core/module.h"
#include "service/network/network.h"

typedef void (*egress_answer_fn)(void *ctx, const struct warren_error *err,
				 const char *data, size_t n);

/* egress_conn.c: the connection to warren-egress. */
struct egress_conn {
	struct service *service;
	int sock;      /* -1: it does not run */
	bool starting; /* the warden is asked to start it */
	struct loop_watch *watch;
	struct loop_timer *timer; /* for the next start */
	struct loop_timer *late;  /* for requests without a reply */
	struct loop_timer *beat;  /* checks whether it works */
	unsigned silent;          /* intervals of @beat since its last message */
	bool late_set;
	uint64_t wait_ms;    /* before the next start; 0: it has not failed lately */
	uint64_t started_at; /* ms of the loop's clock */
	uint64_t cookie;
	uint64_t renewed_at; /* ms; 0: egress_conn_renew() has done nothing yet */
	uint64_t ends;       /* how often it ended while it served sandboxes */
	struct egress_ask *asks, **asks_tail;
	struct warren_error failure; /* why it could not be started */
};

/* The module's state for the service. */
struct service_network {
	struct egress_conn conn;
	struct network_total totals[NETWORK_TOTALS_MAX];
	size_t n_totals;
};

struct network_wait {
	struct network_wait *next;
	struct sandbox *sandbox;
	struct loop_timer *late; /* its deadline */
	service_done_fn done;
	void *ctx;
};

/* The module's state for a sandbox. */
struct sandbox_network {
	struct sandbox *sandbox;
	char *policy;    /* JSON; NULL: none */
	bool attached;   /* warren-egress serves it */
	bool changed;    /* warren-egress has an older policy */
	bool busy;       /* a request for it is in progress */
	bool terminates; /* the policy needs TLS to be terminated */
	bool trusted;    /* the sandbox trusts the authority of warren-egress */
	char *distrust;  /* why some of its programs do not; NULL: they do */
	bool lost;       /* its init has ended, and no other was created yet */
	unsigned lives;  /* how often an init of it has ended */
	unsigned tries;
	struct loop_timer *timer; /* for another attempt */
	struct egress_usage usage;
	uint64_t denied_at; /* ms of the loop's clock: the last event of a denial */
	struct network_wait *waits;
};

static inline struct service_network *service_network(const struct service *s)
{
	return s->modules[MODULE_NETWORK];
}

static inline struct sandbox_network *sandbox_network(const struct sandbox *sandbox)
{
	return sandbox->modules[MODULE_NETWORK];
}

int egress_conn_open(struct service *s, struct warren_error *err);
void egress_conn_close(struct service *s);
/* Start warren-egress, unless it runs; network_all_step() is called when it does. */
void egress_conn_start(struct service *s);
/*
 * warren-egress has no authority, because it could not create one when it started. Start
 * another process, which tries again; false: that was done just now.
 */
bool egress_conn_renew(struct service *s);
static inline bool egress_conn_is_up(const struct service *s)
{
	return service_network(s)->conn.sock >= 0;
}
/*
 * Send a request; its cookie is set. Calls @fn once with the reply. -EAGAIN: the
 * connection is full; -ENOTCONN: it is closed; then @fn is not called.
 */
int egress_conn_ask(struct service *s, void *msg, size_t size, const int *fds,
		    size_t n_fds, egress_answer_fn fn, void *ctx);

/* network.c: warren-egress has started or ended. */
void network_all_step(struct service *s, bool started);

/* trust.c */
/* Does the policy, which is JSON, need TLS to be terminated? */
bool trust_needed(const char *policy);

/* usage.c: reports of warren-egress. */
void network_hear_usage(struct service *s, const struct egress_usage_report *report);
void network_hear_denied(struct service *s, const struct egress_denied *denied);
/* Tell warren-egress to remove the sandbox, and count its last usage. */
void network_remove(struct sandbox *sandbox);

#endif /* SERVICE_NETWORK_INTERNAL_H */
