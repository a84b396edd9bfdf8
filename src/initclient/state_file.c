/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state_file.c - the fields of a durable sandbox's state file, as one table for reading
 * and writing
 */
#include "initclient/state_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/parse.h"
#include "initclient/initclient.h"

#define LIST_MAX PROTO_POINTERS_MAX

static const struct state_field shared[] = {
	{ "id", STATE_ID, 0 },
	{ "nofile", STATE_NUMBER64, offsetof(struct initclient_sandbox, nofile) },
	{ "n_ids", STATE_NUMBER32, offsetof(struct initclient_sandbox, n_ids) },
	{ "groups", STATE_FLAG, offsetof(struct initclient_sandbox, groups) },
	{ "framed", STATE_OPTION, offsetof(struct initclient_sandbox, framed) },
	{ "direct", STATE_OPTION, offsetof(struct initclient_sandbox, direct) },
	{ "paused", STATE_OPTION, offsetof(struct initclient_sandbox, paused) },
	{ "saved", STATE_OPTION, offsetof(struct initclient_sandbox, saved) },
	{ "init_pid", STATE_MAYBE32, offsetof(struct initclient_sandbox, init_pid) },
	{ "init_start", STATE_MAYBE64, offsetof(struct initclient_sandbox, init_start) },
	{ "uid", STATE_NUMBER32, offsetof(struct initclient_sandbox, user.uid) },
	{ "gid", STATE_NUMBER32, offsetof(struct initclient_sandbox, user.gid) },
	{ "group", STATE_GROUP, 0 },
	{ "home", STATE_HOME, 0 },
	{ "workdir", STATE_TEXT, offsetof(struct initclient_sandbox, workdir) },
	{ "hostname", STATE_TEXT, offsetof(struct initclient_sandbox, hostname) },
	{ "image", STATE_MAYBE_TEXT, offsetof(struct initclient_sandbox, image) },
	{ "env", STATE_LIST, offsetof(struct initclient_sandbox, env) },
	{ "entrypoint", STATE_LIST,
	  offsetof(struct initclient_sandbox, base.entrypoint) },
	{ "cmd", STATE_LIST, offsetof(struct initclient_sandbox, base.cmd) },
	{ "enforced", STATE_FORCED, 0 },
};

_Static_assert(ARRAY_SIZE(shared) < STATE_FIELDS_MAX,
	       "a backend needs room for fields of its own");

/* Return the shared fields, then those of the backend; NULL after the last. */
static const struct state_field *field_at(const struct state_table *more, size_t i)
{
	if (i < ARRAY_SIZE(shared))
		return &shared[i];
	i -= ARRAY_SIZE(shared);
	return more && i < more->n ? &more->fields[i] : NULL;
}

/* ------------------------------------------------------------------ writing */

static void state_file_put(struct buf *out, const char *key, const char *value)
{
	buf_puts(out, key);
	buf_puts(out, "=");
	buf_add(out, value, strlen(value) + 1);
}

static void state_file_put_number(struct buf *out, const char *key, uint64_t n)
{
	buf_printf(out, "%s=%" PRIu64, key, n);
	buf_add(out, "", 1);
}

static void state_file_put_list(struct buf *out, const char *key, char *const *list)
{
	for (; list && *list; list++)
		state_file_put(out, key, *list);
}

static void put_forced(struct buf *out, const char *key,
		       const struct initclient_sandbox *sandbox)
{
	for (size_t i = 0; i < sandbox->base.n_enforced; i++) {
		const struct warren_enforcement *e = &sandbox->base.enforced[i];

		buf_printf(out, "%s=%s %s %s", key, e->enforced ? "on" : "off", e->name,
			   e->detail);
		buf_add(out, "", 1);
	}
}

