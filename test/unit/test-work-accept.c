/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-accept.c - changes are applied to the project, or discarded */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "work/accept_internal.h"
#include "work/base.h"

#include "lib/work_accept.h"

#define NEED_MOUNTS() SKIP_UNLESS(geteuid() == 0, "mounts an overlay")

#define PROJECT                                                                            \
	"cd p && mkdir -p d/sub e o gone && echo 1 >a && echo 2 >b && echo 3 >d/c && "     \
	"echo 4 >d/sub/x && echo 44 >e/x && ln -s a l && echo run >run && echo 5 >o/x && " \
	"echo t >t && mkdir u && echo v >u/v && echo 6 >gone/y && chmod 640 b"
#define CHANGES                                                                      \
	"echo 11 >a; echo 22 >b; rm -r d; mv e f; ln -sf t l; chmod +x run; "        \
	"mkdir -p n/empty n/full; echo >n/full/x; rm -r o; mkdir o; echo new >o/n; " \
	"rm t; mkdir t; echo in >t/in; rm -r u; echo file >u; rm -r gone"

TEST(the_project_becomes_what_the_sandbox_has)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	shell(PROJECT);
	w = start();
	inside(w, CHANGES "; find . | sort >/tmp/x-$PPID; cp -a . ../seen");
	EQ(accept_paths(w, NULL), 0);
	shell("diff -r --no-dereference seen p && cd seen && find . | sort >../1 && cd ../p && find . | sort >../2 && "
	      "cmp ../1 ../2 && test -x run && test $(stat -c %%a b) = 640 && test $(readlink l) = t");
	STREQ(left(w), "");
	clean(w);
	/* The sandbox still sees the same, and later changes of both sides. */
	shell("echo later >p/n/full/y");
	inside(w, "cmp a ../p/a; test -e n/full/y -a -e o/n -a ! -e o/x; echo 111 >a");
	STREQ(left(w), "M a|");
	EQ(accept_paths(w, NULL), 0);
	shell("rm -f /tmp/x-*; test $(cat p/a) = 111");
	end();
}

TEST(all_changes_can_be_rejected)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	shell(PROJECT);
	shell("cp -a p before");
	w = start();
	inside(w, CHANGES);
	EQ(reject_paths(w, NULL), 0);
	STREQ(left(w), "");
	shell("diff -r --no-dereference before p");
	inside(w, "diff -r --no-dereference ../before .");
	end();
}

TEST(what_cannot_be_rejected_does_not_keep_others)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_CHANGES struct changes c = { 0 };
	AUTO_CHANGE_SIDE struct change_side old = { 0 }, new = { 0 };
	struct text_diff d AUTO_DIFF = { 0 };
	struct patch p AUTO_PATCH = { 0 };
	char seen[ACCEPT_SUM_SIZE];
	struct accept_item items[3] = { { .hunks = &p, .seen = seen } };

	begin();
	shell("seq 60 >p/a && echo 1 >p/b");
	w = start();
	shell("cd '%s/writes/upper' && seq 60 | sed 's/^5$/five/;s/^55$/fiftyfive/' >a && echo 2 >b && echo 3 >c",
	      w->dir);
	EQ(changes_list(w, 0, &c, &err), 0);
	EQ(c.n, 3);
	EQ(change_contents(w, &c.v[0], &old, &new, &err), 0);
	accept_sum(&old, seen);
	EQ(text_diff_make(old.text, new.text, &d, &err), 0);
	EQ(patch_from_diff(&d, 3, &p, &err), 0);
	for (size_t i = 0; i < 3; i++)
		items[i].change = &c.v[i];
	/* The hunk that is kept no longer fits. */
	p.v[0].skip = true;
	shell("echo other >p/a");
	OK(reject_changes(w, items, 3, &err) < 0);
	OK(strstr(err.msg, "the rest was rejected"));
	STREQ(left(w), "M a|");
	shell("! ls -A '%s' | grep warren-new", w->dir);
	EQ(reject_changes(w, items + 1, 2, &err), 0);
	end();
}

