/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-stream-demux.c - any data of a hijacked connection, in one piece and in several
 *
 * The output is the same wherever the data is split, and nothing is read beyond its end.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "shim/docker/stream_demux.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Write the bytes of both streams, each after the number of its stream; invalid frames
 * end the output. */
static void take(const char *data, size_t size, size_t cut, struct buf *out)
{
	struct frames f = { 0 };

	for (size_t from = 0; from < size;) {
		size_t n = cut < size - from ? cut : size - from;

		for (size_t at = 0; at < n;) {
			size_t used = 0, piece = 0;

			if (frames_next(&f, data + from + at, n - at, &used, &piece) < 0)
				return;
			assert(used <= n - at && piece <= used);
			assert(piece > 0 || used == n - at);
			assert(piece == 0 || f.stream == 1 || f.stream == 2);
			for (size_t i = used - piece; i < used; i++) {
				char pair[2] = { (char)f.stream, data[from + at + i] };

				buf_add(out, pair, 2);
			}
			at += used;
		}
		from += n;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf whole = BUF_INIT(1U << 22), cut = BUF_INIT(1U << 22);
	const char *text = (const char *)data;
	int status = 0;
	ssize_t head = frame_answer(text, size, &status);

	assert(head <= (ssize_t)size);
	assert(head <= 0 || (status >= 0 && status <= 999));
	if (head < 0)
		head = 0;
	take(text + head, size - (size_t)head, size + 1, &whole);
	take(text + head, size - (size_t)head, 1, &cut);
	assert(whole.len == cut.len);
	assert(whole.len == 0 || memcmp(whole.data, cut.data, whole.len) == 0);
	return 0;
}
