/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-registry.c - live engines, the owners of id ranges, and leftovers of dead engines
 */
#include <dirent.h>

#include "backend/native/native.h"
#include "base/fd.h"
#include "core/handle.h"
#include "lib/sandbox.h"

static size_t count_entries(const char *path)
{
	DIR *d = opendir(path);
	size_t n = 0;

	OK(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d))
		n += e->d_name[0] != '.';
	(void)closedir(d);
	return n;
}

/* Does the sandbox have a cgroup, in the hierarchy of the first available controller? */
static bool has_cgroup(const struct cgroup_root *root, const char *id)
{
	for (int c = 0; c < CGROUP_CONTROLLER_MAX; c++)
		if (root->dir[c] >= 0 && faccessat(root->dir[c], id, F_OK, 0) == 0)
			return true;
	return false;
}

static struct warren *open_at(const char *run)
{
	AUTO_FREE char *state = sandbox_path("state");
	struct warren_options options = { .state_dir = state, .run_dir = run };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = NULL;

	(void)alarm(SANDBOX_PATIENCE);
	GOOD(warren_open(&options, &w, &err));
	return w;
}

TEST(an_engine_leaves_only_two_empty_directories)
{
	char *run = sandbox_path("one");
	struct warren *w = open_at(run);
	struct warren_sandbox *sb = sandbox_make(w, NULL);
	char *engines = sandbox_path("one/engines"), *ids = sandbox_path("one/ids");
	struct stat st;

	EQ(count_entries(engines), 1);
	EQ(count_entries(ids), 1);
	EQ(stat(run, &st), 0);
	EQ(st.st_mode & 07777, 0700);
	sandbox_destroy(sb);
	EQ(count_entries(ids), 0);
	w = warren_close(w);
	EQ(count_entries(engines), 0);
	EQ(count_entries(run), 2);
}

TEST(closing_destroys_live_sandboxes)
{
	struct warren *w = open_at(sandbox_path("closing"));
	struct native *n = w->state;
	struct cgroup_root root;
	char ids[3][ID_LEN + 1];

	for (int i = 0; i < 3; i++) {
		struct warren_sandbox *sb = sandbox_make(w, NULL);

		(void)strcpy(ids[i], warren_id(sb));
		EQ(has_cgroup(&n->cgroups, ids[i]), n->cgroups.mode != CGROUP_NONE);
	}
	w = warren_close(w);
	EQ(count_entries(sandbox_path("closing/ids")), 0);
	cgroup_root_open(&root);
	for (int i = 0; i < 3; i++)
		OK(!has_cgroup(&root, ids[i]));
}

/* The second engine must not treat the first one's files as leftovers. */
TEST(two_engines_do_not_affect_each_other)
{
	char *run = sandbox_path("two");
	struct warren *a = open_at(run), *b = open_at(run), *c;
	struct warren_sandbox *in_a = sandbox_make(a, NULL),
			      *in_b = sandbox_make(b, NULL);

	OK(strcmp(warren_id(in_a), warren_id(in_b)) != 0);
	OK(((struct native_sandbox *)in_a->sandbox)->base_id !=
	   ((struct native_sandbox *)in_b->sandbox)->base_id);
	EQ(count_entries(sandbox_path("two/engines")), 2);
	c = open_at(run); /* sweeps again */
	EQ(count_entries(sandbox_path("two/ids")), 2);
	STREQ(sandbox_says(in_a, "echo a"), "a");
	STREQ(sandbox_says(in_b, "echo b"), "b");
	a = warren_close(a);
	EQ(count_entries(sandbox_path("two/ids")), 1);
	STREQ(sandbox_says(in_b, "echo still"), "still");
	b = warren_close(b);
	c = warren_close(c);
	EQ(count_entries(sandbox_path("two/engines")), 0);
}

