/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-durable.c - sandboxes outlive their creator, and are found, adopted and removed
 *
 * Complete sandboxes survive every kill, the next engine of the same name removes
 * incomplete ones, and at the end all counts are the same as before.
 */
#include "lib/durable-sandbox.h"

#define ROUNDS 40

static struct counts before;

static void begin(void)
{
	struct warren *w;

	world_enter(SECONDS);
	w = engine();
	/* Create the directories and the layers and, if needed, the disks. */
	sandbox_destroy(make_durable(w));
	sandbox_destroy(sandbox_make(w, &(struct warren_spec){ .memory = 64 * MIB }));
	w = warren_close(w);
	bury();
	before = world_count();
}

static void finish(struct warren *w, const char *when)
{
	w = warren_close(w);
	world_await_processes(before.processes, when);
	world_check(&before, when);
}

/* ---------------------------------------------------------------------- lifetime */

TEST(a_durable_sandbox_continues_when_its_engine_is_killed)
{
	struct warren *w, *again;
	struct warren_sandbox *sb;
	char id[ID_LEN + 1], *detail;
	size_t n = 0;
	pid_t pid;

	begin();
	w = engine();
	EQ(count_durable(w, id), 0);
	sb = sandbox_make(w, &(struct warren_spec){ .durable = true,
						    .hostname = "burrow",
						    .env = ARGV("A=1", "B=two\nlines"),
						    .workdir = "/tmp/here",
						    .user = "1000:1000",
						    .memory = 64 * MIB });
	STREQ(sandbox_says(sb, "echo kept > /tmp/x; pwd"), "/tmp/here");
	(void)strcpy(id, warren_id(sb));
	pid = init_pid(sb);
	w = warren_close(w);
	EQ(kill(pid, 0), 0);

	again = engine();
	EQ(count_durable(again, id), 1);
	sb = adopt(again, id);
	EQ(init_pid(sb), pid);
	STREQ(sandbox_says(sb, "cat /tmp/x; hostname; echo $A; echo \"$B\"; pwd; id -u"),
	      "kept\nburrow\n1\ntwo\nlines\n/tmp/here\n1000");
	detail = NULL;
	for (const struct warren_enforcement *e = warren_enforced(sb, &n); n > 0;
	     n--, e++)
		if (strcmp(e->name, "memory") == 0 && e->enforced)
			detail = strdup(e->detail);
	OK(detail && strtoull(detail, NULL, 10) == 64 * MIB);
	sandbox_destroy(sb);
	EQ(count_durable(again, id), 0);
	finish(again, "at the end");
}

TEST(a_released_sandbox_can_be_adopted_again)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w;
	struct warren_sandbox *sb;
	char id[ID_LEN + 1];

	begin();
	w = engine();
	sb = make_durable(w);
	(void)strcpy(id, warren_id(sb));
	for (int i = 0; i < 20; i++) {
		sb = warren_release(sb);
		sb = adopt(w, id);
	}
	STREQ(sandbox_says(sb, "echo fine"), "fine");
	sandbox_destroy(sb);
	FAILS(ENOENT, warren_adopt(w, id, &sb, &err));
	FAILS(EINVAL, warren_adopt(w, "../../etc", &sb, &err));
	finish(w, "at the end");
}

/* A sandbox that is not durable ends with its engine, even if the engine has a name. */
TEST(a_sandbox_that_is_not_durable_ends_with_its_engine)
{
	struct warren *w;

	begin();
	w = engine();
	STREQ(sandbox_says(sandbox_make(w, NULL), "echo fine"), "fine");
	finish(w, "after closing");
}

/* -------------------------------------------------------------------- engines */

TEST(two_engines_cannot_have_the_same_name)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w, *other = NULL, *plain;
	struct warren_sandbox *sb, *none = NULL;
	char id[ID_LEN + 1];
	pid_t pid;

	begin();
	w = engine();
	sb = make_durable(w);
	pid = init_pid(sb);
	FAILS(EBUSY, open_named("shim", &other, &err));
	/*
	 * An engine with another name, or without one, neither sees nor removes a live
	 * sandbox.
	 */
	GOOD(open_named("other", &other, &err));
	EQ(count_durable(other, id), 0);
	FAILS(ENOENT, warren_adopt(other, warren_id(sb), &none, &err));
	(void)strcpy(id, warren_id(sb));
	sb = warren_release(sb);
	w = warren_close(w);
	plain = sandbox_engine("native");
	(void)alarm(SECONDS);
	plain = warren_close(plain);
	other = warren_close(other);
	GOOD(open_named("other", &other, &err));
	EQ(kill(pid, 0), 0);
	w = engine();
	sandbox_destroy(adopt(w, id));
	other = warren_close(other);
	before.files++; /* the lock file of "other" */
	finish(w, "at the end");
}

