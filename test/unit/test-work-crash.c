/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-crash.c - an accept that is killed at any step is completed or undone */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "work/accept_internal.h"

#include "lib/work_accept.h"

static unsigned steps, kill_at;

static void on_step(const char *step)
{
	(void)step;
	if (++steps == kill_at)
		(void)raise(SIGKILL);
}

static int accept_all(struct work *w)
{
	return accept_paths(w, NULL);
}

static int nothing(struct work *w)
{
	(void)w;
	return 0;
}

/* Run @what in a child that is killed at step @at. Return whether it was. */
static bool killed_at(unsigned at, const char *id, int (*what)(struct work *w))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct work *w;

		kill_at = at;
		accept_step_hook = on_step;
		if (work_open(id, true, &w, &err) < 0)
			_exit(2);
		_exit(what(w) < 0 ? 3 : 0);
	}
	EQ(waitpid(pid, &status, 0), pid);
	if (!WIFSIGNALED(status) && WEXITSTATUS(status) != 0)
		TAP_FAIL("step %u: %d", at, WEXITSTATUS(status));
	return WIFSIGNALED(status);
}

/* Everything that an accept can do. */
static struct work *prepare(void)
{
	struct work *w;
	char path[256];

	shell("rm -rf p before && mkdir p && cd p && mkdir -p d gone u && echo 1 >a && "
	      "echo 2 >b && echo 3 >d/c && echo 4 >gone/x && echo 5 >mode && echo 6 >t && "
	      "echo 7 >u/v && ln -s a l && mkdir opens && echo 8 >opens/x && "
	      "chmod 555 opens && cd .. && cp -a p before");
	w = start();
	shell("cd '%s/writes/upper' && echo 11 >a && mknod b c 0 0 && mkdir -p n/m d && "
	      "echo new >n/m/x && echo 5 >mode && chmod +x mode && mknod gone c 0 0 && "
	      "mkdir t && echo in >t/in && "
	      "echo file >u && ln -s b l && mkdir empty opens closed && "
	      "echo 9 >opens/x && echo 9 >opens/y && echo 9 >closed/x && "
	      "chmod 700 d && chmod 500 closed",
	      w->dir);
	(void)snprintf(path, sizeof(path), "%s/writes/upper/t", w->dir);
	EQ(setxattr(path, "user.overlay.opaque", "y", 1, 0), 0);
	return w;
}

static bool same(const char *as)
{
	char command[512];

	(void)snprintf(command, sizeof(command),
		       "cd '%s' && diff -r --no-dereference p %s >/dev/null && "
		       "test \"$(cd p && find . -printf '%%p %%m\n' | sort)\" = "
		       "\"$(cd %s && find . -printf '%%p %%m\n' | sort)\"",
		       top, as, as);
	return system(command) == 0;
}

TEST(killed_at_every_step)
{
	unsigned done = 0, undone = 0;
	bool more = true;

	SKIP_UNLESS(geteuid() == 0, "creates whiteouts");
	begin();
	for (unsigned at = 0; more; at++) {
		AUTO_WORK struct work *w = prepare();
		char id[ID_LEN + 1];

		(void)strcpy(id, w->id);
		w = work_close(w);
		more = killed_at(at, id, accept_all) || at == 0;
		if (at == 0) { /* not killed */
			shell("rm -rf after && cp -a p after");
			OK(!same("before"));
			continue;
		}
		/* The recovery is killed, too, a few steps later each time. */
		for (unsigned again = 1 + at % 3; killed_at(again, id, nothing);
		     again += 3)
			;
		EQ(work_open(id, true, &w, &err), 0);
		clean(w);
		if (same("after"))
			done++;
		else if (same("before"))
			undone++;
		else
			TAP_FAIL("step %u: neither undone nor completed", at);
		if (same("after"))
			STREQ(left(w), "");
		else
			EQ(accept_paths(w, NULL), 0);
		OK(same("after"));
		EQ(work_remove(TAKE_PTR(w), &err), 0);
	}
	OK(done > 5 && undone > 20);
	end();
}

