/* SPDX-License-Identifier: Apache-2.0 */
/*
 * within.c - set algebra over rules
 *
 * A rule, apart from its host, is a product of sets: ports, streams, methods, paths. A
 * request is also a product of sets (of everything that it may turn out to be), and one
 * rule must allow all of it. So the intersection of two policies contains, for each pair
 * of rules that allow, the product of the intersections of their sets; and it contains
 * all rules that deny.
 *
 * For policy_within(), what a rule of the child allows is cut into pieces that one rule
 * of the parent must allow: ranges of ports between the limits of the parent's ranges,
 * and each kind of request, method and path.
 */
#include "network/within.h"

#include <errno.h>
#include <string.h>

#include "network/decide.h"
#include "network/header.h"

/* ---------------------------------------------------------------- intersection */

static int within_intersect_ports(const struct rule *a, const struct rule *b,
				  struct rule *to, struct warren_error *err)
{
	static const struct rule_ports all = { 1, UINT16_MAX };
	const struct rule_ports *x = a->ports ? a->ports : &all;
	const struct rule_ports *y = b->ports ? b->ports : &all;
	size_t n_x = a->ports ? a->n_ports : 1, n_y = b->ports ? b->n_ports : 1;
	size_t i = 0, k = 0;
	int r = 0;

	if (!a->ports && !b->ports)
		return 1;
	while (r == 0 && i < n_x && k < n_y) {
		uint16_t low = x[i].low > y[k].low ? x[i].low : y[k].low;
		uint16_t high = x[i].high < y[k].high ? x[i].high : y[k].high;

		if (low <= high)
			r = rule_add_ports(to, low, high, err);
		if (x[i].high < y[k].high)
			i++;
		else
			k++;
	}
	return r < 0 ? r : to->ports != NULL;
}

/* Return the smaller of two nested patterns; NULL: they are disjoint. */
static const char *within_smaller_path(const char *a, const char *b)
{
	struct extent e = { 0 };

	extent_set_path(&e, b);
	if (extent_path_covers(a, &e))
		return b;
	extent_set_path(&e, a);
	return extent_path_covers(b, &e) ? a : NULL;
}

static bool within_has_path(char *const *paths, const char *path)
{
	for (; paths && *paths; paths++)
		if (strcmp(*paths, path) == 0)
			return true;
	return false;
}

static int within_intersect_paths(const struct rule *a, const struct rule *b,
				  struct rule *to, struct warren_error *err)
{
	char *const *only = a->paths ? a->paths : b->paths;

	for (size_t i = 0; only && only[i]; i++)
		for (size_t k = 0; k == 0 || (a->paths && b->paths && b->paths[k]); k++) {
			const char *path =
				a->paths && b->paths
					? within_smaller_path(only[i], b->paths[k])
					: only[i];
			int r = path && !within_has_path(to->paths, path)
					? rule_add_path(to, path, strlen(path), err)
					: 0;

			if (r < 0)
				return r;
		}
	return !only || to->paths;
}

/* Return the protocols that both rules allow; TLS becomes https if either rule can
 * inspect it. */
static uint8_t within_protocols(const struct rule *a, const struct rule *b)
{
	uint8_t streams = rule_streams(a->protocols) & rule_streams(b->protocols), words;

	if (streams == STREAM_ALL)
		return a->protocols && b->protocols ? RULE_TCP : 0;
	words = streams & STREAM_HTTP ? RULE_HTTP : 0;
	if (streams & STREAM_TLS)
		words |= rule_is_limited(a) || rule_is_limited(b) ||
					 !((a->protocols | b->protocols) & RULE_TLS)
				 ? RULE_HTTPS
				 : RULE_TLS;
	return words;
}

/*
 * Are requests that both rules allow in the intersection? Headers come from @a, the rule
 * of the grantor: @b must have the same headers, or none.
 */
static bool within_headers_agree(const struct rule *a, const struct rule *b)
{
	return b->n_headers == 0 || rule_same_headers(a, b);
}

/* Add what both @a and @b allow for @h, if there is anything. */
static int within_add_both(const struct host *h, const struct rule *a,
			   const struct rule *b, struct policy *to,
			   struct warren_error *err)
{
	uint16_t methods = a->methods & b->methods;
	struct rule *r = NULL;
	int e, ports, paths = 0;

