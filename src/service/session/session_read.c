/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_read.c - what a session's shell writes is read, and held until it was
 *
 * While a command runs, all of its output is read here, for the client that waits for it, and for the
 * result, which is behind it. So init holds the writer (run_hold()): a command that is faster than
 * its reader waits for it, and a job in the background cannot drive a result out of the ring. A
 * client that does not take its output holds up its own command; when it goes, the reading goes on.
 *
 * Between commands nobody reads, nothing is held, and the limit of the journal applies. But the
 * hold outlasts a command for HOLD_IDLE_MS: commands that follow each other closely tell init nothing.
 *
 * A hole can still come about, where init had to drop something (a full disk) or could not be
 * told to hold. Whoever waits for the command is told of it where it is.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "service/session/session_internal.h"

#define PIECES       16 /* of output, before others have their turn */
#define HOLD_IDLE_MS 200
/*
 * What a shell wrote before it ended is in the journal when its end is told, unless it was held: then
 * it is in a pipe. Init serves its clients and the pipes in turn, so that its second answer after all was
 * read is given after a look at the pipes.
 */
#define SETTLE_ROUNDS 2

enum reading {
	READ_MORE,    /* there is more, and it will be read */
	READ_BLOCKED, /* there may be more, for a client that does not take it */
	READ_ALL,     /* that was all at present */
	READ_END,     /* that was all there will be, or it cannot be read */
};

static bool is_blocked(const struct shell *sh)
{
	return sh->command && sh->command->blocked;
}

static void tell_gap(struct shell *sh, uint64_t lost)
{
	sh->lost += lost;
	if (sh->command && lost > 0)
		sh->command->gap(sh->command, lost);
}

static void take_piece(struct shell *sh, const char *piece, const struct warren_output *o)
{
	struct warren_error err = WARREN_ERROR_INIT;

	sh->cursor = o->cursor - o->size;
	tell_gap(sh, o->lost);
	sh->cursor = o->cursor;
	run_hold_move(&sh->holder, sh->cursor);
	/* No shell of ours said that. */
	if (o->size > 0 && session_on_bytes(sh->codec, (enum session_stream)o->stream,
					    piece, o->size, &err) < 0)
		run_signal(sh->run, SIGKILL, WARREN_WHOM_TREE, service_ignore, NULL);
}

/* What has come since the last look; not @all: others have their turn in between. */
static enum reading read_on(struct shell *sh, bool all)
{
	static char piece[65536];
	struct warren_error err = WARREN_ERROR_INIT;
	size_t bytes = 0;

	for (int i = 0; session_running(sh->codec); i++) {
		struct warren_output o;
		int r = -EINPROGRESS;

		if (is_blocked(sh))
			return READ_BLOCKED;
		if (all || (i < PIECES && bytes < sizeof(piece)))
			r = run_output(sh->run, sh->cursor, &sh->hint, piece,
				       sizeof(piece), &o, &err);
		if (r == -EINPROGRESS && all)
			continue;
		if (r == -EINPROGRESS) {
			loop_later(sh->service->loop, &sh->turn);
			return READ_MORE;
		}
		if (r < 0) {
			/* Nobody notifies of what is there already; without it there is no end. */
			loop_timer_set(sh->again, RETRY_MS);
			return READ_END;
		}
		bytes += o.size;
		take_piece(sh, piece, &o);
		if (o.size == 0)
			return o.end ? READ_END : READ_ALL;
	}
	return READ_END;
}

/* ------------------------------------------------------------------ its end */

struct settling {
	struct shell *shell; /* NULL: gone */
};

static void on_settled(void *ctx, struct answer *a UNUSED,
		       const struct warren_error *failure)
{
	struct settling *k = ctx;
	struct shell *sh = k->shell;

	free(k);
	if (!sh)
		return;
	sh->settling = NULL;
	sh->settled = failure ? SETTLE_ROUNDS : sh->settled + 1;
	loop_later(sh->service->loop, &sh->turn);
}

/* False: there is nobody to ask. */
static bool ask_settled(struct shell *sh)
{
	struct proto_attach msg = { .h = { .type = PROTO_ATTACH },
				    .exec = sh->run->row.number };
	struct warren_error err = WARREN_ERROR_INIT;
	struct box *box = run_box(sh->run);
	struct settling *k = box ? malloc(sizeof(*k)) : NULL;

	if (!k)
		return false;
	k->shell = sh;
	if (line_ask_struct(box, &msg, sizeof(msg), -1, on_settled, k, &err) < 0) {
		free(k);
		return false;
	}
	sh->settling = k;
	return true;
}

