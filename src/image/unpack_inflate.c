/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack_inflate.c - the process that decompresses an archive
 *
 * Nearly every layer is compressed with gzip. ISA-L decompresses it twice as fast as
 * zlib, which matters because unpacking mostly waits for this. libarchive decompresses
 * the other formats, with exactly one filter each: the output is not inspected again, so
 * that no archive is decompressed twice.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <isa-l/igzip_lib.h>
#include <string.h>

#include "base/fd.h"
#include "image/unpack_internal.h"

static const struct {
	const char *name;
	const char *magic;
	size_t n;
	int filter; /* ARCHIVE_FILTER_* */
} formats[] = {
	[UNPACK_PLAIN] = { "plain", "", 0, ARCHIVE_FILTER_NONE },
	[UNPACK_GZIP] = { "gzip", "\x1f\x8b\x08", 3, ARCHIVE_FILTER_GZIP },
	[UNPACK_ZSTD] = { "zstd", "\x28\xb5\x2f\xfd", 4, ARCHIVE_FILTER_ZSTD },
	[UNPACK_XZ] = { "xz", "\xfd\x37zXZ\0", 6, ARCHIVE_FILTER_XZ },
	[UNPACK_BZIP2] = { "bzip2", "BZh", 3, ARCHIVE_FILTER_BZIP2 },
};

_Static_assert(ARRAY_SIZE(formats) == UNPACK_FORMATS, "a format has no name");

enum unpack_format unpack_sniff(const void *data, size_t n)
{
	for (size_t i = UNPACK_FORMATS - 1; i > UNPACK_PLAIN; i--)
		if (n >= formats[i].n &&
		    memcmp(data, formats[i].magic, formats[i].n) == 0)
			return (enum unpack_format)i;
	return UNPACK_PLAIN;
}

struct inflater {
	int in, out;
	enum unpack_format format;
	size_t n; /* in block */
	uint8_t block[UNPACK_BLOCK], plain[UNPACK_BLOCK];
};

