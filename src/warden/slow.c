/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow.c - requests to backends that are other programs, on threads of their own
 *
 * A container takes a hundred times as long to make as a sandbox of ours, and the pull of an image
 * before it may take minutes: neither is to hold up anybody else. Threads are started as they
 * are needed, up to a number.
 *
 * Of one sandbox, one request is carried out at a time, in the order in which they came. That
 * holds also for those of an api that died meanwhile: its successor unmakes what it finds half
 * made, and must not overtake the making. So a request keeps the connection on which it came, by
 * a copy; to write to one that nobody reads any more does no harm.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "warden/internal.h"

#define WAITING_MAX 4096
#define BYTES_MAX \
	(32U << 20) /* of requests that wait: an api may send many, and large ones */
#define STOP_SECONDS 10

struct slow_job {
	struct slow_job *next;
	int sock;
	size_t size;
	_Alignas(8) char msg[];
};

struct slow {
	void (*fn)(void *ctx, const void *msg, size_t size, int sock);
	void *ctx;
	pthread_mutex_t lock;
	pthread_cond_t
		changed; /* there is a new job, or one has ended, or a thread has */
	struct slow_job *waiting, *running;
	unsigned n_waiting, threads, idle;
	size_t bytes; /* of what waits and what is under way */
	bool stopping;
};

struct slow *slow_new(void (*fn)(void *ctx, const void *msg, size_t size, int sock),
		      void *ctx)
{
	struct slow *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->fn = fn;
	s->ctx = ctx;
	(void)pthread_mutex_init(&s->lock, NULL);
	(void)pthread_cond_init(&s->changed, NULL);
	return s;
}

static void job_free(struct slow_job *job)
{
	(void)close(job->sock);
	free(job);
}

static bool is_busy(const struct slow *s, const char *id)
{
	for (const struct slow_job *job = s->running; id && job; job = job->next) {
		const char *theirs = wire_id(job->msg);

		if (theirs && strcmp(theirs, id) == 0)
			return true;
	}
	return false;
}

/* The oldest whose sandbox nobody is at; from one list to the other. */
static struct slow_job *take(struct slow *s)
{
	for (struct slow_job **p = &s->waiting; *p; p = &(*p)->next) {
		struct slow_job *job = *p;

		if (is_busy(s, wire_id(job->msg)))
			continue;
		*p = job->next;
		job->next = s->running;
		s->running = job;
		s->n_waiting--;
		return job;
	}
	return NULL;
}

static void *slow_main(void *arg)
{
	struct slow *s = arg;

	(void)pthread_mutex_lock(&s->lock);
	while (!s->stopping) {
		struct slow_job *job = take(s), **p;

		if (!job) {
			s->idle++;
			(void)pthread_cond_wait(&s->changed, &s->lock);
			s->idle--;
			continue;
		}
		(void)pthread_mutex_unlock(&s->lock);
		s->fn(s->ctx, job->msg, job->size, job->sock);
		(void)pthread_mutex_lock(&s->lock);
		for (p = &s->running; *p != job; p = &(*p)->next)
			;
		*p = job->next;
		s->bytes -= job->size;
		job_free(job);
		(void)pthread_cond_broadcast(&s->changed);
	}
	s->threads--;
	(void)pthread_cond_broadcast(&s->changed);
	(void)pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* One more, if all will be at work. */
static void add_thread(struct slow *s)
{
	pthread_attr_t attr;
	pthread_t thread;

	if (s->idle > s->n_waiting || s->threads == WARDEN_SLOW_THREADS ||
	    pthread_attr_init(&attr) != 0)
		return;
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	s->threads += pthread_create(&thread, &attr, slow_main, s) == 0;
	(void)pthread_attr_destroy(&attr);
}

int slow_put(struct slow *s, const void *msg, size_t size, int sock)
{
	struct slow_job *job = malloc(sizeof(*job) + size), **p;
	int r = 0;

	if (!job)
		return -ENOMEM;
	*job = (struct slow_job){ .sock = fcntl(sock, F_DUPFD_CLOEXEC, 0), .size = size };
	if (job->sock < 0) {
		free(job);
		return -EMFILE;
	}
	(void)memcpy(job->msg, msg, size);
	(void)pthread_mutex_lock(&s->lock);
	add_thread(s);
	if (s->threads > 0 && s->n_waiting < WAITING_MAX &&
	    size <= BYTES_MAX - s->bytes) {
		for (p = &s->waiting; *p; p = &(*p)->next)
			;
		*p = job;
		s->n_waiting++;
		s->bytes += size;
		(void)pthread_cond_broadcast(&s->changed);
	} else {
		r = -EAGAIN;
		job_free(job);
	}
	(void)pthread_mutex_unlock(&s->lock);
	return r;
}

struct slow *slow_stop(struct slow *s)
{
	struct timespec end;
	bool over;

	(void)clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += STOP_SECONDS;
	(void)pthread_mutex_lock(&s->lock);
	s->stopping = true;
	(void)pthread_cond_broadcast(&s->changed);
	while (s->threads > 0 &&
	       pthread_cond_timedwait(&s->changed, &s->lock, &end) != ETIMEDOUT)
		;
	over = s->threads == 0;
	(void)pthread_mutex_unlock(&s->lock);
	if (!over)
		return s;
	while (s->waiting) {
		struct slow_job *job = s->waiting;

		s->waiting = job->next;
		job_free(job);
	}
	(void)pthread_cond_destroy(&s->changed);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}
