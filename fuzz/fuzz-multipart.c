/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-multipart.c - any form gives the same result in one piece and in many */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "api/multipart.h"
#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Write the names and data of all parts. Return 0, or why it is not a form. */
static int take_apart(const char *data, size_t n, size_t step, struct buf *out)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct multipart m;

	assert(multipart_init(&m, "multipart/form-data; boundary=XX", &err) == 0);
	while (n > 0) {
		size_t piece = n < step ? n : step, used = 0, len = 0;
		const char *part = NULL;
		int ev = multipart_take(&m, data, piece, &used, &part, &len, &err);

		if (ev < 0) {
			assert(ev == -EBADMSG && err.msg[0]);
			return ev;
		}
		assert(used <= piece && (used > 0 || ev != MULTIPART_MORE));
		if (ev == MULTIPART_PART)
			buf_printf(out, "<%s %d>", m.name, m.is_file);
		else if (ev == MULTIPART_DATA)
			buf_add(out, part, len);
		else if (ev == MULTIPART_END)
			buf_puts(out, "</>");
		data += used;
		n -= used;
	}
	return multipart_is_whole(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf whole = BUF_INIT(1U << 24), pieces = BUF_INIT(1U << 24);
	size_t step = size > 0 ? 1 + data[0] % 7 : 1;
	int r;

	if (size > 1U << 16)
		return 0;
	r = take_apart((const char *)data, size, size, &whole);
	assert(take_apart((const char *)data, size, step, &pieces) == r);
	if (r >= 0)
		assert(whole.len == pieces.len &&
		       (whole.len == 0 ||
			memcmp(whole.data, pieces.data, whole.len) == 0));
	return 0;
}