/* ----------------------------------------------------------------------- reject */

/* Everything that is spelled out or replaced if a part of it is decided on. */
static struct work *prepare_parts(void)
{
	struct work *w;
	char path[256];

	shell("rm -rf p && mkdir -p p/gone/deep p/new p/t p/e && cd p && echo 1 >a && "
	      "seq 60 >h && echo 2 >gone/x && echo 3 >gone/y && echo 4 >gone/deep/z && "
	      "echo 5 >new/x && echo 6 >new/y && echo 7 >old && echo 8 >file");
	w = start();
	shell("cd '%s/writes/upper' && echo 11 >a && mknod gone c 0 0 && mkdir new && "
	      "echo 55 >new/x && echo 9 >new/added && mknod old c 0 0 && echo 7 >moved && "
	      "mkdir -p file/in/side && echo 10 >file/in/side/f && seq 60 >h && "
	      "sed -i 's/^5$/five/; s/^55$/fiftyfive/' h",
	      w->dir);
	(void)snprintf(path, sizeof(path), "%s/writes/upper/new", w->dir);
	EQ(setxattr(path, "user.overlay.opaque", "y", 1, 0), 0);
	return w;
}

static int reject_parts(struct work *w)
{
	return reject_paths(w, "a gone/x gone/deep/z new/y moved file file/in/side/f");
}

static int accept_parts(struct work *w)
{
	return accept_paths(w, "a gone/x gone/deep/z new/y");
}

/* Is each change in @text, with the character before and after it, in @all? */
static void is_part_of(const char *text, const char *all, unsigned at)
{
	char copy[8192], *save = NULL, one[512];

	(void)strcpy(copy, text);
	for (char *c = strtok_r(copy, "|", &save); c; c = strtok_r(NULL, "|", &save)) {
		(void)snprintf(one, sizeof(one), "%s|", c);
		if (!strstr(all, one))
			TAP_FAIL("step %u: '%s' is not in '%s'", at, one, all);
	}
}

static void parts_killed_at_every_step(int (*what)(struct work *w), const char *stays,
				       const char *may)
{
	unsigned n = 0;
	bool more = true;

	begin();
	for (unsigned at = 1; more; at++, n++) {
		AUTO_WORK struct work *w = prepare_parts();
		char id[ID_LEN + 1], before[8192], now[8192];

		(void)strcpy(id, w->id);
		(void)snprintf(before, sizeof(before), "%s%s", left(w), may);
		w = work_close(w);
		more = killed_at(at, id, what);
		EQ(work_open(id, true, &w, &err), 0);
		(void)snprintf(now, sizeof(now), "%s", left(w));
		is_part_of(now, before, at);
		is_part_of(stays, now, at);
		OK(more || strcmp(now, stays) == 0);
		EQ(what(w), 0);
		STREQ(left(w), stays);
		EQ(work_remove(TAKE_PTR(w), &err), 0);
	}
	OK(n > 10);
	end();
}

TEST(a_reject_that_is_killed_has_discarded_each_change_or_not)
{
	SKIP_UNLESS(geteuid() == 0, "creates whiteouts");
	/* A file that was moved may be both there and at its old place. */
	parts_killed_at_every_step(reject_parts, "D gone/y|M h|A new/added|M new/x|",
				   "A moved|D old|");
}

TEST(an_accept_that_is_killed_keeps_what_was_not_chosen)
{
	SKIP_UNLESS(geteuid() == 0, "creates whiteouts");
	parts_killed_at_every_step(
		accept_parts,
		"T file|A file/in/side/f|D gone/y|M h|R moved|A new/added|M new/x|", "");
}

/* ------------------------------------------------------------------ other faults */

static volatile bool stop;

/* Swap the directory d and a link to a directory outside, as fast as possible. */
static void *swap(void *unused)
{
	char dir[128], link[128];

	(void)unused;
	(void)snprintf(dir, sizeof(dir), "%s/p/d", top);
	(void)snprintf(link, sizeof(link), "%s/link", top);
	while (!stop)
		(void)renameat2(AT_FDCWD, dir, AT_FDCWD, link, RENAME_EXCHANGE);
	return NULL;
}

