/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.c - what the kernel needs to capture the network of a new namespace
 *
 *	warren-bench-capture NAMESPACES
 *
 * Prints a JSON object: percentiles in microseconds. A sandbox with a policy cannot be
 * created faster than one without a policy and this together.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fd.h"
#include "os/capture.h"

#define CAPTURE_NS "/proc/self/ns/net"

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void capture_check(bool ok, const char *what)
{
	if (ok)
		return;
	(void)fprintf(stderr, "warren-bench-capture: %s\n", what);
	exit(EXIT_FAILURE);
}

static uint64_t capture_one(int home)
{
	AUTO_CLOSE int ns = -1;
	struct capture c = CAPTURE_INIT;
	struct warren_error err = WARREN_ERROR_INIT;
	uint64_t start;

	capture_check(unshare(CLONE_NEWNET) == 0, "cannot create a network namespace");
	ns = open(CAPTURE_NS, O_RDONLY | O_CLOEXEC);
	capture_check(ns >= 0 && setns(home, CLONE_NEWNET) == 0,
		      "cannot leave a network namespace");
	start = clock_now();
	capture_check(capture_open(ns, &c, &err) == 0, err.msg);
	start = clock_now() - start;
	capture_done(&c);
	return start;
}

int main(int argc, char **argv)
{
	size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	AUTO_CLOSE int home = open(CAPTURE_NS, O_RDONLY | O_CLOEXEC);
	AUTO_FREE uint64_t *took = calloc(n + 1, sizeof(*took));

	capture_check(n && took && home >= 0, "usage: warren-bench-capture NAMESPACES");
	for (size_t i = 0; i < n; i++)
		took[i] = capture_one(home);
	qsort(took, n, sizeof(*took), compare_times);
	(void)printf("{\"p50\":%.1f,\"p99\":%.1f,\"n\":%zu}\n",
		     (double)took[n / 2] / 1000, (double)took[n * 99 / 100] / 1000, n);
	return 0;
}
