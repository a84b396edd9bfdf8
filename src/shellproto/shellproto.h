/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shellproto.h - a stateful shell: commands in, results out, over any stream of bytes
 *
 * A session is a shell of the image's own that is given one command after another and
 * keeps its state between them: directory, variables, functions, options, jobs. This is
 * only the protocol. The caller starts the process, moves the bytes and measures the
 * time.
 *
 *	session_new -> ( start argv, write shellproto_start() ) ->
 *		( shellproto_feed -> write -> shellproto_on_bytes ... result )* ->
 *		shellproto_on_exit
 *
 * Two transports:
 *
 * SHELLPROTO_CONTROL, where the shell can be given descriptors. It reads its commands
 * from SHELLPROTO_COMMAND_FD (a pipe) and writes results to SHELLPROTO_RESULT_FD (a pipe,
 * stream 3); stdin, stdout and stderr belong to the commands. The pipe behind
 * SHELLPROTO_COMMAND_FD must be one that the shell's user may open again by way of /proc
 * (fchmod(2) it to 0444). The caller must pass on the contents of stdout and stderr
 * before the result that came after them.
 *
 * SHELLPROTO_FRAMED, where there are only stdin, stdout and stderr. Commands go to stdin;
 * a marker of 128 random bits, new for each command, ends its output on both streams.
 * Commands have /dev/null for stdin.
 *
 * SHELLPROTO_TERMINAL, where there is a terminal, for programs that want one: bash alone,
 * with the startup files of an interactive one. Commands are typed, as lines that no
 * terminal is too small for, and a marker begins and ends what the terminal shows of a
 * command: stdout and stderr in one, as the one stream SHELLPROTO_STDOUT. A command reads
 * what is typed while it runs.
 *
 * Only the shell can report a result, at the end of the command. The secret that
 * identifies a result is new for each command and is in the command's own line, which the
 * shell has parsed before the command begins; it is in no variable, no history and no
 * descriptor while the command runs. So neither the text of the command nor a process
 * that it started can end it early, or answer for it or for a later one. There are three
 * exceptions. A process that the kernel lets trace the shell (of the same user:
 * ptrace(2), /proc/PID/mem, /proc/PID/fd) can make it say anything. Text that the shell
 * itself runs can choose its own result (for example with `exit`) and that of later
 * commands (for example with a DEBUG trap). At a terminal the text can claim that an
 * error stopped it, and a process that was left behind can read from the terminal what is
 * typed next.
 *
 * In all three, the command and the processes it starts have none of Warren's
 * descriptors: the shell opens its script by itself, close-on-exec, and puts the others
 * away for the time of a command. The numbers 6, 7 and 8 are reserved for Warren: a
 * command may use them, but they do not outlast it.
 *
 * A command means what it would if its lines were typed, one after the other, at a prompt
 * of the shell:
 *
 *	- a line is read, then run, then the next one is read. So a change by one line
 *	  (an alias, `shopt -s extglob`) affects the next. A line that cannot be parsed
 *	  ends the command (SHELLPROTO_SYNTAX), and the lines before it have run. At a
 *	  terminal, whose clients expect it, all lines are parsed first, and none runs.
 *	- an error that would end a script (an unset variable under `set -u`, ${x?}, an
 *	  assignment to a readonly variable) ends its line; in a shell other than bash,
 *	  the command; never the shell.
 *	- `exit`, `exec`, and a failure under `set -e` end the shell as they do anywhere:
 *	  SHELLPROTO_ENDED, with its exit code. So does `return` outside of a function in
 *	  a shell other than bash. At a terminal, `exec bash` at the end of a command
 *	  replaces the shell.
 *	- a construct that is open at the end of the text (a here-document, a backslash)
 *	  ends with it. Errors count lines from the first line of the text. A DEBUG trap
 *	  shows output only for the command's own lines; it runs once or twice more at
 *	  the end, silently.
 *
 * with these differences: SIGINT has a trap of Warren's, which `trap` shows and without
 * which an interrupt ends the shell; `set -x` shows one level more; `set -n` in a shell
 * that is not bash is obeyed: nothing runs after it, results included, and the session
 * can only be ended. A command that closes descriptors which it did not open may close
 * those of the shell: one alone is survived where there is a control transport, more end
 * the shell.
 *
 * Everything from the shell is untrusted: lengths are bounded, and it can claim nothing
 * that the caller's own command could not have claimed anyway.
 */
