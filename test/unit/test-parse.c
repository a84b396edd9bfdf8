/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-parse.c - numbers with units: the whole word, within its range, or an error with a
 * reason
 */
#include "base/parse.h"

#include <errno.h>

#include "lib/tap.h"

#define UNTOUCHED 0xabcdefULL

typedef int (*parse_fn)(const char *s, uint64_t *ret, struct warren_error *err);

struct good {
	const char *text;
	uint64_t value;
};

struct bad {
	const char *text;
	int code;
};

static void check_good(parse_fn parse, const struct good *g, size_t n)
{
	for (; n > 0; n--, g++) {
		struct warren_error err = WARREN_ERROR_INIT;
		uint64_t v = UNTOUCHED;
		int r = parse(g->text, &v, &err);

		if (r != 0 || v != g->value || err.code != 0)
			TAP_FAIL("'%s' is %ju (%d, \"%s\"), not %ju", g->text,
				 (uintmax_t)v, r, err.msg, (uintmax_t)g->value);
	}
}

/* Check that a failure has its errno, names the word, and does not change the result. */
static void check_bad(parse_fn parse, const struct bad *b, size_t n)
{
	for (; n > 0; n--, b++) {
		struct warren_error err = WARREN_ERROR_INIT;
		uint64_t v = UNTOUCHED;
		int r = parse(b->text, &v, &err);

		if (r != -b->code || err.code != b->code || v != UNTOUCHED ||
		    !strstr(err.msg, b->text))
			TAP_FAIL("'%s' gives %d, %ju, \"%s\", not %d", b->text, r,
				 (uintmax_t)v, err.msg, -b->code);
	}
}

static int parse_any(const char *s, uint64_t *ret, struct warren_error *err)
{
	return parse_u64(s, UINT64_MAX, ret, err);
}

static int parse_ten(const char *s, uint64_t *ret, struct warren_error *err)
{
	return parse_u64(s, 10, ret, err);
}

TEST(whole_numbers_are_parsed)
{
	static const struct good good[] = {
		{ "0", 0 },
		{ "1", 1 },
		{ "007", 7 },
		{ "18446744073709551615", UINT64_MAX },
	};
	static const struct bad bad[] = {
		{ "", EINVAL },
		{ " 1", EINVAL },
		{ "1 ", EINVAL },
		{ "+1", EINVAL },
		{ "-1", EINVAL },
		{ "0x10", EINVAL },
		{ "1e3", EINVAL },
		{ "1.0", EINVAL },
		{ "1.", EINVAL },
		{ ".5", EINVAL },
		{ "1k", EINVAL },
		{ "one", EINVAL },
		{ "1\n", EINVAL },
		{ "1,5", EINVAL },
		{ "\xd9\xa3", EINVAL },
		{ "--1", EINVAL },
		{ "18446744073709551616", ERANGE },
		{ "99999999999999999999999999999999999999", ERANGE },
	};

	check_good(parse_any, good, ARRAY_SIZE(good));
	check_bad(parse_any, bad, ARRAY_SIZE(bad));
}

TEST(whole_numbers_are_parsed_up_to_a_maximum)
{
	static const struct good good[] = { { "0", 0 }, { "10", 10 } };
	static const struct bad bad[] = { { "11", ERANGE },
					  { "18446744073709551616", ERANGE } };

	check_good(parse_ten, good, ARRAY_SIZE(good));
	check_bad(parse_ten, bad, ARRAY_SIZE(bad));
}

TEST(durations_are_parsed)
{
	static const struct good good[] = {
		{ "1", 1000 },
		{ "1.5", 1500 },
		{ "1ms", 1 },
		{ "500ms", 500 },
		{ "30s", 30000 },
		{ "2m", 120000 },
		{ "1h", 3600000 },
		{ "1.5s", 1500 },
		{ "0.5m", 30000 },
		{ "0.25h", 900000 },
		{ "1.5ms", 1 },
		{ "0.001s", 1 },
		{ "10MS", 10 },
		{ "2S", 2000 },
		{ "0.0010000000000009s", 1 },
		{ "2562047h", 2562047ULL * 3600000 },
	};
	static const struct bad bad[] = {
		{ "", EINVAL },
		{ "0", EINVAL },
		{ "-1", EINVAL },
		{ "1 ", EINVAL },
		{ "s", EINVAL },
		{ "ms", EINVAL },
		{ "-1s", EINVAL },
		{ "+1s", EINVAL },
		{ " 1s", EINVAL },
		{ "1s ", EINVAL },
		{ "1 s", EINVAL },
		{ "1d", EINVAL },
		{ "1us", EINVAL },
		{ "1.s", EINVAL },
		{ ".5s", EINVAL },
		{ "1..5s", EINVAL },
		{ "1.5.5s", EINVAL },
		{ "1e3s", EINVAL },
		{ "0s", EINVAL },
		{ "0ms", EINVAL },
		{ "0.0h", EINVAL },
		{ "0.5ms", EINVAL },
		{ "1s2s", EINVAL },
		{ "infinity", EINVAL },
		{ "nan", EINVAL },
		{ "2562048h", ERANGE },
		{ "18446744073709551615ms", ERANGE },
		{ "18446744073709551616ms", ERANGE },
		{ "99999999999999999999999999h", ERANGE },
	};

	check_good(parse_duration, good, ARRAY_SIZE(good));
	check_bad(parse_duration, bad, ARRAY_SIZE(bad));
}

