/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-patch.c - any bytes are a patch, or an error; a patch applies to any text or does
 * not */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "textdiff/patch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_hunks(struct patch *p, struct text old)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct buf out = BUF_INIT((size_t)1 << 22);

	for (size_t i = 0; i < p->n && i < 100; i++) {
		size_t parts = patch_split_count(p, i), n = p->n;

		assert(patch_split(p, i, &err) == 0);
		assert(p->n == n + (parts ? parts - 1 : 0));
	}
	if (patch_apply(p, old, &out, &err) < 0)
		assert(err.msg[0]);
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct warren_error err = WARREN_ERROR_INIT;
	const uint8_t *end = size ? memchr(data, 0, size) : NULL;
	size_t n = end ? (size_t)(end - data) : size;
	struct text old = TEXT((const char *)data + n, size - n);
	struct patches p;

	if (patches_parse(TEXT((const char *)data, n), &p, &err) < 0) {
		assert(strncmp(err.msg, "line ", 5) == 0);
		return 0;
	}
	for (size_t i = 0; i < p.n; i++) {
		assert(p.v[i].old_path && p.v[i].new_path && p.v[i].new_path[0] != '/');
		assert(strncmp(p.v[i].new_path, "../", 3) != 0);
		check_hunks(&p.v[i], old);
	}
	patches_done(&p);
	return 0;
}
