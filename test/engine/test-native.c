/* SPDX-License-Identifier: Apache-2.0 */
/* test-native.c - the native backend: limits, ends, accounting, pauses and terminals */
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <termios.h>

#include "lib/native-sandbox.h"

/* ---------------------------------------------------------- pause and resume */

/* Print a dot every 10 ms, for at most a minute. */
#define TICKER \
	SH("i=0; while [ $i -lt 6000 ]; do printf .; sleep 0.01; i=$((i + 1)); done")

static void drain_pipe(int fd)
{
	char scrap[4096];

	EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	while (read(fd, scrap, sizeof(scrap)) > 0)
		;
}

TEST(a_paused_sandbox_does_nothing_until_it_is_resumed)
{
	struct pollfd p = { .events = POLLIN };
	struct warren_exec *ex;
	struct warren_result res;

	BEGIN(0);
	SKIP_UNLESS(has_controller(w, CGROUP_FREEZER), "no freezer");
	ex = sandbox_start(sb, &(struct warren_exec_spec){ .argv = TICKER,
							   .out = WARREN_STDIO_PIPE });
	p.fd = warren_exec_fd(ex, 1);
	sandbox_expect(p.fd, "...");
	for (int i = 0; i < 3; i++) {
		GOOD(warren_pause(sb, &err));
		GOOD(warren_pause(sb, &err)); /* repeating it is allowed */
		drain_pipe(p.fd);
		EQ(poll(&p, 1, 200), 0);
		EQ(warren_exec_wait(ex, 0, &res, &err), 0);
		GOOD(warren_resume(sb, &err));
		GOOD(warren_resume(sb, &err));
		EQ(poll(&p, 1, SANDBOX_PATIENCE * 1000), 1);
	}
	END();
}

/* A child that was frozen before its execve(2) would block init and the engine. */
TEST(an_exec_in_a_paused_sandbox_is_refused)
{
	struct warren_exec *ex = NULL;
	char *text = NULL;
	size_t n = 0;

	BEGIN(0);
	SKIP_UNLESS(has_controller(w, CGROUP_FREEZER), "no freezer");
	GOOD(warren_pause(sb, &err));
	FAILS(EBUSY, warren_exec(sb, &(struct warren_exec_spec){ .argv = ARGV("true") },
				 &ex, &err));
	GOOD(warren_file_read(sb, "/etc/passwd", MIB, &text, &n,
			      &err)); /* this needs no process */
	GOOD(warren_resume(sb, &err));
	STREQ(sandbox_says(sb, "echo back"), "back");
	END();
}

TEST(a_paused_sandbox_can_be_destroyed)
{
	char ns[64];

	BEGIN(0);
	SKIP_UNLESS(has_controller(w, CGROUP_FREEZER), "no freezer");
	(void)sandbox_start(sb, &(struct warren_exec_spec){ .argv = TICKER });
	ns_name(init_of(sb), "pid", ns, sizeof(ns));
	GOOD(warren_pause(sb, &err));
	OK(count_in_ns(ns) >= 2);
	sandbox_destroy(sb);
	EQ(count_in_ns(ns), 0);
	w = warren_close(w);
}

/*
 * The deadline passes while the exec is frozen: it is killed after the thaw, and init is
 * not considered hung.
 */
TEST(an_exec_whose_deadline_passed_during_a_pause_is_killed_after_it)
{
	struct warren_result res;
	struct warren_exec *ex;
	int r;

	BEGIN(0);
	SKIP_UNLESS(has_controller(w, CGROUP_FREEZER), "no freezer");
	ex = sandbox_start(sb, &(struct warren_exec_spec){ .argv = ARGV("sleep", "60"),
							   .timeout_ms = 100 });
	GOOD(warren_pause(sb, &err));
	r = warren_exec_wait(ex, 6000, &res, &err);
	GOOD(warren_resume(sb, &err));
	EQ(r, 0);
	res = sandbox_wait(ex);
	EQ(res.timed_out, true);
	END();
}

