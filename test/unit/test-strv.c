/* SPDX-License-Identifier: Apache-2.0 */
/* test-strv.c - lists of strings are counted, copied, added to and freed */
#include "base/strv.h"

#include "lib/tap.h"

TEST(items_before_the_null_are_counted)
{
	const char *const two[] = { "a", "b", NULL };
	const char *const none[] = { NULL };

	EQ(strv_len(two), 2);
	EQ(strv_len(none), 0);
	EQ(strv_len((char **)NULL), 0);
}

TEST(a_copy_is_independent)
{
	char text[] = "first";
	char *from[] = { text, NULL };
	AUTO_STRV char **copy = strv_copy(from);

	OK(copy != NULL);
	text[0] = 'F';
	STREQ(copy[0], "first");
	OK(copy[1] == NULL);
}

TEST(a_copy_of_nothing_is_an_empty_list)
{
	AUTO_STRV char **copy = strv_copy((char **)NULL);

	OK(copy != NULL);
	OK(copy[0] == NULL);
}

TEST(an_item_is_added_at_the_end)
{
	AUTO_STRV char **v = NULL;

	EQ(strv_add(&v, "a"), 0);
	EQ(strv_add(&v, ""), 0);
	EQ(strv_add(&v, "c"), 0);
	EQ(strv_len(v), 3);
	STREQ(v[0], "a");
	STREQ(v[1], "");
	STREQ(v[2], "c");
}

TEST(an_item_is_found_in_any_case)
{
	const char *const names[] = { "Host", "expect", NULL };

	OK(strv_has_case(names, "host"));
	OK(strv_has_case(names, "EXPECT"));
	OK(!strv_has_case(names, "expec"));
	OK(!strv_has_case((char **)NULL, "host"));
}

TEST_MAIN()
