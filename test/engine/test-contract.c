/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-contract.c - requirements for every backend: execs, their streams and their ends
 */
#include <inttypes.h>
#include <sys/time.h>

#include "lib/contract.h"

#define MIB (1U << 20)

/* ------------------------------------------------------------------ results */

CONTRACT(the_exit_code_of_a_command_is_reported)
{
	static const int codes[] = { 0, 1, 2, 42, 124, 125, 126, 127, 128, 255 };

	BEGIN();
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		char script[32];
		struct said s;

		(void)snprintf(script, sizeof(script), "exit %d", codes[i]);
		s = sandbox_sh(sb, script);
		EQ(s.res.exit_code, codes[i]);
		EQ(s.res.signal, 0);
		EQ(s.res.timed_out, false);
		EQ(s.res.oom, false);
	}
	END();
}

CONTRACT(the_signal_that_ended_a_command_is_reported)
{
	static const int signals[] = { SIGHUP,  SIGINT,  SIGQUIT, SIGKILL,
				       SIGSEGV, SIGPIPE, SIGTERM };

	BEGIN();
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		char script[64];
		struct said s;

		(void)snprintf(script, sizeof(script),
			       "ulimit -c 0; kill -%d $$; sleep 1; exit 9", signals[i]);
		s = sandbox_sh(sb, script);
		EQ(s.res.exit_code, -1);
		EQ(s.res.signal, signals[i]);
		EQ(s.res.timed_out, false);
	}
	END();
}

CONTRACT(time_and_memory_of_an_exec_are_reported)
{
	struct said s;

	BEGIN();
	s = sandbox_sh(sb, "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done");
	EQ(s.res.exit_code, 0);
	OK(s.res.wall_usec > 0);
	if (!sandbox_enforces(sb, "exec_accounting")) {
		EQ(s.res.user_usec, WARREN_UNKNOWN);
		EQ(s.res.system_usec, WARREN_UNKNOWN);
		EQ(s.res.max_memory, WARREN_UNKNOWN);
		EQ(s.res.read_bytes, WARREN_UNKNOWN);
		EQ(s.res.written_bytes, WARREN_UNKNOWN);
		END();
		return;
	}
	OK(s.res.user_usec + s.res.system_usec > 0);
	OK(s.res.user_usec + s.res.system_usec <= 2 * s.res.wall_usec + 20000);
	OK(s.res.max_memory > 0 && s.res.max_memory < 64 * MIB);
	END();
}

/* Signals that the caller blocks or ignores do not affect the command. */
CONTRACT(a_command_starts_with_default_signal_dispositions)
{
	uint64_t blocked = 1, ignored = 1;
	sigset_t all;
	struct said s;

	BEGIN();
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGTERM, SIG_IGN);
	(void)sigfillset(&all);
	(void)sigdelset(&all, SIGALRM);
	EQ(sigprocmask(SIG_BLOCK, &all, NULL), 0);
	s = sandbox_sh(sb, "grep -E 'Sig(Blk|Ign)' /proc/self/status");
	SKIP_UNLESS(s.n_out > 0, "the kernel inside does not tell");
	EQ(sscanf(s.out, "SigBlk:\t%" SCNx64 "\nSigIgn:\t%" SCNx64 "\n", &blocked,
		  &ignored),
	   2);
	EQ(blocked, 0);
	/*
	 * posix_spawn(3) of glibc leaves two of its signals ignored, and make(1) uses it:
	 * a dockerd or sshd that was started by make passes this on to its children.
	 */
	if (sandbox_other)
		ignored &= ~(3ULL << 31);
	EQ(ignored, 0);
	END();
}

/* ------------------------------------------------------------------ streams */

CONTRACT(stdout_and_stderr_are_separate)
{
	struct said s;

	BEGIN();
	s = sandbox_sh(sb, "echo out; echo err >&2; printf out2");
	STREQ(s.out, "out\nout2");
	STREQ(s.err, "err\n");
	END();
}

CONTRACT(stdin_is_passed_on_to_its_end)
{
	struct warren_exec_spec spec = { .argv = ARGV("wc", "-c"),
					 .in = WARREN_STDIO_PIPE,
					 .out = WARREN_STDIO_PIPE };
	struct said s;

	BEGIN();
	s = sandbox_finish(sandbox_start(sb, &spec), "hello", 5);
	EQ(atoi(s.out), 5);
	s = sandbox_finish(sandbox_start(sb, &spec), "", 0);
	EQ(atoi(s.out), 0);
	END();
}

