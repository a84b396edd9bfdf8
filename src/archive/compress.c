/* SPDX-License-Identifier: Apache-2.0 */
/* compress.c - stream gzip and zstd, and decompress zip */
#include <errno.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "archive/tar.h"
#include "archive/zip.h"

#define WINDOW_LOG_MAX 23 /* 8 MiB, as RFC 8878 recommends */
#define ROOM           65536U

struct pack {
	enum pack_kind kind;
	z_stream z;
	ZSTD_CStream *zstd;
};

struct unpack {
	enum pack_kind kind;
	z_stream z;
	ZSTD_DStream *zstd;
	struct zip *zip;
	bool whole;
};

int pack_new(enum pack_kind kind, struct pack **ret, struct warren_error *err)
{
	struct pack *p = calloc(1, sizeof(*p));
	bool made = p;

	if (p)
		p->kind = kind;
	/*
	 * 16 selects the header of gzip. The level is the fastest, because the data is
	 * compressed only for transport.
	 */
	if (p && kind == PACK_GZIP)
		made = deflateInit2(&p->z, 1, Z_DEFLATED, 15 + 16, 8,
				    Z_DEFAULT_STRATEGY) == Z_OK;
	else if (p && kind == PACK_ZSTD)
		made = (p->zstd = ZSTD_createCStream()) &&
		       !ZSTD_isError(ZSTD_initCStream(p->zstd, 1));
	if (!made) {
		free(p);
		return error_errno(err, ENOMEM, "compress");
	}
	*ret = p;
	return 0;
}

struct pack *pack_free(struct pack *p)
{
	if (p && p->kind == PACK_GZIP)
		(void)deflateEnd(&p->z);
	if (p)
		(void)ZSTD_freeCStream(p->zstd);
	free(p);
	return NULL;
}

static int put_gzip(struct pack *p, const void *data, size_t n, bool end, struct buf *out)
{
	int r;

	p->z.next_in = (Bytef *)(uintptr_t)data;
	p->z.avail_in = (uInt)n;
	do {
		char *room = buf_reserve(out, ROOM);

		if (!room)
			return -ENOMEM;
		p->z.next_out = (Bytef *)room;
		p->z.avail_out = ROOM;
		r = deflate(&p->z, end ? Z_FINISH : Z_NO_FLUSH);
		out->len += ROOM - p->z.avail_out;
	} while (p->z.avail_out == 0 || (end && r == Z_OK));
	return r == Z_STREAM_ERROR ? -EIO : 0;
}

static int put_zstd(struct pack *p, const void *data, size_t n, bool end, struct buf *out)
{
	ZSTD_inBuffer in = { data, n, 0 };
	size_t r;

	do {
		char *room = buf_reserve(out, ROOM);
		ZSTD_outBuffer o = { room, ROOM, 0 };

		if (!room)
			return -ENOMEM;
		r = ZSTD_compressStream2(p->zstd, &o, &in,
					 end ? ZSTD_e_end : ZSTD_e_continue);
		if (ZSTD_isError(r))
			return -EIO;
		out->len += o.pos;
	} while (in.pos < in.size || (end && r > 0));
	return 0;
}

int pack_put(struct pack *p, const void *data, size_t n, bool end, struct buf *out,
	     struct warren_error *err)
{
	int r = 0;

	if (p->kind == PACK_NONE)
		buf_add(out, data, n);
	else
		r = p->kind == PACK_GZIP ? put_gzip(p, data, n, end, out)
					 : put_zstd(p, data, n, end, out);
	if (r == 0 && out->failed)
		r = -ENOMEM;
	return r < 0 ? error_errno(err, -r, "compress") : 0;
}

enum pack_kind unpack_kind(const char *data, size_t n)
{
	if (n >= 2 && memcmp(data, "\x1f\x8b", 2) == 0)
		return PACK_GZIP;
	if (n >= 4 && memcmp(data, "\x28\xb5\x2f\xfd", 4) == 0)
		return PACK_ZSTD;
	return PACK_NONE;
}