TEST(a_directory_that_becomes_a_link_leads_nowhere)
{
	pthread_t thread;
	unsigned accepted = 0, refused = 0;

	begin();
	shell("mkdir p/d out && ln -s '%s/out' link && touch out/keep", top);
	EQ(pthread_create(&thread, NULL, swap, NULL), 0);
	for (int i = 0; i < 60; i++) {
		AUTO_WORK struct work *w = NULL;
		int r;

		w = start();
		shell("mkdir -p '%s/writes/upper/d' && echo x >'%s/writes/upper/d/f%d'",
		      w->dir, w->dir, i);
		r = accept_paths(w, NULL);
		accepted += r == 0;
		refused += r < 0;
		EQ(work_remove(TAKE_PTR(w), &err), 0);
	}
	stop = true;
	EQ(pthread_join(thread, NULL), 0);
	shell("test \"$(ls out)\" = keep && ! ls -A p | grep '^.warren-'");
	OK(accepted > 0 && refused > 0);
	end();
}

TEST(a_full_disk_changes_nothing)
{
	AUTO_WORK struct work *w = NULL;

	SKIP_UNLESS(geteuid() == 0, "mounts a small filesystem");
	begin();
	EQ(unshare(CLONE_NEWNS), 0);
	EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	EQ(mount("tmpfs", in("p"), "tmpfs", 0, "size=256k"), 0);
	shell("cd p && echo 1 >a && echo 2 >b");
	w = start();
	shell("cd '%s/writes/upper' && echo 11 >a && head -c 400000 /dev/zero | tr '\\0' x >big",
	      w->dir);
	EQ(accept_paths(w, NULL), -ENOSPC);
	shell("cd p && test $(cat a) = 1 -a ! -e big");
	clean(w);
	EQ(accept_paths(w, "a"), 0);
	shell("test $(cat p/a) = 11");
	EQ(umount2(in("p"), MNT_DETACH), 0);
	end();
}

TEST(a_read_only_project_changes_nothing)
{
	AUTO_WORK struct work *w = NULL;

	SKIP_UNLESS(geteuid() == 0, "mounts");
	begin();
	EQ(unshare(CLONE_NEWNS), 0);
	EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	EQ(mount("tmpfs", in("p"), "tmpfs", 0, "size=256k"), 0);
	shell("echo 1 >p/a");
	w = start();
	shell("echo 2 >'%s/writes/upper/a'", w->dir);
	EQ(mount("tmpfs", in("p"), "tmpfs", MS_REMOUNT | MS_RDONLY, NULL), 0);
	EQ(accept_paths(w, NULL), -EROFS);
	OK(strstr(err.msg, "in the project"));
	EQ(mount("tmpfs", in("p"), "tmpfs", MS_REMOUNT, NULL), 0);
	EQ(accept_paths(w, NULL), 0);
	EQ(umount2(in("p"), MNT_DETACH), 0);
	end();
}

static const char *edit;

static void edit_before_commit(const char *step)
{
	if (strcmp(step, "journal") == 0 && edit)
		shell("%s", edit);
	if (strcmp(step, "journal") == 0)
		edit = NULL;
}

TEST(an_edit_at_the_last_moment_is_not_lost)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("cd p && echo 1 >a && echo 1 >b && echo 1 >c");
	w = start();
	shell("cd '%s/writes/upper' && echo 2 >a && echo 2 >b && echo 2 >c && echo 2 >d",
	      w->dir);
	accept_step_hook = edit_before_commit;
	edit = "echo user >p/c";
	EQ(accept_paths(w, NULL), -ESTALE);
	shell("cd p && test $(cat a) = 1 -a $(cat b) = 1 -a $(cat c) = user -a ! -e d");
	clean(w);
	edit = "echo user >p/d";
	EQ(accept_paths(w, "a d"), -ESTALE);
	shell("cd p && test $(cat a) = 1 -a $(cat d) = user");
	clean(w);
	edit = NULL;
	EQ(accept_paths(w, "a"), 0);
	shell("test $(cat p/a) = 2");
	end();
}

