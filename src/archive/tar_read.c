/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar_read.c - parse a tar archive as its bytes arrive
 *
 * The input is assumed to be hostile. Sizes are bounded before they are used, and a name
 * is checked once all of its parts are known. An unknown header is refused if skipping it
 * would change the meaning of the archive.
 */
#include <errno.h>
#include <string.h>

#include "archive/tar.h"

#define EXTRA_MAX  (1U << 20)
#define SIZE_LIMIT (1ULL << 60)

void tar_init(struct tar_reader *r)
{
	(void)memset(r, 0, sizeof(*r));
	r->extra = (struct buf)BUF_INIT(EXTRA_MAX + 1);
}

void tar_done(struct tar_reader *r)
{
	buf_done(&r->extra);
}

static int tar_read_bad(struct warren_error *err, const char *what)
{
	return error_set(err, EBADMSG, "the archive is damaged: %s", what);
}

/* ---------------------------------------------------------------------- numbers */

/* Read octal text that ends with a space or NUL, or, if the first bit is set, a binary
 * number. */
static int tar_read_field(const char *p, size_t n, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	if ((unsigned char)p[0] == 0x80) {
		for (i = 1; i < n; i++) {
			if (v >> 52)
				return -EBADMSG;
			v = v << 8 | (unsigned char)p[i];
		}
		*ret = v;
		return 0;
	}
	while (i < n && p[i] == ' ')
		i++;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++) {
		if (v >> 60)
			return -EBADMSG;
		v = v << 3 | (uint64_t)(p[i] - '0');
	}
	for (; i < n; i++)
		if (p[i] != ' ' && p[i] != '\0')
			return -EBADMSG;
	*ret = v;
	return 0;
}

/* Parse a decimal number of @n bytes. If @fraction is set, drop a fraction. */
static int tar_read_decimal(const char *p, size_t n, bool fraction, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	for (; i < n && p[i] >= '0' && p[i] <= '9'; i++) {
		if (v > UINT64_MAX / 16)
			return -EBADMSG;
		v = v * 10 + (uint64_t)(p[i] - '0');
	}
	if (i == 0 || (i < n && !(fraction && p[i] == '.')))
		return -EBADMSG;
	*ret = v;
	return 0;
}

/* ------------------------------------------------------------------------ names */

/* Normalise the name. Return -EINVAL if it is absolute, or contains ".." or a NUL. */
static int clean_name(const char *p, size_t n, char *out, size_t size)
{
	size_t len = 0;

	if (n > 0 && p[0] == '/')
		return -EINVAL;
	while (n > 0) {
		const char *slash = memchr(p, '/', n);
		size_t part = slash ? (size_t)(slash - p) : n;

		if (memchr(p, '\0', part) || (part == 2 && memcmp(p, "..", 2) == 0))
			return -EINVAL;
		if (part > 0 && !(part == 1 && p[0] == '.')) {
			if (part > 255 || len + part + 2 > size)
				return -ENAMETOOLONG;
			if (len > 0)
				out[len++] = '/';
			(void)memcpy(out + len, p, part);
			len += part;
		}
		p += part + (slash ? 1 : 0);
		n -= part + (slash ? 1 : 0);
	}
	out[len] = '\0';
	return 0;
}

static int tar_read_set_text(char *out, size_t size, const char *p, size_t n)
{
	if (n >= size || memchr(p, '\0', n))
		return -ENAMETOOLONG;
	(void)memcpy(out, p, n);
	out[n] = '\0';
	return 0;
}

/* -------------------------------------------------------------------- extensions */

