/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-shellproto-typed.c - a command has the same effect as if its lines were typed one
 * after the other
 *
 * Every shell is tested with both transports. The code around a command must not be
 * visible in any message, trap or line number.
 */
#include "lib/shell.h"

#define NAME "typed" /* Warren's names in the shell begin with "_typed" */

static const char *const shells[] = { "bash", "dash", "busybox" };

static void name(struct shellproto *s)
{
	shellproto_name(s, NAME);
}

static void open_named(struct shell *sh, enum shellproto_transport t, const char *program)
{
	shell_prepare = name;
	shell_open(sh, t, program);
	EQ(sh->outcome, SHELLPROTO_READY);
}

/* Check the output of @text; none of it may come from the code around it. */
static void check(struct shell *sh, const char *text, enum shellproto_outcome outcome,
		  int code, const char *out, const char *err)
{
	shell_run(sh, text);
	if (sh->outcome != outcome || sh->code != code ||
	    (out && strcmp(sh->text[0].data, out) != 0) ||
	    (err && (*err ? !strstr(sh->text[1].data, err) : sh->text[1].len > 0)) ||
	    strstr(sh->text[0].data, "_" NAME) || strstr(sh->text[1].data, "_" NAME))
		TAP_FAIL("'%.100s': %s, code %d, out '%.300s', err '%.300s'", text,
			 session_outcome_names[sh->outcome], sh->code, sh->text[0].data,
			 sh->text[1].data);
}

#define EACH(sh, i, t)                                                                   \
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)                                  \
		for (int t = SHELLPROTO_CONTROL; t <= SHELLPROTO_FRAMED; t++)            \
			for (open_named(&(sh), (enum shellproto_transport)t, shells[i]); \
			     (sh).s; shell_close(&(sh)), (sh).s = NULL)

#define EACH_BASH(sh, t)                                                              \
	for (int t = SHELLPROTO_CONTROL; t <= SHELLPROTO_FRAMED; t++)                 \
		for (open_named(&(sh), (enum shellproto_transport)t, "bash"); (sh).s; \
		     shell_close(&(sh)), (sh).s = NULL)

TEST(a_line_sees_changes_of_the_line_before)
{
	struct shell sh;

	EACH(sh, i, t)
	{
		check(&sh, "alias hi='echo aliased'\nhi", SHELLPROTO_DONE, 0, "aliased\n",
		      "");
		check(&sh, "unalias hi\nhi() { echo f; }\nhi", SHELLPROTO_DONE, 0, "f\n",
		      "");
	}
	EACH_BASH(sh, t)
	{
		check(&sh,
		      "cd /proc/self/attr 2>/dev/null || cd /; shopt -s extglob\n"
		      "case ab in +(a|b)) echo glob;; esac",
		      SHELLPROTO_DONE, 0, "glob\n", "");
		check(&sh, "shopt -u extglob\nx=(1 2)\necho ${x[1]}", SHELLPROTO_DONE, 0,
		      "2\n", "");
	}
}

TEST(break_and_continue_outside_of_a_loop_do_no_harm)
{
	struct shell sh;

	EACH(sh, i, t)
	{
		bool bash = i == 0;
		/* Whatever a shell reports, it continues. */
		check(&sh, "break; echo on", SHELLPROTO_DONE, 0, "on\n",
		      bash ? "only meaningful" : NULL);
		check(&sh, "continue 3; echo on", SHELLPROTO_DONE, 0, "on\n",
		      bash ? "only meaningful" : NULL);
		check(&sh, "for i in 1 2 3; do break; done; echo $i", SHELLPROTO_DONE, 0,
		      "1\n", "");
	}
}

/* A command that SIGINT ends keeps its output, and the shell adds no newline. */
TEST(an_interrupt_adds_nothing_to_the_output)
{
	static const char *const texts[] = {
		"printf x; printf begun >&2; sleep 100",
		"printf x; printf begun >&2; sleep 100; echo no",
		"printf x; printf begun >&2\nsleep 100\necho no"
	};
	struct shell sh;

	EACH(sh, i, t)
	for (size_t k = 0; k < ARRAY_SIZE(texts); k++) {
		shell_feed(&sh, texts[k], strlen(texts[k]));
		while (sh.text[1].len < 5 && !sh.got)
			shell_pump(&sh, -1);
		while (!sh.got) {
			shell_step(&sh, SHELLPROTO_STEP_INTERRUPT);
			(void)shell_patience(&sh, 300);
		}
		EQ(sh.outcome, SHELLPROTO_INTERRUPTED);
		STREQ(sh.text[0].data, "x");
	}
}

