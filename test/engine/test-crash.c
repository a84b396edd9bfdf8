/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-crash.c - a process is killed at any point, and the next engine finds and removes
 * everything
 *
 * Each time, the processes of all its sandboxes end by themselves. Then an engine is
 * opened and closed on the same directories, and all counts are the same as before.
 */
#include "backend/native/native.h"
#include "core/handle.h"
#include "lib/world.h"

#define SECONDS 120
#define ROUNDS  40
#define VOLUMES 24

static struct counts before;
static struct warren_mount volumes[VOLUMES];

/* Create a world with its directories and layers, and count everything at the start. */
static void begin(void)
{
	struct warren *w;

	world_enter(SECONDS);
	for (size_t i = 0; i < VOLUMES; i++) {
		char *path = sandbox_path("v%zu", i), *target = NULL;

		EQ(mkdir(path, 0755), 0);
		EQ(chown(path, (uid_t)(1000 + i), 1000), 0);
		OK(asprintf(&target, "/v%zu", i) > 0);
		volumes[i] = (struct warren_mount){ .source = path, .target = target };
	}
	w = sandbox_engine("native");
	(void)alarm(SECONDS);
	sandbox_destroy(sandbox_make(w, NULL));
	w = warren_close(w);
	before = world_count();
}

/*
 * Check that nothing of the killed process is left: its processes ended by themselves,
 * and the next engine removed the rest.
 */
static void check_recovery(const char *when)
{
	struct warren_sandbox *sb;
	struct warren *w;

	world_await_processes(before.processes, when);
	w = sandbox_engine("native");
	(void)alarm(SECONDS);
	w = warren_close(w);
	world_check(&before, when);
	w = sandbox_engine("native"); /* everything still works */
	(void)alarm(SECONDS);
	sb = sandbox_make(w, NULL);
	STREQ(sandbox_says(sb, "echo fine"), "fine");
	w = warren_close(w);
	world_check(&before, when);
}

static size_t outside_steps(void)
{
	struct warren *w = sandbox_engine("native");
	const struct warren_step *step;
	size_t count = 0, outside = 0;

	((struct native *)w->state)->trace = true;
	step = warren_trace(sandbox_make(w, NULL), &count);
	for (size_t i = 0; i < count; i++)
		outside += !step[i].lane;
	w = warren_close(w);
	(void)alarm(SECONDS);
	OK(outside > 5);
	return outside;
}

/* ------------------------------------------------------------ crashes at every step */

/* Never returns: this process kills itself before step @step, or the test kills it. */
__attribute__((noreturn)) static void die_at(size_t step, size_t n_mounts, bool others)
{
	struct warren *w = sandbox_engine("native");
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb = NULL;

	if (others) {
		sb = sandbox_make(w, NULL);
		(void)sandbox_start(sb,
				    &(struct warren_exec_spec){
					    .argv = SH("trap '' TERM HUP;"
						       " setsid sleep 60 & sleep 60") });
	}
	((struct native *)w->state)->inject =
		(struct native_inject){ .step = (int)step, .crash = true };
	(void)warren_create(
		w, &(struct warren_spec){ .mounts = volumes, .n_mounts = n_mounts }, &sb,
		&err);
	/*
	 * For a step inside, only the child died. Then this process dies too, without a
	 * cleanup.
	 */
	(void)kill(getpid(), SIGKILL);
	_exit(1);
}

static void check_death_at(size_t step, size_t n_mounts, bool others)
{
	char when[64];
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		die_at(step, n_mounts, others);
	OK(pid > 0);
	EQ(waitpid(pid, &status, 0), pid);
	OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	(void)snprintf(when, sizeof(when), "step %zu, %zu volumes%s", step, n_mounts,
		       others ? ", and a live one" : "");
	check_recovery(when);
}

TEST(an_engine_killed_at_any_step_is_cleaned_up)
{
	size_t all;

	begin();
	all = outside_steps() + inside_n_steps();
	for (size_t i = 1; i <= all; i++) {
		check_death_at(i, 0, false);
		check_death_at(i, 2, true);
	}
}