TEST(each_change_can_be_decided_on_alone)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	shell(PROJECT);
	w = start();
	inside(w,
	       "rm -r d; rm -r o; mkdir o; echo new >o/n; echo 11 >a; mkdir -p n/m; echo 1 >n/m/1; echo 2 >n/m/2");
	STREQ(left(w), "M a|D d/c|D d/sub/x|A n/m/1|A n/m/2|A o/n|D o/x|");
	EQ(reject_paths(w, "d/c o/x n/m/2"), 0);
	STREQ(left(w), "M a|D d/sub/x|A n/m/1|A o/n|");
	inside(w,
	       "test $(cat d/c) = 3 -a $(cat o/x) = 5 -a $(cat o/n) = new -a ! -e d/sub -a ! -e n/m/2");
	EQ(accept_paths(w, "o/n d/sub/x n/m/1"), 0);
	EQ(result.accepted, 3);
	STREQ(left(w), "M a|");
	shell("cd p && test $(cat o/n) = new -a $(cat o/x) = 5 -a ! -e d/sub -a -e d/c -a $(cat n/m/1) = 1 -a $(cat a) = 1");
	end();
}

static void upper(const struct work *w, const char *command)
{
	shell("cd '%s/writes/upper' && %s", w->dir, command);
}

TEST(other_conflicts_are_reported)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	shell("cd p && echo 1 >removed && echo 1 >changed && printf '\\0' >bin && echo 1 >kind && echo 1 >gone");
	w = start();
	inside(w,
	       "rm removed; echo 2 >changed; printf '\\0\\1' >bin; echo 2 >added; rm kind; ln -s x kind; echo 2 >gone");
	EQ(work_end(w, 0, &err), 0);
	shell("sleep 0.02; cd p && echo 3 >removed && printf '\\0\\2' >bin && echo 3 >added && echo 3 >kind && rm gone");
	EQ(accept_paths(w, NULL), -EEXIST);
	EQ(result.n_conflicts, 5);
	shell("cd p && test $(cat changed) = 1");
	EQ(decide(w, NULL, 0, &(struct accept_options){ .conflicts = ACCEPT_THEIRS }), 0);
	shell("cd p && test ! -e removed -a $(cat changed) = 2 -a $(cat added) = 2 -a -L kind -a $(cat gone) = 2");
	STREQ(left(w), "");
	end();
}

/* What the user has in its place never disappears without the user, so "try again" would
 * not help. */
TEST(a_file_in_place_of_a_directory_is_a_conflict)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	shell("cd p && mkdir full made gone && echo 1 >full/x && echo 1 >fine");
	w = start();
	inside(w,
	       "echo 2 >fine; mkdir n; echo 2 >n/a; echo 2 >n/b; echo 2 >file; mkdir empty; "
	       "rm -r full; echo 2 >full; rmdir gone");
	EQ(work_end(w, 0, &err), 0);
	shell("sleep 0.02; cd p && echo mine >n && mkdir file && echo mine >file/x && "
	      "echo mine >empty && echo mine >full/mine && rmdir gone && echo mine >gone");
	EQ(accept_paths(w, NULL), -EEXIST);
	shell("test $(cat p/fine) = 1");
	clean(w);
	EQ(decide(w, NULL, 0, &(struct accept_options){ .conflicts = ACCEPT_SKIP }), 0);
	EQ(result.accepted, 2);
	shell("cd p && test $(cat fine) = 2 -a $(cat n) = mine -a $(cat file/x) = mine -a "
	      "$(cat empty) = mine -a $(cat full/mine) = mine -a ! -e full/x -a "
	      "$(cat gone) = mine");
	clean(w);
	/* With the sandbox's version, only a directory with other files stays. */
	EQ(decide(w, "n n/a n/b empty gone", 0,
		  &(struct accept_options){ .conflicts = ACCEPT_THEIRS }),
	   0);
	shell("cd p && test $(cat n/a) = 2 -a $(cat n/b) = 2 -a -d empty -a ! -e gone");
	EQ(decide(w, "file", 0, &(struct accept_options){ .conflicts = ACCEPT_THEIRS }),
	   -ENOTEMPTY);
	shell("rm p/file/x p/full/mine");
	EQ(decide(w, "file full", 0,
		  &(struct accept_options){ .conflicts = ACCEPT_THEIRS }),
	   0);
	shell("cd p && test $(cat file) = 2 -a $(cat full) = 2");
	STREQ(left(w), "");
	clean(w);
	end();
}

