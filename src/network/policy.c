/* SPDX-License-Identifier: Apache-2.0 */
/* policy.c - rules: their parts, their meaning, and their JSON form */
#include "network/policy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/strv.h"
#include "network/header.h"

static const struct {
	const char *name;
	uint8_t bit, streams;
} protocol_words[] = {
	{ "http", RULE_HTTP, STREAM_HTTP },
	{ "https", RULE_HTTPS, STREAM_TLS },
	{ "tls", RULE_TLS, STREAM_TLS },
	{ "tcp", RULE_TCP, STREAM_ALL },
};

/*
 * The bit of a method is its index; the last bit has no name, and stands for all other
 * methods.
 */
static const char *const method_words[] = { "GET",     "HEAD",  "POST",
					    "PUT",     "PATCH", "DELETE",
					    "OPTIONS", "TRACE", "CONNECT" };
_Static_assert(RULE_METHODS_ALL == (2U << ARRAY_SIZE(method_words)) - 1,
	       "a method has no bit");

const struct policy_limit policy_limit_table[] = {
	{ "connections", offsetof(struct policy_limits, connections), false },
	{ "bytes_per_second", offsetof(struct policy_limits, bytes_per_second), true },
	{ "total_bytes", offsetof(struct policy_limits, total_bytes), true },
	{ "lookups_per_second", offsetof(struct policy_limits, lookups_per_second),
	  false },
};
const size_t policy_n_limits = ARRAY_SIZE(policy_limit_table);

/* ----------------------------------------------------- names of protocols and methods */

unsigned rule_protocol_bit(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(protocol_words); i++)
		if (strcmp(protocol_words[i].name, word) == 0)
			return protocol_words[i].bit;
	return 0;
}

const char *rule_protocol_name(unsigned index)
{
	return index < ARRAY_SIZE(protocol_words) ? protocol_words[index].name : NULL;
}

uint8_t rule_streams(uint8_t protocols)
{
	uint8_t streams = protocols ? 0 : STREAM_ALL;

	for (size_t i = 0; i < ARRAY_SIZE(protocol_words); i++)
		if (protocols & protocol_words[i].bit)
			streams |= protocol_words[i].streams;
	return streams;
}

unsigned rule_method_bit(const char *method)
{
	unsigned i = 0;

	while (i < ARRAY_SIZE(method_words) && strcmp(method_words[i], method) != 0)
		i++;
	return 1U << i;
}

const char *rule_method_name(unsigned index)
{
	return index < ARRAY_SIZE(method_words) ? method_words[index] : NULL;
}

/* ------------------------------------------------------------------------ rules */

static void rule_done(struct rule *r)
{
	free(r->name);
	free(r->ports);
	r->paths = strv_free(r->paths);
	rule_headers_done(r);
}

static void policy_rules_done(struct rules *rules)
{
	for (size_t i = 0; i < rules->n; i++)
		rule_done(&rules->list[i]);
	free(rules->list);
	*rules = (struct rules){ 0 };
}

void policy_done(struct policy *p)
{
	policy_rules_done(&p->allow);
	policy_rules_done(&p->deny);
	policy_secrets_done(p);
}

bool policy_needs_trust(const struct policy *p)
{
	for (size_t i = 0; i < p->allow.n; i++)
		if (p->allow.list[i].n_headers > 0 || rule_is_limited(&p->allow.list[i]))
			return true;
	return false;
}

void policy_drop_last(struct rules *from)
{
	rule_done(&from->list[--from->n]);
}

/* Make room for one more rule; the size of the array doubles. */
static int policy_rules_grow(struct rules *to)
{
	size_t cap = to->n < 4 ? 4 : to->n * 2;
	struct rule *list;

	/* The array is full when the number of rules is 0, or a power of two from 4 on.
	 */
	if (to->n != 0 && (to->n < 4 || (to->n & (to->n - 1)) != 0))
		return 0;
	list = reallocarray(to->list, cap, sizeof(*list));
	if (!list)
		return -ENOMEM;
	to->list = list;
	return 0;
}

