/* SPDX-License-Identifier: Apache-2.0 */
/* git_index.c - parse the index of a repository for its paths, and mark files in it */
#include "work/git_index_internal.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/sha256.h"
#include "textdiff/sha1.h"

/* Version 4: how many bytes of the path before are not repeated. */
static int git_index_varint(struct index_reader *r, size_t *ret)
{
	size_t value;

	if (r->at >= r->end)
		return -EBADMSG;
	value = *r->at & 127;
	while (*r->at++ & 128) {
		if (r->at >= r->end || value > INDEX_PATH_MAX)
			return -EBADMSG;
		value = ((value + 1) << 7) | (*r->at & 127);
	}
	*ret = value;
	return 0;
}

int git_index_entry(struct index_reader *r)
{
	const unsigned char *start = r->at, *stop;
	size_t fixed = INDEX_STAT + r->id_size + 2, cut = r->path_n, n;
	unsigned flags;

	if ((size_t)(r->end - r->at) < fixed + 2)
		return -EBADMSG;
	flags = (unsigned)start[fixed - 2] << 8 | start[fixed - 1];
	r->at += fixed + ((flags & INDEX_EXTENDED) && r->version > 2 ? 2 : 0);
	if (r->version == 4 && git_index_varint(r, &cut) < 0)
		return -EBADMSG;
	stop = r->at < r->end ? memchr(r->at, '\0', (size_t)(r->end - r->at)) : NULL;
	if (!stop || cut > r->path_n)
		return -EBADMSG;
	n = (size_t)(stop - r->at);
	r->path_n -= cut;
	if (r->path_n + n >= sizeof(r->path))
		return -EBADMSG;
	(void)memcpy(r->path + r->path_n, r->at, n + 1);
	r->path_n += n;
	r->at = stop + 1;
	if (r->version < 4) { /* with up to 8 NULs, entries have a multiple of 8 bytes */
		size_t size = ((size_t)(stop - start) + 8) & ~(size_t)7;

		if ((size_t)(r->end - start) < size)
			return -EBADMSG;
		r->at = start + size;
	}
	return 0;
}

const unsigned char *git_index_extension(const struct index_reader *r, const char *name,
					 size_t *ret_size)
{
	const unsigned char *at = r->at;

	while ((size_t)(r->end - at) >= 8) {
		const size_t size = git_index_u32(at + 4);

		if (size > (size_t)(r->end - at) - 8)
			break;
		if (memcmp(at, name, 4) == 0) {
			*ret_size = size;
			return at + 8;
		}
		at += 8 + size;
	}
	return NULL;
}

/*
 * Two passes: sum up the sizes, then store. In version 4, an entry of 70 bytes can have a
 * path of 4 KB: no repository has such paths on average.
 */
static int git_index_read(struct index_reader r, uint32_t count, size_t *ret_size,
			  struct git_index *store)
{
	const size_t max = INDEX_PATHS_MIN + 8 * (size_t)(r.end - r.at);
	size_t size = 0, size_of_link;

	for (uint32_t i = 0; i < count; i++) {
		int e = git_index_entry(&r);

		if (e < 0)
			return e;
		if (store) {
			store->paths[store->n++] = store->room + size;
			(void)memcpy(store->room + size, r.path, r.path_n + 1);
		}
		size += r.path_n + 1;
		if (size > max || size > GIT_INDEX_MAX)
			return -EBADMSG;
	}
	/* The paths are in another file. */
	if (git_index_extension(&r, "link", &size_of_link))
		return -EOPNOTSUPP;
	*ret_size = size;
	return 0;
}

static int git_index_compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int git_index_begin(const char *data, size_t n, size_t id_size, struct index_reader *ret,
		    uint32_t *ret_count)
{
	const unsigned char *p = (const unsigned char *)data;

	if (n < INDEX_HEADER || memcmp(p, "DIRC", 4) != 0)
		return -EBADMSG;
	*ret = (struct index_reader){ .id_size = id_size,
				      .version = git_index_u32(p + 4),
				      .at = p + INDEX_HEADER,
				      .end = p + n };
	*ret_count = git_index_u32(p + 8);
	return ret->version < 2 || ret->version > 4 ? -EOPNOTSUPP : 0;
}

int git_index_parse(const char *data, size_t n, size_t id_size, struct git_index *ret)
{
	struct git_index x = { 0 };
	struct index_reader reader;
	uint32_t count;
	size_t size = 0;
	int r = git_index_begin(data, n, id_size, &reader, &count);

	if (r < 0)
		return r;
	r = git_index_read(reader, count, &size, NULL);
	if (r < 0)
		return r;
	x.room = malloc(size + 1);
	x.paths = calloc((size_t)count + 1, sizeof(*x.paths));
	r = !x.room || !x.paths ? -ENOMEM : git_index_read(reader, count, &size, &x);
	if (r < 0) {
		git_index_done(&x);
		return r;
	}
	/* They are sorted, unless the file is damaged. */
	for (size_t i = 1; i < x.n; i++)
		if (strcmp(x.paths[i - 1], x.paths[i]) > 0) {
			qsort(x.paths, x.n, sizeof(*x.paths), git_index_compare);
			break;
		}
	*ret = x;
	return 0;
}