static int pax_record(struct tar_reader *r, const char *key, size_t key_len,
		      const char *value, size_t n, struct warren_error *err)
{
	uint64_t number = 0;

#define IS(text) (key_len == sizeof(text) - 1 && memcmp(key, text, key_len) == 0)
	if (IS("path")) {
		r->has_name = true;
		return tar_read_set_text(r->name, sizeof(r->name), value, n);
	}
	if (IS("linkpath")) {
		r->has_link = true;
		return tar_read_set_text(r->link, sizeof(r->link), value, n);
	}
	if (key_len > 11 && memcmp(key, "GNU.sparse.", 11) == 0)
		return error_set(err, EBADMSG,
				 "the archive has a sparse file, which is not supported");
	if (IS("size")) {
		if (tar_read_decimal(value, n, false, &r->size) < 0)
			return tar_read_bad(err, "a size");
		r->has_size = true;
	} else if (IS("uid") || IS("gid")) {
		if (tar_read_decimal(value, n, false, &number) < 0 ||
		    number >= UINT32_MAX)
			return tar_read_bad(err, "an owner is malformed");
		if (key[0] == 'u') {
			r->has_uid = true;
			r->uid = (uint32_t)number;
		} else {
			r->has_gid = true;
			r->gid = (uint32_t)number;
		}
	} else if (IS("mtime") && tar_read_decimal(value, n, true, &number) == 0 &&
		   number < INT32_MAX * 100ULL) {
		r->has_mtime = true;
		r->mtime = (int64_t)number;
	}
#undef IS
	return 0;
}

/* Read records "LEN key=value\n", one after another. */
static int read_pax(struct tar_reader *r, struct warren_error *err)
{
	const char *p = r->extra.data;
	size_t left = r->extra.len;

	while (left > 0) {
		size_t digits = 0, len = 0;
		const char *key, *equals;

		while (digits < left && digits < 8 && p[digits] >= '0' &&
		       p[digits] <= '9')
			len = len * 10 + (size_t)(p[digits++] - '0');
		if (digits == 0 || digits >= left || p[digits] != ' ' || len > left ||
		    len < digits + 3 || p[len - 1] != '\n')
			return tar_read_bad(err, "a pax header is malformed");
		key = p + digits + 1;
		equals = memchr(key, '=', len - digits - 2);
		if (!equals)
			return tar_read_bad(err, "a pax header is malformed");
		if (r->extra_type == 'x') {
			int s = pax_record(r, key, (size_t)(equals - key), equals + 1,
					   (size_t)(p + len - 1 - equals - 1), err);

			if (s < 0)
				return err->code
					       ? s
					       : tar_read_bad(err, "a name is too long");
		}
		p += len;
		left -= len;
	}
	return 0;
}

static int tar_read_extra(struct tar_reader *r, struct warren_error *err)
{
	size_t n = r->extra.len;

	if (r->extra.failed)
		return error_errno(err, ENOMEM, "read the archive");
	if (r->extra_type == 'x' || r->extra_type == 'g')
		return read_pax(r, err);
	while (n > 0 && r->extra.data[n - 1] == '\0')
		n--;
	if (r->extra_type == 'L') {
		r->has_name = true;
		if (tar_read_set_text(r->name, sizeof(r->name), r->extra.data, n) < 0)
			return tar_read_bad(err, "a name is too long");
	} else {
		r->has_link = true;
		if (tar_read_set_text(r->link, sizeof(r->link), r->extra.data, n) < 0)
			return tar_read_bad(err, "a name is too long");
	}
	return 0;
}

/* ----------------------------------------------------------------------- headers */

static bool sum_matches(const char *block)
{
	uint64_t want = 0;
	unsigned sum = 0;

	if (tar_read_field(block + 148, 8, &want) < 0)
		return false;
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += i >= 148 && i < 156 ? ' ' : (unsigned char)block[i];
	return sum == want;
}

