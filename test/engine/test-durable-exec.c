/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-durable-exec.c - execs of durable sandboxes: no output, exit code or input is
 * lost, whichever process is killed
 */
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <termios.h>

#include "lib/durable-one.h"

static uint32_t
	*number; /* the exec that the killed processes started; shared with them */

static void begin(void)
{
	world_enter(SECONDS);
	number = mmap(NULL, sizeof(*number), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	OK(number != MAP_FAILED);
}

/* Open the next engine, with the sandbox that the killed one left. */
static void come_back(void)
{
	char id[ID_LEN + 1];

	w = engine();
	EQ(count_durable(w, id), 1);
	sb = adopt(w, id);
}

static struct warren_exec *attach(void)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_exec *ex = NULL;
	int fd = journal_file("journal");

	GOOD(warren_exec_attach(sb, *number, fd, &ex, &err));
	EQ(warren_exec_number(ex), *number);
	(void)close(fd);
	return ex;
}

/*
 * Runs in a process that is killed afterwards: create a sandbox, and start an exec with
 * its journal in a file.
 */
static struct warren_exec *start(struct warren_exec_spec spec)
{
	struct warren_exec *ex;

	spec.journal_fd = journal_file("journal");
	spec.out = WARREN_STDIO_JOURNAL;
	if (!spec.pty)
		spec.err = WARREN_STDIO_JOURNAL;
	ex = sandbox_start(make_durable(engine()), &spec);
	*number = warren_exec_number(ex);
	return ex;
}

/* ---------------------------------------------------------- execs without a client */

static void start_short(void)
{
	(void)start((struct warren_exec_spec){
		.argv = SH("echo one; sleep 0.2; echo two; echo three >&2; exit 7") });
}

TEST(an_exec_ends_while_no_client_is_connected)
{
	struct warren_exec *ex;
	struct warren_result res;
	struct heard h = { 0 };
	int fd;

	begin();
	killed_after(start_short);
	/* Read only the file, without an engine. */
	fd = journal_file("journal");
	for (int i = 0; i < SANDBOX_TRIES; i++, sandbox_nap()) {
		enum journal_state state;
		struct proto_exited exited;

		if (journal_result(fd, &state, &exited) == 1) {
			EQ(state, JOURNAL_EXITED);
			EQ(WEXITSTATUS(exited.status), 7);
			OK(exited.wall_usec >= 200000);
			break;
		}
	}
	come_back();
	ex = attach();
	hear_all(ex, &h);
	STREQ(h.text[1], "one\ntwo\n");
	STREQ(h.text[2], "three\n");
	EQ(h.lost, 0);
	res = sandbox_wait(ex);
	EQ(res.exit_code, 7);
	EQ(res.signal, 0);
	OK(res.user_usec + res.system_usec > 0);
	end();
}

static void start_long(void)
{
	struct warren_exec *ex = start((struct warren_exec_spec){
		.argv = SH("echo one; while [ ! -e /tmp/go ]; do sleep 0.01; done;"
			   " echo two; kill -9 $$") });
	struct heard h = { 0 };

	hear_until(ex, &h, 1, "one\n");
}

/* The exec continues: it is the same process, with the same output. */
TEST(an_exec_can_be_attached_to_after_a_restart)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_exec *ex;
	struct warren_result res;
	struct heard h = { 0 };

	begin();
	killed_after(start_long);
	come_back();
	ex = attach();
	EQ(warren_exec_wait(ex, 0, &res, &err), 0);
	STREQ(sandbox_says(sb, "touch /tmp/go; echo going"), "going");
	hear_until(ex, &h, 1, "two\n");
	STREQ(h.text[1], "one\ntwo\n");
	res = sandbox_wait(ex);
	EQ(res.signal, SIGKILL);
	end();
}

static void start_nothing(void)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_exec *ex = NULL;
	struct warren_exec_spec spec = { .argv = ARGV("no-such-command"),
					 .out = WARREN_STDIO_JOURNAL,
					 .journal_fd = journal_file("journal") };

	*number = 1;
	FAILS(ENOENT, warren_exec(make_durable(engine()), &spec, &ex, &err));
}

/* The file also shows that it never started, or that it was never requested. */
TEST(attaching_to_an_exec_that_never_started_fails)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_exec *ex = NULL;
	int fd;

	begin();
	killed_after(start_nothing);
	come_back();
	fd = journal_file("journal");
	FAILS(ENOENT, warren_exec_attach(sb, *number, fd, &ex, &err));
	OK(strstr(err.msg, "never started") || err.msg[0] == '\0');
	(void)close(fd);
	fd = journal_file("another");
	FAILS(ESRCH, warren_exec_attach(sb, 4711, fd, &ex, &err));
	(void)close(fd);
	end();
}