TEST(a_durable_sandbox_needs_an_engine_with_a_valid_name)
{
	static const char *const bad[] = {
		"", "a/b", ".", "..", "a b", "x\n", "012345678901234567890123456789012"
	};
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb = NULL;
	struct warren *w = NULL;
	char id[ID_LEN + 1], **ids = NULL;

	world_enter(SECONDS);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		FAILS(EINVAL, open_named(bad[i], &w, &err));
	id_make(id);
	FAILS(EINVAL, open_named(id, &w, &err));
	GOOD(open_named("01234567890123456789012345678901", &w, &err));
	w = warren_close(w);
	w = sandbox_engine("native");
	FAILS(EINVAL,
	      warren_create(w, &(struct warren_spec){ .durable = true }, &sb, &err));
	FAILS(EINVAL, warren_list(w, &ids, &err));
	FAILS(EINVAL,
	      warren_create(w, &(struct warren_spec){ .durable = true, .one_shot = true },
			    &sb, &err));
	w = warren_close(w);
	w = sandbox_engine("null");
	FAILS(EOPNOTSUPP,
	      warren_create(w, &(struct warren_spec){ .durable = true }, &sb, &err));
	w = warren_close(w);
}

/* --------------------------------------------------------------------- crashes */

static size_t crash_step;

static void make_and_crash(void)
{
	struct warren *w = engine();
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb = NULL;

	((struct native *)w->state)->inject =
		(struct native_inject){ .step = (int)crash_step, .crash = true };
	(void)warren_create(w, &(struct warren_spec){ .durable = true }, &sb, &err);
}

static size_t all_steps(size_t *ret_outside)
{
	struct warren *w = engine();
	const struct warren_step *step;
	struct warren_sandbox *sb;
	size_t count = 0, outside = 0;

	((struct native *)w->state)->trace = true;
	sb = make_durable(w);
	step = warren_trace(sb, &count);
	for (size_t i = 0; i < count; i++)
		outside += !step[i].lane;
	sandbox_destroy(sb);
	w = warren_close(w);
	OK(outside > 5);
	*ret_outside = outside;
	return outside + inside_n_steps();
}

TEST(a_durable_engine_killed_at_any_step_is_cleaned_up)
{
	size_t all, outside;
	char id[ID_LEN + 1];
	struct warren *w;

	begin();
	all = all_steps(&outside);
	for (crash_step = 1; crash_step <= all; crash_step++) {
		char when[32];

		(void)snprintf(when, sizeof(when), "step %zu", crash_step);
		killed_after(make_and_crash);
		w = engine();
		EQ(count_durable(w, id), 0);
		finish(w, when);
	}
	/* The control: after the last step, the sandbox is complete. */
	killed_after(make_and_crash);
	w = engine();
	EQ(count_durable(w, id), 1);
	sandbox_destroy(adopt(w, id));
	finish(w, "after the last step");
}

/*
 * Create and destroy sandboxes; each id is reported after its create and before its
 * destroy.
 */
__attribute__((noreturn)) static void work(int tell)
{
	struct warren *w = engine();

	for (int i = 0; i < 10000; i++) {
		struct warren_sandbox *sb = make_durable(w);
		char line[ID_LEN + 2];

		(void)snprintf(line, sizeof(line), "+%s", warren_id(sb));
		EQ(write(tell, line, ID_LEN + 1), ID_LEN + 1);
		(void)sandbox_start(
			sb, &(struct warren_exec_spec){ .argv = ARGV("sleep", "600") });
		if (i % 3 == 0) {
			line[0] = '-';
			EQ(write(tell, line, ID_LEN + 1), ID_LEN + 1);
			sandbox_destroy(sb);
		} else if (i % 3 == 1) {
			sb = warren_release(sb);
		}
	}
	_exit(1);
}

/*
 * Every sandbox that was created and not destroyed exists; the last one marked '-' may or
 * may not exist.
 */
