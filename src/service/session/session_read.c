/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_read.c - read the output of a session's shell, and hold the output until it has
 * been read
 *
 * While a command runs, the service reads all of its output, for the client that waits
 * and for the result at its end. So init holds the output (exec_hold()): a command that
 * is faster than its reader waits, and a background job cannot push a result out of the
 * journal. A client that does not read blocks only its own command; when the client
 * disconnects, reading continues.
 *
 * Between commands the service does not read or hold output, and the limit of the journal
 * applies. The hold outlasts a command by HOLD_IDLE_MS, so that commands in quick
 * succession need no message to init.
 *
 * Output can still be missing if init had to drop some (on a full disk) or could not be
 * told to hold the output. Then the result of the waiting client reports a gap at that
 * position.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "service/session/internal.h"

#define PIECES       16 /* pieces of output before others have their turn */
#define HOLD_IDLE_MS 200
/*
 * When the end of a shell is reported, its output is in the journal, or, if it was held,
 * in a pipe. init serves its clients and the pipes in turn, so it has checked the pipes
 * before its second answer after all output was read.
 */
#define SETTLE_ROUNDS 2

enum reading {
	READ_MORE,    /* there is more output, which will be read */
	READ_BLOCKED, /* there may be more, but the client does not read */
	READ_ALL,     /* no more output at present */
	READ_END,     /* no more output ever, or it cannot be read */
};

static bool is_blocked(const struct session *session)
{
	return session->command && session->command->blocked;
}

static void session_read_tell_gap(struct session *session, uint64_t lost)
{
	session->lost += lost;
	if (session->command && lost > 0)
		session->command->gap(session->command, lost);
}

static void take_piece(struct session *session, const char *piece,
		       const struct warren_output *o)
{
	struct warren_error err = WARREN_ERROR_INIT;

	session->cursor = o->cursor - o->size;
	session_read_tell_gap(session, o->lost);
	session->cursor = o->cursor;
	exec_hold_move(&session->holder, session->cursor);
	/* Only a shell of Warren writes valid records, so this is something else. */
	if (o->size > 0 &&
	    shellproto_on_bytes(session->codec, (enum shellproto_stream)o->stream, piece,
				o->size, &err) < 0)
		exec_signal(session->exec, SIGKILL, WARREN_WHOM_TREE, service_ignore,
			    NULL);
}

/* Read new output. Unless @all is set, other work has its turn in between. */
static enum reading session_read_on(struct session *session, bool all)
{
	static char piece[65536];
	struct warren_error err = WARREN_ERROR_INIT;
	size_t bytes = 0;

	for (int i = 0; shellproto_running(session->codec); i++) {
		struct warren_output o;
		int r = -EINPROGRESS;

		if (is_blocked(session))
			return READ_BLOCKED;
		if (all || (i < PIECES && bytes < sizeof(piece)))
			r = exec_output(session->exec, session->cursor, &session->hint,
					piece, sizeof(piece), &o, &err);
		if (r == -EINPROGRESS && all)
			continue;
		if (r == -EINPROGRESS) {
			loop_later(session->service->loop, &session->turn);
			return READ_MORE;
		}
		if (r < 0) {
			/*
			 * No notification arrives for data that already exists; if it is
			 * not read, the end is never seen.
			 */
			loop_timer_set(session->again, RETRY_MS);
			return READ_END;
		}
		bytes += o.size;
		take_piece(session, piece, &o);
		if (o.size == 0)
			return o.end ? READ_END : READ_ALL;
	}
	return READ_END;
}

/* ------------------------------------------------------------------ end of a shell */

struct settling {
	struct session *session; /* NULL: gone */
};

static void on_settled(void *ctx, struct init_reply *a UNUSED,
		       const struct warren_error *failure)
{
	struct settling *k = ctx;
	struct session *session = k->session;

	free(k);
	if (!session)
		return;
	session->settling = NULL;
	session->settled = failure ? SETTLE_ROUNDS : session->settled + 1;
	loop_later(session->service->loop, &session->turn);
}