#ifndef SHELLPROTO_SHELLPROTO_H
#define SHELLPROTO_SHELLPROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define SHELLPROTO_COMMAND_FD \
	6 /* the shell reads: what shellproto_start() and _feed() wrote */
#define SHELLPROTO_RESULT_FD   7 /* the shell writes: stream SHELLPROTO_RESULTS */
#define SHELLPROTO_COMMAND_MAX (16U << 20)
/* Exit status of a shell that cannot be used, instead of getting ready. */
#define SHELLPROTO_EXIT_REFUSED 121
#define SHELLPROTO_OUT_MAX      (4 * SHELLPROTO_COMMAND_MAX + 65536) /* a command, quoted */

enum shellproto_transport {
	SHELLPROTO_CONTROL,
	SHELLPROTO_FRAMED,
	SHELLPROTO_TERMINAL,
};

/* In order of preference: start the first; where there is no such program, the next. */
enum shellproto_shell {
	SHELLPROTO_BASH,
	SHELLPROTO_SH,
	SHELLPROTO_SHELL_MAX,
};

enum shellproto_stream {
	SHELLPROTO_STDOUT = 1,
	SHELLPROTO_STDERR = 2,
	SHELLPROTO_RESULTS = 3,
};

enum shellproto_outcome {
	SHELLPROTO_READY,  /* serial 0: the shell has started and can be fed */
	SHELLPROTO_DONE,   /* ran to its end */
	SHELLPROTO_SYNTAX, /* a line of it is no valid shell; stderr says which and why */
	SHELLPROTO_ABORTED, /* at a terminal: an error of the shell's stopped it; it says
			       which */
	SHELLPROTO_INTERRUPTED, /* a SIGINT stopped it; exit_code is 130 */
	SHELLPROTO_ENDED,       /* the shell is gone; exit_code is how */
	SHELLPROTO_OUTCOME_MAX,
};

extern const char *const session_outcome_names[SHELLPROTO_OUTCOME_MAX];

struct shellproto_result {
	uint64_t serial;
	enum shellproto_outcome outcome;
	int exit_code;
	const char *cwd; /* as the shell names it; any byte but NUL. NULL: ENDED */
};

/* Called from shellproto_on_bytes() and shellproto_on_exit(). */
struct shellproto_events {
	/* Of a command, or, between commands, of a job in the background. */
	void (*output)(void *arg, enum shellproto_stream stream, const void *data,
		       size_t n);
	void (*result)(void *arg, const struct shellproto_result *r);
};

struct shellproto;

/* What to start, NULL-terminated. argv[0] is to be looked for in PATH. */
const char *const *shellproto_argv(enum shellproto_transport transport,
				   enum shellproto_shell shell);

int shellproto_new(enum shellproto_transport transport,
		   const struct shellproto_events *events, void *arg,
		   struct shellproto **ret, struct warren_error *err);
/*
 * Our names in the shell begin with a word that is random, or made of @id (letters and
 * digits): with the same one a session can be taken up by another process.
 */
void shellproto_name(struct shellproto *s, const char *id);
/*
 * What a result is known by (a marker; on the control transport a key) is random, or made
 * by @make, which then returns the same for the same @serial, and nothing that a command
 * could foresee: so another process that takes the session up knows what the shell will
 * say. With session_new()'s arg.
 */
#define SHELLPROTO_MARKER_SIZE 16
void shellproto_markers(struct shellproto *s,
			void (*make)(void *arg, uint64_t serial,
				     uint8_t ret[SHELLPROTO_MARKER_SIZE]));