static void check_round(int heard, size_t *ret_n)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char line[ID_LEN + 2], id[ID_LEN + 1];
	struct warren *w = engine();
	char **ids = NULL;
	size_t n = 0, told = 0;

	GOOD(warren_list(w, &ids, &err));
	while (fd_read_all(heard, line, ID_LEN + 1) == ID_LEN + 1) {
		told += line[0] == '+';
		told -= line[0] == '-';
	}
	(void)close(heard);
	while (ids[n])
		n++;
	/* One more may be complete and unreported, or partly destroyed. */
	if (n < told || n > told + 1)
		TAP_FAIL("%zu are there, of %zu", n, told);
	for (size_t i = 0; i < n; i++) {
		struct warren_sandbox *sb = adopt(w, ids[i]);

		STREQ(sandbox_says(sb, "echo fine"), "fine");
		sandbox_destroy(sb);
	}
	free(ids);
	EQ(count_durable(w, id), 0);
	*ret_n += n;
	finish(w, "after a round");
}

TEST(a_durable_engine_killed_at_any_moment_is_cleaned_up)
{
	unsigned seed = (unsigned)time(NULL) ^ (unsigned)clock();
	size_t n = 0;

	begin();
	(void)printf("# seed %u\n", seed);
	for (int i = 0; i < ROUNDS; i++) {
		int pipes[2];
		pid_t pid;

		EQ(pipe2(pipes, O_CLOEXEC), 0);
		pid = fork();
		if (pid == 0)
			work(pipes[1]);
		OK(pid > 0);
		(void)close(pipes[1]);
		(void)usleep(1000 + (unsigned)rand_r(&seed) % 60000);
		EQ(kill(pid, SIGKILL), 0);
		EQ(waitpid(pid, NULL, 0), pid);
		check_round(pipes[0], &n);
	}
	OK(n > 0); /* the control: some existed */
}

/* ------------------------------------------------------------------- dead sandboxes */

/* Start a process in a cgroup of sandbox @id, so that the cgroup cannot be removed. */
static pid_t stay_in_cgroup(const char *id)
{
	char find[128], dir[4096], *path;
	pid_t pid = fork();
	FILE *f;

	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	OK(pid > 0);
	(void)snprintf(find, sizeof(find), "find /sys/fs/cgroup -type d -name %s", id);
	f = popen(find, "r");
	OK(f && fgets(dir, sizeof(dir), f));
	(void)pclose(f);
	dir[strcspn(dir, "\n")] = '\0';
	OK(asprintf(&path, "%s/cgroup.procs", dir) > 0);
	f = fopen(path, "we");
	OK(f && fprintf(f, "%d", pid) > 0 && fclose(f) == 0);
	free(path);
	return pid;
}

/* A sandbox is not reported as gone while something of it exists. */
TEST(a_failed_removal_is_retried)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb;
	char id[ID_LEN + 1];
	struct warren *w;
	pid_t pid, in_the_way;

	begin();
	w = engine();
	sb = make_durable(w);
	(void)strcpy(id, warren_id(sb));
	pid = init_pid(sb);
	in_the_way = stay_in_cgroup(id);
	FAILS(EBUSY, warren_destroy(sb, &err));
	(void)waitpid(pid, NULL, 0);
	FAILS(EBUSY, warren_adopt(w, id, &sb, &err));
	EQ(count_durable(w, id), 1);
	EQ(kill(in_the_way, SIGKILL), 0);
	EQ(waitpid(in_the_way, NULL, 0), in_the_way);
	FAILS(ESRCH, warren_adopt(w, id, &sb, &err));
	FAILS(ENOENT, warren_adopt(w, id, &sb, &err));
	finish(w, "after what was in the way");
}

TEST(the_death_of_an_init_is_noticed)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb;
	char id[ID_LEN + 1];
	struct warren *w;
	pid_t pid;

	begin();
	w = engine();
	sb = make_durable(w);
	(void)strcpy(id, warren_id(sb));
	pid = init_pid(sb);
	sb = warren_release(sb);
	EQ(kill(pid, SIGKILL), 0);
	EQ(waitpid(pid, NULL, 0), pid);
	FAILS(ESRCH, warren_adopt(w, id, &sb, &err));
	FAILS(ENOENT, warren_adopt(w, id, &sb, &err));
	EQ(count_durable(w, id), 0);
	finish(w, "after adopting a dead one");

	w = engine();
	sb = make_durable(w);
	pid = init_pid(sb);
	sb = warren_release(sb);
	w = warren_close(w);
	EQ(kill(pid, SIGKILL), 0);
	EQ(waitpid(pid, NULL, 0), pid);
	w = engine();
	EQ(count_durable(w, id), 0);
	finish(w, "after opening");
}

