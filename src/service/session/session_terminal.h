/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_terminal.h - a bash on a terminal, for programs that type text and wait for
 * expected output
 *
 * A console is a session (session.h) with a name and a terminal. An act ends when the
 * command has ended, or earlier, when the terminal shows an expected text; then the
 * command continues to run, and the next text is typed to it. It also continues after a
 * timeout; an interrupt makes the shell usable again.
 *
 * Only one act is carried out at a time; later acts wait for their turn. An interrupt
 * does not wait for a turn.
 */
#ifndef SERVICE_SESSION_SESSION_TERMINAL_H
#define SERVICE_SESSION_SESSION_TERMINAL_H

#include "service/core/fair_quota.h"
#include "service/session/session.h"

#define CONSOLE_NAME_MAX 128
/* Maximum size of output that is kept; the rest is dropped. */
#define CONSOLE_SCREEN_MAX (64U << 20)

struct session_terminal;

/* @c is NULL on failure; -EEXIST: the name is in use. */
typedef void (*session_terminal_fn)(void *ctx, struct session_terminal *c,
				    const struct warren_error *err);
void session_terminal_open(struct sandbox *sandbox, const char *name,
			   const struct exec_start *start, session_terminal_fn done,
			   void *ctx);
struct session_terminal *session_terminal_find(struct sandbox *sandbox, const char *name);
/* Close the console and kill all its processes; waiting acts end with CONSOLE_ENDED. */
void session_terminal_close(struct session_terminal *c, service_done_fn done, void *ctx);
/* Close every console of @sandbox. Calls @done when all are closed. */
void session_terminal_close_all(struct sandbox *sandbox, service_done_fn done, void *ctx);

enum session_terminal_kind {
	CONSOLE_COMMAND,   /* typed to the shell, after the running command has ended */
	CONSOLE_TYPE,      /* typed to the running command, or to the shell */
	CONSOLE_INTERRUPT, /* ^C, up to `tries` times; then SIGKILL */
};

struct session_terminal_act {
	enum session_terminal_kind kind;
	const char *text; /* the callee copies it */
	size_t size;
	const char *const *expect;
	size_t n_expect;
	int64_t timeout_ms; /* for an interrupt: the time after each ^C; -1: no timeout */
	unsigned tries;     /* for an interrupt: number of attempts */
	bool wants_code;    /* after an expected text, wait briefly for the exit code */
};

enum session_terminal_outcome {
	CONSOLE_BACK, /* the command has ended: exit_code */
	/* `expected` was shown; exit_code is -1 unless it is already known. */
	CONSOLE_EXPECTED,
	CONSOLE_TIMED_OUT, /* the command is still running */
	CONSOLE_SYNTAX,    /* syntax error, nothing ran; the screen has the message */
	CONSOLE_ENDED,     /* the shell has ended: exit_code, or -1 */
	CONSOLE_REFUSED,   /* the act was not carried out; the screen has the reason */
};

struct session_terminal_result {
	enum session_terminal_outcome outcome;
	int expected, exit_code;
	/*
	 * The output of the terminal. The callback may take it (move it and leave an
	 * empty buffer). It may be megabytes long, so session_terminal_plain() may run on
	 * another thread.
	 */
	struct buf *screen;
	/*
	 * A lease of service_screens() for the memory of the screen. A callback that
	 * takes the screen must also take the lease.
	 */
	struct fair_quota_lease *lease;
	uint64_t cut; /* number of bytes that are missing at the end */
	uint64_t dropped;
};

/*
 * Convert the screen to readable text, without control sequences and with a note about
 * missing bytes.
 */
void session_terminal_plain(struct buf *out, const struct buf *screen, uint64_t cut);

/*
 * The memory of screens and of responses that contain them: a share per tenant, in bytes.
 */
struct fair_quota *service_screens(struct service *s);

/*
 * Carry out an act. Calls @done once, from the loop or immediately. CONSOLE_REFUSED: too
 * many acts wait already.
 */
void session_terminal_do(struct session_terminal *c,
			 const struct session_terminal_act *act,
			 void (*done)(void *ctx, const struct session_terminal_result *r),
			 void *ctx);
/*
 * Withdraw the act with @ctx, because its client has disconnected. If the act has not
 * begun, it ends as CONSOLE_REFUSED.
 */
void session_terminal_withdraw(struct session_terminal *c, const void *ctx);

#endif /* SERVICE_SESSION_SESSION_TERMINAL_H */