TEST(ids_and_ranges_are_unique)
{
	struct warren *w = open_at(sandbox_path("unique"));
	struct warren_sandbox *sb[30];

	SKIP_UNLESS(geteuid() == 0, "needs root");
	for (size_t i = 0; i < ARRAY_SIZE(sb); i++) {
		struct native_sandbox *sandbox, *other;

		sb[i] = sandbox_make(w, NULL);
		sandbox = (struct native_sandbox *)sb[i]->sandbox;
		OK(id_valid(warren_id(sb[i])));
		OK(sandbox->base_id >= 1U << 24 && sandbox->base_id < 1U << 31);
		for (size_t k = 0; k < i; k++) {
			OK(strcmp(warren_id(sb[i]), warren_id(sb[k])) != 0);
			other = (struct native_sandbox *)sb[k]->sandbox;
			OK(sandbox->base_id + NATIVE_IDS <= other->base_id ||
			   other->base_id + NATIVE_IDS <= sandbox->base_id);
		}
	}
	w = warren_close(w);
}

/* ------------------------------------------------------- leftovers of dead engines */

/* Create a dead engine with one sandbox, in the directory @run. */
static void make_dead(const char *run, const char *name, const char *sandbox,
		      const char *slot)
{
	char target[64], path[256];

	(void)mkdir(run, 0700);
	(void)snprintf(path, sizeof(path), "%s/engines", run);
	(void)mkdir(path, 0700);
	(void)snprintf(path, sizeof(path), "%s/engines/%s", run, name);
	sandbox_put(path, "", 0600);
	(void)snprintf(path, sizeof(path), "%s/ids", run);
	(void)mkdir(path, 0700);
	(void)snprintf(path, sizeof(path), "%s/ids/%s", run, slot);
	(void)snprintf(target, sizeof(target), "%s/%s", name, sandbox);
	EQ(symlink(target, path), 0);
}

/* A cgroup like that of a sandbox, removed at the end of the test in any case. */
static struct {
	struct cgroup_root root;
	char id[ID_LEN + 1];
} left;

static void remove_cgroup(void)
{
	(void)cgroup_remove(&left.root, left.id);
}

static void make_cgroup(void)
{
	struct warren_error err = WARREN_ERROR_INIT;

	cgroup_root_open(&left.root);
	SKIP_UNLESS(left.root.mode == CGROUP_V1 && cgroup_has(&left.root, CGROUP_PIDS),
		    "written for cgroup v1");
	id_make(left.id);
	GOOD(cgroup_make(&left.root, left.id, 0, &(struct cgroup_limits){ 0 }, &err));
	(void)atexit(remove_cgroup);
}

/* Start a process in the cgroup @id, which does nothing. */
static pid_t occupy(const char *id)
{
	char path[64], text[16];
	pid_t pid = fork();

	if (pid == 0) {
		(void)alarm(SANDBOX_PATIENCE);
		for (;;)
			(void)pause();
	}
	(void)snprintf(path, sizeof(path), "%s/tasks", id);
	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	EQ(fd_write_file_at(left.root.dir[CGROUP_PIDS], path, text), 0);
	return pid;
}

TEST(leftovers_of_dead_engines_are_removed)
{
	char *run = sandbox_path("dead");
	struct warren *w;

	make_cgroup();
	make_dead(run, "bcdfghjklmnp", left.id, "5");
	OK(has_cgroup(&left.root, left.id));
	w = open_at(run);
	OK(!has_cgroup(&left.root, left.id));
	EQ(count_entries(sandbox_path("dead/ids")), 0);
	EQ(count_entries(sandbox_path("dead/engines")), 1); /* ours */
	w = warren_close(w);
}

/* Leftovers that cannot be removed yet are tried again by the next engines. */
TEST(busy_entries_are_removed_later)
{
	char *run = sandbox_path("busy");
	struct warren *w;
	pid_t pid;

	make_cgroup();
	make_dead(run, "bcdfghjklmnp", left.id, "5");
	pid = occupy(left.id);
	w = open_at(run);
	w = warren_close(w);
	OK(has_cgroup(&left.root, left.id));
	EQ(count_entries(sandbox_path("busy/ids")), 1);
	EQ(kill(pid, SIGKILL), 0);
	EQ(waitpid(pid, NULL, 0), pid);
	w = open_at(run);
	w = warren_close(w);
	EQ(count_entries(sandbox_path("busy/ids")), 0);
	EQ(count_entries(sandbox_path("busy/engines")), 0);
	OK(!has_cgroup(&left.root, left.id));
}

