/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-modes.c - modes and other attributes of files are shown, merged and accepted
 */
#include <errno.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>

#include "work/accept_internal.h"

#include "lib/work_accept.h"

#define NEED_MOUNTS() SKIP_UNLESS(geteuid() == 0, "mounts an overlay")

static void upper(const struct work *w, const char *command)
{
	shell("cd '%s/writes/upper' && %s", w->dir, command);
}

static mode_t mode_of(const char *name)
{
	struct stat st;

	EQ(lstat(in(name), &st), 0);
	return st.st_mode & 07777;
}

TEST(modes_are_those_of_the_sandbox)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	shell("cd p && mkdir d e k && chmod 755 d e && chmod 750 k && echo 1 >d/a && echo 1 >b && "
	      "echo 1 >c && echo 1 >k/same && chmod 755 c && chmod 640 k/same");
	w = start();
	inside(w,
	       "umask 077; echo n >new; mkdir priv; echo n >priv/x; chmod 400 priv/x; mkdir -p ro/sub; "
	       "echo n >ro/f; chmod 500 ro; chmod 1777 ro/sub; echo 2 >d/a; chmod 700 d; chmod 600 b; "
	       "chmod 700 c; chmod 3755 e; echo 2 >k/same; echo 1 >k/same; touch k/n; chmod 664 k/n");
	STREQ(left(w), "X b|X c|X d|M d/a|X e|A k/n|A new|A priv/x|A ro/f|A ro/sub|");
	EQ(accept_paths(w, "d/a new"), 0);
	STREQ(left(w), "X b|X c|X d|X e|A k/n|A priv/x|A ro/f|A ro/sub|");
	EQ(accept_paths(w, NULL), 0);
	EQ(mode_of("p/new"), 0600);
	EQ(mode_of("p/priv"), 0700);
	EQ(mode_of("p/priv/x"), 0400);
	EQ(mode_of("p/ro"), 0500);
	EQ(mode_of("p/ro/sub"), 01777);
	EQ(mode_of("p/d"), 0700);
	EQ(mode_of("p/b"), 0600);
	EQ(mode_of("p/c"), 0700);
	EQ(mode_of("p/k"), 0750);
	EQ(mode_of("p/k/same"), 0640);
	EQ(mode_of("p/k/n"), 0664);
	/* The set-id bit needs permission, the sticky bit does not. */
	EQ(mode_of("p/e"), 01755);
	STREQ(left(w), "X e|");
	EQ(decide(w, NULL, 0, &(struct accept_options){ .allow = GUARD_SETID }), 0);
	EQ(mode_of("p/e"), 03755);
	STREQ(left(w), "");
	clean(w);
	/* Later changes of the same modes are found, too. */
	inside(w, "chmod 711 d; chmod 604 new");
	STREQ(left(w), "X d|X new|");
	EQ(reject_paths(w, "d"), 0);
	STREQ(left(w), "X new|");
	inside(w, "test $(stat -c %%a d) = 700");
	end();
}