int policy_add(struct policy *p, struct rules *to, const struct host *h,
	       struct rule **ret, struct warren_error *err)
{
	struct rule r = { .host = *h, .methods = RULE_METHODS_ALL };

	if (p->allow.n + p->deny.n >= POLICY_RULES_MAX)
		return error_set(err, E2BIG, "a policy has at most %d rules",
				 POLICY_RULES_MAX);
	if (h->name) {
		r.name = strdup(h->name);
		if (!r.name)
			return error_errno(err, ENOMEM, "add a rule");
		r.host.name = r.name;
	}
	if (policy_rules_grow(to) < 0) {
		rule_done(&r);
		return error_errno(err, ENOMEM, "add a rule");
	}
	to->list[to->n] = r;
	*ret = &to->list[to->n++];
	return 0;
}

int policy_add_copy(struct policy *p, struct rules *to, const struct rule *like,
		    struct warren_error *err)
{
	struct rule *r = NULL;
	int e = policy_add(p, to, &like->host, &r, err);

	if (e < 0)
		return e;
	r->protocols = like->protocols;
	r->methods = like->methods;
	r->n_ports = like->n_ports;
	if (like->ports) {
		r->ports = reallocarray(NULL, like->n_ports, sizeof(*r->ports));
		if (r->ports)
			(void)memcpy(r->ports, like->ports,
				     like->n_ports * sizeof(*r->ports));
	}
	if (like->paths)
		r->paths = strv_copy(like->paths);
	if ((like->ports && !r->ports) || (like->paths && !r->paths) ||
	    rule_copy_headers(r, like) < 0) {
		policy_drop_last(to);
		return error_errno(err, ENOMEM, "copy a rule");
	}
	return 0;
}

int rule_add_ports(struct rule *r, uint16_t low, uint16_t high, struct warren_error *err)
{
	struct rule_ports *ports = r->ports;
	size_t kept = 0, at = 0;

	if (low < 1 || low > high)
		return error_set(err, EINVAL, "%u-%u is not a range of ports", low, high);
	ports = reallocarray(r->ports, r->n_ports + 1, sizeof(*ports));
	if (!ports)
		return error_errno(err, ENOMEM, "add a port");
	r->ports = ports;
	/* Merge the ranges that touch the new one into it; @at ranges come before it. */
	for (size_t i = 0; i < r->n_ports; i++) {
		struct rule_ports old = ports[i];

		if ((uint32_t)old.high + 1 >= low && old.low <= (uint32_t)high + 1) {
			low = old.low < low ? old.low : low;
			high = old.high > high ? old.high : high;
			continue;
		}
		ports[kept++] = old;
		at += old.high < low;
	}
	if (kept >= RULE_PORTS_MAX)
		return error_set(err, E2BIG, "a rule has at most %d ranges of ports",
				 RULE_PORTS_MAX);
	(void)memmove(&ports[at + 1], &ports[at], (kept - at) * sizeof(*ports));
	ports[at] = (struct rule_ports){ low, high };
	r->n_ports = kept + 1;
	return 0;
}

