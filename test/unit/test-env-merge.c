/* SPDX-License-Identifier: Apache-2.0 */
/* test-env-merge.c - the last of several variables with the same name is kept, and many
 * variables take little time
 */
#include "base/env_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strv.h"
#include "lib/tap.h"

#define MANY 16000

/* Check the merged variables, which are compared with a space after each instead of the
 * NUL. */
static void check_merged(const char *const *const *lists, size_t n_lists, size_t n,
			 const char *want)
{
	AUTO_BUF struct buf out = BUF_INIT(1024);

	EQ(env_merge(&out, lists, n_lists), n);
	OK(!out.failed);
	for (size_t i = 0; i < out.len; i++)
		if (!out.data[i])
			out.data[i] = ' ';
	STREQ(out.data ? out.data : "", want);
}

TEST(keeps_the_order_and_the_last_of_a_name)
{
	const char *const first[] = { "PATH=/bin", "A=1", "AB=2", "A=3", NULL };
	const char *const second[] = { "B=4", "PATH=/usr/bin", "AB=", "=C:=x", NULL };
	const char *const *const lists[] = { first, NULL, second };

	check_merged(lists, 1, 3, "PATH=/bin AB=2 A=3 ");
	check_merged(lists, 3, 5, "A=3 B=4 PATH=/usr/bin AB= =C:=x ");
}

TEST(a_name_that_begins_like_another_is_another)
{
	const char *const list[] = { "AA=1", "A=2", "AAA=3", "A", "B", "B=4", NULL };
	const char *const *const lists[] = { list };

	check_merged(lists, 1, 4, "AA=1 AAA=3 A B=4 ");
}

TEST(empty_lists_are_merged_to_an_empty_list)
{
	const char *const none[] = { NULL };
	const char *const *const lists[] = { none, NULL };

	check_merged(lists, 2, 0, "");
	check_merged(lists, 0, 0, "");
}

TEST(says_if_there_is_too_much)
{
	const char *const list[] = { "A=123456789", "B=123456789", NULL };
	const char *const *const lists[] = { list };
	AUTO_BUF struct buf out = BUF_INIT(16);

	(void)env_merge(&out, lists, 1);
	OK(out.failed && out.full);
}

/* This was slow in an earlier version, which compared each variable with all later
 * ones. */
TEST(many_long_names_are_merged)
{
	AUTO_STRV char **list = calloc(MANY + 1, sizeof(*list));
	AUTO_BUF struct buf out = BUF_INIT(16U << 20);
	const char *const *lists[1];
	char name[512];

	OK(list);
	(void)memset(name, 'N', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (size_t i = 0; i < MANY; i++)
		OK(asprintf(&list[i], "%s%05zu=", name, i % (MANY / 2)) > 0);
	lists[0] = (const char *const *)list;
	EQ(env_merge(&out, lists, 1), MANY / 2);
	OK(!out.failed);
}

TEST_MAIN()
