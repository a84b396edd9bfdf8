/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shellproto.h - the protocol of a shell that keeps its state: commands and results over
 * byte streams
 *
 * A session is a shell from the image. It runs one command after another and keeps its
 * state between them: directory, variables, functions, options, jobs. These functions
 * implement only the protocol. The caller starts the process, transfers the bytes and
 * measures the time.
 *
 *	session_new -> ( start argv, write shellproto_start() ) ->
 *		( shellproto_feed -> write -> shellproto_on_bytes ... result )* ->
 *		shellproto_on_exit
 *
 * There are three transports:
 *
 * SHELLPROTO_CONTROL, if the shell can have additional descriptors. The shell reads its
 * commands from SHELLPROTO_COMMAND_FD (a pipe) and writes results to SHELLPROTO_RESULT_FD
 * (a pipe, stream 3); stdin, stdout and stderr belong to the commands. The shell's user
 * must be able to open the pipe at SHELLPROTO_COMMAND_FD again through /proc (fchmod(2)
 * it to 0444). The caller must pass output of stdout and stderr to these functions before
 * the result that follows it.
 *
 * SHELLPROTO_FRAMED, if there are only stdin, stdout and stderr. Commands go to stdin; a
 * marker of 128 random bits, new for each command, ends its output on both streams.
 * Commands have /dev/null for stdin.
 *
 * SHELLPROTO_TERMINAL, for programs that need a terminal. It needs bash, which reads the
 * startup files of an interactive shell. Commands are typed as lines that are short
 * enough for any terminal. A marker begins and ends the output of a command: stdout and
 * stderr together, as the stream SHELLPROTO_STDOUT. A command reads input that is typed
 * while it runs.
 *
 * Only the shell can report a result, at the end of the command. The secret that
 * identifies a result is new for each command. It is in the line of the command, which
 * the shell parses before the command begins; while the command runs, it is in no
 * variable, no history and no descriptor. So neither the text of the command nor a
 * process that it started can report the end of the command early, or fake its result or
 * that of a later command. There are three exceptions. A process that the kernel allows
 * to trace the shell (same user: ptrace(2), /proc/PID/mem, /proc/PID/fd) can make it
 * report anything. Text that the shell itself runs can choose its own result (for example
 * with `exit`) and that of later commands (for example with a DEBUG trap). At a terminal
 * the text can claim that an error stopped it, and a process left from an earlier command
 * can read what is typed next.
 *
 * In all three transports, a command and the processes it starts have none of Warren's
 * descriptors: the shell opens its script itself, close-on-exec, and moves the other
 * descriptors away while a command runs. The numbers 6, 7 and 8 are reserved for Warren:
 * a command may use them, but they are closed at its end.
 *
 * A command has the same effect as if its lines were typed, one after the other, at a
 * prompt of the shell:
 *
 *	- a line is read, then run, then the next one is read. So a change by one line
 *	  (an alias, `shopt -s extglob`) affects the next. A line that cannot be parsed
 *	  ends the command (SHELLPROTO_SYNTAX), and the lines before it have run. At a
 *	  terminal, whose clients expect it, all lines are parsed first, and none runs.
 *	- an error that would end a script (an unset variable under `set -u`, ${x?}, an
 *	  assignment to a readonly variable) ends its line; in a shell other than bash,
 *	  the command; never the shell.
 *	- `exit`, `exec`, and a failure under `set -e` end the shell as they do anywhere:
 *	  SHELLPROTO_ENDED, with its exit code. In a shell other than bash, `return`
 * outside of a function ends the shell too. At a terminal, `exec bash` at the end of a
 *	  command replaces the shell.
 *	- a construct that is open at the end of the text (a here-document, a backslash)
 *	  ends with it. Errors count lines from the first line of the text. A DEBUG trap
 *	  shows output only for the command's own lines; it runs once or twice more at
 *	  the end, silently.
 *
 * There are these differences. Warren sets a trap for SIGINT, which `trap` shows; without
 * it an interrupt ends the shell. The output of `set -x` shows one more level of nesting.
 * In a shell other than bash, `set -n` takes effect: nothing runs after it, not even the
 * report of a result, and the session can only be ended. A command that closes
 * descriptors that it did not open may close those of the shell. With the control
 * transport, the shell survives the loss of one descriptor; the loss of more ends it.
 *
 * All data from the shell is untrusted: lengths are bounded, and the shell can report
 * nothing that the caller's own command could not also cause.
 */
