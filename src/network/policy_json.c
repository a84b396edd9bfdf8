/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_json.c - the schema of policies: tables of fields, each with its reader
 *
 * The location of an error is built while the functions return: each level adds its own
 * part in front.
 */
#include "network/policy_json.h"

#include <errno.h>
#include <string.h>

#include "base/did_you_mean.h"
#include "base/parse.h"
#include "base/strv.h"
#include "network/header.h"

#define SHOWN 64 /* maximum size of a name in a message */

/* A rule that is being read, its policy, and the list that it is in. */
struct policy_reader {
	struct policy *policy;
	struct rules *list;
	struct rule *rule; /* NULL until its host is known */
	bool is_public;
};

struct policy_field {
	const char *name;
	int (*read)(struct policy_reader *in, const json_t *value,
		    struct warren_error *err);
};

/* -------------------------------------------------------- locations in error messages */

/*
 * Put "/key" in front of the location that @err begins with. Do not change errors that
 * are not about a field (out of memory).
 */
static int policy_at_key(struct warren_error *err, const char *key)
{
	struct warren_error old = *err;
	char escaped[2 * SHOWN + 1];
	size_t n = 0;

	if (err->code == ENOMEM)
		return -err->code;
	for (const char *s = key; *s && n + 2 < sizeof(escaped); s++) {
		if (*s == '~' || *s == '/')
			escaped[n++] = '~';
		escaped[n++] = (char)(*s == '~' ? '0' : *s == '/' ? '1' : *s);
	}
	escaped[n] = '\0';
	return error_set(err, old.code, "/%s%s%s", escaped, old.msg[0] == '/' ? "" : ": ",
			 old.msg);
}

static int policy_at_index(struct warren_error *err, size_t index)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%zu", index);
	return policy_at_key(err, text);
}

/* Read the fields of an object with a table, in the order of the table. */
static int policy_read_fields(struct policy_reader *in, const json_t *value,
			      const struct policy_field *fields, size_t n,
			      struct warren_error *err)
{
	json_t *object = (json_t *)(uintptr_t)value, *child;
	const char *key;
	size_t i;

	if (!json_is_object(value))
		return error_set(err, EINVAL, "must be an object");
	json_object_foreach(object, key, child)
	{
		struct suggestion s = { .word = key };

		for (i = 0; i < n && strcmp(fields[i].name, key) != 0; i++)
			suggest_consider(&s, fields[i].name);
		if (i < n)
			continue;
		(void)error_set(err, EINVAL, "is not a known field%s%s%s",
				s.best ? "; did you mean '" : "", s.best ? s.best : "",
				s.best ? "'?" : "");
		return policy_at_key(err, key);
	}
	for (i = 0; i < n; i++) {
		child = json_object_get(value, fields[i].name);
		if (child && fields[i].read(in, child, err) < 0)
			return policy_at_key(err, fields[i].name);
	}
	return 0;
}

/* Read the items of a list, which must not be empty, with @read. */
static int policy_read_list(struct policy_reader *in, const json_t *value,
			    int (*read)(struct policy_reader *, const json_t *,
					struct warren_error *),
			    struct warren_error *err)
{
	size_t n = json_array_size(value);

	if (!json_is_array(value))
		return error_set(err, EINVAL, "must be a list");
	if (n == 0)
		return error_set(err, EINVAL,
				 "must not be empty; omit the field for no limit");
	for (size_t i = 0; i < n; i++)
		if (read(in, json_array_get(value, i), err) < 0)
			return policy_at_index(err, i);
	return 0;
}

/* Return a string without a NUL; NULL: it is not one. */
static const char *policy_word(const json_t *value, struct warren_error *err)
{
	const char *s = json_string_value(value);

	if (!s || strlen(s) != json_string_length(value)) {
		(void)error_set(err, EINVAL, "%s",
				s ? "contains a NUL" : "must be a string");
		return NULL;
	}
	return s;
}

/* ----------------------------------------------------------------------- rules */

static int policy_read_host(struct policy_reader *in, const json_t *value,
			    struct warren_error *err)
{
	char name[HOST_TEXT_SIZE];
	struct host h;
	int r;

	if (in->is_public)
		return error_set(err, EINVAL, "cannot be combined with \"public\"");
	if (!json_is_string(value))
		return error_set(err, EINVAL, "must be a string");
	r = host_parse(json_string_value(value), json_string_length(value), name, &h,
		       err);
	return r < 0 ? r : policy_add(in->policy, in->list, &h, &in->rule, err);
}

static int policy_read_public(struct policy_reader *in, const json_t *value,
			      struct warren_error *err)
{
	static const struct host everything = { .kind = HOST_PUBLIC };

	if (!json_is_true(value))
		return error_set(err, EINVAL, "must be true, or omitted");
	in->is_public = true;
	return policy_add(in->policy, in->list, &everything, &in->rule, err);
}

