/* SPDX-License-Identifier: Apache-2.0 */
/* patch_binary.c - parse the contents of binary files in a patch */
#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "textdiff/base85.h"
#include "textdiff/patch_internal.h"

static int binary_inflate(struct patch_parser *p, const struct buf *packed, size_t len,
			  struct patch_binary *ret, struct warren_error *err)
{
	AUTO_FREE char *data = malloc(len + 1);
	uLongf size = (uLongf)len;

	if (!data)
		return error_errno(err, ENOMEM, "parse a binary patch");
	if (uncompress((Bytef *)data, &size, (const Bytef *)packed->data,
		       (uLong)packed->len) != Z_OK ||
	    size != len)
		return patch_parse_fail(p, err, "the binary contents are damaged");
	ret->present = true;
	ret->data = TAKE_PTR(data);
	ret->len = len;
	return 0;
}

/* Read "literal 123" or return -1. */
static int64_t binary_length(struct text t)
{
	static const char word[] = "literal ";
	int64_t n = 0;

	if (t.len <= sizeof(word) || memcmp(t.data, word, sizeof(word) - 1) != 0)
		return -1;
	for (size_t i = sizeof(word) - 1; i < t.len && t.data[i] != '\n'; i++) {
		if (t.data[i] < '0' || t.data[i] > '9')
			return -1;
		n = n * 10 + (t.data[i] - '0');
		if (n > (int64_t)TEXT_MAX)
			return -1;
	}
	return n;
}

static int binary_parse_one(struct patch_parser *p, struct patch_binary *ret,
			    struct warren_error *err)
{
	AUTO_BUF struct buf packed = BUF_INIT(2 * TEXT_MAX);
	int64_t len = binary_length(text_line(&p->lines, p->at));

	if (len < 0)
		return patch_parse_fail(p, err,
					"'literal' and a length of at most 64 MiB were "
					"expected (a delta is not supported)");
	for (p->at++; p->at < p->lines.n; p->at++) {
		struct text t = text_line(&p->lines, p->at);
		uint8_t bytes[BASE85_BYTES_MAX];
		int n;

		if (t.len && t.data[t.len - 1] == '\n')
			t.len--;
		if (!t.len)
			break;
		n = t.len > BASE85_LINE_MAX ? -EINVAL
					    : base85_decode_line(t.data, t.len, bytes);
		if (n < 0)
			return patch_parse_fail(p, err, "the line is not in base 85");
		buf_add(&packed, bytes, (size_t)n);
	}
	if (packed.failed || !packed.len)
		return patch_parse_fail(p, err, "the binary contents are too long");
	p->at++;
	return binary_inflate(p, &packed, (size_t)len, ret, err);
}

int patch_parse_binary(struct patch_parser *p, struct patch *f, struct warren_error *err)
{
	int r;

	f->binary = true;
	p->at++;
	if (p->at >= p->lines.n)
		return patch_parse_fail(p, err, "the binary contents are missing");
	r = binary_parse_one(p, &f->forward, err);
	if (r == 0 && p->at < p->lines.n &&
	    binary_length(text_line(&p->lines, p->at)) >= 0)
		r = binary_parse_one(p, &f->reverse, err);
	return r;
}
