/* SPDX-License-Identifier: Apache-2.0 */
/*
 * script.c - the shell's side of a session
 *
 * A shell runs its script from a pipe, line by line, so a session needs no loop: each
 * command is a line of the script, and `break`, `return` or an error in a command cannot
 * leave any construct of Warren. Every @ below becomes a token of the session, so that no
 * name that a user chooses is one of Warren's. Variables:
 *
 *	@k	"builtin" or "command": calls a builtin even if a function has its name.
 *		It is quoted where it is used, so that aliases and IFS have no effect
 *	@t	the text of the command; at a terminal it is @t and @u
 *	@w	the state of the command: empty before it begins, then "7",
 *		"d<status>" at its end, "s" after a syntax error, "i" once it is
 *		interrupted, "I" while that is being reported. In a report it is empty
 *		for "s", and "-" if an error at a terminal ended the command
 *	@n	the serial or the key; @e the status; @a and @b the halves of the marker,
 *		which are empty for the control transport
 *	@d	for bash: skips the rest of an interrupted command
 *	@D	for bash: the user's DEBUG trap, which is removed between commands
 *	@y	"=": shows a session that the shell has the functions below; with a
 *		"+" in a bash that has `read -N` (shellproto.c)
 *	@z	a status of eval, other than 2, that may mean a syntax error
 *	@r	the report, for a session that does not know yet what the shell has
 *
 * Functions, in which a DEBUG trap does not run:
 *
 *	@R	the end of a command: its status is $?, its arguments are @n, @a and @b
 *	@P	the report itself; @W writes the record, @M only the marker, and @A writes
 *		one of them again to its descriptor if an interrupt came in between
 *	@C	for bash: check whether the text can be parsed; if this shell cannot parse
 *		it, a new shell tries, and prints the error
 *	@s	(defined by the line that needs it) sets $? to the previous status
 *
 * The line of a command is
 *
 *	@t='<text>';{ "$@k" eval "$@t" 7>&"${@w:=7}" 7>&-;} 8>&-;{ @R <key>;} 2>/dev/null
 *
 * The text is the only argument of its eval, which reads and runs it line by line, as if
 * it were typed. No text of Warren is before or after it that an error message could
 * show, that a here-document could include, or that a `break` could leave. It is not a
 * compound command, whose parts a shell would keep on its stack. The redirection records
 * that the command begins, without a separate command. Every shell continues after the
 * eval when an error occurs: dash and busybox because with `command`, eval is not a
 * special builtin, and bash because it is interactive. (It gets a script at the same
 * time, `bash -i script`, so there are no prompts and no readline.) `2>/dev/null` hides
 * the output of `set -x`.
 *
 * To find out whether a status of 2 means a syntax error, a subshell afterwards tries to
 * define a function with the text as its body.
 *
 * SIGINT: in dash and busybox, a trap raises an error inside the eval. In bash, an error
 * in a trap ends only the trap. There, the trap breaks out of all loops, and sets a DEBUG
 * trap that breaks out of the enclosing loops and, by failing (extdebug), skips all
 * commands up to those of Warren, which contain @e or @R. Before and after a command, @w
 * is neither "7" nor "i", and the trap does nothing. (An earlier version used "-" instead
 * of "7", and a session of that version may still use this shell.)
 */
#include <string.h>

#include "shellproto/shellproto_internal.h"

/*
 * Both scripts first restore the shell's own stderr (see RUN), and close the script's
 * descriptor, of which the shell has a copy. Results have two descriptors, because a
 * command that closes descriptors it did not open may close the one that was moved away.
 */
const char script_control[] = "exec 2>&9 9>&- 6<&- 8>&7\n";

const char script_framed[] = "exec 2>&9 9>&- 7>&1 8>&2 6<&0 </dev/null\n";

/*
 * First, disable history expansion (`!`). Prompts are shown between commands, when no
 * client reads. By default a terminal drops all data that it has not shown yet on ^C
 * (noflsh), including the report of an earlier command.
 */
const char script_terminal[] = "set +o history +H; PS1= PS2= PS0=\n"
			       "stty -echo noflsh 2>/dev/null\n"
			       "exec 7>&1 8>/dev/null\n";