/* ------------------------------------------------------------------ resource usage */

TEST(stats_show_the_resources_in_use)
{
	struct warren_stats idle, busy;
	struct warren_exec *ex;

	BEGIN(.memory = 256 * MIB);
	GOOD(warren_stats(sb, &idle, &err));
	EQ(idle.pids, 0); /* init does not count */
	EQ(idle.oom_kills, 0);
	ex = sandbox_start(
		sb,
		&(struct warren_exec_spec){
			.argv = SH(
				"head -c 30000000 /dev/zero | tail -c 30000000 > /tmp/x;"
				" sleep 60 & sleep 60 & echo up; wait"),
			.out = WARREN_STDIO_PIPE });
	sandbox_expect(warren_exec_fd(ex, 1), "up\n");
	GOOD(warren_stats(sb, &busy, &err));
	EQ(busy.pids, 3);
	OK(busy.memory > idle.memory && busy.memory <= 256 * MIB);
	OK(busy.memory_peak >= 30000000 && busy.memory_peak <= 256 * MIB);
	OK(busy.memory_peak >= busy.memory);
	OK(busy.cpu_usec > idle.cpu_usec);
	END();
}

TEST(resource_usage_is_counted_for_each_exec)
{
	struct warren_exec *hungry, *busy, *idle;
	struct warren_result h, b, i;

	BEGIN(0);
	hungry = sandbox_start(
		sb, &(struct warren_exec_spec){
			    .argv = SH("head -c 90000000 /dev/zero | tail -c 90000000"
				       " | wc -c") });
	busy = sandbox_start(
		sb, &(struct warren_exec_spec){
			    .argv = SH("i=0; while [ $i -lt 1000000 ]; do i=$((i + 1));"
				       " done") });
	idle = sandbox_start(sb,
			     &(struct warren_exec_spec){ .argv = ARGV("sleep", "0.3") });
	h = sandbox_wait(hungry);
	b = sandbox_wait(busy);
	i = sandbox_wait(idle);
	OK(h.max_memory >= 90000000);
	OK(b.max_memory < 30000000 && i.max_memory < 30000000);
	OK(b.max_memory > 0 && i.max_memory > 0);
	/*
	 * A loop of a million steps uses more time than starting and sleeping.
	 */
	OK(b.user_usec + b.system_usec > 5 * (i.user_usec + i.system_usec));
	OK(b.user_usec > b.system_usec);
	OK(i.user_usec + i.system_usec > 0);
	OK(i.wall_usec >= 300000);
	OK(b.user_usec + b.system_usec <= 2 * b.wall_usec + 50000);
	END();
}

/*
 * The accounting covers the tree: children that were waited for, and those that were not.
 */
TEST(resource_usage_includes_all_processes_of_an_exec)
{
	struct said s;

	BEGIN(0);
	s = sandbox_sh(sb, "(i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done;"
			   " echo > /tmp/done) &"
			   " while [ ! -e /tmp/done ]; do sleep 0.02; done");
	OK(s.res.user_usec > 20000);
	END();
}

TEST(a_single_exec_has_the_resource_usage_of_its_sandbox)
{
	struct said s;

	BEGIN(0);
	s = sandbox_run_spec(
		sb,
		(struct warren_exec_spec){
			.argv = SH(
				"head -c 50000000 /dev/zero | tail -c 50000000 | wc -c"),
			.accounts_sandbox = true });
	STREQ(s.out, "50000000\n");
	OK(s.res.max_memory >= 50000000);
	OK(s.res.user_usec + s.res.system_usec > 0);
	END();
}

/* -------------------------------------------------------------------- memory */

/* tail(1) keeps an endless line in memory. */
#define HOG ARGV("tail", "/dev/zero")

