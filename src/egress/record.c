/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - a ring of denials, and a set of uses */
#include "egress/record.h"

#include <string.h>
#include <time.h>

#define RECORD_TEXT_MAX 4096

/* Sorted by host, then by protocol and port, so that one rule can cover several. */
struct record_use {
	struct host host;
	char *name; /* memory of the host's name; NULL: the host is an address */
	uint16_t port;
	uint8_t protocol;
};

void record_done(struct record *r)
{
	for (size_t i = 0; i < RECORD_DENIALS; i++)
		free(r->denials[i]);
	for (size_t i = 0; i < r->n_uses; i++)
		free(r->uses[i].name);
	free(r->uses);
	*r = (struct record){ 0 };
}

/* ------------------------------------------------------------------------ denials */

static const char *record_protocol_name(uint8_t protocol)
{
	unsigned i = 0;

	while (protocol && !(protocol >> i & 1))
		i++;
	return protocol ? rule_protocol_name(i) : NULL;
}

static void record_write_request(const struct request *q, struct json *j)
{
	char host[HOST_TEXT_SIZE];

	host_text(&q->host, host);
	json_str(j, "host", host);
	if (q->has_address) {
		host_text(&q->address, host);
		json_str(j, "address", host);
	}
	if (q->port)
		json_u64(j, "port", q->port);
	if (q->protocol)
		json_str(j, "protocol", record_protocol_name(q->protocol));
	if (q->method)
		json_str(j, "method", q->method);
	if (q->method && q->path)
		json_strn(j, "path", q->path, strnlen(q->path, 1024));
}

static void record_write_suggestion(const struct request *q, const struct decision *d,
				    struct json *j)
{
	AUTO_POLICY struct policy p = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;

	if (decision_suggest(q, d, &p, &err) == 1)
		rule_write(&p.allow.list[0], j, "rule");
}

const char *record_denial(struct record *r, const struct request *q,
			  const struct decision *d, const char *why)
{
	AUTO_BUF struct buf out = BUF_INIT((size_t)4 * RECORD_TEXT_MAX);
	AUTO_BUF struct buf text = BUF_INIT(RECORD_TEXT_MAX);
	struct json j = { .out = &out };
	struct timespec now;
	size_t at = r->n_denials % RECORD_DENIALS;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	json_open(&j, NULL, '{');
	json_milli(&j, "time",
		   (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
	record_write_request(q, &j);
	if (why)
		buf_puts(&text, why);
	else
		decision_text(q, d, &text);
	json_str(&j, "reason", text.data);
	if (!why)
		record_write_suggestion(q, d, &j);
	json_close(&j, '}');
	r->n_denials++;
	free(r->denials[at]);
	r->denials[at] = out.failed ? NULL : strdup(out.data);
	return r->denials[at];
}

/* --------------------------------------------------------------------------- uses */

static int record_compare(const struct record_use *a, const struct record_use *b)
{
	int c = host_compare(&a->host, &b->host);

	if (c == 0)
		c = (int)a->protocol - (int)b->protocol;
	return c ? c : (int)a->port - (int)b->port;
}

/* Return the position of @u in the sorted list; *@ret_found is set if it is there. */
static size_t record_find(const struct record *r, const struct record_use *u,
			  bool *ret_found)
{
	size_t low = 0, high = r->n_uses;

	while (low < high) {
		size_t middle = (low + high) / 2;
		int c = record_compare(&r->uses[middle], u);

		if (c == 0) {
			*ret_found = true;
			return middle;
		}
		if (c < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_found = false;
	return low;
}

static bool record_reserve(struct record *r)
{
	struct record_use *uses;
	size_t n = r->n_uses;

	if (n == RECORD_USES_MAX)
		return false;
	if (n & (n - 1)) /* the array has space up to the next power of two */
		return true;
	uses = realloc(r->uses, (n ? 2 * n : 1) * sizeof(*uses));
	if (uses)
		r->uses = uses;
	return uses != NULL;
}

static void record_add_use(struct record *r, const struct host *host,
			   const struct request *q)
{
	struct record_use u = { .host = *host, .port = q->port, .protocol = q->protocol };
	bool found;
	size_t at = record_find(r, &u, &found);

	if (found)
		return;
	if (host->name) {
		u.name = strndup(host->name, host->len);
		u.host.name = u.name;
	}
	if ((host->name && !u.name) || !record_reserve(r)) {
		free(u.name);
		r->uses_lost = true;
		return;
	}
	(void)memmove(&r->uses[at + 1], &r->uses[at], (r->n_uses - at) * sizeof(u));
	r->uses[at] = u;
	r->n_uses++;
}

void record_use(struct record *r, const struct request *q)
{
	record_add_use(r, &q->host, q);
	/* For such an address, a rule for the name is not sufficient. */
	if (q->host.name && q->has_address && q->address.special)
		record_add_use(r, &q->address, q);
}

/* Write a rule for each host and protocol, with all its ports. */
static int record_policy(const struct record *r, struct policy *p,
			 struct warren_error *err)
{
	struct rule *rule = NULL;

	for (size_t i = 0; r->uses && i < r->n_uses; i++) {
		const struct record_use *u = &r->uses[i], *last = i ? u - 1 : NULL;
		int e = 0;

		if (!last || last->protocol != u->protocol ||
		    host_compare(&last->host, &u->host) != 0 ||
		    rule->n_ports == RULE_PORTS_MAX)
			e = policy_add(p, &p->allow, &u->host, &rule, err);
		if (e == 0) {
			rule->protocols = u->protocol;
			e = rule_add_ports(rule, u->port, u->port, err);
		}
		if (e < 0)
			return e;
	}
	return 0;
}

void record_write(const struct record *r, struct json *j)
{
	AUTO_POLICY struct policy p = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	uint64_t first =
		r->n_denials > RECORD_DENIALS ? r->n_denials - RECORD_DENIALS : 0;

	json_open(j, "denials", '[');
	for (uint64_t i = first; i < r->n_denials; i++) {
		const char *text = r->denials[i % RECORD_DENIALS];

		if (text)
			json_raw(j, NULL, text, strlen(text));
	}
	json_close(j, ']');
	if (record_policy(r, &p, &err) == 0)
		policy_write(&p, j, "used");
	json_bool(j, "used_complete", !r->uses_lost && err.code == 0);
}
