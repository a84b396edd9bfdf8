/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - the writer; parsing JSON is not done here */
#include "base/json.h"

#include <inttypes.h>
#include <string.h>

/* Length of the UTF-8 sequence at @s, 0 when it is not one (overlong, surrogate, cut off). */
static size_t utf8_len(const unsigned char *s)
{
	uint32_t c;
	size_t n;

	if (s[0] < 0x80)
		return 1;
	n = s[0] >= 0xf0 && s[0] <= 0xf4 ? 4 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : 2;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	c = s[0] & (0x7fU >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if ((n == 3 && c < 0x800) || (n == 4 && (c < 0x10000 || c > 0x10ffff)) ||
	    (c >= 0xd800 && c <= 0xdfff))
		return 0;
	return n;
}

static void put_string(struct buf *out, const char *text)
{
	static const char short_escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";
	const unsigned char *s = (const unsigned char *)text;

	buf_puts(out, "\"");
	while (*s) {
		const char *e = short_escapes;
		size_t n = utf8_len(s);

		while (*e && *e != (char)*s)
			e += 2;
		if (*e)
			buf_printf(out, "\\%c", e[1]);
		else if (n == 0)
			buf_puts(out, "\xef\xbf\xbd");
		else if (*s < 0x20 || *s == 0x7f)
			buf_printf(out, "\\u%04x", (unsigned)*s);
		else
			buf_add(out, s, n);
		s += n ? n : 1;
	}
	buf_puts(out, "\"");
}

static void put_key(struct json *j, const char *key)
{
	if (j->comma)
		buf_puts(j->out, ",");
	j->comma = true;
	if (key) {
		put_string(j->out, key);
		buf_puts(j->out, ":");
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
	put_key(j, key);
	if (value)
		put_string(j->out, value);
	else
		buf_puts(j->out, "null");
}

void json_int(struct json *j, const char *key, int64_t value)
{
	put_key(j, key);
	buf_printf(j->out, "%" PRId64, value);
}

void json_u64(struct json *j, const char *key, uint64_t value)
{
	put_key(j, key);
	buf_printf(j->out, "%" PRIu64, value);
}

void json_bool(struct json *j, const char *key, bool value)
{
	put_key(j, key);
	buf_puts(j->out, value ? "true" : "false");
}

void json_null(struct json *j, const char *key)
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
