/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tap.h - a small test harness that prints TAP
 *
 *	TEST(parses_seconds) { EQ(f("1s"), 1000); }
 *	TEST(needs_root) { SKIP_UNLESS(geteuid() == 0, "needs root"); ... }
 *	TEST_MAIN()
 *
 * Each test runs in its own process, so a test that crashes or changes namespaces does
 * not affect the others. With names as arguments, only these tests run.
 */
#ifndef TEST_TAP_H
#define TEST_TAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAP_SKIP     77
#define TAP_WHY_SIZE 256

struct tap_test {
	const char *name;
	void (*run)(void);
	struct tap_test *next;
};

static struct tap_test *tap_first, **tap_last = &tap_first;
static char *tap_why; /* shared with the test's process: why it is skipped */

#define TEST(n)                                                             \
	static void test_##n(void);                                         \
	__attribute__((constructor)) static void tap_add_##n(void)          \
	{                                                                   \
		static struct tap_test t = { .name = #n, .run = test_##n }; \
		*tap_last = &t;                                             \
		tap_last = &t.next;                                         \
	}                                                                   \
	static void test_##n(void)

#define TAP_FAIL(...)                                          \
	do {                                                   \
		(void)printf("# %s:%d: ", __FILE__, __LINE__); \
		(void)printf(__VA_ARGS__);                     \
		(void)printf("\n");                            \
		exit(EXIT_FAILURE);                            \
	} while (0)

#define OK(expr)                                        \
	do {                                            \
		if (!(expr))                            \
			TAP_FAIL("%s is false", #expr); \
	} while (0)
#define EQ(a, b)                                                             \
	do {                                                                 \
		intmax_t a_ = (intmax_t)(a), b_ = (intmax_t)(b);             \
		if (a_ != b_)                                                \
			TAP_FAIL("%s is %jd, not %s (%jd)", #a, a_, #b, b_); \
	} while (0)
#define STREQ(a, b)                                                               \
	do {                                                                      \
		const char *a_ = (a), *b_ = (b);                                  \
		if (!a_ || !b_ || strcmp(a_, b_) != 0)                            \
			TAP_FAIL("%s is \"%s\", not \"%s\"", #a, tap_or_null(a_), \
				 tap_or_null(b_));                                \
	} while (0)
#define SKIP(...)                                                   \
	do {                                                        \
		(void)snprintf(tap_why, TAP_WHY_SIZE, __VA_ARGS__); \
		exit(TAP_SKIP);                                     \
	} while (0)
#define SKIP_UNLESS(expr, ...)             \
	do {                               \
		if (!(expr))               \
			SKIP(__VA_ARGS__); \
	} while (0)

static inline const char *tap_or_null(const char *s)
{
	return s ? s : "(null)";
}

static inline bool tap_wanted(const char *name, char **names)
{
	if (!*names)
		return true;
	for (; *names; names++)
		if (strcmp(*names, name) == 0)
			return true;
	return false;
}

/* Run @t in a separate process. Return its wait status; -1: there is none. */
static inline int tap_run(const struct tap_test *t)
{
	int status = 0;
	pid_t pid;

	tap_why[0] = '\0';
	(void)fflush(stdout);
	pid = fork();
	if (pid == 0) {
		t->run();
		exit(EXIT_SUCCESS);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

static inline int tap_main(char **names)
{
	int n = 0, failed = 0;

	tap_why = mmap(NULL, TAP_WHY_SIZE, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tap_why == MAP_FAILED)
		return EXIT_FAILURE;

	for (struct tap_test *t = tap_first; t; t = t->next) {
		int status;

		if (!tap_wanted(t->name, names))
			continue;
		status = tap_run(t);
		n++;
		if (status < 0) {
			(void)printf("Bail out! cannot start a process\n");
			return EXIT_FAILURE;
		}
		if (WIFSIGNALED(status))
			(void)printf("# killed by signal %d\n", WTERMSIG(status));
		if (WIFEXITED(status) && WEXITSTATUS(status) == TAP_SKIP) {
			(void)printf("ok %d - %s # SKIP %s\n", n, t->name, tap_why);
		} else if (status == 0) {
			(void)printf("ok %d - %s\n", n, t->name);
		} else {
			(void)printf("not ok %d - %s\n", n, t->name);
			failed++;
		}
	}
	(void)printf("1..%d\n", n);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define TEST_MAIN()                                          \
	int main(int argc, char **argv)                      \
	{                                                    \
		return tap_main(argc > 0 ? argv + 1 : argv); \
	}

#endif /* TEST_TAP_H */
