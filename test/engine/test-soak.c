/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-soak.c - two thousand sandboxes, a tenth of which fail during creation, leave
 * nothing
 *
 * Processes, mounts, cgroups, namespaces, loop devices, descriptors and files are counted
 * before and after. Two processes run at the same time, each with its own engine on the
 * same directories.
 */
#include "backend/native/native.h"
#include "core/handle.h"
#include "lib/world.h"

#define CYCLES  1000 /* number of cycles of each process */
#define WORKERS 2
#define SECONDS 240

static size_t outside_steps(struct warren *w)
{
	struct native *n = w->state;
	struct warren_sandbox *sb;
	const struct warren_step *step;
	size_t count = 0, outside = 0;

	n->trace = true;
	sb = sandbox_make(w, NULL);
	step = warren_trace(sb, &count);
	for (size_t i = 0; i < count; i++)
		outside += !step[i].lane;
	sandbox_destroy(sb);
	n->trace = false;
	OK(outside > 5);
	return outside;
}

static struct warren_mount volume(const char *name)
{
	char *path = sandbox_path("%s", name);

	(void)mkdir(path, 0755);
	EQ(chown(path, 1000, 1000), 0);
	return (struct warren_mount){ .source = path, .target = "/v" };
}

/* ---------------------------------------------------------------- one cycle */

static void run_plain(struct warren_sandbox *sb)
{
	EQ(sandbox_run(sb, ARGV("true")).res.exit_code, 0);
}

static void run_none(struct warren_sandbox *sb UNUSED)
{
}

static void run_left_running(struct warren_sandbox *sb)
{
	struct warren_exec *ex = sandbox_start(
		sb, &(struct warren_exec_spec){
			    .argv = SH("trap '' TERM; setsid sleep 60 & sleep 60"),
			    .in = WARREN_STDIO_PIPE,
			    .out = WARREN_STDIO_PIPE });

	ex = warren_exec_free(ex);
}

static void run_journal(struct warren_sandbox *sb)
{
	struct warren_exec *ex = sandbox_start(
		sb, &(struct warren_exec_spec){
			    .argv = ARGV("head", "-c", "200000", "/dev/zero"),
			    .out = WARREN_STDIO_JOURNAL,
			    .err = WARREN_STDIO_JOURNAL,
			    .journal_limit = 65536 });

	EQ(sandbox_wait(ex).exit_code, 0);
	ex = warren_exec_free(ex);
}

static void run_pty(struct warren_sandbox *sb)
{
	struct warren_exec *ex = sandbox_start(
		sb, &(struct warren_exec_spec){ .argv = ARGV("cat"), .pty = true });

	ex = warren_exec_free(ex);
}

static void run_paused(struct warren_sandbox *sb)
{
	struct warren_error err = WARREN_ERROR_INIT;

	struct warren_exec *ex = sandbox_start(
		sb, &(struct warren_exec_spec){ .argv = ARGV("sleep", "60") });

	GOOD(warren_pause(sb, &err));
	ex = warren_exec_free(ex);
}

static void run_missing(struct warren_sandbox *sb)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_exec *ex = NULL;

	FAILS(ENOENT, warren_exec(sb,
				  &(struct warren_exec_spec){ .argv = ARGV("no-such"),
							      .out = WARREN_STDIO_PIPE },
				  &ex, &err));
}

static void run_files(struct warren_sandbox *sb)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int fd = -1;

	GOOD(warren_file_write(sb, "/tmp/x", "x", 1, 0600, &err));
	FAILS(ENOENT, warren_file_open(sb, "/tmp/y", O_RDONLY, 0, NULL, &fd, &err));
	FAILS(ECONNREFUSED, warren_connect(sb, 1, &fd, &err));
}

static void run_timeout(struct warren_sandbox *sb)
{
	struct said s = sandbox_run_spec(
		sb, (struct warren_exec_spec){ .argv = SH("sleep 60 & sleep 60"),
					       .timeout_ms = 1 });

	EQ(s.res.timed_out, true);
}

static void (*const recipes[])(struct warren_sandbox *sb) = {
	run_plain, run_plain, run_plain,  run_none,    run_left_running, run_journal,
	run_pty,   run_files, run_paused, run_missing, run_timeout,      run_plain,
};

static void cycle(struct warren *w, size_t i, size_t n_steps,
		  const struct warren_mount *v)
{
	struct native *n = w->state;
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb = NULL;
	struct warren_spec spec = { .mounts = v, .n_mounts = i % 7 == 3 };

	if (i % 10 == 9) {
		n->inject.step = 1 + (int)(i / 10 % n_steps);
		FAILS(EIO, warren_create(w, &spec, &sb, &err));
		OK(!sb);
		n->inject.step = 0;
		return;
	}
	sb = sandbox_make(w, &spec);
	recipes[i % ARRAY_SIZE(recipes)](sb);
	sandbox_destroy(sb);
}

/* -------------------------------------------------------------------- tests */

