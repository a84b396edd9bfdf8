/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.h - commands in a sandbox: start, write, read, signal, end
 *
 *	exec.c			start and end
 *	exec_argv.c		the command line in the row of an exec
 *	exec_control.c		signals, input and the size of the terminal
 *	exec_stdin.c		writes to an exec's stdin or terminal
 *	exec_output.c		reads its output, for readers that come and go
 *	exec_result.c		results that wait for space on the disk
 *	exec_restore.c		finds execs again after a restart or a broken connection
 *	journals.c		the disk space of a sandbox's journals
 *	journal_pool.c		empty files for output, created in advance
 *	journal_limit.c		keeps journals within their limit
 *	journal_remove.c	removes unneeded journals on a thread
 *	journal_sweep.c		finds and removes journals without an exec
 *	main_command.c		a sandbox's main command
 *	sandbox_hibernate.c	stops a sandbox and saves its files
 *	sandbox_reset.c		discards the files of a sandbox, and starts it again
 *	sandbox_stop.c		stops and starts a sandbox
 */
#ifndef SERVICE_EXEC_EXEC_H
#define SERVICE_EXEC_EXEC_H

#include "proto/journal_read.h"
#include "service/core/service.h"

struct exec;
struct proto_process;

extern const struct service_module exec_hooks;

struct exec_start {
	const char *const *argv; /* NULL-terminated */
	const char *const *env;  /* NULL: none */
	bool env_only;           /* do not add the sandbox's variables */
	const char *cwd, *user;  /* NULL: those of the sandbox */
	bool account;            /* set USER and LOGNAME, as a login does */
	bool pty;
	uint16_t rows, cols;
	bool input;       /* stdin is a pipe for clients to write to */
	bool session;     /* the exec is the shell of a session */
	const char *name; /* name of that session; NULL: none */
	/*
	 * The exec gets a descriptor for commands, and its results are stream 3
	 * (src/shellproto).
	 */
	bool control;
	bool main;     /* the exec is the sandbox's main command */
	bool undoable; /* keep the files first, so that they can be restored: undo.h */
	bool hold;     /* keep all output for a reader that will call exec_hold() */
	/*
	 * A file to create in the working directory first, in a sandbox with
	 * exec_brings_file(); NULL: none. The name has no slash.
	 */
	const char *file;
	const void *content;
	size_t content_size; /* at most EXEC_FILE_MAX */
	uint64_t timeout_ms;
	uint64_t journal;            /* bytes of output kept; 0: the default */
	struct warren_limits limits; /* only for this exec; 0: those of the sandbox */
};

#define EXEC_FILE_MAX (64U << 10)

/* Return whether an exec in this sandbox can create a file first (exec_start.file). */
bool exec_brings_file(const struct sandbox *sandbox);

typedef void (*exec_fn)(void *ctx, struct exec *exec, const struct warren_error *err);

/*
 * Start an exec. Calls @done with the exec once its program was executed, or with NULL
 * and an error. The exec exists until its sandbox is deleted.
 */
void exec_start(struct sandbox *sandbox, const struct exec_start *start, exec_fn done,
		void *ctx);
/*
 * The exec @id of @sandbox, running or ended, or NULL. The caller releases it with
 * exec_unref().
 */
struct exec *exec_of_sandbox(struct sandbox *sandbox, const char *id);
struct exec *exec_ref(struct exec *exec);
struct exec *exec_unref(struct exec *exec);
const struct exec_row *exec_row(const struct exec *exec);
struct sandbox *exec_sandbox(const struct exec *exec); /* NULL: the sandbox is gone */
/* The pid of its first process inside the sandbox; 0: unknown. */
int exec_pid(const struct exec *exec);
/*
 * The exec that an earlier process of the service started, that has ended, and that had
 * this pid; NULL: none. It is known for some minutes. The caller releases it with
 * exec_unref().
 */
struct exec *exec_find_away(struct sandbox *sandbox, int pid);
/*
 * Find that pid, even if the backend did not report it. Calls @fn once, at once or later,
 * with 0 if the process has ended.
 */
void exec_find_pid(struct exec *exec, void (*fn)(void *ctx, int pid), void *ctx);
/*
 * Call @fn for each running exec of the sandbox until it returns true. Return that exec,
 * which is borrowed, or NULL.
 */
struct exec *exec_each_running(struct sandbox *sandbox,
			       bool (*fn)(void *ctx, struct exec *exec), void *ctx);
/* Return whether the sandbox ended before the exec did, so that the result is unknown. */
bool exec_lost(const struct exec *exec);
/*
 * Return whether the disk was full when the exec ended, so that the last part of its
 * output is not in the journal. It follows when there is space.
 */
bool exec_output_waits(const struct exec *exec);
/*
 * Get the start and the current end of the exec's output. -errno: the output cannot be
 * read, and both are 0. 1: *@ret_to may be too low, because finding the end takes too
 * long for one call; a later call continues.
 */
