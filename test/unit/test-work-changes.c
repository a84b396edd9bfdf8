/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-changes.c - which changes a sandbox made, and which of them need permission
 */
#include "work/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "work/changes_internal.h"

#include "lib/work.h"

static char listed[65536];

/* "M+ path|": kind, with flags: i ignored, t touched, * a whole directory, # guarded. */
static const char *list(struct work *w, unsigned flags)
{
	AUTO_CHANGES struct changes c = { 0 };
	size_t n = 0;

	if (changes_list(w, flags, &c, &err) < 0)
		TAP_FAIL("%s", err.msg);
	listed[0] = '\0';
	for (size_t i = 0; i < c.n; i++) {
		const struct change *v = &c.v[i];

		n += (size_t)snprintf(listed + n, sizeof(listed) - n,
				      "%c%s%s%s%s %s%s%s|", "AMDRXT"[v->kind],
				      v -> ignored ? "i" : "", v->touched ? "t" : "",
				      v->tree ? "*" : "", v->guard ? "#" : "", v->path,
				      v->from ? "<" : "", v->from ? v->from : "");
	}
	return listed;
}

#define NEED_MOUNTS() SKIP_UNLESS(geteuid() == 0, "mounts an overlay")

TEST(files_are_added_modified_removed_and_renamed)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	shell("cd p && mkdir d e && echo 1 >a && echo 2 >b && echo 3 >d/c && echo 44 >e/x && "
	      "ln -s a l && echo same >same && echo run >run && echo mode >mode");
	w = start();
	STREQ(list(w, 0), "");
	inside(w, "echo 11 >a; rm b; rm -r d; mv e f; ln -sf same l; echo same >same; "
		  "touch mode; chmod +x run; mkdir -p n/empty n/full; echo >n/full/x");
	STREQ(list(w, 0), "M a|D b|D d/c|R f/x<e/x|M l|A n/empty|A n/full/x|X run|");
	end();
}

TEST(files_with_the_same_contents_are_renamed_once)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	shell("cd p && mkdir d && echo 1 >a && echo 1 >b && echo 1 >d/x");
	w = start();
	inside(w, "mkdir e; mv d/x e/x; rm a; mv b c; cp c f; cp c g");
	STREQ(list(w, 0), "R c<a|R e/x<d/x|R f<b|A g|");
	end();
}

/* Otherwise, one could accept that the old file is removed, and reject the new one. */
TEST(files_that_were_moved_to_an_ignored_or_guarded_place_are_renamed)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_CHANGES struct changes c = { 0 };

	NEED_MOUNTS();
	begin();
	shell("cd p && mkdir d .git && echo 'build\n*.log' >.gitignore && echo 1 >a && "
	      "echo 22 >b && echo 333 >d/c && echo 4444 >e && echo 55555 >f && "
	      "mkdir -p .git/hooks .git/objects && echo 666666 >g && echo 7777777 >h");
	w = start();
	inside(w,
	       "mkdir -p build/deep two/build; mv a build/deep; mv b b.log; mv d two/build; "
	       "echo x >build/x; cp e build; mv e e2; rm f; mv g .git/hooks/pre-commit; "
	       "mv h .git/objects/h");
	STREQ(list(w, 0),
	      "R# .git/hooks/pre-commit<g|Ri b.log<b|Ai* build|Ri build/deep/a<a|"
	      "R e2<e|D f|D h|Ri two/build/d/c<d/c|");
	EQ(changes_list(w, 0, &c, &err), 0);
	EQ(c.v[2].n_files, 2);
	STREQ(list(w, CHANGES_EXPAND),
	      "R# .git/hooks/pre-commit<g|A# .git/objects/h|Ri b.log<b|Ri build/deep/a<a|Ai build/e|"
	      "Ai build/x|R e2<e|D f|D h|Ri two/build/d/c<d/c|");
	end();
}

TEST(directories_that_were_replaced)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	shell("cd p && mkdir -p d/sub o/sub t empty && echo 1 >d/a && echo 2 >d/sub/b && "
	      "echo 3 >o/x && echo 4 >o/sub/y && echo 5 >t/z && echo 6 >f");
	w = start();
	inside(w,
	       "rm -r d; echo file >d; rm -r o; mkdir o o/sub; echo 3 >o/x; echo new >o/n; "
	       "rm f; mkdir f; echo in >f/g; rmdir empty; rm -r t; mkdir t");
	STREQ(list(w, 0), "T d|D d/a|D d/sub/b|D empty|T f|A f/g|A o/n|D o/sub/y|D t/z|");
	end();
}

