/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.h - the query string of a request, as values
 *
 *	struct api_query q;
 *
 *	r = query_read(op, text, len, &q, err);
 *	...
 *	limit = q.v[V1_LIST_SANDBOXES_QUERY_LIMIT].number;
 *
 * A parameter that is not known, is given twice or is not what its schema says is
 * refused by name. Nothing is allocated: texts are in the struct itself.
 */
#ifndef API_QUERY_H
#define API_QUERY_H

#include "api/api.h"
#include "api/errors.h"

#define QUERY_PARAMS_MAX 16
#define QUERY_ITEMS_MAX  64
#define QUERY_TEXT_MAX   8192 /* of all values together, decoded, NULs included */

struct api_item {
	const char *text;
	int64_t number; /* an integer, 0 or 1 of a boolean, which of the words, or 0 */
};

struct api_value {
	bool given;
	int64_t number;   /* as of an item; the default, where it was not given */
	const char *text; /* the default, too; NULL: not given, and there is none */
	size_t n;         /* items, of a parameter that may be given several times, */
	struct api_item *items; /* which are neighbours */
};

struct api_query {
	struct api_value v[QUERY_PARAMS_MAX];
	struct api_item items[QUERY_ITEMS_MAX];
	size_t n_items, used;
	char text[QUERY_TEXT_MAX];
};

/* @text is what stands behind '?'; it may be NULL where @len is 0. */
int query_read(const struct api_op *op, const char *text, size_t len,
	       struct api_query *ret, struct api_error *err) MUST_CHECK;

#endif /* API_QUERY_H */
