/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - decide how many prepared sandboxes are needed, create and drop them, and
 * inform the api
 */
#include "warden/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "warden/internal.h"

#define CALM_NS 30000000000ULL /* time without demand after which there are too many */
/* Wait this long after a creation, while the sandbox is first used. */
#define SETTLE_NS 20000000ULL
#define FEW       16 /* number that is kept ready for sequential clients, even under load */
/* Time to wait after a failure, such as too many processes. */
#define RETRY_NS 5000000000ULL

struct pool {
	struct warren *engine;
	size_t min, max;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_mutex_t
		work; /* held while a part is created or destroyed, and by pool_hold() */
	pthread_cond_t change;
	bool started, stop;
	bool filling; /* create up to a few, even while sandboxes are in use */
	int sock;     /* -1: no api is connected */
	unsigned creating;
	uint64_t last_create, last_need; /* ns */
	uint64_t retry_at;               /* time of the next try; 0: nothing failed */
	size_t want, lowest; /* lowest: smallest number that was ready since last_need */
	size_t n;
	char (*ids)[16]; /* parts that are ready, the oldest first; the array has space
			    for max */
};

/* ---------------------------------------------------------------- messages to the api */

/*
 * Call this with the lock held, so that messages are in order. The api reads all messages
 * at once.
 */
static void warden_pool_tell(struct pool *s, size_t from)
{
	bool all = from == 0;
	struct {
		struct warden_proto_pool h;
		char ids[WIRE_STOCK_MAX][16];
	} msg;

	while (s->sock >= 0 && (from < s->n || all)) {
		size_t n = s->n - from < WIRE_STOCK_MAX ? s->n - from : WIRE_STOCK_MAX;

		msg.h = (struct warden_proto_pool){ .h = { .type = WIRE_STOCK },
						    .n = (uint16_t)n,
						    .all = all,
						    .want = (uint32_t)s->want };
		(void)memcpy(msg.ids, s->ids + from, n * sizeof(*s->ids));
		(void)fd_send(s->sock, &msg, sizeof(msg.h) + n * sizeof(*s->ids), NULL,
			      0);
		from += n;
		all = false;
	}
}

void pool_hold(struct pool *s, bool hold)
{
	if (s && hold)
		(void)pthread_mutex_lock(&s->work);
	else if (s)
		(void)pthread_mutex_unlock(&s->work);
}

/* -------------------------------------------------------------------- demand */

static void need_more(struct pool *s)
{
	s->want = s->want ? 2 * s->want : 1;
	if (s->want > s->max)
		s->want = s->max;
	s->last_need = clock_now();
	s->lowest = s->n;
}

void pool_begin(struct pool *s, const char *id)
{
	size_t i = 0;

	if (!s)
		return;
	(void)pthread_mutex_lock(&s->lock);
	s->creating++;
	while (i < s->n && strcmp(s->ids[i], id) != 0)
		i++;
	if (i < s->n) {
		s->n--;
		(void)memmove(s->ids + i, s->ids + i + 1, (s->n - i) * sizeof(*s->ids));
		if (s->n < s->lowest)
			s->lowest = s->n;
	} else {
		need_more(s);
	}
	(void)pthread_mutex_unlock(&s->lock);
}

void pool_end(struct pool *s)
{
	if (!s)
		return;
	(void)pthread_mutex_lock(&s->lock);
	s->last_create = clock_now();
	if (--s->creating == 0)
		(void)pthread_cond_signal(&s->change);
	(void)pthread_mutex_unlock(&s->lock);
}

/* ---------------------------------------------------------------- thread of the pool */

static void pool_wait_until(struct pool *s, uint64_t ns)
{
	struct timespec at = { .tv_sec = (time_t)(ns / 1000000000),
			       .tv_nsec = (long)(ns % 1000000000) };

	(void)pthread_cond_timedwait(&s->change, &s->lock, &at);
}

/* The lock is released during the work. */
static void make_one(struct pool *s)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char id[WARREN_ID_SIZE] = "";
	int r;

	(void)pthread_mutex_unlock(&s->lock);
	(void)pthread_mutex_lock(&s->work);
	r = warren_prepare(s->engine, id, &err);
	(void)pthread_mutex_unlock(&s->work);
	(void)pthread_mutex_lock(&s->lock);
	if (r == -EOPNOTSUPP)
		s->stop = true;
	else if (r < 0)
		s->retry_at = clock_now() + RETRY_NS;
	if (r < 0)
		return;
	s->retry_at = 0;
	(void)memset(s->ids[s->n], 0, sizeof(*s->ids));
	(void)memcpy(s->ids[s->n++], id, sizeof(id));
	warden_pool_tell(s, s->n - 1);
}

