/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_blob.c - pack a layer: write its archive, compress it, and compute both digests
 */
#include "image/layer_blob.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/hex.h"
#include "image/layer_tar.h"

#define PACKED_MAX (16U << 20) /* maximum compressed size of one block of the archive */

struct blob_writer {
	const struct layer_blob_sink *sink;
	EVP_MD_CTX *plain, *packed; /* digests; `packed` is NULL without compression */
	struct pack *pack;
	struct buf out;
	uint64_t size;
	struct warren_error err; /* why the sink failed */
};

static void blob_writer_done(struct blob_writer *w)
{
	EVP_MD_CTX_free(w->plain);
	EVP_MD_CTX_free(w->packed);
	w->pack = pack_free(w->pack);
	buf_done(&w->out);
}

static EVP_MD_CTX *layer_blob_digest(void)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();

	if (md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) != 1) {
		EVP_MD_CTX_free(md);
		return NULL;
	}
	return md;
}

static int layer_blob_digest_text(EVP_MD_CTX *md, char ret[REF_DIGEST_LEN + 1])
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (EVP_DigestFinal_ex(md, sum, &n) != 1 || n != 32)
		return -EIO;
	(void)hex_encode(sum, n, stpcpy(ret, "sha256:"));
	return 0;
}

static int layer_blob_give(struct blob_writer *w, const void *data, size_t n)
{
	w->size += n;
	if (w->packed && n > 0 && EVP_DigestUpdate(w->packed, data, n) != 1)
		return error_set(&w->err, EIO, "SHA-256 failed");
	return w->sink ? w->sink->take(w->sink->ctx, data, n, &w->err) : 0;
}

/* Compress @n bytes of the archive, @end: the last ones. */
static int layer_blob_pack(struct blob_writer *w, const void *data, size_t n, bool end)
{
	int r;

	if (!w->pack)
		return n > 0 ? layer_blob_give(w, data, n) : 0;
	r = pack_put(w->pack, data, n, end, &w->out, &w->err);
	if (r == 0 && w->out.len > 0)
		r = layer_blob_give(w, w->out.data, w->out.len);
	w->out.len = 0;
	return r;
}

static int layer_blob_take(void *ctx, const void *data, size_t n)
{
	struct blob_writer *w = ctx;

	if (EVP_DigestUpdate(w->plain, data, n) != 1)
		return error_set(&w->err, EIO, "SHA-256 failed");
	return layer_blob_pack(w, data, n, false);
}

static int layer_blob_open(const struct store *s, const char *diff_id,
			   struct warren_error *err)
{
	char name[STORE_SHORT_LEN + 1];
	int fd, r = store_layer(s, diff_id, name);

	if (r < 0)
		return error_set(err, r == -ENOENT ? EBADMSG : -r,
				 "its layer %.19s is missing in the store: pull or load "
				 "the image again",
				 diff_id);
	fd = openat(s->data, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? error_errno(err, errno, "open its layer %.19s", diff_id) : fd;
}

static int layer_blob_run(struct blob_writer *w, int dir, struct layer_blob *ret,
			  struct warren_error *err)
{
	const struct layer_tar_options options = { .sink = layer_blob_take, .ctx = w };
	struct layer_tar_result result;
	int r = layer_tar_write(dir, &options, &result, err);

	if (r == 0)
		r = layer_blob_pack(w, NULL, 0, true);
	if (r < 0 && w->err.code) {
		*err = w->err;
		return -err->code;
	}
	if (r < 0)
		return r;
	ret->size = w->size;
	if (layer_blob_digest_text(w->plain, ret->diff_id) < 0 ||
	    (w->packed && layer_blob_digest_text(w->packed, ret->digest) < 0))
		return error_set(err, EIO, "SHA-256 failed");
	if (!w->packed)
		(void)strcpy(ret->digest, ret->diff_id);
	return 0;
}

int layer_blob_write(const struct store *s, const char *diff_id, enum pack_kind kind,
		     const struct layer_blob_sink *sink, struct layer_blob *ret,
		     struct warren_error *err)
{
	CLEANUP(blob_writer_done)
	struct blob_writer w = { .sink = sink, .out = BUF_INIT(PACKED_MAX) };
	AUTO_CLOSE int dir = layer_blob_open(s, diff_id, err);
	struct layer_blob blob = { 0 };
	int r;

	if (dir < 0)
		return dir;
	w.plain = layer_blob_digest();
	if (kind != PACK_NONE) {
		w.packed = layer_blob_digest();
		r = pack_new(kind, &w.pack, err);
		if (r < 0)
			return r;
	}
	if (!w.plain || (kind != PACK_NONE && !w.packed))
		return error_set(err, ENOMEM, "SHA-256 is not available");
	r = layer_blob_run(&w, dir, &blob, err);
	/* The sink names what it writes to; other errors are about the layer. */
	if (r < 0 && !w.err.code)
		return error_wrap(err, "pack its layer %.19s", diff_id);
	if (r == 0)
		*ret = blob;
	return r;
}
