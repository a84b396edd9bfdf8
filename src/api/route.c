/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route.c - walk down the tree of paths, one segment at a time
 *
 * A word takes precedence over a parameter. The search never goes back, so the paths of
 * an API must not require that. Empty segments, "." and ".." are ordinary segments, which
 * match no path. Nothing is normalised, so no two programs can interpret a path
 * differently.
 */
#include "api/route.h"

#include <errno.h>
#include <string.h>

#include "api/validate.h"
#include "base/percent.h"

/*
 * HEAD is treated as GET; the other known methods are for operations that accept any
 * method.
 */
static const struct {
	const char *name;
	enum api_method method;
} methods[] = {
	{ "GET", API_GET },
	{ "HEAD", API_GET },
	{ "POST", API_POST },
	{ "PUT", API_PUT },
	{ "PATCH", API_PATCH },
	{ "DELETE", API_DELETE },
	{ "OPTIONS", API_METHOD_COUNT },
};

static int not_found(struct api_error *err, const char *path, size_t len)
{
	return api_error_set(err, API_ERR_NOT_FOUND,
			     "there is no '%.*s%s' in this API: /docs lists its paths",
			     (int)(len < 200 ? len : 200), path, len < 200 ? "" : "...");
}

/* Find a word among the children of @node; 0: none. */
static size_t find_word(const struct api_node *nodes, const struct api_node *node,
			const char *word, size_t len)
{
	size_t low = node->first, high = (size_t)node->first + node->n;

	while (low < high) {
		size_t middle = (low + high) / 2;
		int c = strcmp(word, nodes[middle].word);

		if (c == 0)
			return nodes[middle].len == len ? middle : 0;
		if (c < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return 0;
}

/* Return the node below @node for a segment, which is a parameter unless it is a known
 * word. */
static const struct api_node *route_descend(const struct api_face *face,
					    const struct api_node *node,
					    const char *segment, size_t len, size_t *used,
					    struct route *r, struct api_error *err)
{
	char *text = r->text + *used;
	ssize_t n = percent_decode(segment, len, false, text, sizeof(r->text) - *used);
	size_t word;

	if (n == -EINVAL) {
		(void)api_error_set(err, API_ERR_INVALID_REQUEST,
				    "the path is not percent-encoded UTF-8");
		return NULL;
	}
	word = n > 0 ? find_word(face->nodes, node, text, (size_t)n) : 0;
	if (word)
		return &face->nodes[word];
	if (n <= 0 || !node->param || r->n_params == ROUTE_PARAMS_MAX) {
		(void)not_found(err, segment, len);
		return NULL;
	}
	r->param[r->n_params++] = text;
	*used += (size_t)n + 1;
	return &face->nodes[node->param];
}

/* Find the operation of @node for @method. */
static int route_choose(const struct api_face *face, const struct api_node *node,
			const char *method, struct route *r, struct api_error *err)
{
	size_t op = 0;

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		if (strcmp(methods[i].name, method) != 0)
			continue;
		if (node->any_method)
			op = node->op[API_GET];
		else if (methods[i].method != API_METHOD_COUNT)
			op = node->op[methods[i].method];
	}
	if (op == 0) {
		(void)api_error_set(err, API_ERR_METHOD_NOT_ALLOWED,
				    "this path accepts %s, not %.20s", node->allow,
				    method);
		api_error_text(err, "allow", "%s", node->allow);
		return -EBADMSG;
	}
	r->op = &face->ops[op - 1];
	r->head = strcmp(method, "HEAD") == 0;
	return 0;
}

static bool takes_rest(const struct api_face *face, const struct api_node *node)
{
	return node->param && face->nodes[node->param].rest;
}

int route_find(const struct api_face *face, const char *method, const char *path,
	       size_t len, struct route *r, struct api_error *err)
{
	const struct api_node *node = face->nodes;
	size_t at = 0, used = 0;

	r->op = NULL;
	r->n_params = 0;
	r->rest = NULL;
	r->rest_len = 0;
	if (len == 0 || path[0] != '/')
		return api_error_set(err, API_ERR_INVALID_REQUEST,
				     "a path must begin with '/'");
	while (at < len && !takes_rest(face, node)) {
		const char *segment = path + at + 1;
		const char *slash = memchr(segment, '/', len - at - 1);
		size_t n = slash ? (size_t)(slash - segment) : len - at - 1;

		node = route_descend(face, node, segment, n, &used, r, err);
		if (!node)
			return err->code == API_ERR_NOT_FOUND ? not_found(err, path, len)
							      : -EBADMSG;
		at += n + 1;
	}
	if (takes_rest(face, node)) {
		node = &face->nodes[node->param];
		r->rest = at < len ? path + at + 1 : path + len;
		r->rest_len = (size_t)(path + len - r->rest);
	}
	return node->allow ? route_choose(face, node, method, r, err)
			   : not_found(err, path, len);
}

int route_check(struct route *r, struct api_error *err)
{
	for (size_t i = 0; i < r->n_params; i++) {
		const struct api_param *p = &r->op->path_params[i];

		if (validate_text(p->schema, p->name, r->param[i], &r->number[i], err) ==
		    0)
			continue;
		err->code = API_ERR_NOT_FOUND;
		return -EBADMSG;
	}
	return 0;
}
