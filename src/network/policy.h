/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.h - what a sandbox may reach: rules that allow, rules that deny, and limits
 *
 * This folder only makes decisions. It uses no sockets, no files and no clock.
 *
 *	host.h           names, addresses and networks
 *	policy.h         rules; JSON out                 policy_json.h   JSON in
 *	header.h         headers that rules add to requests, with secrets
 *	decide.h         is this request allowed, and by which rule?
 *	rule_index.h     the first rule for a request, among many
 *	within.h         does one policy allow more than another? What do both allow?
 *	capability.h     named sets of rules; the options of the command line
 *	dns.h, client_hello.h, socks.h, request_flow.h   what a request says: decoders
 *
 * The schema, in JSON and in YAML:
 *
 *	allow:
 *	  - { host: pypi.org, ports: [443], protocols: [https] }
 *	  - { host: '*.example.com', ports: [8000-8099], protocols: [http],
 *	      methods: [GET, HEAD], paths: [/v1/status, '/v1/files-*'] }
 *	  - { host: 192.0.2.0/24 }
 *	  - { public: true, protocols: [http, https] }
 *	  - { host: api.example.com, headers: { Authorization: 'Bearer ${secret.KEY}' } }
 *	deny:
 *	  - { host: '*.internal.example.com' }
 *	limits: { connections: 64, bytes_per_second: 10m, total_bytes: 1g,
 *		  lookups_per_second: 20 }
 *
 * A rule has either `host` or `public: true` (every name, and every public address). A
 * field that is left out does not restrict the rule; a list in a rule must not be empty.
 * Only what a rule allows is allowed, so a policy without rules allows nothing. What a
 * rule denies is denied, no matter which other rules allow it.
 *
 * A stream is plain HTTP, TLS or something else. Each protocol is a set of these: `http`
 * is plain HTTP, `https` and `tls` are TLS, and `tcp` is all three. The content of TLS is
 * not inspected, unless TLS is terminated on the way. Unlike `tls`, `https` may have
 * `methods` and `paths`; it then allows only requests that are inspected. `methods` and
 * `paths` without `protocols` mean http and https.
 *
 * A path is either exact, or ends in '*' and is a prefix. Paths are compared as bytes,
 * after unnecessary encodings were decoded (rule_path()). A path that two servers could
 * read differently counts as unknown: a rule that allows paths never allows it, and a
 * rule that denies paths always denies it.
 */
#ifndef NETWORK_POLICY_H
#define NETWORK_POLICY_H

#include "base/json.h"
#include "network/host.h"

#define POLICY_RULES_MAX 10000 /* maximum number of rules in a policy */
#define RULE_PORTS_MAX   64    /* maximum number of port ranges in a rule */
#define RULE_PATHS_MAX   64
#define RULE_PATH_MAX    1024

/* The words of `protocols`, as bits. */
enum rule_protocol {
	RULE_HTTP = 1,
	RULE_HTTPS = 2,
	RULE_TLS = 4,
	RULE_TCP = 8,
};

/* What a stream can be. */
enum rule_stream {
	STREAM_HTTP = 1,
	STREAM_TLS = 2,
	STREAM_OTHER = 4,
	STREAM_ALL = 7,
};

#define RULE_METHODS_ALL 0x3ff /* including the bit of methods that have no word */

struct rule_ports {
	uint16_t low, high;
};

struct rule_header;
struct policy_secret;

struct rule {
	struct host host;
	char *name;               /* memory for the text of the host; NULL: an address */
	struct rule_ports *ports; /* sorted ranges that do not touch; NULL: all ports */
	size_t n_ports;
	uint8_t protocols;           /* enum rule_protocol; 0: all */
	uint16_t methods;            /* a bit for each; RULE_METHODS_ALL: all */
	char **paths;                /* NULL: all */
	struct rule_header *headers; /* to add to each request: header.h */
	size_t n_headers;
};

struct rules {
	struct rule *list;
	size_t n;
};

/* 0: no limit. */
struct policy_limits {
	uint64_t connections; /* concurrent connections */
	uint64_t bytes_per_second;
	uint64_t total_bytes;
	uint64_t lookups_per_second; /* names that are resolved outside */
};

