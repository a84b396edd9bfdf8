/* SPDX-License-Identifier: Apache-2.0 */
/* tar_entry.c - an archive with one file: write its header, find its data */
#include "shim/docker/tar_entry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NAME_AT  0U
#define NAME_LEN 100U
#define LINK_AT  157U
#define SUM_AT   148U
#define SUM_LEN  8U
#define TYPE_AT  156U
#define SIZE_AT  124U
#define SIZE_LEN 12U

/* ----------------------------------------------------------------------- writing */

/*
 * Write octal digits and a NUL; a number that does not fit is written in the GNU format:
 * the first bit is set, and the rest is binary.
 */
static void tar_entry_put_number(char *to, size_t size, uint64_t n)
{
	uint64_t rest = n;

	for (size_t i = size - 1; i-- > 0; rest /= 8)
		to[i] = (char)('0' + rest % 8);
	to[size - 1] = '\0';
	if (rest == 0)
		return;
	for (size_t i = size; i-- > 0; n /= 256)
		to[i] = (char)(n % 256);
	to[0] = (char)0x80;
}

static unsigned sum_of(const char *block)
{
	unsigned sum = 0;

	for (size_t i = 0; i < ENTRY_BLOCK; i++)
		sum += i >= SUM_AT && i < SUM_AT + SUM_LEN ? ' '
							   : (unsigned char)block[i];
	return sum;
}

static void tar_entry_put_head(struct buf *out, const char *name, char type,
			       uint64_t size, uint32_t mode, uint32_t uid, uint32_t gid)
{
	char b[ENTRY_BLOCK] = { 0 };
	size_t n = strlen(name);

	(void)memcpy(b + NAME_AT, name, n < NAME_LEN ? n : NAME_LEN);
	tar_entry_put_number(b + 100, 8, mode);
	tar_entry_put_number(b + 108, 8, uid);
	tar_entry_put_number(b + 116, 8, gid);
	tar_entry_put_number(b + SIZE_AT, SIZE_LEN, size);
	tar_entry_put_number(b + 136, 12, 0);
	b[TYPE_AT] = type;
	(void)memcpy(b + 257, "ustar\00000", 8);
	tar_entry_put_number(b + SUM_AT, SUM_LEN - 1, sum_of(b));
	b[SUM_AT + SUM_LEN - 1] = ' ';
	buf_add(out, b, sizeof(b));
}

static size_t tar_entry_padding(uint64_t size)
{
	return (size_t)((ENTRY_BLOCK - size % ENTRY_BLOCK) % ENTRY_BLOCK);
}

bool entry_write(struct buf *out, const char *name, uint64_t size, uint32_t mode,
		 uint32_t uid, uint32_t gid)
{
	static const char zeros[ENTRY_BLOCK];
	size_t n = strlen(name) + 1;

	if (n > NAME_LEN) {
		tar_entry_put_head(out, "././@LongLink", 'L', n, 0, 0, 0);
		buf_add(out, name, n);
		buf_add(out, zeros, tar_entry_padding(n));
	}
	tar_entry_put_head(out, name, '0', size, mode & 07777, uid, gid);
	return !out->failed;
}

size_t entry_tail(uint64_t size)
{
	return tar_entry_padding(size) + 2UL * ENTRY_BLOCK;
}

/* ----------------------------------------------------------------------- reading */

static int get_number(const char *s, size_t size, uint64_t *ret)
{
	uint64_t n = 0;
	size_t i = 0;

	if ((unsigned char)s[0] == 0x80) {
		for (i = 1; i < size; i++) {
			if (n >> 55)
				return -EBADMSG;
			n = n * 256 + (unsigned char)s[i];
		}
		*ret = n;
		return 0;
	}
	while (i < size && s[i] == ' ')
		i++;
	for (; i < size && s[i] >= '0' && s[i] <= '7'; i++) {
		if (n >> 60)
			return -EBADMSG;
		n = n * 8 + (uint64_t)(s[i] - '0');
	}
	if (i < size && s[i] != '\0' && s[i] != ' ')
		return -EBADMSG;
	*ret = n;
	return 0;
}

static int take_link(struct entry *e, const char *s, size_t n)
{
	n = strnlen(s, n);
	if (n >= sizeof(e->link))
		return -EBADMSG;
	(void)memcpy(e->link, s, n);
	e->link[n] = '\0';
	return 0;
}

/* "<length> <key>=<value>\n" */
static int take_record(struct entry *e, const char *key, const char *value, size_t n)
{
	if (strncmp(key, "linkpath=", 9) == 0) {
		e->has_link = true;
		return take_link(e, value, n);
	}
	if (strncmp(key, "size=", 5) != 0)
		return 0;
	e->size = 0;
	for (size_t i = 0; i < n; i++) {
		if (value[i] < '0' || value[i] > '9' || e->size >> 58)
			return -EBADMSG;
		e->size = e->size * 10 + (uint64_t)(value[i] - '0');
	}
	e->has_size = true;
	return 0;
}

