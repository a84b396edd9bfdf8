/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zip.c - convert entries of a zip archive into those of a tar archive
 *
 * Each entry is a header of 30 bytes, its name, extra fields, and the data. The central
 * directory follows the last entry; when it begins, the tar archive is complete. Headers
 * are written through `pending`, data directly from the input.
 */
#include "archive/zip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <zlib.h>

#include "archive/tar.h"
#include "base/buf.h"

#define HEADER       30U
#define SIG_ENTRY    0x04034b50U
#define SIG_LIST     0x02014b50U
#define SIG_END      0x06054b50U
#define SIG_END_64   0x06064b50U
#define FLAG_CRYPT   (1U << 0)
#define FLAG_AFTER   (1U << 3) /* the sizes follow the data */
#define FLAG_STRONG  (1U << 6)
#define METHOD_STORE 0
#define METHOD_FLATE 8
#define EXTRA_64     1
#define LATER        UINT32_MAX /* the size is in the extra field */

struct zip {
	enum {
		ZIP_AT_HEADER,
		ZIP_AT_NAME, /* the name and the extra fields */
		ZIP_AT_DATA,
		ZIP_AT_END,
	} state;
	struct buf head; /* the received part of header, name and extra fields */
	struct buf pending;
	size_t sent; /* number of bytes of it that were sent */
	unsigned method;
	uint32_t sum, want_sum;
	uint64_t packed, left; /* number of bytes of compressed data and of output that
				  are still expected */
	z_stream z;
	bool inflating;
	uint64_t size;
};

static uint32_t zip_le(const char *p, size_t n)
{
	uint32_t v = 0;

	while (n-- > 0)
		v = v << 8 | (unsigned char)p[n];
	return v;
}

static uint64_t zip_le64(const char *p)
{
	return (uint64_t)zip_le(p + 4, 4) << 32 | zip_le(p, 4);
}

struct zip *zip_new(void)
{
	struct zip *z = calloc(1, sizeof(*z));

	if (!z)
		return NULL;
	z->head = (struct buf)BUF_INIT(HEADER + 2 * 65536);
	z->pending = (struct buf)BUF_INIT(1U << 20);
	return z;
}

static void stop_inflating(struct zip *z)
{
	if (z->inflating)
		(void)inflateEnd(&z->z);
	z->inflating = false;
}

struct zip *zip_free(struct zip *z)
{
	if (!z)
		return NULL;
	stop_inflating(z);
	buf_done(&z->head);
	buf_done(&z->pending);
	free(z);
	return NULL;
}

bool zip_is_whole(const struct zip *z)
{
	return z->state == ZIP_AT_END && z->sent == z->pending.len;
}

static int zip_broken(const char *what, struct warren_error *err)
{
	return error_set(err, EBADMSG, "the archive is damaged: %s", what);
}

/* Collect up to @want bytes of the header. Return true if they are complete. */
static bool zip_collect(struct zip *z, size_t want, const char *data, size_t n,
			size_t *used)
{
	size_t lack = want - z->head.len;

	*used = n < lack ? n : lack;
	buf_add(&z->head, data, *used);
	return z->head.len == want;
}

/* Read 64-bit sizes from the extra field, in the order of the fields that refer to
 * them. */
static int zip_read_extra(struct zip *z, const char *p, size_t n,
			  struct warren_error *err)
{
	while (n >= 4) {
		size_t len = zip_le(p + 2, 2);

		if (len > n - 4)
			return zip_broken("an extra field is too long", err);
		if (zip_le(p, 2) == EXTRA_64) {
			const char *q = p + 4;

			if (z->size == LATER && len >= 8) {
				z->size = zip_le64(q);
				q += 8;
				len -= 8;
			}
			if (z->packed == LATER && len >= 8)
				z->packed = zip_le64(q);
			return 0;
		}
		p += 4 + len;
		n -= 4 + len;
	}
	return 0;
}

static int begin_data(struct zip *z, struct warren_error *err)
{
	z->left = z->size;
	z->sum = (uint32_t)crc32(0, NULL, 0);
	z->state = ZIP_AT_DATA;
	if (z->method == METHOD_STORE)
		return z->packed == z->size ? 0 : zip_broken("two sizes differ", err);
	(void)memset(&z->z, 0, sizeof(z->z));
	if (inflateInit2(&z->z, -15) != Z_OK)
		return error_errno(err, ENOMEM, "decompress");
	z->inflating = true;
	return 0;
}

static int zip_begin_entry(struct zip *z, struct warren_error *err)
{
	const char *h = z->head.data;
	size_t name_len = zip_le(h + 26, 2), extra_len = zip_le(h + 28, 2);
	struct proto_entry is = { .mode = S_IFREG | 0644, .mtime_sec = time(NULL) };
	char name[4096];
	int r;

	if (name_len == 0 || name_len >= sizeof(name) ||
	    memchr(h + HEADER, '\0', name_len))
		return zip_broken("a name is not valid", err);
	(void)memcpy(name, h + HEADER, name_len);
	name[name_len] = '\0';
	z->packed = zip_le(h + 18, 4);
	z->size = zip_le(h + 22, 4);
	r = zip_read_extra(z, h + HEADER + name_len, extra_len, err);
	if (r < 0)
		return r;
	if (name[name_len - 1] == '/') {
		is.mode = S_IFDIR | 0755;
		if (z->size > 0)
			return zip_broken("a directory has data", err);
	}
	tar_put(&z->pending, name, &is, "", z->size);
	z->head.len = 0;
	return z->pending.failed ? error_errno(err, ENOMEM, "unpack")
				 : begin_data(z, err);
}