TEST(sizes_are_parsed)
{
	static const struct good good[] = {
		{ "1", 1 },
		{ "4096", 4096 },
		{ "1b", 1 },
		{ "64k", 64ULL << 10 },
		{ "64kb", 64ULL << 10 },
		{ "64kib", 64ULL << 10 },
		{ "512m", 512ULL << 20 },
		{ "512mb", 512ULL << 20 },
		{ "512MiB", 512ULL << 20 },
		{ "1g", 1ULL << 30 },
		{ "1gb", 1ULL << 30 },
		{ "1GiB", 1ULL << 30 },
		{ "1t", 1ULL << 40 },
		{ "1tb", 1ULL << 40 },
		{ "1TIB", 1ULL << 40 },
		{ "1.5g", 3ULL << 29 },
		{ "0.5k", 512 },
		{ "9223372036854775807", INT64_MAX },
	};
	static const struct bad bad[] = {
		{ "", EINVAL },
		{ "k", EINVAL },
		{ "-1k", EINVAL },
		{ "+1k", EINVAL },
		{ "1 k", EINVAL },
		{ "1kk", EINVAL },
		{ "1ki", EINVAL },
		{ "1p", EINVAL },
		{ "0x10", EINVAL },
		{ "1,5g", EINVAL },
		{ "1.g", EINVAL },
		{ ".5g", EINVAL },
		{ "0", EINVAL },
		{ "0k", EINVAL },
		{ "0.0001k", EINVAL },
		{ "1m ", EINVAL },
		{ "9223372036854775808", ERANGE },
		{ "8388608t", ERANGE },
		{ "16777216t", ERANGE },
		{ "18446744073709551616", ERANGE },
		{ "18446744073709551615k", ERANGE },
	};

	check_good(parse_size, good, ARRAY_SIZE(good));
	check_bad(parse_size, bad, ARRAY_SIZE(bad));
}

TEST(numbers_of_processors_are_parsed)
{
	static const struct good good[] = {
		{ "1", 1000 },  { "2", 2000 },       { "0.5", 500 },  { "1.5", 1500 },
		{ "0.001", 1 }, { "1000", 1000000 }, { "0.0019", 1 },
	};
	static const struct bad bad[] = {
		{ "", EINVAL },
		{ "-1", EINVAL },
		{ "1c", EINVAL },
		{ "1.", EINVAL },
		{ ".5", EINVAL },
		{ "1/2", EINVAL },
		{ "all", EINVAL },
		{ "0", ERANGE },
		{ "0.0", ERANGE },
		{ "0.0009", ERANGE },
		{ "1000.001", ERANGE },
		{ "18446744073709551615", ERANGE },
		{ "18446744073709551616", ERANGE },
	};

	check_good(parse_cpus, good, ARRAY_SIZE(good));
	check_bad(parse_cpus, bad, ARRAY_SIZE(bad));
}

TEST(user_and_group_ids_are_parsed)
{
	struct warren_error err = WARREN_ERROR_INIT;
	uint32_t uid = 77, gid = 88;

	EQ(parse_ids("1000", &uid, &gid, &err), 0);
	EQ(uid, 1000);
	EQ(gid, 88); /* not given, so not changed */
	EQ(parse_ids("0:5", &uid, &gid, &err), 1);
	EQ(uid, 0);
	EQ(gid, 5);
	EQ(parse_ids("4294967294:4294967294", &uid, &gid, &err), 1);
	EQ(uid, UINT32_MAX - 1);
	EQ(err.code, 0);
}

TEST(malformed_user_and_group_ids_are_refused)
{
	static const struct bad bad[] = {
		{ "", EINVAL },           { ":", EINVAL },
		{ "1:", EINVAL },         { ":1", EINVAL },
		{ "1:1:1", EINVAL },      { "root", EINVAL },
		{ "1:root", EINVAL },     { "-1", EINVAL },
		{ "1 ", EINVAL },         { "1.0", EINVAL },
		{ "0x1", EINVAL },        { "1: 1", EINVAL },
		{ "4294967295", ERANGE }, { "0:4294967295", ERANGE },
		{ "4294967296", ERANGE }, { "1:18446744073709551616", ERANGE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct warren_error err = WARREN_ERROR_INIT;
		uint32_t uid = 77, gid = 88;
		int r = parse_ids(bad[i].text, &uid, &gid, &err);

		if (r != -bad[i].code || err.code != bad[i].code || uid != 77 ||
		    gid != 88)
			TAP_FAIL("'%s' gives %d, %u:%u", bad[i].text, r, uid, gid);
	}
}

/* A word may be longer than any buffer. */
TEST(an_argument_of_a_megabyte_is_refused)
{
	static char word[1 << 20];
	struct warren_error err = WARREN_ERROR_INIT;
	uint32_t uid, gid;
	uint64_t v = UNTOUCHED;

	(void)memset(word, '9', sizeof(word) - 1);
	EQ(parse_any(word, &v, &err), -ERANGE);
	EQ(parse_size(word, &v, &err), -ERANGE);
	EQ(parse_duration(word, &v, &err), -ERANGE);
	EQ(parse_ids(word, &uid, &gid, &err), -EINVAL);
	(void)memset(word, '0', sizeof(word) - 2);
	EQ(parse_any(word, &v, &err), 0);
	EQ(v, 9);
}

TEST_MAIN()