int rule_add_path(struct rule *r, const char *path, size_t n, struct warren_error *err)
{
	char plain[RULE_PATH_MAX + 2], canonical[RULE_PATH_MAX + 2];
	bool prefix = n > 0 && path[n - 1] == '*';
	size_t len = n - prefix;

	if (n == 0 || path[0] != '/')
		return error_set(err, EINVAL, "must begin with '/'");
	if (n > RULE_PATH_MAX)
		return error_set(err, EINVAL, "has %zu bytes; the maximum is %d", n,
				 RULE_PATH_MAX);
	if (memchr(path, '\0', n) || memchr(path, '*', len))
		return error_set(err, EINVAL, "%s",
				 memchr(path, '\0', n)
					 ? "contains a NUL"
					 : "'*' is only allowed at the end");
	(void)memcpy(plain, path, len);
	plain[len] = '\0';
	if (strpbrk(plain, "?#"))
		return error_set(err, EINVAL, "must not have a query or a fragment");
	/* More follows a prefix, so that its last segment is not complete. */
	if (prefix)
		(void)memcpy(plain + len, "a", 2);
	if (!rule_path(plain, canonical, sizeof(canonical)))
		return error_set(err, EINVAL,
				 "servers differ in how they read this path: no empty "
				 "segments, no segments that begin with '..' or end in "
				 "'.', no ';', only ASCII without control characters, "
				 "no encoded '/', '\\', '%%', ';', '?' or '#'");
	plain[len] = canonical[strlen(canonical) - prefix] = '\0';
	if (strcmp(plain, canonical) != 0)
		return error_set(err, EINVAL, "must be written as '%.200s%s'", canonical,
				 prefix ? "*" : "");
	if (strv_len(r->paths) >= RULE_PATHS_MAX)
		return error_set(err, E2BIG, "a rule has at most %d paths",
				 RULE_PATHS_MAX);
	if (prefix) {
		plain[len] = '*';
		plain[len + 1] = '\0';
	}
	if (strv_add(&r->paths, plain) < 0)
		return error_errno(err, ENOMEM, "add a path");
	return 0;
}

static int rule_finish_headers(struct rule *r, struct warren_error *err)
{
	if (r->host.kind != HOST_NAME)
		return error_set(err, EINVAL,
				 "headers are only allowed with one exact host name");
	if (r->protocols == 0)
		r->protocols = RULE_HTTPS;
	if (r->protocols & (RULE_TLS | RULE_TCP))
		return error_set(
			err, EINVAL,
			"headers are only allowed with the protocols http and https");
	return 0;
}

int rule_finish(struct rule *r, struct warren_error *err)
{
	int e = r->n_headers > 0 ? rule_finish_headers(r, err) : 0;

	if (e < 0 || !rule_is_limited(r))
		return e;
	if (r->protocols == 0)
		r->protocols = RULE_HTTP | RULE_HTTPS;
	if (r->protocols & (RULE_TLS | RULE_TCP))
		return error_set(
			err, EINVAL,
			"methods and paths are only allowed with the protocols http and https");
	return 0;
}

/* ------------------------------------------------------------------------ paths */

/*
 * Servers interpret paths differently: they decode a path once, twice or not at all;
 * treat '\\' as '/'; cut it at ';', at an encoded '?' or at an encoded '#'; remove dots
 * and spaces at the end of a segment; accept overlong forms of UTF-8; and convert other
 * characters, such as the wide dot U+FF0E, to those of ASCII. A path for which that could
 * matter is ambiguous.
 */