TEST(an_out_of_memory_kill_is_reported_for_its_exec)
{
	struct warren_stats stats;
	struct said s;

	BEGIN(.memory = 64 * MIB);
	s = sandbox_run(sb, HOG);
	EQ(s.res.oom, true);
	EQ(s.res.signal, SIGKILL);
	EQ(s.res.timed_out, false);
	OK(s.res.max_memory <= 64 * MIB && s.res.max_memory > 40 * MIB);
	/* A child of the command counts too. */
	s = sandbox_sh(sb, "tail /dev/zero; exit 3");
	EQ(s.res.oom, true);
	EQ(s.res.exit_code, 3);
	/* The next exec is not affected. */
	s = sandbox_sh(sb, "echo next");
	EQ(s.res.oom, false);
	STREQ(s.out, "next\n");
	GOOD(warren_stats(sb, &stats, &err));
	OK(stats.oom_kills >= 2);
	OK(stats.memory < 32 * MIB);
	END();
}

TEST(an_out_of_memory_kill_is_reported_for_a_single_exec)
{
	struct said s;

	BEGIN(.memory = 64 * MIB);
	s = sandbox_run_spec(
		sb, (struct warren_exec_spec){ .argv = HOG, .accounts_sandbox = true });
	EQ(s.res.oom, true);
	EQ(s.res.signal, SIGKILL);
	END();
}

/* Only the process that uses the memory dies, not its neighbour. */
TEST(an_out_of_memory_kill_affects_only_its_sandbox)
{
	struct warren_exec *ex;
	struct warren_sandbox *other;
	struct warren_result res;

	BEGIN(.memory = 64 * MIB);
	other = sandbox_make(w, &(struct warren_spec){ .memory = 64 * MIB });
	ex = sandbox_start(other, &(struct warren_exec_spec){ .argv = ARGV("cat"),
							      .in = WARREN_STDIO_PIPE });
	EQ(sandbox_run(sb, HOG).res.oom, true);
	EQ(warren_exec_wait(ex, 0, &res, &err), 0);
	STREQ(sandbox_says(other, "echo fine"), "fine");
	END();
}

TEST(the_default_memory_limit_is_reported)
{
	unsigned long long bytes;

	BEGIN(0);
	SKIP_UNLESS(has_controller(w, CGROUP_MEMORY), "no memory controller");
	OK(enforced(sb, "memory"));
	bytes = strtoull(enforced(sb, "memory"), NULL, 10);
	OK(bytes >= 64 * MIB &&
	   bytes <= (unsigned long long)sysconf(_SC_PHYS_PAGES) *
			    (unsigned long long)sysconf(_SC_PAGESIZE));
	EQ(strtoull(enforced(sb, "pids"), NULL, 10), 1024);
	OK(enforced(sb, "disk") && enforced(sb, "nofile") && enforced(sb, "seccomp"));
	END();
}

/* ----------------------------------------------------------------- processes */

TEST(the_process_limit_is_enforced)
{
	struct warren_stats stats;
	struct warren_exec *ex;
	struct said s;

	BEGIN(.pids = 20);
	EQ(strtoull(enforced(sb, "pids"), NULL, 10), 20);
	ex = sandbox_start(
		sb,
		&(struct warren_exec_spec){
			.argv = SH("i=0; while [ $i -lt 19 ]; do sleep 60 & i=$((i + 1));"
				   " done; echo up; wait"),
			.out = WARREN_STDIO_PIPE });
	sandbox_expect(warren_exec_fd(ex, 1), "up\n");
	GOOD(warren_stats(sb, &stats, &err));
	EQ(stats.pids, 20);
	EQ(count_processes(sb), 21); /* 20 processes and init */
	GOOD(warren_exec_signal(ex, SIGKILL, &err));
	EQ(sandbox_wait(ex).signal, SIGKILL);
	await_processes(sb, 1);
	s = sandbox_sh(sb, "(true); echo again");
	STREQ(s.out, "again\n");
	END();
}

