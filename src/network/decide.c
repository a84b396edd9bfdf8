/* SPDX-License-Identifier: Apache-2.0 */
/* decide.c - decide on a request, and explain the decision */
#include "network/decide.h"

#include <string.h>

#include "network/rule_index.h"

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

/* A rule with headers allows only what is inspected: nothing else gets the headers. */
static bool decide_inspected(const struct extent *e)
{
	return e->methods != RULE_METHODS_ALL;
}

/*
 * Return the first rule that denies @h for any part of @e; while @opening, for all of it.
 */
static const struct rule *decide_denied(const struct policy_index *x,
					const struct host *h, const struct extent *e,
					bool opening)
{
	return policy_find_rule(
		x, &(struct rule_query){
			   .deny = true, .covers = opening, .host = h, .extent = e });
}

static const struct rule *decide_allowed(const struct policy_index *x,
					 const struct host *h, const struct extent *e,
					 bool opening)
{
	return policy_find_rule(
		x, &(struct rule_query){ .covers = !opening,
					 .headers = opening || decide_inspected(e)
							    ? RULES_ALL
							    : RULES_WITHOUT_HEADERS,
					 .host = h,
					 .extent = e });
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
	struct extent e;

	if (q->opening || !request_extent(q, &e) || !decide_inspected(&e))
		return NULL;
	return policy_find_rule(x, &(struct rule_query){ .covers = true,
							 .headers = RULES_WITH_HEADERS,
							 .host = &q->host,
							 .extent = &e });
}

bool policy_terminates(const struct policy_index *x, const struct host *h, uint16_t port)
{
	struct request q = { .host = *h, .port = port, .protocol = RULE_TLS };
	struct decision d;
	struct extent e;

	if (h->kind != HOST_NAME || !request_extent(&q, &e))
		return false;
	if (policy_find_rule(x, &(struct rule_query){ .headers = RULES_WITH_HEADERS,
						      .host = h,
						      .extent = &e }))
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
