/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock_set.c - preloaded into the service: the test changes the system time
 *
 * The test maps the same page ($WARREN_CLOCK names its file), which contains the seconds
 * to add to the system time. Clocks that cannot be set are not changed.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t none, *ahead = &none;
static int (*real_gettime)(clockid_t id, struct timespec *ts);

__attribute__((constructor)) static void clock_set_begin(void)
{
	const char *path = getenv("WARREN_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *page = fd < 0 ? MAP_FAILED
			    : mmap(NULL, sizeof(*ahead), PROT_READ, MAP_SHARED, fd, 0);

	*(void **)&real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
	if (page != MAP_FAILED)
		ahead = page;
	if (fd >= 0)
		(void)close(fd);
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int r = real_gettime(id, ts);

	if (r == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		ts->tv_sec += *(volatile int64_t *)ahead;
	return r;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;
	int r = clock_gettime(CLOCK_REALTIME, &ts);

	(void)zone;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return r;
}

time_t time(time_t *ret)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	if (ret)
		*ret = ts.tv_sec;
	return ts.tv_sec;
}