CONTRACT(stdin_is_empty_and_output_is_discarded_by_default)
{
	struct warren_exec *ex;

	BEGIN();
	ex = sandbox_start(sb, &(struct warren_exec_spec){
				       .argv = SH("read x && exit 1; echo x || exit 2;"
						  " echo x >&2 || exit 3") });
	for (int i = -1; i < 5; i++) {
		EQ(warren_exec_fd(ex, i), -1);
		EQ(warren_exec_take_fd(ex, i), -1);
	}
	EQ(warren_exec_output_fd(ex), -1);
	EQ(sandbox_wait(ex).exit_code, 0);
	ex = warren_exec_free(ex);
	END();
}

CONTRACT(ten_megabytes_pass_through_stdin_and_stdout)
{
	struct warren_exec_spec spec = { .argv = ARGV("cat"),
					 .in = WARREN_STDIO_PIPE,
					 .out = WARREN_STDIO_PIPE,
					 .err = WARREN_STDIO_PIPE };
	static char data[10 * MIB];
	struct said s;

	BEGIN();
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 2654435761U >> 13);
	s = sandbox_finish(sandbox_start(sb, &spec), data, sizeof(data));
	EQ(s.n_out, sizeof(data));
	EQ(memcmp(s.out, data, sizeof(data)), 0);
	EQ(s.n_err, 0);
	EQ(s.res.exit_code, 0);
	END();
}

CONTRACT(a_command_that_does_not_read_stdin_can_end)
{
	struct warren_exec_spec spec = { .argv = ARGV("true"), .in = WARREN_STDIO_PIPE };
	static char data[MIB];

	BEGIN();
	EQ(sandbox_finish(sandbox_start(sb, &spec), data, sizeof(data)).res.exit_code, 0);
	END();
}

CONTRACT(a_command_has_exactly_three_descriptors)
{
	int extra;

	BEGIN();
	extra = dup(2); /* a descriptor that is not close-on-exec */
	OK(extra > 2);
	/* There are three descriptors, and the directory that the shell reads. */
	STREQ(sandbox_says(sb, "cd /proc/self/fd && echo *"), "0 1 2 3");
	END();
}

/* -------------------------------------------------------------- environment */

CONTRACT(a_command_gets_the_given_environment)
{
	static const char *const shared[] = { "A=1", "B=2", "EMPTY=", "EQ=a=b", NULL };
	static const char *const own[] = { "B=3", "C=4", "SPACE=x y\nz", NULL };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = sandbox_engine(how);
	struct warren_sandbox *sb =
		sandbox_make(w, &(struct warren_spec){ .env = shared });
	struct said s;

	EQ(setenv("LEAK", "from the caller", 1), 0);
	s = sandbox_run_spec(
		sb,
		(struct warren_exec_spec){
			.argv = SH("echo \"$A,$B,$C,$EMPTY,$EQ,$SPACE,${LEAK-none}\""),
			.env = own });
	STREQ(s.out, "1,3,4,,a=b,x y\nz,none\n");
	/* It applies to this exec only: the next one has the sandbox's environment. */
	STREQ(sandbox_says(sb, "echo \"$A,$B,${C-none}\""), "1,2,none");
	/*
	 * Each name occurs only once, in any order, because programs differ in which of
	 * two they use.
	 */
	s = sandbox_run_spec(
		sb, (struct warren_exec_spec){ .argv = ARGV("env"), .env = own });
	OK(strstr(s.out, "B=3\n") && !strstr(s.out, "B=2\n"));
	STREQ(sandbox_says(sb, "env | cut -d= -f1 | sort | uniq -d"), "");
	OK(strlen(sandbox_says(sb, "echo $PATH")) > 0);
	FAILS(EINVAL, warren_exec(sb,
				  &(struct warren_exec_spec){ .argv = ARGV("true"),
							      .env = ARGV("NOVALUE") },
				  &(struct warren_exec *){ NULL }, &err));
	FAILS(EINVAL, warren_exec(sb,
				  &(struct warren_exec_spec){ .argv = ARGV("true"),
							      .env = ARGV("=x") },
				  &(struct warren_exec *){ NULL }, &err));
	END();
}

