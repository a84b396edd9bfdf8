/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c - parse a value by the type of its key; set defaults; check rules between keys
 */
#include "config/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/userdirs.h"
#include "config/config_internal.h"

int config_new(struct config **ret, struct warren_error *err)
{
	struct config *c = calloc(1, sizeof(*c));

	if (!c)
		return error_errno(err, ENOMEM, "read the configuration");
	*ret = c;
	return 0;
}

void config_list_clear(struct config_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct config_list){ 0 };
}

void *config_field(struct config *c, const struct config_key *key)
{
	return (char *)c + key->field;
}

struct config *config_free(struct config *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < config_n_keys; i++) {
		const struct config_key *key = &config_keys[i];

		if (key->type == TYPE_LIST)
			config_list_clear(config_field(c, key));
		else if (key->type == TYPE_TEXT || key->type == TYPE_PATH)
			free(*(char **)config_field(c, key));
	}
	config_backends_clear(c);
	config_templates_clear(c);
	config_network_clear(c);
	config_code_clear(c);
	free(c);
	return NULL;
}

/* ------------------------------------------------------------------ values */

static int set_bool(bool *field, const char *word, struct warren_error *err)
{
	if (strcmp(word, "true") != 0 && strcmp(word, "false") != 0)
		return error_set(err, EINVAL, "'%.60s' is neither true nor false", word);
	*field = word[0] == 't';
	return 0;
}

static int set_choice(uint64_t *field, const struct config_key *key, const char *word,
		      struct warren_error *err)
{
	char all[160] = "";

	for (size_t i = 0; key->choices[i]; i++) {
		size_t n = strlen(all);

		if (strcmp(key->choices[i], word) == 0) {
			*field = i;
			return 0;
		}
		(void)snprintf(all + n, sizeof(all) - n, "%s%s", i ? ", " : "",
			       key->choices[i]);
	}
	return error_set(err, EINVAL, "'%.60s' is not one of %s", word, all);
}

static int parse_number(enum config_type type, const char *word, uint64_t *ret,
			struct warren_error *err)
{
	if (type == TYPE_SIZE)
		return parse_size(word, ret, err);
	if (type == TYPE_DURATION)
		return parse_duration(word, ret, err);
	if (type == TYPE_CPUS)
		return parse_cpus(word, ret, err);
	return parse_u64(word, INT64_MAX, ret, err);
}

void config_number_word(enum config_type type, uint64_t n, char out[32])
{
	static const struct {
		enum config_type type;
		uint64_t factor;
		const char *unit;
	} units[] = {
		{ TYPE_SIZE, UINT64_C(1) << 40, "t" },
		{ TYPE_SIZE, UINT64_C(1) << 30, "g" },
		{ TYPE_SIZE, UINT64_C(1) << 20, "m" },
		{ TYPE_SIZE, UINT64_C(1) << 10, "k" },
		{ TYPE_DURATION, 3600000, "h" },
		{ TYPE_DURATION, 60000, "m" },
		{ TYPE_DURATION, 1000, "s" },
		{ TYPE_DURATION, 1, "ms" },
	};

	if (type == TYPE_CPUS && n % 1000) {
		(void)snprintf(out, 32, "%" PRIu64 ".%03" PRIu64, n / 1000, n % 1000);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (units[i].type != type || n % units[i].factor)
			continue;
		(void)snprintf(out, 32, "%" PRIu64 "%s", n / units[i].factor,
			       units[i].unit);
		return;
	}
	(void)snprintf(out, 32, "%" PRIu64, type == TYPE_CPUS ? n / 1000 : n);
}

static int config_set_number(uint64_t *field, const struct config_key *key,
			     const char *word, struct warren_error *err)
{
	char bound[32];
	uint64_t n;
	int r;

	if (key->none && strcmp(word, "none") == 0) {
		*field = 0;
		return 0;
	}
	r = parse_number(key->type, word, &n, err);
	if (r < 0)
		return r;
	if (n < key->min) {
		config_number_word(key->type, key->min, bound);
		return error_set(err, ERANGE, "'%.60s' is less than %s", word, bound);
	}
	if (key->max && n > key->max) {
		config_number_word(key->type, key->max, bound);
		return error_set(err, ERANGE, "'%.60s' is more than %s", word, bound);
	}
	*field = n;
	return 0;
}

static int config_set_text(char **field, const struct config_key *key, const char *word,
			   struct warren_error *err)
{
	char *copy;