/*
 * Processes that are started from outside count like those that are forked inside; init
 * can still answer.
 */
TEST(execs_count_as_processes)
{
	struct warren_exec *ex = NULL;
	struct warren_stats stats;
	int started = 0;

	BEGIN(.pids = 10);
	for (int i = 0; i < 15; i++) {
		if (warren_exec(sb,
				&(struct warren_exec_spec){ .argv = ARGV("sleep", "60") },
				&ex, &err) == 0)
			started++;
		else
			EQ(err.code, EAGAIN);
	}
	GOOD(warren_stats(sb, &stats, &err));
	EQ(started, 10);
	EQ(stats.pids, 10);
	END();
}

/* A fork bomb of a hundred processes, where twenty are allowed. */
TEST(a_fork_beyond_the_process_limit_fails)
{
	struct said s;

	BEGIN(.pids = 20);
	s = sandbox_sh(sb, "i=0; while [ $i -lt 100 ]; do sleep 60 >/dev/null 2>&1 &"
			   " i=$((i + 1)); done");
	OK(s.res.exit_code != 0);
	OK(strstr(s.err, "fork"));
	OK(count_processes(sb) <= 20);
	END();
}

/* An exec can have lower limits than its sandbox, and the next exec is not affected. */
TEST(an_exec_can_have_lower_limits_than_its_sandbox)
{
	const char *hog = "head -c 64m /dev/zero | tail | wc -c";
	const char *many = "for i in 1 2 3 4 5; do sleep 5 & done; wait";
	struct warren_exec *ex = NULL;
	struct warren_result res;

	BEGIN(.memory = 256 * MIB, .pids = 50);
	for (int limited = 1; limited >= 0; limited--) {
		GOOD(warren_exec(sb,
				 &(struct warren_exec_spec){
					 .argv = ARGV("sh", "-c", hog),
					 .limits.memory = limited ? 16 * MIB : 0 },
				 &ex, &err));
		EQ(warren_exec_wait(ex, -1, &res, &err), 1);
		EQ(res.oom, limited);
		OK(!limited || res.max_memory <= 16 * MIB);
		ex = warren_exec_free(ex);
	}
	GOOD(warren_exec(sb,
			 &(struct warren_exec_spec){ .argv = ARGV("sh", "-c", many),
						     .limits.pids = 3 },
			 &ex, &err));
	EQ(warren_exec_wait(ex, -1, &res, &err), 1);
	EQ(res.exit_code, 2); /* cannot fork */
	ex = warren_exec_free(ex);
	END();
}

/* ---------------------------------------------------------------- process trees */

#define ESCAPE                                                \
	"trap '' TERM HUP INT;"                               \
	" setsid sh -c 'trap \"\" TERM HUP;"                  \
	" (setsid sh -c \"trap \\\"\\\" TERM; sleep 300\" &)" \
	" ; sleep 300' & (setsid sleep 300 &); echo up; wait; sleep 300"

static void check_tree_killed(bool accounts_sandbox)
{
	struct warren_exec *ex;
	struct warren_result res;

	BEGIN(0);
	ex = sandbox_start(
		sb, &(struct warren_exec_spec){ .argv = SH(ESCAPE),
						.out = WARREN_STDIO_PIPE,
						.timeout_ms = 1000,
						.accounts_sandbox = accounts_sandbox });
	sandbox_expect(warren_exec_fd(ex, 1), "up\n");
	OK(count_processes(sb) >= 3); /* the control: they are seen from outside */
	res = sandbox_wait(ex);
	EQ(res.timed_out, true);
	EQ(res.signal, SIGKILL);
	/* The only exec ends init, which is then a zombie of this process. */
	await_processes(sb, 1);
	if (!accounts_sandbox)
		STREQ(sandbox_says(sb, "echo alive"), "alive");
	END();
}

