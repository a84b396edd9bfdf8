/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-buf.c - a buffer grows to its maximum and no further, and errors are reported
 * once, at the end
 */
#include "base/buf.h"

#include <errno.h>

#include "base/error.h"
#include "lib/tap.h"

TEST(a_buffer_grows_and_stays_terminated)
{
	AUTO_BUF struct buf b = BUF_INIT(100000);

	for (int i = 0; i < 10000; i++) {
		buf_add(&b, "0123456789", 10);
		EQ(b.len, (i + 1) * 10);
		EQ(b.data[b.len], '\0');
	}
	OK(!b.failed);
	for (size_t i = 0; i < b.len; i++)
		EQ(b.data[i], '0' + (int)(i % 10));
}

TEST(a_buffer_accepts_exactly_its_maximum)
{
	AUTO_BUF struct buf b = BUF_INIT(300);
	char block[300];

	(void)memset(block, 'x', sizeof(block));
	buf_add(&b, block, 300);
	OK(!b.failed);
	EQ(b.len, 300);
	EQ(b.data[300], '\0');
	buf_add(&b, "", 0);
	OK(!b.failed);
	buf_add(&b, "y", 1);
	OK(b.failed);
	EQ(b.len, 300);
}

TEST(a_failed_buffer_stays_failed)
{
	AUTO_BUF struct buf b = BUF_INIT(4);

	buf_puts(&b, "ab");
	buf_puts(&b, "cde");
	OK(b.failed);
	buf_puts(&b, "c"); /* it would fit, but the previous piece would be missing */
	STREQ(b.data, "ab");
	EQ(b.len, 2);
	OK(!buf_reserve(&b, 1));
	OK(b.full);
}

TEST(a_buffer_can_use_the_callers_memory)
{
	char room[8];
	struct buf b = BUF_IN(room);

	buf_puts(&b, "1234567");
	OK(!b.failed);
	STREQ(room, "1234567");
	buf_puts(&b, "8");
	OK(b.failed && b.full);
	STREQ(room, "1234567");
}

TEST(nothing_fits_in_a_buffer_of_size_zero)
{
	AUTO_BUF struct buf b = BUF_INIT(0);

	buf_add(&b, NULL, 0);
	OK(!b.failed);
	buf_add(&b, "x", 1);
	OK(b.failed);
}

TEST(a_buffer_can_contain_nul_bytes)
{
	AUTO_BUF struct buf b = BUF_INIT(1000);
	char all[256];

	for (int i = 0; i < 256; i++)
		all[i] = (char)i;
	buf_add(&b, all, sizeof(all));
	buf_add(&b, all, sizeof(all));
	EQ(b.len, 512);
	EQ(memcmp(b.data, all, 256), 0);
	EQ(memcmp(b.data + 256, all, 256), 0);
}

TEST(formatted_text_is_appended)
{
	AUTO_BUF struct buf b = BUF_INIT(64);

	buf_printf(&b, "%d-%s", 42, "x");
	buf_printf(&b, "%s", "");
	STREQ(b.data, "42-x");
	OK(!b.failed);
}

/* The text is not truncated, because a truncated text would be wrong. */
TEST(a_print_that_does_not_fit_fails)
{
	static const size_t sizes[] = { 1022, 1023, 1024, 4999 };
	static char word[5000];

	for (size_t i = 0; i < 2 * ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i / 2];
		bool fits = i % 2;
		AUTO_BUF struct buf b = BUF_INIT(n + 2 - !fits);

		(void)memset(word, 'x', n);
		word[n] = '\0';
		buf_printf(&b, "%s-", word);
		buf_puts(&b, "!");
		EQ(b.failed, !fits);
		if (!fits)
			continue;
		EQ(b.len, n + 2);
		OK(strncmp(b.data, word, n) == 0);
		STREQ(b.data + n, "-!");
	}
}

TEST(space_can_be_reserved)
{
	AUTO_BUF struct buf b = BUF_INIT(1000);
	char *p = buf_reserve(&b, 1000);

	OK(p);
	(void)memset(p, 'z', 1000);
	b.len += 1000;
	OK(!b.failed);
	OK(!buf_reserve(&b, 1));
	OK(b.failed);
}

/* Without a maximum, an impossible size is refused. */
TEST(a_size_that_overflows_is_refused)
{
	AUTO_BUF struct buf b = BUF_INIT(SIZE_MAX);

	(void)alarm(10);
	buf_puts(&b, "x");
	OK(!buf_reserve(&b, SIZE_MAX / 2 + 2));
	OK(b.failed);
}

TEST(a_freed_buffer_can_be_used_again)
{
	struct buf b = BUF_INIT(10);

	buf_puts(&b, "01234567890");
	OK(b.failed);
	buf_done(&b);
	buf_done(&b);
	OK(!b.failed && !b.data && b.len == 0 && b.max == 10);
	buf_puts(&b, "abc");
	STREQ(b.data, "abc");
	buf_done(&b);
}

/* ------------------------------------------------------------------- errors */

TEST(an_error_message_has_context_and_cause)
{
	struct warren_error err = WARREN_ERROR_INIT;

	EQ(error_set(&err, EINVAL, "no %s", "way"), -EINVAL);
	EQ(err.code, EINVAL);
	STREQ(err.msg, "no way");
	EQ(error_errno(&err, ENOENT, "open '%s'", "x"), -ENOENT);
	STREQ(err.msg, "open 'x': No such file or directory");
	EQ(error_wrap(&err, "start %d", 7), -ENOENT);
	STREQ(err.msg, "start 7: open 'x': No such file or directory");
	EQ(error_errno(&err, 4095, "x"), -4095);
	STREQ(err.msg, "x: unknown error");
}

TEST(a_long_error_message_is_truncated)
{
	struct {
		struct warren_error err;
		char guard[8];
	} s = { .guard = "guard" };
	static char word[4096];

	(void)memset(word, 'w', sizeof(word) - 1);
	EQ(error_set(&s.err, EIO, "%s", word), -EIO);
	for (int i = 0; i < 10; i++)
		EQ(error_wrap(&s.err, "%s", word), -EIO);
	EQ(error_errno(&s.err, EIO, "%s", word), -EIO);
	EQ(strlen(s.err.msg), sizeof(s.err.msg) - 1);
	STREQ(s.guard, "guard");
}

/* A format string in a message from elsewhere is only text. */
TEST(an_error_is_not_a_format_string)
{
	struct warren_error err = WARREN_ERROR_INIT;

	(void)error_set(&err, EIO, "%s", "%n%s%s");
	(void)error_wrap(&err, "%s", "%n");
	STREQ(err.msg, "%n: %n%s%s");
}

TEST_MAIN()