TEST(a_timeout_is_enforced_while_no_client_is_connected)
{
	struct warren_exec *ex;
	struct warren_result res;

	begin();
	w = engine();
	sb = make_durable(w);
	ex = sandbox_start(
		sb, &(struct warren_exec_spec){ .argv = SH("sleep 600 & sleep 600"),
						.out = WARREN_STDIO_JOURNAL,
						.journal_fd = journal_file("journal"),
						.timeout_ms = 300 });
	*number = warren_exec_number(ex);
	ex = warren_exec_free(ex);
	w = warren_close(w);
	come_back();
	ex = attach();
	res = sandbox_wait(ex);
	EQ(res.timed_out, true);
	end();
}

/* -------------------------------------------------------------------- input */

static void start_cat(void)
{
	struct warren_exec *ex = start((struct warren_exec_spec){
		.argv = SH("cat; echo ended"), .in = WARREN_STDIO_PIPE });
	struct heard h = { 0 };

	say(ex, 0, "first\n");
	hear_until(ex, &h, 1, "first\n");
}

TEST(stdin_stays_open_when_its_writer_is_killed)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_exec *ex;
	struct heard h = { 0 };

	begin();
	killed_after(start_cat);
	come_back();
	ex = attach();
	hear_until(ex, &h, 1, "first\n");
	say(ex, 0, "second\n");
	hear_until(ex, &h, 1, "second\n");
	GOOD(warren_exec_close_input(ex, &err));
	hear_all(ex, &h);
	STREQ(h.text[1], "first\nsecond\nended\n");
	EQ(sandbox_wait(ex).exit_code, 0);
	FAILS(ESRCH, warren_exec_close_input(ex, &err));
	end();
}

static void start_terminal(void)
{
	struct warren_exec *ex = start((struct warren_exec_spec){
		.argv = ARGV("sh"), .env = ARGV("PS1=$ "), .pty = true, .rows = 30 });
	struct heard h = { 0 };

	say(ex, 0, "x=41; tty; stty size\n");
	hear_until(ex, &h, 1, "/dev/pts/");
	hear_until(ex, &h, 1, "30 80");
}

TEST(attaching_to_a_terminal_again_returns_its_earlier_output)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_exec *ex;
	struct heard h = { 0 };

	begin();
	killed_after(start_terminal);
	come_back();
	ex = attach();
	hear_until(ex, &h, 1, "30 80");
	say(ex, 0, "echo $((x + 1))-answer\n");
	hear_until(ex, &h, 1, "42-answer");
	GOOD(warren_exec_resize(ex, 50, 132, &err));
	say(ex, 0, "stty size\n");
	hear_until(ex, &h, 1, "50 132");
	say(ex, 0, "sleep 600\n");
	hear_until(ex, &h, 1, "sleep 600");
	sandbox_nap();
	say(ex, 0, "\003echo inter-$((3 * 4))\n"); /* job control works */
	hear_until(ex, &h, 1, "inter-12");
	FAILS(EINVAL, warren_exec_close_input(ex, &err)); /* a terminal needs ^D: */
	end();
}

TEST(output_of_a_terminal_is_kept_or_counted_as_lost)
{
	struct warren_exec *ex;
	struct heard h = { 0 };

	begin_with_sandbox();
	ex = sandbox_start(sb, &(struct warren_exec_spec){
				       .argv = SH("stty -onlcr; seq 1 20000; exit 3"),
				       .pty = true,
				       .out = WARREN_STDIO_JOURNAL });
	hear_all(ex, &h);
	EQ(sandbox_wait(ex).exit_code, 3);
	EQ(h.lost, 0);
	EQ(h.size[1], 108894);
	OK(strncmp(h.text[1], "1\n2\n3\n", 6) == 0);
	OK(strcmp(h.text[1] + h.size[1] - 12, "19999\n20000\n") == 0);
	/* The same with a ring that holds only a part of the output. */
	h = (struct heard){ 0 };
	ex = sandbox_start(sb, &(struct warren_exec_spec){ .argv = SH("seq 1 40000"),
							   .pty = true,
							   .out = WARREN_STDIO_JOURNAL,
							   .journal_limit = 65536 });
	EQ(sandbox_wait(ex).exit_code, 0);
	hear_all(ex, &h);
	OK(h.lost > 0);
	EQ(h.size[1] + h.lost, 228894 + 40000);
	end();
}

