/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - a session, for the files of this room */
#ifndef SERVICE_SESSION_INTERNAL_H
#define SERVICE_SESSION_INTERNAL_H

#include "service/core/room.h"
#include "service/session/session.h"
#include "shellproto/shellproto.h"

/* A start under way: which shell is tried. */
struct opening {
	struct exec_start start; /* a copy, without its argv */
	enum shellproto_shell kind;
	char *own; /* what was asked for; NULL: bash, else sh */
	const char *argv[16];
};

struct session {
	struct service *service;
	struct session *next;    /* of the sandbox */
	struct sandbox *sandbox; /* NULL: gone */
	struct session_row row;
	struct exec *exec;
	struct shellproto *codec;
	struct opening *opening;                   /* while it is opened */
	bool framed;                               /* results are in its output */
	bool terminal;                             /* and it has a terminal */
	struct session_terminal *session_terminal; /* who drives that; NULL */
	char *cwd;
	uint64_t cursor; /* in its journal */
	struct waiter watcher;
	struct waiter waiter;
	struct buf out; /* for the shell, not yet in its pipe */
	size_t sent;
	struct loop_watch *out_watch;
	struct loop_timer *timer; /* of the command's time, then of the steps */
	struct loop_timer *again; /* its output could not be read */
	struct loop_task turn;    /* its output is read when it is its turn */
	struct journal_hint hint;
	struct exec_holder holder; /* nothing is dropped that was not read */
	struct loop_timer *hold_timer;
	bool hold_timed, hold_used; /* it is set; a command ran since */
	struct settling *settling;  /* init was asked for what it holds back; NULL */
	unsigned settled;           /* answers, */
	uint64_t settled_at;        /* after which there was nothing beyond here */
	bool exited; /* and how is told when what it wrote before was read */
	int exit_code;
	struct loop_timer *insist; /* an interrupt may have come too early */
	unsigned insisted;
	bool spoke;  /* the command has written something: it has begun */
	size_t step; /* the next of them */
	bool stopping, timed_out, interrupted;
	uint64_t stop_cursor; /* where it was at the last look, while it is held up */
	uint64_t
		stop_mark; /* as far as reading counts as being held up; 0: not set yet */
	size_t stops; /* steps whose signals are on their way: what is in @out waits */
	bool ended;
	struct session_command *command; /* that runs for a client; NULL */
	uint64_t begun;                  /* ns */
	uint64_t since; /* the same, in ticks since the machine started */
	uint64_t lost;
	session_fn opened; /* while it is opened */
	void *ctx;
	bool done_opening;
	struct warren_error open_err;
};

/* What the room keeps for a sandbox. */
struct sandbox_sessions {
	struct session *list;
};

/* What it keeps for the service. */
struct service_sessions {
	struct look_queue *looks;  /* look.c */
	struct fair_quota screens; /* bytes of them in memory: session_terminal.c */
	char marker_key[65];       /* session_marker.c */
};

static inline struct sandbox_sessions *sandbox_sessions(const struct sandbox *sandbox)
{
	return sandbox->rooms[ROOM_SESSION];
}

static inline struct service_sessions *service_sessions(const struct service *s)
{
	return s->rooms[ROOM_SESSION];
}

/* session.c */
struct session *session_new(struct sandbox *sandbox);
void session_free(struct session *session);
int session_codec(struct session *session, struct warren_error *err);
void session_pour(struct session *session); /* what is in @out, as far as there is room */
/* session_read.c */
int session_read_init(struct session *session);
void session_read_done(struct session *session);
void session_hold(struct session *session);     /* from its cursor on, before the shell is
						   told anything */
void session_hold_end(struct session *session); /* soon, unless another command comes */
/* session.c: a shell that was being opened may be, or not, by what was read. */
void session_after_reading(struct session *session);
/* It is not ready in time: the client that opens it gets an error, and it is removed. */
void session_open_late(struct session *session);
/* Of the timers of those names. */
void session_on_timer(void *ctx);
void session_on_insist(void *ctx);

void session_sandbox_gone(struct sandbox *sandbox);
/* One that is called so, be it only about to be opened. */
struct session *session_named(struct sandbox *sandbox, const char *name);
bool session_is_open(const struct session *session);
struct session_terminal **session_terminal_of(struct session *session);
struct sandbox *session_sandbox(const struct session *session);
/* Wait for what runs, as if it had been started for @command; false: nothing does. */
bool session_join(struct session *session, struct session_command *command);
/* SIGKILL to what a command started, with @all to what it put in the background, too. */
void session_stop(struct session *session, bool all);

/* session_terminal.c */
void session_terminal_gone(struct session_terminal *c);

/* session_marker.c */
int session_marker_key_open(struct service *s, struct warren_error *err);
void session_marker_make(const struct service *s, const char *session, uint64_t serial,
			 uint8_t ret[16]);

/* session_restore.c: of a former process, by what the store has. */
void session_restore_all(struct sandbox *sandbox);

#endif /* SERVICE_SESSION_INTERNAL_H */
