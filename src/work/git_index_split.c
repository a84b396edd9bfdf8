/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_index_split.c - join an index that is in two files (core.splitIndex)
 *
 * `sharedindex.<hash>` has the shared entries. The extension "link" of the index has this
 * hash, and two bitmaps in the format EWAH: which shared entries are removed, and which
 * are replaced. The index first has the replacing entries, in the same order and without
 * paths, and then new entries.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "work/files_internal.h"
#include "work/git_index_internal.h"

#define SPLIT_REMOVED  1
#define SPLIT_REPLACED 2

struct split_entry {
	const unsigned char *fixed; /* times, sizes and the id; NULL: it was removed */
	unsigned flags, more;
	char *path;
};

struct split_entries {
	struct split_entry *v;
	size_t n;
};

static void split_done(struct split_entries *e)
{
	for (size_t i = 0; i < e->n; i++)
		free(e->v[i].path);
	free(e->v);
}

#define AUTO_SPLIT CLEANUP(split_done)

static uint64_t split_u64(const unsigned char *p)
{
	return (uint64_t)git_index_u32(p) << 32 | git_index_u32(p + 4);
}

/* Mark @n entries from @at on with @bit. */
static int split_mark(unsigned char *marks, size_t count, uint64_t at, uint64_t n,
		      unsigned char bit)
{
	if (at > count || n > count - at)
		return -EBADMSG;
	for (uint64_t i = at; i < at + n; i++)
		marks[i] |= bit;
	return 0;
}

/* Read a bitmap at *@at: runs of equal words, each followed by literal words. */
static int split_bitmap(const unsigned char **at, const unsigned char *end,
			unsigned char *marks, size_t count, unsigned char bit)
{
	uint64_t done = 0, words;
	const unsigned char *p = *at + 8;
	int r = 0;

	if (end - *at < 12)
		return -EBADMSG;
	words = git_index_u32(*at + 4);
	if ((uint64_t)(end - p) < 8 * words + 4)
		return -EBADMSG;
	*at = p + 8 * words + 4;
	while (words > 0 && r == 0) {
		const uint64_t head = split_u64(p), run = 64 * (head >> 1 & 0xffffffff);
		uint64_t plain = head >> 33;

		p += 8;
		words--;
		if (plain > words)
			return -EBADMSG;
		if (head & 1)
			r = split_mark(marks, count, done,
				       run < count - done ? run : count - done, bit);
		done += run;
		for (; r == 0 && plain > 0; plain--, words--, p += 8, done += 64)
			for (unsigned i = 0; r == 0 && i < 64; i++)
				if (split_u64(p) >> i & 1)
					r = split_mark(marks, count, done + i, 1, bit);
		if (done > count + 64)
			return words > 0 ? -EBADMSG : r;
	}
	return r;
}

static int split_read(struct index_reader *r, uint32_t count, struct split_entries *ret)
{
	struct split_entries e AUTO_SPLIT = { 0 };

	/* Each entry takes more than INDEX_STAT bytes. */
	if (count > (size_t)(r->end - r->at) / INDEX_STAT)
		return -EBADMSG;
	e.v = calloc((size_t)count + 1, sizeof(*e.v));
	if (!e.v)
		return -ENOMEM;
	while (e.n < count) {
		struct split_entry *entry = &e.v[e.n];
		int err;

		entry->fixed = r->at;
		err = git_index_entry(r);
		if (err < 0)
			return err;
		entry->flags = git_index_u16(entry->fixed + INDEX_STAT + r->id_size);
		if (r->version > 2 && (entry->flags & INDEX_EXTENDED))
			entry->more =
				git_index_u16(entry->fixed + INDEX_STAT + r->id_size + 2);
		entry->path = strndup(r->path, r->path_n);
		if (!entry->path)
			return -ENOMEM;
		e.n++;
	}
	*ret = e;
	e = (struct split_entries){ 0 };
	return 0;
}

/* Apply the bitmaps to the shared entries. Returns how many own entries were used. */
static ssize_t split_replace(struct split_entries *shared,
			     const struct split_entries *own, const unsigned char *marks)
{
	size_t used = 0;

	for (size_t i = 0; i < shared->n; i++) {
		struct split_entry *e = &shared->v[i];

		if (marks[i] & SPLIT_REPLACED) {
			if (used == own->n || *own->v[used].path)
				return -EBADMSG;
			e->fixed = own->v[used].fixed;
			e->flags = own->v[used].flags;
			e->more = own->v[used++].more;
		}
		if (marks[i] & SPLIT_REMOVED)
			e->fixed = NULL;
	}
	return (ssize_t)used;
}

