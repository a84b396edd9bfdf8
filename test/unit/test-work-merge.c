/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-merge.c - changes of the user and of the sandbox are merged */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "work/accept_internal.h"
#include "work/base.h"

#include "lib/work_accept.h"

#define NEED_MOUNTS() SKIP_UNLESS(geteuid() == 0, "mounts an overlay")

static void upper(const struct work *w, const char *command)
{
	shell("cd '%s/writes/upper' && %s", w->dir, command);
}

TEST(changes_of_both_sides_are_merged)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("cd p && seq 20 >a && seq 20 >b && seq 20 >c");
	w = start();
	upper(w, "for f in a b c; do seq 20 | sed s/^3$/three/ >$f; done");
	EQ(work_end(w, 0, &err), 0);
	shell("sleep 0.02; cd p && seq 20 | sed s/17/seventeen/ >a && seq 20 | sed s/^3$/3!/ >b");
	EQ(accept_paths(w, NULL), -EEXIST);
	EQ(result.n_conflicts, 1);
	STREQ(result.conflicts[0].path, "b");
	shell("grep -q '<<<<<<< yours' '%s' && cmp p/b '%s' && grep -qx three '%s'",
	      result.conflicts[0].merged, result.conflicts[0].yours,
	      result.conflicts[0].theirs);
	/* Nothing has changed. */
	shell("cd p && ! grep -q three a c && grep -qx '3!' b");
	clean(w);
	EQ(decide(w, NULL, 0, &(struct accept_options){ .conflicts = ACCEPT_SKIP }), 0);
	EQ(result.accepted, 2);
	EQ(result.merged, 1);
	shell("cd p && grep -q seventeen a && grep -q three a && grep -q three c && ! grep -q three b");
	STREQ(left(w), "M b|");
	EQ(decide(w, NULL, 0, &(struct accept_options){ .conflicts = ACCEPT_THEIRS }), 0);
	shell("seq 20 | sed s/^3$/three/ | cmp - p/b");
	end();
}

TEST(hunks_of_a_merged_file_keep_what_the_user_changed)
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
	upper(w, "seq 60 | sed 's/^5$/five/;s/^55$/fiftyfive/' >a");
	EQ(work_end(w, 0, &err), 0);
	shell("sleep 0.02; seq 60 | sed 's/^30$/mine/' >p/a");
	EQ(changes_list(w, 0, &c, &err), 0);
	OK(c.v[0].touched);
	EQ(change_contents(w, &c.v[0], &old, &new, &err), 0);
	accept_sum(&old, seen);
	EQ(text_diff_make(old.text, new.text, &d, &err), 0);
	EQ(patch_from_diff(&d, 3, &p, &err), 0);
	EQ(p.n, 2);
	item.change = &c.v[0];
	p.v[1].skip = true;
	/* Not for other contents, even if the hunk fits. */
	shell("cp -p p/a mine && echo 61 >>p/a");
	EQ(accept_changes(w, &item, 1, &(struct accept_options){ 0 }, &result, &err),
	   -ESTALE);
	OK(strstr(err.msg, "'a' was changed in the project while you chose"));
	shell("tail -1 p/a | grep -qx 61 && cp mine p/a");
	EQ(accept_changes(w, &item, 1, &(struct accept_options){ 0 }, &result, &err), 0);
	shell("seq 60 | sed 's/^5$/five/;s/^30$/mine/' | cmp - p/a");
	EQ(accept_paths(w, NULL), 0);
	shell("seq 60 | sed 's/^5$/five/;s/^30$/mine/;s/^55$/fiftyfive/' | cmp - p/a");
	STREQ(left(w), "");
	end();
}

TEST(markers_are_written_on_request)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("cd p && echo 1 >a");
	w = start();
	upper(w, "echo 2 >a");
	EQ(work_end(w, 0, &err), 0);
	shell("sleep 0.02; echo 3 >p/a");
	EQ(decide(w, NULL, 0, &(struct accept_options){ .conflicts = ACCEPT_MARKERS }),
	   0);
	shell("printf '<<<<<<< yours\\n3\\n=======\\n2\\n>>>>>>> sandbox\\n' | cmp - p/a");
	end();
}

TEST(the_repository_knows_what_a_file_was_before)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	git("init -q . && seq 20 >a && git add . && git commit -qm one");
	w = start();
	/* The user changes it while the sandbox runs. */
	shell("sleep 0.02; seq 20 | sed s/17/seventeen/ >p/a");
	upper(w, "seq 20 | sed s/^3$/three/ >a");
	EQ(work_end(w, 0, &err), 0);
	EQ(accept_paths(w, NULL), 0);
	EQ(result.merged, 1);
	shell("grep -q seventeen p/a && grep -q three p/a");
	end();
}