TEST(an_error_message_shows_only_the_users_text)
{
	struct shell sh;

	EACH(sh, i, t)
	{
		check(&sh, "echo 1; )", SHELLPROTO_SYNTAX, 2, "", ")");
		check(&sh, "case x in", SHELLPROTO_SYNTAX, 2, "", NULL);
	}
	shell_prepare = name;
	EACH_BASH(sh, t)
	{
		/* A text always begins with line 1, also after other texts. */
		for (int i = 0; i < 3; i++) {
			check(&sh, "fi", SHELLPROTO_SYNTAX, 2, "",
			      "line 1: syntax error near unexpected token `fi'");
			check(&sh, "echo 1\necho 2\nfi", SHELLPROTO_SYNTAX, 2, "1\n2\n",
			      "line 3: `fi'");
			check(&sh, "false\n", SHELLPROTO_DONE, 1, "", "");
			check(&sh, "echo $?\n\n\nfi", SHELLPROTO_SYNTAX, 2, "1\n",
			      "line 4: `fi'");
		}
		check(&sh, "set -x", SHELLPROTO_DONE, 0, "", "");
		check(&sh, "echo 1\nfi", SHELLPROTO_SYNTAX, 2, "1\n", "line 2: `fi'");
		check(&sh, "set +x; nosuch", SHELLPROTO_DONE, 127, "",
		      "bash: nosuch: command not found\n");
	}
}

TEST(a_debug_trap_applies_only_to_the_users_commands)
{
	struct shell sh;

	EACH_BASH(sh, t)
	{
		check(&sh, "trap 'echo dbg' DEBUG", SHELLPROTO_DONE, 0, "", "");
		check(&sh, "true", SHELLPROTO_DONE, 0, "dbg\n", "");
		check(&sh, "echo a; echo b\necho c", SHELLPROTO_DONE, 0,
		      "dbg\na\ndbg\nb\ndbg\nc\n", "");
		check(&sh, "false", SHELLPROTO_DONE, 1, "dbg\n", "");
		check(&sh, "echo $?", SHELLPROTO_DONE, 0, "dbg\n1\n", "");
		check(&sh, "trap -p DEBUG", SHELLPROTO_DONE, 0,
		      "dbg\ntrap -- 'echo dbg' DEBUG\n", "");
		check(&sh, "fi", SHELLPROTO_SYNTAX, 2, "", "line 1: `fi'");
		check(&sh, "trap - DEBUG", SHELLPROTO_DONE, 0, "dbg\n", "");
		check(&sh, "trap -p DEBUG; true", SHELLPROTO_DONE, 0, "", "");
	}
}

/* A list of so many commands would exceed a shell's stack. */
TEST(every_line_of_a_text_is_run)
{
	enum {
		LINES = 100000
	};
	AUTO_BUF struct buf text = BUF_INIT(4U << 20);
	struct shell sh;

	for (int i = 0; i < LINES; i++)
		buf_puts(&text, "n=$((n+1))\n");
	buf_puts(&text, "echo $n; (exit 5)");
	EACH(sh, i, t)
	check(&sh, text.data, SHELLPROTO_DONE, 5, "100000\n", "");
}

TEST(a_text_may_be_empty_or_end_without_a_newline)
{
	struct shell sh;

	EACH(sh, i, t)
	{
		check(&sh, "", SHELLPROTO_DONE, 0, "", "");
		check(&sh, "\n\n", SHELLPROTO_DONE, 0, "", "");
		check(&sh, "# nothing", SHELLPROTO_DONE, 0, "", "");
		check(&sh, "echo a \\", SHELLPROTO_DONE, 0, NULL, "");
		OK(strncmp(sh.text[0].data, "a", 1) == 0);
		check(&sh, "cat <<E\nx\nE", SHELLPROTO_DONE, 0, "x\n", "");
		/* A here-document without its end marker ends with the text; bash warns.
		 */
		check(&sh, "cat <<E\nx", SHELLPROTO_DONE, 0, NULL, NULL);
		OK(strncmp(sh.text[0].data, "x", 1) == 0);
		check(&sh, "false", SHELLPROTO_DONE, 1, "", "");
		check(&sh, "", SHELLPROTO_DONE, 0, "", "");
	}
}

/* -e applies to failures, not to a requested exit status. */
TEST(a_nonzero_exit_status_is_not_a_failure)
{
	struct shell sh;

	EACH(sh, i, t)
	{
		check(&sh, "set -e; ! true", SHELLPROTO_DONE, 1, "", "");
		check(&sh, "true && ! true", SHELLPROTO_DONE, 1, "", "");
		check(&sh, "if false; then :; fi\nfalse || true", SHELLPROTO_DONE, 0, "",
		      "");
		check(&sh, "echo on\nfalse\necho no", SHELLPROTO_ENDED, 1, "on\n", "");
	}
}

