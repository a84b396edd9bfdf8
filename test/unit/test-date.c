/* SPDX-License-Identifier: Apache-2.0 */
/* test-date.c - dates match those of the C library, from the year 0 to 9999 */
#include "base/date.h"

#include <string.h>
#include <time.h>

#include "base/macro.h"
#include "lib/tap.h"

#define FIRST (-62167219200)
#define LAST  253402300799

static bool agrees(int64_t s, unsigned ms)
{
	char iso[DATE_SIZE], http[DATE_SIZE], want_iso[64], want_http[64];
	time_t t = (time_t)s;
	struct tm tm;
	size_t n;

	(void)gmtime_r(&t, &tm);
	/* %Y writes no leading zeros. */
	n = (size_t)snprintf(want_iso, sizeof(want_iso), "%04d", tm.tm_year + 1900);
	n += strftime(want_iso + n, sizeof(want_iso) - n, "-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(want_iso + n, sizeof(want_iso) - n, ".%03uZ", ms);
	n = strftime(want_http, sizeof(want_http), "%a, %d %b ", &tm);
	n += (size_t)snprintf(want_http + n, sizeof(want_http) - n, "%04d",
			      tm.tm_year + 1900);
	(void)strftime(want_http + n, sizeof(want_http) - n, " %H:%M:%S GMT", &tm);
	date_iso(iso, s * 1000 + ms);
	date_http(http, s);
	return strcmp(iso, want_iso) == 0 && strcmp(http, want_http) == 0;
}

TEST(dates_match_those_of_the_c_library)
{
	static const int64_t ranges[][3] = {
		{ -11676096000, 13569465600, 86399 }, /* 1600 to 2400, each day */
		{ FIRST, LAST, 29 * 86399 },
	};
	int64_t wrong = 0;

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		for (int64_t s = ranges[i][0]; s <= ranges[i][1] && wrong == 0;
		     s += ranges[i][2])
			wrong = agrees(s, (unsigned)((uint64_t)s % 1000)) ? 0 : s;
	EQ(wrong, 0);
	OK(agrees(LAST, 999));
}

TEST(known_dates_are_formatted)
{
	char text[DATE_SIZE];

	date_iso(text, 0);
	STREQ(text, "1970-01-01T00:00:00.000Z");
	date_iso(text, -1);
	STREQ(text, "1969-12-31T23:59:59.999Z");
	date_iso(text, 951782400123);
	STREQ(text, "2000-02-29T00:00:00.123Z");
	date_http(text, 784111777);
	STREQ(text, "Sun, 06 Nov 1994 08:49:37 GMT");
}

TEST(years_without_four_digits_are_clamped)
{
	char text[DATE_SIZE];

	date_iso(text, INT64_MAX);
	OK(strncmp(text, "9999-12-31T23:59:59.", 20) == 0);
	EQ(strlen(text), 24);
	date_iso(text, INT64_MIN);
	OK(strncmp(text, "0000-01-01T00:00:00.", 20) == 0);
	EQ(strlen(text), 24);
	date_http(text, INT64_MAX);
	STREQ(text, "Fri, 31 Dec 9999 23:59:59 GMT");
}

TEST_MAIN()