TEST(ignored_files_and_repositories_are_one_line)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	shell("cd p && git init -q . && mkdir -p dist build src/target && "
	      "printf 'node_modules/\\n*.log\\n!keep.log\\n/dist\\nbuild\\n' >.gitignore && "
	      "echo target >src/.gitignore && echo t >dist/tracked && echo i >build/i");
	git("add -f .gitignore src/.gitignore dist/tracked && git commit -qm one");
	w = start();
	inside(w,
	       "mkdir -p node_modules/x/y; touch node_modules/x/1 node_modules/x/y/2; "
	       "echo l >a.log; echo l >keep.log; echo t >>dist/tracked; touch dist/other; "
	       "rm -r build; touch src/target/x");
	STREQ(list(w, 0), "Ai a.log|Di* build|Mi* dist|M dist/tracked|A keep.log|"
			  "Ai* node_modules|Mi* src/target|");
	STREQ(list(w, CHANGES_EXPAND),
	      "Ai a.log|Di build/i|Ai dist/other|M dist/tracked|A keep.log|Ai node_modules/x/1|"
	      "Ai node_modules/x/y/2|Ai src/target/x|");
	end();
}

/* The user's .gitignore files count, too: the sandbox must not choose what is ignored. */
TEST(a_sandbox_that_changes_gitignore_files_gets_no_ignored_files_accepted)
{
	static const char *const ways[] = {
		"echo >.gitignore; echo '!*.key' >d/.gitignore",
		"rm .gitignore d/.gitignore",
		"mv .gitignore x; rm x; mkdir .gitignore; rm -r d; mkdir d",
		"printf '!*\n!*.key\n!node_modules\n!*.log\n' | tee .gitignore >d/.gitignore",
		"ln -sf /dev/null .gitignore; ln -sf x d/.gitignore",
	};

	NEED_MOUNTS();
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct work *w;
		AUTO_FREE char *all = NULL;

		begin();
		git("init -q . && printf 'node_modules\n*.key\n' >.gitignore && mkdir d && "
		    "echo '*.log' >d/.gitignore && git add -A && git commit -qm one");
		w = start();
		inside(w, "%s", ways[i]);
		inside(w,
		       "mkdir node_modules; touch node_modules/x a.key d/a.log d/b.key b.log");
		all = strdup(list(w, 0));
		OK(all && strstr(all, "Ai a.key|") && strstr(all, "Ai* node_modules|"));
		OK(strstr(all, "Ai d/a.log|") && strstr(all, "Ai d/b.key|"));
		OK(strstr(all, "|A b.log|"));
		/* What the sandbox ignores is left out as well. */
		inside(w, "rm -rf .gitignore; echo b.log >.gitignore");
		free(all);
		all = strdup(list(w, 0));
		OK(all && strstr(all, "Ai a.key|") && strstr(all, "|Ai b.log|"));
		w = work_close(w);
		end();
	}
}

/* Patterns that take long decide nothing, and the user's go on doing that. */
TEST(patterns_of_a_sandbox_take_a_limited_time)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_CHANGES struct changes c = { 0 };
	char name[101];

	NEED_MOUNTS();
	begin();
	git("init -q . && echo '*.key' >.gitignore && git add -A && git commit -qm one");
	w = start();
	inside(w, "printf '*.key\n*.log\n' >.gitignore; touch a a.key b.log");
	EQ(changes_list(w, 0, &c, &err), 0);
	EQ(c.patterns, PATTERNS_ALL);
	STREQ(list(w, 0), "M .gitignore|A a|Ai a.key|Ai b.log|");
	(void)memset(name, 'a', 100);
	name[100] = '\0';
	inside(w,
	       "for i in $(seq 10000); do printf '/**/*a***/*a***/*a***/*a***/*a*b%%d\n' "
	       "$i; done >.gitignore; echo '*.log' >>.gitignore; d=$(for i in $(seq 30); "
	       "do printf '%s/'; done); mkdir -p $d; touch ${d}f",
	       name);
	changes_done(&c);
	EQ(changes_list(w, CHANGES_LINES, &c, &err), 0);
	EQ(c.patterns, PATTERNS_YOURS);
	OK(strstr(list(w, 0), "|A a|") && strstr(list(w, 0), "|Ai a.key|"));
	OK(strstr(list(w, 0), "|A b.log|"));
	end();
}

