/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-text.c - any bytes as text in any encoding, and as terminal output */
#include <assert.h>
#include <stdint.h>

#include "api/swerex/codec.h"
#include "api/swerex/pyrepr.h"
#include "base/utf8.h"
#include "service/session/expect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const encodings[] = { "utf-8",     "ascii",     "latin-1", "cp1252",
					 "utf-16",    "utf-16-be", "utf-32",  "utf-32-be",
					 "utf-8-sig", "no such" };
static const char *const errors[] = { "strict", "ignore", "replace", "backslashreplace",
				      "no such" };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;
	AUTO_BUF struct buf out = BUF_INIT(1U << 24), repr = BUF_INIT(1U << 24),
			    plain = BUF_INIT(1U << 24);
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (size == 0 || size > 1U << 16)
		return 0;
	r = codec_decode(encodings[data[0] % ARRAY_SIZE(encodings)],
			 errors[data[0] / 16 % ARRAY_SIZE(errors)], text, size - 1, &out,
			 &err);
	assert(r == 0 || (r == -err.code && err.msg[0]));
	assert(out.len == 0 || utf8_valid(out.data, out.len));
	python_repr(&repr, text, size - 1);
	assert(utf8_valid(repr.data, repr.len));
	expect_plain(&plain, text, size - 1);
	assert(plain.len <= size - 1);
	return 0;
}
