/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend_threads.c - threads for requests that may take a long time
 *
 * Creating a container takes a hundred times as long as creating a native sandbox, and
 * the pull of its image may take minutes. An answer from inside a sandbox may never come,
 * because the sandbox may be hostile. Neither may delay other requests. Threads are
 * started when they are needed.
 *
 * Each kind of request has a lane (below) with a number of threads: requests that end or
 * count sandboxes never wait for requests that create them. Within a lane, tenants and
 * backends share the threads. A request of a tenant to a backend begins only while more
 * threads are free than this tenant already uses there, and while its backend leaves a
 * quarter of the lane to others.
 *
 * Requests for one sandbox are carried out one at a time, in the order of their arrival,
 * except those that only read its files: these can be cancelled, too.
 * This includes requests of an api that died in the meantime: its successor destroys
 * half-created sandboxes, and must not overtake their creation. So a request keeps a
 * duplicate of the connection on which it came; writing to a connection without a reader
 * does no harm.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/list.h"
#include "warden/internal.h"

#define WAITING_MAX 4096
/* Maximum size of all waiting requests, because an api may send many large ones. */
#define BYTES_MAX    (32U << 20)
#define STOP_SECONDS 10

enum lane {
	LANE_MAKE,  /* requests that create or contact a sandbox */
	LANE_END,   /* destroy */
	LANE_COUNT, /* stats, list and probe */
	LANE_READ,  /* requests that read files of a sandbox */
	LANE_MAX,
};

static const unsigned lane_threads[LANE_MAX] = {
	[LANE_MAKE] = WARDEN_SLOW_THREADS,
	[LANE_END] = WARDEN_SLOW_THREADS / 2,
	[LANE_COUNT] = WARDEN_SLOW_THREADS / 2,
	[LANE_READ] = WARDEN_SLOW_THREADS / 2,
};

struct slow_job {
	struct slow_job *next;
	enum lane lane;
	int sock;
	int cancel; /* an eventfd, written when the request is cancelled; -1: none */
	size_t size;
	_Alignas(8) char msg[];
};

struct slow {
	slow_fn fn;
	void *ctx;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a job was added or has ended, or a thread has ended */
	struct slow_job *waiting, *running;
	unsigned n_waiting, all_threads;
	unsigned threads[LANE_MAX], idle[LANE_MAX];
	size_t bytes; /* bytes of waiting and running requests */
	bool stopping;
};

/* An argument for a thread. */
struct slow_thread {
	struct slow *s;
	enum lane lane;
};

struct slow *slow_new(slow_fn fn, void *ctx)
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

static void backend_threads_job_free(struct slow_job *job)
{
	(void)close(job->sock);
	if (job->cancel >= 0)
		(void)close(job->cancel);
	free(job);
}

static const struct warden_proto_header *backend_threads_head(const struct slow_job *job)
{
	return (const void *)job->msg;
}

static enum lane lane_of(uint32_t type)
{
	switch (type) {
	case WIRE_DESTROY:
		return LANE_END;
	case WIRE_STATS:
	case WIRE_LIST:
	case WIRE_LIST_KEPT:
	case WIRE_PROBE:
		return LANE_COUNT;
	case WIRE_DIFF:
		return LANE_READ;
	default:
		return LANE_MAKE;
	}
}

/* The sandbox that no other request may concern at the same time; NULL: none. */
static const char *backend_threads_id(const struct slow_job *job)
{
	return job->lane == LANE_READ ? NULL : warden_proto_id(job->msg);
}

static bool is_busy(const struct slow *s, const char *id)
{
	for (const struct slow_job *job = s->running; id && job; job = job->next) {
		const char *theirs = backend_threads_id(job);

		if (theirs && strcmp(theirs, id) == 0)
			return true;
	}
	return false;
}

/* Does an earlier request for the same sandbox wait? */
static bool is_overtaking(const struct slow *s, const struct slow_job *job)
{
	const char *id = backend_threads_id(job);

	for (const struct slow_job *j = s->waiting; id && j != job; j = j->next) {
		const char *theirs = backend_threads_id(j);

		if (theirs && strcmp(theirs, id) == 0)
			return true;
	}
	return false;
}

/* Do its tenant and its backend still have a share of the lane? */
static bool has_share(const struct slow *s, const struct slow_job *job)
{
	unsigned all = 0, same_backend = 0, same_both = 0;
	unsigned most = lane_threads[job->lane];

	for (const struct slow_job *j = s->running; j; j = j->next) {
		bool backend = strcmp(backend_threads_head(j)->backend,
				      backend_threads_head(job)->backend) == 0;

		if (j->lane != job->lane)
			continue;
		all++;
		same_backend += backend;
		same_both += backend && backend_threads_head(j)->share ==
						backend_threads_head(job)->share;
	}
	return same_both < most - all && same_backend < most - most / 4;
}