TEST(what_git_executes_needs_permission)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	git("init -q . && echo 1 >a && git add . && git commit -qm one");
	w = start();
	/* git rewrites its index when it inspects the tree. */
	inside(w, "git -c safe.directory=* status >/dev/null; touch .git/index");
	STREQ(list(w, 0), "");
	inside(w, "echo 2 >a; git -c safe.directory=* -c user.name=a -c user.email=a@b "
		  "commit -qam two; echo 'echo bad' >.git/hooks/pre-commit; "
		  "git -c safe.directory=* config core.fsmonitor bad; mkdir s v .GIT; "
		  "echo 'gitdir: /x' >s/.git; git init -q v; echo x >.GIT/config; "
		  "git init -q --bare bare");
	STREQ(list(w, 0),
	      "A# .GIT/config|M*# .git|M# .git/config|A# .git/hooks/pre-commit|"
	      "M a|A*# bare|A# bare/config|A# s/.git|A*# v/.git|A# v/.git/config|");
	end();
}

TEST(commits_of_submodules_and_worktrees_are_changes)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_CHANGES struct changes c = { 0 };

	begin();
	shell("mkdir -p p/.git/objects p/.git/refs && touch p/.git/HEAD");
	w = start();
	shell("mkdir -p '%s/writes/upper/.git' && cd '%s/writes/upper/.git' && echo x >index && "
	      "mkdir -p modules/a/objects && echo x >modules/a/index && echo x >modules/a/objects/x",
	      w->dir, w->dir);
	STREQ(list(w, 0), "");
	shell("cd '%s/writes/upper/.git' && mkdir -p modules/a/refs/heads && echo x >modules/a/refs/heads/b",
	      w->dir);
	STREQ(list(w, 0), "M*# .git|");
	shell("cd '%s/writes/upper/.git' && rm -r modules/a/refs && mkdir -p worktrees/w && echo x >worktrees/w/HEAD",
	      w->dir);
	STREQ(list(w, 0), "M*# .git|");
	shell("cd '%s/writes/upper/.git' && echo x >packed-refs && mkdir -p modules/a/modules/b && echo x >modules/a/modules/b/HEAD",
	      w->dir);
	EQ(changes_list(w, CHANGES_EXPAND, &c, &err), 0);
	for (size_t i = 0; i < c.n; i++)
		EQ(change_is_ref(&c.v[i]),
		   strstr(c.v[i].path, "HEAD") || strstr(c.v[i].path, "packed-refs"));
	EQ(c.n, 6);
	end();
}

TEST(a_repository_in_several_directories_needs_permission)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("mkdir -p p/mixed/objects p/mixed/refs p/late && echo 1 >p/a && "
	      "echo 'ref: refs/heads/main' >p/late/HEAD");
	w = start();
	shell("cd '%s/writes/upper' && mkdir -p x y/objects/k y/refs/k mixed late plain && "
	      "echo 'ref: refs/heads/main' >x/HEAD && echo ../y >x/commondir && "
	      "printf '[core]\\nbare = false\\nworktree = .\\nfsmonitor = \"touch ../../../ran; false\"\\n' "
	      ">x/config.worktree && "
	      "printf '[core]\\nrepositoryformatversion = 0\\nworktree = ../x\\n[extensions]\\nworktreeConfig = true\\n' >y/config && "
	      "touch y/objects/k/f y/refs/k/f && cp x/HEAD mixed && echo x >mixed/config && "
	      "echo ../y >late/commondir && echo x >late/config.worktree && "
	      "cp x/HEAD plain && echo x >plain/config && echo 2 >a",
	      w->dir);
	/* Git does run it. */
	shell("cd '%s/writes/upper/x' && git -c safe.directory='*' status >/dev/null && "
	      "rm ../../../ran && rm -f index*",
	      w->dir);
	STREQ(list(w, CHANGES_EXPAND),
	      "M a|A# late/commondir|A# late/config.worktree|A# mixed/HEAD|"
	      "A# mixed/config|A plain/HEAD|A plain/config|A# x/HEAD|A# x/commondir|"
	      "A# x/config.worktree|A y/config|A y/objects/k/f|A y/refs/k/f|");
	end();
}

