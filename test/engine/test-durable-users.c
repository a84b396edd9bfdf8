/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-durable-users.c - several clients of one init: signals and connections; they do
 * not affect each other
 */
#include "lib/durable-one.h"

/* ------------------------------------------------------------------- signals */

TEST(a_signal_reaches_every_process_of_an_exec)
{
	static const char script[] =
		"trap 'echo shell' TERM;"
		" (trap 'echo child; exit' TERM; echo up;"
		" while :; do sleep 0.05; done) &"
		" setsid sh -c 'trap \"echo other; exit\" TERM; echo up;"
		" while :; do sleep 0.05; done' &"
		" while ! wait; do :; done; wait; echo over";
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_exec *ex;
	struct heard h = { 0 };

	begin_with_sandbox();
	ex = sandbox_start(sb, &(struct warren_exec_spec){ .argv = SH(script),
							   .out = WARREN_STDIO_JOURNAL });
	hear_until(ex, &h, 1, "up\nup\n");
	/* The signal goes to all processes except the first. */
	GOOD(warren_exec_signal_to(ex, SIGTERM, WARREN_WHOM_REST, &err));
	hear_all(ex, &h);
	OK(strstr(h.text[1], "child\n") && strstr(h.text[1], "other\n"));
	OK(strstr(h.text[1], "over\n") && !strstr(h.text[1], "shell\n"));
	ex = warren_exec_free(ex);

	h = (struct heard){ 0 };
	ex = sandbox_start(sb, &(struct warren_exec_spec){ .argv = SH(script),
							   .out = WARREN_STDIO_JOURNAL });
	hear_until(ex, &h, 1, "up\nup\n");
	GOOD(warren_exec_signal_to(ex, SIGTERM, WARREN_WHOM_TREE, &err));
	hear_until(ex, &h, 1, "child\n");
	hear_until(ex, &h, 1, "other\n");
	hear_until(ex, &h, 1, "shell\n");
	hear_all(ex, &h);
	(void)sandbox_wait(ex);
	FAILS(ESRCH, warren_exec_signal_to(ex, SIGTERM, WARREN_WHOM_REST, &err));
	end();
}

/* A command is interrupted, and the jobs of earlier commands continue. */
TEST(a_signal_to_the_newest_command_spares_earlier_jobs)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_exec *ex;
	struct heard h = { 0 };
	int command;

	begin_with_sandbox();
	command = command_file();
	ex = sandbox_start(sb, &(struct warren_exec_spec){ .argv = SERVANT,
							   .out = WARREN_STDIO_JOURNAL,
							   AT,
							   .command_fd = command });
	put_command(command, "sleep 600 & sleep 600 & echo $! > /tmp/job");
	say(ex, 3, "a\n");
	hear_until(ex, &h, 3, "1 0 a\n");
	put_command(command, "echo begun; sh -c 'sleep 600; true'");
	say(ex, 3, "b\n");
	hear_until(ex, &h, 1, "begun\n");
	/* Wait until they exist: the shell forks after its message. */
	while (warren_exec_signal_to(ex, SIGKILL, WARREN_WHOM_NEW, &err) < 0) {
		EQ(err.code, ESRCH);
		sandbox_nap();
	}
	hear_until(ex, &h, 3, "2 ");
	STREQ(sandbox_says(sb, "kill -0 $(cat /tmp/job) && echo alive"), "alive");
	put_command(command, "echo still");
	say(ex, 3, "c\n");
	hear_until(ex, &h, 3, "3 0 c\n");
	end();
}