static bool rule_is_alphanumeric(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Bytes that mean the same in a segment, encoded or not. */
static bool rule_is_plain(unsigned char c)
{
	return rule_is_alphanumeric(c) || (c && strchr("-._~!$&'()*+,=:@", c));
}

/*
 * Write the canonical form of the character at @s, or of an escape of three characters,
 * to @out. Return the number of bytes at @s, or 0 if servers differ in how they interpret
 * it.
 */
static size_t rule_path_char(const char *s, char out[4])
{
	static const char hex[] = "0123456789ABCDEF";
	unsigned char c = (unsigned char)*s;
	int high, low;

	if (c != '%') {
		out[0] = (char)c;
		out[1] = '\0';
		return c <= ' ' || c >= 0x7f || strchr("\\;#", c) ? 0 : 1;
	}
	high = hex_value(s[1]);
	low = high < 0 ? -1 : hex_value(s[2]);
	if (low < 0)
		return 0;
	c = (unsigned char)(high * 16 + low);
	if (c < ' ' || c >= 0x7f || strchr("/\\;%?#", c))
		return 0;
	if (rule_is_plain(c)) {
		out[0] = (char)c;
		out[1] = '\0';
		return 3;
	}
	out[0] = '%';
	out[1] = hex[c >> 4];
	out[2] = hex[c & 15];
	out[3] = '\0';
	return 3;
}

/*
 * Is the segment that ends at @end not empty, and does no server read it as "." or "..",
 * or for a segment without the dots and spaces around it?
 */
static bool rule_segment_ok(const char *start, const char *end)
{
	static const char space[] = "%20";
	const size_t len = sizeof(space) - 1;
	size_t n = (size_t)(end - start);

	if (n == 0 || end[-1] == '.')
		return false;
	if (n >= len &&
	    (memcmp(start, space, len) == 0 || memcmp(end - len, space, len) == 0))
		return false;
	return start[0] != '.' || rule_is_alphanumeric((unsigned char)start[1]) ||
	       start[1] == '_' || start[1] == '-';
}

bool rule_path(const char *target, char *out, size_t size)
{
	size_t n = 0, start = 1; /* start of the current segment */

	if (*target != '/')
		return false;
	do {
		char one[4];
		size_t used = rule_path_char(target, one), len = strlen(one);

		if (used == 0 || n + len >= size)
			return false;
		if (*target == '/' && n > 0) {
			if (!rule_segment_ok(out + start, out + n))
				return false;
			start = n + 1;
		}
		(void)memcpy(out + n, one, len);
		n += len;
		target += used;
	} while (*target && *target != '?');
	out[n] = '\0';
	/* The last segment may be empty: "/" and "/a/" are paths. */
	return n == start || rule_segment_ok(out + start, out + n);
}

/* --------------------------------------------------------------------- extents */

void extent_set_path(struct extent *e, const char *pattern)
{
	size_t n = strlen(pattern);

	e->prefix = n > 0 && pattern[n - 1] == '*';
	e->path = pattern;
	e->path_len = n - e->prefix;
}

static bool extent_begins(const char *s, size_t n, const char *prefix, size_t len)
{
	return n >= len && memcmp(s, prefix, len) == 0;
}

bool extent_path_covers(const char *pattern, const struct extent *e)
{
	struct extent own = { 0 };

	if (!e->path)
		return false;
	extent_set_path(&own, pattern);
	if (own.prefix)
		return extent_begins(e->path, e->path_len, own.path, own.path_len);
	return !e->prefix && e->path_len == own.path_len &&
	       memcmp(e->path, own.path, own.path_len) == 0;
}

static bool extent_path_touches(const char *pattern, const struct extent *e)
{
	struct extent own = { 0 };

	if (extent_path_covers(pattern, e))
		return true;
	extent_set_path(&own, pattern);
	return e->prefix && extent_begins(own.path, own.path_len, e->path, e->path_len);
}

static bool rule_path_matches(const struct rule *r, const struct extent *e,
			      bool (*matches)(const char *, const struct extent *))
{
	for (size_t i = 0; r->paths[i]; i++)
		if (matches(r->paths[i], e))
			return true;
	return false;
}

/* Return the first range that ends at @port or after it. */
static const struct rule_ports *rule_find_ports(const struct rule *r, uint16_t port)
{
	size_t low = 0, high = r->n_ports;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (r->ports[middle].high < port)
			low = middle + 1;
		else
			high = middle;
	}
	return low < r->n_ports ? &r->ports[low] : NULL;
}

bool rule_covers(const struct rule *r, const struct extent *e)
{
	const struct rule_ports *ports = r->ports ? rule_find_ports(r, e->low) : NULL;

	if (r->ports && (!ports || ports->low > e->low || ports->high < e->high))
		return false;
	return (e->streams & ~rule_streams(r->protocols)) == 0 &&
	       (e->methods & ~r->methods) == 0 &&
	       (!r->paths || rule_path_matches(r, e, extent_path_covers));
}

bool rule_touches(const struct rule *r, const struct extent *e)
{
	const struct rule_ports *ports = r->ports ? rule_find_ports(r, e->low) : NULL;

	if (r->ports && (!ports || ports->low > e->high))
		return false;
	return (e->streams & rule_streams(r->protocols)) && (e->methods & r->methods) &&
	       (!r->paths || !e->path || rule_path_matches(r, e, extent_path_touches));
}