/* The descriptors for results have numbers that a text can close. */
TEST(a_text_may_close_internal_descriptors)
{
	static const char *const texts[] = { "exec 10>&-", "exec 11>&-", "exec 12>&-",
					     "exec 255>&-" };
	struct shell sh;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		open_named(&sh, SHELLPROTO_CONTROL, "bash");
		shell_run(&sh, texts[i]);
		if (sh.outcome != SHELLPROTO_DONE)
			TAP_FAIL("'%s' ended it", texts[i]);
		for (int n = 0; n < 3; n++)
			check(&sh, "echo alive; echo e >&2", SHELLPROTO_DONE, 0,
			      "alive\n", "e\n");
		check(&sh, "echo $(/bin/ls /proc/self/fd)", SHELLPROTO_DONE, 0, NULL, "");
		OK(strncmp(sh.text[0].data, "0 1 2 3", 7) == 0);
		shell_close(&sh);
	}
	/* If both are closed, or the only one of a stream, the shell ends, and this is
	 * reported. */
	for (size_t i = 0; i < 2; i++) {
		open_named(&sh, i ? SHELLPROTO_FRAMED : SHELLPROTO_CONTROL, "bash");
		shell_run(&sh, i ? "exec 10>&-" : "exec 10>&- 11>&-");
		EQ(sh.outcome, SHELLPROTO_ENDED);
		shell_close(&sh);
	}
}

TEST(an_unterminated_substitution_is_a_syntax_error)
{
	struct shell sh;

	EACH(sh, i, t)
	for (int n = 0; n < 5; n++) {
		check(&sh, "echo $(", SHELLPROTO_SYNTAX, 2, "", NULL);
		check(&sh, "echo $(true\necho ran", SHELLPROTO_SYNTAX, 2, "", NULL);
		check(&sh, "echo ${", SHELLPROTO_SYNTAX, 2, "", NULL);
		check(&sh, "echo \"$(echo '(')\"", SHELLPROTO_DONE, 0, "(\n", "");
	}
}

TEST(a_program_that_is_not_a_shell_is_detected)
{
	struct shell sh;

	/*
	 * zsh is recognised by this variable. A real zsh reads its script to the end
	 * first, and never starts.
	 */
	OK(setenv("ZSH_VERSION", "5.9", 1) == 0);
	for (int t = SHELLPROTO_CONTROL; t <= SHELLPROTO_FRAMED; t++) {
		shell_open(&sh, (enum shellproto_transport)t, "dash");
		EQ(sh.outcome, SHELLPROTO_ENDED);
		EQ(sh.code, SHELLPROTO_EXIT_REFUSED);
		shell_close(&sh);
	}
	OK(unsetenv("ZSH_VERSION") == 0);
	shell_open(&sh, SHELLPROTO_CONTROL, "dash");
	EQ(sh.outcome, SHELLPROTO_READY);
	shell_close(&sh);
}

/* Another bash replaces the shell, and is used. */
TEST(a_shell_that_replaces_the_shell_is_used)
{
	static const char *const texts[] = { "exec bash", "x=1; exec bash --norc",
					     "echo a\nexec /bin/bash -i\n",
					     "exec -l bash --norc" };
	struct shell sh;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		shell_prepare = NULL;
		shell_open_terminal(&sh);
		shell_run(&sh, "kept=5; export also=6");
		shell_run(&sh, texts[i]);
		EQ(sh.outcome, SHELLPROTO_DONE);
		EQ(sh.code, 0);
		shell_run(&sh, "echo \"[$kept]\" $also; false");
		EQ(sh.outcome, SHELLPROTO_DONE);
		EQ(sh.code, 1);
		STREQ(sh.text[0].data, "[] 6\r\n");
		shell_run(&sh, "exit 3");
		EQ(sh.outcome, SHELLPROTO_ENDED);
		EQ(sh.code, 3);
		shell_close(&sh);
	}
	/* A text that only looks similar is not affected. */
	shell_open_terminal(&sh);
	shell_run(&sh, "kept=5; false && exec bash");
	EQ(sh.outcome, SHELLPROTO_DONE);
	shell_run(&sh, "echo $kept");
	STREQ(sh.text[0].data, "5\r\n");
	shell_run(&sh, "exec bash -c 'exit 4'");
	EQ(sh.outcome, SHELLPROTO_ENDED);
	EQ(sh.code, 4);
	shell_close(&sh);
}

TEST_MAIN()
