/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage.c - what sandboxes use of the network: of each sandbox, and of each tenant
 *
 * warren-egress reports once per second; it is also asked when a client wants to know,
 * and for the last time when a sandbox is removed. Each value is the sum since the
 * sandbox was created, so it does not matter which reports are lost.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "service/network/internal.h"

#define DENIED_MS  1000 /* between two events for a sandbox */
#define DENIED_MAX 2048 /* bytes of a denial in an event */
#define REASON_MAX 256

/* ---------------------------------------------------------------------- totals */

static struct network_total *usage_total(struct service *s, const char *tenant)
{
	struct service_network *n = service_network(s);

	/* The first row is for all tenants that have no row of their own. */
	for (size_t i = 1; i < n->n_totals; i++)
		if (strcmp(n->totals[i].tenant, tenant) == 0)
			return &n->totals[i];
	if (n->n_totals == 0)
		n->n_totals = 1;
	if (n->n_totals == NETWORK_TOTALS_MAX)
		return &n->totals[0];
	(void)strncpy(n->totals[n->n_totals].tenant, tenant, DB_NAME_MAX);
	return &n->totals[n->n_totals++];
}

static uint64_t usage_more(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static void usage_count(struct service *s, const char *tenant,
			const struct egress_usage *now, const struct egress_usage *before)
{
	struct egress_usage *t = &usage_total(s, tenant)->usage;

	t->connections += usage_more(now->connections, before->connections);
	t->denied += usage_more(now->denied, before->denied);
	t->bytes_in += usage_more(now->bytes_in, before->bytes_in);
	t->bytes_out += usage_more(now->bytes_out, before->bytes_out);
	t->lookups += usage_more(now->lookups, before->lookups);
	t->lookups_limited += usage_more(now->lookups_limited, before->lookups_limited);
}

const struct network_total *network_totals(const struct service *s, size_t *ret_n)
{
	const struct service_network *n = service_network(s);

	*ret_n = n->n_totals ? n->n_totals : 1;
	return n->totals;
}

/* --------------------------------------------------------------------- reports */

static void usage_set(struct sandbox *sandbox, const struct egress_usage *now)
{
	struct sandbox_network *n = sandbox_network(sandbox);
	struct warren_error ignored = WARREN_ERROR_INIT;
	/* After a crash, reserved bytes may have been used. */
	const uint64_t row[DB_NETWORK_MAX] = { now->connections, now->denied,
					       now->bytes_in + now->reserved,
					       now->bytes_out };

	if (memcmp(&n->usage, now, sizeof(*now)) == 0)
		return;
	usage_count(sandbox->service, sandbox->row.owner, now, &n->usage);
	n->usage = *now;
	survive(sandbox->service,
		db_set_network(sandbox->service->db, sandbox->row.id, row, &ignored));
}

void network_hear_usage(struct service *s, const struct egress_usage_report *report)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_DB_TX struct db_tx tx = { 0 };

	survive(s, db_begin(s->db, DB_CRASH_SAFE, &tx, &ignored));
	for (size_t i = 0; i < report->n; i++) {
		struct sandbox *sandbox = sandbox_find(s, NULL, report->rows[i].id);

		if (sandbox && sandbox_network(sandbox))
			usage_set(sandbox, &report->rows[i].usage);
	}
	survive(s, tx.db ? db_commit(&tx, &ignored) : 0);
}

/*
 * Write a denial for an event: without its time, which the event contains, and truncated
 * if it is long.
 */
static char *usage_event_text(const char *text)
{
	json_t *in = json_loads(text, 0, NULL);
	char *out;

	(void)json_object_del(in, "time");
	out = in ? json_dumps(in, JSON_COMPACT) : NULL;
	if (out && strlen(out) > DENIED_MAX) {
		const char *why = json_string_value(json_object_get(in, "reason"));
		char reason[REASON_MAX];

		(void)snprintf(reason, sizeof(reason), "%s", why ? why : "");
		free(out);
		(void)json_object_del(in, "path");
		(void)json_object_del(in, "rule");
		/*
		 * The text may have been truncated within a character; then leave out the
		 * reason.
		 */
		if (json_object_set_new(in, "reason", json_string(reason)) < 0)
			(void)json_object_set_new(in, "reason", json_string(""));
		out = json_dumps(in, JSON_COMPACT);
	}
	json_decref(in);
	return out;
}

void network_hear_denied(struct service *s, const struct egress_denied *denied)
{
	struct sandbox *sandbox = sandbox_find(s, NULL, denied->id);
	uint64_t now = loop_now(s->loop);
	AUTO_FREE char *text = NULL;

	/* A sandbox decides how many denials there are; network_query() lists them. */
	if (!sandbox || now - sandbox_network(sandbox)->denied_at < DENIED_MS)
		return;
	sandbox_network(sandbox)->denied_at = now;
	text = usage_event_text(denied->text);
	event_emit_denied(s, sandbox, text);
}

/* -------------------------------------------------------------------- requests */

struct usage_op {
	struct service *service;
	char id[ID_LEN + 1];
	/* For the last request of a sandbox, which may be gone when the reply arrives. */
	bool last;
	char tenant[DB_NAME_MAX + 1];
	struct egress_usage before;
	void (*done)(void *ctx);
	void *ctx;
};

static void usage_on_counted(void *ctx, const struct warren_error *failure,
			     const char *data, size_t n)
{
	struct usage_op *op = ctx;
	struct sandbox *sandbox = sandbox_find(op->service, NULL, op->id);
	struct egress_usage now;

	if (!failure && n == sizeof(now)) {
		(void)memcpy(&now, data, sizeof(now));
		if (sandbox && sandbox_network(sandbox))
			usage_set(sandbox, &now);
		else if (op->last)
			usage_count(op->service, op->tenant, &now, &op->before);
	}
	if (op->done)
		op->done(op->ctx);
	free(op);
}

static int usage_ask(struct sandbox *sandbox, enum egress_type type, struct usage_op *op)
{
	struct egress_request msg;
	int r;

	if (!op)
		return -ENOMEM;
	op->service = sandbox->service;
	(void)memcpy(op->id, sandbox->row.id, sizeof(op->id));
	egress_proto_request(&msg, type, 0, sandbox->row.id);
	r = egress_conn_ask(sandbox->service, &msg, sizeof(msg), NULL, 0,
			    usage_on_counted, op);
	if (r < 0)
		free(op);
	return r;
}

void network_refresh(struct sandbox *sandbox, void (*done)(void *ctx), void *ctx)
{
	struct usage_op *op = NULL;

	if (sandbox_network(sandbox)->attached)
		op = calloc(1, sizeof(*op));
	if (op) {
		op->done = done;
		op->ctx = ctx;
	}
	if (usage_ask(sandbox, EGRESS_COUNT, op) < 0)
		done(ctx);
}

void network_remove(struct sandbox *sandbox)
{
	struct sandbox_network *n = sandbox_network(sandbox);
	struct usage_op *op = calloc(1, sizeof(*op));

	n->attached = false;
	if (op) {
		op->last = true;
		op->before = n->usage;
		(void)strncpy(op->tenant, sandbox->row.owner, DB_NAME_MAX);
	}
	/*
	 * If the request cannot be sent, warren-egress forgets the sandbox when the
	 * connection or the sandbox ends.
	 */
	(void)usage_ask(sandbox, EGRESS_REMOVE, op);
}