CONTRACT(the_program_is_searched_in_the_path_of_the_exec)
{
	static const char tool[] = "#!/bin/sh\necho found\n";
	char path[128];
	struct said s;

	BEGIN();
	GOOD(warren_file_write(sb, place(sb, "tool"), tool, sizeof(tool) - 1, 0755,
			       &err));
	(void)snprintf(path, sizeof(path), "PATH=/nowhere:%s:/usr/bin:/bin", sandbox_dir);
	s = sandbox_run_spec(sb,
			     (struct warren_exec_spec){
				     .argv = ARGV(strrchr(place(sb, "tool"), '/') + 1),
				     .env = ARGV(path) });
	STREQ(s.out, "found\n");
	FAILS(ENOENT,
	      warren_exec(sb,
			  &(struct warren_exec_spec){ .argv = ARGV("true"),
						      .env = ARGV("PATH=/nowhere") },
			  &(struct warren_exec *){ NULL }, &err));
	END();
}

CONTRACT(a_command_starts_in_the_given_directory)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = sandbox_engine(how);
	struct warren_sandbox *sb =
		sandbox_make(w, &(struct warren_spec){ .workdir = "/usr/bin" });
	struct warren_exec *ex = NULL;
	struct said s;

	STREQ(sandbox_says(sb, "pwd"), "/usr/bin");
	s = sandbox_run_spec(
		sb, (struct warren_exec_spec){ .argv = ARGV("pwd"), .cwd = "/usr" });
	STREQ(s.out, "/usr\n");
	FAILS(EINVAL, warren_exec(sb,
				  &(struct warren_exec_spec){ .argv = ARGV("true"),
							      .cwd = "usr" },
				  &ex, &err));
	FAILS(EINVAL, warren_exec(sb,
				  &(struct warren_exec_spec){ .argv = ARGV("true"),
							      .cwd = "/usr/.." },
				  &ex, &err));
	/* The error differs from that for a missing command, and names the directory. */
	EQ(warren_exec(
		   sb,
		   &(struct warren_exec_spec){ .argv = ARGV("true"), .cwd = "/no/where" },
		   &ex, &err),
	   -ENOTDIR);
	OK(strstr(err.msg, "/no/where"));
	EQ(warren_exec(sb,
		       &(struct warren_exec_spec){ .argv = ARGV("true"),
						   .cwd = "/etc/passwd" },
		       &ex, &err),
	   -ENOTDIR);
	OK(!ex);
	END();
}

/* ---------------------------------------------------- commands that cannot be started */

CONTRACT(a_file_that_cannot_be_executed_is_reported)
{
	struct warren_exec *ex = NULL;
	char *data, *junk;
	size_t before;

	BEGIN();
	data = place(sb, "data");
	junk = place(sb, "junk");
	GOOD(warren_file_write(sb, data, "#!/bin/sh\n", 10, 0644, &err));
	GOOD(warren_file_write(sb, junk, "no program", 10, 0755, &err));
	before = sandbox_count_fds();
#define REFUSED(code, ...)                                                              \
	FAILS(code, warren_exec(sb,                                                     \
				&(struct warren_exec_spec){ .argv = ARGV(__VA_ARGS__),  \
							    .in = WARREN_STDIO_PIPE,    \
							    .out = WARREN_STDIO_PIPE,   \
							    .err = WARREN_STDIO_PIPE }, \
				&ex, &err))
	REFUSED(ENOENT, "no-such-command");
	REFUSED(ENOENT, "/no/such/command", "arg");
	REFUSED(EACCES, data);
	REFUSED(EACCES, "/tmp");
	REFUSED(ENOEXEC, junk);
	REFUSED(EINVAL, "");
	FAILS(EINVAL,
	      warren_exec(sb, &(struct warren_exec_spec){ .argv = NULL }, &ex, &err));
	OK(!ex);
	EQ(sandbox_count_fds(), before);
	EQ(warren_exec(sb, &(struct warren_exec_spec){ .argv = ARGV("no-such-command") },
		       &ex, &err),
	   -ENOENT);
	OK(strstr(err.msg, "no-such-command"));
	END();
}