void state_encode(const struct initclient_sandbox *sandbox,
		  const struct state_table *more, struct buf *out)
{
	const struct state_field *f;

	state_file_put_number(out, "warren-sandbox", STATE_VERSION);
	for (size_t i = 0; (f = field_at(more, i)); i++) {
		const char *p = (const char *)sandbox + f->at;

		switch (f->kind) {
		case STATE_ID:
			state_file_put(out, f->key, sandbox->base.id);
			break;
		case STATE_NUMBER32:
			state_file_put_number(out, f->key,
					      *(const uint32_t *)(const void *)p);
			break;
		case STATE_NUMBER64:
			state_file_put_number(out, f->key,
					      *(const uint64_t *)(const void *)p);
			break;
		case STATE_MAYBE32:
			if (*(const uint32_t *)(const void *)p)
				state_file_put_number(out, f->key,
						      *(const uint32_t *)(const void *)p);
			break;
		case STATE_MAYBE64:
			if (*(const uint64_t *)(const void *)p)
				state_file_put_number(out, f->key,
						      *(const uint64_t *)(const void *)p);
			break;
		case STATE_FLAG:
			state_file_put_number(out, f->key, *(const bool *)p);
			break;
		case STATE_OPTION:
			if (*(const bool *)p)
				state_file_put_number(out, f->key, 1);
			break;
		case STATE_MAYBE_TEXT:
			if (*(char *const *)(const void *)p)
				state_file_put(out, f->key,
					       *(char *const *)(const void *)p);
			break;
		case STATE_TEXT:
			state_file_put(out, f->key, *(char *const *)(const void *)p);
			break;
		case STATE_LIST:
			state_file_put_list(out, f->key,
					    *(char **const *)(const void *)p);
			break;
		case STATE_HOME:
			state_file_put(out, f->key, sandbox->user.home);
			break;
		case STATE_GROUP:
			for (size_t k = 0; k < sandbox->user.n_groups; k++)
				state_file_put_number(out, f->key,
						      sandbox->user.groups[k]);
			break;
		case STATE_FORCED:
			put_forced(out, f->key, sandbox);
			break;
		}
	}
	state_file_put(out, "end", "");
}

/* ------------------------------------------------------------------ reading */

static int state_file_bad(struct warren_error *err, const char *key, const char *why)
{
	return error_set(err, EINVAL, "its state file has '%.32s', which is %s", key,
			 why);
}

/* A list grows by one entry; its memory doubles at each power of two. */
static int state_file_append(char ***list, const char *value)
{
	size_t n = 0;
	char **more = *list;

	while (more && more[n])
		n++;
	if (n >= LIST_MAX)
		return -E2BIG;
	if ((n & (n + 1)) == 0) {
		more = realloc(*list, (2 * n + 2) * sizeof(**list));
		if (!more)
			return -ENOMEM;
		*list = more;
	}
	more[n + 1] = NULL;
	more[n] = strdup(value);
	return more[n] ? 0 : -ENOMEM;
}

static int take_number(const struct state_field *f, char *to, const char *value,
		       struct warren_error *err)
{
	bool flag = f->kind == STATE_FLAG || f->kind == STATE_OPTION;
	bool narrow = f->kind == STATE_NUMBER32 || f->kind == STATE_MAYBE32;
	uint64_t max = narrow ? UINT32_MAX : flag ? 1 : UINT64_MAX;
	uint64_t n = 0;
	int r = parse_u64(value, max, &n, err);

	if (r < 0)
		return error_wrap(err, "its state file has '%s'", f->key);
	if (flag)
		*(bool *)to = n == 1;
	else if (narrow)
		*(uint32_t *)(void *)to = (uint32_t)n;
	else
		*(uint64_t *)(void *)to = n;
	return 0;
}

static int take_group(struct initclient_sandbox *sandbox, const char *value,
		      struct warren_error *err)
{
	uint64_t gid = 0;
	int r = parse_u64(value, UINT32_MAX - 1, &gid, err);

	if (r < 0)
		return r;
	if (sandbox->user.n_groups == ARRAY_SIZE(sandbox->user.groups))
		return state_file_bad(err, "group", "given too many times");
	sandbox->user.groups[sandbox->user.n_groups++] = (uint32_t)gid;
	return 0;
}

/* The name is not copied: it points into the text. */
static int take_forced(struct initclient_sandbox *sandbox, char *value,
		       struct warren_error *err)
{
	char *name = strchr(value, ' '), *detail = name ? strchr(name + 1, ' ') : NULL;
	struct warren_enforcement *e = &sandbox->base.enforced[sandbox->base.n_enforced];
	bool on = strncmp(value, "on ", 3) == 0;

	if (!detail || (!on && strncmp(value, "off ", 4) != 0) ||
	    strlen(detail + 1) >= sizeof(e->detail) ||
	    sandbox->base.n_enforced == BACKEND_ENFORCED_MAX)
		return state_file_bad(err, "enforced", "malformed");
	*detail = '\0';
	e->name = name + 1;
	e->enforced = on;
	(void)strcpy(e->detail, detail + 1);
	sandbox->base.n_enforced++;
	return 0;
}

