/* SPDX-License-Identifier: Apache-2.0 */
/* test-shellproto.c - stateful shells: bash, dash and busybox, by both transports */
#include <sys/stat.h>

#include "lib/shell.h"

enum {
	BASH = 1,
	DASH = 2,
	BUSYBOX = 4,
	ASH = DASH | BUSYBOX,
	ALL = 7,
};

static const struct {
	const char *program;
	int bit;
} shells[] = { { "bash", BASH }, { "dash", DASH }, { "busybox", BUSYBOX } };

/* One command and its result; NULL: not checked. */
struct line {
	const char *text;
	enum shellproto_outcome outcome;
	int code;
	const char *out;
	const char *err; /* expected part of stderr; "": there is none */
};

struct talk {
	int shells;
	struct line lines[8]; /* ends with the entry without a text */
};

#define DONE    SHELLPROTO_DONE
#define SYNTAX  SHELLPROTO_SYNTAX
#define ABORTED SHELLPROTO_ABORTED
#define ENDED   SHELLPROTO_ENDED

/*
 * Some shells read a long text in another way: a comment before it makes any text long.
 */
static void run_line(struct shell *sh, const char *text, bool padded)
{
	AUTO_BUF struct buf all = BUF_INIT(1U << 20);

	if (padded) {
		buf_puts(&all, "#");
		for (size_t i = 0; i < 200; i++)
			buf_puts(&all, "x y'\\\"\xe2\x82\xff");
		buf_puts(&all, "\n");
	}
	buf_puts(&all, text);
	shell_feed(sh, all.data ? all.data : "", all.len);
	shell_wait(sh);
}

static void check_line(struct shell *sh, const char *what, const struct line *l,
		       bool padded)
{
	bool bad;

	run_line(sh, l->text, padded);
	bad = sh->outcome != l->outcome || (l->code >= 0 && sh->code != l->code) ||
	      (l->out && strcmp(sh->text[0].data, l->out) != 0) ||
	      (l->err &&
	       (*l->err ? !strstr(sh->text[1].data, l->err) : sh->text[1].len > 0));
	if (bad)
		TAP_FAIL("%s, '%.200s': %s, code %d, out '%.200s', err '%.300s'", what,
			 l->text, session_outcome_names[sh->outcome], sh->code,
			 sh->text[0].data, sh->text[1].data);
}

static void talk_one(const struct talk *talk, enum shellproto_transport t,
		     const char *program, bool padded)
{
	struct shell sh;
	char what[64];

	(void)snprintf(what, sizeof(what), "%s, transport %d%s", program, (int)t,
		       padded ? ", long" : "");
	shell_open(&sh, t, program);
	EQ(sh.outcome, SHELLPROTO_READY);
	for (const struct line *l = talk->lines; l->text; l++)
		check_line(&sh, what, l, padded);
	shell_close(&sh);
}

static void talk_all(const struct talk *talks, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		for (size_t j = 0; j < n; j++) {
			if (!(talks[j].shells & shells[i].bit))
				continue;
			for (int t = SHELLPROTO_CONTROL; t <= SHELLPROTO_FRAMED; t++)
				talk_one(&talks[j], (enum shellproto_transport)t,
					 shells[i].program, false);
			talk_one(&talks[j], SHELLPROTO_FRAMED, shells[i].program, true);
		}
}

#define TALKS(...)                                               \
	do {                                                     \
		static const struct talk t_[] = { __VA_ARGS__ }; \
		talk_all(t_, ARRAY_SIZE(t_));                    \
	} while (0)

TEST(a_shell_keeps_its_state_between_commands)
{
	TALKS({ ALL,
		{ { "x=1; cd /usr; f() { echo f$x; }; false", DONE, 1, "", "" },
		  { "f; pwd", DONE, 0, "f1\n/usr\n", "" },
		  { "umask 027; ulimit -n 99", DONE, 0, "", "" },
		  { "umask; ulimit -n", DONE, 0, NULL, "" } } },
	      { ALL,
		{ { "set -- a 'b c'", DONE, 0, "", "" },
		  { "echo $# \"$2\"", DONE, 0, "2 b c\n", "" } } },
	      { ALL,
		{ { "f() { return 3; }; f", DONE, 3, "", "" },
		  { "echo $?", DONE, 0, "3\n", "" },
		  { "echo $?", DONE, 0, "0\n", "" } } },
	      { BASH,
		{ { "declare -A m; m[a]=b; declare y=2", DONE, 0, "", "" },
		  { "echo ${m[a]} $y", DONE, 0, "b 2\n", "" } } },
	      { ALL,
		{ { "alias ll='echo LL'", DONE, 0, "", "" },
		  { "ll", DONE, 0, "LL\n", "" } } }, );
}

