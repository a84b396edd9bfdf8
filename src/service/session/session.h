/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - shells in a sandbox that keep their state between commands
 *
 *	session.c		opens a session, runs a command, closes it
 *	session_read.c		reads the output of a command, and its result
 *	session_stop.c		stops a command
 *	session_renew.c		gives a session a new shell after a hibernation
 *	session_restore.c	restores the sessions of an earlier process
 *	session_marker.c	the secret that distinguishes a result from output
 *	session_terminal.c	a bash on a terminal, as SWE-ReX uses it
 */
#ifndef SERVICE_SESSION_SESSION_H
#define SERVICE_SESSION_SESSION_H

#include "service/exec/exec.h"

struct session;

extern const struct service_module session_hooks;

typedef void (*session_fn)(void *ctx, struct session *session,
			   const struct warren_error *err);

/*
 * Open a session. @shell is a name or a path; NULL: bash, or sh if there is no bash. On a
 * terminal (start->pty), it must be bash. start->undoable: each of its commands can be
 * undone (session_row()). Calls @done when the shell accepts commands.
 */
void session_open(struct sandbox *sandbox, const struct exec_start *start,
		  const char *shell, session_fn done, void *ctx);
struct session *session_find(struct sandbox *sandbox, const char *id);
/* The session after @after; @after NULL: the first. Returns NULL after the last. */
struct session *session_next(struct sandbox *sandbox, struct session *after);
const struct session_row *session_row(const struct session *session);
/*
 * Get the number of the session's exec: unique in the sandbox, and greater than all
 * earlier numbers.
 */
uint64_t session_number(const struct session *session);
const char *session_cwd(const struct session *session);
const char *session_state(const struct session *session); /* "idle", "busy", "ended" */

struct session_result {
	uint64_t serial;
	int exit_code;
	const char *cwd; /* NULL: the shell ended */
	uint64_t lost, wall_usec;
	bool timed_out, interrupted, syntax_error, ended;
	bool new_state; /* the shell is a new one, because the sandbox hibernated */
};

/*
 * A command that a caller waits for. The caller provides its memory until result() or
 * session_forget().
 */
struct session_command {
	void (*output)(struct session_command *c, int stream, const void *data, size_t n);
	/* @lost bytes are missing here; it is unknown from which stream. */
	void (*gap)(struct session_command *c, uint64_t lost);
	void (*result)(struct session_command *c, const struct session_result *result);
	void *ctx;
	/* If the caller sets it, it gets no more output until session_go_on(). */
	bool blocked;
	struct session *session; /* private */
};

/*
 * Prepare a session for a command: wake its sandbox, and give it a new shell if the shell
 * ended with a hibernation. @done gets -ENOENT if the session does not exist any more.
 */
void session_use(struct sandbox *sandbox, const char *id, service_done_fn done,
		 void *ctx);
/* Like sandbox_use(), and the session of this name, if there is one, gets a shell. */
void session_use_named(struct sandbox *sandbox, const char *name, service_done_fn done,
		       void *ctx);
/* Return whether the shell ended with a hibernation; session_use() starts another. */
bool session_renews(const struct session *session);
/*
 * Set the number from undo_settle() of the command that the caller runs next. 0: that
 * command makes it impossible to undo an earlier one.
 */
void session_undoable(struct session *session, uint32_t undo);
/*
 * Run a command. -EBUSY: a command is running; -EPIPE: the shell has ended. @timeout_ms
 * 0: no timeout.
 */
int session_run(struct session *session, const char *text, size_t n, uint64_t timeout_ms,
		struct session_command *command, struct warren_error *err);
void session_forget(struct session_command *command);
void session_go_on(struct session_command *command);
void session_interrupt(struct session *session, int sig);
/* Close the session and kill all its processes. */
void session_close(struct session *session, service_done_fn done, void *ctx);
/* On a terminal: type text while a command runs. */
void session_type(struct session *session, const char *text, size_t n);
/* The current end of its output in the journal of its exec. */
uint64_t session_cursor(const struct session *session);

#endif /* SERVICE_SESSION_SESSION_H */
