/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec.c - decode bytes into characters, one at a time
 *
 * A decoder takes one character from the front, or says how many bytes are invalid and
 * why, with the messages of Python's codecs. The handling of errors is the same for all
 * encodings.
 */
#include "api/swerex/codec.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "api/swerex/pyrepr.h"

enum errors {
	ERRORS_STRICT,
	ERRORS_IGNORE,
	ERRORS_REPLACE,
	ERRORS_BACKSLASH,
	ERRORS_MAX,
};

static const char *const error_names[] = {
	[ERRORS_STRICT] = "strict",
	[ERRORS_IGNORE] = "ignore",
	[ERRORS_REPLACE] = "replace",
	[ERRORS_BACKSLASH] = "backslashreplace",
};

_Static_assert(ARRAY_SIZE(error_names) == ERRORS_MAX, "an error handler has no name");

/* The first character of the input. */
struct taken {
	size_t n;        /* bytes */
	uint32_t c;      /* the character, if why is NULL */
	const char *why; /* why the bytes are not a character */
};

typedef codec_take_fn *take_fn;

static struct taken codec_bad(size_t n, const char *why)
{
	return (struct taken){ .n = n, .why = why };
}

static struct taken codec_good(size_t n, uint32_t c)
{
	return (struct taken){ .n = n, .c = c };
}

/* ------------------------------------------------------------------- decoders */

static struct taken take_utf8(const unsigned char *p, size_t n)
{
	size_t len = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	uint32_t c = len == 1 ? p[0] : p[0] & (0x7fU >> len);

	if ((p[0] >= 0x80 && p[0] < 0xc2) || p[0] > 0xf4)
		return codec_bad(1, "invalid start byte");
	for (size_t i = 1; i < len; i++) {
		unsigned low = 0x80, high = 0xbf;

		if (i == n)
			return codec_bad(n, "unexpected end of data");
		/*
		 * Refuse overlong forms, surrogates, and values above the last character
		 * of Unicode.
		 */
		if (i == 1 && p[0] == 0xe0)
			low = 0xa0;
		if (i == 1 && p[0] == 0xed)
			high = 0x9f;
		if (i == 1 && p[0] == 0xf0)
			low = 0x90;
		if (i == 1 && p[0] == 0xf4)
			high = 0x8f;
		if (p[i] < low || p[i] > high)
			return codec_bad(i, "invalid continuation byte");
		c = c << 6 | (p[i] & 0x3f);
	}
	return codec_good(len, c);
}

static struct taken take_ascii(const unsigned char *p, size_t n UNUSED)
{
	return p[0] < 0x80 ? codec_good(1, p[0])
			   : codec_bad(1, "ordinal not in range(128)");
}

static struct taken take_latin1(const unsigned char *p, size_t n UNUSED)
{
	return codec_good(1, p[0]);
}

static struct taken take_cp1252(const unsigned char *p, size_t n UNUSED)
{
	static const uint16_t c1[32] = {
		0x20ac, 0,      0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021,
		0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0,      0x017d, 0,
		0,      0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
		0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0,      0x017e, 0x0178,
	};
	uint32_t c = p[0] >= 0x80 && p[0] < 0xa0 ? c1[p[0] - 0x80] : p[0];

	return c || !p[0] ? codec_good(1, c)
			  : codec_bad(1, "character maps to <undefined>");
}

static uint32_t codec_unit(const unsigned char *p, size_t size, bool big)
{
	uint32_t c = 0;

	for (size_t i = 0; i < size; i++)
		c = c << 8 | p[big ? i : size - 1 - i];
	return c;
}

static struct taken take_utf16(const unsigned char *p, size_t n, bool big)
{
	uint32_t c, low;

	if (n < 2)
		return codec_bad(n, "truncated data");
	c = codec_unit(p, 2, big);
	if (c < 0xd800 || c > 0xdfff)
		return codec_good(2, c);
	if (c >= 0xdc00)
		return codec_bad(2, "illegal encoding");
	if (n < 4)
		return codec_bad(n, "unexpected end of data");
	low = codec_unit(p + 2, 2, big);
	if (low < 0xdc00 || low > 0xdfff)
		return codec_bad(2, "illegal UTF-16 surrogate");
	return codec_good(4, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
}

static struct taken take_utf32(const unsigned char *p, size_t n, bool big)
{
	uint32_t c;

