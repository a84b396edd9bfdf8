/* SPDX-License-Identifier: Apache-2.0 */
/* test-ref.c - references: docker's normal form, its short form, and invalid ones */
#include "image/ref.h"

#include <errno.h>

#include "lib/tap.h"

#define HEX    "0123456789abcdef"
#define DIGEST "sha256:" HEX HEX HEX HEX
#define TEN    "aaaaaaaaaa"
#define SIXTY  TEN TEN TEN TEN TEN TEN

static void check_good(const char *text, const char *whole, const char *familiar)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char got[REF_TEXT_MAX];
	struct ref ref;

	if (ref_parse(text, &ref, &err) != 0 || err.code != 0)
		TAP_FAIL("'%s' is refused: %s", text, err.msg);
	ref_text(&ref, got);
	STREQ(got, whole);
	ref_familiar(&ref, got);
	STREQ(got, familiar);
}

TEST(references_are_normalised)
{
	static const struct {
		const char *text, *whole, *familiar;
	} good[] = {
		{ "python", "docker.io/library/python:latest", "python:latest" },
		{ "python:3.12", "docker.io/library/python:3.12", "python:3.12" },
		{ "me/tool", "docker.io/me/tool:latest", "me/tool:latest" },
		{ "library/python", "docker.io/library/python:latest", "python:latest" },
		{ "docker.io/python", "docker.io/library/python:latest",
		  "python:latest" },
		{ "index.docker.io/me/x", "docker.io/me/x:latest", "me/x:latest" },
		{ "docker.io/library/a.b/c", "docker.io/library/a.b/c:latest",
		  "library/a.b/c:latest" },
		{ "docker.io/a.b/c", "docker.io/a.b/c:latest", "docker.io/a.b/c:latest" },
		{ "docker.io/localhost/x", "docker.io/localhost/x:latest",
		  "docker.io/localhost/x:latest" },
		{ "localhost/x", "localhost/x:latest", "localhost/x:latest" },
		{ "localhost:5000/x", "localhost:5000/x:latest",
		  "localhost:5000/x:latest" },
		{ "[::1]:5000/x:1", "[::1]:5000/x:1", "[::1]:5000/x:1" },
		{ "127.0.0.1:1/a/b/c:T_.-9", "127.0.0.1:1/a/b/c:T_.-9",
		  "127.0.0.1:1/a/b/c:T_.-9" },
		{ "Host/x", "Host/x:latest", "Host/x:latest" },
		{ "a.b/c@" DIGEST, "a.b/c@" DIGEST, "a.b/c@" DIGEST },
		{ "x:1@" DIGEST, "docker.io/library/x:1@" DIGEST, "x:1@" DIGEST },
		{ "a__b/c.d/e-f/g---h", "docker.io/a__b/c.d/e-f/g---h:latest",
		  "a__b/c.d/e-f/g---h:latest" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		check_good(good[i].text, good[i].whole, good[i].familiar);
}

TEST(a_reference_is_split_into_its_parts)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct ref ref;

	EQ(ref_parse("reg.example.com:5000/a/b:1@" DIGEST, &ref, &err), 0);
	STREQ(ref.registry, "reg.example.com:5000");
	STREQ(ref.name, "a/b");
	STREQ(ref.tag, "1");
	STREQ(ref.digest, DIGEST);
	EQ(ref_parse("a/b@" DIGEST, &ref, &err), 0);
	STREQ(ref.tag, "");
}

TEST(invalid_references_are_refused)
{
	static const char *const bad[] = {
		"",
		" ",
		"Python",
		"a//b",
		"/a",
		"a/",
		"a:",
		":a",
		"a:b:c",
		"a b",
		"-a",
		"a-",
		"a.",
		".a",
		"_a",
		"a___b",
		"a..b",
		"a._b",
		"../a",
		"a/../b",
		"a\n",
		"a:b\n",
		"a:-b",
		"a:.b",
		"a:b/c:d:e",
		"http://a/b",
		"https://a/b",
		"user@a.b/c",
		"a.b:port/c",
		"a.b:/c",
		"a.b:123456/c",
		"a..b/c",
		".a.b/c",
		"-a.b/c",
		"a.b-/c",
		"[::1/x",
		"[::g]/x",
		"[]x/y",
		"a.b/C",
		"a.b/",
		"localhost:5000/",
		"a@",
		"a@sha256:",
		"a@" DIGEST "0",
		"a@sha512:" HEX,
		"a@SHA256:" HEX HEX HEX HEX,
		"a@sha256:" HEX HEX HEX "0123456789ABCDEF",
		"a@" DIGEST "@" DIGEST,
		"a%2fb",
		"a?b",
		"a#b",
		"a.b/c?d",
		"a\\b",
		"\xc3\xa4",
		"a:" SIXTY SIXTY TEN,
		SIXTY SIXTY SIXTY SIXTY TEN TEN,
		SIXTY SIXTY SIXTY SIXTY TEN TEN ".b/c",
		SIXTY SIXTY SIXTY SIXTY SIXTY SIXTY SIXTY SIXTY SIXTY SIXTY SIXTY SIXTY
			SIXTY,
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct warren_error err = WARREN_ERROR_INIT;
		struct ref ref = { .name = "untouched" };

		if (ref_parse(bad[i], &ref, &err) != -EINVAL || err.code != EINVAL)
			TAP_FAIL("'%s' is taken", bad[i]);
		STREQ(ref.name, "untouched");
		OK(strstr(err.msg, "is not an image reference"));
	}
}

/* "library/" is added to a short name, and counts towards the length. */
TEST(a_name_up_to_the_maximum_length_is_accepted)
{
	static const char *const prefixes[] = { "", "docker.io/", "index.docker.io/" };
	struct warren_error err = WARREN_ERROR_INIT;
	char text[REF_TEXT_MAX];
	struct ref ref;

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		for (int n = 240; n < 270; n++) {
			(void)snprintf(text, sizeof(text), "%s%.*s:tag", prefixes[i], n,
				       SIXTY SIXTY SIXTY SIXTY SIXTY);
			EQ(ref_parse(text, &ref, &err), n <= 247 ? 0 : -EINVAL);
			if (n > 247)
				continue;
			EQ(strlen(ref.name), n + 8);
			STREQ(ref.tag, "tag");
		}
}

TEST(digests_are_validated)
{
	OK(ref_digest_valid(DIGEST));
	OK(!ref_digest_valid(""));
	OK(!ref_digest_valid("sha256:"));
	OK(!ref_digest_valid("sha256:" HEX));
	OK(!ref_digest_valid(DIGEST "0"));
	OK(!ref_digest_valid("sha512:" HEX HEX HEX HEX));
	OK(!ref_digest_valid("sha256:" HEX HEX HEX "0123456789ABCDEF"));
}

TEST(loopback_registries_are_recognised)
{
	static const struct {
		const char *text;
		bool loopback;
	} cases[] = {
		{ "localhost/x", true },
		{ "localhost:5000/x", true },
		{ "127.0.0.1:5000/x", true },
		{ "127.1.2.3/x", true },
		{ "[::1]/x", true },
		{ "[::1]:5000/x", true },
		{ "python", false },
		{ "localhost.example.com/x", false },
		{ "127.0.0.1.example.com/x", false },
		{ "127.example.com/x", false },
		{ "[::2]:5000/x", false },
		{ "128.0.0.1/x", false },
		{ "example.com:127/x", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct warren_error err = WARREN_ERROR_INIT;
		struct ref ref;

		EQ(ref_parse(cases[i].text, &ref, &err), 0);
		if (ref_is_loopback(&ref) != cases[i].loopback)
			TAP_FAIL("'%s' %s", cases[i].text,
				 cases[i].loopback ? "is" : "is not");
	}
}

TEST_MAIN()
