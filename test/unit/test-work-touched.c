/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-touched.c - files that the user touches, or writes with the same contents */
#include <errno.h>
#include <sys/stat.h>

#include "work/base.h"

#include "lib/work_accept.h"

static void upper(const struct work *w, const char *command)
{
	shell("cd '%s/writes/upper' && %s", w->dir, command);
}

/* Files of all kinds, and a sandbox that changes or removes all of them. */
static struct work *begin_kinds(void)
{
	struct work *w;

	begin();
	shell("mkdir p/d && cd p && printf 'a\\0b' | tee bin >moved && echo x >d/x && "
	      "echo gone >gone && echo type >type && ln -s old link && seq 9 >text && "
	      "ln -s old unlinked");
	w = start();
	upper(w,
	      "printf 'a\\0bc' >bin && printf 'a\\0b' >there && mknod moved c 0 0 && "
	      "mknod d c 0 0 && mknod gone c 0 0 && ln -s bin type && ln -s new link && "
	      "seq 10 >text && mknod unlinked c 0 0");
	return w;
}

/* The paths of changes of files that the user has changed, too. */
static const char *touched(struct work *w)
{
	static char text[512];
	AUTO_CHANGES struct changes c = { 0 };
	size_t n = 0;

	text[0] = '\0';
	if (changes_list(w, 0, &c, &err) < 0)
		TAP_FAIL("%s", err.msg);
	for (size_t i = 0; i < c.n; i++)
		if (c.v[i].touched)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s|",
					      c.v[i].path);
	return text;
}

TEST(files_that_are_only_touched_are_not_changed)
{
	static const char *const touches[] = {
		"touch -h bin moved d/x gone type link text unlinked",
		"for f in bin moved d/x gone type link text unlinked; do "
		"cp -a $f t && mv -f t $f; done",
		"cp -a . ../saved && rm -r * && cp -r --preserve=mode,links ../saved/* .",
	};

	for (size_t i = 0; i < ARRAY_SIZE(touches); i++) {
		struct work *w = begin_kinds();
		char id[ID_LEN + 1];

		EQ(work_end(w, 0, &err), 0);
		shell("sleep 0.02; cd p && %s", touches[i]);
		/* Another command finds the sums. */
		(void)strcpy(id, w->id);
		(void)work_close(w);
		EQ(work_open(id, true, &w, &err), 0);
		STREQ(touched(w), "");
		EQ(accept_paths(w, NULL), 0);
		EQ(result.merged, 0);
		shell("cd p && test \"$(ls -A | tr '\\n' ' ')\" = 'bin link text there type ' "
		      "&& printf 'a\\0bc' | cmp - bin && seq 10 | cmp - text && "
		      "test \"$(readlink type link | tr '\\n' ' ')\" = 'bin new '");
		STREQ(left(w), "");
		(void)work_close(w);
		end();
	}
}

