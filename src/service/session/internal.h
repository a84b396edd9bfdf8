/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - the struct of a session, for the files of this module */
#ifndef SERVICE_SESSION_INTERNAL_H
#define SERVICE_SESSION_INTERNAL_H

#include "service/core/module.h"
#include "service/session/session.h"
#include "shellproto/shellproto.h"

/* A start in progress, which tries one shell after another. */
struct opening {
	struct exec_start start; /* a copy, without its argv */
	enum shellproto_shell kind;
	char *own; /* the requested shell; NULL: bash, or sh if there is no bash */
	const char *argv[16];
};

struct session {
	struct service *service;
	struct session *next;    /* next in the list of the sandbox */
	struct sandbox *sandbox; /* NULL: the sandbox is gone */
	struct session_row row;
	struct exec *exec;
	/* While session_renew.c starts a shell: the exec of the one that ended. */
	struct exec *before;
	char *shell_before;     /* its name */
	struct exec *discarded; /* of a shell that failed; its row still names it */
	unsigned tries;         /* how often a hibernation ended a shell that began */
	bool recorded;          /* it has a row */
	bool brief;             /* counted in sandbox->n_brief */
	struct shellproto *codec;
	struct opening *opening; /* NULL: the session is open */
	uint32_t undoable;       /* see session_undoable() */
	uint32_t undo; /* number of its command in undo.c; 0: it is not undoable */
	bool framed;   /* results are part of the shell's output */
	bool terminal; /* the session is framed and has a terminal */
	struct session_terminal *session_terminal; /* user of the terminal; NULL: none */
	char *cwd;
	uint64_t cursor; /* position in its journal */
	struct waiter watcher;
	struct waiter waiter;
	struct buf out; /* input of the shell that does not fit into its pipe yet */
	size_t sent;
	struct loop_watch *out_watch;
	/* Used first for the command's timeout, then for the steps of a stop. */
	struct loop_timer *timer;
	struct loop_timer *again; /* timer for another attempt to read output */
	struct loop_task turn;    /* reads its output in a later turn */
	struct journal_hint hint;
	struct exec_holder holder; /* keeps output that was not read */
	struct loop_timer *hold_timer;
	bool hold_timed, hold_used; /* hold_timer is set; a command ran since then */
	/* Set while init is asked for output that it holds back; otherwise NULL. */
	struct settling *settling;
	unsigned settled;    /* number of replies so far */
	uint64_t settled_at; /* position at which they arrived */
	bool exited;         /* the shell exited; reported once all its output was read */
	int exit_code;
	struct loop_timer *insist; /* repeats an interrupt that may have been too early */
	unsigned insisted;
	bool spoke;  /* the command has begun, because it has written something */
	size_t step; /* index of the next step of the stop */
	bool stopping, timed_out, interrupted;
	/*
	 * The position at the last check whether a command that is being stopped still
	 * waits for a reader.
	 */
	uint64_t stop_cursor;
	/*
	 * Until reading has reached this position, the command counts as waiting for a
	 * reader; 0: not set.
	 */
	uint64_t stop_mark;
	unsigned stop_looks; /* number of further checks that may find that little or
				nothing was read */
	bool stop_stuck;     /* output could not move, and has not moved since */
	size_t stops; /* number of steps whose signals are not delivered yet; @out waits
			 for them */
	bool ended;
	struct session_command *command; /* the current command of a client; NULL: none */
	uint64_t begun;                  /* ns */
	uint64_t since; /* start of the command, in clock ticks since boot */
	uint64_t lost;
	bool fresh; /* no command has ended yet in the shell that session_renew.c began */
	/* session_renew.c: requests that wait for that shell. */
	struct session_user *users;
	bool close_late;   /* close the session when that shell is ready */
	session_fn opened; /* NULL: the session is open */
	void *ctx;
	bool done_opening;
	struct warren_error open_err;
};

/* The state of the module for a sandbox. */
struct sandbox_sessions {
	struct session *list;
};

/* The state of the module for the service. */
struct service_sessions {
	struct look_queue *looks;  /* look.c */
	struct fair_quota screens; /* bytes of screens in memory: session_terminal.c */
	char marker_key[65];       /* session_marker.c */
};

static inline struct sandbox_sessions *sandbox_sessions(const struct sandbox *sandbox)
{
	return sandbox->modules[MODULE_SESSION];
}

static inline struct service_sessions *service_sessions(const struct service *s)
{
	return s->modules[MODULE_SESSION];
}

/* The shell is no longer being started: see sandbox.n_brief. */
static inline void session_end_brief(struct session *session)
{
	bool brief = session->brief;

	session->brief = false;
	if (brief && session->sandbox)
		sandbox_end_brief(session->sandbox);
}

/* session.c */
struct session *session_new(struct sandbox *sandbox);
void session_free(struct session *session);
int session_codec(struct session *session, struct warren_error *err);
void session_pour(struct session *session); /* write @out as far as the pipe has space */
/* Start the shell that session->opening describes. */
void session_try(struct session *session);
/* Forget the shell that ended, so that another can be started. */
void session_reset(struct session *session);
/* Record the session with its current exec; @name is that of the shell. */
int session_write_down(struct session *session, const char *name,
		       struct warren_error *err);
/* session_renew.c: the new shell is ready. */
void session_renew_done(struct session *session);
/* The new shell could not be started: the session waits for its next use. */
void session_renew_fail(struct session *session, const struct warren_error *why);
/* End the wait of all that use the session. */
void session_users_end(struct session *session, int r, const struct warren_error *err);
/* session_read.c */
int session_read_init(struct session *session);
void session_read_done(struct session *session);
/*
 * Hold the output from the session's cursor on. Call this before sending anything to the
 * shell.
 */
void session_hold(struct session *session);
/* End the hold soon, unless another command follows. */
void session_hold_end(struct session *session);
/* session.c: check after reading whether a shell that is being opened is ready. */
void session_after_reading(struct session *session);
/*
 * Called when the shell is not ready in time: fail the opening, and remove the session.
 */
void session_open_late(struct session *session);
/* The callbacks of the timers `timer` and `insist`. */
void session_on_timer(void *ctx);
void session_on_insist(void *ctx);

void session_sandbox_gone(struct sandbox *sandbox);
/* Get the session with this name, even if it is still being opened. */
struct session *session_named(struct sandbox *sandbox, const char *name);
bool session_is_open(const struct session *session);
struct session_terminal **session_terminal_of(struct session *session);
struct sandbox *session_sandbox(const struct session *session);
/*
 * Let @command wait for the running command; false: no command runs, or a client already
 * waits for it.
 */
bool session_join(struct session *session, struct session_command *command);
/* Send SIGKILL to the processes of the running command; @all: also to background jobs. */
void session_stop(struct session *session, bool all);

/* session_terminal.c */
void session_terminal_gone(struct session_terminal *c);

/* session_marker.c */
int session_marker_key_open(struct service *s, struct warren_error *err);
void session_marker_make(const struct service *s, const char *session, uint64_t serial,
			 uint8_t ret[16]);

/* session_restore.c: load the sessions of an earlier process from the database. */
void session_restore_all(struct sandbox *sandbox);

/* session_stop.c: kill the shell of a session that is closed. */
void session_end_shell(struct exec *exec, service_done_fn done, void *ctx);

#endif /* SERVICE_SESSION_INTERNAL_H */