/* Only names with the right form belong to Warren; others are not removed. */
TEST(unknown_links_are_not_removed)
{
	char *run = sandbox_path("strange");
	struct warren *w;

	make_dead(run, "bcdfghjklmnp", "../../../../tmp", "5");
	(void)unlink(sandbox_path("strange/ids/6"));
	EQ(symlink("bcdfghjklmnp/", sandbox_path("strange/ids/6")), 0);
	EQ(symlink("/etc/passwd", sandbox_path("strange/ids/7")), 0);
	sandbox_put(sandbox_path("strange/engines/README"), "x", 0600);
	EQ(mkdir(sandbox_path("strange/engines/bcdfghjklmnq"), 0700), 0);
	w = open_at(run);
	w = warren_close(w);
	EQ(count_entries(sandbox_path("strange/ids")), 3);
	EQ(access(sandbox_path("strange/engines/README"), F_OK), 0);
}

/*
 * A destroy that could not remove everything reports it, and the next engine removes the
 * rest.
 */
TEST(leftovers_of_a_destroy_are_removed_later)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char *run = sandbox_path("left");
	struct warren *w = open_at(run);
	struct warren_sandbox *sb = sandbox_make(w, NULL);
	pid_t pid;

	cgroup_root_open(&left.root);
	SKIP_UNLESS(left.root.mode == CGROUP_V1, "written for cgroup v1");
	(void)strcpy(left.id, warren_id(sb));
	(void)atexit(remove_cgroup);
	pid = occupy(left.id);
	FAILS(EBUSY, warren_destroy(sb, &err));
	w = warren_close(w);
	OK(has_cgroup(&left.root, left.id));
	EQ(kill(pid, SIGKILL), 0);
	EQ(waitpid(pid, NULL, 0), pid);
	w = open_at(run);
	w = warren_close(w);
	EQ(count_entries(sandbox_path("left/ids")), 0);
	OK(!has_cgroup(&left.root, left.id));
}

/* ------------------------------------------------------------- owners of directories */

TEST(a_folder_that_others_may_write_is_refused)
{
	AUTO_FREE char *run = sandbox_path("shared"), *state = sandbox_path("state");
	struct warren_options options = { .state_dir = state, .run_dir = run };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = NULL;

	EQ(mkdir(run, 0700), 0);
	EQ(chmod(run, 0777), 0);
	FAILS(EPERM, warren_open(&options, &w, &err));
	OK(!w);
	EQ(chmod(run, 0700), 0);
	if (geteuid() == 0) {
		EQ(chown(run, 12345, 0), 0);
		FAILS(EPERM, warren_open(&options, &w, &err));
		EQ(chown(run, 0, 0), 0);
	}
	GOOD(warren_open(&options, &w, &err));
	w = warren_close(w);
}

TEST(a_file_instead_of_a_folder_is_an_error)
{
	AUTO_FREE char *run = sandbox_path("file"), *state = sandbox_path("state");
	struct warren_options options = { .state_dir = state, .run_dir = run };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = NULL;

	sandbox_put(run, "", 0600);
	FAILS(ENOTDIR, warren_open(&options, &w, &err));
	OK(!w);
	EQ(unlink(run), 0);
	EQ(mkdir(run, 0700), 0);
	EQ(symlink("/tmp", sandbox_path("file/ids")), 0);
	OK(warren_open(&options, &w, &err) < 0); /* a link is not followed */
	OK(!w);
}

/* Directories that only root may enter are accepted. */
TEST(a_run_directory_can_be_in_a_private_directory)
{
	struct warren_sandbox *sb;
	struct warren *w;

	EQ(mkdir(sandbox_path("private"), 0700), 0);
	w = open_at(sandbox_path("private/run"));
	sb = sandbox_make(w, NULL);
	STREQ(sandbox_says(sb, "echo here"), "here");
	w = warren_close(w);
}

TEST(an_unknown_backend_is_refused)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = NULL;

	FAILS(ENOENT, sandbox_open("nowhere", &w, &err));
	OK(!w);
	w = warren_close(w); /* NULL is allowed */
}

TEST_MAIN()
