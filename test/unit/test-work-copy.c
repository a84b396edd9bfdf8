/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-copy.c - in mode copy, changes are accepted as in mode overlay */
#include <sys/stat.h>

#include "work/accept_internal.h"

#include "lib/work_accept.h"

#define NEED_MOUNTS() SKIP_UNLESS(geteuid() == 0, "mounts an overlay")
/* What is in the current directory: types, modes, targets of links, and contents. */
#define LIST \
	"(find . -printf '%%y %%m %%p %%l\\n' | sort; find . -type f | sort | xargs -r cat)"

static uint32_t next_random(void)
{
	static uint32_t state = 20231;

	state = state * 1664525U + 1013904223U;
	return state >> 8;
}

/* A path of one to three components, of few names, so that changes meet. */
static const char *random_path(char *room)
{
	size_t n = 1 + next_random() % 3, at = 0;

	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			room[at++] = '/';
		room[at++] = "abcd"[next_random() % 4];
	}
	room[at] = '\0';
	return room;
}

static void random_script(const char *name, unsigned steps)
{
	FILE *f = fopen(in(name), "w");

	OK(f);
	for (unsigned i = 0; i < steps; i++) {
		static const char *const modes[] = { "700", "755", "711" };
		char p[8], q[8];

		random_path(p);
		random_path(q);
		switch (next_random() % 8) {
		case 0:
		case 1:
			(void)fprintf(f, "rm -rf %s\n", p);
			break;
		case 2:
			(void)fprintf(f, "mkdir -p %s\n", p);
			break;
		case 3:
		case 4:
			(void)fprintf(f, "echo %u >%s\n", i, p);
			break;
		case 5:
			(void)fprintf(f, "mv -T %s %s\n", p, q);
			break;
		case 6:
			(void)fprintf(f, "ln -sT target-%u %s\n", i, p);
			break;
		default:
			(void)fprintf(f, "test -d %s && chmod %s %s || chmod 64%u %s\n",
				      p, modes[next_random() % 3], p, next_random() % 5,
				      p);
		}
	}
	OK(fclose(f) == 0);
}

static struct work *start_mode(enum work_mode mode)
{
	struct work *w = start_with(&(struct work_options){ .mode = mode });

	if (mode == WORK_COPY)
		shell("cp -a p '%s/copy'", w->dir);
	return w;
}

/* The changes of @w whose number has a bit set in @bits. */
static const char *some(struct work *w, uint32_t bits)
{
	static char text[8192];
	AUTO_CHANGES struct changes c = { 0 };
	size_t n = 0;

	EQ(changes_list(w, 0, &c, &err), 0);
	(void)strcpy(text, "-");
	for (size_t i = 0; i < c.n; i++)
		if (bits >> i % 32 & 1)
			n += (size_t)snprintf(text + n, sizeof(text) - n, " %s",
					      c.v[i].path);
	return text;
}

struct outcome {
	char first[8192],
		then[8192]; /* what was left after the first part, and after all */
	int r;
};

/*
 * Run the changes in @mode, accept some, and then accept or reject the rest. The listings
 * of the project and of what the sandbox sees are compared by the caller, too.
 */
static void decide_as(enum work_mode mode, uint32_t bits, bool accept,
		      struct outcome *ret)
{
	AUTO_WORK struct work *w = NULL;
	const char *name = work_mode_name(mode);
	char last[32];

	shell("rm -rf p; cp -a before p");
	w = start_mode(mode);
	inside(w, "sh ../script 2>/dev/null || true; " LIST " >../seen-%s", name);
	ret->r = accept_paths(w, some(w, bits));
	(void)strcpy(ret->first, left(w));
	shell("cd p && " LIST " >../first-%s", name);
	/* An accept changes nothing for the sandbox. */
	inside(w, LIST " | cmp - ../seen-%s", name);
	EQ(accept ? accept_paths(w, NULL) : reject_paths(w, NULL), 0);
	(void)strcpy(ret->then, left(w));
	name = accept ? strcpy(last, "seen-") : strcpy(last, "first-");
	(void)strcat(last, work_mode_name(mode));
	shell("cd p && " LIST " | cmp - ../%s", name);
	inside(w, LIST " | cmp - ../%s", name);
	clean(w);
	EQ(work_remove(TAKE_PTR(w), &err), 0);
}

