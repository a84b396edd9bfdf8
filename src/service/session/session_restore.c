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
static bool session_restore_next_piece(struct session *session, uint64_t cursor,
				       char *piece, struct warren_output *o)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r = -EINPROGRESS;

	for (int i = 0; r == -EINPROGRESS && i < TRIES; i++)
		r = exec_output(session->exec, cursor, &session->hint, piece,
				JOURNAL_CHUNK, o, &err);
	return r == 0 && o->size > 0;
}

/* All that is kept: the mark of the last command is in it, if that has ended. */
static void replay_framed(struct session *session)
{
	static char piece[JOURNAL_CHUNK];
	struct warren_error err = WARREN_ERROR_INIT;

	for (;;) {
		struct warren_output o;

		if (!session_restore_next_piece(session, session->cursor, piece, &o))
			break;
		session->cursor = o.cursor;
		if (shellproto_on_bytes(session->codec, (enum shellproto_stream)o.stream,
					piece, o.size, &err) < 0)
			break;
	}
}

/* The last record of stream 3 that is whole: the result of the last command, or of none. */
static void session_restore_replay(struct session *session)
{
	static char piece[JOURNAL_CHUNK];
	AUTO_BUF struct buf last = BUF_INIT(JOURNAL_CHUNK);
	struct warren_error err = WARREN_ERROR_INIT;
	uint64_t cursor = 0;

	for (;;) {
		struct warren_output o;

		if (!session_restore_next_piece(session, cursor, piece, &o))
			break;
		cursor = o.cursor;
		if (o.stream != SHELLPROTO_RESULTS)
			continue;
		last.len = 0;
		buf_add(&last, piece, o.size);
	}
	session->cursor = cursor;
	/* Of an earlier command: the last one still runs. */
	if (last.len > 0 && shellproto_is_result(session->codec, last.data, last.len))
		(void)shellproto_on_bytes(session->codec, SHELLPROTO_RESULTS, last.data,
					  last.len, &err);
}

int session_restore(struct sandbox *sandbox, const struct session_row *row,
		    struct exec *exec, struct warren_error *err)
{
	struct session *session = session_new(sandbox);
	int r;

	if (!session)
		return error_errno(err, ENOMEM, "find a session again");
	r = db_get_session(sandbox->service->db, NULL, row->id, &session->row, err);
	session->terminal = exec_row(exec)->pty;
	session->framed |= session->terminal;
	if (r == 0)
		r = session_codec(session, err);
	if (r < 0) {
		session_free(session);
		return r;
	}
	session->exec = exec_ref(exec);
	shellproto_resume(session->codec, session->row.serial);
	if (session->framed)
		replay_framed(session);
	else
		session_restore_replay(session);
	if (shellproto_running(session->codec)) {
		(void)exec_watch(exec, &session->watcher, err);
		session_hold(session);
	}
	if (exec_row(exec)->ended || exec_lost(exec))
		session->ended = true;
	else
		exec_wait(exec, &session->waiter);
	return 0;
}
