/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - write JSON (there is no parser here) */
#include "base/json.h"

#include <inttypes.h>
#include <string.h>

#include "base/base64.h"
#include "base/hex.h"
#include "base/utf8.h"

/* Does the character need no escape in a string? */
static bool json_is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/*
 * A string is collected in pieces: otherwise, each line break would need two additions to
 * the buffer.
 */
struct json_piece {
	struct buf *out;
	size_t n;
	char room[256];
};

#define PIECE_SMALL 16 /* pieces up to this size are copied byte by byte */

static void json_piece_flush(struct json_piece *p)
{
	buf_add(p->out, p->room, p->n);
	p->n = 0;
}

static void json_piece_add(struct json_piece *p, const void *data, size_t n)
{
	const char *from = data;

	if (n > sizeof(p->room) - p->n)
		json_piece_flush(p);
	if (n > PIECE_SMALL) {
		json_piece_flush(p);
		buf_add(p->out, data, n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		p->room[p->n++] = from[i];
}

static void json_piece_escape(struct json_piece *p, unsigned char c)
{
	static const char short_escapes[128] = {
		['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
		['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't',
	};

	/*
	 * Do not use printf(3), because a client may send a string that consists only of
	 * such characters.
	 */
	if (short_escapes[c & 0x7f])
		json_piece_add(p, (const char[]){ '\\', short_escapes[c & 0x7f] }, 2);
	else
		json_piece_add(p,
			       (const char[]){ '\\', 'u', '0', '0', hex_digit(c >> 4),
					       hex_digit(c) },
			       6);
}

static void json_piece_unit(struct json_piece *p, uint32_t unit)
{
	json_piece_add(p,
		       (const char[]){ '\\', 'u',
				       hex_digit((unsigned char)(unit >> 12 & 15)),
				       hex_digit((unsigned char)(unit >> 8 & 15)),
				       hex_digit((unsigned char)(unit >> 4 & 15)),
				       hex_digit((unsigned char)(unit & 15)) },
		       6);
}

/* The output may go to a terminal: what would deceive there is escaped. */
static void json_piece_char(struct json_piece *p, uint32_t c)
{
	if (c < 0x10000) {
		json_piece_unit(p, c);
		return;
	}
	json_piece_unit(p, 0xd800 + ((c - 0x10000) >> 10));
	json_piece_unit(p, 0xdc00 + ((c - 0x10000) & 0x3ff));
}

/* Write a string in quotes. Long runs without escapes are common, so each is added as a
 * whole. */
static void put_string(struct buf *out, const char *text, size_t size)
{
	struct json_piece p;
	const unsigned char *s = (const unsigned char *)text;
	size_t from = 0, at = 0;

	p.out = out;
	p.n = 0;
	json_piece_add(&p, "\"", 1);
	while (at < size) {
		size_t n;

		if (json_is_plain(s[at])) {
			at++;
			continue;
		}
		n = utf8_len(s + at, size - at);
		if (n > 1 && !utf8_deceives(s + at, n)) {
			at += n;
			continue;
		}
		json_piece_add(&p, s + from, at - from);
		if (n == 0)
			json_piece_add(&p, "\xef\xbf\xbd", 3);
		else if (n > 1)
			json_piece_char(&p, utf8_char(s + at, n));
		else
			json_piece_escape(&p, s[at]);
		at += n ? n : 1;
		from = at;
	}
	json_piece_add(&p, s + from, size - from);
	json_piece_add(&p, "\"", 1);
	json_piece_flush(&p);
}

static void json_put_u64(struct buf *out, uint64_t n)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	buf_add(out, digits + at, sizeof(digits) - at);
}

static void put_key(struct json *j, const char *key)
{
	if (j->comma)
		buf_add(j->out, ",", 1);
	j->comma = true;
	if (key) {
		put_string(j->out, key, strlen(key));
		buf_add(j->out, ":", 1);
	}
}

void json_open(struct json *j, const char *key, char bracket)
{
	put_key(j, key);
	buf_add(j->out, &bracket, 1);
	j->comma = false;
}

void json_close(struct json *j, char bracket)
{
	buf_add(j->out, &bracket, 1);
	j->comma = true;
}

void json_str(struct json *j, const char *key, const char *value)
{
	if (value)
		json_strn(j, key, value, strlen(value));
	else
		json_nil(j, key);
}

void json_strn(struct json *j, const char *key, const void *value, size_t n)
{
	put_key(j, key);
	put_string(j->out, value, n);
}

void json_base64(struct json *j, const char *key, const void *value, size_t n)
{
	char *out;

	put_key(j, key);
	buf_add(j->out, "\"", 1);
	out = n <= SIZE_MAX / 4 ? buf_reserve(j->out, base64_size(n)) : NULL;
	if (!out) {
		j->out->failed = true;
		return;
	}
	base64_encode(value, n, out);
	j->out->len += base64_size(n);
	buf_add(j->out, "\"", 1);
}

void json_raw(struct json *j, const char *key, const char *text, size_t n)
{
	put_key(j, key);
	buf_add(j->out, text, n);
}

void json_int(struct json *j, const char *key, int64_t value)
{
	put_key(j, key);
	if (value < 0)
		buf_add(j->out, "-", 1);
	json_put_u64(j->out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void json_u64(struct json *j, const char *key, uint64_t value)
{
	put_key(j, key);
	json_put_u64(j->out, value);
}

void json_bool(struct json *j, const char *key, bool value)
{
	put_key(j, key);
	buf_puts(j->out, value ? "true" : "false");
}

void json_nil(struct json *j, const char *key)
{
	put_key(j, key);
	buf_puts(j->out, "null");
}

void json_milli(struct json *j, const char *key, uint64_t thousandths)
{
	put_key(j, key);
	buf_printf(j->out, "%" PRIu64 ".%03u", thousandths / 1000,
		   (unsigned)(thousandths % 1000));
}
