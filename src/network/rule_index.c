/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rule_index.c - find the rules of a request among many
 *
 * The distinct hosts of a list of rules are sorted such that a host is followed by those
 * that it contains (host_compare()). Any two hosts are either nested or disjoint, so the
 * hosts form a forest, and each has a link to the smallest host that contains it. To find
 * the hosts that contain the host of a request, one binary search finds the last host
 * that is not greater, and the links lead to the others. Unlike with a hash table, no
 * input can make this slow.
 *
 * The paths of the rules for a host form a forest in the same way: "/a*" contains "/a",
 * "/ab*" and "/ab". Rules for the same host without paths are tried one by one. Their
 * ports, methods and streams are in one array, so that most of these rules are skipped
 * without being read.
 */
#include "network/rule_index.h"

#include <errno.h>
#include <string.h>

#include "base/strv.h"

#define NONE UINT32_MAX

/* A rule. The entries are sorted by host, then by their order in the list. */
struct index_entry {
	const struct rule *rule;
};

/* What is compared before the rule itself is read. */
struct index_span {
	uint16_t low, high; /* the lowest and the highest port */
	uint16_t methods;
	uint8_t streams;
};

struct index_node {
	const struct host *host;
	uint32_t parent;                 /* the smallest host that contains it, or NONE */
	uint32_t first, end;             /* its entries */
	uint32_t plain_first, plain_end; /* those of its entries that have no paths */
	uint32_t path_first, path_end;   /* the paths of the others */
};

/* A path of an entry. Those of a node are sorted by path, then by entry. */
struct index_path {
	const char *text;
	uint32_t len; /* without the '*' */
	uint32_t entry;
	uint32_t parent; /* the longest path before it that contains it, or NONE */
	bool prefix;
};

struct index_list {
	struct index_entry *entries;
	struct index_span *spans;       /* one for each entry */
	uint32_t *plain;                /* entries without paths, in their order */
	struct index_span *plain_spans; /* one for each of these */
	struct index_path *paths;
	struct index_node *nodes; /* the last one is for HOST_PUBLIC */
	uint32_t n_entries, n_nodes, n_plain, n_paths;
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
	l->nodes[l->n_nodes] = (struct index_node){ .first = i, .end = l->n_entries };
}

/* Compare two paths: directly after a path come those that it contains. */
static int index_compare_paths(const struct index_path *a, const struct index_path *b)
{
	int c = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);

	if (c)
		return c;
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return b->prefix - a->prefix;
}

static int index_sort_paths(const void *a, const void *b)
{
	const struct index_path *x = a, *y = b;
	int c = index_compare_paths(x, y);

	return c ? c : x->entry < y->entry ? -1 : x->entry > y->entry;
}

static bool index_path_contains(const struct index_path *outer,
				const struct index_path *inner)
{
	if (!outer->prefix && (inner->prefix || outer->len != inner->len))
		return false;
	return outer->len <= inner->len &&
	       memcmp(outer->text, inner->text, outer->len) == 0;
}

/* Return the first path from @at upwards that contains @inner. */
static uint32_t index_climb_paths(const struct index_list *l, uint32_t at,
				  const struct index_path *inner)
{
	while (at != NONE && !index_path_contains(&l->paths[at], inner))
		at = l->paths[at].parent;
	return at;
}

static void index_add_paths(struct index_list *l, uint32_t entry)
{
	char **paths = l->entries[entry].rule->paths;

	if (!paths) {
		l->plain[l->n_plain] = entry;
		l->plain_spans[l->n_plain++] = l->spans[entry];
	}
	for (size_t i = 0; paths && paths[i]; i++) {
		size_t len = strlen(paths[i]);
		bool prefix = len > 0 && paths[i][len - 1] == '*';

		l->paths[l->n_paths++] =
			(struct index_path){ .text = paths[i],
					     .len = (uint32_t)(len - prefix),
					     .entry = entry,
					     .prefix = prefix };
	}
}

/* Divide the entries of a node into those with and without paths. */
static void index_build_paths(struct index_list *l, uint32_t node)
{
	struct index_node *n = &l->nodes[node];

	n->plain_first = l->n_plain;
	n->path_first = l->n_paths;
	for (uint32_t i = n->first; i < n->end; i++)
		index_add_paths(l, i);
	n->plain_end = l->n_plain;
	n->path_end = l->n_paths;
	qsort(l->paths + n->path_first, n->path_end - n->path_first, sizeof(*l->paths),
	      index_sort_paths);
	for (uint32_t i = n->path_first; i < n->path_end; i++)
		l->paths[i].parent = index_climb_paths(
			l, i > n->path_first ? i - 1 : NONE, &l->paths[i]);
}

static struct index_span index_span_of(const struct rule *r)
{
	return (struct index_span){
		.low = r->ports ? r->ports[0].low : 1,
		.high = r->ports ? r->ports[r->n_ports - 1].high : UINT16_MAX,
		.methods = r->methods,
		.streams = rule_streams(r->protocols),
	};
}

/* Return the number of paths that all rules have. */
static size_t index_count_paths(const struct rules *rules)
{
	size_t n = 0;

	for (size_t i = 0; i < rules->n; i++)
		n += strv_len(rules->list[i].paths);
	return n;
}