/* The shell has ended, and what is in the journal was read: is there anything more of it? */
static bool is_settled(struct shell *sh)
{
	if (sh->settling)
		return false;
	if (sh->settled_at != sh->cursor)
		sh->settled = 0;
	sh->settled_at = sh->cursor;
	return sh->settled >= SETTLE_ROUNDS || !ask_settled(sh);
}

static void tell_exit(struct shell *sh)
{
	sh->exited = false;
	sh->ended = true;
	session_on_exit(sh->codec, sh->exit_code);
}

static void on_turn(void *ctx)
{
	struct shell *sh = ctx;
	enum reading r = read_on(sh, false);

	if (sh->exited && (r == READ_END || (r == READ_ALL && is_settled(sh))))
		tell_exit(sh);
	shell_after_reading(sh); /* after which it may be gone */
}

/* Its sandbox is gone: nothing is left that could wait. What a client has not taken is a hole. */
static void tell_lost(struct shell *sh)
{
	uint64_t from, to;

	if (read_on(sh, true) == READ_BLOCKED && run_extent(sh->run, &from, &to) >= 0 &&
	    to > sh->cursor)
		tell_gap(sh, to - sh->cursor);
	tell_exit(sh);
	shell_after_reading(sh);
}

static void on_exit_heard(struct run_waiter *w, struct run *run)
{
	struct shell *sh = w->ctx;
	const struct exec_row *row = run_row(run);

	sh->exited = true;
	sh->exit_code = row->ended ? row->result.signal ? 128 + row->result.signal
							: row->result.exit_code
				   : -1;
	if (run_lost(run))
		tell_lost(sh);
	else
		on_turn(sh);
}

/* ------------------------------------------------------------------ its turns */

static void on_more(struct run_watcher *w)
{
	struct shell *sh = w->ctx;

	loop_later(sh->service->loop, &sh->turn);
}

static void on_again(void *ctx)
{
	struct shell *sh = ctx;

	loop_later(sh->service->loop, &sh->turn);
}

void shell_go_on(struct shell_command *command)
{
	struct shell *sh = command->shell;

	command->blocked = false;
	if (sh)
		loop_later(sh->service->loop, &sh->turn);
}

/* -------------------------------------------------------------------- holding */

void shell_hold(struct shell *sh)
{
	sh->hold_used = true;
	if (sh->holder.run)
		run_hold_move(&sh->holder, sh->cursor);
	else
		run_hold(sh->run, &sh->holder, sh->cursor);
}

void shell_hold_end(struct shell *sh)
{
	if (!sh->hold_timed)
		loop_timer_set(sh->hold_timer, HOLD_IDLE_MS);
	sh->hold_timed = true;
}

static void on_hold_timer(void *ctx)
{
	struct shell *sh = ctx;

	sh->hold_timed = false;
	if (session_running(sh->codec))
		return; /* its result sets it again */
	if (sh->hold_used && !sh->ended)
		shell_hold_end(sh);
	else
		run_hold_cancel(&sh->holder);
	sh->hold_used = false;
}

/* ----------------------------------------------------------------------- life */

int shell_read_init(struct shell *sh)
{
	struct net_loop *loop = sh->service->loop;
	int r = loop_timer_new(loop, on_again, sh, &sh->again);

	sh->watcher = (struct run_watcher){ .fn = on_more, .ctx = sh };
	sh->waiter = (struct run_waiter){ .fn = on_exit_heard, .ctx = sh };
	sh->turn = (struct loop_task){ .fn = on_turn, .ctx = sh };
	return r < 0 ? r : loop_timer_new(loop, on_hold_timer, sh, &sh->hold_timer);
}

void shell_read_done(struct shell *sh)
{
	run_hold_cancel(&sh->holder);
	if (sh->settling)
		sh->settling->shell = NULL;
	sh->again = loop_timer_free(sh->again);
	sh->hold_timer = loop_timer_free(sh->hold_timer);
	loop_task_cancel(&sh->turn);
}
