/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unified_binary.c - the contents of binary files in a patch, as git has them
 *
 * Each side is compressed and written in base 85: five characters for four bytes, in
 * lines of up to 52 bytes. The first character of a line says how many: 'A' to 'Z' mean 1
 * to 26, and 'a' to 'z' 27 to 52.
 */
#include <errno.h>
#include <zlib.h>

#include "textdiff/base85.h"
#include "textdiff/unified_internal.h"

static void binary_put_line(struct buf *out, const uint8_t *p, size_t n)
{
	char line[BASE85_LINE_MAX + 2];
	size_t len = base85_encode_line(p, n, line);

	line[len++] = '\n';
	buf_add(out, line, len);
}

static int binary_put(struct buf *out, struct text t, struct warren_error *err)
{
	uLongf size = compressBound((uLong)t.len);
	AUTO_FREE uint8_t *packed = malloc(size);
	int r;

	if (!packed)
		return error_errno(err, ENOMEM, "compress %zu bytes", t.len);
	r = compress2(packed, &size, (const Bytef *)(t.data ? t.data : ""), (uLong)t.len,
		      Z_DEFAULT_COMPRESSION);
	if (r != Z_OK)
		return error_set(err, ENOMEM, "compress %zu bytes: %s", t.len, zError(r));
	buf_printf(out, "literal %zu\n", t.len);
	for (size_t i = 0; i < size; i += BASE85_BYTES_MAX)
		binary_put_line(out, packed + i,
				size - i < BASE85_BYTES_MAX ? size - i
							    : BASE85_BYTES_MAX);
	buf_puts(out, "\n");
	return 0;
}

int unified_binary(struct buf *out, struct text old, struct text new,
		   struct warren_error *err)
{
	int r;

	buf_puts(out, "GIT binary patch\n");
	r = binary_put(out, new, err);
	return r < 0 ? r : binary_put(out, old, err);
}
