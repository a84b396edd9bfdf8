/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.h - the query string of a request, as values
 *
 *	struct api_query q;
 *	void *room = malloc(query_room(len));
 *
 *	r = query_read(op, text, len, room, &q, err);
 *	...
 *	limit = q.v[V1_LIST_SANDBOXES_QUERY_LIMIT].number;
 *
 * A parameter that is unknown, is given twice or does not match its schema is refused by
 * name. Nothing is allocated: texts are in memory that the caller provides, no more than
 * the query needs, because the query of a stream stays in memory as long as its client
 * reads.
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
	struct api_item *items;
	char *text;
	size_t n_items, max_items;
	size_t used, size; /* of @text */
};

/* What query_read() needs for @len bytes of a query. */
size_t query_room(size_t len);

/*
 * @text is the part after '?'; it may be NULL if @len is 0. @room is aligned for a
 * pointer, and must stay as long as @ret is used.
 */
int query_read(const struct api_op *op, const char *text, size_t len, void *room,
	       struct api_query *ret, struct api_error *err) MUST_CHECK;

#endif /* API_QUERY_H */
