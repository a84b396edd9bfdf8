/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns.c - requests to the native backend, with tenants taking turns
 *
 * The api's requests arrive on one connection, in the order of the clients' requests. In
 * that order, a hundred creates of one tenant would delay the first create of every other
 * tenant. So requests are sorted by tenant, and tenants take turns.
 *
 * One thread at a time receives. It takes one request, lets an idle thread continue to
 * receive, and carries out the request itself: a request changes threads only if it has
 * to wait. A thread that becomes free first receives the requests that have arrived in
 * the meantime, and then chooses the next one.
 *
 * A request of a tenant begins only while more threads are free than the tenant already
 * uses. So one tenant gets at most half of the threads, and there are free threads for
 * others.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/fd.h"
#include "base/list.h"
#include "warden/internal.h"

#define WAITING_MAX 16384
/* Maximum size of all waiting requests; others wait in the api. */
#define BYTES_MAX (64U << 20)
#define HEALTH    UINT64_MAX /* the tenant of health checks */

struct turn_job {
	struct turn_job *next;
	size_t size;
	_Alignas(8) char msg[];
};

/* A tenant with requests. */
struct turn_tenant {
	struct turn_tenant *next;
	uint64_t key;
	struct turn_job *first, **tail;
	unsigned running;
};

struct turns {
	const struct turns_ops *ops;
	void *ctx;
	int sock;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct turn_tenant *tenants; /* the tenant whose turn is next comes first */
	unsigned running, waiting, idle;
	size_t bytes;   /* bytes of waiting requests */
	bool receiving; /* a thread is receiving */
	bool over;      /* no more requests will arrive */
	pthread_t threads[WARDEN_THREADS];
	size_t n_threads;
	char room[WIRE_MESSAGE_MAX]; /* buffer of the thread that receives */
};

struct turns *turns_new(const struct turns_ops *ops, void *ctx)
{
	struct turns *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->ops = ops;
	t->ctx = ctx;
	t->sock = -1;
	(void)pthread_mutex_init(&t->lock, NULL);
	(void)pthread_cond_init(&t->changed, NULL);
	return t;
}

struct turns *turns_free(struct turns *t)
{
	if (!t)
		return NULL;
	(void)pthread_cond_destroy(&t->changed);
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
	return NULL;
}

/* -------------------------------------------------------------- queues of the tenants */

/* Return the place in the list of the tenant @key, or the end of the list. */
static struct turn_tenant **turns_find(struct turns *t, uint64_t key)
{
	struct turn_tenant **p;

	LIST_FIND(t->tenants, p, (*p)->key == key);
	return p;
}

static bool turns_queue(struct turns *t, const void *msg, size_t size)
{
	const struct warden_proto_header *h = msg;
	struct turn_tenant **p =
		turns_find(t, h->type == WIRE_HEALTH ? HEALTH : h->share);
	struct turn_job *job = malloc(sizeof(*job) + size);

	if (job && !*p) {
		*p = malloc(sizeof(**p));
		if (*p) {
			**p = (struct turn_tenant){ .key = h->type == WIRE_HEALTH
								   ? HEALTH
								   : h->share };
			(*p)->tail = &(*p)->first;
		}
	}
	if (!job || !*p) {
		free(job);
		return false;
	}
	job->size = size;
	(void)memcpy(job->msg, msg, size);
	QUEUE_PUT((*p)->tail, job);
	t->waiting++;
	t->bytes += size;
	return true;
}

/* Take the next request that may begin, and its tenant, which moves to the end of the
 * list. */
static struct turn_job *turns_take(struct turns *t, struct turn_tenant **ret_of)
{
	for (struct turn_tenant **p = &t->tenants, *of; (of = *p); p = &of->next) {
		struct turn_job *job;

		if (!of->first || of->running >= WARDEN_THREADS - t->running)
			continue;
		job = QUEUE_TAKE(of->first, of->tail);
		of->running++;
		t->running++;
		t->waiting--;
		t->bytes -= job->size;
		*ret_of = of;
		*p = of->next;
		LIST_APPEND(t->tenants, of);
		return job;
	}
	return NULL;
}