TEST(output_is_exact)
{
	TALKS({ ALL,
		{ { "printf 'no newline'", DONE, 0, "no newline", "" },
		  { "printf '\\n\\nx\\n\\n\\n'; printf e >&2", DONE, 0, "\n\nx\n\n\n",
		    "e" },
		  { "", DONE, 0, "", "" },
		  { " # a comment\n\t\n# and 'another", DONE, 0, "", "" },
		  { "echo a # b\n# c", DONE, 0, "a\n", "" },
		  { "cat <<E\nhi $((1 + 1))\nE", DONE, 0, "hi 2\n", "" } } },
	      { ALL,
		{ { "cat; read x; echo $?", DONE, 0, "1\n", "" },
		  { "printf '\\036'", DONE, 0, "\036", "" },
		  { "echo \"it's\" 'a \"q\"' \\$", DONE, 0, "it's a \"q\" $\n",
		    "" } } }, );
}

TEST(unparsable_input_is_a_syntax_error)
{
	TALKS({ ALL,
		{ { "echo 'unbalanced", SYNTAX, 2, "", NULL },
		  { "echo alive", DONE, 0, "alive\n", "" } } },
	      { BASH,
		{ { "echo \"a", SYNTAX, 2, "", "unexpected EOF" },
		  { "echo alive", DONE, 0, "alive\n", "" } } },
	      { ALL,
		{ { "echo a; fi; echo b", SYNTAX, 2, "", "fi" },
		  { "echo a\nfi\necho b", SYNTAX, 2, "a\n", "fi" },
		  { "echo $?; (", SYNTAX, 2, "", NULL },
		  { "if true; then", SYNTAX, 2, "", NULL },
		  { "cat <<E\nno end", DONE, 0, NULL, NULL },
		  { "(exit 2)", DONE, 2, "", "" },
		  { "echo a |", SYNTAX, 2, "", NULL } } },
	      { ALL,
		{ { "echo a \\", DONE, 0, NULL, "" },
		  { "echo `", SYNTAX, 2, "", NULL },
		  { "echo $(", SYNTAX, -1, "", NULL },
		  { "echo ${", SYNTAX, 2, "", NULL },
		  { "echo alive", DONE, 0, "alive\n", "" } } }, );
}

/*
 * The message of the first one differs between shells, so the second case checks only
 * that of bash.
 */
TEST(an_error_ends_only_the_command)
{
	TALKS({ ALL,
		{ { "set -u; echo $nope; echo no", DONE, -1, "", "nope" },
		  { "echo $-; set +u", DONE, 0, NULL, "" },
		  { "echo ${nope?msg}; echo no", DONE, -1, "", "msg" },
		  { "readonly q=1; q=2; echo no", DONE, -1, "", "q" },
		  { "echo alive", DONE, 0, "alive\n", "" } } },
	      /*
	       * As for typed lines, a failed line does not prevent the following ones,
	       * except those of eval in dash.
	       */
	      { BASH,
		{ { "echo ${nope?msg}\necho next", DONE, 0, "next\n", "msg" },
		  { "echo alive", DONE, 0, "alive\n", "" } } },
	      { ASH,
		{ { "echo ${nope?msg}\necho next", DONE, 2, "", "msg" },
		  { "echo alive", DONE, 0, "alive\n", "" } } },
	      { BASH,
		{ { "exec /nonexistent", DONE, 127, "", "nonexistent" },
		  { "return 3; echo x", DONE, 0, "x\n", "return" },
		  { "set -n", DONE, 0, "", "" },
		  { "set -o posix; echo ${nope?x}", DONE, -1, "", NULL },
		  { "echo alive", DONE, 0, "alive\n", "" } } },
	      { ALL,
		{ { "break; echo x", DONE, 0, NULL, NULL },
		  { "continue 2; echo x", DONE, 0, NULL, NULL },
		  { "cd /nonexistent", DONE, -1, "", "nonexistent" },
		  { "echo alive", DONE, 0, "alive\n", "" } } }, );
}

