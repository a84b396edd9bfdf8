/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - the fields of a durable sandbox, as one table that is written and read by */
#include "backend/native/state.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "backend/native/native.h"
#include "base/parse.h"

#define LIST_MAX PROTO_POINTERS_MAX

enum kind {
	NUMBER32,
	NUMBER64,
	FLAG,
	TEXT,   /* a char * of its own */
	LIST,   /* any number of them */
	HOME,   /* the array in struct native_user */
	GROUP,  /* one of its groups */
	FORCED, /* "on NAME DETAIL" or "off NAME DETAIL" */
	ID,
};

static const struct field {
	const char *key;
	enum kind kind;
	size_t at;
} fields[] = {
	{ "id", ID, 0 },
	{ "slot", NUMBER32, offsetof(struct native_box, slot) },
	{ "base_id", NUMBER32, offsetof(struct native_box, base_id) },
	{ "cgroup", FLAG, offsetof(struct native_box, has_cgroup) },
	{ "memory", NUMBER64, offsetof(struct native_box, limits.memory) },
	{ "cpu_millis", NUMBER64, offsetof(struct native_box, limits.cpu_millis) },
	{ "pids", NUMBER64, offsetof(struct native_box, limits.pids) },
	{ "nofile", NUMBER64, offsetof(struct native_box, nofile) },
	{ "n_ids", NUMBER32, offsetof(struct native_box, n_ids) },
	{ "groups", FLAG, offsetof(struct native_box, groups) },
	{ "uid", NUMBER32, offsetof(struct native_box, user.uid) },
	{ "gid", NUMBER32, offsetof(struct native_box, user.gid) },
	{ "group", GROUP, 0 },
	{ "home", HOME, 0 },
	{ "workdir", TEXT, offsetof(struct native_box, workdir) },
	{ "hostname", TEXT, offsetof(struct native_box, hostname) },
	{ "env", LIST, offsetof(struct native_box, env) },
	{ "entrypoint", LIST, offsetof(struct native_box, base.entrypoint) },
	{ "cmd", LIST, offsetof(struct native_box, base.cmd) },
	{ "enforced", FORCED, 0 },
};

/* ------------------------------------------------------------------ writing */

static void put(struct buf *out, const char *key, const char *value)
{
	buf_puts(out, key);
	buf_puts(out, "=");
	buf_add(out, value, strlen(value) + 1);
}

static void put_number(struct buf *out, const char *key, uint64_t n)
{
	buf_printf(out, "%s=%" PRIu64, key, n);
	buf_add(out, "", 1);
}

static void put_list(struct buf *out, const char *key, char *const *list)
{
	for (; list && *list; list++)
		put(out, key, *list);
}

static void put_forced(struct buf *out, const char *key, const struct native_box *box)
{
	for (size_t i = 0; i < box->base.n_enforced; i++) {
		const struct warren_enforcement *e = &box->base.enforced[i];

		buf_printf(out, "%s=%s %s %s", key, e->enforced ? "on" : "off", e->name,
			   e->detail);
		buf_add(out, "", 1);
	}
}

void state_encode(const struct native_box *box, struct buf *out)
{
	put_number(out, "warren-sandbox", STATE_VERSION);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const struct field *f = &fields[i];
		const char *p = (const char *)box + f->at;

		switch (f->kind) {
		case ID:
			put(out, f->key, box->base.id);
			break;
		case NUMBER32:
			put_number(out, f->key, *(const uint32_t *)(const void *)p);
			break;
		case NUMBER64:
			put_number(out, f->key, *(const uint64_t *)(const void *)p);
			break;
		case FLAG:
			put_number(out, f->key, *(const bool *)p);
			break;
		case TEXT:
			put(out, f->key, *(char *const *)(const void *)p);
			break;
		case LIST:
			put_list(out, f->key, *(char **const *)(const void *)p);
			break;
		case HOME:
			put(out, f->key, box->user.home);
			break;
		case GROUP:
			for (size_t k = 0; k < box->user.n_groups; k++)
				put_number(out, f->key, box->user.groups[k]);
			break;
		case FORCED:
			put_forced(out, f->key, box);
			break;
		}
	}
	put(out, "end", "");
}

/* ------------------------------------------------------------------ reading */

static int bad(struct warren_error *err, const char *key, const char *why)
{
	return error_set(err, EINVAL, "its state has '%.32s', which is %s", key, why);
}

/* Lists grow by one: doubling where the length is a power of two. */
static int append(char ***list, const char *value)
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

static int take_number(const struct field *f, char *to, const char *value,
		       struct warren_error *err)
{
	uint64_t max = f->kind == NUMBER32 ? UINT32_MAX
		       : f->kind == FLAG   ? 1
					   : UINT64_MAX;
	uint64_t n = 0;
	int r = parse_u64(value, max, &n, err);