/* ------------------------------------------------------- crashes at other moments */

/*
 * Create sandboxes whose processes ignore signals, and create and destroy others, until
 * this process is killed.
 */
__attribute__((noreturn)) static void work(unsigned seed)
{
	struct warren *w = sandbox_engine("native");
	struct warren_sandbox *sb[3];

	for (int i = 0; i < 3; i++) {
		sb[i] = sandbox_make(w, &(struct warren_spec){ .mounts = volumes,
							       .n_mounts = seed % 3 });
		(void)sandbox_start(
			sb[i], &(struct warren_exec_spec){
				       .argv = SH("trap '' TERM HUP; setsid sleep 60 &"
						  " (setsid sleep 60 &); sleep 60"),
				       .in = WARREN_STDIO_PIPE,
				       .out = WARREN_STDIO_JOURNAL });
		(void)sandbox_start(sb[i], &(struct warren_exec_spec){
						   .argv = ARGV("cat"), .pty = true });
	}
	for (int i = 0; i < 10000; i++) {
		struct warren_sandbox *more = sandbox_make(w, NULL);

		(void)sandbox_start(
			more, &(struct warren_exec_spec){ .argv = ARGV("sleep", "60") });
		(void)sandbox_start(sb[i % 3],
				    &(struct warren_exec_spec){ .argv = ARGV("true") });
		sandbox_destroy(more);
	}
	_exit(1);
}

TEST(an_engine_killed_at_any_moment_is_cleaned_up)
{
	unsigned seed = (unsigned)time(NULL) ^ (unsigned)clock();

	begin();
	(void)printf("# seed %u\n", seed);
	for (int i = 0; i < ROUNDS; i++) {
		char when[64];
		pid_t pid = fork();

		if (pid == 0)
			work(seed + (unsigned)i);
		OK(pid > 0);
		(void)usleep(1000 + (unsigned)rand_r(&seed) % 80000);
		EQ(kill(pid, SIGKILL), 0);
		EQ(waitpid(pid, NULL, 0), pid);
		(void)snprintf(when, sizeof(when), "round %d", i);
		check_recovery(when);
	}
}

/* Helper processes of a create must not outlive the process that started them. */
TEST(an_engine_killed_while_mapping_volumes_is_cleaned_up)
{
	unsigned seed = (unsigned)time(NULL) ^ (unsigned)clock();

	begin();
	(void)printf("# seed %u\n", seed);
	for (int i = 0; i < ROUNDS; i++) {
		char when[64];
		pid_t pid = fork();

		if (pid == 0) {
			struct warren *w = sandbox_engine("native");
			struct warren_spec spec = { .mounts = volumes,
						    .n_mounts = VOLUMES };

			for (int k = 0; k < 10000; k++)
				sandbox_destroy(sandbox_make(w, &spec));
			_exit(1);
		}
		OK(pid > 0);
		(void)usleep(2000 + (unsigned)rand_r(&seed) % 40000);
		EQ(kill(pid, SIGKILL), 0);
		EQ(waitpid(pid, NULL, 0), pid);
		(void)snprintf(when, sizeof(when), "round %d", i);
		check_recovery(when);
	}
}

/* Run @child, which closes its end when it is ready, and then kill it. */
static void kill_when_ready(void (*child)(void))
{
	int ready[2];
	pid_t pid;
	char c;

	EQ(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		(void)close(ready[0]);
		child();
		(void)close(ready[1]);
		for (int i = 0; i < SECONDS; i++)
			(void)sleep(1);
		_exit(1);
	}
	OK(pid > 0);
	(void)close(ready[1]);
	EQ(read(ready[0], &c, 1), 0);
	(void)close(ready[0]);
	EQ(kill(pid, SIGKILL), 0);
	EQ(waitpid(pid, NULL, 0), pid);
}

static void make_paused(void)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb = sandbox_make(sandbox_engine("native"), NULL);

	(void)sandbox_start(sb,
			    &(struct warren_exec_spec){ .argv = ARGV("sleep", "60") });
	GOOD(warren_pause(sb, &err));
}