/* Return false if there is no shell. */
static bool ask_settled(struct session *session)
{
	struct proto_attach msg = { .h = { .type = PROTO_ATTACH },
				    .exec = exec_row(session->exec)->number };
	struct warren_error err = WARREN_ERROR_INIT;
	struct sandbox *sandbox = exec_sandbox(session->exec);
	struct settling *k = sandbox ? malloc(sizeof(*k)) : NULL;

	if (!k)
		return false;
	k->session = session;
	if (init_conn_ask_struct(sandbox, &msg, sizeof(msg), -1, on_settled, k, &err) <
	    0) {
		free(k);
		return false;
	}
	session->settling = k;
	return true;
}

/* The shell has ended, and the journal was read: is there any more output? */
static bool is_settled(struct session *session)
{
	if (session->settling)
		return false;
	if (session->settled_at != session->cursor)
		session->settled = 0;
	session->settled_at = session->cursor;
	return session->settled >= SETTLE_ROUNDS || !ask_settled(session);
}

static void tell_exit(struct session *session)
{
	session->exited = false;
	session->ended = true;
	shellproto_on_exit(session->codec, session->exit_code);
}

static void session_read_on_turn(void *ctx)
{
	struct session *session = ctx;
	enum reading r = session_read_on(session, false);

	if (session->exited && (r == READ_END || (r == READ_ALL && is_settled(session))))
		tell_exit(session);
	session_after_reading(session); /* this may free the session */
}

/*
 * The sandbox is gone, so no writer waits for a reader any more. Output that the client
 * has not read is reported as a gap.
 */
static void tell_lost(struct session *session)
{
	uint64_t from, to;

	if (session_read_on(session, true) == READ_BLOCKED &&
	    exec_extent(session->exec, &from, &to) >= 0 && to > session->cursor)
		session_read_tell_gap(session, to - session->cursor);
	tell_exit(session);
	session_after_reading(session);
}

static void session_read_on_exit_heard(struct waiter *w, void *of)
{
	struct exec *exec = of;
	struct session *session = w->ctx;
	const struct exec_row *row = exec_row(exec);

	session->exited = true;
	session->exit_code = row->ended ? row->result.signal ? 128 + row->result.signal
							     : row->result.exit_code
					: -1;
	if (exec_lost(exec))
		tell_lost(session);
	else
		session_read_on_turn(session);
}

/* ---------------------------------------------------------------- turns of the reader */

static void session_read_on_more(struct waiter *w, void *of UNUSED)
{
	struct session *session = w->ctx;

	loop_later(session->service->loop, &session->turn);
}

static void on_again(void *ctx)
{
	struct session *session = ctx;

	loop_later(session->service->loop, &session->turn);
}

void session_go_on(struct session_command *command)
{
	struct session *session = command->session;

	command->blocked = false;
	if (session)
		loop_later(session->service->loop, &session->turn);
}

/* -------------------------------------------------------------------- holding output */

void session_hold(struct session *session)
{
	session->hold_used = true;
	if (session->holder.exec)
		exec_hold_move(&session->holder, session->cursor);
	else
		exec_hold(session->exec, &session->holder, session->cursor);
}

void session_hold_end(struct session *session)
{
	if (!session->hold_timed)
		loop_timer_set(session->hold_timer, HOLD_IDLE_MS);
	session->hold_timed = true;
}

static void session_read_on_hold_timer(void *ctx)
{
	struct session *session = ctx;

	session->hold_timed = false;
	if (shellproto_running(session->codec))
		return; /* the next result sets the timer again */
	if (session->hold_used && !session->ended)
		session_hold_end(session);
	else
		exec_hold_cancel(&session->holder);
	session->hold_used = false;
}

/* --------------------------------------------------------------- lifetime of a reader */

int session_read_init(struct session *session)
{
	struct net_loop *loop = session->service->loop;
	int r = loop_timer_new(loop, on_again, session, &session->again);

	session->watcher = (struct waiter){ .fn = session_read_on_more, .ctx = session };
	session->waiter =
		(struct waiter){ .fn = session_read_on_exit_heard, .ctx = session };
	session->turn = (struct loop_task){ .fn = session_read_on_turn, .ctx = session };
	return r < 0 ? r
		     : loop_timer_new(loop, session_read_on_hold_timer, session,
				      &session->hold_timer);
}

void session_read_done(struct session *session)
{
	exec_hold_cancel(&session->holder);
	if (session->settling)
		session->settling->session = NULL;
	session->again = loop_timer_free(session->again);
	session->hold_timer = loop_timer_free(session->hold_timer);
	loop_task_cancel(&session->turn);
}