static void make_stubborn(void)
{
	struct warren_sandbox *sb = make_durable(engine());

	(void)sandbox_start(sb,
			    &(struct warren_exec_spec){
				    .argv = SH("trap '' TERM HUP INT; setsid sleep 600 &"
					       " (setsid sleep 600 &) ; sleep 600") });
}

static void make_paused(void)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb = make_durable(engine());

	(void)sandbox_start(sb,
			    &(struct warren_exec_spec){ .argv = ARGV("sleep", "600") });
	GOOD(warren_pause(sb, &err));
}

/*
 * The sandbox is not a child of this process, but it is killed with all its processes,
 * and its end is awaited.
 */
TEST(an_adopted_sandbox_can_be_destroyed)
{
	char id[ID_LEN + 1];
	struct warren *w;

	begin();
	killed_after(make_stubborn);
	w = engine();
	EQ(count_durable(w, id), 1);
	for (int i = 0;
	     i < SANDBOX_TRIES && world_count().processes < before.processes + 4; i++)
		sandbox_nap();
	OK(world_count().processes >= before.processes + 4);
	sandbox_destroy(adopt(w, id));
	finish(w, "at the end");
}

TEST(an_adopted_sandbox_can_be_paused)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_exec *ex = NULL;
	struct warren_sandbox *sb;
	char id[ID_LEN + 1];
	struct warren *w;

	begin();
	killed_after(make_paused);
	w = engine();
	EQ(count_durable(w, id), 1);
	sb = adopt(w, id);
	FAILS(EBUSY, warren_exec(sb, &(struct warren_exec_spec){ .argv = ARGV("true") },
				 &ex, &err));
	GOOD(warren_resume(sb, &err));
	STREQ(sandbox_says(sb, "echo back"), "back");
	GOOD(warren_pause(sb, &err));
	sb = warren_release(sb);
	sandbox_destroy(adopt(w, id));
	finish(w, "at the end");
}

/* ------------------------------------------------------------------ state files */

TEST(an_invalid_state_file_is_refused)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_FREE char *path = NULL;
	char text[8192], id[ID_LEN + 1];
	struct warren_sandbox *sb, *none = NULL;
	struct warren *w;
	ssize_t n;
	int fd;

	begin();
	w = engine();
	sb = make_durable(w);
	(void)strcpy(id, warren_id(sb));
	path = sandbox_path("run/boxes/%s.state", id);
	fd = open(path, O_RDWR | O_CLOEXEC);
	OK(fd >= 0);
	n = read(fd, text, sizeof(text));
	OK(n > 100 && n < (ssize_t)sizeof(text));
	for (ssize_t cut = 0; cut < n; cut += 7) {
		EQ(ftruncate(fd, cut), 0);
		FAILS(EINVAL, warren_adopt(w, id, &none, &err));
		EQ(pwrite(fd, text, (size_t)n, 0), n);
	}
	EQ(pwrite(fd, "warren-sandbox=9", 16, 0), 16);
	FAILS(EPROTONOSUPPORT, warren_adopt(w, id, &none, &err));
	EQ(pwrite(fd, text, (size_t)n, 0), n);
	EQ(count_durable(w, id), 1); /* the sandbox was not affected by any of this */
	sb = warren_release(sb);
	sb = adopt(w, id);
	STREQ(sandbox_says(sb, "echo fine"), "fine");
	(void)close(fd);
	sandbox_destroy(sb);
	finish(w, "at the end");
}

/* -------------------------------------------------------------------- limits */

static const char *in_force(const struct warren_sandbox *sb, const char *name)
{
	size_t n = 0;
	const struct warren_enforcement *e = warren_enforced(sb, &n);

	for (size_t i = 0; i < n; i++)
		if (strcmp(e[i].name, name) == 0)
			return e[i].detail;
	return "";
}