static int entry_type(char type, enum tar_type *ret, struct warren_error *err)
{
	switch (type) {
	case '\0':
	case '0':
	case '7':
		*ret = TAR_FILE;
		return 0;
	case '1':
		*ret = TAR_LINK;
		return 0;
	case '2':
		*ret = TAR_SYMLINK;
		return 0;
	case '5':
		*ret = TAR_DIRECTORY;
		return 0;
	case '3':
	case '4':
	case '6':
		return error_set(
			err, ENODEV,
			"the archive has a device or a pipe, which is not supported");
	default:
		return error_set(err, EBADMSG,
				 "the archive has an entry of type '%c', which is not "
				 "supported",
				 type > ' ' && type < 127 ? type : '?');
	}
}

static int tar_read_names(struct tar_reader *r, const char *b, struct warren_error *err)
{
	struct tar_entry *e = &r->entry;
	char raw[300];
	size_t n = strnlen(b, 100), prefix = strnlen(b + 345, 155);
	int s;

	if (r->has_name) {
		s = clean_name(r->name, strlen(r->name), e->name, sizeof(e->name));
	} else {
		/* GNU tar uses the field of the prefix for other data. */
		if (memcmp(b + 257, "ustar", 6) != 0)
			prefix = 0;
		(void)memcpy(raw, b + 345, prefix);
		if (prefix > 0)
			raw[prefix++] = '/';
		(void)memcpy(raw + prefix, b, n);
		s = clean_name(raw, prefix + n, e->name, sizeof(e->name));
		/* Before ustar, a file whose name ends in a slash was a directory. */
		if (e->type == TAR_FILE && n > 0 && b[n - 1] == '/')
			e->type = TAR_DIRECTORY;
	}
	if (s == 0 && e->type == TAR_LINK)
		s = r->has_link ? clean_name(r->link, strlen(r->link), e->link,
					     sizeof(e->link))
				: clean_name(b + 157, strnlen(b + 157, 100), e->link,
					     sizeof(e->link));
	else if (s == 0 && r->has_link)
		(void)strcpy(e->link, r->link);
	else if (s == 0)
		(void)tar_read_set_text(e->link, sizeof(e->link), b + 157,
					strnlen(b + 157, 100));
	if (s < 0)
		return error_set(err, EINVAL,
				 "the archive has a name that is absolute, contains "
				 "'..' or is too long: '%.100s'",
				 r->has_name ? r->name : b);
	if (e->type != TAR_DIRECTORY && !e->name[0])
		return tar_read_bad(err, "an entry has no name");
	if ((e->type == TAR_SYMLINK || e->type == TAR_LINK) && !e->link[0])
		return tar_read_bad(err, "a link has no target");
	return 0;
}

static int read_numbers(struct tar_reader *r, const char *b, struct warren_error *err)
{
	struct tar_entry *e = &r->entry;
	uint64_t mode, uid, gid, size, mtime;

	if (tar_read_field(b + 100, 8, &mode) < 0 ||
	    tar_read_field(b + 108, 8, &uid) < 0 ||
	    tar_read_field(b + 116, 8, &gid) < 0 ||
	    tar_read_field(b + 124, 12, &size) < 0)
		return tar_read_bad(err, "a number");
	if (tar_read_field(b + 136, 12, &mtime) < 0)
		mtime = 0; /* for example, a time before 1970 */
	e->mode = (uint32_t)mode & 07777;
	e->uid = r->has_uid ? r->uid : (uint32_t)uid;
	e->gid = r->has_gid ? r->gid : (uint32_t)gid;
	e->size = r->has_size ? r->size : size;
	e->mtime = r->has_mtime ? r->mtime : (int64_t)mtime;
	if (e->size > SIZE_LIMIT || uid >= UINT32_MAX || gid >= UINT32_MAX)
		return tar_read_bad(err, "a number");
	if (e->type != TAR_FILE && e->type != TAR_LINK && e->size != 0 &&
	    e->type != TAR_DIRECTORY)
		return tar_read_bad(err, "an entry that cannot have data has some");
	return 0;
}

