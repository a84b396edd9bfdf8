/* SPDX-License-Identifier: Apache-2.0 */
/* synced.c - answers that are sent once the change survives a power cut */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "api/v1/v1.h"
#include "net/loop.h"

/* An answer that is sent when its change survives a power cut. */
struct promise {
	struct call *call;
	int fd, status, error;
	struct buf out;
};

static void promise_sync(void *ctx)
{
	struct promise *p = ctx;

	p->error = fdatasync(p->fd) < 0 ? errno : 0;
	(void)close(p->fd);
}

static void promise_keep(void *ctx)
{
	struct promise *p = ctx;
	struct call *c = p->call;
	struct warren_error err = WARREN_ERROR_INIT;

	if (c->req && p->error) {
		(void)error_errno(&err, p->error, "sync the database");
		call_fail(c, &err);
	} else if (c->req && p->out.len > 0) {
		call_json(c, p->status, &p->out);
	} else if (c->req) {
		call_empty(c, p->status);
	}
	if (p->out.data)
		explicit_bzero(p->out.data, p->out.len);
	buf_done(&p->out);
	call_unref(c);
	free(p);
}

/* Syncing the disk may take a long time, so other clients are served in the meantime. */
void call_synced(struct call *c, int status, const struct buf *body)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct promise *p = calloc(1, sizeof(*p));
	int fd = p ? db_sync_fd(service_db(c->v1->service), &err)
		   : error_errno(&err, ENOMEM, "answer");

	if (fd < 0) {
		free(p);
		call_fail(c, &err);
		return;
	}
	*p = (struct promise){ .call = call_ref(c),
			       .fd = fd,
			       .status = status,
			       .out = BUF_INIT(body ? body->len + 1 : 1) };
	if (body)
		buf_add(&p->out, body->data, body->len);
	p->out.failed |= body && body->failed;
	if (loop_work(service_loop(c->v1->service), c->caller.tenant, promise_sync,
		      promise_keep, p) < 0) {
		promise_sync(p);
		promise_keep(p);
	}
}

void call_json_when(struct call *c, int status, const struct buf *body, bool synced)
{
	if (synced)
		call_synced(c, status, body);
	else
		call_json(c, status, body);
}
