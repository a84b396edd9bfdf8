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
	/* Sandboxes that no client knows if the answer is an error: they are deleted. */
	size_t n;
	char (*ids)[ID_LEN + 1];
};

static void promise_discard(const struct promise *p, struct service *s)
{
	/* One after another, because there may be no memory for a list. */
	for (size_t i = 0; i < p->n; i++) {
		struct sandbox *sandbox = sandbox_find(s, NULL, p->ids[i]);

		sandbox_discard(s, &sandbox, 1);
	}
}

static void promise_free(struct promise *p)
{
	buf_done(&p->out);
	free(p->ids);
	free(p);
}

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

	if (p->error)
		promise_discard(p, c->v1->service);
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
	promise_free(p);
	call_unref(c);
}

/* NULL: there is no memory. */
static struct promise *promise_new(int status, const struct buf *body,
				   struct sandbox *const *all, size_t n)
{
	struct promise *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	*p = (struct promise){ .status = status,
			       .out = BUF_INIT(body ? body->len + 1 : 1),
			       .ids = calloc(n + 1, sizeof(*p->ids)) };
	for (size_t i = 0; p->ids && i < n; i++)
		if (all[i])
			(void)strcpy(p->ids[p->n++], sandbox_row(all[i])->id);
	if (body)
		buf_add(&p->out, body->data, body->len);
	p->out.failed |= body && body->failed;
	if (p->ids)
		return p;
	promise_free(p);
	return NULL;
}

/* Syncing the disk may take a long time, so other clients are served in the meantime. */
static void promise_make(struct call *c, int status, const struct buf *body,
			 struct sandbox **all, size_t n)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct promise *p = promise_new(status, body, all, n);
	int fd = p ? db_sync_fd(service_db(c->v1->service), &err)
		   : error_errno(&err, ENOMEM, "answer");

	if (fd < 0) {
		if (p)
			promise_free(p);
		if (n > 0)
			sandbox_discard(c->v1->service, all, n);
		call_fail(c, &err);
		return;
	}
	p->call = call_ref(c);
	p->fd = fd;
	if (loop_work(service_loop(c->v1->service), c->caller.tenant, promise_sync,
		      promise_keep, p) < 0) {
		promise_sync(p);
		promise_keep(p);
	}
}

void call_synced(struct call *c, int status, const struct buf *body)
{
	promise_make(c, status, body, NULL, 0);
}

void call_created(struct call *c, const struct buf *body, struct sandbox **all, size_t n)
{
	bool again = json_object_get(c->body.json, "idempotency_key"), persists = false;

	for (size_t i = 0; i < n; i++)
		persists |= all[i] && sandbox_persists(all[i]);
	if (persists)
		promise_make(c, 201, body, all, again ? 0 : n);
	else
		call_json(c, 201, body);
}

void call_json_when(struct call *c, int status, const struct buf *body, bool synced)
{
	if (synced)
		call_synced(c, status, body);
	else
		call_json(c, status, body);
}
