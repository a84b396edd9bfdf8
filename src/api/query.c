/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.c - parse name=value&name=value
 *
 * A parameter that may be repeated gets a separate pass, so that its items are adjacent.
 * Queries are short, and such parameters are few.
 */
#include "api/query.h"

#include <errno.h>
#include <string.h>

#include "api/validate.h"
#include "base/percent.h"

#define NAME_MAX_LEN 64

struct pair {
	char name[NAME_MAX_LEN];
	const char *value;
	size_t len;
};

/*
 * Get the next name=value; returns 1, 0 at the end, or an error. Empty pairs ("&&") are
 * skipped.
 */
static int next_pair(const char **text, const char *end, struct pair *ret,
		     struct api_error *err)
{
	const char *at = *text, *stop, *equals;
	ssize_t n;

	while (at < end && *at == '&')
		at++;
	if (at == end)
		return 0;
	stop = memchr(at, '&', (size_t)(end - at));
	stop = stop ? stop : end;
	equals = memchr(at, '=', (size_t)(stop - at));
	n = percent_decode(at, (size_t)((equals ? equals : stop) - at), true, ret->name,
			   sizeof(ret->name));
	if (n == -EINVAL)
		return api_error_set(err, API_ERR_INVALID_REQUEST,
				     "the query is not percent-encoded UTF-8");
	if (n < 0) /* the name is longer than every known name */
		ret->name[NAME_MAX_LEN - 1] = '\0';
	ret->value = equals ? equals + 1 : stop;
	ret->len = (size_t)(stop - ret->value);
	*text = stop;
	return 1;
}

static int query_refuse_unknown(const struct api_op *op, const char *name,
				struct api_error *err)
{
	AUTO_BUF struct buf list = BUF_INIT(4096);

	for (size_t i = 0; i < op->n_query_params; i++)
		buf_printf(&list, "%s%s", i ? ", " : "", op->query_params[i].name);
	(void)api_error_set(err, API_ERR_INVALID_REQUEST,
			    "%s: is not a parameter of this operation; %s%s", name,
			    list.len ? "known: " : "it has none",
			    list.len ? list.data : "");
	api_error_text(err, "parameter", "%s", name);
	return -EBADMSG;
}

static int find_param(const struct api_op *op, const char *name)
{
	for (size_t i = 0; i < op->n_query_params; i++)
		if (strcmp(op->query_params[i].name, name) == 0)
			return (int)i;
	return -1;
}

/* Decode and check the value of @pair. */
static int query_take(const struct api_param *p, const struct api_schema *schema,
		      const struct pair *pair, struct api_query *q, struct api_item *ret,
		      struct api_error *err)
{
	char *out = q->text + q->used;
	ssize_t n = percent_decode(pair->value, pair->len, true, out, q->size - q->used);

	if (n < 0)
		return api_error_set(err, API_ERR_INVALID_REQUEST,
				     n == -EINVAL ? "%s: is not percent-encoded UTF-8"
						  : "%s: the query is too long",
				     p->name);
	q->used += (size_t)n + 1;
	ret->text = out;
	return validate_text(schema, p->name, out, &ret->number, err);
}

static int refuse_param(const struct api_param *p, const char *why, struct api_error *err)
{
	(void)api_error_set(err, API_ERR_INVALID_REQUEST, "%s: %s", p->name, why);
	api_error_text(err, "parameter", "%s", p->name);
	return -EBADMSG;
}

/* Read every value of @p, which may be given several times. */
static int read_items(const struct api_param *p, const char *text, const char *end,
		      struct api_query *q, struct api_value *v, struct api_error *err)
{
	struct pair pair;
	int r;

	v->items = &q->items[q->n_items];
	while ((r = next_pair(&text, end, &pair, err)) > 0) {
		if (strcmp(pair.name, p->name) != 0)
			continue;
		if (v->n == p->schema->max_len || q->n_items == q->max_items)
			return refuse_param(p, "is given too many times", err);
		r = query_take(p, p->schema->items, &pair, q, &v->items[v->n], err);
		if (r < 0)
			return r;
		v->n++;
		q->n_items++;
	}
	v->given = v->n > 0;
	return r;
}

static int read_once(const struct api_param *p, const struct pair *pair,
		     struct api_query *q, struct api_value *v, struct api_error *err)
{
	struct api_item item;
	int r;

	if (v->given)
		return refuse_param(p, "is given twice", err);
	r = query_take(p, p->schema, pair, q, &item, err);
	*v = (struct api_value){ .given = true,
				 .number = item.number,
				 .text = item.text };
	return r;
}

/*
 * Set defaults for omitted parameters, and refuse the query if a required one is missing.
 */
static int fill_in(const struct api_op *op, struct api_query *q, struct api_error *err)
{
	for (size_t i = 0; i < op->n_query_params; i++) {
		const struct api_param *p = &op->query_params[i];

		if (q->v[i].given)
			continue;
		if (p->required)
			return refuse_param(p, "is missing", err);
		q->v[i].number = p->schema->fallback;
		q->v[i].text = p->schema->fallback_text;
	}
	return 0;
}

/* Each item takes at least one byte and a separator. */
static size_t items_of(size_t len)
{
	size_t n = (len + 1) / 2;

	return n < QUERY_ITEMS_MAX ? n : QUERY_ITEMS_MAX;
}

/*
 * A decoded value is not longer than before, and its NUL fits where the name or '=' was.
 */
static size_t query_text_of(size_t len)
{
	return len < QUERY_TEXT_MAX ? len : QUERY_TEXT_MAX;
}

size_t query_room(size_t len)
{
	return items_of(len) * sizeof(struct api_item) + query_text_of(len);
}

int query_read(const struct api_op *op, const char *text, size_t len, void *room,
	       struct api_query *ret, struct api_error *err)
{
	const char *end = text + len, *at = text;
	struct pair pair;
	int r;

	*ret = (struct api_query){ .items = room,
				   .max_items = items_of(len),
				   .text = (char *)room +
					   items_of(len) * sizeof(struct api_item),
				   .size = query_text_of(len) };
	while (len > 0 && (r = next_pair(&at, end, &pair, err)) != 0) {
		int i = r < 0 ? -1 : find_param(op, pair.name);
		const struct api_param *p = i < 0 ? NULL : &op->query_params[i];
		struct api_value *v = i < 0 ? NULL : &ret->v[i];

		if (r < 0)
			return r;
		if (!p)
			return query_refuse_unknown(op, pair.name, err);
		if (p->schema->types != API_ARRAY)
			r = read_once(p, &pair, ret, v, err);
		else if (!v->given)
			r = read_items(p, text, end, ret, v, err);
		if (r < 0)
			return r;
	}
	return fill_in(op, ret, err);
}