CONTRACT(invalid_streams_are_refused)
{
	static const struct warren_exec_spec bad[] = {
		{ .in = WARREN_STDIO_JOURNAL },
		{ .in = (enum warren_stdio)7 },
		{ .out = (enum warren_stdio)7 },
		{ .err = (enum warren_stdio)7 },
		{ .pty = true, .out = WARREN_STDIO_PIPE },
		{ .user = "" },
		{ .user = "a b" },
		{ .user = "1:2:3" },
	};

	BEGIN();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct warren_exec_spec spec = bad[i];
		struct warren_exec *ex = NULL;

		spec.argv = ARGV("true");
		FAILS(EINVAL, warren_exec(sb, &spec, &ex, &err));
		OK(!ex);
	}
	END();
}

/* ----------------------------------------------------- large arguments and many execs */

CONTRACT(two_hundred_kilobytes_of_arguments_are_accepted)
{
	static char word[20001];
	const char *argv[13] = { "sh", "-c", "for a; do printf %s \"$a\"; done | wc -c" };
	const char *env[11] = { NULL };
	struct said s;

	BEGIN();
	(void)memset(word, 'w', sizeof(word) - 1);
	argv[3] = "sh";
	for (int i = 4; i < 12; i++)
		argv[i] = word;
	s = sandbox_run(sb, argv);
	EQ(atoi(s.out), 8 * 20000);
	for (int i = 0; i < 10; i++) {
		char *var = NULL;

		OK(asprintf(&var, "V%d=%s", i, word) > 0);
		env[i] = var;
	}
	s = sandbox_run_spec(
		sb,
		(struct warren_exec_spec){
			.argv = SH("printf %s $V0$V1$V2$V3$V4$V5$V6$V7$V8$V9 | wc -c"),
			.env = env });
	EQ(atoi(s.out), 10 * 20000);
	END();
}

/* More arguments than the kernel accepts cause an error, and the sandbox continues. */
CONTRACT(too_many_arguments_are_refused)
{
	static char word[1000001];
	const char *argv[11] = { "true" };
	struct warren_exec *ex = NULL;

	BEGIN();
	(void)memset(word, 'w', sizeof(word) - 1);
	for (int i = 1; i < 10; i++)
		argv[i] = word;
	FAILS(E2BIG,
	      warren_exec(sb, &(struct warren_exec_spec){ .argv = argv }, &ex, &err));
	argv[2] = NULL;
	FAILS(E2BIG,
	      warren_exec(sb, &(struct warren_exec_spec){ .argv = argv }, &ex, &err));
	STREQ(sandbox_says(sb, "echo fine"), "fine");
	END();
}

CONTRACT(a_thousand_execs_leave_no_open_descriptor)
{
	size_t before;

	BEGIN();
	EQ(sandbox_run(sb, ARGV("true")).res.exit_code, 0);
	before = sandbox_count_fds();
	for (int i = 0; i < some(1000, 20); i++) {
		struct warren_exec_spec spec = { .argv = ARGV("true"),
						 .in = WARREN_STDIO_PIPE,
						 .out = WARREN_STDIO_PIPE };
		struct warren_exec *ex = sandbox_start(sb, &spec);

		if (i % 2)
			EQ(sandbox_wait(ex).exit_code, 0);
		ex = warren_exec_free(ex);
	}
	/*
	 * Execs without a handle keep their descriptors until they end, and the next exec
	 * notices that.
	 */
	for (int i = 0; i < 1000 && sandbox_count_fds() != before; i++)
		EQ(sandbox_run(sb, ARGV("sleep", "0.01")).res.exit_code, 0);
	EQ(sandbox_count_fds(), before);
	END();
}

/*
 * Processes that an exec leaves running do not take resources from later execs for long.
 */
CONTRACT(seven_hundred_execs_can_leave_processes_running)
{
	BEGIN();
	for (int i = 0; i < some(700, 15); i++) {
		struct warren_exec_spec spec = { .argv = SH("sleep 0.1 &") };
		struct warren_exec *ex = sandbox_start(sb, &spec);

		EQ(sandbox_wait(ex).exit_code, 0);
		ex = warren_exec_free(ex);
	}
	END();
}

/* ----------------------------------------------------------- waiting */

