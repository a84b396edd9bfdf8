/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_renew.c - wake the sandbox of a session, and give the session a new shell if
 * its shell ended with a hibernation
 *
 * The session keeps its id, name, shell, user and first directory; everything that the
 * shell kept in memory is gone, which the result of the next command says. Until the new
 * shell has started, the session has the exec of the old one, so that it can be shown. If
 * the new shell does not become ready, the session gets the old exec back, the use that
 * waited gets the error, and the next use tries again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "service/session/internal.h"

/* A client that waits for a session. */
struct session_user {
	struct session_user *next;
	struct service *service;
	char sandbox[ID_LEN + 1];
	char *name; /* the name of the session, or its id */
	bool named; /* it is the name, and the session need not exist */
	service_done_fn done;
	void *ctx;
};

static void session_user_end(struct session_user *user, int r,
			     const struct warren_error *err)
{
	user->done(user->ctx, r, err);
	free(user->name);
	free(user);
}

void session_users_end(struct session *session, int r, const struct warren_error *err)
{
	struct session_user *users = TAKE_PTR(session->users);

	while (users) {
		struct session_user *user = users;

		users = user->next;
		session_user_end(user, r, err);
	}
}

/* The users have an answer. A client may have closed the session in the meantime. */
static void renew_end(struct session *session, const struct warren_error *err)
{
	session_users_end(session, -err->code, err);
	if (session->close_late)
		session_close(session, service_ignore, NULL);
}

static void renew_on_opened(void *ctx UNUSED, struct session *session,
			    const struct warren_error *failure UNUSED)
{
	renew_end(session, &(struct warren_error)WARREN_ERROR_INIT);
}

void session_renew_done(struct session *session)
{
	const struct exec_row *row = session->before ? exec_row(session->before) : NULL;

	if (row && session->sandbox)
		exec_forget_closed(session->sandbox, row->id, row->journal);
	session->before = exec_unref(session->before);
	free(session->shell_before);
	session->shell_before = NULL;
}

/* Give the session its old exec back, with the shell that the next use starts again. */
static int renew_undo(struct session *session, struct warren_error *err)
{
	AUTO_FREE char *shell = TAKE_PTR(session->shell_before);
	int r;

	session_reset(session);
	session->exec = TAKE_PTR(session->before);
	r = session_codec(session, err);
	return r < 0 ? r
		     : session_write_down(session, shell ? shell : session->row.shell,
					  err);
}

void session_renew_fail(struct session *session, const struct warren_error *why)
{
	struct warren_error copy = *why, ignored = WARREN_ERROR_INIT;

	loop_timer_stop(session->timer);
	if (session->before)
		survive(session->service, renew_undo(session, &ignored));
	session->opened = NULL;
	session->fresh = false;
	session->ended = true;
	renew_end(session, &copy);
}

/* For a session of an earlier process, create its struct opening again from its rows. */
static struct opening *renew_opening(const struct session *session)
{
	const struct exec_row *row = exec_row(session->exec);
	const char *shell = session->row.shell;
	const char *name = strrchr(shell, '/') ? strrchr(shell, '/') + 1 : shell;
	static const char *const none[] = { NULL };
	struct exec_start start = { .argv = none,
				    .cwd = row->cwd,
				    .user = row->user,
				    .pty = row->pty,
				    .rows = 24,
				    .cols = 80,
				    .session = true,
				    .control = !session->framed,
				    .input = session->framed };
	struct opening *o = calloc(1, sizeof(*o));

	if (!o || !(o->own = strdup(shell)) || exec_start_copy(&o->start, &start) < 0) {
		if (o)
			free(o->own);
		free(o);
		return NULL;
	}
	o->kind = strcmp(name, "bash") != 0 ? SHELLPROTO_SH : SHELLPROTO_BASH;
	return o;
}

static int renew_begin(struct session *session, struct warren_error *err)
{
	if (!session->opening)
		session->opening = renew_opening(session);
	if (!session->opening)
		return error_errno(err, ENOMEM, "open the session again");
	if (!session->opening->own)
		session->opening->kind = SHELLPROTO_BASH;
	session->framed = session->sandbox->is.base.framed || session->terminal;
	session->opening->start.control = !session->framed;
	session->opening->start.input = session->framed;
	session->fresh = true;
	session->opened = renew_on_opened;
	session->ctx = session;
	return 0;
}

bool session_renews(const struct session *session)
{
	return session->ended && exec_row(session->exec)->ended_by != EXEC_BY_ITSELF;
}

static void session_use_on_awake(void *ctx, int r, const struct warren_error *failure)
{
	struct session_user *user = ctx;
	struct sandbox *sandbox = sandbox_find(user->service, NULL, user->sandbox);
	struct session *session = r < 0 || !sandbox ? NULL
				  : user->named     ? session_named(sandbox, user->name)
						    : session_find(sandbox, user->name);
	struct warren_error err = WARREN_ERROR_INIT;
	bool renews = session && !session->opened && session_renews(session);
	bool waits = session && session->opened && session->fresh;

	if (r < 0) {
		session_user_end(user, r, failure);
	} else if (!session && !user->named) {
		session_user_end(user, error_set(&err, ENOENT, "the session is gone"),
				 &err);
	} else if (renews && renew_begin(session, &err) < 0) {
		session_user_end(user, -err.code, &err);
	} else if (renews || waits) {
		LIST_APPEND(session->users, user);
		if (renews)
			session_try(session);
	} else {
		session_user_end(user, 0, NULL);
	}
}

/* Can the state change before the command begins? Otherwise, it begins at once. */
static bool session_sleeps(const struct sandbox *sandbox)
{
	return sandbox_state_sleeps(sandbox->row.state) || sandbox->hibernating ||
	       (sandbox->row.state == SANDBOX_PAUSED && sandbox->auto_paused);
}

static void session_use_by(struct sandbox *sandbox, const char *name, bool named,
			   service_done_fn done, void *ctx)
{
	struct session_user *user = malloc(sizeof(*user));
	char *copy = strdup(name);
	struct warren_error err = WARREN_ERROR_INIT;

	if (!user || !copy) {
		free(user);
		free(copy);
		done(ctx, error_errno(&err, ENOMEM, "use the session"), &err);
		return;
	}
	*user = (struct session_user){ .service = sandbox->service,
				       .name = copy,
				       .named = named,
				       .done = done,
				       .ctx = ctx };
	(void)memcpy(user->sandbox, sandbox->row.id, sizeof(user->sandbox));
	if (named || session_sleeps(sandbox))
		sandbox_use(sandbox, session_use_on_awake, user);
	else
		session_use_on_awake(user, 0, NULL);
}

void session_use(struct sandbox *sandbox, const char *id, service_done_fn done, void *ctx)
{
	session_use_by(sandbox, id, false, done, ctx);
}

void session_use_named(struct sandbox *sandbox, const char *name, service_done_fn done,
		       void *ctx)
{
	session_use_by(sandbox, name, true, done, ctx);
}