static int index_list_init(struct index_list *l, const struct rules *rules)
{
	l->entries = calloc(rules->n + 1, sizeof(*l->entries));
	l->spans = calloc(rules->n + 1, sizeof(*l->spans));
	l->plain = calloc(rules->n + 1, sizeof(*l->plain));
	l->plain_spans = calloc(rules->n + 1, sizeof(*l->plain_spans));
	l->nodes = calloc(rules->n + 1, sizeof(*l->nodes));
	l->paths = calloc(index_count_paths(rules) + 1, sizeof(*l->paths));
	if (!l->entries || !l->spans || !l->plain || !l->plain_spans || !l->nodes ||
	    !l->paths)
		return -ENOMEM;
	for (size_t i = 0; i < rules->n; i++)
		l->entries[i].rule = &rules->list[i];
	l->n_entries = (uint32_t)rules->n;
	qsort(l->entries, rules->n, sizeof(*l->entries), index_compare);
	for (size_t i = 0; i < rules->n; i++)
		l->spans[i] = index_span_of(l->entries[i].rule);
	index_build(l);
	for (uint32_t i = 0; i <= l->n_nodes; i++)
		index_build_paths(l, i);
	return 0;
}

struct policy_index *policy_index_free(struct policy_index *x)
{
	for (size_t i = 0; x && i < ARRAY_SIZE(x->lists); i++) {
		free(x->lists[i].entries);
		free(x->lists[i].spans);
		free(x->lists[i].plain);
		free(x->lists[i].plain_spans);
		free(x->lists[i].nodes);
		free(x->lists[i].paths);
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
			const struct index_span *s = &l->spans[w->entry];
			const struct rule *r = l->entries[w->entry++].rule;

			if (!e || (s->low <= e->high && s->high >= e->low &&
				   (s->streams & e->streams)))
				return r;
		}
		if (w->everything)
			return NULL;
		index_walk_to(w, l->nodes[w->node].parent);
	}
}

/* --------------------------------------------------------------------- the first rule */

/* Is it worth reading the rule? */
static inline bool index_span_touches(const struct index_span *s, const struct extent *e)
{
	return s->low <= e->high && s->high >= e->low && (s->streams & e->streams) &&
	       (s->methods & e->methods);
}

static bool index_rule_matches(const struct index_list *l, uint32_t entry,
			       const struct rule_query *q)
{
	const struct rule *r = l->entries[entry].rule;

	if ((q->headers == RULES_WITH_HEADERS && r->n_headers == 0) ||
	    (q->headers == RULES_WITHOUT_HEADERS && r->n_headers > 0))
		return false;
	return q->covers ? rule_covers(r, q->extent) : rule_touches(r, q->extent);
}

/*
 * Return the first entry from @first to @end that matches, or NONE. @numbers has the
 * entries of @spans; NULL: they are in the same order.
 */
static uint32_t index_scan(const struct index_list *l, const struct index_span *spans,
			   const uint32_t *numbers, uint32_t first, uint32_t end,
			   const struct rule_query *q)
{
	const struct extent e = *q->extent;

	for (uint32_t i = first; i < end; i++) {
		uint32_t entry;

		if (!index_span_touches(&spans[i], &e))
			continue;
		entry = numbers ? numbers[i] : i;
		if (index_rule_matches(l, entry, q))
			return entry;
	}
	return NONE;
}

/* Return the last path of a node that is not greater than @want, or NONE. */
static uint32_t index_find_path(const struct index_list *l, const struct index_node *n,
				const struct index_path *want)
{
	uint32_t low = n->path_first, high = n->path_end;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (index_compare_paths(&l->paths[middle], want) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low > n->path_first ? low - 1 : NONE;
}

/* Return the first entry whose path matches and that is before @best, or @best. */
static uint32_t index_first_by_path(const struct index_list *l,
				    const struct index_node *n,
				    const struct rule_query *q, uint32_t best)
{
	const struct index_path want = { .text = q->extent->path,
					 .len = (uint32_t)q->extent->path_len };
	uint32_t at = index_find_path(l, n, &want);

	for (; (at = index_climb_paths(l, at, &want)) != NONE; at = l->paths[at].parent)
		if (l->paths[at].entry < best &&
		    index_span_touches(&l->spans[l->paths[at].entry], q->extent) &&
		    index_rule_matches(l, l->paths[at].entry, q))
			best = l->paths[at].entry;
	return best;
}

static uint32_t index_first(const struct index_list *l, const struct index_node *n,
			    const struct rule_query *q)
{
	uint32_t best;

	/* Without a path, each rule with paths touches the request, and none covers it.
	 */
	if (!q->extent->path && !q->covers)
		return index_scan(l, l->spans, NULL, n->first, n->end, q);
	best = index_scan(l, l->plain_spans, l->plain, n->plain_first, n->plain_end, q);
	return q->extent->path ? index_first_by_path(l, n, q, best) : best;
}

const struct rule *policy_find_rule(const struct policy_index *x,
				    const struct rule_query *q)
{
	const struct index_list *l = &x->lists[q->deny];
	uint32_t at = index_climb(l, index_find(l, q->host), q->host);

	for (;;) {
		const struct index_node *n = &l->nodes[at == NONE ? l->n_nodes : at];
		const struct host *h =
			n->first < n->end ? &l->entries[n->first].rule->host : NULL;
		uint32_t found = NONE;

		/* All rules of a node have the same host. */
		if (h && (q->deny ? host_denies(h, q->host) : host_covers(h, q->host)))
			found = index_first(l, n, q);
		if (found != NONE)
			return l->entries[found].rule;
		if (at == NONE)
			return NULL;
		at = n->parent;
	}
}