TEST(the_end_of_the_shell_is_reported)
{
	TALKS({ ALL, { { "echo bye; exit 7", ENDED, 7, "bye\n", "" } } },
	      { ALL, { { "exec sh -c 'echo new; exit 9'", ENDED, 9, "new\n", "" } } },
	      { ASH, { { "exec /nonexistent", ENDED, 127, "", "nonexistent" } } },
	      { ASH, { { "return 3", ENDED, 3, "", "" } } },
	      { ALL,
		{ { "set -e", DONE, 0, "", "" },
		  { "false || true", DONE, 0, "", "" },
		  { "true && ! true", DONE, 1, "", "" },
		  { "echo a; false; echo no", ENDED, 1, "a\n", "" } } },
	      { ALL,
		{ { "trap 'echo last' EXIT", DONE, 0, "", "" },
		  { "exit 4", ENDED, 4, "last\n", "" } } },
	      { ALL, { { "kill -9 $$", ENDED, 137, "", "" } } }, );
}

TEST(commands_cannot_use_internal_descriptors)
{
	/*
	 * Use the path of ls, because busybox runs its own `ls` in the shell. 3 is the
	 * descriptor of the listing itself.
	 */
	static const char list[] = "echo $(/bin/ls /proc/self/fd)";
	static const char three[] = "0 1 2 3\n";

	TALKS({ ALL,
		{ { list, DONE, 0, three, "" },
		  { "exec 7>&- 8>&- 6>&-", DONE, 0, "", "" },
		  { list, DONE, 0, three, "" } } },
	      { ALL,
		{ { "exec >/dev/null; echo hidden", DONE, 0, "", "" },
		  { "echo hidden; echo shown >&2", DONE, 0, "", "shown" },
		  { "exec 2>&1; echo hidden", DONE, 0, "", "" } } },
	      { ALL,
		{ { "exec 0<&- 1>&- 2>&-", DONE, 0, "", "" },
		  { "x=5", DONE, 0, "", "" },
		  { "test $x = 5", DONE, 0, "", "" } } }, );
}

/*
 * The text closes all descriptors, including the internal ones: the shell ends or is cut
 * off, and this is reported.
 */
TEST(a_shell_that_closes_all_descriptors_is_reported_as_ended)
{
	static const char text[] = "i=0; while [ $i -lt 256 ]; do eval \"exec $i>&-\"; "
				   "i=$((i+1)); done";

	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		for (int t = SHELLPROTO_CONTROL; t <= SHELLPROTO_FRAMED; t++) {
			struct shell sh;

			shell_open(&sh, (enum shellproto_transport)t, shells[i].program);
			shell_feed(&sh, text, strlen(text));
			/* The shell neither reads nor writes. */
			if (!shell_patience(&sh, 300)) {
				OK(!shellproto_alive(sh.s) || t == SHELLPROTO_FRAMED);
				shell_step(&sh, SHELLPROTO_STEP_END);
				shell_wait(&sh);
			}
			EQ(sh.outcome, SHELLPROTO_ENDED);
			shell_close(&sh);
		}
}

TEST(options_and_traps_of_the_user_are_kept)
{
	TALKS({ ALL,
		{ { "set -x", DONE, 0, "", "" },
		  { "echo a", DONE, 0, "a\n", "echo a\n" },
		  { "set +x", DONE, 0, "", "set +x\n" },
		  { "echo b", DONE, 0, "b\n", "" },
		  { "set -xv; false", DONE, 1, "", "false\n" },
		  { "echo $?", DONE, 0, "1\n", NULL } } },
	      { BASH,
		{ { "trap 'echo dbg' DEBUG", DONE, 0, NULL, "" },
		  { "trap 'echo err' ERR; false", DONE, 1, NULL, "" },
		  { "trap - DEBUG ERR", DONE, 0, NULL, "" },
		  { "echo alive", DONE, 0, "alive\n", "" } } },
	      { ALL,
		{ { "IFS=0123456789abcdefghijklmnopqrstuvwxyz", DONE, 0, "", "" },
		  { "PS1='p> ' PS2='q> ' PS4='r> ' PROMPT_COMMAND='echo no'", DONE, 0, "",
		    "" },
		  { "POSIXLY_CORRECT=1; unset PWD; PWD=junk", DONE, 0, "", "" },
		  { "echo alive", DONE, 0, "alive\n", "" } } },
	      { BASH,
		{ { "echo() { :; }; eval() { :; }; command() { :; }; printf() { :; }\n"
		    "pwd() { :; }; set() { :; }; trap() { :; }; true() { :; }",
		    DONE, 0, "", "" },
		  { "/bin/echo alive", DONE, 0, "alive\n", "" } } },
	      { ASH,
		{ { "echo() { :; }; printf() { :; }; pwd() { :; }; true() { :; }", DONE,
		    0, "", "" },
		  { "/bin/echo alive", DONE, 0, "alive\n", "" } } },
	      { ALL,
		{ { "alias echo=no printf=no command=no builtin=no eval=no pwd=no", DONE,
		    0, "", "" },
		  { "/bin/echo alive", DONE, 0, "alive\n", "" } } },
	      { ALL,
		{ { "set -m; sleep 0.1 & wait; echo done", DONE, 0, "done\n", NULL },
		  { "echo alive", DONE, 0, "alive\n", "" } } }, );
}