TEST(guarded_changes_need_permission)
{
	AUTO_WORK struct work *w = NULL;
	struct stat st;

	NEED_MOUNTS();
	begin();
	git("init -q . && echo x >.gitignore && echo 1 >a && echo secret >.env");
	w = start();
	shell("mknod '%s/hide/.env' c 0 0", w->dir);
	inside(w,
	       "echo bad >.git/hooks/pre-commit; echo '[x]' >>.git/config; mkfifo fifo; "
	       "ln -s /etc out; echo 2 >x; echo s >set; chmod 4755 set; chmod 4644 a; echo n >.env");
	EQ(accept_paths(w, ".git/hooks/pre-commit"), -EPERM);
	EQ(accept_paths(w, ".git/config"), -EPERM);
	EQ(accept_paths(w, "out"), -EPERM);
	EQ(accept_paths(w, "x"), -EPERM);
	EQ(accept_paths(w, "a"), -EPERM);
	EQ(accept_paths(w, ".env"), -EPERM);
	EQ(decide(w, "fifo", 0, &(struct accept_options){ .allow = ~0U }), -EPERM);
	/* The bit is dropped. */
	EQ(accept_paths(w, "set"), 0);
	EQ(stat(in("p/set"), &st), 0);
	EQ(st.st_mode & 07777, 0755);
	shell("cd p && test ! -e .git/hooks/pre-commit -a ! -L out -a ! -e x && ! grep -q '\\[x\\]' .git/config && test $(cat .env) = secret");
	EQ(decide(w, ".git/hooks/pre-commit out x a .env", 0,
		  &(struct accept_options){ .allow = ~0U, .ignored = true }),
	   -EEXIST);
	EQ(result.n_conflicts, 1);
	STREQ(result.conflicts[0].path, ".env");
	shell("test $(cat p/.env) = secret");
	EQ(decide(w, ".git/hooks/pre-commit out x a .env", 0,
		  &(struct accept_options){
			  .allow = ~0U, .ignored = true, .conflicts = ACCEPT_THEIRS }),
	   0);
	EQ(stat(in("p/a"), &st), 0);
	EQ(st.st_mode & 07777, 04644);
	shell("cd p && test -e .git/hooks/pre-commit -a -L out -a $(cat x) = 2 -a $(cat .env) = n");
	clean(w);
	end();
}

TEST(files_below_a_hidden_directory_need_permission)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("mkdir -p p/.aws/sub p/open && echo mine | tee p/.aws/key >p/.aws/sub/key");
	w = start();
	shell("mknod '%s/hide/.aws' c 0 0", w->dir);
	upper(w,
	      "mkdir -p .aws/sub open && echo s | tee .aws/key .aws/sub/key >open/key && echo something >.aws/new");
	EQ(accept_paths(w, ".aws/key"), -EPERM);
	EQ(accept_paths(w, ".aws/new"), -EPERM);
	EQ(accept_paths(w, ".aws/sub/key"), -EPERM);
	EQ(accept_paths(w, "open/key"), 0);
	shell("cd p && test $(cat .aws/key) = mine -a $(cat .aws/sub/key) = mine -a $(cat open/key) = s");
	EQ(decide(w, ".aws/sub/key .aws/new", 0,
		  &(struct accept_options){ .allow = GUARD_HIDDEN }),
	   -EEXIST);
	EQ(decide(w, ".aws/sub/key .aws/new", 0,
		  &(struct accept_options){ .allow = GUARD_HIDDEN,
					    .conflicts = ACCEPT_SKIP }),
	   0);
	shell("cd p && test $(cat .aws/key .aws/sub/key .aws/new | tr -d '\\n') = mineminesomething");
	end();
}