/* ------------------------------------------------------------------ control streams */

TEST(a_result_is_reported_after_the_output_of_its_command)
{
	struct warren_exec *ex;
	struct heard h = { 0 };
	int command = 0;
	size_t want = 0;

	begin_with_sandbox();
	command = command_file();
	ex = sandbox_start(sb, &(struct warren_exec_spec){ .argv = SERVANT,
							   .out = WARREN_STDIO_JOURNAL,
							   .err = WARREN_STDIO_JOURNAL,
							   .journal_limit = 64 * MIB,
							   AT,
							   .command_fd = command });
	put_command(command,
		    "head -c 50000 /dev/zero | tr '\\0' x; echo e >&2; (exit 4)");
	for (int i = 1; i <= 200; i++) {
		char said[32];

		say(ex, 3, "go\n");
		(void)snprintf(said, sizeof(said), "%d 0 go\n", i);
		want += 50000;
		/* Read piece by piece: when the result arrives, all output has arrived.
		 */
		hear_until(ex, &h, 3, said);
		if (h.size[1] != want || h.size[2] != 2 * (size_t)i)
			TAP_FAIL("%d: %zu bytes of %zu, %zu errors", i, h.size[1], want,
				 h.size[2]);
	}
	put_command(command, "exit 5");
	say(ex, 3, "out\n");
	hear_all(ex, &h);
	EQ(sandbox_wait(ex).exit_code, 5);
	end();
}

static void start_servant(void)
{
	int command = command_file();
	struct warren_exec *ex = start(
		(struct warren_exec_spec){ .argv = SERVANT, AT, .command_fd = command });
	struct heard h = { 0 };

	put_command(command, "y=7; echo set");
	say(ex, 3, "a\n");
	hear_until(ex, &h, 3, "1 0 a\n");
}

TEST(a_shell_continues_when_its_client_is_killed)
{
	struct warren_exec *ex;
	struct heard h = { 0 };
	struct init_reply a = { 0 };
	int fd, command, wakeup;

	begin();
	killed_after(start_servant);
	come_back();
	ex = attach();
	hear_until(ex, &h, 3, "1 0 a\n");
	/* The protocol also transfers the file. */
	fd = dial_init(sb);
	SEND(fd, proto_attach, 5, .h.type = PROTO_ATTACH, .exec = *number);
	EQ(next_message(fd, &a), 1);
	EQ(a.m.reply.status, 0);
	EQ(a.m.reply.gives, PROTO_GIVES_WAKEUP | PROTO_GIVES_COMMAND);
	EQ(a.n_fds, 2);
	command = init_reply_take(&a, PROTO_GIVES_COMMAND);
	wakeup = init_reply_take(&a, PROTO_GIVES_WAKEUP);
	OK(command >= 0 && wakeup >= 0 && init_reply_take(&a, PROTO_GIVES_INPUT) < 0);
	put_command(command, "echo y is $y");
	EQ(write(wakeup, "b\n", 2), 2);
	hear_until(ex, &h, 3, "2 0 b\n");
	OK(strstr(h.text[1], "y is 7\n"));
	end();
}

/* A flood in the background does not delay the result of a command forever. */
TEST(a_flood_of_output_does_not_delay_a_result)
{
	struct warren_exec *ex;
	struct heard h = { 0 };
	int command;

	begin_with_sandbox();
	command = command_file();
	put_command(command, "yes & echo started");
	ex = sandbox_start(sb, &(struct warren_exec_spec){ .argv = SERVANT,
							   .out = WARREN_STDIO_JOURNAL,
							   AT,
							   .command_fd = command });
	say(ex, 3, "go\n");
	for (int i = 0; i < SANDBOX_TRIES && !(h.text[3] && strstr(h.text[3], "1 0 go"));
	     i++) {
		free(h.text[1]);
		h.text[1] = NULL;
		h.size[1] = 0;
		await_output(ex);
		for (int k = 0; k < 100; k++) {
			static char piece[JOURNAL_CHUNK];
			struct warren_error err = WARREN_ERROR_INIT;
			struct warren_output o;

			GOOD(warren_exec_output(ex, h.cursor, piece, sizeof(piece), &o,
						&err));
			h.cursor = o.cursor;
			if (o.size > 0 && o.stream == 3)
				hear_piece(&h, 3, piece, o.size);
		}
	}
	OK(h.text[3] && strstr(h.text[3], "1 0 go"));
	end();
}

