/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-tar-entry.c - an archive with one file, in one piece and in several
 *
 * The file is the same wherever the data is split, and an archive that is written can be
 * read.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "shim/docker/tar_entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take(const char *data, size_t size, size_t cut, struct entry *e,
		struct buf *out)
{
	for (size_t at = 0; at < size;) {
		size_t n = cut < size - at ? cut : size - at, used = 0, piece = 0;
		int r = entry_take(e, data + at, n, &used, &piece);

		if (r < 0)
			return r;
		assert(used > 0 && used <= n && piece <= used);
		buf_add(out, data + at + used - piece, piece);
		at += used;
	}
	return 0;
}

static void check_cuts(const char *data, size_t size)
{
	AUTO_BUF struct buf whole = BUF_INIT(1U << 22), cut = BUF_INIT(1U << 22);
	static struct entry a, b;
	int r, s;

	entry_init(&a);
	entry_init(&b);
	r = take(data, size, size + 1, &a, &whole);
	s = take(data, size, 7, &b, &cut);
	assert(r == s);
	if (r == 0) {
		assert(a.state == b.state && a.type == b.type && a.left == b.left);
		assert(strcmp(a.link, b.link) == 0);
		assert(whole.len == cut.len);
		assert(whole.len == 0 || memcmp(whole.data, cut.data, whole.len) == 0);
	}
	entry_done(&a);
	entry_done(&b);
}

static void check_own(const char *data, size_t size)
{
	AUTO_BUF struct buf made = BUF_INIT(1U << 22), back = BUF_INIT(1U << 22);
	static const char zeros[2048];
	static struct entry e;
	char name[256] = "n";

	(void)memset(name, 'n', size % 255 + 1);
	assert(entry_write(&made, name, size, 0644, (uint32_t)size * 65537, 7));
	buf_add(&made, data, size);
	buf_add(&made, zeros, entry_tail(size));
	entry_init(&e);
	assert(take(made.data, made.len, 100, &e, &back) == 0);
	assert(e.state == ENTRY_END && e.type == '0' && back.len == size);
	assert(size == 0 || memcmp(back.data, data, size) == 0);
	entry_done(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 1U << 20)
		return 0;
	check_cuts((const char *)data, size);
	check_own((const char *)data, size);
	return 0;
}