TEST(a_timeout_ends_processes_that_ignore_signals_or_left_the_session)
{
	check_tree_killed(false);
}

TEST(a_timeout_of_the_only_exec_ends_its_processes)
{
	check_tree_killed(true);
}

TEST(other_execs_survive_a_killed_one)
{
	struct warren_exec *ex, *other;
	struct warren_result res;

	BEGIN(0);
	other = sandbox_start(
		sb, &(struct warren_exec_spec){ .argv = SH("setsid sleep 60 & cat; :"),
						.in = WARREN_STDIO_PIPE,
						.out = WARREN_STDIO_PIPE });
	ex = sandbox_start(sb, &(struct warren_exec_spec){ .argv = SH(ESCAPE),
							   .out = WARREN_STDIO_PIPE });
	sandbox_expect(warren_exec_fd(ex, 1), "up\n");
	GOOD(warren_exec_signal(ex, SIGKILL, &err));
	EQ(sandbox_wait(ex).signal, SIGKILL);
	await_processes(sb, 4); /* init, sh, sleep, cat */
	EQ(warren_exec_wait(other, 0, &res, &err), 0);
	EQ(write(warren_exec_fd(other, 0), "hello\n", 6), 6);
	sandbox_expect(warren_exec_fd(other, 1), "hello\n");
	END();
}

#define BOMB "(f() { f & f & sleep 300; }; f) 2>/dev/null & while :; do :; done"

/* It is killed whatever it does at the timeout: starting, forking, or waiting because of
 * the limit. */
TEST(a_timeout_kills_a_fork_bomb)
{
	static const unsigned timeouts[] = { 1, 5, 20, 60, 200 };
	struct warren_exec *ex;

	BEGIN(.pids = 60);
	ex = sandbox_start(sb, &(struct warren_exec_spec){ .argv = SH(BOMB) });
	for (int i = 0; i < SANDBOX_TRIES && count_processes(sb) < 20; i++)
		sandbox_nap();
	OK(count_processes(sb) >= 20); /* the control: it does fork */
	GOOD(warren_exec_signal(ex, SIGKILL, &err));
	EQ(sandbox_wait(ex).signal, SIGKILL);
	await_processes(sb, 1);
	for (size_t i = 0; i < ARRAY_SIZE(timeouts); i++) {
		ex = sandbox_start(
			sb, &(struct warren_exec_spec){ .argv = SH(BOMB),
							.timeout_ms = timeouts[i] });
		EQ(sandbox_wait(ex).timed_out, true);
		await_processes(sb, 1);
	}
	STREQ(sandbox_says(sb, "echo alive"), "alive");
	END();
}

/* Processes that an exec leaves running belong to the sandbox until the sandbox ends. */
TEST(background_processes_run_until_the_sandbox_ends)
{
	char ns[64];

	BEGIN(0);
	(void)sandbox_sh(sb, "setsid sleep 300 >/dev/null 2>&1 &");
	await_processes(sb, 2);
	ns_name(init_of(sb), "pid", ns, sizeof(ns));
	END();
	EQ(count_in_ns(ns), 0);
}

/*
 * A tree of thousands of processes: none is missed, although the list is long. They are
 * frozen while they are killed, so that none leaves the list.
 */
TEST(a_tree_of_five_thousand_processes_is_killed)
{
	struct warren_exec *ex;

	BEGIN(.pids = 6000);
	ex = sandbox_start(
		sb,
		&(struct warren_exec_spec){
			.argv = SH("mkfifo /tmp/f; i=0; while [ $i -lt 5000 ]; do"
				   " (: < /tmp/f) & i=$((i + 1)); done; echo up; wait"),
			.out = WARREN_STDIO_PIPE });
	sandbox_expect(warren_exec_fd(ex, 1), "up\n");
	EQ(count_processes(sb), 5002);
	SKIP_UNLESS(has_controller(w, CGROUP_FREEZER), "no freezer");
	GOOD(warren_pause(sb, &err));
	GOOD(warren_exec_signal(ex, SIGKILL, &err));
	GOOD(warren_resume(sb, &err));
	EQ(sandbox_wait(ex).signal, SIGKILL);
	await_processes(sb, 1);
	END();
}

