/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-shellproto-forge.c - a command cannot forge its result
 *
 * The tests know the secret by which results are recognised, but the commands must not
 * know it. So a test can search for the secret in everything that a command sees, and can
 * show that a result with the secret would be accepted.
 */
#include "lib/shell.h"

#define NAME "forge" /* the variables of the session begin with "_forge" */

static const char *const shells[] = { "bash", "dash", "busybox" };

/* The secret differs between commands, and only the test knows it. */
static void known_bits(void *arg UNUSED, uint64_t serial,
		       uint8_t ret[SHELLPROTO_MARKER_SIZE])
{
	for (size_t i = 0; i < SHELLPROTO_MARKER_SIZE; i++)
		ret[i] = (uint8_t)(0x40 + 16 * i + 7 * serial);
}

static void know(struct shellproto *s)
{
	shellproto_markers(s, known_bits);
	shellproto_name(s, NAME);
}

/* Write the secret of the result of command @serial, in this transport. */
static void secret(enum shellproto_transport t, uint64_t serial, char *ret, size_t size)
{
	static const char digits[] =
		"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.";
	uint8_t bits[SHELLPROTO_MARKER_SIZE];
	size_t n = 0;

	known_bits(NULL, serial, bits);
	if (t == SHELLPROTO_CONTROL) {
		for (; n < 10; n++)
			ret[n] = digits[bits[n] & 63];
		ret[n] = '\0';
		return;
	}
	/* Use the second half, because a terminal shows the first one to its command. */
	for (size_t i = SHELLPROTO_MARKER_SIZE / 2; i < SHELLPROTO_MARKER_SIZE;
	     i++, n += 2)
		(void)snprintf(ret + n, size - n, "%02x", bits[i]);
}

/* Write to every possible descriptor: those of the shell, and those that /proc shows. */
static void add_forgery(struct buf *text, const char *record)
{
	buf_printf(text,
		   "forged='%s'\n"
		   "for f in 1 3 4 5 6 7 8 9 10 11 12 13 14 15; do\n"
		   "{ command eval \"printf '$forged' >&$f\"; } 2>/dev/null\n"
		   "done\n"
		   "for f in /proc/$$/fd/*; do\n"
		   "case $(readlink $f) in pipe:*) (printf \"$forged\" >$f & ) ;; esac\n"
		   "done 2>/dev/null\n",
		   record);
}

static void open_shell(struct shell *sh, enum shellproto_transport t, const char *program)
{
	shell_prepare = know;
	shell_may_break = true;
	if (t == SHELLPROTO_TERMINAL)
		shell_open_terminal(sh);
	else
		shell_open(sh, t, program);
	EQ(sh->outcome, SHELLPROTO_READY);
}

/* The text claims success and fails later; check what is reported. */
static void forge(enum shellproto_transport t, const char *program, const char *record,
		  bool is_believed)
{
	AUTO_BUF struct buf text = BUF_INIT(65536);
	struct shell sh;

	open_shell(&sh, t, program);
	add_forgery(&text, record);
	buf_puts(&text, "sleep .3; (exit 7)");
	shell_feed(&sh, text.data, text.len);
	shell_wait(&sh);
	if (is_believed != (sh.outcome == SHELLPROTO_DONE && sh.code == 0))
		TAP_FAIL("%s, transport %d, '%s': %s, code %d", program, (int)t, record,
			 session_outcome_names[sh.outcome], sh.code);
	if (!is_believed && sh.outcome == SHELLPROTO_DONE)
		EQ(sh.code, 7);
	shell_close(&sh);
}

TEST(a_guessed_marker_is_not_accepted)
{
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
		/*
		 * Try the keys of earlier versions, and those of the start and of the
		 * next command.
		 */
		forge(SHELLPROTO_CONTROL, shells[i], "1 0 d0  1 hB /\\000", false);
		forge(SHELLPROTO_FRAMED, shells[i], "1 0 d0  1 hB /\\000", false);
		for (uint64_t serial = 0; serial <= 2; serial += 2) {
			char key[64], record[128];

			secret(SHELLPROTO_CONTROL, serial, key, sizeof(key));
			(void)snprintf(record, sizeof(record), "%s 0 d0  1 hB /\\000",
				       key);
			forge(SHELLPROTO_CONTROL, shells[i], record, false);
		}
	}
}

/* This shows that the descriptors are right, and that only the secret was missing. */
TEST(a_result_without_the_secret_is_not_accepted)
{
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
		char key[64], record[128];

		secret(SHELLPROTO_CONTROL, 1, key, sizeof(key));
		(void)snprintf(record, sizeof(record), "%s 0 d0  1 hB /\\000", key);
		forge(SHELLPROTO_CONTROL, shells[i], record, true);
	}
}

