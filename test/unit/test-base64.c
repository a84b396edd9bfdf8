/* SPDX-License-Identifier: Apache-2.0 */
/* test-base64.c - encode and decode base64; invalid base64 is refused */
#include "base/base64.h"

#include <errno.h>
#include <string.h>

#include "lib/tap.h"

/* RFC 4648, section 10. */
static const char *const vectors[][2] = {
	{ "", "" },
	{ "f", "Zg==" },
	{ "fo", "Zm8=" },
	{ "foo", "Zm9v" },
	{ "foob", "Zm9vYg==" },
	{ "fooba", "Zm9vYmE=" },
	{ "foobar", "Zm9vYmFy" },
};

TEST(bytes_are_encoded)
{
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		size_t n = strlen(vectors[i][0]);
		char out[16] = "";

		base64_encode(vectors[i][0], n, out);
		STREQ(out, vectors[i][1]);
		EQ(base64_size(n), strlen(vectors[i][1]));
	}
}

TEST(text_is_decoded)
{
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		char out[16] = "";

		EQ(base64_decode(vectors[i][1], strlen(vectors[i][1]), out),
		   (ssize_t)strlen(vectors[i][0]));
		STREQ(out, vectors[i][0]);
	}
}

TEST(every_byte_survives_decoding_in_place)
{
	unsigned char bytes[256];
	char text[345] = "";

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)i;
	base64_encode(bytes, sizeof(bytes), text);
	EQ(base64_size(sizeof(bytes)), 344);
	OK(strchr(text, '+') && strchr(text, '/'));
	OK(base64_valid(text, 344));
	EQ(base64_decode(text, 344, text), 256);
	OK(memcmp(text, bytes, sizeof(bytes)) == 0);
}

TEST(invalid_base64_is_refused)
{
	static const char *const bad[] = {
		"Z",    "Zg",   "Zg=",       "Zg==Zg==", "Z===", "====",  "=g==",
		"Zg=v", "Zm-v", "Zm9v\n   ", "Zm 9",     "Zm_v", "Zm9v=",
	};
	char out[16];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		EQ(base64_decode(bad[i], strlen(bad[i]), out), -EINVAL);
		OK(!base64_valid(bad[i], strlen(bad[i])));
	}
	EQ(base64_decode("Zg\0=", 4, out), -EINVAL);
	OK(base64_valid("Zg==", 4));
}

TEST_MAIN()