/* Frozen processes do not die on v1, so the next engine must thaw them. */
TEST(the_paused_sandbox_of_a_killed_engine_is_cleaned_up)
{
	struct warren *w;

	begin();
	kill_when_ready(make_paused);
	for (int i = 0; i < 50; i++) /* give processes time to end by themselves */
		sandbox_nap();
	w = sandbox_engine("native");
	(void)alarm(SECONDS);
	w = warren_close(w);
	check_recovery("after the next engine");
}

static void make_on_disk(void)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb = NULL;
	struct warren_spec spec = { .memory = 32 << 20, .disk = 64 << 20 };

	if (warren_create(sandbox_engine("native"), &spec, &sb, &err) == 0)
		(void)sandbox_start(
			sb, &(struct warren_exec_spec){ .argv = ARGV("sleep", "60") });
}

TEST(the_disk_file_of_a_killed_engine_is_cleaned_up)
{
	begin();
	kill_when_ready(make_on_disk); /* creates the template, which is kept */
	world_await_processes(before.processes, "the first time");
	before.files =
		world_count().files - 2; /* the link and the engine's file still exist */
	check_recovery("the first time");
	kill_when_ready(make_on_disk);
	check_recovery("the second time");
}

static void make_two(void)
{
	struct warren *w = sandbox_engine("native");

	for (int i = 0; i < 2; i++)
		(void)sandbox_start(
			sandbox_make(w, NULL),
			&(struct warren_exec_spec){ .argv = ARGV("sleep", "60") });
}

/* Live sandboxes are kept, and dead ones are removed. */
TEST(other_sandboxes_continue_when_an_engine_is_killed)
{
	struct warren_sandbox *mine;
	struct warren *w, *next;
	struct counts with_mine;

	begin();
	w = sandbox_engine("native");
	mine = sandbox_make(w, NULL);
	(void)alarm(SECONDS);
	STREQ(sandbox_says(mine, "echo x > /tmp/kept; echo made"), "made");
	with_mine = world_count();
	kill_when_ready(make_two);
	/* Do not wait for all children: one of them is the init of the live sandbox. */
	for (int i = 0;
	     i < SANDBOX_TRIES && world_count().namespaces > with_mine.namespaces; i++)
		sandbox_nap();
	next = sandbox_engine("native");
	(void)alarm(SECONDS);
	next = warren_close(next);
	EQ(world_count().cgroups, with_mine.cgroups);
	EQ(world_count().files, with_mine.files);
	STREQ(sandbox_says(mine, "cat /tmp/kept"), "x");
	w = warren_close(w);
	world_await_processes(before.processes, "at the end");
	world_check(&before, "at the end");
}

/* ------------------------------------------------------- death of an init */

/* init is killed from outside: only its sandbox is lost. */
TEST(the_death_of_an_init_affects_only_its_sandbox)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb, *other;
	struct warren_exec *ex, *none = NULL;
	struct warren_result res;
	struct warren *w;
	char *text = NULL;
	size_t n = 0;

	begin();
	w = sandbox_engine("native");
	sb = sandbox_make(w, NULL);
	other = sandbox_make(w, NULL);
	ex = sandbox_start(sb, &(struct warren_exec_spec){ .argv = ARGV("sleep", "60") });
	EQ(kill(((struct native_sandbox *)sb->sandbox)->pid, SIGKILL), 0);
	OK(warren_exec_wait(ex, -1, &res, &err) < 0);
	OK(err.code && err.msg[0]);
	OK(warren_exec(sb, &(struct warren_exec_spec){ .argv = ARGV("true") }, &none,
		       &err) < 0);
	OK(warren_file_read(sb, "/etc/passwd", 100000, &text, &n, &err) < 0);
	OK(warren_exec_signal(ex, SIGKILL, &err) < 0);
	STREQ(sandbox_says(other, "echo fine"), "fine");
	ex = warren_exec_free(ex);
	sandbox_destroy(sb);
	STREQ(sandbox_says(other, "echo still"), "still");
	w = warren_close(w);
	world_check(&before, "at the end");
}

TEST_MAIN()