/*
 * An interactive bash that is interrupted, or finds an error, goes back to its prompt and
 * forgets the rest of the line, with the report in it. So the prompt reports the result,
 * if the line has not.
 */
const char script_terminal_end[] =
	"trap - INT\n"
	"PROMPT_COMMAND='{ @e=$?;case $@w in 7) @w=-;\"$@k\" eval \"$@r\";;esac;} 2>/dev/null'\n";

const char script_common[] =
	/* clang-format off */
	"@w= @a= @b= @y== @z=2 @t= @u= @D=\n"
	"case ${BASH_VERSION+x} in\n"
	"x)\n"
		"@k=builtin\n"
		"case $BASH_VERSION in [123].*|4.0*) ;; *) @y=+=;; esac\n"
		"case $BASH_VERSION in [1234].*) @z=1;; esac\n"
		/*
		 * This is quoted, because other shells cannot parse it and also read the
		 * whole script.
		 */
		"eval '@C() {\n"
			"( \"$@k\" eval \"@f() {\n$@t$@u\n}\" ) >/dev/null 2>&1 ||\n"
			"\"$BASH\" --norc --noprofile -n <<<\"$@t$@u\" 7>&- 8>&- 6<&-\n"
		"}'\n"
		"set +o history +H\n"
		"shopt -s execfail\n" /* so that a mistyped `exec` does not end the shell */
		"@d='case $@w.$BASH_COMMAND in\n"
			"i.*@e*|i.*@R*) @w=I;;\n"
			"i.*) ! \\builtin break 9999 2>/dev/null;;\n"
		"esac'\n"
		"trap 'case $@w in [-7i])\n"
			"@w=i\n"
			"\\builtin shopt -s extdebug\n"
			"\\builtin trap \"$@d\" DEBUG\n"
			"\\builtin break 9999 2>/dev/null\n"
		"esac' INT\n"
		";;\n"
	"*)\n"
		"@k=command\n"
		"trap 'case $@w in [-7])\n"
			"@w=i\n"
			"{ : \"${@unset?}\"; } 2>/dev/null\n"
		"esac' INT\n"
		";;\n"
	"esac\n"
	/*
	 * Use a single write, so that output of a background job to the same pipe cannot
	 * split the record. The directory comes last: it may contain any byte except NUL,
	 * which ends a record. The shell's PWD is used if it is correct.
	 */
	"@W() {\n"
	"\"$@k\" printf \"%s%s%s %s %s %s %s %s %s\\000\" \"$@a\" \"$@b\" \"$@n\" \"$@e\""
		" \"$@w\" \"${!-}\" \"$$\" \"$-$@y\" \"$@c\"\n"
	"}\n"
	"@M() { \"$@k\" printf \"%s%s\" \"$@a\" \"$@b\"; }\n"
	/*
	 * If the pipe is full, an interrupt makes the write fail. In that case, nothing
	 * was written.
	 */
	"@A() {\n"
	"for @i in 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9; do\n"
		"case $1 in 7) @W >&7;; *) @M >&8;; esac && \"$@k\" return\n"
	"done\n"
	"\"$@k\" return 1\n"
	"}\n"
	"@P() {\n"
		"if \"$@k\" test \"${PWD-}\" -ef .; then @c=$PWD; else @c=$(\"$@k\" pwd); fi\n"
		"case $@w$@e in [-7]2|[-7]$@z) case $@t$@u in ?*)\n"
			"( \"$@k\" eval \"@f() {\n$@t$@u\n}\" ) >/dev/null 2>&1 || @w=s\n"
		"esac; esac\n"
		/*
		 * This form is also understood by earlier versions, one of which may have
		 * to read the last report.
		 */
		"case $@w in s) @w= @e=2;; 7) @w=d$@e;; esac\n"
		/*
		 * A shell that cannot report the result of a command is useless, so it
		 * exits.
		 */
		"case $@a in\n"
		"?*) { @W >&7 || @A 7; } && { @M >&8 || @A 8; } || \"$@k\" exit 1;;\n"
		"*) @W >&7 || { @W >&8 && \\exec 7>&8; } || \"$@k\" exit 1\n"
			"\"$@k\" test -e /proc/self/fd/8 || \\exec 8>&7;;\n"
		"esac\n"
		"case $- in *[vx]*) \"$@k\" set +vx;; esac\n"
		/*
		 * A history would contain the next line, which includes the secret of its
		 * result.
		 */
		"case $@k.${SHELLOPTS-} in builtin.*history*) \"$@k\" set +o history;; esac\n"
		"case $@w in I) \"$@k\" trap - DEBUG; \"$@k\" shopt -u extdebug; @D=;; esac\n"
		"@w= @t= @u=\n"
	"}\n"
	"@R() { @e=$? @n=$1 @a=${2-} @b=${3-}; @P; }\n"
	"@r=@P\n";
