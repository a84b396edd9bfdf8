/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decide.c - decide about a request, in a time that hardly depends on the number of rules
 *
 * The distinct hosts of a list of rules are sorted such that a host is followed by those
 * that it contains (host_compare()). Any two hosts are either nested or disjoint, so the
 * hosts form a forest, and each has a link to the smallest host that contains it. To find
 * the hosts that contain the host of a request, one binary search finds the last host
 * that is not greater, and the links lead to the others. Unlike with a hash table, no
 * input can make this slow.
 *
 * Only rules for the same host are tried one by one. Their ports and streams are in one
 * array, so that most of these rules are skipped without being read.
 */
#include "network/decide.h"

#include <errno.h>
#include <string.h>

#define NONE UINT32_MAX

/* A rule. The entries are sorted by host, then by their order in the list. */
struct index_entry {
	const struct rule *rule;
	uint16_t low, high; /* its lowest and its highest port */
	uint8_t streams;
};

struct index_node {
	const struct host *host;
	uint32_t parent;     /* the smallest host that contains it, or NONE */
	uint32_t first, end; /* its entries */
};

struct index_list {
	struct index_entry *entries;
	struct index_node *nodes;
	uint32_t n_entries, n_nodes;
	uint32_t everything; /* the first entry for HOST_PUBLIC; the other entries for it
				follow */
};

struct policy_index {
	struct index_list lists[2]; /* allow, deny */
};

/* ----------------------------------------------------------------------- index */

static int index_compare(const void *a, const void *b)
{
	const struct rule *x = ((const struct index_entry *)a)->rule;
	const struct rule *y = ((const struct index_entry *)b)->rule;
	int c = host_compare(&x->host, &y->host);

	return c ? c : x < y ? -1 : x > y;
}

/* Return the first node from @at upwards that contains @h. */
static uint32_t index_climb(const struct index_list *l, uint32_t at, const struct host *h)
{
	while (at != NONE && !host_contains(l->nodes[at].host, h))
		at = l->nodes[at].parent;
	return at;
}

/* Create a node for each host among the sorted entries. */
static void index_build(struct index_list *l)
{
	uint32_t i = 0;

	while (i < l->n_entries && l->entries[i].rule->host.kind != HOST_PUBLIC) {
		uint32_t before = l->n_nodes ? l->n_nodes - 1 : NONE;
		struct index_node *node = &l->nodes[l->n_nodes];

		node->host = &l->entries[i].rule->host;
		node->parent = index_climb(l, before, node->host);
		node->first = i;
		do
			i++;
		while (i < l->n_entries &&
		       host_compare(node->host, &l->entries[i].rule->host) == 0);
		node->end = i;
		l->n_nodes++;
	}
	l->everything = i;
}

static int index_list_init(struct index_list *l, const struct rules *rules)
{
	l->entries = calloc(rules->n + 1, sizeof(*l->entries));
	l->nodes = calloc(rules->n + 1, sizeof(*l->nodes));
	if (!l->entries || !l->nodes)
		return -ENOMEM;
	for (size_t i = 0; i < rules->n; i++) {
		const struct rule *r = &rules->list[i];

		l->entries[i] = (struct index_entry){
			.rule = r,
			.low = r->ports ? r->ports[0].low : 1,
			.high = r->ports ? r->ports[r->n_ports - 1].high : UINT16_MAX,
			.streams = rule_streams(r->protocols),
		};
	}
	l->n_entries = (uint32_t)rules->n;
	qsort(l->entries, rules->n, sizeof(*l->entries), index_compare);
	index_build(l);
	return 0;
}

struct policy_index *policy_index_free(struct policy_index *x)
{
	for (size_t i = 0; x && i < ARRAY_SIZE(x->lists); i++) {
		free(x->lists[i].entries);
		free(x->lists[i].nodes);
	}
	free(x);
	return NULL;
}

int policy_index_new(const struct policy *p, struct policy_index **ret,
		     struct warren_error *err)
{
	AUTO_POLICY_INDEX struct policy_index *x = calloc(1, sizeof(*x));

	if (!x || index_list_init(&x->lists[0], &p->allow) < 0 ||
	    index_list_init(&x->lists[1], &p->deny) < 0)
		return error_errno(err, ENOMEM, "index a network policy");
	*ret = TAKE_PTR(x);
	return 0;
}