TEST(processes_are_listed_and_signalled_by_number)
{
	struct proto_signal msg = { .h = { PROTO_VERSION, PROTO_SIGNAL, 3 },
				    .sig = SIGKILL,
				    .whom = PROTO_WHOM_ONE };
	struct proto_list list = { .h = { PROTO_VERSION, PROTO_LIST, 2 } };
	struct proto_process p[8] = { 0 };
	struct warren_exec *ex, *other;
	struct init_reply a = { 0 };
	struct heard h = { 0 };
	int fd, file, first = 0, asleep = 0;

	begin_with_sandbox();
	other = sandbox_start(sb,
			      &(struct warren_exec_spec){ .argv = ARGV("sleep", "600") });
	ex = sandbox_start(
		sb, &(struct warren_exec_spec){
			    .argv = SH("trap '' INT; (exec sleep 600) & echo up; wait;"
				       " echo over"),
			    .out = WARREN_STDIO_JOURNAL });
	hear_until(ex, &h, 1, "up\n");
	fd = dial_init(sb);
	file = command_file();
	list.exec = warren_exec_number(ex);
	EQ(fd_send(fd, &list, sizeof(list), &file, 1), 0);
	EQ(next_message(fd, &a), 1);
	EQ(a.m.reply.status, 2);
	EQ(pread(file, p, sizeof(p), 0), 2 * sizeof(p[0]));
	for (int i = 0; i < 2; i++) {
		OK(p[i].start > 0);
		OK(p[i].flags & PROTO_PROCESS_IGNORES_INT);
		if (p[i].flags & PROTO_PROCESS_FIRST)
			first = p[i].pid;
		else
			asleep = p[i].pid;
	}
	OK(first > 1 && asleep > 1);
	EQ(p[first == p[0].pid].ppid, first);
	/* A process of another exec is not signalled. */
	msg.exec = warren_exec_number(other);
	msg.pid = asleep;
	EQ(fd_send(fd, &msg, sizeof(msg), NULL, 0), 0);
	EQ(next_message(fd, &a), 1);
	EQ(a.m.reply.status, -ESRCH);
	msg.exec = warren_exec_number(ex);
	EQ(fd_send(fd, &msg, sizeof(msg), NULL, 0), 0);
	EQ(next_message(fd, &a), 1);
	EQ(a.m.reply.status, 0);
	hear_until(ex, &h, 1, "over\n");
	end();
}

/* -------------------------------------------------------------- connections */

TEST(connections_beyond_the_maximum_are_refused)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int fds[PROTO_CONNECTIONS_MAX], extra = -1;
	struct init_reply a = { 0 };

	begin_with_sandbox();
	for (int i = 1; i < PROTO_CONNECTIONS_MAX; i++)
		GOOD(warren_connection(sb, &fds[i], &err));
	FAILS(EBUSY, warren_connection(sb, &extra, &err));
	extra = dial_init(sb);
	EQ(next_message(extra, &a), 1);
	EQ(a.m.reply.status, -EBUSY);
	EQ(next_message(extra, &a), 0);
	(void)close(extra);
	STREQ(sandbox_says(sb, "echo fine"), "fine");
	(void)close(fds[3]);
	for (int i = 0; warren_connection(sb, &fds[3], &err) < 0; i++) {
		OK(i < SANDBOX_TRIES);
		sandbox_nap();
	}
	EQ(hello(fds[3], 0).flags, PROTO_WELCOME_KEPT | PROTO_WELCOME_GATES |
					   PROTO_WELCOME_WORKERS | PROTO_WELCOME_FILES);
	end();
}

TEST(the_end_of_an_exec_is_sent_only_to_clients_that_asked_for_it)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_exec *ex;
	struct init_reply a = { 0 };
	struct pollfd p = { .events = POLLIN };
	int all, some, none;

	begin_with_sandbox();
	GOOD(warren_connection(sb, &all, &err));
	GOOD(warren_connection(sb, &some, &err));
	GOOD(warren_connection(sb, &none, &err));
	(void)hello(all, PROTO_HELLO_ALL);
	ex = sandbox_start(sb,
			   &(struct warren_exec_spec){ .argv = ARGV("sleep", "0.3") });
	SEND(some, proto_attach, 1, .h.type = PROTO_ATTACH,
	     .exec = warren_exec_number(ex));
	EQ(next_message(some, &a), 1);
	EQ(a.m.h.type, PROTO_REPLY);
	EQ(sandbox_wait(ex).exit_code, 0);
	EQ(next_message(some, &a), 1);
	EQ(a.m.h.type, PROTO_EXITED);
	EQ(a.m.exited.exec, warren_exec_number(ex));
	EQ(next_message(all, &a), 1);
	EQ(a.m.h.type, PROTO_EXITED);
	p.fd = none;
	EQ(poll(&p, 1, 0), 0);
	end();
}