TEST(files_that_the_user_really_changed_are_a_conflict)
{
	/* The first word is the file that a command changes, with the same size. */
	static const char *const changes[][2] = {
		{ "bin", "printf 'a\\0B' >bin" },
		{ "moved", "printf 'a\\0B' >moved" },
		{ "d/x", "echo y >d/x" },
		{ "gone", "echo gonE >gone" },
		{ "gone", "chmod 600 gone" },
		{ "type", "echo tyPe >type" },
		{ "link", "ln -sfn olD link" },
		{ "unlinked", "ln -sfn olD unlinked" },
		{ "unlinked", "rm unlinked; printf old >unlinked" },
		{ "text", "seq 9 | sed s/9/8/ >text" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		struct work *w = begin_kinds();
		char want[32];

		EQ(work_end(w, 0, &err), 0);
		(void)snprintf(want, sizeof(want), "%s|", changes[i][0]);
		shell("sleep 0.02; cd p && touch -h * d/x && %s && cp -a . ../mine",
		      changes[i][1]);
		STREQ(touched(w), want);
		EQ(accept_paths(w, NULL), -EEXIST);
		EQ(result.n_conflicts, 1);
		STREQ(result.conflicts[0].path, changes[i][0]);
		shell("diff -r --no-dereference p mine");
		(void)work_close(w);
		end();
	}
}

/* It is not known what such a file was when the sandbox started. */
TEST(files_that_are_touched_while_the_sandbox_runs_count_as_changed)
{
	struct work *w = begin_kinds();

	shell("sleep 0.02; touch p/bin");
	EQ(work_end(w, 0, &err), 0);
	STREQ(touched(w), "bin|");
	EQ(accept_paths(w, "bin"), -EEXIST);
	EQ(accept_paths(w, "gone link"), 0);
	(void)work_close(w);
	end();
}

/* A name of a file may have become one of another file with the same contents. */
TEST(another_name_of_a_touched_file_is_judged_on_its_own)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("cd p && printf '\\0a' >a && printf '\\0b' >b && printf '\\0a' >c");
	w = start();
	upper(w, "printf '\\0a2' >a && printf '\\0b2' >b && printf '\\0c2' >c");
	EQ(work_end(w, 0, &err), 0);
	shell("sleep 0.02; cd p && ln -f a b && ln -f a c");
	STREQ(touched(w), "b|");
	EQ(accept_paths(w, "a"), 0);
	EQ(accept_paths(w, "b"), -EEXIST);
	shell("printf '\\0a' | cmp - p/b && printf '\\0a2' | cmp - p/a");
	EQ(accept_paths(w, "c"), 0);
	end();
}

/* Afterwards, the old contents are a change of the user. */
TEST(contents_from_before_an_accept_are_a_change)
{
	AUTO_WORK struct work *w = NULL;
	const struct accept_options allow = { .allow = GUARD_SETID };

	begin();
	shell("cd p && printf '\\0a' >a && chmod 755 a && cp -p a ../a && echo x >x && "
	      "echo y >y && cp -p x ../x");
	w = start();
	upper(w, "printf '\\0b' >a && chmod 4755 a && mknod x c 0 0 && mknod y c 0 0");
	EQ(work_end(w, 0, &err), 0);
	EQ(accept_paths(w, "a x"), 0);
	STREQ(left(w), "X a|D y|");
	shell("sleep 0.02; cp -p a x p && touch p/y");
	STREQ(touched(w), "a|");
	EQ(decide(w, "a", 0, &allow), -EEXIST);
	shell("printf '\\0a' | cmp - p/a");
	/* What was accepted may be touched. */
	shell("printf '\\0b' >p/a");
	EQ(decide(w, NULL, 0, &allow), 0);
	shell("cd p && cmp x ../x && test ! -e y -a -u a");
	end();
}

TEST(a_resume_keeps_only_what_the_sandbox_had_changed)
{
	AUTO_WORK struct work *w = NULL;
	char id[ID_LEN + 1];

	begin();
	shell("cd p && printf '\\0a' | tee a >b");
	w = start();
	upper(w, "printf '\\0c' | tee a >b");
	EQ(work_end(w, 0, &err), 0);
	EQ(reject_paths(w, "b"), 0);
	shell("sleep 0.02; cd p && touch a && printf '\\0u' >b && sleep 0.02");
	(void)strcpy(id, w->id);
	(void)work_close(w);
	EQ(work_open(id, true, &w, &err), 0);
	EQ(base_renew(w, &err), 0);
	upper(w, "printf '\\0d' | tee a >b");
	/* Before the end of this run, its beginning is not known. */
	shell("sleep 0.02; printf '\\0a' >p/b");
	STREQ(touched(w), "b|");
	shell("printf '\\0u' >p/b");
	EQ(work_end(w, 0, &err), 0);
	EQ(accept_paths(w, "b"), -EEXIST);
	EQ(accept_paths(w, "a"), 0);
	shell("printf '\\0d' | cmp - p/a && printf '\\0u' | cmp - p/b");
	end();
}

TEST_MAIN()