static int zip_read_header(struct zip *z, struct warren_error *err)
{
	const char *h = z->head.data;
	unsigned flags = zip_le(h + 6, 2);

	z->method = zip_le(h + 8, 2);
	z->want_sum = zip_le(h + 14, 4);
	if (flags & (FLAG_CRYPT | FLAG_STRONG))
		return error_set(err, EOPNOTSUPP, "the archive is encrypted");
	if (flags & FLAG_AFTER)
		return error_set(err, EOPNOTSUPP,
				 "the archive was written as a stream: an entry does "
				 "not give its size before its data");
	if (z->method != METHOD_STORE && z->method != METHOD_FLATE)
		return error_set(err, EOPNOTSUPP,
				 "the archive uses compression method %u, which is not "
				 "supported: use deflate",
				 z->method);
	z->state = ZIP_AT_NAME;
	return 0;
}

/* The first four bytes identify the header. */
static int zip_take_header(struct zip *z, const char *data, size_t n, size_t *used,
			   struct warren_error *err)
{
	size_t want = z->head.len < 4 ? 4 : HEADER;
	uint32_t sig;

	if (!zip_collect(z, want, data, n, used))
		return 0;
	sig = zip_le(z->head.data, 4);
	if (sig == SIG_LIST || sig == SIG_END || sig == SIG_END_64) {
		z->state = ZIP_AT_END;
		tar_end(&z->pending);
		return 0;
	}
	if (sig != SIG_ENTRY)
		return zip_broken("it is not a zip archive", err);
	return want == HEADER ? zip_read_header(z, err) : 0;
}

static int take_name(struct zip *z, const char *data, size_t n, size_t *used,
		     struct warren_error *err)
{
	size_t rest = zip_le(z->head.data + 26, 2) + (size_t)zip_le(z->head.data + 28, 2);

	if (!zip_collect(z, HEADER + rest, data, n, used))
		return 0;
	return zip_begin_entry(z, err);
}

static int end_data(struct zip *z, struct warren_error *err)
{
	stop_inflating(z);
	if (z->left > 0 || z->packed > 0)
		return zip_broken("an entry does not have its declared size", err);
	if (z->sum != z->want_sum)
		return zip_broken("an entry has a wrong checksum", err);
	tar_pad(&z->pending, z->size);
	z->head.len = 0;
	z->state = ZIP_AT_HEADER;
	return 0;
}

static int inflate_some(struct zip *z, const char *data, size_t n, size_t *used,
			char *out, size_t size, size_t *made, struct warren_error *err)
{
	size_t in = n < z->packed ? n : (size_t)z->packed;
	int r;

	z->z.next_in = (Bytef *)(uintptr_t)data;
	z->z.avail_in = (uInt)in;
	z->z.next_out = (Bytef *)out;
	z->z.avail_out = (uInt)size;
	r = inflate(&z->z, Z_NO_FLUSH);
	*used = in - z->z.avail_in;
	*made = size - z->z.avail_out;
	if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
		return zip_broken("its compressed data is not valid", err);
	if (*made > z->left)
		return zip_broken("an entry is larger than its declared size", err);
	/* All input was used, but the output is incomplete. */
	if (r != Z_STREAM_END && *used == z->packed && *made == 0)
		return zip_broken("its compressed data ends too soon", err);
	return r == Z_STREAM_END;
}

static int zip_take_data(struct zip *z, const char *data, size_t n, size_t *used,
			 char *out, size_t size, size_t *made, struct warren_error *err)
{
	int r = 0;

	if (z->inflating) {
		r = inflate_some(z, data, n, used, out, size, made, err);
		if (r < 0)
			return r;
	} else {
		size_t part = n < size ? n : size;

		part = part < z->left ? part : (size_t)z->left;
		(void)memcpy(out, data, part);
		*used = *made = part;
		r = part == z->left;
	}
	z->sum = (uint32_t)crc32(z->sum, (const Bytef *)out, (uInt)*made);
	z->packed -= *used;
	z->left -= *made;
	return r == 1 ? end_data(z, err) : 0;
}

static void send_pending(struct zip *z, char *out, size_t size, size_t *made)
{
	size_t n = z->pending.len - z->sent;

	*made = n < size ? n : size;
	(void)memcpy(out, z->pending.data + z->sent, *made);
	z->sent += *made;
	if (z->sent == z->pending.len && z->state != ZIP_AT_END)
		z->pending.len = z->sent = 0;
}

int zip_take(struct zip *z, const char *data, size_t n, size_t *ret_used, char *out,
	     size_t size, size_t *ret_made, struct warren_error *err)
{
	int r = 0;

	*ret_used = *ret_made = 0;
	/*
	 * Some steps produce no data: continue until one does, or there is no more input.
	 */
	while (r == 0 && *ret_made == 0) {
		size_t used = 0;

		if (z->sent < z->pending.len) {
			send_pending(z, out, size, ret_made);
			break;
		}
		if (z->state == ZIP_AT_END) {
			*ret_used += n; /* the directory */
			break;
		}
		/* The end of an entry may need no further byte. */
		if (n == 0 && !(z->state == ZIP_AT_DATA && z->packed == 0))
			break;
		if (z->state == ZIP_AT_HEADER)
			r = zip_take_header(z, data, n, &used, err);
		else if (z->state == ZIP_AT_NAME)
			r = take_name(z, data, n, &used, err);
		else
			r = zip_take_data(z, data, n, &used, out, size, ret_made, err);
		data += used;
		n -= used;
		*ret_used += used;
		if (z->head.failed || z->pending.failed)
			r = error_errno(err, ENOMEM, "unpack");
	}
	return r;
}