/*
 * Instead of shellproto_start(), after shellproto_markers(): the shell runs, @serial
 * commands were fed to it, and the result of the last is still to come, or to be passed
 * on again.
 */
void shellproto_resume(struct shellproto *s, uint64_t serial);
/*
 * Of the control transport: is @record (of SHELLPROTO_RESULTS) one of the command that
 * runs?
 */
bool shellproto_is_result(const struct shellproto *s, const char *record, size_t n);
struct shellproto *shellproto_free(struct shellproto *s);
void shellproto_freep(struct shellproto **s);

/* Append the first input of the shell to @out. Its answer is the result with serial 0. */
int shellproto_start(struct shellproto *s, struct buf *out, struct warren_error *err);

/*
 * One command, added to @out in the form in which it is written to the shell. Returns 0
 * with its serial; -EBUSY while another runs, -EPIPE when the shell takes no more,
 * -EINVAL for a NUL byte, -E2BIG.
 */
int shellproto_feed(struct shellproto *s, const char *text, size_t n, struct buf *out,
		    uint64_t *ret_serial, struct warren_error *err);

/*
 * Bytes that came from the shell. -EPROTO: no shell of ours said that; end the process.
 */
int shellproto_on_bytes(struct shellproto *s, enum shellproto_stream stream,
			const void *data, size_t n, struct warren_error *err);
/*
 * SHELLPROTO_RESULTS ended: by `exec program`, or because the command closed what it did
 * not open. Nothing can be fed any more; the result comes with the exit of the process.
 */
void shellproto_on_eof(struct shellproto *s, enum shellproto_stream stream);
/* The process ended, after all of its output: what was running has its result now. */
void shellproto_on_exit(struct shellproto *s, int exit_code);

bool shellproto_running(const struct shellproto *s); /* a command, or the start */
bool shellproto_alive(
	const struct shellproto *s);            /* can be fed, now or after what runs */
int shellproto_pid(const struct shellproto *s); /* as it is inside; 0: not known yet */

/*
 * Stopping a command, by an interrupt or a timeout, while the shell and the jobs of
 * earlier commands live on. Take the steps in order, with some time after each for the
 * result to come; repeat the first one a few times, because a shell between two commands
 * of a function needs more than one SIGINT. A command that installed a trap for INT
 * decides by itself what the first step does.
 */
enum shellproto_step {
	SHELLPROTO_STEP_INTERRUPT, /* SIGINT: the shell too, which drops the rest of the
				      command */
	SHELLPROTO_STEP_KILL,      /* SIGKILL: what was not started in the background */
	SHELLPROTO_STEP_KILL_ALL,  /* SIGKILL: all that the command started */
	SHELLPROTO_STEP_END,       /* SIGKILL: the shell. The session ends */
	SHELLPROTO_STEP_MAX,
};

/* A process of the exec, the shell included; from /proc/<pid>/stat and status. */
struct shellproto_process {
	int pid, ppid;
	uint64_t start;   /* field 22 of stat: ticks since the machine started */
	bool ignores_int; /* bit 1 of SigIgn: as the shell starts what ends in & */
};

/*
 * Which of @procs to signal at @step: their pids go to @pids (room for @n), the signal to
 * *@ret_signal; returns how many. @since is the time in ticks when the command was fed:
 * older ones are jobs of earlier commands, and so is what the shell reported as such
 * ($!).
 */
size_t shellproto_victims(const struct shellproto *s, enum shellproto_step step,
			  uint64_t since, const struct shellproto_process *procs,
			  size_t n, int *pids, int *ret_signal);
/*
 * The same as a script for `sh -c`, where processes can be reached by another exec only.
 * It needs /proc and nothing but the shell, and does not see what has left the shell's
 * tree.
 */
void shellproto_stop_script(const struct shellproto *s, enum shellproto_step step,
			    struct buf *out);

#endif /* SHELLPROTO_SHELLPROTO_H */
