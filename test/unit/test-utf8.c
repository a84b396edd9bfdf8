/* SPDX-License-Identifier: Apache-2.0 */
/* test-utf8.c - which characters a terminal may get */
#include "base/utf8.h"

#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "lib/tap.h"

/* Default_Ignorable_Code_Point of Unicode 14, Bidi_Control, C1, and what looks empty. */
static const uint32_t bad[][2] = {
	{ 0x80, 0x9f },       { 0xad, 0xad },       { 0x34f, 0x34f },
	{ 0x61c, 0x61c },     { 0x115f, 0x1160 },   { 0x17b4, 0x17b5 },
	{ 0x180b, 0x180f },   { 0x200b, 0x200f },   { 0x2028, 0x202e },
	{ 0x2060, 0x206f },   { 0x2800, 0x2800 },   { 0x3164, 0x3164 },
	{ 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },   { 0xffa0, 0xffa0 },
	{ 0xfff0, 0xfffb },   { 0x16fe4, 0x16fe4 }, { 0x1bca0, 0x1bca3 },
	{ 0x1d159, 0x1d159 }, { 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff },
};

static size_t encode(uint32_t c, char *s)
{
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	if (n == 1) {
		s[0] = (char)c;
		return 1;
	}
	for (size_t i = n; i-- > 1; c >>= 6)
		s[i] = (char)(0x80 | (c & 0x3f));
	s[0] = (char)((0xf00 >> n & 0xff) | c);
	return n;
}

static bool is_bad(uint32_t c)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (c >= bad[i][0] && c <= bad[i][1])
			return true;
	return c < 0x20 || c == 0x7f;
}

TEST(every_character_is_shown_or_deceives)
{
	size_t wrong = 0, shown = 0;

	for (uint32_t c = 0; c <= 0x10ffff; c++) {
		char s[4];
		size_t n = encode(c, s), len = 0;
		bool surrogate = c >= 0xd800 && c < 0xe000;

		wrong += utf8_shows(s, n, &len) != (!surrogate && !is_bad(c));
		wrong += len != (surrogate ? 1 : n);
		shown += !surrogate && !is_bad(c);
	}
	EQ(wrong, 0);
	OK(shown > 1100000);
}

TEST(incomplete_sequences_are_not_shown)
{
	size_t len = 0;

	OK(!utf8_shows("\xe2\x80", 2, &len));
	EQ(len, 1);
	OK(!utf8_shows("\xff", 1, &len));
	OK(utf8_shows("x", 1, &len));
	OK(utf8_shows("\xc3\xa9", 2, &len));
	EQ(len, 2);
}

TEST(blanks_are_recognised)
{
	OK(utf8_is_blank(" ", 1));
	OK(utf8_is_blank("\xc2\xa0", 2));
	OK(utf8_is_blank("\xe3\x80\x80", 3));
	OK(!utf8_is_blank("x", 1));
	OK(!utf8_is_blank("\xc3\xa9", 2));
}

TEST(json_escapes_what_deceives)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };

	json_str(
		&j, NULL,
		"a\xc2\x9b \xe2\x80\xae \xf3\xa0\x80\x81 \xf0\x9d\x85\xb3 \xc3\xa9 \xf0\x9f\x98\x80");
	STREQ(out.data, "\"a\\u009b \\u202e \\udb40\\udc01 \\ud834\\udd73 \xc3\xa9 "
			"\xf0\x9f\x98\x80\"");
}

TEST_MAIN()