static const char *fault;
static unsigned fault_after;

static void fault_at_commit(const char *step)
{
	if (fault && strcmp(step, "commit") == 0 && fault_after-- == 0)
		shell("%s", TAKE_PTR(fault));
}

/* The user moves a directory away in the middle, and a later change fails. */
TEST(originals_of_a_directory_that_moves_are_not_lost)
{
	static const struct {
		const char *fault, *check;
	} all[] = {
		{ "mv p/d/src p/d/src2; echo user >p/z",
		  "test $(cat p/d/a.original-1) = a -a $(cat p/d/c.original-1) = c" },
		{ "rm -r p/d; echo user >p/z",
		  "test $(cat p/a.original-1) = a -a $(cat p/c.original-1) = c" },
		{ "echo user >p/z",
		  "test $(cat p/d/src/a) = a -a $(cat p/d/src/c) = c -a ! -e p/a.original-1" },
		{ "mv p/d/src p/d/src2; ln -s src2 p/d/src; echo user >p/z",
		  "test $(cat p/d/a.original-1) = a -a $(cat p/d/c.original-1) = c" },
	};

	SKIP_UNLESS(geteuid() == 0, "creates whiteouts");
	begin();
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		AUTO_WORK struct work *w = NULL;

		shell("rm -rf p && mkdir -p p/d/src && echo a >p/d/src/a && echo c >p/d/src/c && "
		      "echo z >p/z");
		w = start();
		shell("cd '%s/writes/upper' && mkdir -p d/src && echo s >d/src/a && "
		      "mknod d/src/c c 0 0 && echo s >z",
		      w->dir);
		fault = all[i].fault;
		fault_after = 2; /* c is removed, and a written */
		accept_step_hook = fault_at_commit;
		EQ(accept_paths(w, NULL), -ESTALE);
		accept_step_hook = NULL;
		OK(!fault);
		EQ(strstr(err.msg, ".original-1") != NULL, i != 2);
		EQ(strncmp(err.msg, "'z' was changed", 15), 0);
		EQ(strstr(err.msg, "1 other") != NULL, i != 2);
		shell("%s", all[i].check);
		shell("test $(cat p/z) = user");
		clean(w);
	}
	end();
}

/* A link takes the place of the directory, until some time after the undo begins. */
static void exchange_for_a_while(const char *step)
{
	static bool back;

	fault_at_commit(step);
	if (strcmp(step, "undo") == 0 && !back) {
		back = true;
		shell("(sleep 0.1; rm p/d/src; mv p/d/src2 p/d/src) >/dev/null 2>&1 &");
	}
}

TEST(a_directory_that_is_back_soon_is_undone_in_its_place)
{
	AUTO_WORK struct work *w = NULL;

	SKIP_UNLESS(geteuid() == 0, "creates whiteouts");
	begin();
	shell("mkdir -p p/d/src && echo a >p/d/src/a && echo c >p/d/src/c && echo z >p/z && "
	      "cp -a p before");
	w = start();
	shell("cd '%s/writes/upper' && mkdir -p d/src && echo s >d/src/a && echo n >d/src/b && "
	      "mknod d/src/c c 0 0 && echo s >d/src/n",
	      w->dir);
	fault = "mv p/d/src p/d/src2; ln -s src2 p/d/src";
	fault_after = 3; /* c is removed, a and b are written */
	accept_step_hook = exchange_for_a_while;
	EQ(accept_paths(w, NULL), -ENOTDIR);
	accept_step_hook = NULL;
	OK(!fault && !strstr(err.msg, ".original"));
	shell("diff -r --no-dereference before p");
	clean(w);
	EQ(accept_paths(w, NULL), 0);
	shell("cd p/d/src && test $(cat a)$(cat b)$(cat n) = sns -a ! -e c");
	end();
}

static void read_only(bool on)
{
	EQ(mount("tmpfs", in("p"), "tmpfs", MS_REMOUNT | (on ? MS_RDONLY : 0), NULL), 0);
}

