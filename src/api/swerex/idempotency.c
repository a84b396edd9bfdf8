/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idempotency.c - answers, and their repetition for repeated requests
 *
 * A client that lost its connection repeats its request with the same X-Request-ID. The
 * work is done once: while it is under way, both requests wait for it. Afterwards the
 * answer is kept here, until newer answers of the same sandbox, or of all sandboxes,
 * replace it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/swerex/internal.h"
#include "base/list.h"

#define KEPT_OF_SANDBOX       64          /* answers */
#define KEPT_BYTES_OF_SANDBOX (8U << 20)  /* maximum for one sandbox */
#define KEPT_MAX              (64U << 20) /* maximum number of bytes for all sandboxes */

static struct job **idempotency_bucket(struct swerex *sx, const char *sandbox)
{
	unsigned sum = 0;

	while (*sandbox)
		sum = sum * 31 + (unsigned char)*sandbox++;
	return &sx->jobs[sum % SWEREX_BUCKETS];
}

static void job_unref(struct job *job)
{
	if (--job->refs > 0)
		return;
	json_decref(job->body);
	buf_done(&job->answer);
	reply_unref(job->reply);
	free(job);
}

static size_t job_bytes(const struct job *job)
{
	return job->answer.len + reply_size(job->reply);
}

static void idempotency_keep(struct job *job)
{
	struct swerex *sx = job->sx;
	struct job **head = idempotency_bucket(sx, job->sandbox);

	job->kept = true;
	job->refs++;
	job->chain = *head;
	*head = job;
	job->older = sx->newest;
	*(sx->newest ? &sx->newest->newer : &sx->oldest) = job;
	sx->newest = job;
}

static void idempotency_forget(struct job *job)
{
	struct swerex *sx = job->sx;
	struct job **p = idempotency_bucket(sx, job->sandbox);

	while (*p != job)
		p = &(*p)->chain;
	*p = job->chain;
	*(job->newer ? &job->newer->older : &sx->newest) = job->older;
	*(job->older ? &job->older->newer : &sx->oldest) = job->newer;
	sx->kept -= job_bytes(job);
	job->kept = false;
	job_unref(job);
}

/*
 * Remove the oldest answers to make room for that of @job: first answers of the same
 * sandbox, then of all sandboxes.
 */
static void idempotency_make_room(struct job *job)
{
	struct swerex *sx = job->sx;
	struct job *next;
	size_t n = 0, bytes = 0;

	for (struct job *j = *idempotency_bucket(sx, job->sandbox); j; j = next) {
		next = j->chain;
		if (strcmp(j->sandbox, job->sandbox) != 0)
			continue;
		bytes += job_bytes(j);
		if (j->done && (++n > KEPT_OF_SANDBOX || bytes > KEPT_BYTES_OF_SANDBOX))
			idempotency_forget(j);
	}
	for (struct job *j = sx->oldest; j && sx->kept > KEPT_MAX; j = next) {
		next = j->newer;
		if (j->done)
			idempotency_forget(j);
	}
}

static struct job *idempotency_find(const struct ask *ask, const char *id)
{
	for (struct job *job = *idempotency_bucket(ask->sx, ask->sandbox); id && job;
	     job = job->chain)
		if (strcmp(job->id, id) == 0 && job->call == ask->call &&
		    strcmp(job->sandbox, ask->sandbox) == 0)
			return job;
	return NULL;
}

static void idempotency_respond(struct ask *ask, int status, const char *data, size_t n)
{
	static const struct http_header headers[] = {
		{ "Content-Type", "application/json" },
		{ "Cache-Control", "no-store" },
	};

	if (ask->req)
		(void)http_respond(ask->req, status, headers, ARRAY_SIZE(headers), data,
				   n);
}

void ask_answer(struct ask *ask, int status, const struct buf *body)
{
	if (body->failed)
		ask_refuse(ask, 503, "not enough memory for the answer");
	else
		idempotency_respond(ask, status, body->data, body->len);
}

