/* SPDX-License-Identifier: Apache-2.0 */
/* test-hex.c - hexadecimal digits are written in lower case, and read in either case */
#include "base/hex.h"

#include "lib/tap.h"

TEST(a_byte_is_written_as_two_digits)
{
	char out[11];

	OK(hex_encode("\x00\x0f\x10\xab\xff", 5, out) == out + 10);
	STREQ(out, "000f10abff");
	OK(hex_encode("", 0, out) == out);
	STREQ(out, "");
}

TEST(digits_of_either_case_are_read)
{
	for (int i = 0; i < 16; i++) {
		EQ(hex_value("0123456789abcdef"[i]), i);
		EQ(hex_value("0123456789ABCDEF"[i]), i);
		EQ(hex_digit((unsigned)i), "0123456789abcdef"[i]);
	}
	for (const char *c = "/:@G`g \xff"; *c; c++)
		EQ(hex_value(*c), -1);
	EQ(hex_value('\0'), -1);
}

TEST(only_lower_case_hex_of_the_right_length_is_recognised)
{
	OK(hex_is("00ff", 4));
	OK(!hex_is("00ff", 3));
	OK(!hex_is("00ff", 5));
	OK(!hex_is("00fF", 4));
	OK(!hex_is("00fg", 4));
	OK(hex_is("", 0));
}

TEST_MAIN()