TEST(a_project_that_becomes_a_repository_is_listed)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	shell("mkdir p/objects && touch p/objects/x && echo 1 >p/a");
	w = start();
	/* Without objects, the sandbox does not have a repository; the project would. */
	inside(w, "echo 2 >a; echo x >HEAD; mkdir refs; touch refs/x; rm -r objects");
	STREQ(list(w, 0), "A# HEAD|M# a|D# objects/x|A# refs/x|");
	end();
}

TEST(other_kinds_of_files_need_permission)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	shell("cd p && echo 1 >a && echo hidden >.env && mkdir in");
	w = start();
	shell("mknod '%s/hide/.env' c 0 0", w->dir);
	inside(w,
	       "mkfifo fifo; mknod null c 1 3; chmod u+s a; ln -s /etc/passwd abs; "
	       "ln -s ../x out; ln -s ../a in/up; ln -s ../../x in/out; ln -s a fine; "
	       "ln -s fine/../../x tricky; echo guess >.env; rm -f .env; echo new >.env; "
	       "mkdir -p q/.warren-d/e; touch q/.warren-f q/.warren-d/e/f q/.warren q/x.warren-f");
	STREQ(list(w, 0),
	      "A# .env|X# a|A# abs|A# fifo|A fine|A# in/out|A in/up|A# null|A# "
	      "out|A q/.warren|A# q/.warren-d/e/f|A# q/.warren-f|A q/x.warren-f|A# tricky|");
	end();
}

TEST(names_may_contain_anything)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_CHANGES struct changes c = { 0 };
	char name[256];
	int upper;

	begin();
	w = start();
	upper = open(in("state/works"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OK(upper >= 0);
	(void)close(upper);
	(void)snprintf(name, sizeof(name), "%s/writes/upper", w->dir);
	upper = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 1; i < 256; i++) {
		char one[4] = { 'x', (char)i, 'y', '\0' };

		if (i != '/')
			OK(close(openat(upper, one, O_CREAT | O_WRONLY | O_CLOEXEC,
					0644)) == 0);
	}
	OK(close(openat(upper, "-rf", O_CREAT | O_WRONLY | O_CLOEXEC, 0644)) == 0);
	(void)memset(name, 'n', 255);
	name[255] = '\0';
	OK(close(openat(upper, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644)) == 0);
	EQ(changes_list(w, 0, &c, &err), 0);
	EQ(c.n, 256);
	STREQ(c.v[0].path, "-rf");
	STREQ(c.v[1].path, name);
	STREQ(c.v[2].path, "x\1y");
	end();
}

TEST(deep_trees_are_limited)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_CHANGES struct changes c = { 0 };
	int dir;

	begin();
	w = start();
	dir = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = openat(dir, "writes/upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 3000; i++) {
		int next;

		EQ(mkdirat(dir, "d", 0755), 0);
		next = openat(dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		OK(next >= 0);
		(void)close(dir);
		dir = next;
	}
	(void)close(dir);
	EQ(changes_list(w, 0, &c, &err), 0);
	EQ(c.n, 0);
	EQ(c.n_skipped, 1);
	EQ(work_remove(TAKE_PTR(w), &err), 0);
	end();
}

/* Reading all of it would take hours. */
TEST(huge_sparse_files_are_compared_quickly)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("truncate -s 4T p/same p/differs");
	w = start();
	shell("cd '%s/writes/upper' && truncate -s 4T same differs && "
	      "echo x | dd of=differs bs=1 seek=3T conv=notrunc 2>/dev/null",
	      w->dir);
	STREQ(list(w, 0), "M differs|");
	end();
}

