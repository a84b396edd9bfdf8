/* SPDX-License-Identifier: Apache-2.0 */
/* test-loop.c - the event loop: work in slices, work on threads, slow turns */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "lib/tap.h"
#include "net/loop.h"

#define STREAMS 200
#define MS      1000000ULL

static struct net_loop *loop;

static void start(void)
{
	struct warren_error err;

	EQ(loop_new(&loop, &err), 0);
	(void)alarm(60);
}

/* Use up processor time, which does not depend on other processes. */
static void compute(uint64_t ns)
{
	struct timespec ts;
	uint64_t from, now;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	from = now = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	while (now - from < ns) {
		(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
		now = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	}
}

/* ----------------------------------------------------------------- work in slices */

static struct stream {
	struct loop_task task;
	unsigned slices;
} streams[STREAMS];

static unsigned slices, since_event, most_since_event, events;
static struct loop_watch *watch;
static int event_fd;

static void on_slice(void *ctx)
{
	struct stream *s = ctx;

	s->slices++;
	slices++;
	since_event++;
	compute(MS / 4);
	loop_later(loop, &s->task);
}

static void on_event(void *ctx, unsigned what)
{
	(void)ctx;
	(void)what;
	if (since_event > most_since_event)
		most_since_event = since_event;
	since_event = 0;
	if (++events == 100)
		loop_stop(loop);
}

/*
 * All streams always have more to do, but a descriptor is still served after a part of
 * each turn.
 */
TEST(many_streams_do_not_starve_other_events)
{
	unsigned least = UINT32_MAX, most = 0;

	start();
	event_fd = eventfd(1, EFD_CLOEXEC); /* is always readable */
	EQ(loop_watch(loop, event_fd, LOOP_READ, on_event, NULL, &watch), 0);
	for (size_t i = 0; i < STREAMS; i++) {
		streams[i].task =
			(struct loop_task){ .fn = on_slice, .ctx = &streams[i] };
		loop_later(loop, &streams[i].task);
	}
	loop_run(loop);
	for (size_t i = 0; i < STREAMS; i++) {
		least = streams[i].slices < least ? streams[i].slices : least;
		most = streams[i].slices > most ? streams[i].slices : most;
		loop_task_cancel(&streams[i].task);
	}
	EQ(events, 100);
	/*
	 * Each takes a quarter of a millisecond: together they take their share of the
	 * turn, and one may exceed it.
	 */
	OK(most_since_event <= LOOP_LATER_MS * 4 + 1);
	OK(slices > 100);      /* the streams make progress */
	OK(most - least <= 1); /* in turn */
	watch = loop_watch_free(watch);
	loop = loop_free(loop);
}

static void count_slice(void *ctx)
{
	struct stream *s = ctx;

	s->slices++;
}

static void stop(void *ctx)
{
	(void)ctx;
	loop_stop(loop);
}

TEST(a_later_task_can_be_cancelled_and_is_not_queued_twice)
{
	struct loop_timer *t = NULL;

	start();
	for (size_t i = 0; i < 2; i++)
		streams[i].task =
			(struct loop_task){ .fn = count_slice, .ctx = &streams[i] };
	EQ(loop_timer_new(loop, stop, NULL, &t), 0);
	loop_timer_set(t, 20);
	loop_later(loop, &streams[0].task);
	loop_later(loop, &streams[0].task);
	loop_later(loop, &streams[1].task);
	loop_task_cancel(&streams[1].task);
	loop_run(loop);
	EQ(streams[0].slices, 1);
	EQ(streams[1].slices, 0);
	t = loop_timer_free(t);
	loop = loop_free(loop);
}

/* -------------------------------------------------------------- work on other threads */

static pthread_t worker;
static bool worked, was_done;

static void on_work(void *ctx)
{
	(void)ctx;
	worker = pthread_self();
	(void)usleep(100000);
	worked = true;
}

static void on_done(void *ctx)
{
	OK(worked);
	OK(!pthread_equal(worker, pthread_self()));
	was_done = true;
	if (ctx)
		loop_stop(loop);
}

TEST(work_is_done_on_another_thread)
{
	start();
	EQ(loop_work(loop, NULL, on_work, on_done, &worked), 0);
	loop_run(loop);
	OK(was_done);
	/* Work that blocks on a thread does not make a turn long. */
	EQ(loop_turns(loop)->slow, 0);
	loop = loop_free(loop);
}

TEST(closing_a_loop_waits_for_its_work)
{
	start();
	EQ(loop_work(loop, NULL, on_work, on_done, NULL), 0);
	loop = loop_free(loop);
	OK(was_done);
}

static unsigned of_many, of_many_before;

static void on_short_work(void *ctx)
{
	(void)ctx;
	(void)usleep(10000);
}

static void on_one_of_many(void *ctx)
{
	(void)ctx;
	of_many++;
}

static void on_the_other(void *ctx)
{
	(void)ctx;
	of_many_before = of_many;
	was_done = true;
}

TEST(work_of_tenants_takes_turns)
{
	enum {
		MANY = 100
	};

	of_many = 0;
	start();
	for (int i = 0; i < MANY; i++)
		EQ(loop_work(loop, "greedy", on_short_work, on_one_of_many, NULL), 0);
	EQ(loop_work(loop, "modest", on_short_work, on_the_other, NULL), 0);
	loop = loop_free(loop);
	OK(was_done);
	EQ(of_many, MANY);
	OK(of_many_before < MANY / 2);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

TEST(files_of_every_size_are_closed)
{
	char name[] = "/var/tmp/test-loop-XXXXXX";
	static char block[1 << 20];
	int fd, small;

	start();
	small = open("/dev/null", O_RDONLY | O_CLOEXEC);
	loop_close(loop, small);
	OK(!is_open(small)); /* at once */
	loop_close(loop, -1);
	fd = mkstemp(name);
	OK(fd >= 0);
	EQ(unlink(name), 0);
	(void)memset(block, 'x', sizeof(block));
	for (int i = 0; i < 8; i++)
		EQ(write(fd, block, sizeof(block)), sizeof(block));
	loop_close(loop, fd);
	loop = loop_free(loop);
	OK(!is_open(fd));
}

/* -------------------------------------------------------------- watchdog */

static char told[128];
static uint64_t told_usec, told_cpu;

static void on_slow(void *ctx, const char *name, uint64_t usec, uint64_t cpu_usec)
{
	(void)ctx;
	(void)snprintf(told, sizeof(told), "%s", name);
	told_usec = usec;
	told_cpu = cpu_usec;
}

static unsigned step;
static struct loop_timer *timer;

static void on_step(void *ctx)
{
	(void)ctx;
	switch (step++) {
	case 0:
		compute((LOOP_SLOW_MS + 20) * MS);
		break;
	case 1:
		loop_mark(loop, "an_operation");
		(void)usleep((LOOP_SLOW_MS + 20) * 1000);
		break;
	default:
		loop_stop(loop);
		return;
	}
	loop_timer_set(timer, 1);
}

static uint64_t count_of(const char *name)
{
	const struct loop_turns *t = loop_turns(loop);

	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->by[i].name, name) == 0)
			return t->by[i].turns;
	return 0;
}

