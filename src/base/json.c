/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - write JSON; this does not parse it */
#include "base/json.h"

#include <inttypes.h>
#include <string.h>

#include "base/base64.h"
#include "base/hex.h"
#include "base/utf8.h"

/* What stands in a string as it is. */
static bool json_is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void put_escape(struct buf *out, unsigned char c)
{
	static const char short_escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";
	const char *e = short_escapes;

	while (*e && *e != (char)c)
		e += 2;
	/* Not by printf(3): a stranger may send nothing else, and many of them. */
	if (*e)
		buf_add(out, (const char[]){ '\\', e[1] }, 2);
	else
		buf_add(out,
			(const char[]){ '\\', 'u', '0', '0', hex_digit(c >> 4),
					hex_digit(c) },
			6);
}

/* Long runs that need nothing done are the rule: they are added at once. */
static void put_string(struct buf *out, const char *text, size_t size)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t from = 0, at = 0;

	buf_add(out, "\"", 1);
	while (at < size) {
		size_t n;

		if (json_is_plain(s[at])) {
			at++;
			continue;
		}
		n = utf8_len(s + at, size - at);
		if (n > 1) {
			at += n;
			continue;
		}
		if (at > from)
			buf_add(out, s + from, at - from);
		if (n == 0)
			buf_puts(out, "\xef\xbf\xbd");
		else
			put_escape(out, s[at]);
		from = ++at;
	}
	buf_add(out, s + from, size - from);
	buf_add(out, "\"", 1);
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