static int policy_read_port(struct policy_reader *in, const json_t *value,
			    struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	const char *s = json_string_value(value), *dash = s ? strchr(s, '-') : NULL;
	json_int_t number = json_integer_value(value);
	uint64_t low = 0, high = 0;
	char first[8];

	if (json_is_integer(value) && number >= 1 && number <= UINT16_MAX)
		return rule_add_ports(in->rule, (uint16_t)number, (uint16_t)number, err);
	if (dash && (size_t)(dash - s) < sizeof(first) &&
	    strlen(s) == json_string_length(value)) {
		(void)memcpy(first, s, (size_t)(dash - s));
		first[dash - s] = '\0';
		if (parse_u64(first, UINT16_MAX, &low, &ignored) == 0 &&
		    parse_u64(dash + 1, UINT16_MAX, &high, &ignored) == 0 && low >= 1 &&
		    low <= high)
			return rule_add_ports(in->rule, (uint16_t)low, (uint16_t)high,
					      err);
	}
	return error_set(err, EINVAL,
			 "must be a port from 1 to 65535, or a range such as "
			 "\"8000-8099\"");
}

static int policy_read_ports(struct policy_reader *in, const json_t *value,
			     struct warren_error *err)
{
	return policy_read_list(in, value, policy_read_port, err);
}

static int policy_read_protocol(struct policy_reader *in, const json_t *value,
				struct warren_error *err)
{
	const char *word = policy_word(value, err);
	unsigned bit = word ? rule_protocol_bit(word) : 0;

	if (!word)
		return -EINVAL;
	if (!bit)
		return error_set(err, EINVAL,
				 "must be one of http, https, tls, tcp; is '%.*s'", SHOWN,
				 word);
	in->rule->protocols |= (uint8_t)bit;
	return 0;
}

static int policy_read_protocols(struct policy_reader *in, const json_t *value,
				 struct warren_error *err)
{
	return policy_read_list(in, value, policy_read_protocol, err);
}

static int policy_read_method(struct policy_reader *in, const json_t *value,
			      struct warren_error *err)
{
	const char *word = policy_word(value, err);
	unsigned bit = word ? rule_method_bit(word) : 0;

	if (!word)
		return -EINVAL;
	if (bit == (RULE_METHODS_ALL + 1) >> 1)
		return error_set(err, EINVAL,
				 "must be one of GET, HEAD, POST, PUT, PATCH, DELETE, "
				 "OPTIONS, TRACE, CONNECT; is '%.*s'",
				 SHOWN, word);
	in->rule->methods |= (uint16_t)bit;
	return 0;
}

static int policy_read_methods(struct policy_reader *in, const json_t *value,
			       struct warren_error *err)
{
	in->rule->methods = 0;
	return policy_read_list(in, value, policy_read_method, err);
}

static int policy_read_path(struct policy_reader *in, const json_t *value,
			    struct warren_error *err)
{
	if (!json_is_string(value))
		return error_set(err, EINVAL, "must be a string");
	return rule_add_path(in->rule, json_string_value(value),
			     json_string_length(value), err);
}

static int policy_read_paths(struct policy_reader *in, const json_t *value,
			     struct warren_error *err)
{
	return policy_read_list(in, value, policy_read_path, err);
}

static int policy_read_headers(struct policy_reader *in, const json_t *value,
			       struct warren_error *err)
{
	json_t *object = (json_t *)(uintptr_t)value, *child;
	const char *key;

	if (in->list != &in->policy->allow)
		return error_set(err, EINVAL, "are only allowed in a rule that allows");
	if (!json_is_object(value) || json_object_size(value) == 0)
		return error_set(err, EINVAL,
				 "must be an object with the name and value of at least "
				 "one header");
	json_object_foreach(object, key, child)
	{
		const char *text = policy_word(child, err);

		if (!text || rule_add_header(in->rule, key, text, strlen(text), err) < 0)
			return policy_at_key(err, key);
	}
	return 0;
}

/* `public` and `host` come first, because they create the rule. */
static const struct policy_field rule_fields[] = {
	{ "public", policy_read_public },   { "host", policy_read_host },
	{ "ports", policy_read_ports },     { "protocols", policy_read_protocols },
	{ "methods", policy_read_methods }, { "paths", policy_read_paths },
	{ "headers", policy_read_headers },
};

static int policy_read_rule(struct policy_reader *in, const json_t *value,
			    struct warren_error *err)
{
	int r;

	in->rule = NULL;
	in->is_public = false;
	if (json_is_object(value) && !json_object_get(value, "host") &&
	    !json_object_get(value, "public")) {
		(void)error_set(err, EINVAL, "is missing");
		return policy_at_key(err, "host");
	}
	r = policy_read_fields(in, value, rule_fields, ARRAY_SIZE(rule_fields), err);
	return r < 0 ? r : rule_finish(in->rule, err);
}

/* -------------------------------------------------------------------- whole policies */