TEST(the_directory_is_reported)
{
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		for (int t = SHELLPROTO_CONTROL; t <= SHELLPROTO_FRAMED; t++) {
			char dir[] = "/tmp/session-XXXXXX", text[128];
			struct shell sh;

			OK(mkdtemp(dir));
			shell_open(&sh, (enum shellproto_transport)t, shells[i].program);
			(void)snprintf(text, sizeof(text),
				       "cd %s; mkdir 'a b\nc '; cd a*", dir);
			shell_run(&sh, text);
			OK(strlen(sh.cwd) == strlen(dir) + 7 &&
			   strcmp(sh.cwd + strlen(dir), "/a b\nc ") == 0);
			shell_run(&sh, "rmdir \"$PWD\"; PWD=/lie");
			EQ(sh.outcome, DONE);
			(void)snprintf(text, sizeof(text), "cd /; rmdir %s", dir);
			shell_run(&sh, text);
			EQ(sh.code, 0);
			STREQ(sh.cwd, "/");
			shell_close(&sh);
		}
}

TEST(large_commands_and_output_are_complete)
{
	enum {
		SIZE = 1 << 20,
		MANY = 100 << 20
	};
	char *text = malloc(SIZE + 64);

	OK(text);
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		for (int t = SHELLPROTO_CONTROL; t <= SHELLPROTO_FRAMED; t++) {
			struct shell sh;
			size_t n = 0;

			shell_open(&sh, (enum shellproto_transport)t, shells[i].program);
			(void)memcpy(text, "x='", 3);
			for (n = 3; n < SIZE; n++)
				text[n] = n % 80 ? (char)('a' + n % 26) : '\n';
			n += (size_t)sprintf(text + n, "'\necho ${#x}");
			shell_feed(&sh, text, n);
			shell_wait(&sh);
			EQ(sh.outcome, DONE);
			STREQ(sh.text[0].data, "1048573\n");

			sh.quiet = true;
			shell_run(
				&sh,
				"head -c 104857600 /dev/zero; head -c 999 /dev/zero >&2");
			EQ(sh.bytes[0], MANY);
			EQ(sh.bytes[1], 999);
			shell_run(&sh, "head -c 3000000 /dev/urandom");
			EQ(sh.bytes[0], 3000000);
			shell_close(&sh);
		}
	free(text);
}

/* A long text, which bash would read byte by byte from its script, is read with
 * `read`. */
TEST(long_commands_are_read_without_delay)
{
	static const char way[] = " read -ru6 -N";
	enum {
		SIZE = 200000 /* larger than an environment variable may be */
	};
	char *text = malloc(SIZE + 64);

	OK(text);
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		for (int all = 0; all < 2; all++) {
			struct shell sh;
			int n;

			shell_open(&sh, SHELLPROTO_FRAMED, shells[i].program);
			shell_run(&sh, all ? "set -a" : "true");
			(void)memset(text, '#', SIZE);
			n = sprintf(text + SIZE, "\nls -d /; set +a");
			shell_feed(&sh, text, SIZE + (size_t)n);
			EQ(memmem(sh.unsent.data, sh.unsent.len, way, strlen(way)) !=
				   NULL,
			   shells[i].bit == BASH && !all);
			shell_wait(&sh);
			STREQ(sh.text[0].data, "/\n");
			shell_run(&sh, "set | grep -c '^.*=.*#\\{10\\}'; true");
			STREQ(sh.text[0].data, "0\n");
			shell_close(&sh);
		}
	free(text);
}

