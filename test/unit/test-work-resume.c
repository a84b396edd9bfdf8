/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-resume.c - what both sides' changes are compared with after a work is resumed
 */
#include <errno.h>
#include <sys/stat.h>

#include "work/base.h"
#include "work/record.h"

#include "lib/work_accept.h"

#define NEED_MOUNTS() SKIP_UNLESS(geteuid() == 0, "mounts an overlay")

/* The work is closed and opened, as by another command. */
static struct work *resume(struct work *w)
{
	char id[ID_LEN + 1];

	(void)strcpy(id, w->id);
	(void)work_close(w);
	if (work_open(id, true, &w, &err) < 0 || base_renew(w, &err) < 0 ||
	    base_begin(w, &err) < 0)
		TAP_FAIL("%s", err.msg);
	base_wait(w, false);
	return w;
}

static void over(struct work *w)
{
	EQ(work_end(w, 0, &err), 0);
	shell("sleep 0.02");
}

TEST(what_the_user_did_before_a_resume_is_common)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	git("init -q . && seq 40 >a && git add . && git commit -qm one && seq 40 >u && cp a gone");
	w = start();
	inside(w, "true");
	over(w);
	shell("cd p && sed -i 5s/.*/user/ a && sed -i 5s/.*/user/ gone && echo u2 >>u && sleep 0.02");
	w = resume(w);
	inside(w, "sed -i 5s/.*/ag/ a; echo ag >>u; rm gone");
	over(w);
	EQ(accept_paths(w, NULL), 0);
	EQ(result.merged, 0);
	shell("cd p && seq 40 | sed 5s/.*/ag/ | cmp - a && test \"$(tail -2 u | tr '\\n' ' ')\" = 'u2 ag ' && test ! -e gone");
	end();
}

TEST(accepted_files_that_the_user_edits_are_common_after_a_resume)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	git("init -q . && seq 40 >a && git add . && git commit -qm one");
	w = start();
	inside(w, "sed -i 5s/.*/ag/ a; echo 1 >n; echo 1 >rest");
	over(w);
	EQ(accept_paths(w, "a n"), 0);
	shell("sleep 0.02; cd p && sed -i 5s/.*/touched-up/ a && echo 2 >>n && sleep 0.02");
	w = resume(w);
	inside(w, "grep -q touched-up a; sed -i 's/touched-up/better/' a; echo 3 >>n");
	over(w);
	EQ(accept_paths(w, NULL), 0);
	shell("cd p && seq 40 | sed 5s/.*/better/ | cmp - a && test \"$(cat n | tr -d '\\n')\" = 123");
	end();
}

TEST(what_the_sandbox_had_changed_before_a_resume_is_merged_with_the_first_version)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	shell("cd p && seq 40 >a && seq 40 >same && seq 40 >touched && mkdir d && seq 9 >d/x && seq 9 >gone && "
	      "seq 40 >late");
	git("init -q . && git add . && git commit -qm one && sed -i 40d a same touched");
	w = start();
	EQ(base_begin(w, &err), 0);
	base_wait(w, false);
	inside(w,
	       "sed -i 5s/.*/ag/ a same; touch touched; rm -r d gone; mkdir d; echo new >d/n; echo 1 >old");
	/* Of one of them, the user's change comes before the end. */
	shell("sleep 0.02; cd p && sed -i 20s/.*/user/ a");
	over(w);
	shell("cd p && sed -i 5s/.*/user/ same && sed -i 20s/.*/user/ touched && echo 10 >>d/x && echo 10 >>gone && "
	      "echo mine >old && sleep 0.02");
	w = resume(w);
	inside(w,
	       "sed -i 30s/.*/more/ a touched; sed -i 30s/.*/more/ same; test ! -e d/x; sed -i 30s/.*/more/ late");
	/* The user changes a file that the sandbox reads only now. */
	shell("sleep 0.02; cd p && sed -i 20s/.*/user/ late");
	over(w);
	EQ(accept_paths(w, NULL), -EEXIST);
	EQ(result.n_conflicts, 4);
	STREQ(result.conflicts[0].path, "d/x");
	STREQ(result.conflicts[1].path, "gone");
	STREQ(result.conflicts[2].path, "old");
	STREQ(result.conflicts[3].path, "same");
	EQ(accept_paths(w, "a touched late"), 0);
	EQ(result.merged, 3);
	shell("cd p && seq 39 | sed '5s/.*/ag/;20s/.*/user/;30s/.*/more/' | cmp - a && "
	      "seq 39 | sed '20s/.*/user/;30s/.*/more/' | cmp - touched && "
	      "seq 40 | sed '20s/.*/user/;30s/.*/more/' | cmp - late");
	end();
}