/* Read the next bytes. Return their number, 0 at the end, or -errno. */
static ssize_t unpack_inflate_fill(struct inflater *f)
{
	ssize_t n;

	do
		n = read(f->in, f->block, sizeof(f->block));
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static int unpack_inflate_corrupt(const struct inflater *f, const char *why,
				  struct warren_error *err)
{
	return error_set(err, EBADMSG, "the %s data is %s", formats[f->format].name, why);
}

static int unpack_inflate_unreadable(ssize_t r, struct warren_error *err)
{
	return error_errno(err, (int)-r, "read the archive");
}

static int unpack_inflate_put(const struct inflater *f, const void *data, size_t n,
			      struct warren_error *err)
{
	int r = fd_write_all(f->out, data, n);

	return r < 0 ? error_errno(err, -r, "pass on the decompressed data") : 0;
}

static int copy_plain(struct inflater *f, struct warren_error *err)
{
	ssize_t n = (ssize_t)f->n;
	int r = 0;

	while (r == 0 && n > 0) {
		r = unpack_inflate_put(f, f->block, (size_t)n, err);
		if (r == 0)
			n = unpack_inflate_fill(f);
	}
	return r == 0 && n < 0 ? unpack_inflate_unreadable(n, err) : r;
}

/* ---------------------------------------------------------------------- gzip */

/* Read more input if none is left. Return 0 at its end. */
static ssize_t gzip_more(struct inflater *f, struct inflate_state *s)
{
	ssize_t n;

	if (s->avail_in > 0)
		return 1;
	n = unpack_inflate_fill(f);
	s->next_in = f->block;
	s->avail_in = n > 0 ? (uint32_t)n : 0;
	return n;
}

/* Decompress one member, from its header to its checksum. */
static int gzip_member(struct inflater *f, struct inflate_state *s,
		       struct warren_error *err)
{
	while (s->block_state != ISAL_BLOCK_FINISH) {
		ssize_t n = gzip_more(f, s);
		uint32_t before = s->avail_in;
		size_t made;
		int r;

		if (n < 0)
			return unpack_inflate_unreadable(n, err);
		s->next_out = f->plain;
		s->avail_out = sizeof(f->plain);
		r = isal_inflate(s);
		made = sizeof(f->plain) - s->avail_out;
		if (r < 0 || r == ISAL_NEED_DICT)
			return unpack_inflate_corrupt(f, "corrupt", err);
		if (made > 0) {
			r = unpack_inflate_put(f, f->plain, made, err);
			if (r < 0)
				return r;
		} else if (s->avail_in == before && s->block_state != ISAL_BLOCK_FINISH) {
			/* The decompressor made no progress. */
			return unpack_inflate_corrupt(f, n == 0 ? "truncated" : "corrupt",
						      err);
		}
	}
	return 0;
}

/* Decompress all members; only zeros may follow, which some tools add as padding. */
static int unpack_inflate_gzip(struct inflater *f, struct warren_error *err)
{
	static struct inflate_state s;
	bool padding = false;
	ssize_t n;
	int r = 0;

	isal_inflate_init(&s);
	s.next_in = f->block;
	s.avail_in = (uint32_t)f->n;
	while (r == 0 && (n = gzip_more(f, &s)) != 0) {
		if (n < 0)
			return unpack_inflate_unreadable(n, err);
		if (*s.next_in == 0) {
			padding = true;
			s.next_in++;
			s.avail_in--;
		} else if (padding || *s.next_in != 0x1f) {
			return unpack_inflate_corrupt(f, "followed by other data", err);
		} else {
			isal_inflate_reset(&s);
			s.crc_flag = ISAL_GZIP;
			r = gzip_member(f, &s, err);
		}
	}
	return r;
}

/* ---------------------------------------------------------------- other formats */

static la_ssize_t unpack_inflate_feed(struct archive *a, void *ctx, const void **ret)
{
	struct inflater *f = ctx;
	ssize_t n = (ssize_t)f->n;

	/* The bytes that were read to detect the format come first. */
	f->n = 0;
	if (n == 0)
		n = unpack_inflate_fill(f);
	if (n < 0) {
		archive_set_error(a, (int)-n, "%s", strerror((int)-n));
		return ARCHIVE_FATAL;
	}
	*ret = f->block;
	return n;
}

static int filter_failed(const struct inflater *f, struct archive *a,
			 struct warren_error *err)
{
	const char *why = archive_error_string(a);
	int code = archive_errno(a);

	return error_set(err, code == ENOMEM ? ENOMEM : EBADMSG, "the %s data: %s",
			 formats[f->format].name, why ? why : "corrupt");
}

static int unpack_inflate_filter(struct inflater *f, struct archive *a,
				 struct warren_error *err)
{
	struct archive_entry *entry;
	const void *data;
	size_t n;
	la_int64_t offset;
	int r, q = 0;

	if (archive_read_support_format_raw(a) != ARCHIVE_OK ||
	    archive_read_append_filter(a, formats[f->format].filter) != ARCHIVE_OK ||
	    archive_read_open(a, f, NULL, unpack_inflate_feed, NULL) != ARCHIVE_OK)
		return filter_failed(f, a, err);
	r = archive_read_next_header(a, &entry);
	/* The compressed data is empty: let the reader report it. */
	if (r == ARCHIVE_EOF)
		return 0;
	if (r != ARCHIVE_OK)
		return filter_failed(f, a, err);
	while (q == 0 &&
	       (r = archive_read_data_block(a, &data, &n, &offset)) == ARCHIVE_OK)
		q = unpack_inflate_put(f, data, n, err);
	if (q == 0 && r != ARCHIVE_EOF)
		q = filter_failed(f, a, err);
	return q;
}

static int unpack_inflate_others(struct inflater *f, struct warren_error *err)
{
	struct archive *a = archive_read_new();
	int r;

	if (!a)
		return error_errno(err, ENOMEM, "decompress");
	r = unpack_inflate_filter(f, a, err);
	(void)archive_read_free(a);
	return r;
}

static int (*const workers[])(struct inflater *f, struct warren_error *err) = {
	[UNPACK_PLAIN] = copy_plain,
	[UNPACK_GZIP] = unpack_inflate_gzip,
	[UNPACK_ZSTD] = unpack_inflate_others,
	[UNPACK_XZ] = unpack_inflate_others,
	[UNPACK_BZIP2] = unpack_inflate_others,
};

_Static_assert(ARRAY_SIZE(workers) == UNPACK_FORMATS, "a format has no worker");

int unpack_inflate(int in, int out, struct warren_error *err)
{
	static struct inflater f;

	f.in = in;
	f.out = out;
	f.n = 0;
	/* Read enough from a pipe to detect the format, if there is that much. */
	while (f.n < UNPACK_SNIFF) {
		ssize_t n = read(in, f.block + f.n, sizeof(f.block) - f.n);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return unpack_inflate_unreadable(-errno, err);
		if (n == 0)
			break;
		f.n += (size_t)n;
	}
	f.format = unpack_sniff(f.block, f.n);
	return workers[f.format](&f, err);
}