	if (n < 4)
		return codec_bad(n, "truncated data");
	c = codec_unit(p, 4, big);
	if (c > 0x10ffff)
		return codec_bad(4, "code point not in range(0x110000)");
	if (c >= 0xd800 && c <= 0xdfff)
		return codec_bad(
			4, "code point in surrogate code point range(0xd800, 0xe000)");
	return codec_good(4, c);
}

static struct taken take_utf16le(const unsigned char *p, size_t n)
{
	return take_utf16(p, n, false);
}

static struct taken take_utf16be(const unsigned char *p, size_t n)
{
	return take_utf16(p, n, true);
}

static struct taken take_utf32le(const unsigned char *p, size_t n)
{
	return take_utf32(p, n, false);
}

static struct taken take_utf32be(const unsigned char *p, size_t n)
{
	return take_utf32(p, n, true);
}

/* Names are compared without punctuation, because most aliases differ only in that. */
static const struct codec_encoding {
	const char *names; /* each name has a space on both sides */
	const char *codec; /* the name in messages */
	take_fn take;
	const char *mark; /* byte order mark, which is not part of the text */
	take_fn other;    /* decoder for a mark in the other byte order */
} encodings[] = {
	{ " utf8 u8 utf cp65001 ", "utf-8", take_utf8, NULL, NULL },
	{ " utf8sig ", "utf-8", take_utf8, "\xef\xbb\xbf", NULL },
	{ " ascii usascii 646 ansix341968 iso646us us ", "ascii", take_ascii, NULL,
	  NULL },
	{ " latin1 latin l1 iso88591 8859 cp819 ibm819 iso885911987 ", "latin-1",
	  take_latin1, NULL, NULL },
	{ " cp1252 windows1252 1252 ", "charmap", take_cp1252, NULL, NULL },
	{ " utf16 u16 ", "utf-16", take_utf16le, "\xff\xfe", take_utf16be },
	{ " utf16le unicodelittleunmarked ", "utf-16-le", take_utf16le, NULL, NULL },
	{ " utf16be unicodebigunmarked ", "utf-16-be", take_utf16be, NULL, NULL },
	{ " utf32 u32 ", "utf-32", take_utf32le, "\xff\xfe\0\0", take_utf32be },
	{ " utf32le ", "utf-32-le", take_utf32le, NULL, NULL },
	{ " utf32be ", "utf-32-be", take_utf32be, NULL, NULL },
};

static const struct codec_encoding *find_encoding(const char *name)
{
	char tidy[34] = " ";
	size_t n = 1;

	for (const char *p = name; *p && n + 2 < sizeof(tidy); p++)
		if (isalnum((unsigned char)*p))
			tidy[n++] = (char)tolower((unsigned char)*p);
	tidy[n] = ' ';
	tidy[n + 1] = '\0';
	for (size_t i = 0; n > 1 && strlen(name) < 32 && i < ARRAY_SIZE(encodings); i++)
		if (strstr(encodings[i].names, tidy))
			return &encodings[i];
	return NULL;
}

/* ----------------------------------------------------------- decoding of a whole text */

static void codec_put(struct buf *out, uint32_t c)
{
	char text[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	if (n == 1) {
		text[0] = (char)c;
	} else {
		for (size_t i = n; i-- > 1; c >>= 6)
			text[i] = (char)(0x80 | (c & 0x3f));
		text[0] = (char)((0xf00U >> n & 0xff) | c);
	}
	buf_add(out, text, n);
}

static int codec_complain(const struct codec_encoding *e, const unsigned char *p,
			  size_t n, size_t at, const char *why, struct warren_error *err)
{
	if (n == 1 && e->take == take_cp1252)
		return error_set(err, EILSEQ,
				 "'charmap' codec can't decode byte 0x%02x in position "
				 "%zu: %s",
				 *p, at, why);
	if (n == 1)
		return error_set(
			err, EILSEQ,
			"'%s' codec can't decode byte 0x%02x in position %zu: %s",
			e->codec, *p, at, why);
	return error_set(err, EILSEQ,
			 "'%s' codec can't decode bytes in position %zu-%zu: %s",
			 e->codec, at, at + n - 1, why);
}

/* Handle @n bytes that are not a character; -EILSEQ for strict. */
static int deal_with(enum errors errors, const unsigned char *p, size_t n,
		     struct buf *out)
{
	switch (errors) {
	case ERRORS_IGNORE:
		return 0;
	case ERRORS_REPLACE:
		codec_put(out, 0xfffd);
		return 0;
	case ERRORS_BACKSLASH:
		for (size_t i = 0; i < n; i++)
			python_put_byte(out, p[i]);
		return 0;
	case ERRORS_STRICT:
	case ERRORS_MAX:
		break;
	}
	return -EILSEQ;
}

static int find_errors(const char *name, enum errors *ret, struct warren_error *err)
{
	for (int i = 0; i < ERRORS_MAX; i++)
		if (strcmp(error_names[i], name) == 0) {
			*ret = (enum errors)i;
			return 0;
		}
	return error_set(err, ENOSYS, "unknown error handler name '%.40s'", name);
}

/* Skip the byte order mark; it may select the other byte order. */
static size_t skip_mark(const struct codec_encoding *e, const unsigned char *p, size_t n,
			take_fn *take)
{
	size_t unit_size = e->take == take_utf32le ? 4 : e->other ? 2 : 3;

	if (!e->mark || n < unit_size)
		return 0;
	if (memcmp(p, e->mark, unit_size) == 0)
		return unit_size;
	if (e->other && codec_unit(p, unit_size, true) == 0xfeff) {
		*take = e->other;
		return unit_size;
	}
	return 0;
}

int codec_open(struct codec *c, const char *encoding, const char *errors,
	       const char *data, size_t n, struct warren_error *err)
{
	const struct codec_encoding *e = find_encoding(encoding ? encoding : "utf-8");
	enum errors ways;

	if (!e)
		return error_set(err, ENOSYS, "unknown encoding: %.40s", encoding);
	if (find_errors(errors ? errors : "strict", &ways, err) < 0)
		return -ENOSYS;
	*c = (struct codec){ .encoding = e,
			     .take = e->take,
			     .errors = ways,
			     .data = (const unsigned char *)data,
			     .size = n };
	c->at = skip_mark(e, c->data, n, &c->take);
	return 0;
}

int codec_next(struct codec *c, size_t n, struct buf *out, struct warren_error *err)
{
	size_t until = n < c->size - c->at ? c->at + n : c->size;

	while (c->at < until && !out->failed) {
		const unsigned char *p = c->data + c->at;
		/*
		 * Pass all remaining bytes: a character may be longer than the requested
		 * size.
		 */
		struct taken t = c->take(p, c->size - c->at);

		if (t.why) {
			if (deal_with((enum errors)c->errors, p, t.n, out) < 0)
				return codec_complain(c->encoding, p, t.n, c->at, t.why,
						      err);
			c->after_cr = false;
		} else if (!(t.c == '\n' && c->after_cr)) {
			codec_put(out, t.c == '\r' ? '\n' : t.c);
			c->after_cr = t.c == '\r';
		} else {
			/* The CR and LF together were one line end. */
			c->after_cr = false;
		}
		c->at += t.n;
	}
	if (out->failed)
		return error_errno(err, ENOMEM, "decode");
	return c->at < c->size;
}

int codec_check(struct codec c, struct warren_error *err)
{
	char room[4096];
	int r = c.errors == ERRORS_STRICT;

	/* One byte of input becomes at most four bytes. */
	while (r > 0) {
		struct buf out = BUF_IN(room);

		r = codec_next(&c, sizeof(room) / 4 - 4, &out, err);
	}
	return r;
}

int codec_decode(const char *encoding, const char *errors, const char *data, size_t n,
		 struct buf *out, struct warren_error *err)
{
	struct codec c;
	int r = codec_open(&c, encoding, errors, data, n, err);

	return r < 0 ? r : codec_next(&c, n, out, err) < 0 ? -err->code : 0;
}