CONTRACT(wait_returns_at_once_or_after_its_timeout)
{
	struct warren_exec_spec spec = { .argv = ARGV("cat"), .in = WARREN_STDIO_PIPE };
	struct warren_result res = { .exit_code = 77 };
	struct warren_exec *ex;

	BEGIN();
	ex = sandbox_start(sb, &spec);
	EQ(warren_exec_wait(ex, 0, &res, &err), 0);
	EQ(warren_exec_wait(ex, 20, &res, &err), 0);
	EQ(res.exit_code, 77); /* untouched */
	(void)close(warren_exec_take_fd(ex, 0));
	EQ(warren_exec_wait(ex, SANDBOX_PATIENCE * 1000, &res, &err), 1);
	EQ(res.exit_code, 0);
	for (int i = -1; i < 2; i++) { /* it can be repeated any number of times */
		res.exit_code = 77;
		EQ(warren_exec_wait(ex, i, &res, &err), 1);
		EQ(res.exit_code, 0);
	}
	FAILS(ESRCH, warren_exec_signal(ex, SIGTERM, &err));
	ex = warren_exec_free(ex);
	END();
}

/* The end of another exec, or a signal, does not shorten the wait. */
CONTRACT(wait_is_not_shortened_by_other_execs)
{
	struct warren_result res;
	struct warren_exec *slow, *fast;

	BEGIN();
	slow = sandbox_start(sb,
			     &(struct warren_exec_spec){ .argv = ARGV("sleep", "0.6") });
	fast = sandbox_start(sb,
			     &(struct warren_exec_spec){ .argv = ARGV("sleep", "0.1") });
	EQ(warren_exec_wait(slow, SANDBOX_PATIENCE * 1000, &res, &err), 1);
	EQ(sandbox_wait(fast).exit_code, 0);
	END();
}

static void on_signal(int sig UNUSED)
{
}

CONTRACT(wait_is_not_shortened_by_a_signal)
{
	struct itimerval often = { { 0, 50000 }, { 0, 50000 } };
	struct sigaction sa = { .sa_handler = on_signal }; /* no SA_RESTART */
	struct warren_result res;
	struct warren_exec *ex;

	BEGIN();
	ex = sandbox_start(sb,
			   &(struct warren_exec_spec){ .argv = ARGV("sleep", "0.4") });
	EQ(sigaction(SIGVTALRM, &sa, NULL), 0);
	EQ(sigaction(SIGPROF, &sa, NULL), 0);
	EQ(sigaction(SIGALRM, &sa, NULL), 0);
	EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
	EQ(warren_exec_wait(ex, -1, &res, &err), 1);
	ex = warren_exec_free(ex);
	ex = sandbox_start(sb,
			   &(struct warren_exec_spec){ .argv = ARGV("sleep", "0.4") });
	EQ(warren_exec_wait(ex, SANDBOX_PATIENCE * 1000, &res, &err), 1);
	EQ(setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL), 0);
	ex = warren_exec_free(ex);
	END();
}

CONTRACT(an_unlimited_wait_does_not_overflow)
{
	static const int64_t long_times[] = { INT64_MAX, INT64_MAX / 1000000 + 1,
					      1LL << 40, INT32_MAX };

	BEGIN();
	for (size_t i = 0; i < ARRAY_SIZE(long_times); i++) {
		struct warren_exec *ex;
		struct warren_result res;

		ex = sandbox_start(
			sb, &(struct warren_exec_spec){ .argv = ARGV("sleep", "0.1") });
		EQ(warren_exec_wait(ex, long_times[i], &res, &err), 1);
		EQ(res.exit_code, 0);
		ex = warren_exec_free(ex);
	}
	END();
}

/*
 * The descriptor must become readable for each of several execs, whichever was waited for
 * before.
 */
CONTRACT(wait_fd_becomes_readable)
{
	struct warren_exec *ex[3];

	BEGIN();
	for (int i = 0; i < 3; i++)
		ex[i] = sandbox_start(
			sb, &(struct warren_exec_spec){ .argv = ARGV("sleep", "0.1") });
	(void)usleep(
		300000); /* so that all three have ended before the first is waited for */
	for (int i = 0; i < 3; i++) {
		struct pollfd p = { .fd = warren_exec_wait_fd(ex[i]), .events = POLLIN };
		struct warren_result res;
		int r = 0;

		OK(p.fd >= 0);
		/*
		 * The descriptor may be readable because of another exec, if not all have
		 * ended yet.
		 */
		for (int tries = 0; r == 0 && tries < 10; tries++) {
			EQ(poll(&p, 1, 10000), 1);
			r = warren_exec_wait(ex[i], 0, &res, &err);
		}
		EQ(r, 1);
		EQ(res.exit_code, 0);
	}
	END();
}