bool rule_meets(const struct rule *a, const struct rule *b)
{
	static const struct rule_ports all = { 1, UINT16_MAX };
	const struct rule_ports *ports = b->ports ? b->ports : &all;
	size_t n = b->ports ? b->n_ports : 1;
	struct extent e = { .streams = rule_streams(b->protocols),
			    .methods = b->methods };

	for (size_t i = 0; i < n; i++) {
		e.low = ports[i].low;
		e.high = ports[i].high;
		if (!b->paths && rule_touches(a, &e))
			return true;
		for (size_t k = 0; b->paths && b->paths[k]; k++) {
			extent_set_path(&e, b->paths[k]);
			if (rule_touches(a, &e))
				return true;
		}
	}
	return false;
}

/* ----------------------------------------------------------------------- writing JSON */

static void rule_write_ports(const struct rule *r, struct json *j)
{
	if (!r->ports)
		return;
	json_open(j, "ports", '[');
	for (size_t i = 0; i < r->n_ports; i++) {
		char range[16];

		if (r->ports[i].low == r->ports[i].high) {
			json_u64(j, NULL, r->ports[i].low);
			continue;
		}
		(void)snprintf(range, sizeof(range), "%u-%u", r->ports[i].low,
			       r->ports[i].high);
		json_str(j, NULL, range);
	}
	json_close(j, ']');
}

static void rule_write_words(struct json *j, const char *key, unsigned bits,
			     const char *(*name)(unsigned))
{
	json_open(j, key, '[');
	for (unsigned i = 0; name(i); i++)
		if (bits >> i & 1)
			json_str(j, NULL, name(i));
	json_close(j, ']');
}

void rule_write(const struct rule *r, struct json *j, const char *key)
{
	char host[HOST_TEXT_SIZE];

	json_open(j, key, '{');
	host_text(&r->host, host);
	if (r->host.kind == HOST_PUBLIC)
		json_bool(j, "public", true);
	else
		json_str(j, "host", host);
	rule_write_ports(r, j);
	if (r->protocols)
		rule_write_words(j, "protocols", r->protocols, rule_protocol_name);
	if (r->methods != RULE_METHODS_ALL)
		rule_write_words(j, "methods", r->methods, rule_method_name);
	if (r->paths) {
		json_open(j, "paths", '[');
		for (size_t i = 0; r->paths[i]; i++)
			json_str(j, NULL, r->paths[i]);
		json_close(j, ']');
	}
	if (r->n_headers > 0) {
		json_open(j, "headers", '{');
		for (size_t i = 0; i < r->n_headers; i++)
			json_str(j, r->headers[i].name, r->headers[i].text);
		json_close(j, '}');
	}
	json_close(j, '}');
}

static void policy_write_rules(const struct rules *rules, struct json *j, const char *key)
{
	json_open(j, key, '[');
	for (size_t i = 0; i < rules->n; i++)
		rule_write(&rules->list[i], j, NULL);
	json_close(j, ']');
}

static void policy_write_fields(const struct policy *p, struct json *j)
{
	struct policy_limits limits = p->limits;

	policy_write_rules(&p->allow, j, "allow");
	policy_write_rules(&p->deny, j, "deny");
	json_open(j, "limits", '{');
	for (size_t i = 0; i < policy_n_limits; i++) {
		uint64_t v = *policy_limit_field(&limits, &policy_limit_table[i]);

		if (v)
			json_u64(j, policy_limit_table[i].name, v);
	}
	json_close(j, '}');
}

void policy_write(const struct policy *p, struct json *j, const char *key)
{
	json_open(j, key, '{');
	policy_write_fields(p, j);
	json_close(j, '}');
}

void policy_write_secrets(const struct policy *p, struct json *j, const char *key)
{
	json_open(j, key, '{');
	policy_write_fields(p, j);
	json_open(j, "secrets", '{');
	for (size_t i = 0; i < p->n_secrets; i++)
		json_str(j, p->secrets[i].name, p->secrets[i].value);
	json_close(j, '}');
	json_close(j, '}');
}
