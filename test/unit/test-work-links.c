/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-links.c - files of the project that have several names are accepted */
#include <errno.h>
#include <sys/stat.h>

#include "work/accept_internal.h"

#include "lib/work_accept.h"

static void upper(const struct work *w, const char *command)
{
	shell("cd '%s/writes/upper' && %s", w->dir, command);
}

static struct work *start_linked(enum work_mode mode)
{
	struct work *w;

	shell("rm -rf p && mkdir p && cd p && echo one >a && ln a b && ln a c && ln a ../outside-$$ && "
	      "echo two >d && ln d e && chmod 644 a d");
	w = start_with(&(struct work_options){ .mode = mode });
	if (mode == WORK_COPY)
		shell("cp -a p '%s/copy'", w->dir);
	return w;
}

/* How many changes look as if the user had changed the file, too? */
static size_t n_touched(struct work *w)
{
	AUTO_CHANGES struct changes c = { 0 };
	size_t n = 0;

	EQ(changes_list(w, 0, &c, &err), 0);
	for (size_t i = 0; i < c.n; i++)
		n += c.v[i].touched;
	return n;
}

#define BOTH_MODES(mode) \
	for (enum work_mode mode = WORK_OVERLAY; mode <= WORK_COPY; mode++)

TEST(all_names_of_a_file_are_accepted)
{
	begin();
	BOTH_MODES(mode)
	{
		AUTO_WORK struct work *w = start_linked(mode);

		upper(w,
		      "echo 1 >a; echo 2 >b; echo 3 >e; mknod c c 0 0; chmod 644 a b e");
		EQ(accept_paths(w, NULL), 0);
		STREQ(left(w), "");
		shell("cd p && test $(cat a)$(cat b)$(cat e)$(cat d) = 123two -a ! -e c && "
		      "rm ../outside-*");
		clean(w);
	}
	end();
}

TEST(names_are_accepted_one_by_one)
{
	begin();
	BOTH_MODES(mode)
	{
		AUTO_WORK struct work *w = start_linked(mode);

		upper(w,
		      "echo 1 >a; echo 2 >b; echo 3 >e; mknod c c 0 0; chmod 644 a b e");
		EQ(accept_paths(w, "a"), 0);
		EQ(n_touched(w), 0);
		EQ(accept_paths(w, "c"), 0);
		EQ(n_touched(w), 0);
		/* A control: the user changes the file that is left. */
		shell("sleep 0.02; echo user >>p/d");
		EQ(n_touched(w), 1);
		EQ(accept_paths(w, "b"), 0);
		EQ(result.n_conflicts, 0);
		shell("cd p && test $(cat a)$(cat b) = 12 -a ! -e c && rm ../outside-*");
		clean(w);
	}
	end();
}

TEST(the_mode_of_one_name_is_accepted)
{
	begin();
	BOTH_MODES(mode)
	{
		AUTO_WORK struct work *w = start_linked(mode);

		upper(w,
		      "echo one >a; echo one >b; echo two >d; chmod 755 a d; chmod 600 b");
		STREQ(left(w), "X a|X b|X d|");
		EQ(accept_paths(w, NULL), 0);
		STREQ(left(w), "");
		shell("cd p && test $(stat -c %%a a)$(stat -c %%a b)$(stat -c %%a c) = 755600644 && "
		      "test $(stat -c %%a d)$(stat -c %%a e)$(cat d e a b c | tr -d '\\n') = "
		      "755644twotwooneoneone; rm ../outside-*");
	}
	end();
}

static unsigned step_number;

/* The user changes another file, and changes one of the names. */
static void edit_other(const char *step)
{
	if (strcmp(step, "commit") == 0 && ++step_number == 3)
		shell("echo user >p/e");
}

TEST(an_accept_that_was_undone_is_repeated)
{
	begin();
	BOTH_MODES(mode)
	{
		AUTO_WORK struct work *w = start_linked(mode);

		upper(w, "echo 1 >a; echo 2 >b; echo 3 >e; chmod 644 a b e");
		step_number = 0;
		accept_step_hook = edit_other;
		EQ(accept_paths(w, NULL), -ESTALE);
		OK(strstr(err.msg, "'e'"));
		accept_step_hook = NULL;
		shell("cd p && test $(cat a)$(cat b)$(cat c) = oneoneone");
		EQ(n_touched(w), 1);
		EQ(accept_paths(w, "a b"), 0);
		shell("cd p && test $(cat a)$(cat b)$(cat c) = 12one; rm ../outside-*");
		clean(w);
	}
	end();
}

TEST(a_change_of_another_name_is_noticed)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	w = start_linked(WORK_OVERLAY);
	upper(w, "echo 1 >a; chmod 644 a");
	shell("sleep 0.02; echo user >>p/b");
	EQ(n_touched(w), 1);
	EQ(accept_paths(w, NULL), -EEXIST);
	end();
}

TEST_MAIN()