TEST(modes_that_the_user_changed_are_merged)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	shell("cd p && mkdir d both mine && chmod 755 d both mine && echo 1 >d/a && echo 1 >both/a && "
	      "echo 1 >mine/a && echo 1 >f && echo 1 >g && echo 1 >h && chmod 644 f g h");
	w = start();
	inside(w,
	       "echo 2 >d/a; echo 2 >both/a; chmod 711 both; echo 2 >f; chmod 600 g; chmod 600 h; "
	       "chmod 770 mine");
	EQ(work_end(w, 0, &err), 0);
	shell("sleep 0.02; cd p && chmod 700 d both && chmod 640 f && echo 2 >g && chmod 640 h");
	/* What only the user changed is not a change of the sandbox. */
	STREQ(left(w), "X both|M both/a|M d/a|M f|M g|X h|X mine|");
	EQ(accept_paths(w, NULL), -EEXIST);
	EQ(result.n_conflicts, 2);
	OK(strstr(result.conflicts[0].reason, "changed the mode"));
	EQ(decide(w, NULL, 0, &(struct accept_options){ .conflicts = ACCEPT_SKIP }), 0);
	EQ(mode_of("p/d"), 0700);
	EQ(mode_of("p/f"), 0640);
	EQ(mode_of("p/both"), 0700);
	EQ(mode_of("p/g"), 0600);
	EQ(mode_of("p/h"), 0640);
	EQ(mode_of("p/mine"), 0770);
	shell("cd p && test $(cat d/a)$(cat both/a)$(cat f)$(cat g) = 2222");
	STREQ(left(w), "X both|X h|");
	EQ(decide(w, "h", 0, &(struct accept_options){ .conflicts = ACCEPT_THEIRS }), 0);
	EQ(mode_of("p/h"), 0600);
	EQ(reject_paths(w, "both"), 0);
	EQ(mode_of("p/both"), 0700);
	STREQ(left(w), "");
	end();
}

TEST(set_id_bits_that_are_not_allowed_stay_a_change)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_CHANGES struct changes c = { 0 };

	NEED_MOUNTS();
	begin();
	shell("cd p && echo 1 >a && echo 1 >had && echo 1 >wrote && chmod 4755 had wrote && "
	      "mkdir d s && chmod 2755 s && echo 1 >from");
	w = start();
	inside(w,
	       "echo new >set; chmod 4755 set; echo 2 >a; chmod 2755 a; chmod 4750 had; "
	       "echo 2 >wrote; chmod 4755 wrote; mkdir d/new s/new; chmod 2755 d/new; "
	       "mkdir d/full; chmod 2755 d/full; touch d/full/x s/new/x; mv from to; chmod 4644 to");
	EQ(changes_list(w, 0, &c, &err), 0);
	for (size_t i = 0; i < c.n; i++)
		EQ(!!(c.v[i].guard & GUARD_SETID),
		   wanted("set a wrote d/new d/full to", c.v[i].path));
	EQ(accept_paths(w, NULL), 0);
	EQ(mode_of("p/set"), 0755);
	EQ(mode_of("p/a"), 0755);
	EQ(mode_of("p/had"), 04750);
	EQ(mode_of("p/wrote"), 0755);
	EQ(mode_of("p/d/new"), 0755);
	EQ(mode_of("p/d/full"), 0755);
	EQ(mode_of("p/s/new"), 02755);
	EQ(mode_of("p/to"), 0644);
	STREQ(left(w), "X a|X d/full|X d/new|X set|X to|X wrote|");
	EQ(accept_paths(w, "a"), -EPERM);
	EQ(reject_paths(w, "wrote"), 0);
	EQ(decide(w, NULL, 0, &(struct accept_options){ .allow = GUARD_SETID }), 0);
	EQ(mode_of("p/set"), 04755);
	EQ(mode_of("p/a"), 02755);
	EQ(mode_of("p/d/new"), 02755);
	EQ(mode_of("p/d/full"), 02755);
	EQ(mode_of("p/wrote"), 0755);
	EQ(mode_of("p/to"), 04644);
	STREQ(left(w), "");
	clean(w);
	end();
}

TEST(a_directory_that_its_owner_cannot_write_gets_its_mode_last)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("cd p && mkdir opens closes && echo 1 >opens/a && echo 1 >closes/a && chmod 555 opens");
	w = start();
	upper(w,
	      "mkdir opens closes new && echo 2 >opens/a && echo 2 >opens/b && echo 2 >closes/b && "
	      "echo 2 >new/x && chmod 755 opens && chmod 500 closes new");
	EQ(accept_paths(w, NULL), 0);
	EQ(mode_of("p/opens"), 0755);
	EQ(mode_of("p/closes"), 0500);
	EQ(mode_of("p/new"), 0500);
	shell("cd p && test $(cat opens/a)$(cat opens/b)$(cat closes/b)$(cat new/x) = 2222");
	STREQ(left(w), "");
	end();
}