	if (!(rule_streams(a->protocols) & rule_streams(b->protocols)) || !methods ||
	    !within_headers_agree(a, b))
		return 0;
	e = policy_add(to, &to->allow, h, &r, err);
	if (e < 0)
		return e;
	r->methods = methods;
	r->protocols = within_protocols(a, b);
	ports = rule_copy_headers(r, a);
	if (ports < 0)
		(void)error_errno(err, ENOMEM, "copy a rule");
	else
		ports = within_intersect_ports(a, b, r, err);
	if (ports > 0)
		paths = within_intersect_paths(a, b, r, err);
	if (ports <= 0 || paths <= 0)
		policy_drop_last(&to->allow);
	return ports < 0 ? ports : paths < 0 ? paths : 0;
}

/*
 * For each rule of @a, intersect it with all rules of the other policy whose hosts
 * contain its host. @grantor is set if @a is the policy that headers come from. Only
 * then, rules with the same host are included, because otherwise they would be found from
 * both sides.
 */
static int within_intersect_side(const struct rules *a, const struct policy_index *other,
				 bool grantor, struct policy *to,
				 struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->n; i++) {
		struct policy_walk w;
		const struct rule *b;

		policy_walk_start(&w, other, false, &a->list[i].host, NULL);
		while (r == 0 && (b = policy_walk_next(&w)))
			if (host_covers(&b->host, &a->list[i].host) &&
			    (grantor || !host_covers(&a->list[i].host, &b->host)))
				r = within_add_both(&a->list[i].host,
						    grantor ? &a->list[i] : b,
						    grantor ? b : &a->list[i], to, err);
	}
	return r;
}

static void within_limits(const struct policy *a, const struct policy *b,
			  struct policy *to)
{
	struct policy_limits x = a->limits, y = b->limits;

	for (size_t i = 0; i < policy_n_limits; i++) {
		uint64_t one = *policy_limit_field(&x, &policy_limit_table[i]);
		uint64_t two = *policy_limit_field(&y, &policy_limit_table[i]);

		*policy_limit_field(&to->limits, &policy_limit_table[i]) =
			one && (!two || one < two) ? one : two;
	}
}

static int within_copy_denied(const struct rules *from, struct policy *to,
			      struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < from->n; i++)
		r = policy_add_copy(to, &to->deny, &from->list[i], err);
	return r;
}

int policy_intersect(const struct policy *a, const struct policy *b, struct policy *ret,
		     struct warren_error *err)
{
	AUTO_POLICY struct policy p = { 0 };
	AUTO_POLICY_INDEX struct policy_index *x = NULL, *y = NULL;
	int r = policy_index_new(a, &x, err);

	if (r == 0)
		r = policy_index_new(b, &y, err);
	if (r == 0)
		r = within_intersect_side(&a->allow, y, true, &p, err);
	if (r == 0)
		r = within_intersect_side(&b->allow, x, false, &p, err);
	if (r == 0)
		r = within_copy_denied(&a->deny, &p, err);
	if (r == 0)
		r = within_copy_denied(&b->deny, &p, err);
	if (r == 0)
		r = policy_check_headers(&p, err);
	if (r < 0)
		return r;
	within_limits(a, b, &p);
	*ret = p;
	p = (struct policy){ 0 };
	return 0;
}

/* ------------------------------------------------------------------ containment */

/* A search for rules of the parent that allow a piece. */
struct within_search {
	const struct policy_index *parent;
	const struct host *host;
	/* The rule of the child allows only inspected requests, as a rule with headers
	 * does. */
	bool inspected;
};

static bool within_piece_allowed(const struct within_search *s, const struct extent *e)
{
	struct policy_walk w;
	const struct rule *b;

	policy_walk_start(&w, s->parent, false, s->host, e);
	while ((b = policy_walk_next(&w)))
		if (host_covers(&b->host, s->host) && rule_covers(b, e) &&
		    (b->n_headers == 0 || s->inspected || e->methods != RULE_METHODS_ALL))
			return true;
	return false;
}

/* Is @e allowed with each path of @a? */
static bool within_paths_allowed(const struct within_search *s, const struct rule *a,
				 struct extent *e)
{
	e->path = NULL;
	e->path_len = 0;
	e->prefix = false;
	if (!a->paths)
		return within_piece_allowed(s, e);
	for (size_t i = 0; a->paths[i]; i++) {
		extent_set_path(e, a->paths[i]);
		if (!within_piece_allowed(s, e))
			return false;
	}
	return true;
}

/*
 * Is @e allowed with each kind of stream and of request. A rule for all methods also
 * allows streams that are not inspected; others allow each method separately.
 */