/* Parse a complete header. Return an event, or -errno. */
static int tar_read_header(struct tar_reader *r, struct warren_error *err)
{
	const char *b = r->block;
	char type = b[156];
	uint64_t size = 0;
	int s;

	if (!sum_matches(b))
		return tar_read_bad(err, "a header has a wrong checksum");
	if (type == 'x' || type == 'g' || type == 'L' || type == 'K') {
		if (tar_read_field(b + 124, 12, &size) < 0 || size > EXTRA_MAX)
			return tar_read_bad(err, "a header is too long");
		r->extra_type = type;
		r->extra.len = 0;
		r->left = size;
		r->pad = -size % TAR_BLOCK;
		r->state = TAR_AT_EXTRA;
		return TAR_MORE;
	}
	(void)memset(&r->entry, 0, sizeof(r->entry));
	s = entry_type(type, &r->entry.type, err);
	if (s == 0)
		s = tar_read_names(r, b, err);
	if (s == 0)
		s = read_numbers(r, b, err);
	if (s < 0)
		return s;
	r->left = r->entry.type == TAR_FILE || r->entry.type == TAR_DIRECTORY
			  ? r->entry.size
			  : 0;
	r->pad = -r->left % TAR_BLOCK;
	r->has_name = r->has_link = r->has_size = false;
	r->has_uid = r->has_gid = r->has_mtime = false;
	r->state = TAR_AT_DATA;
	return TAR_ENTRY;
}

static bool is_zero(const char *block)
{
	for (size_t i = 0; i < TAR_BLOCK; i++)
		if (block[i])
			return false;
	return true;
}

static int tar_read_take_header(struct tar_reader *r, const char *data, size_t n,
				size_t *ret_used, struct warren_error *err)
{
	size_t part = TAR_BLOCK - r->have < n ? TAR_BLOCK - r->have : n;

	(void)memcpy(r->block + r->have, data, part);
	r->have += part;
	*ret_used = part;
	if (r->have < TAR_BLOCK)
		return TAR_MORE;
	r->have = 0;
	if (is_zero(r->block)) {
		if (++r->zeros == 2)
			r->state = TAR_AT_END;
		return TAR_MORE;
	}
	if (r->zeros > 0)
		return tar_read_bad(err, "there is data after its end");
	return tar_read_header(r, err);
}

int tar_take(struct tar_reader *r, const char *data, size_t n, size_t *ret_used,
	     struct warren_error *err)
{
	size_t part = r->left < n ? (size_t)r->left : n;
	int s;

	*ret_used = 0;
	switch (r->state) {
	case TAR_AT_HEADER:
		return n > 0 ? tar_read_take_header(r, data, n, ret_used, err) : TAR_MORE;
	case TAR_AT_EXTRA:
		buf_add(&r->extra, data, part);
		r->left -= part;
		*ret_used = part;
		if (r->left > 0)
			return TAR_MORE;
		s = tar_read_extra(r, err);
		r->state = TAR_AT_PAD;
		return s < 0 ? s : TAR_MORE;
	case TAR_AT_DATA:
		if (r->left == 0) {
			r->state = TAR_AT_PAD;
			return TAR_ENTRY_END;
		}
		r->left -= part;
		*ret_used = part;
		return part > 0 ? TAR_DATA : TAR_MORE;
	case TAR_AT_PAD:
		part = r->pad < n ? (size_t)r->pad : n;
		r->pad -= part;
		*ret_used = part;
		if (r->pad == 0)
			r->state = TAR_AT_HEADER;
		return TAR_MORE;
	case TAR_AT_END:
		break;
	}
	*ret_used = n;
	return TAR_OVER;
}

bool tar_is_whole(const struct tar_reader *r)
{
	if (r->state == TAR_AT_END)
		return true;
	/* Some writers omit the end, or the padding of the last block. */
	return (r->state == TAR_AT_HEADER && r->have == 0 && !r->has_name &&
		!r->has_link && !r->has_size) ||
	       (r->state == TAR_AT_PAD && r->entry.name[0]);
}