void git_index_done(struct git_index *x)
{
	free(x->paths);
	free(x->room);
	*x = (struct git_index){ 0 };
}

/* The first path that is not less than @path with @next behind it. */
static size_t git_index_find(const struct git_index *x, const char *path, size_t n,
			     char next)
{
	size_t low = 0, high = x->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const char *other = x->paths[middle];
		int d = strncmp(other, path, n);

		if (d < 0 || (d == 0 && (unsigned char)other[n] < (unsigned char)next))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool git_index_has(const struct git_index *x, const char *path)
{
	static const char ends[] = { '\0', '/' }; /* a file, or one in the directory */
	size_t n = strlen(path);

	for (size_t i = 0; i < sizeof(ends); i++) {
		size_t at = git_index_find(x, path, n, ends[i]);

		if (at < x->n && strncmp(x->paths[at], path, n) == 0 &&
		    x->paths[at][n] == ends[i])
			return true;
	}
	return false;
}

/* -------------------------------------------------------------------------- marks */

void git_index_put16(struct buf *out, unsigned value)
{
	const char bytes[] = { (char)(value >> 8), (char)value };

	buf_add(out, bytes, sizeof(bytes));
}

/* Copy the entry from @start to r->at, with the mark. */
static void git_index_mark(const struct index_reader *r, const unsigned char *start,
			   struct buf *out)
{
	const size_t fixed = INDEX_STAT + r->id_size, begun = out->len;
	const unsigned flags = git_index_u16(start + fixed);
	const bool extended = (flags & INDEX_EXTENDED) && r->version > 2;
	const unsigned char *rest = start + fixed + (extended ? 4 : 2);

	buf_add(out, start, fixed);
	git_index_put16(out, flags | INDEX_EXTENDED);
	git_index_put16(out, (extended ? git_index_u16(rest - 2) : 0) | INDEX_SKIP);
	if (r->version == 4) {
		buf_add(out, rest, (size_t)(r->at - rest));
		return;
	}
	buf_add(out, r->path, r->path_n + 1);
	while ((out->len - begun) % 8 != 0)
		buf_add(out, "", 1);
}

/*
 * Copy the extensions that git needs. The others are for speed only, and would be wrong:
 * they refer to entries by their offsets, or to files that are not visible.
 */
static int git_index_extensions(const struct index_reader *r, struct buf *out)
{
	const unsigned char *at = r->at, *end = r->end - r->id_size;

	while (at < end) {
		uint32_t size = end - at < 8 ? 0 : git_index_u32(at + 4);

		if (end - at < 8 || size > (size_t)(end - at) - 8)
			return -EBADMSG;
		if (at[0] < 'A' || at[0] > 'Z' || memcmp(at, "TREE", 4) == 0 ||
		    memcmp(at, "REUC", 4) == 0)
			buf_add(out, at, (size_t)size + 8);
		at += 8 + size;
	}
	return 0;
}

void git_index_sum(struct buf *out, size_t id_size)
{
	unsigned char sum[SHA256_BYTES];

	if (id_size == SHA256_BYTES) {
		struct sha256 h = SHA256_INIT;

		sha256_add(&h, out->data, out->len);
		sha256_bytes(&h, sum);
	} else {
		sha1_digest(&TEXT(out->data, out->len), 1, sum);
	}
	buf_add(out, sum, id_size);
}

static int git_index_copy(struct index_reader *r, uint32_t count,
			  bool (*is)(const void *context, const char *path),
			  const void *context, struct buf *out)
{
	int marked = 0;

	for (uint32_t i = 0; i < count; i++) {
		const unsigned char *start = r->at;
		int e = git_index_entry(r);

		if (e < 0)
			return e;
		if (!(git_index_u16(start + INDEX_STAT + r->id_size) & INDEX_STAGE) &&
		    is(context, r->path)) {
			git_index_mark(r, start, out);
			marked++;
		} else {
			buf_add(out, start, (size_t)(r->at - start));
		}
	}
	return marked;
}

int git_index_skip(const char *data, size_t n, size_t id_size,
		   bool (*is)(const void *context, const char *path), const void *context,
		   struct buf *out)
{
	const unsigned char *p = (const unsigned char *)data;
	struct index_reader r;
	uint32_t count;
	size_t size;
	int marked, e = git_index_begin(data, n, id_size, &r, &count);

	e = e < 0 ? e : git_index_read(r, count, &size, NULL);
	if (e < 0)
		return e;
	if (n < INDEX_HEADER + id_size)
		return -EBADMSG;
	buf_add(out, p, 7);
	/* Version 2 has no such mark, and is otherwise the same as version 3. */
	buf_add(out, r.version == 2 ? "\3" : (const char *)p + 7, 1);
	buf_add(out, p + 8, 4);
	marked = git_index_copy(&r, count, is, context, out);
	e = marked < 0 ? marked : git_index_extensions(&r, out);
	if (e == 0 && marked > 0)
		git_index_sum(out, id_size);
	if (e < 0 || marked == 0)
		out->len = 0;
	return e < 0 ? e : out->failed ? -ENOMEM : marked;
}