static void read_only_at_undo(const char *step)
{
	if (strcmp(step, "undo") == 0)
		read_only(true);
	edit_before_commit(step);
}

TEST(what_could_not_be_undone_is_undone_before_the_next_accept)
{
	AUTO_WORK struct work *w = NULL;
	char id[ID_LEN + 1];

	SKIP_UNLESS(geteuid() == 0, "mounts");
	begin();
	EQ(unshare(CLONE_NEWNS), 0);
	EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	EQ(mount("tmpfs", in("p"), "tmpfs", 0, "size=256k"), 0);
	shell("cd p && echo 1 >a && echo 1 >b && echo 1 >c");
	w = start();
	(void)strcpy(id, w->id);
	shell("cd '%s/writes/upper' && echo 2 >a && echo 2 >b && echo 2 >c", w->dir);
	accept_step_hook = read_only_at_undo;
	edit = "echo user >p/c";
	EQ(accept_paths(w, NULL), -EUCLEAN);
	accept_step_hook = NULL;
	/* Neither another try nor a removal loses the originals. */
	OK(accept_paths(w, NULL) < 0);
	OK(reject_paths(w, NULL) < 0);
	OK(work_remove(TAKE_PTR(w), &err) < 0);
	OK(strstr(err.msg, "is not removed"));
	OK(work_open(id, true, &w, &err) < 0);
	EQ(work_open(id, false, &w, &err), 0);
	w = work_close(w);
	read_only(false);
	EQ(work_open(id, true, &w, &err), 0);
	clean(w);
	shell("cd p && test $(cat a) = 1 -a $(cat b) = 1 -a $(cat c) = user");
	EQ(accept_paths(w, "a"), 0);
	shell("test $(cat p/a) = 2");
	EQ(work_remove(TAKE_PTR(w), &err), 0);
	EQ(umount2(in("p"), MNT_DETACH), 0);
	end();
}

static void fault_at_done(const char *step)
{
	if (strcmp(step, "done") == 0 && fault)
		shell("%s", TAKE_PTR(fault));
}

TEST(what_fails_after_the_last_change_is_done_later)
{
	AUTO_WORK struct work *w = NULL;
	char command[256];

	begin();
	shell("cd p && echo 1 >a && echo 1 >b");
	w = start();
	shell("cd '%s/writes/upper' && echo 2 >a && echo 2 >b", w->dir);
	(void)snprintf(command, sizeof(command),
		       "rm -f '%s/known'; mkdir -p '%s/known/x'", w->dir, w->dir);
	fault = command;
	accept_step_hook = fault_at_done;
	EQ(accept_paths(w, "a"), 0);
	EQ(result.accepted, 1);
	accept_step_hook = NULL;
	shell("test $(cat p/a) = 2 -a -e '%s/journal.done'", w->dir);
	OK(accept_paths(w, "b") < 0);
	shell("test $(cat p/b) = 1 && rm -r '%s/known'", w->dir);
	EQ(accept_paths(w, "b"), 0);
	shell("test $(cat p/b) = 2 -a ! -e '%s/journal.done'", w->dir);
	STREQ(left(w), "");
	clean(w);
	end();
}

static volatile sig_atomic_t n_signals, n_early;

static void on_signal(int sig)
{
	(void)sig;
	n_signals++;
}

static void signal_at_steps(const char *step)
{
	if (strcmp(step, "stage") == 0 || strcmp(step, "remove journal") == 0)
		n_early = n_signals;
	if (strcmp(step, "commit") == 0 || strcmp(step, "stage") == 0) {
		(void)raise(SIGINT);
		(void)raise(SIGTERM);
		(void)raise(SIGHUP);
	}
}