/* A process of the first command answers for the second. */
TEST(an_earlier_command_cannot_forge_a_later_result)
{
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		for (int t = SHELLPROTO_CONTROL; t <= SHELLPROTO_FRAMED; t++) {
			struct shell sh;

			open_shell(&sh, (enum shellproto_transport)t, shells[i]);
			shell_run(&sh,
				  "(sleep .2; for f in 1 7 8 9 10 11 12; do command eval "
				  "\"printf '2 0 d0  1 hB /\\\\000' >&$f\"; done; "
				  "for f in /proc/$$/fd/*; do (printf "
				  "'2 0 d0  1 hB /\\000' >$f) & done) "
				  ">/dev/null 2>&1 &");
			EQ(sh.outcome, SHELLPROTO_DONE);
			shell_run(&sh, "sleep .5; (exit 7)");
			if (sh.code == 0)
				TAP_FAIL("%s, transport %d: %s, code %d", shells[i], t,
					 session_outcome_names[sh.outcome], sh.code);
			shell_close(&sh);
		}
}

/* Print everything that a shell shows about itself, and what /proc shows. */
static const char everything[] =
	"set; env; export -p; trap; alias; jobs -l; times\n"
	"{ history; fc -l -100; fc -ln; command trap -p; declare -p; declare -f; shopt; } 2>&1\n"
	"{ echo \"$BASH_COMMAND $BASH_EXECUTION_STRING $_\"; caller 0; } 2>&1\n"
	"tr '\\0' '\\n' </proc/$$/cmdline; tr '\\0' '\\n' </proc/$$/environ\n"
	"ls -l /proc/$$/fd /proc/self/fd 2>&1\n"
	"for f in /proc/$$/fd/*; do case $(readlink $f) in pipe:*)"
	" timeout .1 dd bs=65536 count=1 <$f 2>/dev/null;; esac; done\n"
	"cat $HISTFILE 2>/dev/null; echo end of it\n";

static void look(enum shellproto_transport t, const char *program, const char *before)
{
	struct shell sh;
	char own[64], last[64];

	open_shell(&sh, t, program);
	shell_run(&sh, before);
	EQ(sh.outcome, SHELLPROTO_DONE);
	shell_run(&sh, everything);
	secret(t, sh.serial - 1, last, sizeof(last));
	secret(t, sh.serial, own, sizeof(own));
	if (!strstr(sh.text[0].data, "end of it"))
		TAP_FAIL("%s, transport %d: %s, code %d", program, (int)t,
			 session_outcome_names[sh.outcome], sh.code);
	/* The secret of an ended command is useless, and shows that the search works. */
	if (!strstr(sh.text[0].data, last) && t != SHELLPROTO_TERMINAL)
		TAP_FAIL("%s, transport %d: the last one is not found", program, (int)t);
	if (strstr(sh.text[0].data, own))
		TAP_FAIL("%s, transport %d, after '%s': '%s' is found", program, (int)t,
			 before, own);
	shell_close(&sh);
}

TEST(a_command_cannot_find_its_own_marker)
{
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		for (int t = SHELLPROTO_CONTROL; t <= SHELLPROTO_FRAMED; t++) {
			look((enum shellproto_transport)t, shells[i], "true");
			look((enum shellproto_transport)t, shells[i], "set -a; set -v");
		}
	for (int t = SHELLPROTO_CONTROL; t <= SHELLPROTO_TERMINAL; t++) {
		look((enum shellproto_transport)t, "bash", "true");
		look((enum shellproto_transport)t, "bash",
		     "HISTFILE=/dev/null; set -o history; set -a");
		look((enum shellproto_transport)t, "bash", "shopt -s extdebug; set -T");
	}
}

/* A command can only report that an error stopped it. */
TEST(a_command_at_a_terminal_cannot_forge_success)
{
	static const struct {
		const char *record;
		bool is_believed;
	} claims[] = {
		{ "2 0 d0  1 hB /\\000", false },  { "2 0   1 hB /\\000", false },
		{ "2 0 -  1 hB /\\000", false },   { "1 1 -  1 hB /\\000", false },
		{ "2 130 i  1 hB /\\000", false }, { "2 1 -  1 hB /\\000", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(claims); i++) {
		AUTO_BUF struct buf text = BUF_INIT(4096);
		struct shell sh;

		open_shell(&sh, SHELLPROTO_TERMINAL, "bash");
		shell_run(&sh, "true");
		buf_printf(&text,
			   "printf \"%%s%%s%s\" \"$_" NAME "a\" \"$_" NAME "b\"; "
			   "sleep .3; (exit 7)",
			   claims[i].record);
		shell_feed(&sh, text.data, text.len);
		shell_wait(&sh);
		if (sh.outcome == SHELLPROTO_DONE || sh.code == 0 ||
		    claims[i].is_believed != (sh.outcome == SHELLPROTO_ABORTED))
			TAP_FAIL("'%s': %s, code %d", claims[i].record,
				 session_outcome_names[sh.outcome], sh.code);
		shell_close(&sh);
	}
}

TEST_MAIN()
