/* SPDX-License-Identifier: Apache-2.0 */
/* header.c - headers of rules, and the secrets in them */
#include "network/header.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/strv.h"

#define REFERENCE "${secret."

/*
 * Headers that determine where a message ends, where it goes, or what the connection
 * becomes. If a rule changed one of them, the two ends could interpret the message
 * differently.
 */
static const char *const header_refused[] = {
	"Connection",
	"Content-Length",
	"Expect",
	"Host",
	"HTTP2-Settings",
	"Keep-Alive",
	"Proxy-Authenticate",
	"Proxy-Authorization",
	"Proxy-Connection",
	"Sec-WebSocket-Accept",
	"Sec-WebSocket-Extensions",
	"Sec-WebSocket-Key",
	"Sec-WebSocket-Version",
	"TE",
	"Trailer",
	"Transfer-Encoding",
	"Upgrade",
};

/* ---------------------------------------------------------------- templates of values */

enum header_part {
	PART_TEXT,
	PART_SECRET,
	PART_BAD,
};

/*
 * Get the part of a value at @s: some text, or the name of a secret. *@ret_len is its
 * length in @s; *@ret_text is the text or the name, with *@ret_n bytes.
 */
static enum header_part header_next_part(const char *s, size_t *ret_len,
					 const char **ret_text, size_t *ret_n)
{
	size_t prefix = sizeof(REFERENCE) - 1, n;

	*ret_text = s;
	if (strncmp(s, "$${", 3) == 0) {
		*ret_len = 3;
		*ret_text = s + 1;
		*ret_n = 2;
		return PART_TEXT;
	}
	if (strncmp(s, "${", 2) != 0) {
		n = 1 + strcspn(s + 1, "$");
		*ret_len = *ret_n = n;
		return PART_TEXT;
	}
	if (strncmp(s, REFERENCE, prefix) != 0)
		return PART_BAD;
	n = secret_name_len(s + prefix);
	if (n == 0 || n > SECRET_NAME_MAX || s[prefix + n] != '}')
		return PART_BAD;
	*ret_text = s + prefix;
	*ret_n = n;
	*ret_len = prefix + n + 1;
	return PART_SECRET;
}

static bool header_is_token(const char *s)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvw"
				      "xyz0123456789!#$%&'*+-.^_`|~";
	size_t n = strspn(s, allowed);

	return n > 0 && s[n] == '\0';
}

/*
 * Is the text free of control characters other than tab? A line break would begin another
 * header.
 */
