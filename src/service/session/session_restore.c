/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_restore.c - sessions of a former process, taken up again
 *
 * Their shells have lived on. Whether one is still at its last command is told by what it has
 * written since.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "service/session/session_internal.h"

#define TRIES 1000 /* to find a piece: a writer who never lets us is left alone */

/* False: that was all, or it cannot be read. Nobody is served yet who could wait. */
static bool next_piece(struct shell *sh, uint64_t cursor, char *piece,
		       struct warren_output *o)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r = -EINPROGRESS;

	for (int i = 0; r == -EINPROGRESS && i < TRIES; i++)
		r = run_output(sh->run, cursor, &sh->hint, piece, JOURNAL_CHUNK, o, &err);
	return r == 0 && o->size > 0;
}

/* All that is kept: the mark of the last command is in it, if that has ended. */
static void replay_framed(struct shell *sh)
{
	static char piece[JOURNAL_CHUNK];
	struct warren_error err = WARREN_ERROR_INIT;

	for (;;) {
		struct warren_output o;

		if (!next_piece(sh, sh->cursor, piece, &o))
			break;
		sh->cursor = o.cursor;
		if (session_on_bytes(sh->codec, (enum session_stream)o.stream, piece,
				     o.size, &err) < 0)
			break;
	}
}

/* The last record of stream 3 that is whole: the result of the last command, or of none. */
static void replay(struct shell *sh)
{
	static char piece[JOURNAL_CHUNK];
	AUTO_BUF struct buf last = BUF_INIT(JOURNAL_CHUNK);
	struct warren_error err = WARREN_ERROR_INIT;
	uint64_t cursor = 0;

	for (;;) {
		struct warren_output o;

		if (!next_piece(sh, cursor, piece, &o))
			break;
		cursor = o.cursor;
		if (o.stream != SESSION_RESULTS)
			continue;
		last.len = 0;
		buf_add(&last, piece, o.size);
	}
	sh->cursor = cursor;
	/* Of an earlier command: the last one still runs. */
	if (last.len > 0 && session_is_result(sh->codec, last.data, last.len))
		(void)session_on_bytes(sh->codec, SESSION_RESULTS, last.data, last.len,
				       &err);
}

int shell_restore(struct box *box, const struct session_row *row, struct run *run,
		  struct warren_error *err)
{
	struct shell *sh = shell_new(box);
	int r;

	if (!sh)
		return error_errno(err, ENOMEM, "find a session again");
	r = db_get_session(box->service->db, NULL, row->id, &sh->row, err);
	sh->terminal = run_row(run)->pty;
	sh->framed |= sh->terminal;
	if (r == 0)
		r = shell_codec(sh, err);
	if (r < 0) {
		shell_free(sh);
		return r;
	}
	sh->run = run_ref(run);
	session_resume(sh->codec, sh->row.serial);
	if (sh->framed)
		replay_framed(sh);
	else
		replay(sh);
	if (session_running(sh->codec)) {
		(void)run_watch(run, &sh->watcher, err);
		shell_hold(sh);
	}
	if (run_row(run)->ended || run_lost(run))
		sh->ended = true;
	else
		run_wait(run, &sh->waiter);
	return 0;
}