/* Files that differ from the commit, or that git does not know. */
TEST(what_was_not_committed_is_kept_for_merges)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	git("init -q . && seq 20 | tee dirty staged back removed >clean && git add . && "
	    "git commit -qm one");
	shell("cd p && mkdir -p d/e && echo '*.log' >.gitignore && echo 1 >secret && "
	      "seq 20 | sed s/10/ten/ | tee dirty staged back removed new d/e/new >x.log");
	git("add staged");
	w = start();
	shell("mknod '%s/hide/secret' c 0 0", w->dir);
	EQ(base_begin(w, &err), 0);
	base_wait(w, false);
	shell("cd '%s/before' && test \"$(find . -type f | sort | tr '\n' ' ')\" = "
	      "'./.gitignore ./back ./d/e/new ./dirty ./new ./removed ./staged '",
	      w->dir);
	upper(w, "for f in dirty staged back removed new clean; do sed s/^3$/three/ "
		 "<../../../../../p/$f >$f; done; mkdir -p d/e && cp new d/e/new");
	/* The user changes all of them while the sandbox runs, and takes one back. */
	shell("sleep 0.02; cd p && rm removed && "
	      "sed -i s/17/seventeen/ dirty staged new d/e/new clean");
	git("checkout -q back");
	EQ(work_end(w, 0, &err), 0);
	EQ(accept_paths(w, "dirty staged back new d/e/new clean"), 0);
	EQ(result.merged, 6);
	shell("cd p && seq 20 | sed 's/10/ten/;s/^3$/three/;s/17/seventeen/' >../want && "
	      "for f in dirty staged new d/e/new; do cmp ../want $f || exit 1; done && "
	      "seq 20 | sed 's/^3$/three/' | cmp - back && "
	      "seq 20 | sed 's/^3$/three/;s/17/seventeen/' | cmp - clean");
	EQ(accept_paths(w, "removed"), -EEXIST);
	OK(strstr(result.conflicts[0].reason, "you removed the file"));
	end();
}

TEST(a_project_without_a_repository_is_kept_for_merges)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("mkdir -p p/d p/node_modules && cd p && seq 20 | tee a d/b >node_modules/c && "
	      "printf '\\0' >binary && ln -s a link && mkfifo pipe && "
	      "head -c 5000000 /dev/zero | tr '\\0' x >large");
	w = start();
	shell("sleep 0.02; echo 1 >p/late");
	EQ(base_begin(w, &err), 0);
	base_wait(w, false);
	shell("test \"$(cd '%s/before' && find . -type f | sort | tr '\n' ' ')\" = './a ./d/b '",
	      w->dir);
	upper(w, "mkdir d; seq 20 | sed s/^3$/three/ | tee a >d/b");
	shell("cd p && seq 20 | sed s/17/seventeen/ | tee a >d/b");
	EQ(work_end(w, 0, &err), 0);
	EQ(accept_paths(w, NULL), 0);
	EQ(result.merged, 2);
	shell("cd p && seq 20 | sed 's/^3$/three/;s/17/seventeen/' | tee ../want | cmp - a && "
	      "cmp ../want d/b");
	end();
}

/* It may have been another one when the work started. */
TEST(going_back_to_what_is_committed_is_not_undone)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	git("init -q . && seq 20 | tee a >b && git add . && git commit -qm one");
	shell("cd p && seq 20 | sed s/17/secret/ | tee a >b");
	w = start();
	upper(w,
	      "seq 20 | sed 's/17/secret/;s/^3$/three/' >a && seq 20 | sed 's/^3$/three/' >b");
	shell("sleep 0.02; cd p && git checkout -q a && seq 20 | sed s/^12$/twelve/ >b");
	EQ(work_end(w, 0, &err), 0);
	EQ(accept_paths(w, "a"), -EEXIST);
	OK(strstr(result.conflicts[0].reason, "committed"));
	shell("seq 20 | cmp - p/a");
	/* Otherwise, it is good enough. */
	EQ(accept_paths(w, "b"), 0);
	shell("grep -q three p/b && grep -q twelve p/b");
	end();
}

/* Nothing may write to a file while it could be read as complete. */
TEST(originals_for_merges_are_replaced_as_a_whole)
{
	AUTO_WORK struct work *w = NULL;
	struct stat first, second;
	char path[256];
	int fd;

	begin();
	shell("seq 20 >p/a");
	w = start();
	upper(w, "seq 20 | sed s/^3$/three/ >a");
	EQ(work_end(w, 0, &err), 0);
	(void)snprintf(path, sizeof(path), "%s/base/a", w->dir);
	EQ(stat(path, &first), 0);
	EQ(work_end(w, 0, &err), 0);
	EQ(stat(path, &second), 0);
	EQ(first.st_ino, second.st_ino);
	EQ(stat_ctime_ns(&first), stat_ctime_ns(&second));
	/* As after an interruption. */
	EQ(truncate(path, 5), 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	OK(fd >= 0);
	EQ(work_end(w, 0, &err), 0);
	EQ(fstat(fd, &second), 0);
	EQ(second.st_nlink, 0);
	EQ(close(fd), 0);
	shell("seq 20 | cmp - '%s' && ! ls -A '%s/base' | grep -vx a", path, w->dir);
	end();
}

TEST_MAIN()