/* user::rw- user:1234:r-- group::r-- mask::r-- other::--- */
static const unsigned char acl[] = "\2\0\0\0"
				   "\1\0\6\0\377\377\377\377"
				   "\2\0\4\0\322\4\0\0"
				   "\4\0\4\0\377\377\377\377"
				   "\20\0\4\0\377\377\377\377"
				   "\40\0\0\0\377\377\377\377";

TEST(attributes_and_acls_of_the_users_files_stay)
{
	static const char name[] = "system.posix_acl_access";
	static char large[3000], value[4096];
	AUTO_WORK struct work *w = NULL;
	bool has_acl;

	NEED_MOUNTS();
	begin();
	shell("cd p && echo 1 >a && echo 1 >b && echo 1 >same");
	(void)memset(large, 'x', sizeof(large));
	EQ(setxattr(in("p/a"), "user.mark", large, sizeof(large), 0), 0);
	EQ(setxattr(in("p/a"), "user.empty", "", 0, 0), 0);
	has_acl = setxattr(in("p/b"), name, acl, sizeof(acl) - 1, 0) == 0;
	w = start();
	inside(w,
	       "echo 2 >a; echo 2 >b; python3 -c 'import os; os.setxattr(\"a\", \"user.new\", b\"1\"); "
	       "os.setxattr(\"same\", \"user.new\", b\"1\")'");
	/* An attribute alone is not a change. */
	STREQ(left(w), "M a|M b|");
	EQ(accept_paths(w, NULL), 0);
	EQ(getxattr(in("p/a"), "user.mark", value, sizeof(value)),
	   (ssize_t)sizeof(large));
	OK(memcmp(value, large, sizeof(large)) == 0);
	EQ(getxattr(in("p/a"), "user.empty", value, sizeof(value)), 0);
	EQ(getxattr(in("p/a"), "user.new", value, sizeof(value)), -1);
	if (has_acl) {
		EQ(getxattr(in("p/b"), name, value, sizeof(value)),
		   (ssize_t)sizeof(acl) - 1);
		OK(memcmp(value, acl, sizeof(acl) - 1) == 0);
	}
	EQ(mode_of("p/b"), has_acl ? 0640 : 0644);
	shell("test $(cat p/a)$(cat p/b) = 22");
	STREQ(left(w), "");
	end();
}

TEST(times_links_and_holes)
{
	AUTO_WORK struct work *w = NULL;
	struct stat one, two;
	time_t before = time(NULL) - 1;

	NEED_MOUNTS();
	begin();
	shell("cd p && echo 1 >a && ln a b && touch -d 2001-01-01 a && echo 1 >kept && touch -d 2001-01-01 kept");
	w = start();
	inside(w,
	       "echo 2 >a; echo n >n; ln n m; touch -d 2002-02-02 a n; chmod 600 kept; "
	       "truncate -s 1G sparse; echo end >>sparse");
	EQ(accept_paths(w, NULL), 0);
	/* The time is that of the accept, so that builds notice it. */
	EQ(stat(in("p/a"), &one), 0);
	OK(one.st_mtime >= before);
	EQ(stat(in("p/n"), &one), 0);
	OK(one.st_mtime >= before);
	EQ(stat(in("p/kept"), &one), 0);
	OK(one.st_mtime < before);
	/* Each name is a file, with all contents. */
	EQ(stat(in("p/n"), &one), 0);
	EQ(stat(in("p/m"), &two), 0);
	OK(one.st_ino != two.st_ino);
	shell("cd p && test $(cat a)$(cat b) = 21 -a $(cat n)$(cat m) = nn");
	EQ(stat(in("p/sparse"), &one), 0);
	EQ(one.st_size, (1LL << 30) + 4);
	OK(one.st_blocks < 2048);
	shell("tail -c 4 p/sparse | grep -qx end");
	STREQ(left(w), "");
	end();
}

TEST_MAIN()