struct policy {
	struct rules allow, deny;
	struct policy_limits limits;
	/* Values of the secrets in headers, if they are known: header.h. */
	struct policy_secret *secrets;
	size_t n_secrets;
};

#define POLICY_LIMIT_MAX (UINT64_C(1) << 62)

/* The names of the limits, for encodings. */
struct policy_limit {
	const char *name;
	size_t field; /* offset in struct policy_limits */
	bool bytes;   /* may be written as a size */
};
extern const struct policy_limit policy_limit_table[];
extern const size_t policy_n_limits;

static inline uint64_t *policy_limit_field(struct policy_limits *l,
					   const struct policy_limit *row)
{
	return (uint64_t *)(void *)((char *)l + row->field);
}

/* ----------------------------------------------------------------------- rules */

void policy_done(struct policy *p);
/* Does a rule need to see requests inside TLS, to judge them or to add headers? */
bool policy_needs_trust(const struct policy *p);
#define AUTO_POLICY CLEANUP(policy_done)

/*
 * Append an unlimited rule for @h, with its own copy of the name. -E2BIG: the policy has
 * POLICY_RULES_MAX rules. The pointer is valid until the next rule is added.
 */
int policy_add(struct policy *p, struct rules *to, const struct host *h,
	       struct rule **ret, struct warren_error *err) MUST_CHECK;
/* Append a copy of the rule @like. */
int policy_add_copy(struct policy *p, struct rules *to, const struct rule *like,
		    struct warren_error *err) MUST_CHECK;
/* Remove the last rule of @from. */
void policy_drop_last(struct rules *from);

/* Add a range; ranges that touch become one. */
int rule_add_ports(struct rule *r, uint16_t low, uint16_t high,
		   struct warren_error *err) MUST_CHECK;
int rule_add_path(struct rule *r, const char *path, size_t n,
		  struct warren_error *err) MUST_CHECK;
/* Check that the parts of a rule are consistent, and fill in the missing ones. */
int rule_finish(struct rule *r, struct warren_error *err) MUST_CHECK;

/* Get the bit of a word in `protocols`; 0: unknown word. */
unsigned rule_protocol_bit(const char *word);
/*
 * Get the bit of a method. All methods without a word share one bit, which has no name.
 */
unsigned rule_method_bit(const char *method);
const char *rule_method_name(unsigned index); /* NULL: there are no more */
const char *rule_protocol_name(unsigned index);
/* Get the streams (enum rule_stream) that a set of protocols includes. */
uint8_t rule_streams(uint8_t protocols);
static inline bool rule_is_limited(const struct rule *r)
{
	return r->methods != RULE_METHODS_ALL || r->paths;
}

/*
 * Convert the path of a request target to the form that rules are compared with: without
 * the query and without unnecessary encodings. False: servers could read the path
 * differently (dot segments, empty segments, encoded slashes, parameters, bytes that are
 * not ASCII, ...), or it exceeds @size.
 */
bool rule_path(const char *target, char *out, size_t size);

/* --------------------------------------------------------------------- extents */

/*
 * The set of streams to one host that a request may turn out to be. Rules are compared
 * with it.
 */
struct extent {
	uint16_t low, high; /* ports */
	uint8_t streams;    /* enum rule_stream */
	uint16_t methods;
	const char *path; /* NULL: every path */
	size_t path_len;
	bool prefix; /* every path that begins with `path` */
};

/* Return whether the rule, apart from its host, includes all of @e (covers) or some of
 * @e. */
bool rule_covers(const struct rule *r, const struct extent *e);
bool rule_touches(const struct rule *r, const struct extent *e);
/* Return whether a request can be in both rules, apart from their hosts. */
bool rule_meets(const struct rule *a, const struct rule *b);
/* Set the path from that of a rule, exact or a prefix: "/a/b", "/a*". */
void extent_set_path(struct extent *e, const char *pattern);
bool extent_path_covers(const char *pattern, const struct extent *e);

/* ------------------------------------------------------------------------ JSON */

/* The output has the names of secrets, and never their values. */
void policy_write(const struct policy *p, struct json *j, const char *key);
void rule_write(const struct rule *r, struct json *j, const char *key);

#endif /* NETWORK_POLICY_H */
