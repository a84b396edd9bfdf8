/* SPDX-License-Identifier: Apache-2.0 */
/* test-shellproto-stop.c - a command is stopped, and the shell keeps its state */
#include "lib/alone.h"
#include "lib/shell.h"

static const char *const shells[] = { "bash", "dash", "busybox" };

/*
 * Continue in a pid namespace with its own /proc, if permitted: a stop from inside reads
 * all processes, and a shared machine has many.
 */
static void be_alone(void)
{
	pid_t pid = geteuid() == 0 ? alone_fork() : -1;
	int status = 0;

	if (pid > 0) {
		EQ(waitpid(pid, &status, 0), pid);
		alone_end(status);
	}
}

/*
 * The command ends, the following commands do not run, and the state is kept. With the
 * control transport, signals are sent as init sends them; with the framed transport, a
 * script inside sends them.
 */
static void check_stop(const char *program, int transport, const char *text,
		       enum shellproto_step most)
{
	struct shell sh;
	enum shellproto_step last;

	shell_open(&sh, (enum shellproto_transport)transport, program);
	shell_run(&sh, "kept=yes; sleep 40 & job=$!; cd /usr");
	(void)usleep(20000); /* start times have a resolution of 10 ms */
	shell_feed(&sh, text, strlen(text));
	OK(!shell_patience(&sh, 60));
	last = shell_stop(&sh, transport == SHELLPROTO_FRAMED);
	if (last > most || sh.outcome == SHELLPROTO_ENDED ||
	    strstr(sh.text[0].data, "not"))
		TAP_FAIL("%s, transport %d, '%s': step %d, %s, code %d, out '%s'",
			 program, transport, text, (int)last,
			 session_outcome_names[sh.outcome], sh.code, sh.text[0].data);
	if (last == SHELLPROTO_STEP_INTERRUPT)
		EQ(sh.code, 130);
	shell_run(&sh, "kill -0 $job && echo $kept; kill -9 $job; trap - INT");
	OK(strncmp(sh.text[0].data, "yes\n", 4) == 0);
	STREQ(sh.cwd, "/usr");
	shell_run(&sh, "echo a; echo b");
	STREQ(sh.text[0].data, "a\nb\n");
	shell_close(&sh);
}

static void check_stops(const char *program)
{
	static const char *const texts[] = {
		"sleep 30; echo not",
		"while :; do :; done\necho not",
		"while :; do sleep 0.01; done; echo not",
		"f() { while :; do :; done; echo not; }; f; echo not",
		"f() { while :; do :; done; }; while :; do f; echo not; done; echo not",
		"g() { f; echo not; }; f() { sleep 30; echo not; }; g && echo not",
		"sleep 30 | cat; echo not",
		"x=$(sleep 30; echo not); echo not $x",
		"sleep 30 & wait; echo not",
		"if sleep 30; then echo not; else echo not; fi; echo not",
		"eval 'eval \"sleep 30; echo not\"; echo not'; echo not",
	};

	be_alone();
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		for (int t = SHELLPROTO_CONTROL; t <= SHELLPROTO_FRAMED; t++)
			check_stop(program, t, texts[i], SHELLPROTO_STEP_INTERRUPT);
}

TEST(bash_is_interrupted)
{
	check_stops("bash");
}

TEST(dash_is_interrupted)
{
	check_stops("dash");
}

TEST(busybox_is_interrupted)
{
	check_stops("busybox");
}

TEST(commands_that_ignore_interrupts_are_killed)
{
	be_alone();
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
		check_stop(shells[i], SHELLPROTO_CONTROL,
			   "python3 -c 'import signal, time\n"
			   "signal.signal(signal.SIGINT, lambda *a: None)\n"
			   "while True: time.sleep(9)'",
			   SHELLPROTO_STEP_KILL);
		check_stop(shells[i], SHELLPROTO_FRAMED,
			   "sh -c 'trap \"\" INT; sleep 30 & wait; sleep 30'",
			   SHELLPROTO_STEP_KILL_ALL);
	}
}

TEST(a_shell_that_cannot_be_stopped_is_ended)
{
	struct shell sh;

	shell_open(&sh, SHELLPROTO_CONTROL, "dash");
	shell_feed(&sh, "trap '' INT; while :; do :; done", 32);
	OK(!shell_patience(&sh, 100));
	EQ(shell_stop(&sh, false), SHELLPROTO_STEP_END);
	EQ(sh.outcome, SHELLPROTO_ENDED);
	EQ(sh.code, 137);
	shell_close(&sh);
}

/* The key of the record below. */
static void known_bits(void *arg UNUSED, uint64_t serial UNUSED,
		       uint8_t ret[SHELLPROTO_MARKER_SIZE])
{
	(void)memset(ret, 0, SHELLPROTO_MARKER_SIZE);
}

TEST(only_processes_of_the_command_are_signalled)
{
	enum {
		SHELL = 10,
		OLD,
		OLD_CHILD,
		JOB,
		JOB_CHILD,
		FORE,
		FORE_CHILD,
		BACK,
		ORPHAN
	};
	static const struct shellproto_process procs[] = {
		{ SHELL, 1, 50, false },          { OLD, SHELL, 60, false },
		{ OLD_CHILD, OLD, 120, false },   { JOB, SHELL, 100, true },
		{ JOB_CHILD, JOB, 120, false },   { FORE, SHELL, 100, false },
		{ FORE_CHILD, FORE, 110, false }, { BACK, SHELL, 110, true },
		{ ORPHAN, 1, 110, false },
	};
	static const struct {
		int signal, n, pids[8];
	} want[] = {
		[SHELLPROTO_STEP_INTERRUPT] = { SIGINT,
						5,
						{ SHELL, FORE, FORE_CHILD, BACK,
						  ORPHAN } },
		[SHELLPROTO_STEP_KILL] = { SIGKILL, 3, { FORE, FORE_CHILD, ORPHAN } },
		[SHELLPROTO_STEP_KILL_ALL] = { SIGKILL,
					       4,
					       { FORE, FORE_CHILD, BACK, ORPHAN } },
		[SHELLPROTO_STEP_END] = { SIGKILL, 1, { SHELL } },
	};
	static const char record[] =
		"0000000000 0  13 10 hB /"; /* with its NUL; job 13, shell 10 */
	struct shell sh = { .text = { BUF_INIT(99), BUF_INIT(99) } };
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct warren_error err;

	EQ(shellproto_new(SHELLPROTO_CONTROL, &shell_events, &sh, &sh.s, &err), 0);
	shellproto_markers(sh.s, known_bits);
	EQ(shellproto_start(sh.s, &out, &err), 0);
	EQ(shellproto_on_bytes(sh.s, SHELLPROTO_RESULTS, record, sizeof(record), &err),
	   0);
	EQ(shellproto_pid(sh.s), SHELL);
	for (int step = 0; step < SHELLPROTO_STEP_MAX; step++) {
		int pids[ARRAY_SIZE(procs)], sig;

		EQ(shellproto_victims(sh.s, (enum shellproto_step)step, 100, procs,
				      ARRAY_SIZE(procs), pids, &sig),
		   want[step].n);
		EQ(sig, want[step].signal);
		for (int i = 0; i < want[step].n; i++)
			EQ(pids[i], want[step].pids[i]);
	}
	sh.s = shellproto_free(sh.s);
}

TEST_MAIN()