#ifndef SHELLPROTO_SHELLPROTO_H
#define SHELLPROTO_SHELLPROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define SHELLPROTO_COMMAND_FD \
	6 /* the shell reads the output of shellproto_start() and _feed() */
#define SHELLPROTO_RESULT_FD   7 /* the shell writes stream SHELLPROTO_RESULTS */
#define SHELLPROTO_COMMAND_MAX (16U << 20)
/* Exit status of a shell that is not suitable. */
#define SHELLPROTO_EXIT_REFUSED 121
/* Maximum bytes of a quoted command. */
#define SHELLPROTO_OUT_MAX (4 * SHELLPROTO_COMMAND_MAX + 65536)

enum shellproto_transport {
	SHELLPROTO_CONTROL,
	SHELLPROTO_FRAMED,
	SHELLPROTO_TERMINAL,
};

/* In order of preference: start the first one that exists. */
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
	SHELLPROTO_READY,       /* serial 0: the shell has started and can be fed */
	SHELLPROTO_DONE,        /* the command ran to its end */
	SHELLPROTO_SYNTAX,      /* a line has a syntax error; stderr says which and why */
	SHELLPROTO_ABORTED,     /* at a terminal: a shell error stopped the command */
	SHELLPROTO_INTERRUPTED, /* a SIGINT stopped the command; exit_code is 130 */
	SHELLPROTO_ENDED,       /* the shell has ended, with exit_code */
	SHELLPROTO_OUTCOME_MAX,
};

extern const char *const session_outcome_names[SHELLPROTO_OUTCOME_MAX];

struct shellproto_result {
	uint64_t serial;
	enum shellproto_outcome outcome;
	int exit_code;
	const char *cwd; /* as the shell reports it; any byte except NUL. NULL: ENDED */
};

/* Called from shellproto_on_bytes() and shellproto_on_exit(). */
struct shellproto_events {
	/* Output of a command or, between commands, of a background job. */
	void (*output)(void *arg, enum shellproto_stream stream, const void *data,
		       size_t n);
	void (*result)(void *arg, const struct shellproto_result *r);
};

struct shellproto;

/* The program to start, NULL-terminated. The caller looks argv[0] up in PATH. */
const char *const *shellproto_argv(enum shellproto_transport transport,
				   enum shellproto_shell shell);

int shellproto_new(enum shellproto_transport transport,
		   const struct shellproto_events *events, void *arg,
		   struct shellproto **ret, struct warren_error *err);
/*
 * Warren's names in the shell begin with a prefix, which is random or derived from @id
 * (letters and digits). With the same @id, another process can take over the session.
 */
void shellproto_name(struct shellproto *s, const char *id);
/*
 * A result is identified by a marker (with the control transport, a key), which is random
 * or comes from @make. @make must return the same bytes for the same @serial, and a
 * command must not be able to predict them. Another process that takes over the session
 * then knows the marker. @make gets the arg of shellproto_new().
 */
#define SHELLPROTO_MARKER_SIZE 16
void shellproto_markers(struct shellproto *s,
			void (*make)(void *arg, uint64_t serial,
				     uint8_t ret[SHELLPROTO_MARKER_SIZE]));
/*
 * Take over a running shell: call this instead of shellproto_start(), after
 * shellproto_markers(). @serial commands were fed to the shell, and the result of the
 * last command is still expected, or must be reported again.
 */
