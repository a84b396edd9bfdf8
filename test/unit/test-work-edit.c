/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-edit.c - hunks that the user edited are decided: the sandbox has them, too */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "work/accept_internal.h"

#include "lib/work_accept.h"

static unsigned steps, kill_at;

static void on_step(const char *step)
{
	(void)step;
	if (++steps == kill_at)
		(void)raise(SIGKILL);
}

/* Of the two hunks of "a", accept an edited first one: 5 -> five becomes FIVE. */
static int accept_edited(struct work *w)
{
	static const char edited[] = " 2\n 3\n 4\n-5\n+FIVE\n 6\n 7\n 8\n";
	AUTO_CHANGES struct changes c = { 0 };
	AUTO_CHANGE_SIDE struct change_side old = { 0 }, new = { 0 };
	AUTO_ACCEPT_RESULT struct accept_result done = { 0 };
	struct text_diff d AUTO_DIFF = { 0 };
	struct patch p AUTO_PATCH = { 0 }, remains;
	struct patch_hunk hunks[2];
	char seen[ACCEPT_SUM_SIZE];
	struct accept_item item = { .hunks = &p, .remains = &remains, .seen = seen };

	EQ(changes_list(w, 0, &c, &err), 0);
	EQ(c.n, 1);
	item.change = &c.v[0];
	EQ(change_contents(w, &c.v[0], &old, &new, &err), 0);
	accept_sum(&old, seen);
	EQ(text_diff_make(old.text, new.text, &d, &err), 0);
	EQ(patch_from_diff(&d, 3, &p, &err), 0);
	EQ(p.n, 2);
	EQ(patch_replace_hunk(&p, 0, old.text, TEXT(edited, strlen(edited)), &err), 0);
	remains = p;
	remains.v = hunks;
	(void)memcpy(hunks, p.v, sizeof(hunks));
	p.v[1].skip = true;
	return accept_changes(w, &item, 1, &(struct accept_options){ 0 }, &done, &err);
}

#define SANDBOX "seq 60 | sed 's/^5$/five/;s/^55$/fiftyfive/' >a"
#define EDITED  "seq 60 | sed 's/^5$/FIVE/'"
#define BOTH    "seq 60 | sed 's/^5$/FIVE/;s/^55$/fiftyfive/'"

static struct work *prepare(enum work_mode mode)
{
	struct work *w;

	shell("rm -rf p && mkdir p && seq 60 >p/a && chmod 600 p/a");
	w = start_with(&(struct work_options){ .mode = mode });
	if (mode == WORK_COPY)
		shell("cp -a p '%s/copy'", w->dir);
	shell("cd '%s/writes/upper' && " SANDBOX " && chmod 600 a", w->dir);
	return w;
}

TEST(the_sandbox_gets_what_the_user_made_of_its_hunk)
{
	static const enum work_mode modes[] = { WORK_OVERLAY, WORK_COPY };

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		AUTO_WORK struct work *w = NULL;

		begin();
		w = prepare(modes[i]);
		EQ(work_end(w, 0, &err), 0);
		EQ(accept_edited(w), 0);
		shell(EDITED
		      " | cmp - p/a && cd '%s' && " BOTH
		      " | cmp - writes/upper/a && test $(stat -c %%a writes/upper/a) = 600 "
		      "&& test ! -e edited",
		      w->dir);
		clean(w);
		EQ(accept_paths(w, NULL), 0);
		shell(BOTH " | cmp - p/a");
		end();
	}
}

TEST(changes_of_the_user_stay_beside_an_edited_hunk)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	w = prepare(WORK_OVERLAY);
	EQ(work_end(w, 0, &err), 0);
	shell("sleep 0.02; sed -i 's/^30$/mine/' p/a");
	EQ(accept_edited(w), 0);
	shell(EDITED " | sed 's/^30$/mine/' | cmp - p/a");
	EQ(accept_paths(w, NULL), 0);
	shell(BOTH " | sed 's/^30$/mine/' | cmp - p/a");
	STREQ(left(w), "");
	end();
}

TEST(killed_at_every_step_with_an_edited_hunk)
{
	unsigned done = 0, undone = 0;
	int status = 1;

	begin();
	for (unsigned at = 1; status != 0; at++) {
		AUTO_WORK struct work *w = prepare(WORK_OVERLAY);
		char id[ID_LEN + 1];
		pid_t pid;

		(void)strcpy(id, w->id);
		w = work_close(w);
		pid = fork();
		if (pid == 0) {
			kill_at = at;
			accept_step_hook = on_step;
			_exit(work_open(id, true, &w, &err) < 0 || accept_edited(w) < 0);
		}
		EQ(waitpid(pid, &status, 0), pid);
		EQ(WIFEXITED(status) ? WEXITSTATUS(status) : 0, 0);
		EQ(work_open(id, true, &w, &err), 0);
		clean(w);
		/* Both sides have it, or none. */
		shell("if grep -qx FIVE p/a; then touch five; else rm -f five; fi");
		if (access(in("five"), F_OK) != 0) {
			undone++;
			shell("seq 60 | cmp - p/a && cd '%s/writes/upper' && cp a b && " SANDBOX
			      " && cmp a b && rm b",
			      w->dir);
		} else {
			done++;
			shell(EDITED " | cmp - p/a && " BOTH
				     " | cmp - '%s/writes/upper/a'",
			      w->dir);
		}
		EQ(work_remove(TAKE_PTR(w), &err), 0);
	}
	OK(done > 2 && undone > 5);
	end();
}

TEST_MAIN()