/*
 * While a client does not read its replies, init does not read its requests; other
 * clients are not delayed.
 */
TEST(a_connection_that_does_not_read_delays_no_other)
{
	const struct proto_hello msg = { .h = { PROTO_VERSION, PROTO_HELLO, 1 } };
	struct warren_error err = WARREN_ERROR_INIT;
	struct pollfd room = { .events = POLLOUT };
	int deaf = -1, sent = 0, answers = 0;
	struct init_reply a;

	begin_with_sandbox();
	GOOD(warren_connection(sb, &deaf, &err));
	room.fd = deaf;
	while (sent < 5000 && poll(&room, 1, 1000) == 1)
		sent += fd_send_now(deaf, &msg, sizeof(msg), NULL, 0) == 0;
	OK(sent > 0 && sent < 5000);
	STREQ(sandbox_says(sb, "echo fine"), "fine");
	for (; answers < sent; answers++)
		EQ(next_message(deaf, &a), 1);
	EQ(poll(&(struct pollfd){ .fd = deaf, .events = POLLIN }, 1, 0), 0);
	(void)hello(deaf, 0); /* its requests are read again */
	(void)close(deaf);
	GOOD(warren_connection(sb, &deaf, &err)); /* it can connect again */
	end();
}

TEST(invalid_messages_do_not_affect_other_clients)
{
	unsigned seed = (unsigned)time(NULL);
	struct warren_error err = WARREN_ERROR_INIT;

	begin_with_sandbox();
	(void)printf("# seed %u\n", seed);
	for (int round = 0; round < 60; round++) {
		int fd = -1;

		GOOD(warren_connection(sb, &fd, &err));
		(void)fcntl(fd, F_SETFL, O_NONBLOCK);
		for (int i = 0; i < 50; i++) {
			static unsigned char msg[sizeof(struct proto_open)];
			size_t n = (unsigned)rand_r(&seed) % sizeof(msg);
			struct proto_header h = {
				.version = rand_r(&seed) % 8 ? PROTO_VERSION : 9,
				.type = (uint16_t)(rand_r(&seed) % 16),
				.seq = (uint32_t)i,
			};
			int fds[4] = { fd, fd, 0, 1 };

			for (size_t k = 0; k < n; k++)
				msg[k] = rand_r(&seed) % 3 ? 0
							   : (unsigned char)rand_r(&seed);
			/* KEEP and requests of the machine's owner are valid. */
			if (h.type == PROTO_SIGNAL)
				h.type = PROTO_ACK;
			(void)memcpy(msg, &h, sizeof(h));
			if (fd_send(fd, msg, n, fds, (unsigned)rand_r(&seed) % 5) < 0)
				break;
		}
		(void)close(fd);
		for (int i = 0; warren_connection(sb, &fd, &err) < 0; i++) {
			OK(i < SANDBOX_TRIES);
			sandbox_nap();
		}
		(void)close(fd);
	}
	STREQ(sandbox_says(sb, "echo fine"), "fine");
	/* init has kept none of the descriptors open. */
	for (int i = 0; i < SANDBOX_TRIES; i++, sandbox_nap()) {
		AUTO_FREE char *path = NULL;
		size_t n = 0;
		DIR *d;

		OK(asprintf(&path, "/proc/%d/fd", (int)init_pid(sb)) > 0);
		d = opendir(path);
		OK(d);
		while (readdir(d))
			n++;
		(void)closedir(d);
		if (n < 30)
			break;
		OK(i + 1 < SANDBOX_TRIES);
	}
	end();
}

TEST_MAIN()
