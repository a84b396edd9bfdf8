/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.h - commands in a sandbox: start, write, read, signal, end
 *
 *	exec.c			start and end
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
 *	sandbox_stop.c		stops and starts a sandbox
 */
#ifndef SERVICE_EXEC_EXEC_H
#define SERVICE_EXEC_EXEC_H

#include "proto/journal_read.h"
#include "service/core/service.h"

struct exec;
struct proto_process;

extern const struct service_room exec_hooks;

struct exec_start {
	const char *const *argv; /* NULL-terminated */
	const char *const *env;  /* NULL: none */
	bool env_only;           /* without the sandbox's variables */
	const char *cwd, *user;  /* NULL: the sandbox's */
	bool pty;
	uint16_t rows, cols;
	bool input;       /* stdin is a pipe that can be written to */
	bool session;     /* the shell of one */
	const char *name; /* the name of that session; NULL */
	bool control;     /* for src/shellproto: commands in, results as stream 3 */
	bool main;        /* the sandbox's main command: noted there */
	bool hold;        /* keep its output for a reader that will call exec_hold() */
	uint64_t timeout_ms;
	uint64_t journal;            /* bytes kept; 0: the default */
	struct warren_limits limits; /* of this exec alone; 0: those of the sandbox */
};

typedef void (*exec_fn)(void *ctx, struct exec *exec, const struct warren_error *err);

/*
 * Start it; @done with the exec once its program was executed, or with NULL and
 * why it could not be. The exec stays until its sandbox is deleted.
 */
void exec_start(struct sandbox *sandbox, const struct exec_start *start, exec_fn done,
		void *ctx);
/*
 * The exec @id of @sandbox, running or not, or NULL. The reference is the caller's:
 * exec_unref().
 */
struct exec *exec_of_sandbox(struct sandbox *sandbox, const char *id);
struct exec *exec_ref(struct exec *exec);
struct exec *exec_unref(struct exec *exec);
const struct exec_row *exec_row(const struct exec *exec);
struct sandbox *exec_sandbox(const struct exec *exec); /* NULL: it is gone */
/* Its sandbox ended before it did: how is not known. */
bool exec_lost(const struct exec *exec);
/*
 * Where its output begins and ends at present; both 0 if that cannot be read: -errno. 1:
 * it ends there at the earliest, because its init does not report the end; a later call
 * returns more.
 */
int exec_extent(struct exec *exec, uint64_t *ret_from, uint64_t *ret_to);

/* Its journal, to read it on another thread with journal_read(); or -errno. */
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
 * The size of its terminal; false: it no longer has one. Watchers are called when it
 * changes.
 */
bool exec_size(const struct exec *exec, uint16_t *ret_rows, uint16_t *ret_cols);
/* Where to write to its stdin or terminal; borrowed. @done with -1 when it has none. */
void exec_input(struct exec *exec, sandbox_fd_fn done, void *ctx);
/* Write to it, and with @end close stdin; @done when it is in the pipe. */
void exec_feed(struct exec *exec, const void *data, size_t size, bool end,
	       service_done_fn done, void *ctx);
/* Its current descriptors for input; borrowed; -1: none. */
int exec_input_fd(const struct exec *exec);
int exec_poke_fd(const struct exec *exec);

/* ------------------------------------------------------------------- output */

/*
 * A piece of what an exec wrote, from @cursor on: as warren_exec_output(). @hint is this
 * reader's own, and zero at first. -EINPROGRESS (without an error): finding it takes too
 * long for one turn; call again in a later one, with loop_later(). A watcher is called
 * from the loop when there may be more.
 */
int exec_output(struct exec *exec, uint64_t cursor, struct journal_hint *hint, void *buf,
		size_t size, struct warren_output *ret, struct warren_error *err);

int exec_watch(struct exec *exec, struct waiter *w, struct warren_error *err);
void exec_watch_cancel(struct waiter *w);

/*
 * While it is held, no output from @cursor on is dropped: an exec that has filled its
 * journal waits. Of several holders, the slowest counts.
 */
struct exec_holder {
	uint64_t cursor;
	struct exec *exec; /* private from here on */
	struct exec_holder *next;
};

void exec_hold(struct exec *exec, struct exec_holder *h, uint64_t cursor);
/* Output before @cursor was read. */
void exec_hold_move(struct exec_holder *h, uint64_t cursor);
void exec_hold_cancel(struct exec_holder *h);

/* ------------------------------------------------------------- for sessions */

/* Copies the strings too; argv may be NULL, and is then empty. */
int exec_start_copy(struct exec_start *to, const struct exec_start *from);
void exec_start_done(struct exec_start *s);
/* The processes of an exec. Calls @fn once, with none if they cannot be listed. */
void exec_list(struct exec *exec,
	       void (*fn)(void *ctx, const struct proto_process *list, size_t n),
	       void *ctx);
void exec_signal_one(struct exec *exec, int sig, int pid, service_done_fn done,
		     void *ctx);
/* Delete the shell of a closed session: once it has ended, it is not needed any more. */
void exec_forget_closed(struct sandbox *sandbox, const char *exec, const char *journal);
/* Bytes of an exec's output that are kept if its start does not say. */
uint64_t exec_journal_default(const struct service *s);

/* --------------------------------------------------------- stop and start */

/*
 * All processes end, its files stay: SIGTERM, after @grace_ms (0: at once) SIGKILL.
 * Nothing runs in it until sandbox_start(), which runs its main command again. Calling
 * either twice is not an error.
 */
void sandbox_stop(struct sandbox *sandbox, uint64_t grace_ms, service_done_fn done,
		  void *ctx);
void sandbox_start(struct sandbox *sandbox, service_done_fn done, void *ctx);

#endif /* SERVICE_EXEC_EXEC_H */
