/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reconnect.c - reopen a connection to an init that ended or could not be opened
 *
 * A sandbox does not end with its connection: init may have closed the connection because
 * the service did not read, or because the machine was short of memory or descriptors.
 * The warden knows whether the init is alive, so the service asks it for another
 * connection. Requests that waited for an answer fail with an error that says to try
 * again; execs continue, and are attached again (exec/exec_restore.c). The sandbox is
 * lost only if the warden reports that there is no init any more, or if the init closes
 * its connections again and again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/warden_proto.h"
#include "service/core/internal.h"

/* Number of consecutive connections that end before init sends a message. */
#define UNWELCOME  6U
#define BREAKS_MAX 32U /* maximum within BREAKS_MS; then the sandbox is lost */
#define BREAKS_MS  60000U
/* Time to wait if the socket is full because init does not accept connections. */
#define DEAF_MS     5000U
#define BACKOFF_MAX 1000U /* ms */

void reconnect_sandbox_gone(struct sandbox *sandbox)
{
	sandbox->reconnect_timer = loop_timer_free(sandbox->reconnect_timer);
}

static void reconnect_note(const struct sandbox *sandbox, const char *what,
			   const struct warren_error *err)
{
	const struct service *s = sandbox->service;
	char text[ID_LEN + sizeof(sandbox->broke.msg) + 64];

	(void)snprintf(text, sizeof(text), "sandbox %s: %s%s%s", sandbox->row.id, what,
		       err ? ": " : "", err ? err->msg : "");
	if (s->note)
		s->note(s->note_ctx, text);
}

struct reconnect_op {
	struct service *service;
	char id[ID_LEN + 1];
	service_done_fn done;
	void *ctx;
};

static void reconnect_end(struct reconnect_op *op, int r, const struct warren_error *err)
{
	op->done(op->ctx, r, err);
	free(op);
}

static void on_all_attached(void *ctx, int r UNUSED,
			    const struct warren_error *err UNUSED)
{
	reconnect_end(ctx, 0, NULL);
}

static void reconnect_on_connection(void *ctx, const struct warren_error *failure,
				    const char *data, size_t size, int fd)
{
	struct reconnect_op *op = ctx;
	struct sandbox *sandbox = sandbox_find(op->service, NULL, op->id);
	struct warren_error err = WARREN_ERROR_INIT;

	if (!sandbox && fd >= 0)
		(void)close(fd);
	if (!sandbox)
		reconnect_end(op, error_set(&err, ESTALE, "the sandbox is gone"), &err);
	else if (failure)
		reconnect_end(op, -failure->code, failure);
	else if (++sandbox->unwelcome > 0 &&
		 sandbox_take_up(sandbox, data, size, fd, on_all_attached, op, &err) < 0)
		reconnect_end(op, -err.code, &err);
}

void sandbox_reconnect(struct sandbox *sandbox, service_done_fn done, void *ctx)
{
	struct warden_proto_sandbox msg = { .h = { .type = WIRE_CONNECT } };
	struct reconnect_op *op = malloc(sizeof(*op));
	struct warren_error err = WARREN_ERROR_INIT;
	int r = -ENOMEM;

	if (op) {
		*op = (struct reconnect_op){ .service = sandbox->service,
					     .done = done,
					     .ctx = ctx };
		(void)memcpy(op->id, sandbox->row.id, sizeof(op->id));
		r = warden_conn_ask_of(sandbox, &msg, sizeof(msg),
				       reconnect_on_connection, op);
	}
	if (r < 0) {
		free(op);
		done(ctx, error_errno(&err, -r, "send a request to the warden"), &err);
	}
}

static void on_reconnect_timer(void *ctx)
{
	sandbox_reconnect_in_turn(ctx);
}

/* Try again, after a time that grows with the number of tries. */
static void reconnect_later(struct sandbox *sandbox)
{
	unsigned n = sandbox->breaks + sandbox->tries;
	uint64_t ms = 1ULL << (n < 10 ? n : 10);

	if (!sandbox->reconnect_timer &&
	    loop_timer_new(sandbox->service->loop, on_reconnect_timer, sandbox,
			   &sandbox->reconnect_timer) < 0) {
		service_untidy(sandbox->service); /* gc.c searches for such sandboxes */
		return;
	}
	loop_timer_set(sandbox->reconnect_timer, ms < BACKOFF_MAX ? ms : BACKOFF_MAX);
}

