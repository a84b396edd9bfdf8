/* SPDX-License-Identifier: Apache-2.0 */
/*
 * header.h - headers that a rule adds to requests, and the secrets in them
 *
 *	{ host: api.example.com, headers: { Authorization: 'Bearer ${secret.NAME}' } }
 *
 * A header replaces all headers of that name that the client sent, and those whose names
 * some servers treat as the same (header_names_alike()). The value is text in which
 * `${secret.NAME}` stands for a secret, and `$${` for the two characters `${`.
 *
 * Only an allowing rule for one exact name has headers. A suffix would send a secret to
 * every name below it, including those that other people can register or take over; an
 * address has no name that a certificate could prove. The protocol is https, unless the
 * rule says http, too. A rule with headers allows only requests that are inspected, so
 * its TLS is terminated on the way (policy_terminates()).
 *
 * Two rules of a policy must not add different headers to the same request, so their
 * order does not matter.
 *
 * The values of secrets are in the policy, apart from its rules: rules contain names
 * only, and so does the output of policy_write(). The service fills in the values
 * (policy_resolve_secrets()) and sends them with policy_write_secrets() to the process
 * that adds the headers, which reads them with policy_read_secrets() (policy_json.h).
 */
#ifndef NETWORK_HEADER_H
#define NETWORK_HEADER_H

#include "base/buf.h"
#include "base/secret_name.h"
#include "network/policy.h"

#define RULE_HEADERS_MAX     16    /* maximum number of headers in a rule */
#define RULE_HEADER_NAME_MAX 64    /* maximum bytes of a header's name */
#define RULE_HEADER_TEXT_MAX 4096  /* maximum bytes of a value as it is written */
#define RULE_HEADER_MAX      20480 /* maximum bytes of a value with its secrets */
#define POLICY_HEADERS_MAX   256   /* maximum number of rules with headers */
#define POLICY_HEADER_PATHS  1024  /* maximum number of paths of these rules together */
#define POLICY_SECRETS_MAX   256   /* maximum number of secrets that a policy uses */
#define POLICY_SECRET_MAX    16384 /* maximum bytes of a secret's value */

struct rule_header {
	char *name; /* as written; compared without case */
	char *text; /* with the names of secrets */
};

/* The value of a secret that the headers of a policy use. */
struct policy_secret {
	char name[SECRET_NAME_MAX + 1];
	char *value;
};

/*
 * Return whether a server could treat the names as the same: many servers convert them to
 * the names of variables, in which `X-Key` and `X_Key` are HTTP_X_KEY.
 */
bool header_names_alike(const char *a, const char *b);
/*
 * Add a header. -EINVAL: the name or the text is not valid, or the rule already has the
 * header; -E2BIG. Errors are sentences without the field.
 */
int rule_add_header(struct rule *r, const char *name, const char *text, size_t n,
		    struct warren_error *err) MUST_CHECK;
int rule_copy_headers(struct rule *to, const struct rule *from) MUST_CHECK; /* -ENOMEM */
void rule_headers_done(struct rule *r);
/* Return whether both rules add the same headers. */
bool rule_same_headers(const struct rule *a, const struct rule *b);
/*
 * Check the rules with headers of a whole policy: that there are not too many, and that
 * no two of them add different headers to the same request. The error begins with the
 * location, "/allow/1/headers".
 */
int policy_check_headers(const struct policy *p, struct warren_error *err) MUST_CHECK;

/* ------------------------------------------------------------------------ secrets */

/* Get the names of all secrets in the policy, each once; NULL: there are none. */
int policy_secret_names(const struct policy *p, char ***ret_names,
			struct warren_error *err) MUST_CHECK;
/*
 * Get the values of all secrets that the policy names, from @lookup, which writes a value
 * of at most POLICY_SECRET_MAX bytes and its NUL to @value. If it fails, so does the
 * call, and the error begins with the location: "/allow/0/headers/Authorization: ...".
 * Values that the policy had before are wiped.
 */
int policy_resolve_secrets(struct policy *p,
			   int (*lookup)(void *ctx, const char *name,
					 char value[POLICY_SECRET_MAX + 1],
					 struct warren_error *err),
			   void *ctx, struct warren_error *err) MUST_CHECK;
/* Add a value; -EINVAL: no header can contain it; -EEXIST: the policy has the name. */
int policy_add_secret(struct policy *p, const char *name, const char *value,
		      struct warren_error *err) MUST_CHECK;
/* Wipe and free all values. */
void policy_secrets_done(struct policy *p);
/*
 * Append the value of a header with its secrets to @out. -ENOENT: a secret has no value;
 * -E2BIG: the value is too long. On failure, @out may have a part of it. The caller wipes
 * @out.
 */
int rule_expand_header(const struct policy *p, const struct rule_header *h,
		       struct buf *out) MUST_CHECK;

bool policy_has_secret(const struct policy *p, const char *name);
/*
 * Like policy_write(), with the values of all secrets in the additional field `secrets`.
 * The caller wipes the output.
 */
void policy_write_secrets(const struct policy *p, struct json *j, const char *key);

#endif /* NETWORK_HEADER_H */
