/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_restore.c - restore the sessions of an earlier process
 *
 * Their shells are still running. The output since the last command shows whether that
 * command is still running.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/core/undo.h"
#include "service/session/internal.h"

#define TRIES 1000 /* number of tries if a writer overwrites the data each time */

/*
 * Read the next piece of output. Return false if there is none, or if it cannot be read.
 * No client is served yet, so this function may block.
 */
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

/* Read the whole journal: it contains the mark of the last command, if the command has
 * ended. */
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

/* Find the last complete record of stream 3: the result of the last command, if any. */
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
	/* This is the result of an earlier command, so the last command is still running.
	 */
	if (last.len > 0 && shellproto_is_result(session->codec, last.data, last.len))
		(void)shellproto_on_bytes(session->codec, SHELLPROTO_RESULTS, last.data,
					  last.len, &err);
}

static int session_restore_one(struct sandbox *sandbox, const struct session_row *row,
			       struct exec *exec, struct warren_error *err)
{
	struct session *session = session_new(sandbox);
	int r;

	if (!session)
		return error_errno(err, ENOMEM, "restore a session");
	r = db_get_session(sandbox->service->db, NULL, row->id, &session->row, err);
	session->recorded = r == 0;
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
		session->undo = undo_restored(sandbox);
	}
	if (exec_row(exec)->ended || exec_lost(exec))
		session->ended = true;
	else
		exec_wait(exec, &session->waiter);
	return 0;
}

struct restored_sessions {
	size_t n;
	struct session_row row[256];
};

static int session_restore_take(void *ctx, const struct session_row *row)
{
	struct restored_sessions *all = ctx;

	if (all->n < ARRAY_SIZE(all->row)) {
		all->row[all->n] = *row;
		/* The strings belong to the walk over the rows. */
		all->row[all->n].name = NULL;
		all->row[all->n++].shell = NULL; /* this */
	}
	return 0;
}

struct closed_sessions {
	size_t n;
	struct {
		char id[ID_LEN + 1], journal[ID_LEN + 1];
		bool ended;
	} one[4096]; /* the next round handles the rest */
};

static int session_restore_take_closed(void *ctx, const struct exec_row *row)
{
	struct closed_sessions *all = ctx;

	if (all->n == ARRAY_SIZE(all->one))
		return 0;
	(void)snprintf(all->one[all->n].id, ID_LEN + 1, "%s", row->id);
	(void)snprintf(all->one[all->n].journal, ID_LEN + 1, "%s",
		       row->journal ? row->journal : "");
	all->one[all->n++].ended = row->ended;
	return 0;
}

/*
 * The session of the exec was closed, but the service was killed before the shell had
 * ended or its row was deleted.
 */
static void session_restore_closed(struct sandbox *sandbox)
{
	struct closed_sessions *all = calloc(1, sizeof(*all));
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (!all)
		return;
	survive(sandbox->service,
		db_each_closed_shell(sandbox->service->db, sandbox->row.id,
				     session_restore_take_closed, all, &ignored));
	for (size_t i = 0; i < all->n; i++) {
		struct exec *exec = NULL;

		if (all->one[i].ended)
			exec_forget_closed(sandbox, all->one[i].id, all->one[i].journal);
		else
			exec = exec_of_sandbox(sandbox, all->one[i].id);
		if (exec)
			exec_signal(exec, SIGKILL, WARREN_WHOM_TREE, service_ignore,
				    NULL);
		(void)exec_unref(exec);
	}
	free(all);
}

static void session_restore_open(struct sandbox *sandbox)
{
	struct restored_sessions *all = calloc(1, sizeof(*all));
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (!all)
		return;
	survive(sandbox->service, db_each_session(sandbox->service->db, sandbox->row.id,
						  session_restore_take, all, &ignored));
	for (size_t i = 0; i < all->n; i++) {
		struct exec *exec = exec_of_sandbox(sandbox, all->row[i].exec);

		if (exec)
			survive(sandbox->service,
				session_restore_one(sandbox, &all->row[i], exec,
						    &ignored));
		(void)exec_unref(exec);
	}
	free(all);
}

void session_restore_all(struct sandbox *sandbox)
{
	session_restore_open(sandbox);
	session_restore_closed(sandbox);
}