TEST(control_descriptors_must_have_unused_numbers)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_exec *ex = NULL;
	struct warren_exec_spec spec = { .argv = SERVANT,
					 .out = WARREN_STDIO_JOURNAL,
					 .child_result_fd = 100,
					 .child_wakeup_fd = 99,
					 .child_command_fd = 255 };

	begin();
	w = engine();
	spec.command_fd = command_file();
	sb = sandbox_make(w, &(struct warren_spec){ .durable = true, .nofile = 100 });
	FAILS(EMFILE, warren_exec(sb, &spec, &ex, &err));
	sandbox_destroy(sb);
	sb = sandbox_make(w, &(struct warren_spec){ .durable = true, .nofile = 256 });
	GOOD(warren_exec(sb, &spec, &ex, &err));
	spec.child_wakeup_fd = 2;
	FAILS(EINVAL, warren_exec(sb, &spec, &ex, &err));
	spec.child_wakeup_fd = 100;
	FAILS(EINVAL, warren_exec(sb, &spec, &ex, &err));
	spec.child_wakeup_fd = 0; /* each flag alone is allowed */
	GOOD(warren_exec(sb, &spec, &ex, &err));
	end();
}

/* --------------------------------------------------------------------- held output */

TEST(a_holding_reader_receives_all_output)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_exec_spec spec = { .argv = SH("seq 1 300000; echo end >&2; exit 9"),
					 .out = WARREN_STDIO_JOURNAL,
					 .err = WARREN_STDIO_JOURNAL,
					 .journal_limit = 65536 };
	struct warren_exec *ex;
	struct heard h = { 0 };
	unsigned long expect = 1;

	begin_with_sandbox();
	/* The control: without a hold, most of it is dropped. */
	ex = sandbox_start(sb, &spec);
	EQ(sandbox_wait(ex).exit_code, 9);
	hear_all(ex, &h);
	OK(h.lost > 1000000);
	ex = warren_exec_free(ex);
	h = (struct heard){ 0 };
	spec.hold = true;
	ex = sandbox_start(sb, &spec);
	while (!h.end) {
		(void)hear(ex, &h);
		if (h.end)
			break;
		await_output(ex);
		sandbox_nap(); /* much slower than the writer */
		(void)hear(ex, &h);
		GOOD(warren_exec_ack(ex, h.cursor, &err));
	}
	EQ(h.lost, 0);
	EQ(h.size[1], 1988895);
	for (char *p = h.text[1]; *p; expect++) {
		OK(strtoul(p, &p, 10) == expect && *p == '\n');
		p++;
	}
	EQ(expect, 300001);
	STREQ(h.text[2], "end\n");
	EQ(sandbox_wait(ex).exit_code, 9);
	end();
}

/* A hold ends with its connection: unread output is then dropped as usual. */
TEST(a_hold_is_released_when_its_connection_closes)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_exec *ex;
	struct warren_result res;
	struct init_reply a = { 0 };
	int fd;

	begin_with_sandbox();
	ex = sandbox_start(sb, &(struct warren_exec_spec){ .argv = SH("sleep 0.1;"
								      " seq 1 100000"),
							   .out = WARREN_STDIO_JOURNAL,
							   .journal_limit = 65536 });
	fd = dial_init(sb);
	SEND(fd, proto_attach, 1, .h.type = PROTO_ATTACH, .exec = warren_exec_number(ex),
	     .flags = PROTO_ATTACH_HOLD);
	EQ(next_message(fd, &a), 1);
	EQ(a.m.reply.status, 0);
	EQ(warren_exec_wait(ex, 500, &res, &err), 0); /* it waits */
	(void)close(fd);
	EQ(sandbox_wait(ex).exit_code, 0);
	end();
}

/* ---------------------------------------------------------- other properties of execs */

/* None of these descriptors is visible inside. */
TEST(a_command_starts_with_only_three_descriptors)
{
	begin_with_sandbox();
	STREQ(sandbox_says(sb, "ls /proc/self/fd | tr '\\n' ' '"), "0 1 2 3 ");
	end();
}