TEST(a_copy_and_an_overlay_become_the_same)
{
	static struct outcome overlay, copy;
	const char *rounds = getenv("ROUNDS");
	unsigned n = rounds ? (unsigned)atoi(rounds) : 25, parts = 0;

	NEED_MOUNTS();
	begin();
	for (unsigned i = 0; i < n; i++) {
		uint32_t bits = i % 3 ? next_random() << 8 ^ next_random() : UINT32_MAX;

		shell("rm -rf before; mkdir before");
		random_script("script", 30);
		shell("cd before && sh ../script 2>/dev/null; cp ../script ../script-before");
		random_script("script", 1 + next_random() % 15);
		decide_as(WORK_OVERLAY, bits, i % 4 != 1, &overlay);
		decide_as(WORK_COPY, bits, i % 4 != 1, &copy);
		shell("cmp seen-overlay seen-copy && cmp first-overlay first-copy");
		EQ(copy.r, overlay.r);
		STREQ(copy.first, overlay.first);
		STREQ(overlay.then, "");
		STREQ(copy.then, "");
		parts += overlay.r == 0 && overlay.first[0];
	}
	OK(rounds || parts > 5);
	end();
}

TEST(a_file_becomes_a_directory_in_a_copy)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	shell("echo a >p/a; mkdir p/u; echo v >p/u/v");
	w = start_mode(WORK_COPY);
	inside(w, "rm a; mkdir a; echo h >a/h; rm -r u; echo u >u");
	STREQ(left(w), "T a|A a/h|T u|D u/v|");
	EQ(accept_paths(w, NULL), 0);
	STREQ(left(w), "");
	clean(w);
	shell("cd p && test $(cat a/h)$(cat u) = hu");
	inside(w, "test $(cat a/h)$(cat u) = hu");
	end();
}

TEST(what_was_accepted_from_a_copy_stays)
{
	AUTO_WORK struct work *w = NULL;

	NEED_MOUNTS();
	begin();
	shell("mkdir p/c");
	w = start_mode(WORK_COPY);
	inside(w, "umask 077; mkdir c/b; echo data >c/b/f; mv c/b c/x");
	EQ(accept_paths(w, NULL), 0);
	STREQ(left(w), "");
	shell("test $(cat p/c/x/f) = data");
	inside(w, "test $(cat c/x/f) = data; echo more >c/x/g");
	EQ(accept_paths(w, NULL), 0);
	shell("test $(cat p/c/x/f)$(cat p/c/x/g) = datamore");
	STREQ(left(w), "");
	end();
}

/* Otherwise, they would be left after each decision. */
TEST(equal_files_do_not_count_as_changes_of_a_directory)
{
	static const char *const how[] = { "accepted", "rejected", "neither" };

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	for (size_t i = 0; i < ARRAY_SIZE(how); i++) {
		AUTO_CHANGES struct changes c = { 0 };
		AUTO_WORK struct work *w = NULL;

		begin();
		git("init -q -b main . && echo build/ >.gitignore && git add . && "
		    "git commit -qm one && mkdir build && echo 1 >build/a && echo 1 >build/b "
		    "&& ln -s a build/l && git branch side");
		w = start();
		inside(w,
		       "touch build/a; ln -sf a build/l; cp .git/refs/heads/side x; "
		       "cp x .git/refs/heads/side; rm x; "
		       "%s",
		       i < 2 ? "echo 2 >build/b; echo 1 >.git/refs/heads/new" : "true");
		EQ(changes_list(w, 0, &c, &err), 0);
		EQ(c.n, i < 2 ? 2 : 0);
		if (i < 2) {
			EQ(c.v[0].n_files, 1); /* a control: others do */
			EQ(c.v[1].n_files, 1);
			if (i == 0)
				EQ(decide(w, "build", 0,
					  &(struct accept_options){ .ignored = true }),
				   0);
			EQ(decide(w, i == 0 ? ".git" : ".git build", 0, NULL), 0);
		}
		changes_done(&c);
		EQ(changes_list(w, 0, &c, &err), 0);
		EQ(c.n, 0);
		end();
	}
}

TEST_MAIN()