CONTRACT(several_execs_run_at_the_same_time)
{
	struct warren_exec *ex[20];

	BEGIN();
	for (int i = 0; i < 20; i++) {
		char script[32];

		(void)snprintf(script, sizeof(script), "cat; exit %d", i);
		ex[i] = sandbox_start(
			sb, &(struct warren_exec_spec){ .argv = SH(script),
							.in = WARREN_STDIO_PIPE,
							.out = WARREN_STDIO_PIPE });
	}
	for (int i = 19; i >= 0;
	     i--) { /* each is fed separately, and none gets the input of another */
		char word[16];
		struct said s;

		(void)snprintf(word, sizeof(word), "word %d", i);
		s = sandbox_finish(ex[i], word, strlen(word));
		STREQ(s.out, word);
		EQ(s.res.exit_code, i);
	}
	END();
}

/* --------------------------------------------------------------- timeouts and signals */

/* Is the process whose number is in @path still running? It runs inside. */
static bool runs(struct warren_sandbox *sb, const char *path)
{
	struct said s = sandbox_run(
		sb,
		ARGV("sh", "-c",
		     "read -r pid < \"$1\" && grep -q '^State:.[^ZX]' /proc/$pid/status",
		     "sh", path));

	return s.res.exit_code == 0;
}

static void await_end(struct warren_sandbox *sb, const char *path)
{
	for (int i = 0; i < SANDBOX_TRIES; i++) {
		if (!runs(sb, path))
			return;
		sandbox_nap();
	}
	TAP_FAIL("it still runs");
}

/* Start a tree: a shell, a child and a grandchild, whose number is in @path. */
static struct warren_exec *start_tree(struct warren_sandbox *sb, const char *path,
				      uint64_t timeout)
{
	char script[256];
	struct warren_exec *ex;

	(void)snprintf(script, sizeof(script),
		       "trap '' TERM;"
		       " (trap '' TERM; sleep 300 & echo $! > %s; echo up; wait) & wait",
		       path);
	ex = sandbox_start(sb, &(struct warren_exec_spec){ .argv = SH(script),
							   .out = WARREN_STDIO_PIPE,
							   .timeout_ms = timeout });
	return ex;
}

/* The same with a timeout that is long enough for all of it to start. */
static struct warren_exec *start_doomed(struct warren_sandbox *sb, const char *path)
{
	for (uint64_t timeout = 500; timeout < SANDBOX_PATIENCE * 1000; timeout *= 2) {
		struct warren_exec *ex = start_tree(sb, path, timeout);
		char said[4];
		size_t n = 0;
		ssize_t r;

		do {
			r = read(warren_exec_fd(ex, 1), said + n, 3 - n);
			n += r > 0 ? (size_t)r : 0;
		} while ((r > 0 && n < 3) || (r < 0 && errno == EINTR));
		if (n == 3)
			return ex;
		EQ(sandbox_wait(ex).timed_out, true);
		ex = warren_exec_free(ex);
	}
	TAP_FAIL("it does not start in half a minute");
}

CONTRACT(a_timeout_kills_the_tree)
{
	char *pid;
	struct warren_result res;
	struct warren_exec *ex;

	BEGIN();
	pid = place(sb, "pid");
	ex = start_tree(sb, pid, 0); /* the control: without a timeout, it continues */
	sandbox_expect(warren_exec_fd(ex, 1), "up\n");
	EQ(warren_exec_wait(ex, 500, &res, &err), 0);
	OK(runs(sb, pid));
	EQ(warren_exec_signal(ex, SIGKILL, &err), 0);
	ex = warren_exec_free(ex);
	await_end(sb, pid);

	ex = start_doomed(sb, pid);
	res = sandbox_wait(ex);
	EQ(res.timed_out, true);
	EQ(res.signal, SIGKILL);
	EQ(res.exit_code, -1);
	EQ(res.oom, false);
	ex = warren_exec_free(ex);
	await_end(sb, pid);
	END();
}