/* The user's own file is not what was before it. */
TEST(a_file_that_the_sandbox_did_not_see_is_a_conflict)
{
	static const char *const made[] = { "echo s >a", ": >a", "ln -s x a", "mkdir a",
					    "mkdir a && echo s >a/b" };
	const struct accept_options allow = { .allow = GUARD_HIDDEN };

	for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
		AUTO_WORK struct work *w = NULL;
		AUTO_CHANGES struct changes c = { 0 };

		begin();
		shell("echo mine >p/a && chmod 600 p/a");
		w = start();
		shell("mknod '%s/hide/a' c 0 0 && mknod '%s/hide/none' c 0 0", w->dir,
		      w->dir);
		upper(w, made[i]);
		upper(w, "echo new >none");
		EQ(changes_list(w, 0, &c, &err), 0);
		EQ(c.n, 2);
		EQ(c.v[0].guard & GUARD_HIDDEN, GUARD_HIDDEN);
		OK(c.v[0].unseen);
		OK(!c.v[1].unseen);
		EQ(decide(w, NULL, 0, &allow), -EEXIST);
		EQ(result.n_conflicts, 1);
		shell("cd p && test $(cat a) = mine -a ! -e none && test $(stat -c %%a a) = 600");
		EQ(decide(w, "none", 0, &allow), 0);
		shell("test $(cat p/none) = new");
		EQ(decide(w, NULL, 0,
			  &(struct accept_options){ .allow = GUARD_HIDDEN,
						    .conflicts = ACCEPT_THEIRS }),
		   0);
		shell("cd p && test \"$(cat a 2>/dev/null)\" != mine && { test -e a || test -L a; }");
		accept_result_done(&result);
		end();
	}
}

TEST(ignored_directories_are_accepted_as_a_whole)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	git("init -q . && echo build >.gitignore");
	w = start();
	inside(w, "mkdir -p build/a/b; echo 1 >build/1; echo 2 >build/a/b/2; echo 3 >c");
	STREQ(left(w), "A build|A c|");
	EQ(accept_paths(w, "build"), -EPERM);
	EQ(decide(w, "build", 0, &(struct accept_options){ .ignored = true }), 0);
	EQ(result.accepted, 2);
	shell("test $(cat p/build/a/b/2) = 2 -a ! -e p/c");
	STREQ(left(w), "A c|");
	EQ(reject_paths(w, "c"), 0);
	STREQ(left(w), "");
	end();
}

TEST(only_what_is_in_a_directory_is_accepted_with_it)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	git("init -q . && printf 'b\\nb.d\\nd\\n' >.gitignore");
	w = start();
	upper(w,
	      "mkdir -p a b/b b.d b0 d z && touch a/x b/a b/b/b b/z b.d/x b0/x d/x z/x b-");
	STREQ(left(w), "A a/x|A b|A b-|A b.d|A b0/x|A d|A z/x|");
	EQ(decide(w, "b", 0, &(struct accept_options){ .ignored = true }), 0);
	EQ(result.accepted, 3);
	STREQ(left(w), "A a/x|A b-|A b.d|A b0/x|A d|A z/x|");
	EQ(decide(w, "b.d d z/x", 0, &(struct accept_options){ .ignored = true }), 0);
	STREQ(left(w), "A a/x|A b-|A b0/x|");
	shell("cd p && test -e b/b/b -a -e b.d/x -a -e d/x -a -e z/x -a ! -e b0 -a ! -e b-");
	end();
}

TEST(the_hunks_of_a_file_can_be_chosen)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_CHANGES struct changes c = { 0 };
	AUTO_CHANGE_SIDE struct change_side old = { 0 }, new = { 0 };
	struct text_diff d AUTO_DIFF = { 0 };
	struct patch p AUTO_PATCH = { 0 };
	char seen[ACCEPT_SUM_SIZE];
	struct accept_item item = { .hunks = &p, .seen = seen };

	begin();
	shell("seq 60 >p/a");
	w = start();
	upper(w, "seq 60 | sed 's/^5$/five/;s/^30$/thirty/;s/^55$/fiftyfive/' >a");
	EQ(changes_list(w, 0, &c, &err), 0);
	EQ(change_contents(w, &c.v[0], &old, &new, &err), 0);
	accept_sum(&old, seen);
	EQ(text_diff_make(old.text, new.text, &d, &err), 0);
	EQ(patch_from_diff(&d, 3, &p, &err), 0);
	EQ(p.n, 3);
	item.change = &c.v[0];
	p.v[0].skip = p.v[2].skip = true;
	EQ(accept_changes(w, &item, 1, &(struct accept_options){ 0 }, &result, &err), 0);
	shell("seq 60 | sed 's/^30$/thirty/' | cmp - p/a");
	STREQ(left(w), "M a|");
	/* Discard the last of the remaining ones. */
	change_side_done(&old);
	change_side_done(&new);
	text_diff_done(&d);
	patch_done(&p);
	EQ(change_contents(w, &c.v[0], &old, &new, &err), 0);
	accept_sum(&old, seen);
	EQ(text_diff_make(old.text, new.text, &d, &err), 0);
	EQ(patch_from_diff(&d, 3, &p, &err), 0);
	EQ(p.n, 2);
	p.v[0].skip = true;
	EQ(reject_changes(w, &item, 1, &err), 0);
	shell("seq 60 | sed 's/^5$/five/;s/^30$/thirty/' | cmp - '%s/writes/upper/a'",
	      w->dir);
	EQ(accept_paths(w, NULL), 0);
	shell("seq 60 | sed 's/^5$/five/;s/^30$/thirty/' | cmp - p/a");
	STREQ(left(w), "");
	end();
}