/* The copies, and the commit, are those of the time of the resume. */
TEST(old_copies_are_no_base_after_a_resume)
{
	static const char *const commit[] = { "status >../status",
					      "add . && git commit -qm two" };

	NEED_MOUNTS();
	for (size_t i = 0; i < ARRAY_SIZE(commit); i++) {
		AUTO_WORK struct work *w = NULL;

		begin();
		git("init -q . && seq 40 | tee a >b && git add . && git commit -qm one && seq 40 >u");
		w = start();
		EQ(base_begin(w, &err), 0);
		base_wait(w, false);
		inside(w, "sed -i 5s/.*/ag/ a u");
		over(w);
		EQ(accept_paths(w, NULL), 0);
		shell("sleep 0.02; cd p && sed -i 20s/.*/user/ a u b && sleep 0.02");
		git(commit[i]);
		w = resume(w);
		inside(w, "sed -i 35s/.*/last/ a u b");
		/* It goes back to what it was: only that is the user's change. */
		shell("sleep 0.02; cd p && sed -i 20s/.*/20/ a u b");
		over(w);
		EQ(accept_paths(w, NULL), 0);
		EQ(result.merged, 3);
		shell("cd p && seq 40 | sed '5s/.*/ag/;35s/.*/last/' | tee want | cmp - a && cmp want u && "
		      "seq 40 | sed '35s/.*/last/' | cmp - b");
		end();
	}
}

TEST(a_file_that_is_the_same_on_both_sides_is_common_after_a_resume)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	git("init -q . && seq 40 >a && git add . && git commit -qm one");
	w = start();
	inside(w, "sed -i 5s/.*/ag/ a");
	over(w);
	shell("cd p && sed -i 5s/.*/ag/ a && sleep 0.02");
	w = resume(w);
	inside(w, "sed -i 5s/.*/again/ a");
	over(w);
	EQ(accept_paths(w, NULL), 0);
	shell("seq 40 | sed 5s/.*/again/ | cmp - p/a");
	end();
}

TEST(modes_that_the_user_changed_are_kept_after_a_resume)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	shell("cd p && mkdir d e && echo 1 | tee d/f e/f >a && chmod 755 d e && chmod 644 a d/f");
	w = start();
	inside(w, "echo 2 >d/f; touch a");
	over(w);
	shell("cd p && chmod 700 d e && chmod 600 a && sleep 0.02");
	w = resume(w);
	inside(w, "echo 3 >e/f; chmod 750 e");
	over(w);
	STREQ(left(w), "M d/f|X e|M e/f|");
	EQ(accept_paths(w, "d/f e/f"), 0);
	shell("test \"$(cd p && stat -c %%a a d e | tr '\\n' ' ')\" = '600 700 700 '");
	end();
}

TEST(a_work_of_an_older_version_is_resumed)
{
	AUTO_WORK struct work *w = NULL;
	char id[ID_LEN + 1];

	NEED_MOUNTS();
	begin();
	shell("cd p && echo 1 | tee a >b");
	w = start();
	inside(w, "echo 2 >a");
	over(w);
	shell("sed -i '/^since/d' '%s/record' && echo mine | tee p/a >p/b && sleep 0.02",
	      w->dir);
	w = resume(w);
	inside(w, "echo 2 >b");
	over(w);
	EQ(accept_paths(w, NULL), -EEXIST);
	EQ(result.n_conflicts, 1);
	STREQ(result.conflicts[0].path, "a");
	/* A damaged list: nothing is taken for seen. */
	shell("cd '%s' && rm -r base before known && echo x >earlier", w->dir);
	(void)strcpy(id, w->id);
	w = work_close(w);
	EQ(work_open(id, true, &w, &err), 0);
	EQ(accept_paths(w, NULL), -EEXIST);
	EQ(result.n_conflicts, 2);
	end();
}
TEST_MAIN()
