/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rate.c - creates and destroys per second, by several processes at the same time, and
 * leftovers
 *
 * Each worker is a process with its own engine; they start together and stop at the same
 * time. They report their counts and failures in shared memory.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "bench.h"

#define WORKERS_MAX  64
#define RATE_SECONDS 10U /* maximum time, which is enough to measure a rate */

struct worker {
	uint64_t done;
	uint64_t processor; /* processor time in ns of the worker and its sandboxes */
	unsigned fds_before, fds_after;
	struct warren_error err;
};

struct shared {
	uint64_t start, stop;
	const struct maker *maker;
	bool with_true;
	struct worker workers[WORKERS_MAX];
};

static unsigned count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++) {
		struct pollfd p = { .fd = fd };

		n += poll(&p, 1, 0) >= 0 && !(p.revents & POLLNVAL);
	}
	return n;
}

/*
 * Return the processor time of this process and of all children that it waited for. The
 * time of kernel threads is not included.
 */
static uint64_t processor_time(void)
{
	static const int who[] = { RUSAGE_SELF, RUSAGE_CHILDREN };
	uint64_t us = 0;

	for (size_t i = 0; i < ARRAY_SIZE(who); i++) {
		struct rusage u;

		if (getrusage(who[i], &u) < 0)
			continue;
		us += (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000;
		us += (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
	}
	return us * 1000;
}

static int make_and_unmake(const struct shared *s, void *state, struct warren_error *err)
{
	static const char *const argv[] = { "/bin/true", NULL };
	void *sandbox = NULL;
	int r = s->maker->make(state, &sandbox, err);

	if (r < 0)
		return r;
	r = s->with_true ? run_in(sandbox, argv, err) : 0;
	if (r < 0) {
		struct warren_error second = WARREN_ERROR_INIT;

		(void)s->maker->unmake(sandbox, &second);
		return r;
	}
	return s->maker->unmake(sandbox, err);
}

static void work(const struct bench *b, struct shared *s, struct worker *me)
{
	void *state = NULL;
	int r = s->maker->open(b, &state, &me->err);

	/* Create one sandbox before the start, because the first one of an engine opens
	 * files that the others use. */
	if (r == 0)
		r = make_and_unmake(s, state, &me->err);
	me->fds_before = count_fds();
	while (r == 0 && clock_now() < s->start)
		(void)sched_yield();
	me->processor = processor_time();
	while (r == 0 && clock_now() < s->stop) {
		r = make_and_unmake(s, state, &me->err);
		me->done += r == 0;
	}
	me->processor = processor_time() - me->processor;
	me->fds_after = count_fds();
	if (state)
		s->maker->close(state);
	_exit(r < 0);
}

static int run_workers(struct bench *b, struct shared *s, unsigned n,
		       struct warren_error *err)
{
	unsigned seconds =
		b->seconds / 4 < RATE_SECONDS ? b->seconds / 4 + 1 : RATE_SECONDS;
	pid_t pids[WORKERS_MAX];
	unsigned started = 0;
	int r = 0;

	(void)memset(s->workers, 0, sizeof(s->workers));
	s->start = clock_now() + 200000000;
	s->stop = s->start + seconds * 1000000000ULL;
	(void)fflush(NULL);
	for (; r == 0 && started < n; started++) {
		struct worker *me = &s->workers[started];

		pids[started] = fork();
		if (pids[started] == 0)
			work(b, s, me);
		if (pids[started] < 0)
			r = error_errno(err, errno, "start a worker");
	}
	for (unsigned i = 0; i < started; i++) {
		int status = 0;

		if (pids[i] <= 0)
			continue;
		while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR)
			;
		if (r == 0 && status != 0) {
			*err = s->workers[i].err;
			r = err->code ? -err->code
				      : error_set(err, EIO, "a worker ended with %#x",
						  (unsigned)status);
		}
	}
	return r;
}

static int measure(struct bench *b, struct shared *s, unsigned n, const char *name,
		   struct warren_error *err)
{
	uint64_t done = 0, fds = 0, processor = 0;
	char label[64];
	int r = run_workers(b, s, n, err);

	if (r < 0)
		return r;
	for (unsigned i = 0; i < n; i++) {
		done += s->workers[i].done;
		processor += s->workers[i].processor;
		if (s->workers[i].fds_after > s->workers[i].fds_before)
			fds += s->workers[i].fds_after - s->workers[i].fds_before;
	}
	(void)snprintf(label, sizeof(label), "%s, %u at once", name, n);
	report_value(b, label, (double)done * 1e9 / (double)(s->stop - s->start),
		     "per second");
	(void)snprintf(label, sizeof(label), "%s, %u at once: made", name, n);
	report_value(b, label, (double)done, "sandboxes");
	(void)snprintf(label, sizeof(label), "%s, %u at once: processor", name, n);
	report_value(b, label, done ? (double)processor / 1e3 / (double)done : 0,
		     "us each");
	if (fds > 0)
		report_value(b, "descriptors left in workers", (double)fds, "leaked");
	return 0;
}

int bench_rate(struct bench *b, struct warren_error *err)
{
	unsigned n = b->workers < WORKERS_MAX ? b->workers : WORKERS_MAX;
	struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct counts before;
	int r = 0;

	if (s == MAP_FAILED)
		return error_errno(err, errno, "make room for %u workers", n);
	counts_take(b, &before);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(makers); i++) {
		s->maker = makers[i];
		b->prefix = s->maker->prefix;
		r = measure(b, s, n, "create+destroy", err);
		if (r == 0)
			r = measure(b, s, 1, "create+destroy", err);
	}
	s->maker = &maker_warren;
	b->prefix = "";
	s->with_true = true;
	if (r == 0)
		r = measure(b, s, n, "create+true+destroy", err);
	if (r == 0)
		report_value(b, "left behind", counts_report(b, &before), "of all kinds");
	(void)munmap(s, sizeof(*s));
	return r;
}
