/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe-engine.c - one hostile exec, and others at the same time; linked with the library
 *
 * probe-engine SCRIPT: runs the Python script in a sandbox with a timeout of three
 * seconds, starts other execs at the same time, waits for the first one, and destroys the
 * sandbox. Prints the time of each step. SIGALRM ends an engine that hangs.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <warren.h>

#define EXECS 200

static double now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int fail(const struct warren_error *err)
{
	printf("failed %s\n", err->msg);
	return 1;
}

int main(int argc, char **argv)
{
	struct warren *w = NULL;
	struct warren_sandbox *sb = NULL;
	struct warren_exec *first = NULL;
	struct warren_result res = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	const char *hostile[] = { "/usr/bin/python3", "-c", argc > 1 ? argv[1] : "",
				  NULL };
	const char *plain[] = { "true", NULL };
	const char *env[] = { "PATH=/tmp/bin:/usr/bin:/bin", NULL };
	double begin, longest = 0;
	int started = 0, r = 0;

	(void)alarm(120);
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	if (warren_open(NULL, &w, &err) < 0 ||
	    warren_create(w, &(struct warren_spec){ .env = env, .pids = 400 }, &sb,
			  &err) < 0 ||
	    warren_exec(sb,
			&(struct warren_exec_spec){ .argv = hostile, .timeout_ms = 3000 },
			&first, &err) < 0)
		return fail(&err);
	begin = now();
	(void)usleep(500000);
	for (int i = 0; i < EXECS; i++) {
		struct warren_exec *ex = NULL;
		double t = now();

		if (warren_exec(sb, &(struct warren_exec_spec){ .argv = plain }, &ex,
				&err) == 0)
			started++;
		t = now() - t;
		longest = t > longest ? t : longest;
		ex = warren_exec_free(ex);
		if (now() - begin > 10)
			break;
	}
	printf("started %d\nlongest %.2f\n", started, longest);
	/* The wait may return 0 too early when other execs end: repeat it. */
	while (r == 0 && now() - begin < 60)
		r = warren_exec_wait(first, 1000, &res, &err);
	printf("waited %d\ntimed_out %d\nafter %.2f\n", r, r == 1 && res.timed_out,
	       now() - begin);
	first = warren_exec_free(first);
	begin = now();
	r = warren_destroy(sb, &err);
	printf("destroyed %d\nin %.2f\n", r, now() - begin);
	w = warren_close(w);
	return 0;
}
