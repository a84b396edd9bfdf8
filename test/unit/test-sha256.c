/* SPDX-License-Identifier: Apache-2.0 */
/* test-sha256.c - sums of the standard's examples, in pieces of every size */
#include "base/sha256.h"

#include "lib/tap.h"

static char digits[SHA256_DIGITS + 1];

static const char *sum_of(const char *text, size_t n, size_t piece)
{
	struct sha256 h = SHA256_INIT;

	for (size_t i = 0; i < n; i += piece)
		sha256_add(&h, text + i, n - i < piece ? n - i : piece);
	sha256_end(&h, digits);
	return digits;
}

TEST(examples)
{
	STREQ(sum_of("", 0, 1),
	      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	STREQ(sum_of("abc", 3, 3),
	      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	STREQ(sum_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, 56),
	      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(pieces_make_no_difference)
{
	char text[300], whole[SHA256_DIGITS + 1];

	(void)memset(text, 'a', sizeof(text));
	for (size_t n = 0; n < sizeof(text); n++) {
		(void)strcpy(whole, sum_of(text, n, n + 1));
		for (size_t piece = 1; piece < 70; piece += 9)
			STREQ(sum_of(text, n, piece), whole);
	}
}

TEST(texts_do_not_run_together)
{
	struct sha256 a = SHA256_INIT, b = SHA256_INIT;
	char one[SHA256_DIGITS + 1];

	sha256_text(&a, "ab");
	sha256_text(&a, "c");
	sha256_text(&b, "a");
	sha256_text(&b, "bc");
	sha256_end(&a, one);
	sha256_end(&b, digits);
	OK(strcmp(one, digits) != 0);
}

TEST_MAIN()
