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
	const unsigned char *fixed; /* times, sizes and the id */
	unsigned flags, more;
	const char *path;
};

/*
 * Entries are read one after the other and never stored: in version 4, a small file can
 * have paths that are many times its size.
 */
struct split_walk {
	struct index_reader r;
	size_t left;
	struct split_entry entry; /* the last one */
};

/* The shared entries, and what the index says of them. */
struct split_shared {
	struct split_walk all, replacing;
	const unsigned char *marks;
};

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

/* Read an entry. 0: there are no more. */
static int split_next(struct split_walk *w)
{
	struct split_entry *e = &w->entry;
	const size_t flags = INDEX_STAT + w->r.id_size;
	int r;

	if (w->left == 0)
		return 0;
	w->left--;
	*e = (struct split_entry){ .fixed = w->r.at, .path = w->r.path };
	r = git_index_entry(&w->r);
	if (r < 0)
		return r;
	e->flags = git_index_u16(e->fixed + flags);
	if (w->r.version > 2 && (e->flags & INDEX_EXTENDED))
		e->more = git_index_u16(e->fixed + flags + 2);
	return 1;
}

static int split_skip(struct split_walk *w, size_t n)
{
	int r = 1;

	while (r > 0 && n-- > 0)
		r = split_next(w);
	return r < 0 ? r : r == 0 ? -EBADMSG : 0;
}

static int split_begin(const char *data, size_t n, size_t id_size, struct split_walk *ret)
{
	uint32_t count;
	int r = git_index_begin(data, n, id_size, &ret->r, &count);

	if (r < 0)
		return r;
	ret->left = count;
	/* Each entry takes more than INDEX_STAT bytes. */
	return count > n / INDEX_STAT ? -EBADMSG : 0;
}

/* Read a shared entry that is not removed. */
static int split_next_shared(struct split_shared *s)
{
	struct split_entry *e = &s->all.entry;
	int r;

	while ((r = split_next(&s->all)) > 0) {
		const unsigned char mark = *s->marks++;

		if (mark & SPLIT_REPLACED) {
			const struct split_entry *own = &s->replacing.entry;

			r = split_skip(&s->replacing, 1);
			if (r < 0 || *own->path)
				return r < 0 ? r : -EBADMSG;
			e->fixed = own->fixed;
			e->flags = own->flags;
			e->more = own->more;
		}
		if (!(mark & SPLIT_REMOVED))
			return 1;
	}
	return r;
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

/* Merge the two sorted lists. */
static int split_merge(struct split_shared *shared, struct split_walk *own,
		       size_t id_size, uint32_t *ret_count, struct buf *out)
{
	const struct split_entry *theirs = &shared->all.entry, *ours = &own->entry;
	int i = split_next_shared(shared), k = split_next(own);
	uint32_t n = 0;

	while (i > 0 || (k > 0 && i == 0)) {
		const int d = i == 0 ? 1 : k <= 0 ? -1 : split_compare(theirs, ours);

		if (k < 0)
			break;
		split_write(d < 0 ? theirs : ours, id_size, out);
		n++;
		if (out->failed)
			return out->full ? -EBADMSG : -ENOMEM;
		if (d <= 0)
			i = split_next_shared(shared);
		if (d >= 0)
			k = split_next(own);
	}
	*ret_count = n;
	return i < 0 ? i : k;
}

/* Join the index @own and the shared index @data, as the bitmaps at @link say. */
static int split_join(const struct split_walk *own, const unsigned char *link,
		      const unsigned char *end, const char *data, size_t n,
		      size_t id_size, struct buf *out)
{
	struct split_shared shared = { .replacing = *own };
	struct split_walk added = *own;
	AUTO_FREE unsigned char *marks = NULL;
	size_t count, used = 0;
	uint32_t joined;
	int r = split_begin(data, n, id_size, &shared.all);

	if (r < 0)
		return r;
	count = shared.all.left;
	marks = calloc(count + 1, 1);
	if (!marks)
		return -ENOMEM;
	if (link < end)
		r = split_bitmap(&link, end, marks, count, SPLIT_REMOVED);
	if (r == 0 && link < end)
		r = split_bitmap(&link, end, marks, count, SPLIT_REPLACED);
	for (size_t i = 0; i < count; i++)
		used += marks[i] & SPLIT_REPLACED ? 1 : 0;
	r = r < 0 ? r : split_skip(&added, used);
	if (r < 0)
		return r;
	shared.marks = marks;
	buf_add(out, "DIRC\0\0\0\3\0\0\0\0", INDEX_HEADER);
	r = split_merge(&shared, &added, id_size, &joined, out);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < 4; i++)
		out->data[8 + i] = (char)(joined >> (24 - 8 * i));
	git_index_sum(out, id_size);
	return out->full ? -EBADMSG : out->failed ? -ENOMEM : 0;
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
	struct split_walk own, rest;
	AUTO_BUF struct buf out = BUF_INIT(GIT_INDEX_MAX);
	AUTO_FREE char *shared = NULL, *where = NULL;
	const unsigned char *link;
	size_t size, shared_n;
	int e = split_begin(*data, *n, id_size, &own);

	if (e < 0)
		return e;
	rest = own;
	e = split_skip(&rest, own.left);
	if (e < 0)
		return e;
	link = git_index_extension(&rest.r, "link", &size);
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