/* clang-format on */

/*
 * The shell reads its script with `.`, except in bash (which is /bin/sh in some images),
 * because its `.` reads the whole file first.
 *
 * An interactive bash without a terminal prints a warning to stderr before it reads its
 * script, so stderr is redirected until then. Both the bash that does this and the bash
 * of the session run with -p, so they ignore files that the environment names.
 */
#define BASH_OPTIONS "--norc", "--noprofile", "-p", "-c"
#define BASH_AGAIN   " --norc --noprofile -i +m "
#define KEEP_STDERR  "exec 9>&2; "
/* zsh reads a script to its end before it begins, and its builtins differ from POSIX. */
#define REFUSE_ZSH "case ${ZSH_VERSION+x} in x) exit 121;; esac; "
#define RUN(file)                                                                      \
	REFUSE_ZSH KEEP_STDERR "case ${BASH_VERSION+x} in x) unset ENV; exec -a bash " \
			       "/proc/self/exe" BASH_AGAIN file " 2>/dev/null;; esac;" \
			       " . " file
#define RUN_BASH(file) KEEP_STDERR "exec \"$0\"" BASH_AGAIN file " 2>/dev/null"

/*
 * stdin may be a socket, or a pipe of another user, which cannot be opened by its name.
 * In that case, it is replaced by a pipe of this user. dd copies the data, because
 * busybox's cat uses sendfile(2), which locks the pipe while it waits for the socket. No
 * process waits for dd: it ends with stdin, after the shell.
 */
#define STDIN "/proc/self/fd/0"
#define FRAMED                                                                           \
	"run='" RUN(STDIN) "'; if { true <" STDIN "; } 2>/dev/null; then eval \"$run\";" \
			   " else exec 3<&0; { dd bs=65536 <&3 3<&- 2>/dev/null & } |"   \
			   " { exec 3<&-; exec \"$0\" -c \"$run\" \"$0\"; }; fi"

/*
 * At a terminal, readline would draw the typed text. There is no terminal variant for sh.
 */
static const char *const argvs[][SHELLPROTO_SHELL_MAX][8] = {
	[SHELLPROTO_CONTROL] = {
		[SHELLPROTO_BASH] = { "bash", BASH_OPTIONS, RUN_BASH("/proc/self/fd/6") },
		[SHELLPROTO_SH] = { "sh", "-c", RUN("/proc/self/fd/6"), "sh" },
	},
	[SHELLPROTO_FRAMED] = {
		[SHELLPROTO_BASH] = { "bash", BASH_OPTIONS, FRAMED },
		[SHELLPROTO_SH] = { "sh", "-c", FRAMED, "sh" },
	},
	[SHELLPROTO_TERMINAL] = {
		[SHELLPROTO_BASH] = { "bash", "--noediting", "-i", "+m" },
	},
};

const char *const *shellproto_argv(enum shellproto_transport transport,
				   enum shellproto_shell shell)
{
	return argvs[transport][shell];
}

void script_add(struct buf *out, const struct shellproto *s, const char *template)
{
	for (const char *at; (at = strchr(template, '@')); template = at + 1) {
		buf_add(out, template, (size_t)(at - template));
		buf_puts(out, s->token);
	}
	buf_puts(out, template);
}