static void drop_some(struct pool *s)
{
	size_t fewer = s->want / 2 > s->min ? s->want / 2 : s->min;
	size_t n = s->n > fewer ? s->n - fewer : 0;

	s->want = fewer;
	s->last_need = clock_now();
	s->lowest = s->n -= n;
	/* Remove the oldest parts, here and in the api's list. */
	(void)memmove(s->ids, s->ids + n, s->n * sizeof(*s->ids));
	warden_pool_tell(s, 0);
	(void)pthread_mutex_unlock(&s->lock);
	(void)pthread_mutex_lock(&s->work);
	(void)warren_unprepare(s->engine, n);
	(void)pthread_mutex_unlock(&s->work);
	(void)pthread_mutex_lock(&s->lock);
}

/*
 * Should a part be prepared now? A few are always kept ready. When half of them are used,
 * several are created at once, because preparing one after each create would delay the
 * first command of every sandbox.
 */
static bool is_time(struct pool *s, uint64_t settled, uint64_t now)
{
	size_t few = s->want < FEW ? s->want : FEW;

	s->filling = s->n < few && (s->filling || 2 * s->n <= few);
	return s->filling || now >= settled;
}

static void *pool_main(void *arg)
{
	struct pool *s = arg;

	(void)pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		uint64_t now = clock_now(), settled = s->last_create + SETTLE_NS;
		uint64_t calm = s->last_need + CALM_NS;

		if (s->n < s->want && s->retry_at > now)
			pool_wait_until(s, s->retry_at);
		else if (s->n < s->want && s->creating > 0)
			(void)pthread_cond_wait(&s->change, &s->lock);
		else if (s->n < s->want && !is_time(s, settled, now))
			pool_wait_until(s, settled);
		else if (s->n < s->want)
			make_one(s);
		else if (s->filling)
			s->filling = false;
		else if (s->want <= s->min)
			(void)pthread_cond_wait(&s->change, &s->lock);
		else if (calm > now)
			pool_wait_until(s, calm);
		else if (s->lowest >= s->want / 2)
			drop_some(s);
		else
			s->last_need = now, s->lowest = s->n;
	}
	(void)pthread_mutex_unlock(&s->lock);
	return NULL;
}

/*
 * An api has connected, and needs parts. The thread starts only now, because it would
 * disturb the fork that creates the api.
 */
void pool_tell(struct pool *s, int sock)
{
	if (!s)
		return;
	(void)pthread_mutex_lock(&s->lock);
	s->sock = sock;
	warden_pool_tell(s, 0);
	if (sock >= 0 && !s->started)
		s->started = pthread_create(&s->thread, NULL, pool_main, s) == 0;
	(void)pthread_mutex_unlock(&s->lock);
}

/* Each part holds three descriptors, but most descriptors are reserved for requests. */
static size_t pool_affordable(size_t max)
{
	struct rlimit lim = { 0 };
	size_t most = getrlimit(RLIMIT_NOFILE, &lim) == 0 ? lim.rlim_cur / 16 : max;

	return max < most ? max : most;
}

struct pool *pool_open(struct warren *engine, size_t min, size_t max)
{
	struct pool *s;
	pthread_condattr_t attr;

	max = pool_affordable(max);
	s = max > 0 ? calloc(1, sizeof(*s)) : NULL;
	if (!s)
		return NULL;
	s->ids = calloc(max, sizeof(*s->ids));
	s->engine = engine;
	s->min = min < max ? min : max;
	s->max = max;
	s->want = s->min;
	s->sock = -1;
	(void)pthread_mutex_init(&s->lock, NULL);
	(void)pthread_mutex_init(&s->work, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&s->change, &attr);
	(void)pthread_condattr_destroy(&attr);
	return s->ids ? s : pool_close(s);
}

struct pool *pool_close(struct pool *s)
{
	if (!s)
		return NULL;
	(void)pthread_mutex_lock(&s->lock);
	s->stop = true;
	(void)pthread_cond_signal(&s->change);
	(void)pthread_mutex_unlock(&s->lock);
	if (s->started)
		(void)pthread_join(s->thread, NULL);
	(void)pthread_cond_destroy(&s->change);
	(void)pthread_mutex_destroy(&s->work);
	(void)pthread_mutex_destroy(&s->lock);
	free(s->ids);
	free(s);
	return NULL;
}