/* Many files of the same size, and files that are too large to compare. */
/* What is beyond the limit of all files has sizes instead of lines. */
TEST(lines_are_counted_for_a_limited_time)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_CHANGES struct changes c = { 0 };
	size_t counted = 0, uncounted = 0;

	NEED_MOUNTS();
	begin();
	shell("cd p && yes a | head -n 4000000 >0 && for i in 1 2 3 4 5 6 7 8 9; do "
	      "cp 0 $i; done; echo x >small");
	w = start();
	inside(w,
	       "yes b | head -n 3800000 >/tmp/n.$$; for i in *; do cat /tmp/n.$$ >$i; done; "
	       "rm /tmp/n.$$; echo y >added; rm small");
	EQ(changes_list(w, CHANGES_LINES, &c, &err), 0);
	EQ(c.n, 12);
	for (size_t i = 0; i < c.n; i++) {
		struct change *v = &c.v[i];

		if (v->kind != CHANGE_MODIFIED)
			continue;
		counted += v->lines_added == 3800000 && v->lines_removed == 4000000;
		uncounted += v->uncounted && v->binary && v->lines_added == 0;
	}
	OK(counted > 0 && uncounted > 0);
	EQ(counted + uncounted, 10);
	end();
}

TEST(renames_are_searched_for_within_bounds)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_CHANGES struct changes c = { 0 };
	size_t renamed = 0;

	SKIP_UNLESS(geteuid() == 0, "creates whiteouts");
	begin();
	shell("mkdir p/d && cd p/d && for i in $(seq 1000 1399); do echo $i >f$i; done && "
	      "truncate -s 5G ../huge && echo small >../small");
	w = start();
	shell("cd '%s/writes/upper' && mknod d c 0 0 && mkdir e && cd e && "
	      "for i in $(seq 2000 2399); do echo $i >f$i; done && "
	      "mknod ../huge c 0 0 && truncate -s 5G big && mknod ../small c 0 0 && echo small >a",
	      w->dir);
	EQ(changes_list(w, CHANGES_LINES, &c, &err), 0);
	for (size_t i = 0; i < c.n; i++)
		renamed += c.v[i].kind == CHANGE_RENAMED;
	EQ(c.n, 803);
	EQ(renamed, 1);
	end();
}

TEST(the_contents_of_both_sides_are_read)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_CHANGES struct changes c = { 0 };
	AUTO_CHANGE_SIDE struct change_side old = { 0 }, new = { 0 };

	begin();
	shell("cd p && printf 'one\\ntwo\\n' >a && echo gone >b && ln -s a l");
	w = start();
	shell("cd '%s/writes/upper' && printf 'one\\n2\\n3\\n' >a && mv ../../../../../p/b n && "
	      "ln -s n l && printf 'x\\0y' >bin",
	      w->dir);
	EQ(changes_list(w, CHANGES_LINES, &c, &err), 0);
	EQ(c.n, 4);
	STREQ(c.v[0].path, "a");
	EQ(c.v[0].lines_added, 2);
	EQ(c.v[0].lines_removed, 1);
	OK(c.v[1].binary);
	EQ(change_contents(w, &c.v[0], &old, &new, &err), 0);
	OK(text_equal(old.text, TEXT("one\ntwo\n", 8)));
	OK(text_equal(new.text, TEXT("one\n2\n3\n", 8)));
	change_side_done(&old);
	change_side_done(&new);
	EQ(change_contents(w, &c.v[2], &old, &new, &err), 0);
	OK(text_equal(old.text, TEXT("a", 1)));
	OK(text_equal(new.text, TEXT("n", 1)));
	end();
}

TEST(files_that_the_user_changed_are_marked)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("cd p && echo 1 >a && echo 2 >b");
	w = start();
	shell("cd '%s/writes/upper' && echo s >a && echo s >b", w->dir);
	shell("sleep 0.05; echo user >p/b");
	STREQ(list(w, 0), "M a|Mt b|");
	end();
}

TEST(times_in_whole_seconds_have_a_margin)
{
	AUTO_WORK struct work *w = NULL;
	struct stat st = { 0 };

	begin();
	w = start();
	st.st_ctim.tv_sec = (time_t)(w->started_ns / 1000000000);
	OK(known_touched(w, "a", &st));
	st.st_ctim.tv_sec -= 3;
	OK(!known_touched(w, "a", &st));
	st.st_ctim.tv_sec += 2;
	st.st_ctim.tv_nsec = 1;
	OK(!known_touched(w, "a", &st));
	st.st_ctim.tv_sec += 2;
	OK(known_touched(w, "a", &st));
	end();
}

TEST_MAIN()