/* Is the init alive, but unable to keep a connection? */
static bool is_hopeless(const struct sandbox *sandbox)
{
	return sandbox->unwelcome > UNWELCOME || sandbox->breaks > BREAKS_MAX;
}

static void sandbox_hopeless(struct sandbox *sandbox)
{
	struct warren_error why = WARREN_ERROR_INIT;

	(void)error_set(&why, EPROTO, "the sandbox's init keeps closing its connections");
	sandbox_lost(sandbox, &why);
}

static bool has_no_init(int r)
{
	return r == -ESRCH || r == -ENOENT;
}

/*
 * If the state of the sandbox last changed before the run directory was created, then the
 * machine was restarted in the meantime, which ended the sandbox.
 */
static void reconnect_has_no_init(struct sandbox *sandbox)
{
	struct warren_error why = WARREN_ERROR_INIT;

	if (sandbox->row.changed_at < sandbox->service->run_since) {
		(void)error_set(&why, ESRCH, "the machine was restarted, and %s",
				sandbox->persist ? "its files on disk are missing"
						 : "its files ended with it");
		sandbox_lost_to(sandbox, SANDBOX_LOST, &why);
		return;
	}
	if (!sandbox->broke.code)
		(void)error_set(&sandbox->broke, ESRCH,
				"it ended by itself, or the machine was restarted");
	/* If it had files on disk, they are missing. */
	sandbox_lost_to(sandbox, SANDBOX_FAILED, &sandbox->broke);
}

void sandbox_reconnected(struct sandbox *sandbox, int r, const struct warren_error *err)
{
	if (sandbox->service->closing || r == -ESTALE || !sandbox_is_made(sandbox))
		return;
	if (r == 0) {
		if (sandbox->breaks > 0)
			reconnect_note(sandbox, "reconnected to its init", NULL);
		return;
	}
	if (r == -WIRE_HIBERNATES && sandbox->persist) {
		/* Something of it may be left besides its files. */
		sandbox_lost(sandbox, err);
	} else if (r == -WIRE_HIBERNATES) {
		sandbox_is_asleep(sandbox);
	} else if (has_no_init(r)) {
		reconnect_has_no_init(sandbox);
	} else if (r == -EPROTO || r == -EPERM) {
		sandbox_lost(sandbox, err);
	} else if (is_hopeless(sandbox)) {
		sandbox_hopeless(sandbox);
	} else if (r == -EAGAIN && sandbox->tries > 0 &&
		   loop_now(sandbox->service->loop) - sandbox->tried_at > DEAF_MS) {
		sandbox_lost(sandbox, err);
	} else {
		if (sandbox->tries++ == 0) {
			sandbox->tried_at = loop_now(sandbox->service->loop);
			reconnect_note(sandbox, "connect to its init, retrying", err);
		}
		reconnect_later(sandbox);
	}
}

void sandbox_disconnected(struct sandbox *sandbox, const struct warren_error *why)
{
	uint64_t now = loop_now(sandbox->service->loop);
	struct warren_error again = WARREN_ERROR_INIT;

	if (sandbox->service->closing || !sandbox_is_made(sandbox)) {
		sandbox_lost(sandbox, why);
		return;
	}
	if (now - sandbox->broke_at > BREAKS_MS)
		sandbox->breaks = 0;
	sandbox->broke_at = now;
	sandbox->breaks++;
	if (is_hopeless(sandbox)) {
		sandbox_hopeless(sandbox);
		return;
	}
	sandbox->broke = *why;
	(void)error_set(&again, EAGAIN,
			"the connection to the sandbox's init broke; try again");
	init_conn_close(sandbox, &again);
	ROOMS_CALL(sandbox->service, disconnected, sandbox);
	if (sandbox->breaks == 1)
		sandbox_reconnect_in_turn(sandbox);
	else
		reconnect_later(sandbox);
}
