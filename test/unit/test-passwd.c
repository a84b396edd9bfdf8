/* SPDX-License-Identifier: Apache-2.0 */
/* test-passwd.c - users and groups from untrusted text */
#include "base/passwd.h"

#include <errno.h>

#include "base/macro.h"
#include "lib/tap.h"

static const char users[] = "root:x:0:0:root:/root:/bin/bash\n"
			    "daemon:x:1:1::/usr/sbin:/usr/sbin/nologin\n"
			    "dev:x:1000:1001:A Person,,,:/home/dev:/bin/sh\n"
			    "twin:x:1000:1002::/home/twin:/bin/sh\n"
			    "last:x:4294967294:7:::";

static const char groups[] = "root:x:0:\n"
			     "adm:x:4:dev,syslog\n"
			     "sudo:x:27:someone,dev\n"
			     "devs:x:1001:\n"
			     "video:x:44:develop,xdev,dev2\n"
			     "only:x:50:dev";

static int find(const char *text, const char *name, uint32_t uid, struct passwd_entry *e)
{
	/*
	 * There is no spare byte after the text, so a sanitizer detects a read past its
	 * end.
	 */
	size_t n = strlen(text);
	char *exact = malloc(n ? n : 1);
	int r;

	OK(exact);
	(void)memcpy(exact, text, n);
	r = passwd_find(exact, n, name, uid, e);
	free(exact);
	return r;
}

TEST(a_user_is_found)
{
	struct passwd_entry e;

	EQ(find(users, "dev", 0, &e), 0);
	EQ(e.uid, 1000);
	EQ(e.gid, 1001);
	STREQ(e.name, "dev");
	STREQ(e.home, "/home/dev");
	EQ(find(users, NULL, 1000, &e), 0); /* if there are two, the first one counts */
	STREQ(e.name, "dev");
	EQ(find(users, NULL, 1, &e), 0);
	STREQ(e.name, "daemon");
}

TEST(the_last_line_needs_no_newline_and_a_home_is_optional)
{
	struct passwd_entry e;

	EQ(find(users, "last", 0, &e), 0);
	EQ(e.uid, UINT32_MAX - 1);
	EQ(e.gid, 7);
	STREQ(e.home, "/");
}