TEST(ten_thousand_orphans_are_reaped)
{
	struct warren_stats stats;
	struct said s;

	BEGIN(.pids = 500);
	/*
	 * Each subshell ends at once and leaves its child to init; the child also ends at
	 * once. A substitution lasts until the last of its hundred children has ended, so
	 * that on a busy machine no more than these are alive.
	 */
	s = sandbox_sh(sb,
		       "j=0; while [ $j -lt 100 ]; do : $(i=0; while [ $i -lt 100 ]; do"
		       " (true &); i=$((i + 1)); done); j=$((j + 1)); done; echo all");
	STREQ(s.out, "all\n");
	STREQ(s.err, "");
	await_processes(sb, 1);
	GOOD(warren_stats(sb, &stats, &err));
	EQ(stats.pids, 0);
	STREQ(sandbox_says(sb, "echo fine"), "fine");
	END();
}

/* ----------------------------------------------------------------- journal */

TEST(a_flood_of_output_does_not_increase_the_memory_of_init)
{
	struct warren_exec *ex;
	struct stat st;
	uint64_t rss;

	BEGIN(0);
	(void)sandbox_sh(sb, "true");
	rss = init_memory(sb, "VmRSS:");
	ex = sandbox_start(sb, &(struct warren_exec_spec){
				       .argv = SH("head -c 300000000 /dev/zero;"
						  " head -c 300000000 /dev/zero >&2"),
				       .out = WARREN_STDIO_JOURNAL,
				       .err = WARREN_STDIO_JOURNAL,
				       .journal_limit = MIB });
	EQ(sandbox_wait(ex).exit_code, 0);
	EQ(fstat(((struct initclient_exec *)ex->exec)->journal, &st), 0);
	OK((uint64_t)st.st_blocks * 512 <= MIB + 65536);
	OK(init_memory(sb, "VmRSS:") <= rss + 512);
	END();
}

/* ------------------------------------------------------------------ terminals */

static struct warren_exec *start_pty(struct warren_sandbox *sb, const char *script,
				     uint16_t rows, uint16_t cols)
{
	struct warren_exec *ex = sandbox_start(
		sb,
		&(struct warren_exec_spec){
			.argv = SH(script), .pty = true, .rows = rows, .cols = cols });

	EQ(warren_exec_fd(ex, 1), -1);
	EQ(warren_exec_fd(ex, 2), -1);
	OK(isatty(warren_exec_fd(ex, 0)));
	return ex;
}

TEST(a_terminal_has_a_size)
{
	struct warren_exec *ex;

	BEGIN(0);
	ex = start_pty(sb, "stty size; read x; stty size; tty", 0, 0);
	sandbox_expect(warren_exec_fd(ex, 0), "24 80\r\n");
	GOOD(warren_exec_resize(ex, 50, 132, &err));
	EQ(write(warren_exec_fd(ex, 0), "\n", 1), 1);
	sandbox_expect(warren_exec_fd(ex, 0), "\r\n50 132\r\n/dev/pts/0\r\n");
	EQ(sandbox_wait(ex).exit_code, 0);
	ex = warren_exec_free(ex);
	ex = start_pty(sb, "stty size", 7, 99);
	sandbox_expect(warren_exec_fd(ex, 0), "7 99\r\n");
	END();
}

TEST(a_terminal_reports_its_new_size)
{
	struct warren_exec *ex;

	BEGIN(0);
	ex = start_pty(
		sb,
		"trap 'stty size; exit 4' WINCH; echo up; while :; do sleep 0.05; done",
		0, 0);
	sandbox_expect(warren_exec_fd(ex, 0), "up\r\n");
	GOOD(warren_exec_resize(ex, 11, 22, &err));
	sandbox_expect(warren_exec_fd(ex, 0), "11 22\r\n");
	EQ(sandbox_wait(ex).exit_code, 4);
	END();
}

