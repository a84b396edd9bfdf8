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
 * A parameter that is unknown, repeated or does not match its schema is refused, and the
 * error names it. The functions allocate nothing: the caller provides the memory for
 * texts. It is no larger than the query needs, because the query of a stream stays in
 * memory as long as the client reads.
 */
#ifndef API_QUERY_H
#define API_QUERY_H

#include "api/api.h"
#include "api/errors.h"

#define QUERY_PARAMS_MAX 16
#define QUERY_ITEMS_MAX  64
#define QUERY_TEXT_MAX   8192 /* maximum bytes of all decoded values, including NULs */

struct api_item {
	const char *text;
	int64_t number; /* an integer, a boolean as 0 or 1, the index of the word, or 0 */
};

struct api_value {
	bool given;
	/* As in api_item; the default if the parameter is omitted. */
	int64_t number;
	/* The default if the parameter is omitted; NULL: no default. */
	const char *text;
	size_t n;               /* number of items of a parameter that may be repeated */
	struct api_item *items; /* adjacent in memory */
};

struct api_query {
	struct api_value v[QUERY_PARAMS_MAX];
	struct api_item *items;
	char *text;
	size_t n_items, max_items;
	size_t used, size; /* bytes of @text */
};

/* Get the size of @room that query_read() needs for a query of @len bytes. */
size_t query_room(size_t len);

/*
 * @text is the part after '?'; it may be NULL if @len is 0. @room must be aligned for a
 * pointer, and stay valid as long as @ret is used.
 */
int query_read(const struct api_op *op, const char *text, size_t len, void *room,
	       struct api_query *ret, struct api_error *err) MUST_CHECK;

#endif /* API_QUERY_H */