	if (key->type == TYPE_PATH && word[0] && word[0] != '/')
		return error_set(err, EINVAL, "'%.60s' is not an absolute path", word);
	for (const char *p = word; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return error_set(err, EINVAL, "it contains a control character");
	if (word[0] && key->check && key->check(word, err) < 0)
		return -err->code;
	copy = strdup(word);
	if (!copy)
		return error_errno(err, ENOMEM, "read the configuration");
	free(*field);
	*field = copy;
	return 0;
}

static int add_item(struct config_list *list, const struct config_key *key,
		    const char *word, struct warren_error *err)
{
	char **grown;
	int r;

	if (list->n == CONFIG_LIST_MAX)
		return error_set(err, E2BIG, "it has more than %d items",
				 CONFIG_LIST_MAX);
	if (!word[0])
		return error_set(err, EINVAL, "an item is empty");
	grown = realloc(list->items, (list->n + 1) * sizeof(*grown));
	if (!grown)
		return error_errno(err, ENOMEM, "read the configuration");
	list->items = grown;
	grown[list->n] = NULL;
	r = config_set_text(&grown[list->n], key, word, err);
	if (r == 0)
		list->n++;
	return r;
}

int config_set(struct config *c, const struct config_key *key, const char *word,
	       struct warren_error *err)
{
	void *field = config_field(c, key);

	switch (key->type) {
	case TYPE_BOOL:
		return set_bool(field, word, err);
	case TYPE_CHOICE:
		return set_choice(field, key, word, err);
	case TYPE_TEXT:
	case TYPE_PATH:
		return config_set_text(field, key, word, err);
	case TYPE_LIST:
		return add_item(field, key, word, err);
	case TYPE_NUMBER:
	case TYPE_SIZE:
	case TYPE_DURATION:
	case TYPE_CPUS:
	case TYPE_MAX:
		break;
	}
	return config_set_number(field, key, word, err);
}

void config_word(const struct config *c, const struct config_key *key, size_t index,
		 struct buf *out)
{
	const void *field = (const char *)c + key->field;
	const struct config_list *list = field;
	const uint64_t *n = field;
	char word[32];

	if (key->type == TYPE_BOOL) {
		buf_puts(out, *(const bool *)field ? "true" : "false");
	} else if (key->type == TYPE_CHOICE) {
		buf_puts(out, key->choices[*n]);
	} else if (key->type == TYPE_LIST) {
		buf_puts(out, list->items[index]);
	} else if (key->type == TYPE_TEXT || key->type == TYPE_PATH) {
		buf_puts(out, *(char *const *)field);
	} else if (key->none && *n == 0) {
		buf_puts(out, "none");
	} else {
		config_number_word(key->type, *n, word);
		buf_puts(out, word);
	}
}

/* ---------------------------------------------------------------- defaults */

static bool was_given(const struct config *c, const struct config_key *key)
{
	return c->given[key - config_keys];
}

/* Find a directory of an ordinary user (or of root, on request), in the same way as the
 * library. */
static int config_own_dir(const char *name, char **ret, struct warren_error *err)
{
	const char *state = getenv("WARREN_STATE");

	if (strcmp(name, "run_dir") == 0)
		return user_run_dir(ret, err);
	if (!state)
		return user_state_dir(ret, err);
	*ret = strdup(state);
	return *ret ? 0 : error_errno(err, ENOMEM, "read the configuration");
}

/* Write the default of @key for this user. */
static int default_word(const struct config *c, const struct config_key *key, char **ret,
			struct warren_error *err)
{
	static const char hole[] = "{run_dir}";
	const char *at = strstr(key->value, hole);
	bool state = strcmp(key->name, "state_dir") == 0;
	bool run = strcmp(key->name, "run_dir") == 0;
	int n;