/* A slot is in use only while its exec runs. */
TEST(exec_slots_are_reused)
{
	struct warren_error err = WARREN_ERROR_INIT;
	size_t fds;
	int fd = -1;

	begin_with_sandbox();
	GOOD(warren_connection(sb, &fd, &err));
	fds = sandbox_count_fds();
	for (int i = 0; i < PROTO_EXECS_MAX + 200; i++) {
		struct warren_exec *ex = sandbox_start(
			sb, &(struct warren_exec_spec){ .argv = ARGV("true"),
							.in = WARREN_STDIO_PIPE,
							.out = WARREN_STDIO_JOURNAL });

		EQ(sandbox_wait(ex).exit_code, 0);
		ex = warren_exec_free(ex);
	}
	EQ(sandbox_count_fds(), fds);
	EQ(hello(fd, 0).n_execs, 0);
	EQ(hello(fd, 0).last_exec, PROTO_EXECS_MAX + 200);
	end();
}

/*
 * Send a SPAWN of a shell with @command, behind a gate; return the other end of the gate.
 */
static int spawn_behind_gate(int fd, uint32_t exec, const char *command, int slot)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct init_request_base base = { .workdir = "/", .n_ids = 1 };
	struct initclient_user user = { 0 };
	struct warren_exec_spec spec = { .argv = SH(command),
					 .out = WARREN_STDIO_JOURNAL };
	struct init_request_streams streams = REQUEST_STREAMS_INIT;
	CLEANUP(init_request_done) struct init_request q = REQUEST_INIT;
	AUTO_CLOSE int journal = journal_file("behind-a-gate");
	AUTO_CLOSE int notify = eventfd(0, EFD_CLOEXEC);
	int ends[2];

	EQ(pipe2(ends, O_CLOEXEC), 0);
	streams.journal = journal;
	streams.notify = notify;
	streams.gate = ends[0];
	GOOD(init_request_spawn(&q, &base, &user, &spec, exec, &streams, &err));
	if (slot >= 0)
		((struct proto_spawn *)(void *)q.msg.data)->gate = (uint8_t)slot;
	GOOD(init_request_send(&q, fd, exec, &err));
	return ends[1];
}

/* A gate lets a client finish its work while the exec starts. */
TEST(no_command_is_executed_if_the_gate_is_closed)
{
	struct init_reply a = { 0 };
	struct pollfd p = { .events = POLLIN };
	int gate;

	begin_with_sandbox();
	p.fd = dial_init(sb);
	OK(hello(p.fd, 0).flags & PROTO_WELCOME_GATES);

	gate = spawn_behind_gate(p.fd, 101, "echo >/tmp/opened", -1);
	STREQ(sandbox_says(sb, "test -e /tmp/opened || echo no"), "no");
	EQ(poll(&p, 1, 0), 0);
	EQ(write(gate, "", 1), 1);
	EQ(next_message(p.fd, &a), 1);
	EQ(a.m.h.type, PROTO_REPLY);
	EQ(a.m.reply.status, 0);
	EQ(next_message(p.fd, &a), 1);
	EQ(a.m.h.type, PROTO_EXITED);
	EQ(a.m.exited.status, 0);
	STREQ(sandbox_says(sb, "test -e /tmp/opened && echo yes"), "yes");
	(void)close(gate);

	/* The client is gone, or has cancelled the start. */
	gate = spawn_behind_gate(p.fd, 102, "echo >/tmp/closed", -1);
	(void)close(gate);
	EQ(next_message(p.fd, &a), 1);
	EQ(a.m.reply.status, -ECANCELED);
	STREQ(sandbox_says(sb, "test -e /tmp/closed || echo no"), "no");

	/* A gate whose descriptor did not arrive is refused. */
	gate = spawn_behind_gate(p.fd, 103, "echo >/tmp/none", 99);
	EQ(next_message(p.fd, &a), 1);
	EQ(a.m.reply.status, -EPROTO);
	(void)close(gate);
	EQ(hello(p.fd, 0).n_execs, 0);
	(void)close(p.fd);
	end();
}

TEST(out_of_memory_kills_are_counted_for_every_exec)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_stats stats;
	char id[ID_LEN + 1];

	begin();
	w = engine();
	sb = sandbox_make(w,
			  &(struct warren_spec){ .durable = true, .memory = 64 * MIB });
	(void)strcpy(id, warren_id(sb));
	EQ(sandbox_run(sb, ARGV("tail", "/dev/zero")).res.oom, true);
	sb = warren_release(sb);
	sb = adopt(w, id);
	GOOD(warren_stats(sb, &stats, &err));
	EQ(stats.oom_kills, 1);
	end();
}

TEST_MAIN()