static void split_write(const struct split_entry *e, size_t id_size, struct buf *out)
{
	const size_t n = strlen(e->path), begun = out->len;

	buf_add(out, e->fixed, INDEX_STAT + id_size);
	git_index_put16(out, (e->flags & ~INDEX_LENGTH) |
				     (n < INDEX_LENGTH ? (unsigned)n : INDEX_LENGTH));
	if (e->flags & INDEX_EXTENDED)
		git_index_put16(out, e->more);
	buf_add(out, e->path, n + 1);
	while ((out->len - begun) % 8 != 0)
		buf_add(out, "", 1);
}

static int split_compare(const struct split_entry *a, const struct split_entry *b)
{
	int d = strcmp(a->path, b->path);

	return d ? d : (int)(a->flags & INDEX_STAGE) - (int)(b->flags & INDEX_STAGE);
}

/* Merge the two sorted lists. Returns the number of entries written. */
static uint32_t split_merge(const struct split_entries *shared,
			    const struct split_entries *own, size_t used, size_t id_size,
			    struct buf *out)
{
	size_t i = 0, k = used;
	uint32_t n = 0;

	while (i < shared->n || k < own->n) {
		const int d = i == shared->n ? 1
			      : k == own->n  ? -1
					     : split_compare(&shared->v[i], &own->v[k]);
		const struct split_entry *e = d < 0 ? &shared->v[i] : &own->v[k];

		i += d <= 0;
		k += d >= 0;
		if (!e->fixed)
			continue;
		split_write(e, id_size, out);
		n++;
	}
	return n;
}

/* Join @data, whose entries @own are, and the shared index. */
static int split_join(const struct split_entries *own, const unsigned char *link,
		      const unsigned char *end, const char *data, size_t n,
		      size_t id_size, struct buf *out)
{
	struct split_entries shared AUTO_SPLIT = { 0 };
	AUTO_FREE unsigned char *marks = NULL;
	struct index_reader r;
	uint32_t count;
	ssize_t used;
	int e = git_index_begin(data, n, id_size, &r, &count);

	e = e < 0 ? e : split_read(&r, count, &shared);
	if (e < 0)
		return e;
	marks = calloc(shared.n + 1, 1);
	if (!marks)
		return -ENOMEM;
	if (link < end)
		e = split_bitmap(&link, end, marks, shared.n, SPLIT_REMOVED);
	if (e == 0 && link < end)
		e = split_bitmap(&link, end, marks, shared.n, SPLIT_REPLACED);
	used = e < 0 ? e : split_replace(&shared, own, marks);
	if (used < 0)
		return (int)used;
	buf_add(out, "DIRC\0\0\0\3\0\0\0\0", INDEX_HEADER);
	count = split_merge(&shared, own, (size_t)used, id_size, out);
	if (out->failed)
		return -ENOMEM;
	for (unsigned i = 0; i < 4; i++)
		out->data[8 + i] = (char)(count >> (24 - 8 * i));
	git_index_sum(out, id_size);
	return out->failed ? -ENOMEM : 0;
}

/* The path of the shared index, which is in the same directory as the index. */
static char *split_path(const char *path, const unsigned char *id, size_t id_size)
{
	const char *slash = strrchr(path, '/');
	AUTO_BUF struct buf out = BUF_INIT((size_t)2 * INDEX_PATH_MAX);

	buf_add(&out, path, slash ? (size_t)(slash - path) + 1 : 0);
	buf_puts(&out, "sharedindex.");
	for (size_t i = 0; i < id_size; i++)
		buf_printf(&out, "%02x", id[i]);
	return out.failed ? NULL : strndup(out.data, out.len);
}

int git_index_join(int root, const char *path, size_t id_size, char **data, size_t *n)
{
	static const unsigned char none[64];
	struct split_entries own AUTO_SPLIT = { 0 };
	AUTO_BUF struct buf out = BUF_INIT(2 * GIT_INDEX_MAX);
	AUTO_FREE char *shared = NULL, *where = NULL;
	const unsigned char *link;
	struct index_reader r;
	size_t size, shared_n;
	uint32_t count;
	int e = git_index_begin(*data, *n, id_size, &r, &count);

	e = e < 0 ? e : split_read(&r, count, &own);
	if (e < 0)
		return e;
	link = git_index_extension(&r, "link", &size);
	if (!link)
		return 0;
	if (size < id_size)
		return -EBADMSG;
	/* A hash of zeros: there is no shared index. */
	if (memcmp(link, none, id_size) == 0) {
		e = split_join(&own, link, link, "DIRC\0\0\0\2\0\0\0\0", INDEX_HEADER,
			       id_size, &out);
	} else {
		where = split_path(path, link, id_size);
		e = where ? work_file_read_at(root, where, GIT_INDEX_MAX, &shared,
					      &shared_n)
			  : -ENOMEM;
		e = e < 0 ? e
			  : split_join(&own, link + id_size, link + size, shared,
				       shared_n, id_size, &out);
	}
	if (e < 0)
		return e;
	free(*data);
	*n = out.len;
	*data = TAKE_PTR(out.data);
	return 1;
}