void ask_refuse(struct ask *ask, int status, const char *fmt, ...)
{
	AUTO_BUF struct buf out = BUF_INIT(16384);
	struct json j = { .out = &out };
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (status >= 500)
		(void)snprintf(ask->cause, sizeof(ask->cause), "%.255s", text);
	json_open(&j, NULL, '{');
	json_str(&j, "detail", text);
	json_close(&j, '}');
	idempotency_respond(ask, status, out.data, out.len);
}

static struct job *job_new(struct ask *ask, const char *id)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->sx = ask->sx;
	job->refs = 1;
	(void)strcpy(job->sandbox, ask->sandbox);
	job->call = ask->call;
	job->answer = (struct buf)BUF_INIT(ANSWER_MAX);
	if (id && *id && strlen(id) < sizeof(job->id)) {
		(void)strcpy(job->id, id);
		idempotency_keep(job);
	}
	return job;
}

struct job *job_join(struct ask *ask, const char *id, bool *ret_new)
{
	struct job *job = idempotency_find(ask, id);

	*ret_new = !job;
	if (!job)
		job = job_new(ask, id);
	if (!job)
		return NULL;
	if (job->done) {
		if (job->reply)
			reply_send(ask, job->reply);
		else
			ask_answer(ask, job->status, &job->answer);
		return job;
	}
	job->refs++;
	ask->job = job;
	ask->next = job->asks;
	job->asks = ask;
	return job;
}

void job_leave(struct ask *ask)
{
	struct job *job = ask->job;

	if (!job)
		return;
	(void)LIST_REMOVE(job->asks, ask);
	ask->job = NULL;
	if (!job->asks && !job->kept && job->session_terminal)
		job_withdraw(job);
	job_unref(job);
}

struct sandbox *job_sandbox(struct job *job)
{
	struct sandbox *sandbox = sandbox_find(job->sx->service, NULL, job->sandbox);

	if (!sandbox)
		job_raisef(job, SWEREX "SessionNotInitializedError",
			   "the sandbox '%s' is gone", job->sandbox);
	return sandbox;
}

static void idempotency_job_end(struct job *job)
{
	json_decref(job->body);
	job->body = NULL;
	job->session_terminal = NULL;
	fair_quota_end(&job->sx->bodies, &job->body_lease);
	if (job->kept) {
		job->sx->kept += job_bytes(job);
		idempotency_make_room(job);
	}
	job_unref(job); /* the handler's */
}

void job_answer(struct job *job, int status, const struct buf *body)
{
	static const char full[] = "{\"detail\":\"not enough memory for the answer\"}";

	job->done = true;
	job->status = body->failed ? 503 : status;
	if (body->failed)
		buf_puts(&job->answer, full);
	else
		buf_add(&job->answer, body->data, body->len);
	while (job->asks) {
		struct ask *ask = job->asks;

		ask_answer(ask, job->status, &job->answer);
		job_leave(ask);
	}
	idempotency_job_end(job);
}

void job_reply(struct job *job, struct reply *r)
{
	AUTO_BUF struct buf out = BUF_INIT(ANSWER_MAX);

	out.failed = reply_failed(r);
	if (out.failed || reply_size(r) <= REPLY_SMALL) {
		if (!out.failed)
			reply_write(r, &out);
		job_answer(job, r->status, &out);
		reply_unref(r);
		return;
	}
	job->done = true;
	job->status = r->status;
	job->reply = r;
	while (job->asks) {
		struct ask *ask = job->asks;

		reply_send(ask, r);
		job_leave(ask);
	}
	if (r->readers == 0)
		fair_quota_end(r->account, &r->lease);
	idempotency_job_end(job);
}

void job_refuse(struct job *job, int status, const char *why)
{
	AUTO_BUF struct buf out = BUF_INIT(1024);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	json_str(&j, "detail", why);
	json_close(&j, '}');
	job_answer(job, status, &out);
}

void job_crowded(struct job *job, const char *what)
{
	AUTO_BUF struct buf why = BUF_INIT(1024);

	buf_printf(&why,
		   "%s: the service holds too many large answers that clients have "
		   "not read yet; try again later",
		   what);
	job_refuse(job, 503, why.data);
}

void swerex_done(struct swerex *sx)
{
	while (sx->oldest)
		idempotency_forget(sx->oldest);
}
