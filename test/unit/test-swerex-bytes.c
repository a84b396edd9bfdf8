/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-swerex-bytes.c - encodings, forms, values in Python's notation, and terminal
 * output
 */
#include <errno.h>
#include <string.h>

#include "api/multipart.h"
#include "api/swerex/codec.h"
#include "api/swerex/pyrepr.h"
#include "lib/tap.h"
#include "service/session/expect.h"

TEST(text_is_decoded_by_its_encoding)
{
	static const struct {
		const char *encoding, *errors, *in;
		size_t n;
		const char *out;
	} good[] = {
		{ NULL, NULL, "a\xc3\xa4", 3, "a\xc3\xa4" },
		{ "utf-8-sig", NULL,
		  "\xef\xbb\xbf"
		  "a",
		  4, "a" },
		{ "UTF_8", "replace", "a\xff\xe2\x82z", 5, "a\xef\xbf\xbd\xef\xbf\xbdz" },
		{ "u8", "backslashreplace", "\xe2\x82", 2, "\\xe2\\x82" },
		{ "ascii", "ignore",
		  "a\xff"
		  "b",
		  3, "ab" },
		{ "ISO-8859-1", NULL, "\xe4", 1, "\xc3\xa4" },
		{ "cp1252", NULL, "\x80", 1, "\xe2\x82\xac" },
		{ "utf-16", NULL,
		  "\xff\xfe"
		  "a\0\x3d\xd8\x00\xde",
		  8, "a\xf0\x9f\x98\x80" },
		{ "utf-16", NULL, "\xfe\xff\0a", 4, "a" },
		{ "utf-16-be", NULL, "\0a", 2, "a" },
		{ "utf-32-le", NULL, "a\0\0\0", 4, "a" },
		{ NULL, NULL, "a\r\nb\rc\n\n\r", 9, "a\nb\nc\n\n\n" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		AUTO_BUF struct buf out = BUF_INIT(1024);
		struct warren_error err = WARREN_ERROR_INIT;

		EQ(codec_decode(good[i].encoding, good[i].errors, good[i].in, good[i].n,
				&out, &err),
		   0);
		STREQ(out.data, good[i].out);
	}
}

TEST(undecodable_input_is_refused_as_by_python)
{
	static const struct {
		const char *encoding, *errors, *in, *why;
		int code;
	} bad[] = {
		{ NULL, NULL, "a\xff",
		  "'utf-8' codec can't decode byte 0xff in position 1: invalid start byte",
		  EILSEQ },
		{ NULL, "strict", "\xe2\x82(",
		  "'utf-8' codec can't decode bytes in position 0-1: invalid continuation "
		  "byte",
		  EILSEQ },
		{ NULL, NULL, "\xe2",
		  "'utf-8' codec can't decode byte 0xe2 in position 0: unexpected end of "
		  "data",
		  EILSEQ },
		{ "ascii", NULL, "\x80",
		  "'ascii' codec can't decode byte 0x80 in position 0: ordinal not in "
		  "range(128)",
		  EILSEQ },
		{ "utf-16-le", NULL, "abc",
		  "'utf-16-le' codec can't decode byte 0x63 in position 2: truncated data",
		  EILSEQ },
		{ "klingon", NULL, "", "unknown encoding: klingon", ENOSYS },
		{ "", NULL, "", "unknown encoding: ", ENOSYS },
		{ NULL, "pray", "", "unknown error handler name 'pray'", ENOSYS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		AUTO_BUF struct buf out = BUF_INIT(1024);
		struct warren_error err = WARREN_ERROR_INIT;

		EQ(codec_decode(bad[i].encoding, bad[i].errors, bad[i].in,
				strlen(bad[i].in), &out, &err),
		   -bad[i].code);
		STREQ(err.msg, bad[i].why);
	}
}

TEST(values_are_written_as_python_writes_them)
{
	static const struct {
		const char *in, *out;
	} texts[] = { { "a", "'a'" },
		      { "it's", "\"it's\"" },
		      { "'\"", "'\\'\"'" },
		      { "\n\t\\\x01", "'\\n\\t\\\\\\x01'" },
		      { "\xc3\xa4", "'\xc3\xa4'" } };
	static const struct {
		double in;
		const char *out;
	} numbers[] = { { 0.1, "0.1" },
			{ 5, "5.0" },
			{ 0.30000000000000004, "0.30000000000000004" } };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		AUTO_BUF struct buf out = BUF_INIT(1024);

		python_repr(&out, texts[i].in, strlen(texts[i].in));
		STREQ(out.data, texts[i].out);
	}
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		AUTO_BUF struct buf out = BUF_INIT(1024);

		python_float(&out, numbers[i].in);
		STREQ(out.data, numbers[i].out);
	}
}

