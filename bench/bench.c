/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.c - warren-bench: the cost of the library, measured inside a process
 *
 * bench/run runs it, and also compares the whole program with its peers.
 */
#include "bench.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

static const struct {
	const char *name;
	int (*run)(struct bench *b, struct warren_error *err);
	const char *about;
} benches[] = {
	{ "create", bench_create,
	  "create, /bin/true, destroy; and the steps of a create" },
	{ "ahead", bench_ahead,
	  "the same, of parts that were made ahead: what is left to do" },
	{ "exec", bench_exec, "/bin/true in a live sandbox, beside the host's own" },
	{ "session", bench_session, "`true` in a stateful shell: the protocol alone" },
	{ "pause", bench_pause, "pause and resume" },
	{ "rate", bench_rate, "create and destroy per second, and what is left after" },
	{ "stream", bench_stream, "bytes per second out of an exec" },
	{ "alive", bench_alive,
	  "memory of many idle sandboxes, and the cost of one more" },
};

static const struct {
	const char *name;
	size_t field;
	const char *about;
} numbers[] = {
	{ "rounds", offsetof(struct bench, n), "of each latency benchmark (500)" },
	{ "warmup", offsetof(struct bench, warmup), "rounds before, not counted (50)" },
	{ "seconds", offsetof(struct bench, seconds),
	  "at most, for each benchmark (60)" },
	{ "workers", offsetof(struct bench, workers),
	  "processes that create at once (2 for each processor)" },
	{ "alive", offsetof(struct bench, alive), "sandboxes at once (2000)" },
	{ "mib", offsetof(struct bench, mib), "to stream (4096)" },
};

static int usage(FILE *to, int status)
{
	(void)fprintf(to, "warren-bench [OPTIONS] [NAME...]\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(benches); i++)
		(void)fprintf(to, "  %-16s %s\n", benches[i].name, benches[i].about);
	(void)fprintf(
		to, "\n  --json FILE      add what is measured to it, an object a line\n"
		    "  --warren PATH    the program, for the streams through it\n");
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		(void)fprintf(to, "  --%-7s N      %s\n", numbers[i].name,
			      numbers[i].about);
	return status;
}

static bool take_number(struct bench *b, size_t i, const char *text)
{
	char *end = NULL;
	unsigned long n = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || n > 1000000)
		return false;
	*(unsigned *)(void *)((char *)b + numbers[i].field) = (unsigned)n;
	return true;
}

/* Return 0, or the exit status + 1. */
static int take_options(struct bench *b, int argc, char **argv)
{
	struct option options[ARRAY_SIZE(numbers) + 4] = {
		{ "json", required_argument, NULL, 'j' },
		{ "warren", required_argument, NULL, 'w' },
		{ "help", no_argument, NULL, 'h' },
	};
	int c;

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		options[3 + i] = (struct option){ numbers[i].name, required_argument,
						  NULL, 256 + (int)i };
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'h')
			return usage(stdout, 0) + 1;
		if (c == 'w')
			b->warren = optarg;
		else if (c == 'j' && !b->json)
			b->json = fopen(optarg, "ae");
		if (c == 'j' && !b->json) {
			(void)fprintf(stderr, "warren-bench: open '%s': %s\n", optarg,
				      strerror(errno));
			return 1 + 1;
		}
		if (c == '?' || (c >= 256 && !take_number(b, (size_t)c - 256, optarg)))
			return usage(stderr, 2) + 1;
	}
	return 0;
}

static int run_bench(struct bench *b, size_t i)
{
	struct warren_error err = WARREN_ERROR_INIT;

	b->current = benches[i].name;
	b->prefix = "";
	(void)printf("\n%s: %s\n", benches[i].name, benches[i].about);
	if (benches[i].run(b, &err) == 0)
		return 0;
	(void)fflush(stdout);
	(void)fprintf(stderr, "warren-bench: %s: %s\n", benches[i].name, err.msg);
	return 1;
}

static int run_named(struct bench *b, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(benches); i++)
		if (strcmp(name, benches[i].name) == 0)
			return run_bench(b, i);
	(void)fprintf(stderr, "warren-bench: there is no benchmark '%s'; see --help\n",
		      name);
	return 2;
}

/* Use a separate run directory, so that everything left in it is from this run. */
static int prepare(struct bench *b)
{
	struct rlimit lim;

	(void)strcpy(b->run_dir, "/run/warren-bench-XXXXXX");
	if (!mkdtemp(b->run_dir)) {
		perror("warren-bench: make a run directory");
		return -1;
	}
	/* A live sandbox takes two descriptors. */
	if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
		lim.rlim_cur = lim.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &lim);
	}
	/* Processes that a worker leaves behind become children of this process, and are
	 * counted. */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	return 0;
}

static void clean(const struct bench *b)
{
	static const char *const subs[] = { "/engines", "/ids", "" };

	/* A directory that is not empty was leaked: keep it, because it has been
	 * reported. */
	for (size_t i = 0; i < ARRAY_SIZE(subs); i++) {
		char path[sizeof(b->run_dir) + 16];

		(void)snprintf(path, sizeof(path), "%s%s", b->run_dir, subs[i]);
		(void)rmdir(path);
	}
}

int main(int argc, char **argv)
{
	struct bench b = { .n = 500,
			   .prefix = "",
			   .warmup = 50,
			   .seconds = 60,
			   .workers = 2 * (unsigned)get_nprocs(),
			   .alive = 2000,
			   .mib = 4096 };
	int status = take_options(&b, argc, argv);

	if (status > 0)
		return status - 1;
	if (b.n == 0 || b.workers == 0 || b.alive == 0 || b.mib == 0)
		return usage(stderr, 2);
	if (prepare(&b) < 0)
		return 1;
	for (int i = optind; i < argc && status < 2; i++)
		status |= run_named(&b, argv[i]);
	for (size_t i = 0; optind == argc && i < ARRAY_SIZE(benches); i++)
		status |= run_bench(&b, i);
	clean(&b);
	if (b.json && fclose(b.json) != 0) {
		perror("warren-bench: write the JSON file");
		status = 1;
	}
	return status;
}
