/* SPDX-License-Identifier: Apache-2.0 */
/* test-shellproto-terminal.c - a stateful shell at a terminal: input and output */
#include "lib/shell.h"

struct line {
	const char *text;
	enum shellproto_outcome outcome;
	int code;
	const char *out; /* expected output at a terminal, where lines end in CR LF; NULL:
			    not checked */
};

static void check(struct shell *sh, const struct line *lines, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		shell_run(sh, lines[i].text);
		if (sh->outcome != lines[i].outcome || sh->code != lines[i].code ||
		    (lines[i].out && strcmp(sh->text[0].data, lines[i].out) != 0))
			TAP_FAIL("'%.100s': %s, code %d, '%.300s'", lines[i].text,
				 session_outcome_names[sh->outcome], sh->code,
				 sh->text[0].data);
	}
}

#define CHECK(sh, ...)                                           \
	do {                                                     \
		static const struct line l_[] = { __VA_ARGS__ }; \
		check(sh, l_, ARRAY_SIZE(l_));                   \
	} while (0)

#define DONE   SHELLPROTO_DONE
#define SYNTAX SHELLPROTO_SYNTAX

TEST(a_terminal_shell_keeps_its_state)
{
	struct shell sh;

	shell_open_terminal(&sh);
	EQ(sh.outcome, SHELLPROTO_READY);
	CHECK(&sh, { "x=1; cd /usr; f() { echo f$x; }; false", DONE, 1, "" },
	      { "echo $?; f; pwd", DONE, 0, "1\r\nf1\r\n/usr\r\n" },
	      { "[ -t 0 ] && [ -t 1 ] && [ -t 2 ]", DONE, 0, "" },
	      { "printf '\\n\\nx\\n'; printf e >&2", DONE, 0, "\r\n\r\nx\r\ne" },
	      { "", DONE, 0, "" }, { "# a comment", DONE, 0, "" },
	      { "cat <<E\nhi $((1 + 1))\nE", DONE, 0, "hi 2\r\n" }, );
	shell_close(&sh);
}

TEST(a_syntax_error_is_not_run)
{
	struct shell sh;

	shell_open_terminal(&sh);
	CHECK(&sh, { "echo ran; echo 'unbalanced", SYNTAX, 2, NULL },
	      { "echo alive", DONE, 0, "alive\r\n" }, { "(", SYNTAX, 2, NULL },
	      { "if true; then", SYNTAX, 2, NULL },
	      { "echo alive", DONE, 0, "alive\r\n" }, { "echo ran\nfi", SYNTAX, 2, NULL },
	      { "echo ran\ncat <<E\nx\nE\necho 2", DONE, 0, "ran\r\nx\r\n2\r\n" },
	      { "echo ${x?}; echo no", DONE, 1, NULL },
	      { "echo alive", DONE, 0, "alive\r\n" }, );
	shell_close(&sh);
}

TEST(commands_may_change_the_shell_settings)
{
	struct shell sh;

	shell_open_terminal(&sh);
	CHECK(&sh, { "PS1='$ ' PROMPT_COMMAND='echo PROMPT'", DONE, 0, "" },
	      { "echo a", DONE, 0, "a\r\n" }, { "set -xv", DONE, 0, NULL },
	      { "echo b", DONE, 0, "echo b\r\n++ echo b\r\nb\r\n" },
	      { "set +xv", DONE, 0, NULL },
	      { "stty echo; alias eval=false printf=false; printf() { :; }", DONE, 0,
		"" },
	      { "echo c", DONE, 0, "c\r\n" }, { "exec >/dev/null", DONE, 0, "" },
	      { "echo d", DONE, 0, "" }, { "exit 7", SHELLPROTO_ENDED, 7, NULL }, );
	shell_close(&sh);
}

/* Lines are short, and contain nothing that a terminal would interpret. */
TEST(a_long_command_is_typed_in_short_lines)
{
	AUTO_BUF struct buf text = BUF_INIT(4U << 20);
	struct shell sh;
	char size[32];

	buf_puts(&text, "x='");
	for (int i = 0; i < 300000; i++) {
		char c = (char)(1 + i % 31);

		buf_add(&text, &c, 1);
		buf_puts(&text, "\xe2\x98\x83");
	}
	buf_puts(&text, "'; LC_ALL=C; echo ${#x}");
	shell_open_terminal(&sh);
	shell_run(&sh, text.data);
	EQ(sh.outcome, DONE);
	(void)snprintf(size, sizeof(size), "%d\r\n", 300000 * 4);
	STREQ(sh.text[0].data, size);
	shell_close(&sh);
}

TEST(an_interrupt_key_ends_the_command)
{
	struct shell sh;
	struct warren_error err;

	shell_open_terminal(&sh);
	for (int i = 0; i < 3; i++) {
		static const char *const texts[] = {
			"echo begun; sleep 100; echo not reached",
			"echo begun; while :; do :; done", "f() { echo begun; cat; }; f"
		};

		sh.got = false;
		sh.text[0].len = 0;
		EQ(shellproto_feed(sh.s, texts[i], strlen(texts[i]), &sh.unsent,
				   &sh.serial, &err),
		   0);
		while (sh.text[0].len == 0)
			shell_pump(&sh, -1);
		/* A shell that is about to start a program may miss the first interrupt.
		 */
		while (!sh.got) {
			uint64_t until = clock_now() + 500000000;

			EQ(write(sh.in, "\003", 1), 1);
			while (!sh.got && clock_now() < until)
				shell_pump(&sh, 50);
		}
		EQ(sh.code, 130);
		OK(!strstr(sh.text[0].data, "reached"));
		CHECK(&sh, { "echo alive", DONE, 0, "alive\r\n" });
	}
	shell_close(&sh);
}

TEST_MAIN()
