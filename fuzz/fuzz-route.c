/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-route.c - any request line, "METHOD /path?query", is found or refused */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "api/query.h"
#include "api/route.h"
#include "api/v1/ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct api_query query;
	const uint8_t *space = memchr(data, ' ', size);
	const char *path = space ? (const char *)space + 1 : NULL;
	size_t n = space ? (size_t)(data + size - space - 1) : 0;
	const char *mark = space ? memchr(path, '?', n) : NULL;
	size_t len = mark ? (size_t)(mark - path) : n;
	AUTO_FREE char *method =
		space ? strndup((const char *)data, (size_t)(space - data)) : NULL;
	size_t query_len = mark ? n - len - 1 : 0;
	AUTO_FREE char *room = malloc(query_room(query_len));
	struct api_error err = { 0 };
	struct route r;

	if (!method || route_find(&v1_face, method, path, len, &r, &err) < 0) {
		assert(!method || err.message[0]);
		return 0;
	}
	assert(r.op && r.n_params <= r.op->n_path_params);
	assert(!r.rest || (r.rest >= path && r.rest + r.rest_len == path + len));
	if (route_check(&r, &err) < 0)
		assert(err.code == API_ERR_NOT_FOUND);
	if (query_read(r.op, mark ? mark + 1 : NULL, query_len, room, &query, &err) < 0)
		return 0;
	for (size_t i = 0; i < r.op->n_query_params; i++)
		assert(!r.op->query_params[i].required || query.v[i].given);
	return 0;
}