bool archive_is_known(const char *data, size_t n)
{
	static const struct {
		size_t at, n;
		const char *magic;
	} known[] = {
		{ 0, 2, "\x1f\x8b" },         /* gzip */
		{ 0, 3, "BZh" },              /* bzip2 */
		{ 0, 6, "\xfd\x37zXZ\0" },    /* xz */
		{ 0, 4, "\x28\xb5\x2f\xfd" }, /* zstd */
		{ 257, 5, "ustar" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (n >= known[i].at + known[i].n &&
		    memcmp(data + known[i].at, known[i].magic, known[i].n) == 0)
			return true;
	return false;
}

int unpack_new(enum pack_kind kind, struct unpack **ret, struct warren_error *err)
{
	struct unpack *u = calloc(1, sizeof(*u));
	bool made = true;

	if (!u)
		return error_errno(err, ENOMEM, "decompress");
	u->kind = kind;
	if (kind == PACK_GZIP)
		made = inflateInit2(&u->z, 15 + 16) == Z_OK;
	else if (kind == PACK_ZIP)
		made = (u->zip = zip_new());
	else if (kind == PACK_ZSTD)
		made = (u->zstd = ZSTD_createDStream()) &&
		       !ZSTD_isError(ZSTD_DCtx_setParameter(u->zstd, ZSTD_d_windowLogMax,
							    WINDOW_LOG_MAX));
	if (!made) {
		(void)ZSTD_freeDStream(u->zstd);
		free(u);
		return error_errno(err, ENOMEM, "decompress");
	}
	u->whole = kind == PACK_NONE;
	*ret = u;
	return 0;
}

struct unpack *unpack_free(struct unpack *u)
{
	if (u && u->kind == PACK_GZIP)
		(void)inflateEnd(&u->z);
	if (u) {
		(void)ZSTD_freeDStream(u->zstd);
		u->zip = zip_free(u->zip);
	}
	free(u);
	return NULL;
}

bool unpack_is_whole(const struct unpack *u)
{
	return u->kind == PACK_ZIP ? zip_is_whole(u->zip) : u->whole;
}

static int take_gzip(struct unpack *u, const char *data, size_t n, size_t *ret_used,
		     char *out, size_t size, size_t *ret_made)
{
	int r;

	/* Several consecutive streams are treated as one. */
	if (u->whole && n > 0 && inflateReset(&u->z) != Z_OK)
		return -EIO;
	if (u->whole && n == 0)
		return 0;
	u->whole = false;
	u->z.next_in = (Bytef *)(uintptr_t)data;
	u->z.avail_in = (uInt)n;
	u->z.next_out = (Bytef *)out;
	u->z.avail_out = (uInt)size;
	r = inflate(&u->z, Z_NO_FLUSH);
	*ret_used = n - u->z.avail_in;
	*ret_made = size - u->z.avail_out;
	u->whole = r == Z_STREAM_END;
	return r == Z_OK || r == Z_STREAM_END || r == Z_BUF_ERROR ? 0 : -EBADMSG;
}

static int take_zstd(struct unpack *u, const char *data, size_t n, size_t *ret_used,
		     char *out, size_t size, size_t *ret_made)
{
	ZSTD_inBuffer in = { data, n, 0 };
	ZSTD_outBuffer o = { out, size, 0 };
	size_t r;

	if (u->whole && n == 0)
		return 0;
	r = ZSTD_decompressStream(u->zstd, &o, &in);
	if (ZSTD_isError(r))
		return ZSTD_getErrorCode(r) == ZSTD_error_frameParameter_windowTooLarge
			       ? -EOPNOTSUPP
			       : -EBADMSG;
	*ret_used = in.pos;
	*ret_made = o.pos;
	u->whole = r == 0;
	return 0;
}

int unpack_take(struct unpack *u, const char *data, size_t n, size_t *ret_used, char *out,
		size_t size, size_t *ret_made, struct warren_error *err)
{
	int r = 0;

	*ret_used = *ret_made = 0;
	if (u->kind == PACK_ZIP)
		return zip_take(u->zip, data, n, ret_used, out, size, ret_made, err);
	if (u->kind == PACK_GZIP) {
		r = take_gzip(u, data, n, ret_used, out, size, ret_made);
	} else if (u->kind == PACK_ZSTD) {
		r = take_zstd(u, data, n, ret_used, out, size, ret_made);
	} else {
		size_t part = n < size ? n : size;

		(void)memcpy(out, data, part);
		*ret_used = *ret_made = part;
	}
	if (r == -EOPNOTSUPP)
		return error_set(err, EBADMSG,
				 "the archive needs a compression window of more than "
				 "%u MiB: compress it without --long or --ultra",
				 1U << (WINDOW_LOG_MAX - 20));
	return r < 0 ? error_set(
			       err, -r,
			       "the archive is damaged: its compressed data is not valid")
		     : 0;
}