CONTRACT(a_timeout_that_is_not_reached_has_no_effect)
{
	static const uint64_t long_times[] = { 60000,
					       INT32_MAX,
					       1ULL << 40,
					       INT64_MAX,
					       UINT64_MAX,
					       UINT64_MAX / 1000000,
					       UINT64_MAX / 1000000 + 1 };

	BEGIN();
	for (size_t i = 0; i < ARRAY_SIZE(long_times); i++) {
		struct said s = sandbox_run_spec(
			sb, (struct warren_exec_spec){ .argv = SH("sleep 0.05; exit 3"),
						       .timeout_ms = long_times[i] });

		EQ(s.res.timed_out, false);
		EQ(s.res.exit_code, 3);
	}
	END();
}

CONTRACT(a_signal_goes_to_the_first_process)
{
	struct warren_exec *ex;
	struct said s;

	BEGIN();
	ex = sandbox_start(
		sb,
		&(struct warren_exec_spec){
			.argv = SH("exec 3<&0;"
				   " (trap 'echo child' TERM; read x <&3; echo done) &"
				   " trap 'echo first; wait; exit 5' TERM;"
				   " echo up; while :; do sleep 0.05; done"),
			.in = WARREN_STDIO_PIPE,
			.out = WARREN_STDIO_PIPE });
	sandbox_expect(warren_exec_fd(ex, 1), "up\n");
	EQ(warren_exec_signal(ex, SIGTERM, &err), 0);
	sandbox_expect(warren_exec_fd(ex, 1), "first\n"); /* but not "child" */
	s = sandbox_finish(ex, "\n", 1);
	STREQ(s.out, "done\n");
	EQ(s.res.exit_code, 5);
	END();
}

CONTRACT(sigterm_ends_the_command_and_sigkill_ends_all_processes)
{
	char *pid;
	struct warren_exec *ex;
	struct warren_result res;

	BEGIN();
	ex = sandbox_start(sb,
			   &(struct warren_exec_spec){ .argv = ARGV("sleep", "300") });
	FAILS(EINVAL, warren_exec_signal(ex, 0, &err));
	FAILS(EINVAL, warren_exec_signal(ex, -9, &err));
	FAILS(EINVAL, warren_exec_signal(ex, 65, &err));
	EQ(warren_exec_signal(ex, SIGTERM, &err), 0);
	res = sandbox_wait(ex);
	EQ(res.signal, SIGTERM);
	EQ(res.timed_out, false);
	FAILS(ESRCH, warren_exec_signal(ex, SIGKILL, &err));
	ex = warren_exec_free(ex);

	pid = place(sb, "pid");
	ex = start_tree(sb, pid, 0);
	sandbox_expect(warren_exec_fd(ex, 1), "up\n");
	EQ(warren_exec_signal(ex, SIGTERM, &err), 0); /* ignored */
	EQ(warren_exec_wait(ex, 100, &res, &err), 0);
	EQ(warren_exec_signal(ex, SIGKILL, &err), 0);
	res = sandbox_wait(ex);
	EQ(res.signal, SIGKILL);
	EQ(res.timed_out, false);
	ex = warren_exec_free(ex);
	await_end(sb, pid);
	END();
}

CONTRACT(an_exec_continues_after_its_handle_is_freed)
{
	struct warren_exec_spec spec = { .argv = SH("read x; echo $x"),
					 .in = WARREN_STDIO_PIPE,
					 .out = WARREN_STDIO_PIPE };
	struct warren_exec *ex;
	int in, out;

	BEGIN();
	ex = sandbox_start(sb, &spec);
	in = warren_exec_take_fd(ex, 0);
	out = warren_exec_take_fd(ex, 1);
	EQ(warren_exec_fd(ex, 0), -1);
	ex = warren_exec_free(ex);
	OK(!ex);
	ex = warren_exec_free(ex); /* NULL is allowed */
	EQ(sandbox_run(sb, ARGV("true")).res.exit_code, 0);
	EQ(write(in, "alive\n", 6), 6);
	sandbox_expect(out, "alive\n");
	END();
}

TEST_MAIN()