TEST(background_jobs_continue_between_commands)
{
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		for (int t = SHELLPROTO_CONTROL; t <= SHELLPROTO_FRAMED; t++) {
			struct shell sh;

			shell_open(&sh, (enum shellproto_transport)t, shells[i].program);
			shell_run(&sh, "f=$(mktemp); (while :; do echo tick; echo >>$f; "
				       "sleep 0.01; done) & j=$!");
			EQ(sh.outcome, DONE);
			/* There is a line of output between two lines of the file. */
			shell_run(&sh,
				  ": >$f; until [ $(wc -l <$f) -ge 2 ]; do sleep 0.01; "
				  "done; rm -f $f; kill -0 $j && echo there");
			OK(strstr(sh.text[0].data, "tick\n"));
			OK(strstr(sh.text[0].data, "there\n"));
			shell_run(&sh, "kill $j; wait $j; echo $?; rm -f $f");
			OK(strstr(sh.text[0].data, "143\n"));
			shell_close(&sh);
		}
}

TEST(several_shells_work_at_the_same_time)
{
	enum {
		N = 12
	};
	static struct shell sh[N];

	for (int i = 0; i < N; i++)
		shell_open(&sh[i], i % 2 ? SHELLPROTO_CONTROL : SHELLPROTO_FRAMED,
			   shells[i % 3].program);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < N; i++) {
			char text[64];

			(void)snprintf(text, sizeof(text),
				       "n=$((n + %d)); sleep 0.0%d; echo $n", i, N - i);
			shell_feed(&sh[i], text, strlen(text));
		}
		for (int i = N - 1; i >= 0; i--) {
			shell_wait(&sh[i]);
			EQ(atoi(sh[i].text[0].data), (round + 1) * i);
		}
	}
	for (int i = 0; i < N; i++)
		shell_close(&sh[i]);
}

/* For images in which /bin/sh is bash. */
TEST(bash_can_be_used_as_sh)
{
	for (int t = SHELLPROTO_CONTROL; t <= SHELLPROTO_FRAMED; t++) {
		struct shell sh;

		shell_open(&sh, (enum shellproto_transport)t, "/bin/bash");
		shell_run(&sh, "x=1; echo $BASH_VERSION; echo ${nope?}");
		EQ(sh.outcome, DONE);
		EQ(sh.code, 1);
		OK(sh.text[0].len > 3);
		shell_run(&sh, "exit $x");
		EQ(sh.outcome, ENDED);
		EQ(sh.code, 1);
		shell_close(&sh);
	}
}

TEST(stdin_can_be_a_socket)
{
	shell_by_socket = true;
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
		struct shell sh;

		shell_open(&sh, SHELLPROTO_FRAMED, shells[i].program);
		shell_run(&sh, "x=5; cat; echo $(/bin/ls /proc/self/fd)");
		STREQ(sh.text[0].data, "0 1 2 3\n");
		shell_run(&sh, "exit $x${BASH_VERSION+5}");
		EQ(sh.outcome, ENDED);
		EQ(sh.code, shells[i].bit == BASH ? 55 : 5);
		shell_close(&sh);
	}
}

TEST(a_missing_shell_is_reported)
{
	struct shell sh;

	shell_open(&sh, SHELLPROTO_CONTROL, "/nonexistent/sh");
	EQ(sh.outcome, ENDED);
	EQ(sh.code, 127);
	EQ(shellproto_alive(sh.s), false);
	shell_close(&sh);
}

TEST(a_command_that_cannot_be_sent_is_refused)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct warren_error err;
	struct shell sh;
	uint64_t serial;

	shell_open(&sh, SHELLPROTO_CONTROL, "dash");
	EQ(shellproto_feed(sh.s, "a\0b", 3, &out, &serial, &err), -EINVAL);
	EQ(shellproto_feed(sh.s, "a", SHELLPROTO_COMMAND_MAX + 1, &out, &serial, &err),
	   -E2BIG);
	EQ(out.len, 0);
	shell_feed(&sh, "sleep 0.1", 9);
	EQ(shellproto_feed(sh.s, "a", 1, &out, &serial, &err), -EBUSY);
	shell_wait(&sh);
	EQ(sh.code, 0);
	shell_run(&sh, "exit 1");
	EQ(shellproto_feed(sh.s, "a", 1, &out, &serial, &err), -EPIPE);
	shell_close(&sh);
}