TEST(a_terminal_sends_signals_for_control_keys)
{
	struct warren_exec *ex;

	BEGIN(0);
	ex = start_pty(sb, "echo seen > /dev/tty; exec cat", 0, 0);
	sandbox_expect(warren_exec_fd(ex, 0), "seen\r\n");
	EQ(write(warren_exec_fd(ex, 0), "\x03", 1), 1); /* ^C */
	EQ(sandbox_wait(ex).signal, SIGINT);
	ex = warren_exec_free(ex);
	ex = start_pty(sb, "echo up; exec sleep 60", 0, 0);
	sandbox_expect(warren_exec_fd(ex, 0), "up\r\n");
	(void)close(warren_exec_take_fd(ex, 0)); /* the connection is cut */
	EQ(sandbox_wait(ex).signal, SIGHUP);
	END();
}

/* A background job is stopped when it reads from the terminal. */
TEST(a_terminal_has_job_control)
{
	struct warren_exec *ex;
	char *out = NULL;
	size_t n = 0;

	BEGIN(0);
	SKIP_UNLESS(sandbox_sh(sb, "command -v bash").res.exit_code == 0,
		    "no bash in the image");
	ex = sandbox_start(sb,
			   &(struct warren_exec_spec){
				   .argv = ARGV("bash", "--norc", "-c",
						"set -m; cat & for i in {1..500}; do"
						" read -r _ _ s _ < /proc/$!/stat;"
						" [ $s = T ] && break; sleep 0.02; done;"
						" echo; echo \"state: $s\"; kill -9 $!"),
				   .pty = true });
	while (sandbox_read(warren_exec_fd(ex, 0), &out,
			    &n)) /* EIO is the end of a terminal */
		;
	OK(out && strstr(out, "state: T\r\n"));
	END();
}

TEST(an_exec_without_a_terminal_cannot_be_resized)
{
	struct warren_exec *ex;

	BEGIN(0);
	ex = sandbox_start(sb, &(struct warren_exec_spec){ .argv = ARGV("cat"),
							   .in = WARREN_STDIO_PIPE });
	OK(warren_exec_resize(ex, 10, 10, &err) < 0);
	EQ(sandbox_sh(sb, "tty -s || exec 3<>/dev/tty").res.exit_code != 0, true);
	END();
}

TEST(many_terminals_can_be_used_at_the_same_time)
{
	struct warren_exec *ex[30];
	size_t before;

	BEGIN(0);
	before = sandbox_count_fds();
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 30; i++)
			ex[i] = start_pty(sb, "echo up; exec cat", 0, 0);
		for (int i = 0; i < 30; i++) {
			sandbox_expect(warren_exec_fd(ex[i], 0), "up\r\n");
			ex[i] = warren_exec_free(ex[i]);
		}
		EQ(sandbox_count_fds(), before);
		await_processes(sb, 1); /* the terminal was hung up */
	}
	STREQ(sandbox_says(sb, "ls /dev/pts"), "ptmx");
	END();
}

/* ---------------------------------------------------------- limits and threads */

TEST(invalid_limits_are_refused)
{
	static const struct warren_spec bad[] = {
		{ .memory = 1 },
		{ .memory = 4096 },
		{ .disk = 1 },
		{ .nofile = UINT64_MAX },
		{ .cpu_millis = UINT64_MAX },
		{ .cpu_millis = UINT64_MAX / 1000 },
		{ .pids = UINT64_MAX },
	};
	struct warren_sandbox *none = NULL;
	size_t before;

	BEGIN(0);
	before = sandbox_count_fds();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		int r = warren_create(w, &bad[i], &none, &err);

		if (r >= 0 || none || !err.msg[0])
			TAP_FAIL("limits %zu: %d", i, r);
	}
	EQ(sandbox_count_fds(), before);
	END();
}