/* Return the last node that is not greater than @h; NONE: there is none. */
static uint32_t index_find(const struct index_list *l, const struct host *h)
{
	uint32_t low = 0, high = l->n_nodes;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (host_compare(l->nodes[middle].host, h) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : NONE;
}

/* Continue with the entries of a node, or with those for every host. */
static void index_walk_to(struct policy_walk *w, uint32_t node)
{
	const struct index_list *l = &w->index->lists[w->deny];

	w->node = node;
	w->everything = node == NONE;
	w->entry = w->everything ? l->everything : l->nodes[node].first;
	w->end = w->everything ? l->n_entries : l->nodes[node].end;
}

void policy_walk_start(struct policy_walk *w, const struct policy_index *x, bool deny,
		       const struct host *h, const struct extent *e)
{
	const struct index_list *l = &x->lists[deny];

	*w = (struct policy_walk){ .index = x, .extent = e, .deny = deny };
	index_walk_to(w, h->kind == HOST_PUBLIC ? NONE
						: index_climb(l, index_find(l, h), h));
}

const struct rule *policy_walk_next(struct policy_walk *w)
{
	const struct index_list *l = &w->index->lists[w->deny];
	const struct extent *e = w->extent;

	for (;;) {
		while (w->entry < w->end) {
			const struct index_entry *one = &l->entries[w->entry++];

			if (!e || (one->low <= e->high && one->high >= e->low &&
				   (one->streams & e->streams)))
				return one->rule;
		}
		if (w->everything)
			return NULL;
		index_walk_to(w, l->nodes[w->node].parent);
	}
}

/* -------------------------------------------------------------------- decisions */

/* Set @e to everything that the request may turn out to be. */
static bool request_extent(const struct request *q, struct extent *e)
{
	*e = (struct extent){ .low = q->port ? q->port : 1,
			      .high = q->port ? q->port : UINT16_MAX,
			      .streams = rule_streams(q->protocol),
			      .methods = RULE_METHODS_ALL };
	if (q->method && q->protocol != RULE_TCP && q->protocol != RULE_TLS) {
		e->methods = (uint16_t)rule_method_bit(q->method);
		e->path = q->path;
		e->path_len = q->path ? strlen(q->path) : 0;
	}
	if (q->host.kind == HOST_SUFFIX || q->host.kind == HOST_PUBLIC ||
	    (q->host.kind == HOST_NET && q->host.net.bits != 128) ||
	    (q->protocol & (q->protocol - 1)) || q->protocol > RULE_TCP)
		return false;
	return q->opening || (q->port && q->protocol);
}

/* Return the first rule that denies @h for any part of @e (if @opening is set, for all of
 * @e). */
static const struct rule *decide_denied(const struct policy_index *x,
					const struct host *h, const struct extent *e,
					bool opening)
{
	struct policy_walk w;
	const struct rule *r;

	policy_walk_start(&w, x, true, h, e);
	while ((r = policy_walk_next(&w)))
		if (host_denies(&r->host, h) &&
		    (opening ? rule_covers(r, e) : rule_touches(r, e)))
			return r;
	return NULL;
}

/* Is everything in @e inspected? A rule with headers allows only inspected requests,
 * because headers can be added only to them. */
static bool decide_inspected(const struct extent *e)
{
	return e->methods != RULE_METHODS_ALL;
}

static const struct rule *decide_allowed(const struct policy_index *x,
					 const struct host *h, const struct extent *e,
					 bool opening)
{
	struct policy_walk w;
	const struct rule *r;

	policy_walk_start(&w, x, false, h, e);
	while ((r = policy_walk_next(&w)))
		if (host_covers(&r->host, h) &&
		    (opening ? rule_touches(r, e)
			     : rule_covers(r, e) &&
				       (r->n_headers == 0 || decide_inspected(e))))
			return r;
	return NULL;
}

static void decide_host(const struct policy_index *x, const struct host *h,
			const struct extent *e, bool opening, struct decision *ret)
{
	*ret = (struct decision){ .why = DECISION_RULE };
	ret->rule = decide_denied(x, h, e, opening);
	if (ret->rule)
		return;
	ret->rule = decide_allowed(x, h, e, opening);
	ret->allowed = ret->rule != NULL;
	if (!ret->allowed)
		ret->why = h->special ? DECISION_SPECIAL : DECISION_NO_RULE;
}

void policy_decide(const struct policy_index *x, const struct request *q,
		   struct decision *ret)
{
	struct decision address;
	struct extent e;

	if (!request_extent(q, &e)) {
		*ret = (struct decision){ .why = DECISION_INVALID };
		return;
	}
	decide_host(x, &q->host, &e, q->opening, ret);
	if (!ret->allowed || !q->has_address || q->host.kind != HOST_NAME)
		return;
	decide_host(x, &q->address, &e, q->opening, &address);
	if (address.allowed || address.why == DECISION_NO_RULE)
		return;
	*ret = address;
	ret->by_address = true;
}

/* ----------------------------------------------------------------- termination of TLS */

const struct rule *policy_headers(const struct policy_index *x, const struct request *q)
{
	struct policy_walk w;
	const struct rule *r;
	struct extent e;

	if (q->opening || !request_extent(q, &e) || !decide_inspected(&e))
		return NULL;
	policy_walk_start(&w, x, false, &q->host, &e);
	while ((r = policy_walk_next(&w)))
		if (r->n_headers > 0 && host_covers(&r->host, &q->host) &&
		    rule_covers(r, &e))
			return r;
	return NULL;
}

bool policy_terminates(const struct policy_index *x, const struct host *h, uint16_t port)
{
	struct request q = { .host = *h, .port = port, .protocol = RULE_TLS };
	struct policy_walk w;
	const struct rule *r;
	struct decision d;
	struct extent e;

	if (h->kind != HOST_NAME || !request_extent(&q, &e))
		return false;
	policy_walk_start(&w, x, false, h, &e);
	while ((r = policy_walk_next(&w)))
		if (r->n_headers > 0 && host_covers(&r->host, h) && rule_touches(r, &e))
			return true;
	policy_decide(x, &q, &d);
	if (d.allowed)
		return false;
	q.protocol = RULE_HTTPS;
	q.opening = true;
	policy_decide(x, &q, &d);
	return d.allowed;
}

/* ------------------------------------------------------------------ explanations */

int decision_suggest(const struct request *q, const struct decision *d, struct policy *to,
		     struct warren_error *err)
{
	struct rule *r = NULL;
	int e;

	if (d->allowed || d->why == DECISION_RULE || d->why == DECISION_INVALID)
		return 0;
	e = policy_add(to, &to->allow, d->by_address ? &q->address : &q->host, &r, err);
	if (e < 0)
		return e;
	r->protocols = q->protocol;
	if (q->port)
		e = rule_add_ports(r, q->port, q->port, err);
	if (e == 0 && q->method && (q->protocol & (RULE_HTTP | RULE_HTTPS))) {
		unsigned bit = rule_method_bit(q->method);

		/* A method without a name needs a rule without methods. */
		if (bit != (RULE_METHODS_ALL + 1) >> 1)
			r->methods = (uint16_t)bit;
		/* A path that ends in '*', or is too long, needs a rule without paths. */
		if (q->path && !strchr(q->path, '*') && strlen(q->path) <= RULE_PATH_MAX)
			e = rule_add_path(r, q->path, strlen(q->path), err);
	}
	if (e < 0) {
		policy_drop_last(&to->allow);
		return e;
	}
	return 1;
}

static void decision_put_request(const struct request *q, struct buf *out)
{
	char text[HOST_TEXT_SIZE];
	unsigned i = 0;

	host_text(&q->host, text);
	buf_printf(out, q->host.kind == HOST_NET && strchr(text, ':') ? "[%s]" : "%s",
		   text);
	if (q->port)
		buf_printf(out, ":%u", q->port);
	while (q->protocol && !(q->protocol >> i & 1))
		i++;
	if (q->protocol)
		buf_printf(out, " (%s)", rule_protocol_name(i));
	if (q->method)
		buf_printf(out, " %.32s %.256s", q->method,
			   q->path ? q->path
				   : "(a path that servers read in different ways)");
}

void decision_text(const struct request *q, const struct decision *d, struct buf *out)
{
	char address[HOST_TEXT_SIZE] = "", rule[HOST_TEXT_SIZE] = "";
	const struct host *h = d->by_address ? &q->address : &q->host;
	const char *special = h->kind == HOST_NET ? address_net_special(&h->net) : NULL;

	if (d->why == DECISION_INVALID) {
		buf_puts(out, "the request names no single host, port and protocol");
		return;
	}
	if (d->rule)
		host_text(&d->rule->host, rule);
	if (h->kind == HOST_NET)
		host_text(h, address);
	if (d->why == DECISION_RULE)
		buf_printf(out, "the rule for %s %s ",
			   d->rule && d->rule->host.kind == HOST_PUBLIC
				   ? "every public host"
				   : rule,
			   d->allowed ? "allows" : "denies");
	else
		buf_puts(out, "no rule allows ");
	decision_put_request(q, out);
	if (d->by_address)
		buf_printf(out, ", which is at %s", address);
	if (d->why == DECISION_SPECIAL)
		buf_printf(out, ": %s is a special-purpose address (%s)", address,
			   special ? special : "");
}