TEST(limits_can_be_raised_and_lowered)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_mount m = { .target = "/m", .size = 48 * MIB };
	struct warren_sandbox *sb;
	char id[ID_LEN + 1];
	struct warren *w;

	begin();
	w = engine();
	sb = sandbox_make(w, &(struct warren_spec){ .durable = true,
						    .memory = 64 * MIB,
						    .mounts = &m,
						    .n_mounts = 1 });
	EQ(sandbox_run(sb, ARGV("tail", "/dev/zero")).res.oom, true);
	GOOD(warren_update(sb, &(struct warren_limits){ .memory = 512 * MIB, .pids = 20 },
			   &err));
	EQ(strtoull(in_force(sb, "memory"), NULL, 10), 512 * MIB);
	EQ(strtoull(in_force(sb, "pids"), NULL, 10), 20);
	/* Eighty million bytes fit now, and prevent a lower limit. */
	STREQ(sandbox_says(sb,
			   "{ x=$(head -c 80000000 /dev/zero | tr '\\0' a); touch /held;"
			   " while test -e /held; do sleep 0.01; done; }"
			   " > /dev/null 2>&1 &"
			   " until test -e /held; do sleep 0.01; done; echo full"),
	      "full");
	FAILS(EBUSY,
	      warren_update(sb, &(struct warren_limits){ .memory = 64 * MIB, .pids = 50 },
			    &err));
	EQ(strtoull(in_force(sb, "memory"), NULL, 10), 512 * MIB);
	/* Either all limits change, or none. */
	EQ(strtoull(in_force(sb, "pids"), NULL, 10), 20);
	STREQ(sandbox_says(sb,
			   "rm /held; while pgrep -x sh | grep -v $$; do sleep 0.01; done"
			   " > /dev/null; echo empty"),
	      "empty");
	/* The limit cannot be below the size of the tmpfs, even if they are empty. */
	FAILS(EBUSY,
	      warren_update(sb, &(struct warren_limits){ .memory = 63 * MIB }, &err));
	GOOD(warren_update(sb, &(struct warren_limits){ .memory = 64 * MIB }, &err));
	EQ(sandbox_run(sb, ARGV("tail", "/dev/zero")).res.oom, true);
	/* The limits are unchanged when another engine opens the sandbox. */
	(void)strcpy(id, warren_id(sb));
	w = warren_close(w);
	w = engine();
	sb = adopt(w, id);
	EQ(strtoull(in_force(sb, "memory"), NULL, 10), 64 * MIB);
	FAILS(EBUSY,
	      warren_update(sb, &(struct warren_limits){ .memory = 63 * MIB }, &err));
	FAILS(EINVAL, warren_update(sb, &(struct warren_limits){ .memory = 5 }, &err));
	FAILS(EINVAL,
	      warren_update(sb, &(struct warren_limits){ .pids = WARREN_UNLIMITED },
			    &err));
	sandbox_destroy(sb);
	finish(w, "at the end");
}

TEST(processor_and_process_limits_can_be_changed)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb;
	struct warren *w;
	struct said s;

	begin();
	w = engine();
	sb = make_durable(w);
	/* A limit that is set later is also enforced if there was none at first. */
	GOOD(warren_update(sb, &(struct warren_limits){ .cpu_millis = 200 }, &err));
	OK(strncmp(in_force(sb, "cpus"), "0.200", 5) == 0);
	s = sandbox_sh(sb, "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done");
	EQ(s.res.exit_code, 0);
	/* A fifth of a processor: about five times as long as the processor time. */
	OK(s.res.wall_usec > 2 * (s.res.user_usec + s.res.system_usec));
	GOOD(warren_update(sb, &(struct warren_limits){ .cpu_millis = WARREN_UNLIMITED },
			   &err));
	s = sandbox_sh(sb, "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done");
	EQ(s.res.exit_code, 0);
	GOOD(warren_update(sb, &(struct warren_limits){ .pids = 3 }, &err));
	s = sandbox_sh(sb, "sleep 5 & sleep 5 & sleep 5 & sleep 5 & wait");
	OK(s.n_err > 0);
	GOOD(warren_update(sb, &(struct warren_limits){ .pids = 100 }, &err));
	s = sandbox_sh(sb, "sleep 0.1 & sleep 0.1 & sleep 0.1 & sleep 0.1 & wait");
	EQ(s.n_err, 0);
	sandbox_destroy(sb);
	finish(w, "at the end");
}

/* --------------------------------------------------------------------- many sandboxes */

TEST(many_durable_sandboxes_leave_nothing_behind)
{
	struct warren *w;

	begin();
	w = engine();
	for (size_t i = 0; i < 300; i++) {
		struct warren_sandbox *sb = make_durable(w);
		char id[ID_LEN + 1];

		(void)strcpy(id, warren_id(sb));
		if (i % 2)
			EQ(sandbox_run(sb, ARGV("true")).res.exit_code, 0);
		if (i % 3 == 0) {
			sb = warren_release(sb);
			sb = adopt(w, id);
		}
		if (i % 5 == 0) {
			w = warren_close(w);
			w = engine();
			sb = adopt(w, id);
		}
		sandbox_destroy(sb);
	}
	finish(w, "after all");
}

TEST_MAIN()