static int state_file_take(struct initclient_sandbox *sandbox,
			   const struct state_field *f, char *value,
			   struct warren_error *err)
{
	char *to = (char *)sandbox + f->at;
	int r;

	switch (f->kind) {
	case STATE_NUMBER32:
	case STATE_NUMBER64:
	case STATE_MAYBE32:
	case STATE_MAYBE64:
	case STATE_FLAG:
	case STATE_OPTION:
		return take_number(f, to, value, err);
	case STATE_TEXT:
	case STATE_MAYBE_TEXT:
		*(char **)(void *)to = strdup(value);
		return *(char **)(void *)to
			       ? 0
			       : error_errno(err, ENOMEM, "read its state file");
	case STATE_LIST:
		r = state_file_append((char ***)(void *)to, value);
		return r < 0 ? error_errno(err, -r, "read its state file") : 0;
	case STATE_HOME:
		if (strlen(value) >= sizeof(sandbox->user.home))
			return state_file_bad(err, f->key, "too long");
		(void)strcpy(sandbox->user.home, value);
		return 0;
	case STATE_GROUP:
		return take_group(sandbox, value, err);
	case STATE_FORCED:
		return take_forced(sandbox, value, err);
	case STATE_ID:
		if (!id_valid(value))
			return state_file_bad(err, f->key, "not an id");
		(void)strcpy(sandbox->base.id, value);
		return 0;
	}
	return -EINVAL;
}

/* Find the field named @key, and its index; NULL: there is none. */
static const struct state_field *state_file_find(const struct state_table *more,
						 const char *key, size_t *ret_i)
{
	const struct state_field *f;

	for (size_t i = 0; i < STATE_FIELDS_MAX && (f = field_at(more, i)); i++) {
		*ret_i = i;
		if (strcmp(f->key, key) == 0)
			return f;
	}
	return NULL;
}

static bool may_repeat(const struct state_field *f)
{
	return f->kind == STATE_LIST || f->kind == STATE_GROUP || f->kind == STATE_FORCED;
}

static bool may_lack(const struct state_field *f)
{
	return may_repeat(f) || f->kind == STATE_OPTION || f->kind == STATE_MAYBE32 ||
	       f->kind == STATE_MAYBE64 || f->kind == STATE_MAYBE_TEXT;
}

/*
 * Get the next "key=value" of @at: return the value, and terminate the key; NULL: there
 * is none.
 */
static char *state_file_next(char **at, const char *end, char **ret_key)
{
	char *key = *at, *stop = memchr(key, '\0', (size_t)(end - key)), *value;

	if (!stop)
		return NULL;
	value = strchr(key, '=');
	if (!value)
		return NULL;
	*value = '\0';
	*ret_key = key;
	*at = stop + 1;
	return value + 1;
}

static int state_file_take_all(struct initclient_sandbox *sandbox,
			       const struct state_table *more, char *at, const char *end,
			       struct warren_error *err)
{
	bool seen[STATE_FIELDS_MAX] = { 0 };
	const struct state_field *f;
	char *key = NULL, *value = state_file_next(&at, end, &key);
	uint64_t version = 0;

	if (!value || strcmp(key, "warren-sandbox") != 0 ||
	    parse_u64(value, UINT32_MAX, &version, err) < 0)
		return error_set(err, EINVAL,
				 "its state file is not a state file of a sandbox");
	if (version != STATE_VERSION)
		return error_set(err, EPROTONOSUPPORT,
				 "its state file has version %ju; this program "
				 "supports version %d",
				 (uintmax_t)version, STATE_VERSION);
	while ((value = state_file_next(&at, end, &key)) && strcmp(key, "end") != 0) {
		size_t i = 0;
		int r;

		f = state_file_find(more, key, &i);
		if (!f)
			return state_file_bad(err, key, "unknown");
		if (seen[i] && !may_repeat(f))
			return state_file_bad(err, key, "given twice");
		seen[i] = true;
		r = state_file_take(sandbox, f, value, err);
		if (r < 0)
			return r;
	}
	if (!value || at != end || *value)
		return error_set(err, EINVAL, "its state file is incomplete");
	for (size_t i = 0; (f = field_at(more, i)); i++)
		if (!seen[i] && !may_lack(f))
			return error_set(err, EINVAL, "its state file lacks '%s'",
					 f->key);
	return 0;
}

int state_parse(struct initclient_sandbox *sandbox, const struct state_table *more,
		char *text, size_t size, struct warren_error *err)
{
	sandbox->state_text = text;
	return state_file_take_all(sandbox, more, text, text + size, err);
}