static const char *swap_staging;

static void swap_at_staging(const char *step)
{
	if (strcmp(step, "staging") == 0 && swap_staging)
		shell("%s", TAKE_PTR(swap_staging));
}

/* If root accepts, the owner of the project may do this. */
TEST(the_staging_directory_must_be_its_own)
{
	AUTO_WORK struct work *w = NULL;

	SKIP_UNLESS(geteuid() == 0, "gives a directory to another user");
	begin();
	shell("echo 1 >p/a && mkdir out");
	w = start();
	upper(w, "echo 2 >a && mkdir n && echo x >n/x && mkdir .warren-other && "
		 "echo x >.warren-other/x && echo y >.warren");
	accept_step_hook = swap_at_staging;
	swap_staging = "rmdir p/.warren-* && mkdir -m 700 p/.warren-$(ls state/works) && "
		       "chown 1234 p/.warren-*";
	EQ(accept_paths(w, "a n/x"), -EPERM);
	shell("test $(cat p/a) = 1 -a ! -e p/n -a -z \"$(ls -A p/.warren-*)\"");
	swap_staging = "rmdir p/.warren-* && mkdir -m 755 p/.warren-$(ls state/works)";
	EQ(accept_paths(w, "a n/x"), -EPERM);
	swap_staging = "rmdir p/.warren-* && ln -s ../out p/.warren-$(ls state/works)";
	OK(accept_paths(w, "a n/x") < 0);
	shell("test $(cat p/a) = 1 -a -z \"$(ls -A out)\"");
	accept_step_hook = NULL;
	EQ(accept_paths(w, "a n/x .warren"), 0);
	shell("test $(cat p/a) = 2 -a $(cat p/n/x) = x -a -e p/.warren");
	clean(w);
	/* A change cannot get such a name either. */
	EQ(decide(w, NULL, 0, &(struct accept_options){ .allow = ~0U }), -EPERM);
	end();
}

TEST(names_of_all_kinds_are_accepted)
{
	AUTO_WORK struct work *w = NULL;
	char name[256];

	begin();
	w = start();
	(void)memset(name, 'n', 255);
	name[255] = '\0';
	upper(w,
	      "touch -- -rf '--help' 'a\nb' 'q\"'\\''q' '%%41' ' ' '\xff\xfe' '*' '.warren'");
	shell("cd '%s/writes/upper' && echo 1 >%s && mkdir -p $(printf 'd/%%.0s' $(seq 150)) && echo deep >$(printf 'd/%%.0s' $(seq 150))x",
	      w->dir, name);
	EQ(accept_paths(w, NULL), 0);
	shell("diff -r p '%s/../../../p' && ls p | wc -l | grep -q . && test -e p/%s -a -e 'p/q\"'\\''q' -a -e 'p/\xff\xfe'",
	      w->dir, name);
	shell("test $(cat p/$(printf 'd/%%.0s' $(seq 150))x) = deep");
	STREQ(left(w), "");
	end();
}

TEST(attributes_of_the_users_files_stay)
{
	AUTO_WORK struct work *w = NULL;
	struct stat st, old;
	char value[8];

	begin();
	shell("cd p && echo 1 >a && chmod 604 a && mkdir d && echo 1 >d/b && ln a ../other");
	if (geteuid() == 0)
		shell("chown 1234:1235 p/a && chown 77:78 p");
	EQ(setxattr(in("p/a"), "user.mark", "yes", 3, 0), 0);
	EQ(stat(in("p/a"), &old), 0);
	w = start();
	upper(w, "echo 2 >a && chmod 777 a && mkdir new && echo n >new/n");
	EQ(accept_paths(w, NULL), 0);
	EQ(stat(in("p/a"), &st), 0);
	EQ(st.st_mode & 07777, 0777);
	EQ(st.st_uid, old.st_uid);
	EQ(st.st_gid, old.st_gid);
	EQ(getxattr(in("p/a"), "user.mark", value, sizeof(value)), 3);
	EQ(stat(in("p/new/n"), &st), 0);
	EQ(st.st_uid, geteuid() == 0 ? 77 : geteuid());
	EQ(st.st_mode & 07777, 0644);
	/* As with git, the other name of the file keeps the old contents. */
	shell("test $(cat other) = 1");
	end();
}