/* Each marker consists of another byte, by the number of the command. */
static void known_marker(void *arg UNUSED, uint64_t serial,
			 uint8_t ret[SHELLPROTO_MARKER_SIZE])
{
	(void)memset(ret, (int)serial, SHELLPROTO_MARKER_SIZE);
}

#define KEY "0000000000" /* the value for serial 0 */

/* Another program could send such output. */
TEST(inconsistent_results_are_refused)
{
	static const struct {
		const char *text;
		size_t n;
		int r;
	} records[] = {
#define RECORD(s, r) { s, sizeof(s) - 1, r }
		RECORD(KEY " 0   1 hB /\0", 0),
		RECORD(KEY " 0 d7 12 1 hB /\0", 0),
		RECORD("0 0   1 hB /\0", -EPROTO), /* the format of versions in which the
						      serial was the key */
		RECORD("0000000001 0   1 hB /\0", -EPROTO),
		RECORD("000000000 0   1 hB /\0", -EPROTO),
		RECORD(KEY " 256   1 hB /\0", -EPROTO),
		RECORD(KEY " -1   1 hB /\0", -EPROTO),
		RECORD(KEY " 0 d 12 1 hB /\0", -EPROTO),
		RECORD(KEY " 0 z 12 1 hB /\0", -EPROTO),
		RECORD(KEY " 0 d1\0", -EPROTO),
		RECORD("\0", -EPROTO),
		RECORD(KEY " 0   1 hB /\0" KEY " 0   1 hB /\0", -EPROTO), /* twice */
	};

	for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
		struct shell sh = { .text = { BUF_INIT(99), BUF_INIT(99) } };
		AUTO_BUF struct buf out = BUF_INIT(65536);
		struct warren_error err;

		EQ(shellproto_new(SHELLPROTO_CONTROL, &shell_events, &sh, &sh.s, &err),
		   0);
		shellproto_markers(sh.s, known_marker);
		EQ(shellproto_start(sh.s, &out, &err), 0);
		if (shellproto_on_bytes(sh.s, SHELLPROTO_RESULTS, records[i].text,
					records[i].n, &err) != records[i].r)
			TAP_FAIL("record %zu", i);
		EQ(shellproto_alive(sh.s), records[i].r == 0);
		sh.s = shellproto_free(sh.s);
	}
}

#define KNOWN(digits)                                                                \
	"\036" digits digits digits digits digits digits digits digits digits digits \
		digits digits digits digits digits digits

TEST(another_service_can_continue_a_framed_session)
{
	static const char before[] = KNOWN("01") "1 0 d0  1 hB /\0",
			  after[] = "late" KNOWN("02") "2 0 d3  1 hB /tmp\0";
	struct shell sh = { .text = { BUF_INIT(99), BUF_INIT(99) }, .serial = 2 };
	struct warren_error err;

	EQ(shellproto_new(SHELLPROTO_FRAMED, &shell_events, &sh, &sh.s, &err), 0);
	shellproto_markers(sh.s, known_marker);
	shellproto_resume(sh.s, 2);
	OK(shellproto_running(sh.s));
	/* The result of an earlier command does not count. */
	EQ(shellproto_on_bytes(sh.s, SHELLPROTO_STDOUT, before, sizeof(before) - 1, &err),
	   0);
	OK(!sh.got);
	EQ(shellproto_on_bytes(sh.s, SHELLPROTO_STDOUT, after, sizeof(after) - 1, &err),
	   0);
	OK(!sh.got);
	EQ(shellproto_on_bytes(sh.s, SHELLPROTO_STDERR, KNOWN("02"), 33, &err), 0);
	OK(sh.got);
	EQ(sh.code, 3);
	STREQ(sh.cwd, "/tmp");
	OK(shellproto_alive(sh.s) && !shellproto_running(sh.s));
	sh.s = shellproto_free(sh.s);
	buf_done(&sh.text[0]);
	buf_done(&sh.text[1]);
}

TEST_MAIN()
