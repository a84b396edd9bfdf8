/* SPDX-License-Identifier: Apache-2.0 */
/* test-id.c - ids are valid, are host names, and are always different */
#include "base/id.h"

#include "base/macro.h"
#include "lib/tap.h"

#define MANY 20000

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

TEST(ids_are_valid)
{
	for (int i = 0; i < MANY; i++) {
		char id[ID_LEN + 1];

		(void)memset(id, 'A', sizeof(id));
		id_make(id);
		EQ(strlen(id), ID_LEN);
		OK(id_valid(id));
		OK(id[0] >= 'b' && id[0] <= 'z');
	}
}

TEST(ids_differ)
{
	static char ids[MANY][ID_LEN + 1];

	for (int i = 0; i < MANY; i++)
		id_make(ids[i]);
	qsort(ids, MANY, sizeof(ids[0]), by_text);
	for (int i = 1; i < MANY; i++)
		OK(strcmp(ids[i - 1], ids[i]) != 0);
}

/* Two processes get different ids after a fork. */
TEST(ids_differ_after_a_fork)
{
	char a[ID_LEN + 1], b[ID_LEN + 1] = "";
	int ends[2];
	pid_t pid;

	id_make(a);
	EQ(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		id_make(b);
		_exit(write(ends[1], b, sizeof(b)) == sizeof(b) ? 0 : 1);
	}
	OK(pid > 0);
	EQ(read(ends[0], b, sizeof(b)), sizeof(b));
	EQ(waitpid(pid, NULL, 0), pid);
	id_make(a);
	OK(id_valid(b));
	OK(strcmp(a, b) != 0);
}

/* An id is part of paths: a text that leads elsewhere is not an id. */
TEST(invalid_ids_are_refused)
{
	static const char *const bad[] = {
		"",
		"b",
		"bcdfghjklmnpq",
		"bcdfghjklmn",
		"bcdfghjklmna",
		"Bcdfghjklmnp",
		"bcdfghjklmn/",
		"bcdfghjklm..",
		"............",
		"bcdfghjklmn!",
		"bcdfghjklmn ",
		"bcdfghjklmn\n",
		"../../../../",
		"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9",
	};

	OK(id_valid("bcdfghjklmnp"));
	OK(id_valid("b00000000000"));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (id_valid(bad[i]))
			TAP_FAIL("'%s' is taken for an id", bad[i]);
}

TEST_MAIN()