static bool within_streams_allowed(const struct within_search *s, const struct rule *a,
				   struct extent *e)
{
	static const uint8_t kinds[] = { STREAM_ALL, STREAM_HTTP, STREAM_TLS };
	uint8_t streams = rule_streams(a->protocols);

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		e->streams = kinds[i];
		if (kinds[i] & ~streams)
			continue;
		e->methods = RULE_METHODS_ALL;
		if (a->methods == RULE_METHODS_ALL) {
			if (!within_paths_allowed(s, a, e))
				return false;
			continue;
		}
		for (unsigned bit = 1; bit <= RULE_METHODS_ALL; bit <<= 1) {
			e->methods = (uint16_t)bit;
			if ((a->methods & bit) && !within_paths_allowed(s, a, e))
				return false;
		}
	}
	return true;
}

/*
 * Return the last port of the piece that begins at @low in a range up to @high. The piece
 * ends where a range of the parent begins or ends, so a rule that includes @low includes
 * the whole piece.
 */
static uint16_t within_piece_end(const struct within_search *s, uint16_t low,
				 uint16_t high)
{
	struct policy_walk w;
	const struct rule *b;

	policy_walk_start(&w, s->parent, false, s->host, NULL);
	while ((b = policy_walk_next(&w)))
		for (size_t i = 0; i < b->n_ports; i++)
			if (b->ports[i].high >= low && b->ports[i].high < high)
				high = b->ports[i].high;
	return high;
}

static bool within_rule_allowed(const struct within_search *s, const struct rule *a)
{
	static const struct rule_ports all = { 1, UINT16_MAX };
	const struct rule_ports *ports = a->ports ? a->ports : &all;
	size_t n = a->ports ? a->n_ports : 1;

	for (size_t i = 0; i < n; i++) {
		uint32_t low = ports[i].low;

		while (low <= ports[i].high) {
			uint16_t end = within_piece_end(s, (uint16_t)low, ports[i].high);
			struct extent e = { .low = (uint16_t)low, .high = end };

			if (!within_streams_allowed(s, a, &e))
				return false;
			low = (uint32_t)end + 1;
		}
	}
	return true;
}

/* Do the sets of @outer contain those of @d? */
static bool within_rule_covers(const struct rule *outer, const struct rule *d)
{
	static const struct rule_ports all = { 1, UINT16_MAX };
	const struct rule_ports *ports = d->ports ? d->ports : &all;
	size_t n = d->ports ? d->n_ports : 1;
	struct extent e = { .streams = rule_streams(d->protocols),
			    .methods = d->methods };

	for (size_t i = 0; i < n; i++) {
		e.low = ports[i].low;
		e.high = ports[i].high;
		if (!d->paths && !rule_covers(outer, &e))
			return false;
		for (size_t k = 0; d->paths && d->paths[k]; k++) {
			extent_set_path(&e, d->paths[k]);
			if (!rule_covers(outer, &e))
				return false;
		}
	}
	return true;
}

static bool within_has_denial(const struct rules *list, const struct rule *d)
{
	for (size_t i = 0; i < list->n; i++)
		if (host_compare(&list->list[i].host, &d->host) == 0 &&
		    within_rule_covers(&list->list[i], d))
			return true;
	return false;
}

int policy_restrict(struct policy *p, const struct policy *by, struct warren_error *err)
{
	struct policy_limits limits = by->limits;
	int r = 0;

	for (size_t i = 0; r == 0 && i < by->deny.n; i++)
		if (!within_has_denial(&p->deny, &by->deny.list[i]))
			r = policy_add_copy(p, &p->deny, &by->deny.list[i], err);
	for (size_t i = 0; r == 0 && i < policy_n_limits; i++) {
		uint64_t *own = policy_limit_field(&p->limits, &policy_limit_table[i]);

		if (!*own)
			*own = *policy_limit_field(&limits, &policy_limit_table[i]);
	}
	return r;
}

/*
 * Does the child deny everything that is in both @d, which the parent denies, and @a,
 * which the child allows? The host of such a rule of the child contains one of the two
 * hosts, and the rule denies all of @d or all of @a.
 */
static bool within_denied(const struct policy_index *child, const struct rule *d,
			  const struct rule *a)
{
	const struct host *from[] = { &d->host, &a->host };

	for (size_t i = 0; i < ARRAY_SIZE(from); i++) {
		struct policy_walk w;
		const struct rule *own;

		policy_walk_start(&w, child, true, from[i], NULL);
		while ((own = policy_walk_next(&w)))
			/* HOST_PUBLIC does not deny special-purpose addresses. */
			if ((own->host.kind != HOST_PUBLIC || !a->host.special) &&
			    (within_rule_covers(own, d) || within_rule_covers(own, a)))
				return true;
	}
	return false;
}