TEST(the_open_files_limit_is_enforced)
{
	struct said s;

	BEGIN(.nofile = 100);
	STREQ(sandbox_says(sb, "ulimit -n; ulimit -Hn"), "100\n100");
	s = sandbox_sh(
		sb, "i=3; while [ $i -lt 200 ]; do eval \"exec $i</dev/null\" || exit 9;"
		    " i=$((i + 1)); done");
	OK(s.res.exit_code != 0);
	STREQ(enforced(sb, "nofile"), "100 for each process");
	END();
}

TEST(the_processor_limit_is_enforced)
{
	uint64_t wall, cpu;
	struct said s;

	BEGIN(.cpu_millis = 100);
	SKIP_UNLESS(has_controller(w, CGROUP_CPU), "no cpu controller");
	s = sandbox_sh(sb, "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done");
	wall = s.res.wall_usec;
	cpu = s.res.user_usec + s.res.system_usec;
	OK(cpu * 3 < wall); /* a tenth, with a large tolerance */
	EQ(strncmp(enforced(sb, "cpus"), "0.100 by cgroup", 15), 0);
	END();
}

/* ------------------------------------------------------------- descriptors */

/* The size of a process's descriptor table, which never shrinks. */
static uint64_t table_size(pid_t pid)
{
	char path[64], text[8192], *line;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	OK(fd_read_file_at(AT_FDCWD, path, text, sizeof(text)) > 0);
	line = strstr(text, "\nFDSize:");
	OK(line);
	return line ? strtoull(line + strlen("\nFDSize:"), NULL, 10) : 0;
}

static void allow_descriptors(rlim_t n)
{
	struct rlimit lim;

	EQ(getrlimit(RLIMIT_NOFILE, &lim), 0);
	SKIP_UNLESS(lim.rlim_max >= n, "too few descriptors are allowed");
	lim.rlim_cur = lim.rlim_max;
	EQ(setrlimit(RLIMIT_NOFILE, &lim), 0);
}

/*
 * Descriptors of live sandboxes are neither copied to a new sandbox nor kept by its init.
 */
TEST(a_new_child_gets_no_descriptors_of_other_sandboxes)
{
	int high;

	allow_descriptors(4 * NATIVE_FDS_KEPT);
	SKIP_UNLESS(!SANITIZED, "a child with a copy of our memory has one of all");
	high = fcntl(0, F_DUPFD_CLOEXEC, 3 * NATIVE_FDS_KEPT);
	OK(high >= 0);
	BEGIN(.durable = false);
	OK(((const struct native_sandbox *)sb->sandbox)->control >= NATIVE_FDS_KEPT);
	OK(((const struct native_sandbox *)sb->sandbox)->pidfd >= NATIVE_FDS_KEPT);
	OK(table_size(getpid()) > 3 * NATIVE_FDS_KEPT);
	OK(table_size(init_of(sb)) <= NATIVE_FDS_KEPT);
	STREQ(sandbox_says(sb, "echo here"), "here");
	END();
	(void)close(high);
}

/* A program that has many descriptors leaves no low numbers. */
TEST(a_program_with_many_open_descriptors_can_create_sandboxes)
{
	int last = 0, before = dup(0);

	allow_descriptors(4 * NATIVE_FDS_KEPT);
	while (last >= 0 && last < NATIVE_FDS_KEPT + 10)
		last = fcntl(0, F_DUPFD_CLOEXEC, before);
	OK(last >= 0);
	BEGIN(.network = WARREN_NETWORK_NONE);
	STREQ(sandbox_says(sb, "ls /proc/self/fd | wc -l; echo here"), "4\nhere");
	END();
	EQ(close_range((unsigned)before, (unsigned)last, 0), 0);
}

TEST_MAIN()