int exec_extent(struct exec *exec, uint64_t *ret_from, uint64_t *ret_to);

/*
 * Get a descriptor of the exec's journal, to read it on another thread with
 * journal_read(); or -errno.
 */
int exec_dup_journal(struct exec *exec);

/* Calls @w with the exec once, when it or its sandbox has ended. */
void exec_wait(struct exec *exec, struct waiter *w);
void exec_wait_cancel(struct waiter *w);

/* @whom is an enum warren_whom. */
void exec_signal(struct exec *exec, int sig, int whom, service_done_fn done, void *ctx);
void exec_close_input(struct exec *exec, service_done_fn done, void *ctx);
int exec_resize(struct exec *exec, uint16_t rows, uint16_t cols,
		struct warren_error *err);
/*
 * Get the size of the exec's terminal; false: it has no terminal any more. Watchers are
 * called when the size changes.
 */
bool exec_size(const struct exec *exec, uint16_t *ret_rows, uint16_t *ret_cols);
/*
 * Get a borrowed descriptor for writing to the exec's stdin or terminal. @done gets -1 if
 * there is none.
 */
void exec_input(struct exec *exec, sandbox_fd_fn done, void *ctx);
/*
 * Write to its stdin or terminal; @end also closes stdin. Calls @done when the data is in
 * the pipe.
 */
void exec_feed(struct exec *exec, const void *data, size_t size, bool end,
	       service_done_fn done, void *ctx);
/*
 * The same for data of any size from a client that need not wait: it counts in the
 * tenant's memory until it is in the pipe. @done gets -ENOBUFS if that is used up.
 */
void exec_feed_shared(struct exec *exec, const void *data, size_t size,
		      service_done_fn done, void *ctx);
/* Get the exec's current descriptors for input; borrowed; -1: none. */
int exec_input_fd(const struct exec *exec);
int exec_poke_fd(const struct exec *exec);

/* ------------------------------------------------------------------- output */

/*
 * Read a piece of an exec's output from @cursor, like warren_exec_output(). Each reader
 * has its own @hint, which is initially zero. -EINPROGRESS (@err is not set): the search
 * takes too long for one turn of the loop; call again in a later turn, with loop_later().
 * Watchers are called from the loop when there may be more output.
 */
int exec_output(struct exec *exec, uint64_t cursor, struct journal_hint *hint, void *buf,
		size_t size, struct warren_output *ret, struct warren_error *err);

int exec_watch(struct exec *exec, struct waiter *w, struct warren_error *err);
void exec_watch_cancel(struct waiter *w);

/*
 * While an exec is held, no output from @cursor on is dropped: if the journal is full,
 * the exec waits. If there are several holders, the lowest cursor counts.
 */
struct exec_holder {
	uint64_t cursor;
	struct exec *exec; /* private from here */
	struct exec_holder *next;
};

void exec_hold(struct exec *exec, struct exec_holder *h, uint64_t cursor);
/* Record that the reader has read all output before @cursor. */
void exec_hold_move(struct exec_holder *h, uint64_t cursor);
void exec_hold_cancel(struct exec_holder *h);

/* ------------------------------------------------------------- for sessions */

/* Copy @from with its strings; argv may be NULL and is then empty. */
int exec_start_copy(struct exec_start *to, const struct exec_start *from);
void exec_start_done(struct exec_start *s);
/* List the processes of an exec. Calls @fn once, with none if they cannot be listed. */
void exec_list(struct exec *exec,
	       void (*fn)(void *ctx, const struct proto_process *list, size_t n),
	       void *ctx);
void exec_signal_one(struct exec *exec, int sig, int pid, service_done_fn done,
		     void *ctx);
/* Delete the exec of a closed session once its shell has ended. */
void exec_forget_closed(struct sandbox *sandbox, const char *exec, const char *journal);
/* Bytes of output that are kept if struct exec_start does not say. */
uint64_t exec_journal_default(const struct service *s);

/* --------------------------------------------------------- stop and start */

/*
 * Stop all processes of a sandbox and keep its files: send SIGTERM, and after @grace_ms
 * (0: at once) SIGKILL. No process runs in the sandbox until sandbox_start(), which runs
 * its main command again. Calling either twice is not an error.
 */
void sandbox_stop(struct sandbox *sandbox, uint64_t grace_ms, service_done_fn done,
		  void *ctx);
void sandbox_start(struct sandbox *sandbox, service_done_fn done, void *ctx);
/*
 * End all processes, discard all files that were written, and start the sandbox again
 * from its image, with the same id.
 */
void sandbox_reset(struct sandbox *sandbox, service_done_fn done, void *ctx);

#endif /* SERVICE_EXEC_EXEC_H */