TEST(signals_wait_until_the_project_is_whole)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	shell("echo 1 >p/a");
	w = start();
	shell("echo 2 >'%s/writes/upper/a'", w->dir);
	(void)signal(SIGINT, on_signal);
	(void)signal(SIGTERM, on_signal);
	(void)signal(SIGHUP, on_signal);
	accept_step_hook = signal_at_steps;
	EQ(accept_paths(w, NULL), 0);
	accept_step_hook = NULL;
	/* Before that, they take effect at once. */
	EQ(n_early, 3);
	EQ(n_signals, 6);
	shell("test $(cat p/a) = 2");
	(void)signal(SIGINT, SIG_DFL);
	(void)signal(SIGTERM, SIG_DFL);
	(void)signal(SIGHUP, SIG_DFL);
	end();
}

TEST(a_journal_without_originals_has_nothing_to_undo)
{
	AUTO_WORK struct work *w = NULL;
	char id[ID_LEN + 1];

	begin();
	shell("echo 1 >p/a");
	w = start();
	(void)strcpy(id, w->id);
	shell("printf 'put,1,2,3,4,5,6,7,8,9,1,0 a\nend 1\n' >'%s/journal'", w->dir);
	w = work_close(w);
	EQ(work_open(id, true, &w, &err), 0);
	shell("test $(cat p/a) = 1 -a ! -e '%s/journal'", w->dir);
	EQ(work_remove(TAKE_PTR(w), &err), 0);
	end();
}

/* What was accepted could not be noted: nothing is lost if the work is removed. */
TEST(a_work_that_cannot_be_completed_is_removed)
{
	struct work *w = NULL;
	AUTO_FREE char *id = NULL;

	begin();
	shell("echo 1 >p/a");
	w = start();
	id = strdup(w->id);
	shell("echo damaged >'%s/journal.done' && mkdir -m 700 p/.warren-%s && "
	      "echo x >p/.warren-%s/n0",
	      w->dir, id, id);
	w = work_close(w);
	OK(work_open(id, true, &w, &err) < 0);
	EQ(work_open_to_remove(id, &w, &err), 0);
	EQ(work_remove(TAKE_PTR(w), &err), 0);
	shell("test \"$(ls -A p)\" = a && ! ls state/works | grep .");
	/* A control: with originals that could be needed, it stays. */
	w = start();
	free(id);
	id = strdup(w->id);
	shell("echo damaged >'%s/journal' && mkdir -m 700 p/.warren-%s", w->dir, id);
	w = work_close(w);
	EQ(work_open_to_remove(id, &w, &err), 0);
	OK(work_remove(TAKE_PTR(w), &err) < 0);
	shell("test -e p/.warren-%s && ls state/works | grep -q .", id);
	end();
}

TEST(a_damaged_journal_is_refused)
{
	static const char *const bad[] = {
		"",
		"end 1\n",
		"put,1 a\nend 1\n",
		"x,1,1,1,1,1,1,1,1,1,1,1 a\nend 1\n",
		"put,1,1,1,1,1,1,1,1,1,1,1 ../a\nend 1\n",
		"put,1,1,1,1,1,1,1,1,1,1,1 /a\nend 1\n",
		"put,1,1,1,1,1,1,1,1,1,1,1 a//b\nend 1\n",
		"put,1,1,1,1,1,1,1,1,1,1,1 a/\nend 1\n",
		"put,1,1,1,1,1,1,1,1,1,1,1,1 a\nend 1\n",
		"put,1,1,1,1,1,1,1,1,1,1,1 a\nend 2\n",
		"put,1,1,1,1,1,1,1,1,1,1,1 a\n",
		NULL,
	};
	char good[] =
		"put,1,2,3,4,5,6,7,8,9,1,0 a/b%0a\nrmdir,0,0,0,0,0,0,0,0,0,0,0 c\nend 2\n";
	struct ops ops AUTO_OPS = { 0 };

	for (const char *const *text = bad; *text; text++) {
		char copy[128];

		(void)strcpy(copy, *text);
		EQ(journal_parse(copy, strlen(copy), &ops, &err), -EBADMSG);
	}
	EQ(journal_parse(good, strlen(good), &ops, &err), 0);
	EQ(ops.n, 2);
	STREQ(ops.v[0].path, "a/b\n");
	EQ(ops.v[0].new.ino, 5);
}

TEST_MAIN()