TEST(missing_users_are_not_found)
{
	struct passwd_entry e = { .uid = 77 };
	static const char *const names[] = { "",      "de",         "devs",   "DEV",
					     "dev:x", "dev:x:1000", "root\n", "\n",
					     "x",     "/bin/sh" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		EQ(find(users, names[i], 0, &e), -ENOENT);
	EQ(find(users, NULL, 1001, &e), -ENOENT);
	EQ(find("", "root", 0, &e), -ENOENT);
	EQ(find("\n\n\n", "", 0, &e), -ENOENT);
	EQ(e.uid, 77); /* untouched */
}

/* Each of these once made a user root by mistake. */
TEST(a_malformed_line_is_skipped)
{
	static const char *const lines[] = {
		"evil",
		"evil:x",
		"evil:x:0",
		"evil:x:0:0::/root",          /* six fields */
		"evil:x:0:0:::/bin/sh:extra", /* eight */
		"evil:x::0::/:/bin/sh",
		"evil:x:0:::/:/bin/sh",
		"evil:x:-1:0::/:/bin/sh",
		"evil:x:+0:0::/:/bin/sh",
		"evil:x: 0:0::/:/bin/sh",
		"evil:x:0 :0::/:/bin/sh",
		"evil:x:0x0:0::/:/bin/sh",
		"evil:x:zero:0::/:/bin/sh",
		"evil:x:4294967295:0::/:/bin/sh", /* -1 means "no change" to setresuid(2)
						   */
		"evil:x:4294967296:0::/:/bin/sh", /* this would be 0 if the high bits were
						     ignored */
		"evil:x:18446744073709551616:0::/:/bin/sh",
		"evil:x:00000000000:0::/:/bin/sh",
		"evil:x:0:4294967295::/:/bin/sh",
		"evil:x:0:4294967296::/:/bin/sh",
		":x:0:0::/:/bin/sh",
		"#evil:x:0:0::/:/bin/sh",
		" evil:x:0:0::/:/bin/sh",
		"+evil:x:0:0::/:/bin/sh",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct passwd_entry e;
		char text[256];

		if (find(lines[i], "evil", 0, &e) != -ENOENT)
			TAP_FAIL("taken: %s", lines[i]);
		/* The next line still counts. */
		(void)snprintf(text, sizeof(text), "%s\nevil:x:5:6::/x:/y\n", lines[i]);
		EQ(find(text, "evil", 0, &e), 0);
		EQ(e.uid, 5);
		EQ(e.gid, 6);
	}
}

TEST(a_nul_does_not_hide_a_line)
{
	static const char text[] = "evil:x:0\0:0::/:/bin/sh\nevil:x:5:6::/x:/y";
	struct passwd_entry e;

	EQ(passwd_find(text, sizeof(text) - 1, "evil", 0, &e), 0);
	EQ(e.uid, 5);
}

TEST(a_carriage_return_is_part_of_the_field)
{
	struct passwd_entry e;

	EQ(find("a:x:1:1::/home/a:/bin/sh\r\nb:x:2:2::/:/x\r\n", "b", 0, &e), 0);
	EQ(e.uid, 2);
	EQ(find("a:x:1:1\r::/home/a:/bin/sh\r\n", "a", 0, &e), -ENOENT);
}

TEST(a_home_that_is_relative_or_too_long_becomes_the_root)
{
	static char text[2048];
	struct passwd_entry e;

	EQ(find("a:x:1:1::home/a:/bin/sh", "a", 0, &e), 0);
	STREQ(e.home, "/");
	(void)memset(text, 'h', sizeof(text));
	(void)memcpy(text, "a:x:1:1::/", 10);
	(void)strcpy(text + 1000, ":/bin/sh\n");
	EQ(find(text, "a", 0, &e), 0);
	STREQ(e.home, "/");
	(void)strcpy(text + 9 + 511, ":/bin/sh\n"); /* the longest path that fits */
	EQ(find(text, "a", 0, &e), 0);
	EQ(strlen(e.home), 511);
}

TEST(a_name_that_is_too_long_is_skipped)
{
	char text[256], name[128];
	struct passwd_entry e;

	for (int n = 62; n < 66; n++) {
		(void)memset(name, 'n', sizeof(name));
		name[n] = '\0';
		(void)snprintf(text, sizeof(text), "%s:x:3:4::/:/bin/sh\n", name);
		EQ(find(text, name, 0, &e), n < 64 ? 0 : -ENOENT);
		EQ(find(text, NULL, 3, &e), n < 64 ? 0 : -ENOENT);
	}
}

TEST(a_group_is_found)
{
	uint32_t gid = 77;

	EQ(passwd_find_group(groups, sizeof(groups) - 1, "sudo", &gid), 0);
	EQ(gid, 27);
	EQ(passwd_find_group(groups, sizeof(groups) - 1, "only", &gid), 0);
	EQ(gid, 50);
	gid = 77;
	EQ(passwd_find_group(groups, sizeof(groups) - 1, "dev", &gid), -ENOENT);
	EQ(passwd_find_group(groups, sizeof(groups) - 1, "", &gid), -ENOENT);
	EQ(passwd_find_group("g:x:4294967295:", 15, "g", &gid), -ENOENT);
	EQ(passwd_find_group("g:x:1", 5, "g", &gid), -ENOENT);
	EQ(passwd_find_group("g:x:1:a:b", 9, "g", &gid), -ENOENT);
	EQ(gid, 77);
}

TEST(the_groups_of_a_user_are_found)
{
	uint32_t gids[8];

	EQ(passwd_find_groups(groups, sizeof(groups) - 1, "dev", gids, 8), 3);
	EQ(gids[0], 4);
	EQ(gids[1], 27);
	EQ(gids[2], 50);
	EQ(passwd_find_groups(groups, sizeof(groups) - 1, "dev", gids, 2), 2);
	EQ(passwd_find_groups(groups, sizeof(groups) - 1, "dev", gids, 0), 0);
	EQ(passwd_find_groups(groups, sizeof(groups) - 1, "nobody", gids, 8), 0);
	EQ(passwd_find_groups(groups, sizeof(groups) - 1, "", gids, 8), 0);
}

TEST(group_members_match_only_as_whole_words)
{
	static const char text[] =
		"a:x:1:,,dev,,\nb:x:2:dev \nc:x:3: dev\nd:x:x:dev\ne:x:5:dev,dev\n";
	uint32_t gids[8];

	EQ(passwd_find_groups(text, sizeof(text) - 1, "dev", gids, 8), 2);
	EQ(gids[0], 1);
	EQ(gids[1], 5);
}

TEST_MAIN()