static int policy_read_rules(struct policy_reader *in, const json_t *value,
			     struct rules *list, struct warren_error *err)
{
	in->list = list;
	if (json_is_array(value) && json_array_size(value) == 0)
		return 0; /* no rules: the list allows or denies nothing */
	return policy_read_list(in, value, policy_read_rule, err);
}

static int policy_read_allow(struct policy_reader *in, const json_t *value,
			     struct warren_error *err)
{
	return policy_read_rules(in, value, &in->policy->allow, err);
}

static int policy_read_deny(struct policy_reader *in, const json_t *value,
			    struct warren_error *err)
{
	return policy_read_rules(in, value, &in->policy->deny, err);
}

static int policy_read_limit(const json_t *value, bool bytes, uint64_t *ret,
			     struct warren_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	const char *s = json_string_value(value);
	uint64_t v = 0;

	if (bytes && s && strlen(s) == json_string_length(value) &&
	    parse_size(s, &v, &why) < 0)
		return error_set(err, EINVAL, "%s", why.msg);
	if (json_is_integer(value) && json_integer_value(value) > 0)
		v = (uint64_t)json_integer_value(value);
	if (v < 1 || v > POLICY_LIMIT_MAX)
		return error_set(err, EINVAL, "must be a number from 1 to %ju%s",
				 (uintmax_t)POLICY_LIMIT_MAX,
				 bytes ? ", or a size such as \"10m\"" : "");
	*ret = v;
	return 0;
}

static int policy_read_limits(struct policy_reader *in, const json_t *value,
			      struct warren_error *err)
{
	static const struct policy_field none[] = { { "", NULL } };
	json_t *object = (json_t *)(uintptr_t)value, *child;
	const char *key;
	size_t i;

	if (!json_is_object(value))
		return policy_read_fields(in, value, none, 0, err);
	json_object_foreach(object, key, child)
	{
		for (i = 0; i < policy_n_limits; i++)
			if (strcmp(policy_limit_table[i].name, key) == 0)
				break;
		if (i == policy_n_limits) {
			(void)error_set(err, EINVAL,
					"is not a known field; known: connections, "
					"bytes_per_second, total_bytes, "
					"lookups_per_second");
			return policy_at_key(err, key);
		}
		if (policy_read_limit(child, policy_limit_table[i].bytes,
				      policy_limit_field(&in->policy->limits,
							 &policy_limit_table[i]),
				      err) < 0)
			return policy_at_key(err, key);
	}
	return 0;
}

static int policy_read_values(struct policy_reader *in, const json_t *value,
			      struct warren_error *err)
{
	json_t *object = (json_t *)(uintptr_t)value, *child;
	const char *key;

	if (!json_is_object(value))
		return error_set(err, EINVAL, "must be an object");
	json_object_foreach(object, key, child)
	{
		const char *text = policy_word(child, err);

		if (!text || policy_add_secret(in->policy, key, text, err) < 0)
			return policy_at_key(err, key);
	}
	return 0;
}

/* The last field is not part of the public schema: clients set secrets separately from
 * policies. */
static const struct policy_field policy_fields[] = {
	{ "allow", policy_read_allow },
	{ "deny", policy_read_deny },
	{ "limits", policy_read_limits },
	{ "secrets", policy_read_values },
};

#define N_FIELDS (ARRAY_SIZE(policy_fields) - 1)

/* Check that all secrets in the headers have values. */
static int policy_check_values(const struct policy *p, struct warren_error *err)
{
	AUTO_STRV char **names = NULL;
	int r = policy_secret_names(p, &names, err);

	for (size_t i = 0; r == 0 && names && names[i]; i++)
		if (!policy_has_secret(p, names[i]))
			r = error_set(err, EINVAL, "/secrets/%s: is missing", names[i]);
	return r;
}

static int policy_read_whole(const json_t *in, const char *at, bool secrets,
			     struct policy *ret, struct warren_error *err)
{
	AUTO_POLICY struct policy p = { 0 };
	struct policy_reader reader = { .policy = &p };
	struct warren_error why = WARREN_ERROR_INIT;
	int r = policy_read_fields(&reader, in, policy_fields, N_FIELDS + secrets, &why);

	if (r == 0)
		r = policy_check_headers(&p, &why);
	if (r == 0 && secrets)
		r = policy_check_values(&p, &why);
	if (r < 0)
		return error_set(err, why.code, "%s%s%s", at,
				 why.msg[0] == '/' || !*at ? "" : ": ", why.msg);
	*ret = p;
	p = (struct policy){ 0 };
	return 0;
}

int policy_read(const json_t *in, const char *at, struct policy *ret,
		struct warren_error *err)
{
	return policy_read_whole(in, at, false, ret, err);
}

int policy_read_secrets(const json_t *in, const char *at, struct policy *ret,
			struct warren_error *err)
{
	return policy_read_whole(in, at, true, ret, err);
}