	if (r < 0)
		return error_wrap(err, "its state has '%s'", f->key);
	if (f->kind == NUMBER64)
		*(uint64_t *)(void *)to = n;
	else if (f->kind == NUMBER32)
		*(uint32_t *)(void *)to = (uint32_t)n;
	else
		*(bool *)to = n == 1;
	return 0;
}

static int take_group(struct native_box *box, const char *value, struct warren_error *err)
{
	uint64_t gid = 0;
	int r = parse_u64(value, UINT32_MAX - 1, &gid, err);

	if (r < 0)
		return r;
	if (box->user.n_groups == ARRAY_SIZE(box->user.groups))
		return bad(err, "group", "there too often");
	box->user.groups[box->user.n_groups++] = (uint32_t)gid;
	return 0;
}

/* The name stays where it is, in the text. */
static int take_forced(struct native_box *box, char *value, struct warren_error *err)
{
	char *name = strchr(value, ' '), *detail = name ? strchr(name + 1, ' ') : NULL;
	struct warren_enforcement *e = &box->base.enforced[box->base.n_enforced];
	bool on = strncmp(value, "on ", 3) == 0;

	if (!detail || (!on && strncmp(value, "off ", 4) != 0) ||
	    strlen(detail + 1) >= sizeof(e->detail) ||
	    box->base.n_enforced == BACKEND_ENFORCED_MAX)
		return bad(err, "enforced", "not of its form");
	*detail = '\0';
	e->name = name + 1;
	e->enforced = on;
	(void)strcpy(e->detail, detail + 1);
	box->base.n_enforced++;
	return 0;
}

static int take(struct native_box *box, const struct field *f, char *value,
		struct warren_error *err)
{
	char *to = (char *)box + f->at;
	int r;

	switch (f->kind) {
	case NUMBER32:
	case NUMBER64:
	case FLAG:
		return take_number(f, to, value, err);
	case TEXT:
		*(char **)(void *)to = strdup(value);
		return *(char **)(void *)to ? 0
					    : error_errno(err, ENOMEM, "read its state");
	case LIST:
		r = append((char ***)(void *)to, value);
		return r < 0 ? error_errno(err, -r, "read its state") : 0;
	case HOME:
		if (strlen(value) >= sizeof(box->user.home))
			return bad(err, f->key, "too long");
		(void)strcpy(box->user.home, value);
		return 0;
	case GROUP:
		return take_group(box, value, err);
	case FORCED:
		return take_forced(box, value, err);
	case ID:
		if (!id_valid(value))
			return bad(err, f->key, "no id");
		(void)strcpy(box->base.id, value);
		return 0;
	}
	return -EINVAL;
}

static const struct field *find(const char *key, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (strncmp(fields[i].key, key, n) == 0 && fields[i].key[n] == '\0')
			return &fields[i];
	return NULL;
}

static bool may_repeat(const struct field *f)
{
	return f->kind == LIST || f->kind == GROUP || f->kind == FORCED;
}

/* The next "key=value" of @at: its value, with the key ended; NULL when there is none. */
static char *next(char **at, const char *end, char **ret_key)
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

static int take_all(struct native_box *box, char *at, const char *end,
		    struct warren_error *err)
{
	bool seen[ARRAY_SIZE(fields)] = { 0 };
	char *key = NULL, *value = next(&at, end, &key);
	uint64_t version = 0;

	if (!value || strcmp(key, "warren-sandbox") != 0 ||
	    parse_u64(value, UINT32_MAX, &version, err) < 0)
		return error_set(err, EINVAL, "its state is no state of a sandbox");
	if (version != STATE_VERSION)
		return error_set(err, EPROTONOSUPPORT,
				 "its state is of version %ju, this program knows %d",
				 (uintmax_t)version, STATE_VERSION);
	while ((value = next(&at, end, &key)) && strcmp(key, "end") != 0) {
		const struct field *f = find(key, strlen(key));
		int r;

		if (!f)
			return bad(err, key, "unknown");
		if (seen[f - fields] && !may_repeat(f))
			return bad(err, key, "there twice");
		seen[f - fields] = true;
		r = take(box, f, value, err);
		if (r < 0)
			return r;
	}
	if (!value || at != end || *value)
		return error_set(err, EINVAL, "its state has no end");
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (!seen[i] && !may_repeat(&fields[i]))
			return error_set(err, EINVAL, "its state lacks '%s'",
					 fields[i].key);
	return 0;
}

int state_parse(struct native_box *box, char *text, size_t size, struct warren_error *err)
{
	box->state_text = text;
	return take_all(box, text, text + size, err);
}