/* A tenant is in the list for as long as it has requests. */
static void turns_done(struct turns *t, struct turn_tenant *of)
{
	t->running--;
	if (--of->running > 0 || of->first)
		return;
	(void)LIST_REMOVE(t->tenants, of);
	free(of);
}

/* ----------------------------------------------------------------------- threads */

/*
 * Is the api gone? An empty message looks like the end, and other errors (unexpected
 * descriptors, lack of memory) concern only one message.
 */
static bool is_over(int sock)
{
	struct pollfd p = { .fd = sock, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0 &&
	       p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL);
}

static bool turns_may_receive(const struct turns *t)
{
	return !t->receiving && !t->over && t->waiting < WAITING_MAX &&
	       t->bytes < BYTES_MAX;
}

/* Receive one message, with the lock released. Return true if there may be more. */
static bool turns_receive(struct turns *t, int flags)
{
	size_t n_fds = 0;
	bool aside = false;
	ssize_t n;

	t->receiving = true;
	(void)pthread_mutex_unlock(&t->lock);
	n = fd_recv(t->sock, t->room, sizeof(t->room), NULL, &n_fds, flags);
	if (n >= (ssize_t)sizeof(struct warden_proto_header))
		aside = t->ops->put_aside(t->ctx, t->room, (size_t)n, t->sock);
	(void)pthread_mutex_lock(&t->lock);
	if (n >= (ssize_t)sizeof(struct warden_proto_header) && !aside &&
	    !turns_queue(t, t->room, (size_t)n)) {
		/* There is no memory to queue it, so carry it out now. */
		(void)pthread_mutex_unlock(&t->lock);
		t->ops->carry_out(t->ctx, t->room, (size_t)n, t->sock);
		(void)pthread_mutex_lock(&t->lock);
	}
	if (n <= 0 && n != -EAGAIN && is_over(t->sock)) {
		t->over = true;
		(void)pthread_cond_broadcast(&t->changed);
	}
	t->receiving = false;
	return n != -EAGAIN;
}

static void turns_carry_out(struct turns *t, struct turn_job *job, struct turn_tenant *of)
{
	/* Another thread receives new messages, and starts other requests. */
	if (t->idle > 0 && (!t->receiving || t->waiting > 0))
		(void)pthread_cond_signal(&t->changed);
	(void)pthread_mutex_unlock(&t->lock);
	t->ops->carry_out(t->ctx, job->msg, job->size, t->sock);
	free(job);
	(void)pthread_mutex_lock(&t->lock);
	turns_done(t, of);
}

static void *turns_main(void *arg)
{
	struct turns *t = arg;
	struct turn_tenant *of = NULL;

	(void)pthread_mutex_lock(&t->lock);
	for (;;) {
		struct turn_job *job;

		while (turns_may_receive(t) && turns_receive(t, MSG_DONTWAIT))
			;
		job = turns_take(t, &of);
		if (job) {
			turns_carry_out(t, job, of);
		} else if (t->over && t->waiting == 0) {
			break;
		} else if (turns_may_receive(t)) {
			(void)turns_receive(t, 0);
		} else {
			t->idle++;
			(void)pthread_cond_wait(&t->changed, &t->lock);
			t->idle--;
		}
	}
	(void)pthread_cond_broadcast(&t->changed);
	(void)pthread_mutex_unlock(&t->lock);
	return NULL;
}

int turns_start(struct turns *t, int sock)
{
	t->sock = sock;
	t->over = false;
	for (t->n_threads = 0; t->n_threads < WARDEN_THREADS; t->n_threads++) {
		int r = pthread_create(&t->threads[t->n_threads], NULL, turns_main, t);

		if (r != 0 && t->n_threads == 0)
			return -r;
		if (r != 0)
			break;
	}
	return 0;
}

bool turns_join(struct turns *t, unsigned ms)
{
	struct timespec end;

	(void)clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += ms / 1000;
	for (; t->n_threads > 0; t->n_threads--) {
		pthread_t thread = t->threads[t->n_threads - 1];

		if (ms == 0)
			(void)pthread_join(thread, NULL);
		else if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &end) != 0)
			return false;
	}
	return true;
}