/*
 * Does one rule of the child deny all of @d, whatever is allowed? This is common, and
 * makes it unnecessary to compare each rule that allows.
 */
static bool within_denied_wholly(const struct policy_index *child, const struct rule *d)
{
	struct policy_walk w;
	const struct rule *own;

	policy_walk_start(&w, child, true, &d->host, NULL);
	while ((own = policy_walk_next(&w)))
		/* HOST_PUBLIC covers only a part of a network. */
		if ((own->host.kind != HOST_PUBLIC || d->host.kind != HOST_NET) &&
		    within_rule_covers(own, d))
			return true;
	return false;
}

static int within_refuse(const struct rule *r, const char *why, struct warren_error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(8192);
	struct json j = { .out = &text };

	rule_write(r, &j, NULL);
	(void)error_set(err, EPERM, "%s: %.380s", why, text.data ? text.data : "");
	return 0;
}

static int within_check_limits(const struct policy *parent, const struct policy *child,
			       struct warren_error *err)
{
	struct policy_limits x = parent->limits, y = child->limits;

	for (size_t i = 0; i < policy_n_limits; i++) {
		uint64_t most = *policy_limit_field(&x, &policy_limit_table[i]);
		uint64_t own = *policy_limit_field(&y, &policy_limit_table[i]);

		if (most && (!own || own > most)) {
			(void)error_set(err, EPERM, "limits/%s: must be at most %ju",
					policy_limit_table[i].name, (uintmax_t)most);
			return 0;
		}
	}
	return 1;
}

/* ----------------------------------------------------------------------- headers */

/* Does a rule of @in add the headers of @like to everything in @covered? */
static bool within_headers_added(const struct policy *in, const struct rule *like,
				 const struct rule *covered)
{
	for (size_t i = 0; i < in->allow.n; i++) {
		const struct rule *r = &in->allow.list[i];

		if (r->n_headers > 0 && host_compare(&r->host, &like->host) == 0 &&
		    rule_same_headers(r, like) && within_rule_covers(r, covered))
			return true;
	}
	return false;
}

/*
 * Check that every request of the child gets the same headers as by the parent's policy.
 * It must not get other headers, which could contain secrets that the parent does not
 * grant, nor fewer, because then a client could send its own headers instead.
 */
static int within_check_headers(const struct policy *parent, const struct policy *child,
				struct warren_error *err)
{
	for (size_t i = 0; i < child->allow.n; i++) {
		const struct rule *c = &child->allow.list[i];

		if (c->n_headers > 0 && !within_headers_added(parent, c, c))
			return within_refuse(c, "headers that are not allowed", err);
	}
	for (size_t i = 0; i < parent->allow.n; i++) {
		const struct rule *p = &parent->allow.list[i];

		for (size_t k = 0; p->n_headers > 0 && k < child->allow.n; k++) {
			const struct rule *c = &child->allow.list[k];

			if (host_covers(&c->host, &p->host) && rule_meets(p, c) &&
			    !within_headers_added(child, p, p) &&
			    !within_headers_added(child, p, c))
				return within_refuse(p, "allowed only with headers", err);
		}
	}
	return 1;
}

int policy_within(const struct policy *parent, const struct policy *child,
		  struct warren_error *err)
{
	AUTO_POLICY_INDEX struct policy_index *above = NULL, *own = NULL;
	int r = policy_index_new(parent, &above, err);

	if (r == 0)
		r = policy_index_new(child, &own, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < child->allow.n; i++) {
		const struct rule *a = &child->allow.list[i];
		const struct within_search s = { .parent = above,
						 .host = &a->host,
						 .inspected = a->n_headers > 0 };

		if (!within_rule_allowed(&s, a))
			return within_refuse(a, "not allowed", err);
	}
	for (size_t i = 0; i < parent->deny.n; i++) {
		const struct rule *d = &parent->deny.list[i];
		bool wholly = within_denied_wholly(own, d);

		for (size_t k = 0; !wholly && k < child->allow.n; k++) {
			const struct rule *a = &child->allow.list[k];

			if (host_overlaps(&d->host, &a->host) && rule_meets(d, a) &&
			    !within_denied(own, d, a))
				return within_refuse(d, "must be denied", err);
		}
	}
	r = within_check_headers(parent, child, err);
	return r < 1 ? r : within_check_limits(parent, child, err);
}
