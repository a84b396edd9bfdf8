/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-modes.c - modes of files and directories are shown, merged and accepted */
#include <errno.h>
#include <sys/stat.h>

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
	/* What only the user changed is no change of the sandbox. */
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
		   wanted("set a wrote d/new to", c.v[i].path));
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

TEST_MAIN()