static int take_records(struct entry *e)
{
	const char *at = e->extra.data, *end = at + e->extra.len;

	while (at < end) {
		const char *p = at, *equals;
		size_t len = 0;
		int r;

		for (; p < end && *p >= '0' && *p <= '9' && len < ENTRY_EXTRA_MAX; p++)
			len = len * 10 + (size_t)(*p - '0');
		if (p == end || *p != ' ' || len > (size_t)(end - at) ||
		    len <= (size_t)(p - at) + 1 || at[len - 1] != '\n')
			return -EBADMSG;
		equals = memchr(p, '=', (size_t)(at + len - p));
		if (!equals)
			return -EBADMSG;
		r = take_record(e, p + 1, equals + 1,
				(size_t)(at + len - 1 - (equals + 1)));
		if (r < 0)
			return r;
		at += len;
	}
	return 0;
}

static int end_extra(struct entry *e)
{
	int r = 0;

	if (e->extra.failed)
		return -EBADMSG;
	if (e->extra_type == 'x' && e->extra.len > 0)
		r = take_records(e);
	if (e->extra_type == 'K' && e->extra.len > 0) {
		e->has_link = true;
		r = take_link(e, e->extra.data, e->extra.len);
	}
	e->extra.len = 0;
	e->state = ENTRY_HEAD;
	return r;
}

static int tar_entry_take_head(struct entry *e)
{
	const char *b = e->block;
	uint64_t sum, size;
	int r;

	if (get_number(b + SUM_AT, SUM_LEN, &sum) < 0 || sum != sum_of(b) ||
	    get_number(b + SIZE_AT, SIZE_LEN, &size) < 0)
		return -EBADMSG;
	if (strchr("xgLK", b[TYPE_AT]) && b[TYPE_AT]) {
		if (size > ENTRY_EXTRA_MAX)
			return -EBADMSG;
		e->extra_type = b[TYPE_AT];
		e->left = size;
		e->pad = tar_entry_padding(size);
		e->state = ENTRY_EXTRA;
		return size == 0 ? end_extra(e) : 0;
	}
	e->type = (char)(b[TYPE_AT] ? b[TYPE_AT] : '0');
	r = e->has_link ? 0 : take_link(e, b + LINK_AT, NAME_LEN);
	e->left = e->has_size ? e->size : size;
	if (e->type != '0')
		e->left = 0;
	e->state = e->left > 0 ? ENTRY_DATA : ENTRY_END;
	return r;
}

void entry_init(struct entry *e)
{
	*e = (struct entry){ .extra = BUF_INIT(ENTRY_EXTRA_MAX) };
}

void entry_done(struct entry *e)
{
	buf_done(&e->extra);
}

/* Do one step that consumes no file data; return how many bytes it consumed. */
static int tar_entry_step(struct entry *e, const char *data, size_t n, size_t *ret_used)
{
	size_t take = n;

	if (e->state == ENTRY_EXTRA) {
		uint64_t most = e->left > 0 ? e->left : e->pad;

		take = most < n ? (size_t)most : n;
		*ret_used = take;
		if (e->left > 0) {
			buf_add(&e->extra, data, take);
			e->left -= take;
		} else {
			e->pad -= take;
		}
		return e->left == 0 && e->pad == 0 ? end_extra(e) : 0;
	}
	if (take > ENTRY_BLOCK - e->have)
		take = ENTRY_BLOCK - e->have;
	(void)memcpy(e->block + e->have, data, take);
	e->have += take;
	*ret_used = take;
	if (e->have < ENTRY_BLOCK)
		return 0;
	e->have = 0;
	return tar_entry_take_head(e);
}

int entry_take(struct entry *e, const char *data, size_t n, size_t *ret_used,
	       size_t *ret_piece)
{
	size_t at = 0, piece;

	while (at < n && (e->state == ENTRY_HEAD || e->state == ENTRY_EXTRA)) {
		size_t used = 0;
		int r = tar_entry_step(e, data + at, n - at, &used);

		if (r < 0)
			return r;
		at += used;
	}
	piece = e->left < n - at ? (size_t)e->left : n - at;
	if (e->state != ENTRY_DATA)
		piece = 0;
	e->left -= piece;
	if (e->state == ENTRY_DATA && e->left == 0)
		e->state = ENTRY_END;
	*ret_piece = piece;
	*ret_used = e->state == ENTRY_END && piece == 0 ? n : at + piece;
	return 0;
}