TEST(a_copy_is_merged_with_what_the_user_has)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("cd p && seq 20 >a && echo 1 >b && mkdir d && echo c >d/c");
	w = start_with(&(struct work_options){ .mode = WORK_COPY });
	shell("cp -a p '%s/copy'", w->dir);
	shell("sleep 0.02; seq 20 | sed s/17/seventeen/ >p/a");
	upper(w, "seq 20 | sed s/^3$/three/ >a && echo 2 >b && mkdir n && echo x >n/x");
	EQ(accept_paths(w, NULL), 0);
	EQ(result.merged, 1);
	shell("grep -q seventeen p/a && grep -q three p/a && test $(cat p/b) = 2 -a $(cat p/n/x) = x");
	STREQ(left(w), "");
	shell("test $(cat '%s/copy/b') = 2 -a $(cat '%s/copy/n/x') = x", w->dir, w->dir);
	end();
}

static void as_ordinary_user(void)
{
	AUTO_WORK struct work *w = NULL;

	shell("mkdir -p home p/mine");
	EQ(setenv("WARREN_STATE", in("home/state"), 1), 0);
	shell("echo 1 >p/mine/a");
	w = start();
	shell("cd '%s/writes/upper' && mkdir -p closed/below mine && echo 2 >mine/a && "
	      "echo x >closed/below/x && chmod 0 closed/below/x closed mine/a",
	      w->dir);
	STREQ(left(w), "A closed/below/x|M mine/a|");
	EQ(accept_paths(w, NULL), 0);
	shell("test $(stat -c %%a p/closed) = 0 -a $(stat -c %%a p/mine/a) = 0");
	shell("chmod 700 p/closed");
	STREQ(left(w), "");
	shell("test $(stat -c %%a p/closed/below/x) = 0 && "
	      "chmod 600 p/closed/below/x p/mine/a && test $(cat p/closed/below/x) = x -a "
	      "$(cat p/mine/a) = 2");
	EQ(work_remove(TAKE_PTR(w), &err), 0);
}

/* An ordinary user cannot read what belongs to others, or denies access. */
TEST(files_that_deny_access_are_accepted)
{
	int status;
	pid_t pid;

	begin();
	SKIP_UNLESS(system("unshare -Ur true 2>/dev/null") == 0, "no user namespaces");
	shell("chmod 777 . p");
	pid = fork();
	if (pid == 0) {
		if (geteuid() == 0)
			OK(setgroups(0, NULL) == 0 && setgid(65534) == 0 &&
			   setuid(65534) == 0);
		/* Otherwise, its files in /proc belong to root. */
		EQ(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
		as_ordinary_user();
		exit(0);
	}
	EQ(waitpid(pid, &status, 0), pid);
	EQ(status, 0);
	end();
}

/* The number of descriptors does not depend on that of the changes. */
TEST(many_changes_need_few_descriptors)
{
	AUTO_WORK struct work *w = NULL;
	const struct rlimit few = { 64, 64 };

	begin();
	shell("cd p && mkdir d t u && for i in $(seq 100); do echo $i >d/$i; echo $i >r$i; echo x >m$i; "
	      "echo t >t/$i; mkdir u/$i; echo v >u/$i/v; done");
	w = start();
	upper(w,
	      "mkdir t u && for i in $(seq 100); do mknod r$i c 0 0; echo $i >s$i; echo y >m$i; "
	      "mkdir t/$i; echo in >t/$i/in; echo file >u/$i; done; mknod d c 0 0");
	EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	EQ(accept_paths(w, NULL), 0);
	OK(result.accepted >= 500);
	STREQ(left(w), "");
	shell("cd p && test ! -e d -a $(cat s7) = 7 -a ! -e r7 -a $(cat t/9/in) = in -a $(cat u/9) = file");
	end();
}

TEST_MAIN()