static bool header_is_clean(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if ((c < ' ' && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

static int header_check_name(const struct rule *r, const char *name,
			     struct warren_error *err)
{
	if (strlen(name) > RULE_HEADER_NAME_MAX || !header_is_token(name))
		return error_set(err, EINVAL,
				 "is not the name of a header: letters, digits and '-', "
				 "at most %d characters",
				 RULE_HEADER_NAME_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(header_refused); i++)
		if (strcasecmp(header_refused[i], name) == 0)
			return error_set(err, EINVAL,
					 "cannot be set: it belongs to the connection or "
					 "says how a message is read");
	for (size_t i = 0; i < r->n_headers; i++)
		if (strcasecmp(r->headers[i].name, name) == 0)
			return error_set(err, EINVAL, "is there twice");
	return 0;
}

static int header_check_text(const char *text, size_t n, struct warren_error *err)
{
	const char *part;
	size_t len, part_n;

	if (n == 0)
		return error_set(err, EINVAL, "must not be empty");
	if (n > RULE_HEADER_TEXT_MAX)
		return error_set(err, EINVAL, "has %zu bytes; the maximum is %d", n,
				 RULE_HEADER_TEXT_MAX);
	if (!header_is_clean(text, n))
		return error_set(err, EINVAL,
				 "must not contain line breaks or other control "
				 "characters");
	if (strchr(" \t", text[0]) || strchr(" \t", text[n - 1]))
		return error_set(err, EINVAL, "must not begin or end with a space");
	for (; *text; text += len)
		if (header_next_part(text, &len, &part, &part_n) == PART_BAD)
			return error_set(err, EINVAL,
					 "'${' must begin ${secret.NAME}; write '$${' "
					 "for the characters '${'");
	return 0;
}

/* ------------------------------------------------------------------------- rules */

bool header_names_alike(const char *a, const char *b)
{
	for (; *a && *b; a++, b++)
		if (tolower((unsigned char)*a) != tolower((unsigned char)*b) &&
		    (isalnum((unsigned char)*a) || isalnum((unsigned char)*b)))
			return false;
	return *a == *b;
}

int rule_add_header(struct rule *r, const char *name, const char *text, size_t n,
		    struct warren_error *err)
{
	struct rule_header h, *list;
	int e = header_check_name(r, name, err);

	if (e == 0)
		e = header_check_text(text, n, err);
	if (e < 0)
		return e;
	if (r->n_headers >= RULE_HEADERS_MAX)
		return error_set(err, E2BIG, "a rule has at most %d headers",
				 RULE_HEADERS_MAX);
	list = reallocarray(r->headers, r->n_headers + 1, sizeof(*list));
	if (!list)
		return error_errno(err, ENOMEM, "add a header");
	r->headers = list;
	h = (struct rule_header){ .name = strdup(name), .text = strdup(text) };
	if (!h.name || !h.text) {
		free(h.name);
		free(h.text);
		return error_errno(err, ENOMEM, "add a header");
	}
	r->headers[r->n_headers++] = h;
	return 0;
}

int rule_copy_headers(struct rule *to, const struct rule *from)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int e = 0;

	for (size_t i = 0; e == 0 && i < from->n_headers; i++)
		e = rule_add_header(to, from->headers[i].name, from->headers[i].text,
				    strlen(from->headers[i].text), &ignored);
	return e < 0 ? -ENOMEM : 0;
}

void rule_headers_done(struct rule *r)
{
	for (size_t i = 0; i < r->n_headers; i++) {
		free(r->headers[i].name);
		free(r->headers[i].text);
	}
	free(r->headers);
	r->headers = NULL;
	r->n_headers = 0;
}

static bool header_is_in(const struct rule *r, const struct rule_header *h)
{
	for (size_t i = 0; i < r->n_headers; i++)
		if (strcasecmp(r->headers[i].name, h->name) == 0)
			return strcmp(r->headers[i].text, h->text) == 0;
	return false;
}

bool rule_same_headers(const struct rule *a, const struct rule *b)
{
	if (a->n_headers != b->n_headers)
		return false;
	for (size_t i = 0; i < a->n_headers; i++)
		if (!header_is_in(b, &a->headers[i]))
			return false;
	return true;
}

/* Return the first rule before @k that adds other headers to some of the same
 * requests. */
static size_t header_find_conflict(const struct rules *rules, size_t k)
{
	const struct rule *b = &rules->list[k];

	for (size_t i = 0; i < k; i++) {
		const struct rule *a = &rules->list[i];

		if (a->n_headers > 0 && host_compare(&a->host, &b->host) == 0 &&
		    !rule_same_headers(a, b) && rule_meets(a, b))
			return i;
	}
	return k;
}

/* The paths of all rules with headers are compared with each other, so limit their number
 * first. */
static int header_count_paths(const struct policy *p, struct warren_error *err)
{
	size_t n = 0;

	for (size_t k = 0; k < p->allow.n; k++)
		if (p->allow.list[k].n_headers > 0 && p->allow.list[k].paths)
			n += strv_len((union strv){ p->allow.list[k].paths });
	if (n <= POLICY_HEADER_PATHS)
		return 0;
	return error_set(err, E2BIG,
			 "the rules with headers have at most %d paths together",
			 POLICY_HEADER_PATHS);
}

int policy_check_headers(const struct policy *p, struct warren_error *err)
{
	size_t n = 0;

	if (header_count_paths(p, err) < 0)
		return -err->code;

	for (size_t k = 0; k < p->allow.n; k++) {
		size_t i;

		if (p->allow.list[k].n_headers == 0)
			continue;
		if (++n > POLICY_HEADERS_MAX)
			return error_set(err, E2BIG,
					 "a policy has at most %d rules with headers",
					 POLICY_HEADERS_MAX);
		i = header_find_conflict(&p->allow, k);
		if (i < k)
			return error_set(err, EINVAL,
					 "/allow/%zu/headers: must be the same as in "
					 "/allow/%zu, which allows some of the same "
					 "requests",
					 k, i);
	}
	return 0;
}

/* ----------------------------------------------------------------------- secrets */

void policy_secrets_done(struct policy *p)
{
	for (size_t i = 0; i < p->n_secrets; i++) {
		explicit_bzero(p->secrets[i].value, strlen(p->secrets[i].value));
		free(p->secrets[i].value);
	}
	free(p->secrets);
	p->secrets = NULL;
	p->n_secrets = 0;
}

static const struct policy_secret *header_find_secret(const struct policy *p,
						      const char *name, size_t n)
{
	for (size_t i = 0; i < p->n_secrets; i++)
		if (strlen(p->secrets[i].name) == n &&
		    memcmp(p->secrets[i].name, name, n) == 0)
			return &p->secrets[i];
	return NULL;
}

int policy_add_secret(struct policy *p, const char *name, const char *value,
		      struct warren_error *err)
{
	struct policy_secret *list;
	size_t n = strlen(value);

	if (!secret_name_ok(name))
		return error_set(err, EINVAL, "is not the name of a secret");
	if (n == 0 || n > POLICY_SECRET_MAX || !header_is_clean(value, n))
		return error_set(err, EINVAL,
				 "the value is empty, too long, or contains a control "
				 "character");
	if (header_find_secret(p, name, strlen(name)))
		return error_set(err, EEXIST, "is there twice");
	if (p->n_secrets >= POLICY_SECRETS_MAX)
		return error_set(err, E2BIG, "a policy uses at most %d secrets",
				 POLICY_SECRETS_MAX);
	list = reallocarray(p->secrets, p->n_secrets + 1, sizeof(*list));
	if (!list)
		return error_errno(err, ENOMEM, "add a secret");
	p->secrets = list;
	list[p->n_secrets] = (struct policy_secret){ .value = strdup(value) };
	if (!list[p->n_secrets].value)
		return error_errno(err, ENOMEM, "add a secret");
	(void)strcpy(list[p->n_secrets].name, name);
	p->n_secrets++;
	return 0;
}

/*
 * A header, its location in the policy, and the function to call for each secret's name.
 */
struct header_walk {
	const struct policy *policy;
	int (*fn)(void *ctx, const char *name, struct warren_error *err);
	void *ctx;
};

static int header_each_secret(const struct header_walk *w, const char *text,
			      struct warren_error *err)
{
	char name[SECRET_NAME_MAX + 1];
	const char *part;
	size_t len, n;
	int r = 0;

	for (; r == 0 && *text; text += len) {
		enum header_part kind = header_next_part(text, &len, &part, &n);

		if (kind == PART_BAD)
			return error_set(err, EINVAL, "is malformed");
		if (kind != PART_SECRET)
			continue;
		(void)memcpy(name, part, n);
		name[n] = '\0';
		r = w->fn(w->ctx, name, err);
	}
	return r;
}

static int header_walk(const struct header_walk *w, struct warren_error *err)
{
	for (size_t i = 0; i < w->policy->allow.n; i++) {
		const struct rule *rule = &w->policy->allow.list[i];

		for (size_t k = 0; k < rule->n_headers; k++) {
			struct warren_error why = WARREN_ERROR_INIT;
			int r = header_each_secret(w, rule->headers[k].text, &why);

			if (r < 0)
				return error_set(err, why.code,
						 "/allow/%zu/headers/%s: %s", i,
						 rule->headers[k].name, why.msg);
		}
	}
	return 0;
}

static int header_add_name(void *ctx, const char *name, struct warren_error *err)
{
	char ***names = ctx;

	for (size_t i = 0; *names && (*names)[i]; i++)
		if (strcmp((*names)[i], name) == 0)
			return 0;
	if (strv_len(*names) >= POLICY_SECRETS_MAX)
		return error_set(err, E2BIG, "a policy uses at most %d secrets",
				 POLICY_SECRETS_MAX);
	return strv_add(names, name) < 0 ? error_errno(err, ENOMEM, "list secrets") : 0;
}

int policy_secret_names(const struct policy *p, char ***ret_names,
			struct warren_error *err)
{
	AUTO_STRV char **names = NULL;
	const struct header_walk w = { .policy = p,
				       .fn = header_add_name,
				       .ctx = &names };
	int r = header_walk(&w, err);

	if (r < 0)
		return r;
	*ret_names = TAKE_PTR(names);
	return 0;
}

struct header_resolve {
	struct policy *policy;
	int (*lookup)(void *ctx, const char *name, char value[POLICY_SECRET_MAX + 1],
		      struct warren_error *err);
	void *ctx;
};

static int header_resolve_name(void *ctx, const char *name, struct warren_error *err)
{
	struct header_resolve *h = ctx;
	char value[POLICY_SECRET_MAX + 1];
	int r;

	if (header_find_secret(h->policy, name, strlen(name)))
		return 0;
	r = h->lookup(h->ctx, name, value, err);
	if (r >= 0)
		r = policy_add_secret(h->policy, name, value, err);
	explicit_bzero(value, sizeof(value));
	return r < 0 ? r : 0;
}

/* Check that all headers, with their secrets, are short enough to be sent. */
static int header_check_sizes(const struct policy *p, struct warren_error *err)
{
	for (size_t i = 0; i < p->allow.n; i++) {
		const struct rule *rule = &p->allow.list[i];

		for (size_t k = 0; k < rule->n_headers; k++) {
			struct buf out = BUF_INIT(RULE_HEADER_MAX);
			int r = rule_expand_header(p, &rule->headers[k], &out);

			if (out.data)
				explicit_bzero(out.data, out.len);
			buf_done(&out);
			if (r < 0)
				return error_set(err, -r,
						 "/allow/%zu/headers/%s: has more than "
						 "%d bytes with its secrets",
						 i, rule->headers[k].name,
						 RULE_HEADER_MAX);
		}
	}
	return 0;
}

int policy_resolve_secrets(struct policy *p,
			   int (*lookup)(void *ctx, const char *name,
					 char value[POLICY_SECRET_MAX + 1],
					 struct warren_error *err),
			   void *ctx, struct warren_error *err)
{
	struct header_resolve h = { .policy = p, .lookup = lookup, .ctx = ctx };
	const struct header_walk w = { .policy = p,
				       .fn = header_resolve_name,
				       .ctx = &h };
	int r;

	policy_secrets_done(p);
	r = header_walk(&w, err);
	if (r == 0)
		r = header_check_sizes(p, err);
	if (r < 0)
		policy_secrets_done(p);
	return r;
}

int rule_expand_header(const struct policy *p, const struct rule_header *h,
		       struct buf *out)
{
	const char *text = h->text, *part;
	size_t len, n, start = out->len;

	for (; *text; text += len) {
		const struct policy_secret *secret;

		switch (header_next_part(text, &len, &part, &n)) {
		case PART_TEXT:
			buf_add(out, part, n);
			break;
		case PART_SECRET:
			secret = header_find_secret(p, part, n);
			if (!secret)
				return -ENOENT;
			buf_puts(out, secret->value);
			break;
		case PART_BAD:
			return -EINVAL;
		}
		if (out->failed || out->len - start > RULE_HEADER_MAX)
			return -E2BIG;
	}
	return 0;
}

bool policy_has_secret(const struct policy *p, const char *name)
{
	return header_find_secret(p, name, strlen(name)) != NULL;
}
