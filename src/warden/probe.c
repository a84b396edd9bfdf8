/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.c - find out what an engine can do: one thread per engine answers all requests
 *
 * Probing an engine may mean waiting for another program, which may never answer. So a
 * thread does not wait while another one probes the engine: it passes its request to that
 * thread, which answers it. This way, an engine that hangs blocks one thread, no matter
 * how many requests there are, and does not affect other engines. A recent result is used
 * again.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "warden/internal.h"

#define PROBE_FRESH_NS 1000000000ULL
/* Maximum for each engine, because each waiter has a descriptor. */
#define WAITERS_MAX 1024

/* A request that the probing thread will answer. */
struct probe_waiter {
	struct probe_waiter *next;
	uint32_t seq;
	int sock;
};

struct probe {
	struct probe *next;
	const struct warren *engine;
	struct probe_waiter *waiters;
	unsigned n_waiters;
	bool running; /* a thread is probing; only that thread uses the engine's memory
			 for features */
	char *json;   /* the last result, from time @at; NULL: none */
	size_t size;
	uint64_t at;
};

struct probes {
	pthread_mutex_t lock;
	struct probe *all; /* one for each engine */
};

struct probes *probes_new(void)
{
	struct probes *p = calloc(1, sizeof(*p));

	if (p)
		(void)pthread_mutex_init(&p->lock, NULL);
	return p;
}

struct probes *probes_free(struct probes *all)
{
	if (!all)
		return NULL;
	while (all->all) {
		struct probe *p = all->all;

		all->all = p->next;
		free(p->json);
		free(p);
	}
	(void)pthread_mutex_destroy(&all->lock);
	free(all);
	return NULL;
}

static struct probe *probe_get(struct probes *all, const struct warren *engine)
{
	struct probe *p = all->all;

	while (p && p->engine != engine)
		p = p->next;
	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (p) {
		p->engine = engine;
		p->next = all->all;
		all->all = p;
	}
	return p;
}

static int probe_wait(struct probe *p, uint32_t seq, int sock, struct warren_error *err)
{
	struct probe_waiter *waiter;

	if (p->n_waiters == WAITERS_MAX)
		return error_set(err, EAGAIN,
				 "too many requests are waiting for this backend: try "
				 "again later");
	waiter = malloc(sizeof(*waiter));
	if (!waiter)
		return error_errno(err, ENOMEM, "wait for a probe");
	*waiter = (struct probe_waiter){ .next = p->waiters,
					 .seq = seq,
					 .sock = fcntl(sock, F_DUPFD_CLOEXEC, 0) };
	if (waiter->sock < 0) {
		free(waiter);
		return error_errno(err, EMFILE, "wait for a probe");
	}
	p->waiters = waiter;
	p->n_waiters++;
	return 1;
}

static int probe_run(struct warren *engine, struct buf *reply, struct warren_error *err)
{
	const struct warren_feature *f;
	struct json j = { .out = reply };
	size_t n = 0;
	int r = warren_probe(engine, &f, &n, err);

	if (r < 0)
		return r;
	json_open(&j, NULL, '[');
	for (size_t i = 0; i < n; i++) {
		json_open(&j, NULL, '{');
		json_str(&j, "name", f[i].name);
		json_bool(&j, "ok", f[i].ok);
		json_bool(&j, "required", f[i].required);
		json_str(&j, "detail", f[i].detail);
		json_str(&j, "effect", f[i].effect);
		json_str(&j, "fix", f[i].fix);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	return reply->failed ? error_errno(err, ENOMEM, "answer") : 0;
}

static void probe_keep(struct probe *p, const struct buf *reply)
{
	free(p->json);
	p->json = malloc(reply->len);
	p->size = p->json ? reply->len : 0;
	p->at = clock_now();
	if (p->json)
		(void)memcpy(p->json, reply->data, reply->len);
}

static void probe_tell(struct probe_waiter *waiter, const struct buf *found,
		       const struct warren_error *failure)
{
	while (waiter) {
		struct probe_waiter *next = waiter->next;
		struct warden_proto_reply reply = {
			.h = { .type = WIRE_REPLY, .seq = waiter->seq }, .err = *failure
		};

		warden_reply(waiter->sock, &reply, failure->code ? NULL : found, NULL);
		(void)close(waiter->sock);
		free(waiter);
		waiter = next;
	}
}

int probes_ask(struct probes *all, struct warren *engine, uint32_t seq, int sock,
	       struct buf *reply, struct warren_error *err)
{
	struct warren_error failure = WARREN_ERROR_INIT;
	struct probe_waiter *waiters;
	struct probe *p;
	bool ours = false;
	int r = 0;

	(void)pthread_mutex_lock(&all->lock);
	p = probe_get(all, engine);
	if (!p)
		r = error_errno(err, ENOMEM, "probe");
	else if (p->json && clock_now() - p->at < PROBE_FRESH_NS)
		buf_add(reply, p->json, p->size);
	else if (p->running)
		r = probe_wait(p, seq, sock, err);
	else
		ours = p->running = true;
	(void)pthread_mutex_unlock(&all->lock);
	if (!ours)
		return r;

	r = probe_run(engine, reply, &failure);
	(void)pthread_mutex_lock(&all->lock);
	if (r == 0)
		probe_keep(p, reply);
	waiters = p->waiters;
	p->waiters = NULL;
	p->n_waiters = 0;
	p->running = false;
	(void)pthread_mutex_unlock(&all->lock);
	probe_tell(waiters, reply, &failure);
	if (r < 0)
		*err = failure;
	return r;
}