static void worker(int number, int go)
{
	struct warren *w = sandbox_engine("native");
	size_t n_steps, before;
	struct warren_mount v = volume("volume");
	char c;

	(void)alarm(SECONDS);
	n_steps = outside_steps(w) + inside_n_steps();
	before = sandbox_count_fds();
	OK(read(go, &c, 1) >= 0); /* both start at the same time */
	for (size_t i = 0; i < CYCLES; i++)
		cycle(w, i + (size_t)number * 5, n_steps, &v);
	EQ(sandbox_count_fds() - before, 0);
	w = warren_close(w);
	exit(EXIT_SUCCESS);
}

TEST(two_thousand_cycles_leave_nothing)
{
	struct counts before;
	struct warren *w;
	pid_t pid[WORKERS];
	int go[2];

	world_enter(SECONDS);
	(void)volume("volume");
	w = sandbox_engine("native");
	(void)alarm(SECONDS);
	sandbox_destroy(
		sandbox_make(w, NULL)); /* creates the layers and the directories */
	w = warren_close(w);
	before = world_count();
	EQ(pipe(go), 0);
	for (int i = 0; i < WORKERS; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			(void)close(go[1]);
			worker(i, go[0]);
		}
		OK(pid[i] > 0);
	}
	(void)close(go[0]);
	(void)close(go[1]);
	for (int i = 0; i < WORKERS; i++) {
		int status = 0;

		EQ(waitpid(pid[i], &status, 0), pid[i]);
		EQ(status, 0);
	}
	world_check(&before, "after all");
}

/* A failure of any step, outside or inside, is reported and leaves nothing behind. */
static void check_steps(bool crash)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct counts before;
	struct warren_mount v;
	struct warren *w;
	size_t outside, all;

	world_enter(60);
	v = volume("volume");
	w = sandbox_engine("native");
	outside = outside_steps(w);
	all = outside + inside_n_steps();
	before = world_count();
	for (size_t i = crash ? outside + 1 : 1; i <= all; i++) {
		struct native *n = w->state;
		struct warren_sandbox *sb = NULL;
		char when[32];

		(void)snprintf(when, sizeof(when), "step %zu of %zu", i, all);
		n->inject = (struct native_inject){ .step = (int)i, .crash = crash };
		for (int k = 0; k < 3; k++) {
			int r = warren_create(
				w,
				&(struct warren_spec){ .mounts = &v,
						       .n_mounts = (size_t)k % 2 },
				&sb, &err);

			if (r >= 0 || sb || err.code != -r || !err.msg[0])
				TAP_FAIL("%s: %d, %s", when, r, err.msg);
			if (!crash && (r != -EIO || !strstr(err.msg, "injected")))
				TAP_FAIL("%s: %d, %s", when, r, err.msg);
		}
		n->inject.step = 0;
		world_check(&before, when);
		sb = sandbox_make(w, NULL); /* the next sandbox works */
		run_plain(sb);
		sandbox_destroy(sb);
		world_check(&before, when);
	}
	w = warren_close(w);
}

TEST(a_failure_of_any_step_leaves_nothing)
{
	check_steps(false);
}

TEST(the_death_of_the_child_at_any_step_leaves_nothing)
{
	check_steps(true);
}

/*
 * A disk in a file needs a loop device, which is removed with the sandbox, even if the
 * sandbox is incomplete.
 */
/* The control for all others: leftovers are counted, and files of others are not. */
TEST(leftovers_are_counted)
{
	AUTO_FREE char *run = NULL, *left = NULL, *state = NULL, *layer = NULL;
	struct counts before;

	world_enter(60);
	run = sandbox_path("run");
	left = sandbox_path("run/left");
	state = sandbox_path("state");
	layer = sandbox_path("state/host-0123456789abcdef");
	EQ(mkdir(run, 0755), 0);
	EQ(mkdir(state, 0755), 0);
	before = world_count();
	EQ(mkdir(layer, 0755), 0);
	world_check(&before, "with a layer of /etc");
	EQ(mkdir(left, 0755), 0);
	EQ(world_count().files, before.files + 1);
	EQ(mount("left", left, "tmpfs", 0, NULL), 0);
	EQ(world_count().mounts, before.mounts + 1);
	EQ(umount2(left, 0), 0);
	EQ(rmdir(left), 0);
	world_check(&before, "after all");
}

TEST(disks_in_files_leave_nothing)
{
	struct warren_spec spec = { .memory = 32 << 20, .disk = 64 << 20 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb = NULL;
	struct counts before;
	struct warren *w;
	struct native *n;

	world_enter(60);
	w = sandbox_engine("native");
	n = w->state;
	if (warren_create(w, &spec, &sb, &err) < 0)
		SKIP("no disk in a file here: %.200s", err.msg);
	EQ(world_count_loops(), 1); /* the control: the loop device is counted */
	run_plain(sb);
	sandbox_destroy(sb);
	before = world_count();
	for (int i = 0; i < 60; i++) {
		n->inject.step = i % 3 == 2 ? 12 + i / 3 : 0;
		if (warren_create(w, &spec, &sb, &err) < 0) {
			EQ(err.code, EIO);
			continue;
		}
		if (i % 2)
			run_left_running(sb);
		sandbox_destroy(sb);
	}
	world_check(&before, "after all");
	w = warren_close(w);
}

TEST_MAIN()