TEST(a_turn_that_takes_too_long_is_counted_by_name)
{
	start();
	loop_on_slow(loop, on_slow, NULL);
	EQ(loop_timer_new(loop, on_step, NULL, &timer), 0);
	loop_timer_set(timer, 1);
	loop_run(loop);
	OK(loop_turns(loop)->slow >= 2);
	OK(loop_turns(loop)->longest_usec >= (LOOP_SLOW_MS + 20) * 1000U);
	OK(loop_turns(loop)->longest_cpu_usec >= (LOOP_SLOW_MS + 10) * 1000U);
	OK(strstr(loop_turns(loop)->by[0].name, "test-loop.c:on_step"));
	EQ(count_of("an_operation"), 1);
	/* The last one slept, and the report shows that it did not compute. */
	STREQ(told, "an_operation");
	OK(told_usec >= (LOOP_SLOW_MS + 20) * 1000U);
	OK(told_cpu < told_usec / 2);
	timer = loop_timer_free(timer);
	loop = loop_free(loop);
}

static void on_short_step(void *ctx)
{
	(void)ctx;
	if (++step == 100)
		loop_stop(loop);
	compute(MS);
	loop_timer_set(timer, 1);
}

/* Many short turns are not counted as a long one. */
TEST(short_turns_are_not_counted)
{
	start();
	EQ(loop_timer_new(loop, on_short_step, NULL, &timer), 0);
	loop_timer_set(timer, 1);
	loop_run(loop);
	OK(step == 100);
	OK(loop_turns(loop)->longest_cpu_usec < LOOP_SLOW_MS * 1000U);
	timer = loop_timer_free(timer);
	loop = loop_free(loop);
}

/* The watchdog reads a clock twice in each turn, without a system call. */
TEST(the_watchdog_uses_little_time)
{
	struct loop_task task = { .fn = count_slice, .ctx = &streams[0] };
	uint64_t began, took;
	enum {
		TURNS = 100000
	};

	start();
	began = clock_now();
	for (int i = 0; i < TURNS; i++) {
		loop_defer(loop, &task);
		loop_run(loop); /* returns at once, because nothing is watched */
	}
	took = clock_now() - began;
	EQ(streams[0].slices, TURNS);
	OK(took / TURNS < 20000); /* in ns; some hundreds on an idle machine */
	loop = loop_free(loop);
}

TEST_MAIN()