TEST(content_types_of_forms_are_recognised)
{
	static const char *const good[] = {
		"multipart/form-data; boundary=x",
		"Multipart/Form-Data; charset=a; boundary=\"a b\""
	};
	static const char *const bad[] = { NULL,
					   "",
					   "text/plain; boundary=x",
					   "multipart/form-data",
					   "multipart/form-data; boundary=",
					   "multipart/form-data; boundary=\"x",
					   "multipart/form-data; boundary=\x01" };
	struct multipart m;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct warren_error err = WARREN_ERROR_INIT;

		EQ(multipart_init(&m, good[i], &err), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct warren_error err = WARREN_ERROR_INIT;

		EQ(multipart_init(&m, bad[i], &err), -EINVAL);
	}
}

TEST(the_first_expected_pattern_is_found)
{
	static const char *const texts[] = { "never", "(gdb) ", "b+c", "[" };
	static const struct {
		const char *in;
		int which;
		size_t from, to;
	} all[] = { { "abbbc", 2, 1, 5 },
		    { "x(gdb) y", 1, 1, 7 },
		    { "xx[bc", 3, 2, 3 },
		    { "nothing", -1, 0, 0 },
		    { "gdb ", 1, 0, 4 } };
	struct expect *e = expect_new(texts, ARRAY_SIZE(texts));

	OK(e);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		size_t from = 0, to = 0;

		EQ(expect_find(e, all[i].in, strlen(all[i].in), 0, &from, &to),
		   all[i].which);
		EQ(from, all[i].from);
		EQ(to, all[i].to);
	}
	(void)expect_free(e);
}

/* A buffer has no memory before a program has written anything. */
TEST(patterns_are_searched_in_output_that_does_not_exist_yet)
{
	static const char *const texts[] = { "never", "^$|b" }, *const empty[] = { "" };
	struct expect *e = expect_new(texts, 1), *any = expect_new(texts, 2),
		      *none = expect_new(empty, 1);
	size_t from = 7, to = 7;

	OK(e && any && none);
	EQ(expect_find(e, NULL, 0, 0, &from, &to), -1);
	EQ(expect_find(any, NULL, 0, 0, &from, &to), 1);
	EQ(from, 0);
	EQ(to, 0);
	EQ(expect_find(none, "", 0, 0, &from, &to), 0);
	EQ(expect_find(none, NULL, 0, 0, &from, &to), 0);
	(void)expect_free(e);
	(void)expect_free(any);
	(void)expect_free(none);
}

/* Searches of a client's patterns in a program's output are bounded. */
TEST(the_cost_of_expected_patterns_is_limited)
{
	static const char *const large[] = { "(a?){150}b", "(c?){150}d" };
	const char *many[EXPECT_MAX + 1];
	struct expect *e = expect_new(large, 1);
	size_t from = 0, to = 0;

	OK(e);
	EQ(expect_find(e, "xaaab", 5, 0, &from, &to), 0);
	EQ(from, 1);
	EQ(to, 5);
	(void)expect_free(e);
	OK(!expect_new(large, 2));
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = "text";
	OK(!expect_new(many, EXPECT_MAX + 1));
	e = expect_new(many, EXPECT_MAX);
	OK(e);
	(void)expect_free(e);
}

TEST(terminal_control_sequences_are_removed)
{
	static const struct {
		const char *in, *out;
	} all[] = { { "\033[1;31mred\033[0m", "red" },
		    { "a\r\nb\rc\r\r\n", "a\nb\rc\r\n" },
		    { "\033]0;title\aa\033]2;x\033\\b", "ab" },
		    { "\033(Ba\033=b\0337c", "abc" },
		    { "a\033", "a" },
		    { "a\033[12", "a" },
		    { "\033[?2004h>>> ", ">>> " } };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		AUTO_BUF struct buf out = BUF_INIT(1024);

		expect_plain(&out, all[i].in, strlen(all[i].in));
		STREQ(out.data, all[i].out);
	}
}

TEST_MAIN()