/* Take the oldest request of the lane that may begin, and add it to the running ones. */
static struct slow_job *backend_threads_take(struct slow *s, enum lane lane)
{
	for (struct slow_job **p = &s->waiting; *p; p = &(*p)->next) {
		struct slow_job *job = *p;

		if (job->lane != lane || is_busy(s, backend_threads_id(job)) ||
		    !has_share(s, job) || is_overtaking(s, job))
			continue;
		*p = job->next;
		LIST_PUSH(s->running, job);
		s->n_waiting--;
		return job;
	}
	return NULL;
}

static void *slow_main(void *arg)
{
	struct slow_thread self = *(struct slow_thread *)arg;
	struct slow *s = self.s;

	free(arg);
	(void)pthread_mutex_lock(&s->lock);
	while (!s->stopping) {
		struct slow_job *job = backend_threads_take(s, self.lane);

		if (!job) {
			s->idle[self.lane]++;
			(void)pthread_cond_wait(&s->changed, &s->lock);
			s->idle[self.lane]--;
			continue;
		}
		(void)pthread_mutex_unlock(&s->lock);
		s->fn(s->ctx, job->msg, job->size, job->sock, job->cancel);
		(void)pthread_mutex_lock(&s->lock);
		(void)LIST_REMOVE(s->running, job);
		s->bytes -= job->size;
		backend_threads_job_free(job);
		(void)pthread_cond_broadcast(&s->changed);
	}
	s->all_threads--;
	(void)pthread_cond_broadcast(&s->changed);
	(void)pthread_mutex_unlock(&s->lock);
	return NULL;
}

/*
 * Start another thread, unless one is idle: an idle thread takes the waiting requests as
 * far as their shares allow.
 */
static void add_thread(struct slow *s, enum lane lane)
{
	struct slow_thread *told;
	pthread_attr_t attr;
	pthread_t thread;

	if (s->idle[lane] > s->n_waiting || s->threads[lane] == lane_threads[lane])
		return;
	told = malloc(sizeof(*told));
	if (!told || pthread_attr_init(&attr) != 0) {
		free(told);
		return;
	}
	*told = (struct slow_thread){ s, lane };
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, slow_main, told) == 0) {
		s->threads[lane]++;
		s->all_threads++;
	} else {
		free(told);
	}
	(void)pthread_attr_destroy(&attr);
}

int slow_put(struct slow *s, const void *msg, size_t size, int sock)
{
	const struct warden_proto_header *h = msg;
	struct slow_job *job = malloc(sizeof(*job) + size);
	int r = 0;

	if (!job)
		return -ENOMEM;
	*job = (struct slow_job){ .lane = lane_of(h->type),
				  .sock = fcntl(sock, F_DUPFD_CLOEXEC, 0),
				  .cancel = -1,
				  .size = size };
	if (job->lane == LANE_READ)
		job->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (job->sock < 0 || (job->lane == LANE_READ && job->cancel < 0)) {
		if (job->sock >= 0)
			(void)close(job->sock);
		free(job);
		return -EMFILE;
	}
	(void)memcpy(job->msg, msg, size);
	(void)pthread_mutex_lock(&s->lock);
	add_thread(s, job->lane);
	if (s->threads[job->lane] > 0 && s->n_waiting < WAITING_MAX &&
	    size <= BYTES_MAX - s->bytes) {
		LIST_APPEND(s->waiting, job);
		s->n_waiting++;
		s->bytes += size;
		(void)pthread_cond_broadcast(&s->changed);
	} else {
		r = -EAGAIN;
		backend_threads_job_free(job);
	}
	(void)pthread_mutex_unlock(&s->lock);
	return r;
}

static void backend_threads_cancel(const struct slow_job *jobs, const uint32_t *seq)
{
	for (const struct slow_job *job = jobs; job; job = job->next)
		if (job->cancel >= 0 && (!seq || backend_threads_head(job)->seq == *seq))
			(void)eventfd_write(job->cancel, 1);
}

/* A request that waits ends when its turn comes. */
void slow_cancel(struct slow *s, const uint32_t *seq)
{
	(void)pthread_mutex_lock(&s->lock);
	backend_threads_cancel(s->waiting, seq);
	backend_threads_cancel(s->running, seq);
	(void)pthread_mutex_unlock(&s->lock);
}

struct slow *slow_stop(struct slow *s)
{
	struct timespec end;
	bool over;

	(void)clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += STOP_SECONDS;
	(void)pthread_mutex_lock(&s->lock);
	s->stopping = true;
	(void)pthread_cond_broadcast(&s->changed);
	while (s->all_threads > 0 &&
	       pthread_cond_clockwait(&s->changed, &s->lock, CLOCK_MONOTONIC, &end) !=
		       ETIMEDOUT)
		;
	over = s->all_threads == 0;
	(void)pthread_mutex_unlock(&s->lock);
	if (!over)
		return s;
	while (s->waiting) {
		struct slow_job *job = s->waiting;

		s->waiting = job->next;
		backend_threads_job_free(job);
	}
	(void)pthread_cond_destroy(&s->changed);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}
