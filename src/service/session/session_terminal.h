/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_terminal.h - a bash on a terminal, used like a person would: type, and wait for
 * expected output
 *
 * A console is a session (service.h) with a name and a terminal. A command is over when
 * it returns to the shell, or earlier, when the terminal shows an expected text; then the
 * command continues to run, and the next text is typed to it. It also continues after a
 * timeout: an interrupt makes the shell usable again.
 *
 * Only one act waits at a time; acts that arrive in the meantime take their turn after
 * it. An interrupt needs no turn: it acts immediately.
 */
#ifndef SERVICE_SESSION_SESSION_TERMINAL_H
#define SERVICE_SESSION_SESSION_TERMINAL_H

#include "service/core/fair_quota.h"
#include "service/session/session.h"

#define CONSOLE_NAME_MAX   128
#define CONSOLE_SCREEN_MAX (64U << 20) /* bytes of what is shown; the rest is dropped */

struct session_terminal;

/* With NULL and why not: -EEXIST when there is one of that name. */
typedef void (*session_terminal_fn)(void *ctx, struct session_terminal *c,
				    const struct warren_error *err);
void session_terminal_open(struct sandbox *sandbox, const char *name,
			   const struct exec_start *start, session_terminal_fn done,
			   void *ctx);
struct session_terminal *session_terminal_find(struct sandbox *sandbox, const char *name);
/* All that it started is killed; who waits hears CONSOLE_ENDED. */
void session_terminal_close(struct session_terminal *c, service_done_fn done, void *ctx);
/* Every console of @sandbox; @done when all are closed. */
void session_terminal_close_all(struct sandbox *sandbox, service_done_fn done, void *ctx);

enum session_terminal_kind {
	CONSOLE_COMMAND,   /* to the shell; what still runs is waited for */
	CONSOLE_TYPE,      /* to what runs, else to the shell */
	CONSOLE_INTERRUPT, /* ^C, some times; then SIGKILL */
};

struct session_terminal_act {
	enum session_terminal_kind kind;
	const char *text; /* need not last */
	size_t size;
	const char *const *expect;
	size_t n_expect;
	int64_t timeout_ms; /* of an interrupt: after each ^C; -1: none */
	unsigned tries;     /* of an interrupt */
	bool wants_code; /* after what was expected, the end is waited for a little while
			  */
};

enum session_terminal_outcome {
	CONSOLE_BACK,      /* the shell has it back: exit_code */
	CONSOLE_EXPECTED,  /* `expected` was shown; exit_code is -1, or known by then */
	CONSOLE_TIMED_OUT, /* it runs on */
	CONSOLE_SYNTAX,    /* nothing of it ran; what is shown says why */
	CONSOLE_ENDED,     /* the shell is gone: exit_code, or -1 */
	CONSOLE_REFUSED,   /* it never began; what is shown says why */
};

struct session_terminal_result {
	enum session_terminal_outcome outcome;
	int expected, exit_code;
	/*
	 * What the terminal showed, for the callback to take (TAKE_BUF style: move it,
	 * and leave an empty one) or to leave. It may be megabytes:
	 * session_terminal_plain() may run on another thread.
	 */
	struct buf *screen;
	/*
	 * For its memory, of service_screens(): whoever takes the screen takes it, too.
	 */
	struct fair_quota_lease *lease;
	uint64_t cut; /* bytes that are missing at its end */
	uint64_t dropped;
};

/* What a person reads of it: control sequences left out, and in words what is missing. */
void session_terminal_plain(struct buf *out, const struct buf *screen, uint64_t cut);

/* What screens hold, and what becomes of them: a tenant's share, in bytes. */
struct fair_quota *service_screens(struct service *s);

/*
 * @done once, from the loop or, when it can be told, at once. CONSOLE_REFUSED when too
 * many wait for their turn already.
 */
void session_terminal_do(struct session_terminal *c,
			 const struct session_terminal_act *act,
			 void (*done)(void *ctx, const struct session_terminal_result *r),
			 void *ctx);
/*
 * No one waits for the act of @ctx: if it has not begun, it is CONSOLE_REFUSED, and never
 * will.
 */
void session_terminal_withdraw(struct session_terminal *c, const void *ctx);

#endif /* SERVICE_SESSION_SESSION_TERMINAL_H */