	if ((geteuid() != 0 && (state || run)) || (state && getenv("WARREN_STATE")))
		return config_own_dir(key->name, ret, err);
	if (at)
		n = asprintf(ret, "%.*s%s%s", (int)(at - key->value), key->value,
			     c->run_dir, at + strlen(hole));
	else
		n = asprintf(ret, "%s", key->value);
	if (n >= 0)
		return 0;
	*ret = NULL;
	return error_errno(err, ENOMEM, "read the configuration");
}

/* Defaults that refer to other keys (@holes) come after those that do not. */
static int set_defaults(struct config *c, bool holes, struct warren_error *err)
{
	for (size_t i = 0; i < config_n_keys; i++) {
		const struct config_key *key = &config_keys[i];
		AUTO_FREE char *word = NULL;
		int r;

		if (was_given(c, key) || !strchr(key->value, '{') == holes)
			continue;
		r = default_word(c, key, &word, err);
		if (r == 0 && (word[0] || key->type != TYPE_LIST))
			r = config_set(c, key, word, err);
		if (r < 0)
			return error_wrap(err, "the default of '%s'", key->name);
	}
	return 0;
}

/* ------------------------------------------------------------------- rules */

/* A default must not exceed the maximum. */
#define WITHIN_MAX(id, field, life, unit, word, ...) { "defaults." word, "max." word },

static const struct {
	const char *one, *limit;
} within[] = { { "defaults.ttl", "max.ttl" },
	       { "journal.default", "journal.max" },
	       { "journal.max", "journal.total" },
	       SPEC_LIMITS(WITHIN_MAX) };

static uint64_t number_of(const struct config *c, const char *name)
{
	const struct config_key *key = config_find(name, strlen(name));

	return *(const uint64_t *)((const char *)c + key->field);
}

static int check_within(struct config *c, struct warren_error *err)
{
	/* If there is a maximum age and no default, the maximum is the default. */
	if (c->defaults.ttl_ms == 0)
		c->defaults.ttl_ms = c->max.ttl_ms;
	for (size_t i = 0; i < ARRAY_SIZE(within); i++) {
		uint64_t limit = number_of(c, within[i].limit);

		if (limit && number_of(c, within[i].one) > limit)
			return error_set(err, EINVAL, "%s is more than %s", within[i].one,
					 within[i].limit);
	}
	return 0;
}

static int check_listeners(const struct config *c, struct warren_error *err)
{
	bool tls = false;

	if (c->listen.n == 0)
		return error_set(err, EINVAL, "listen: there is no address to listen on");
	for (size_t i = 0; i < c->listen.n; i++)
		tls = tls || strncmp(c->listen.items[i], "tls:", 4) == 0;
	if (!c->tls_cert[0] != !c->tls_key[0])
		return error_set(err, EINVAL,
				 "tls.cert and tls.key must be given together");
	if (tls && !c->tls_cert[0])
		return error_set(err, EINVAL,
				 "listen: a tls: listener needs tls.cert and tls.key");
	return 0;
}

static int check_shared(struct config *c, struct warren_error *err)
{
	const struct config_key *host = config_find("host_image", 10);
	const struct config_key *image = config_find("image", 5);

	if (c->shared && c->host_image && was_given(c, host))
		return error_set(err, EINVAL,
				 "host_image: it shows this machine's files, so it "
				 "cannot be used on a shared machine (shared: true)");
	if (c->shared)
		c->host_image = false;
	if (c->shared && !was_given(c, config_find("min_tier", 8)))
		c->min_tier = TIER_NAMESPACE;
	if (c->host_image || strcmp(c->image, "host") != 0)
		return 0;
	if (was_given(c, image))
		return error_set(err, EINVAL,
				 "image: 'host' is the default, but is not allowed");
	c->image[0] = '\0';
	return 0;
}

/* Directories must not be empty. (For other paths, an empty path means none.) */
static int config_check_dirs(const struct config *c, struct warren_error *err)
{
	if (!c->state_dir[0] || !c->run_dir[0])
		return error_set(err, EINVAL, "%s is empty (example: %s)",
				 c->state_dir[0] ? "run_dir" : "state_dir",
				 c->state_dir[0] ? "/run/warren" : "/var/lib/warren");
	return 0;
}

int config_finish(struct config *c, struct warren_error *err)
{
	const struct config_key *user = config_find("user", 4);
	int r = set_defaults(c, false, err);

	if (r == 0)
		r = set_defaults(c, true, err);
	/* Only root can become another user. */
	if (r == 0 && geteuid() != 0 && !was_given(c, user))
		c->user[0] = '\0';
	if (r == 0)
		r = config_check_dirs(c, err);
	if (r == 0)
		r = check_listeners(c, err);
	if (r == 0)
		r = check_within(c, err);
	if (r == 0)
		r = check_shared(c, err);
	if (r == 0)
		r = config_add_backends(c, err);
	if (r == 0)
		r = config_check_backends(c, was_given(c, config_find("backend", 7)),
					  err);
	return r;
}