void shellproto_resume(struct shellproto *s, uint64_t serial);
/*
 * Control transport: whether @record (of SHELLPROTO_RESULTS) is the result of the running
 * command.
 */
bool shellproto_is_result(const struct shellproto *s, const char *record, size_t n);
struct shellproto *shellproto_free(struct shellproto *s);
void shellproto_freep(struct shellproto **s);

/* Append the first input of the shell to @out. Its answer is the result with serial 0. */
int shellproto_start(struct shellproto *s, struct buf *out, struct warren_error *err);

/*
 * Append a command to @out in the form that the shell reads. Return 0 and its serial;
 * -EBUSY while another runs, -EPIPE if the shell accepts no more commands, -EINVAL for a
 * NUL byte, -E2BIG if it is too long.
 */
int shellproto_feed(struct shellproto *s, const char *text, size_t n, struct buf *out,
		    uint64_t *ret_serial, struct warren_error *err);

/* Process bytes from the shell. -EPROTO: they violate the protocol; end the process. */
int shellproto_on_bytes(struct shellproto *s, enum shellproto_stream stream,
			const void *data, size_t n, struct warren_error *err);
/*
 * SHELLPROTO_RESULTS has ended, because of `exec program` or because the command closed a
 * descriptor that it did not open. No more commands can be fed; the result comes with the
 * exit of the process.
 */
void shellproto_on_eof(struct shellproto *s, enum shellproto_stream stream);
/*
 * The process has ended, and all of its output was processed. This gives the running
 * command its result.
 */
void shellproto_on_exit(struct shellproto *s, int exit_code);

bool shellproto_running(const struct shellproto *s); /* a command or the start */
bool shellproto_alive(
	const struct shellproto *s); /* accepts commands, now or after the running one */
int shellproto_pid(const struct shellproto *s); /* pid inside; 0: unknown yet */

/*
 * Steps to stop a command, after an interrupt or a timeout, without ending the shell and
 * the jobs of earlier commands. Take the steps in order, and wait some time for the
 * result after each. Repeat the first one a few times, because a shell between two
 * commands of a function needs more than one SIGINT. A command that installed a trap for
 * INT decides by itself what the first step does.
 */
enum shellproto_step {
	SHELLPROTO_STEP_INTERRUPT, /* SIGINT to all; the shell drops the rest */
	SHELLPROTO_STEP_KILL,      /* SIGKILL to all except background jobs */
	SHELLPROTO_STEP_KILL_ALL,  /* SIGKILL to everything that the command started */
	SHELLPROTO_STEP_END,       /* SIGKILL to the shell: the session ends */
	SHELLPROTO_STEP_MAX,
};

/* A process of the exec, including the shell; from /proc/<pid>/stat and status. */
struct shellproto_process {
	int pid, ppid;
	uint64_t start;   /* field 22 of stat: ticks since the machine started */
	bool ignores_int; /* bit 1 of SigIgn, set for jobs started with & */
};

/*
 * Choose which of @procs to signal at @step: @pids (space for @n) gets their pids,
 * *@ret_signal the signal. Return how many. @since is the time in ticks when the command
 * was fed: older processes are jobs of earlier commands, and so are those that the shell
 * reported as such ($!).
 */
size_t shellproto_victims(const struct shellproto *s, enum shellproto_step step,
			  uint64_t since, const struct shellproto_process *procs,
			  size_t n, int *pids, int *ret_signal);
/*
 * Write a script for `sh -c` that does the same as shellproto_victims(), for platforms
 * where only another exec can reach the processes. It needs only /proc and a shell, and
 * does not find processes that have left the shell's process tree.
 */
void shellproto_stop_script(const struct shellproto *s, enum shellproto_step step,
			    struct buf *out);

#endif /* SHELLPROTO_SHELLPROTO_H */
