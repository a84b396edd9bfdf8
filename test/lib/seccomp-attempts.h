/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp-attempts.h - for tests of the system call filter: calls without it and with it
 */
#ifndef TEST_SECCOMP_ATTEMPTS_H
#define TEST_SECCOMP_ATTEMPTS_H

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/tap.h"
#include "os/seccomp.h"

/* A call, and its result under the filter: SAME, 0 or an errno. */
struct attempt {
	const char *name;
	long nr;
	unsigned long args[6];
	int expect;
};

#define SAME    (-1) /* the same result as without the filter */
#define CALL(n) #n, SYS_##n
#define SOCKET(family, type, protocol) \
	CALL(socket),                  \
	{                              \
		family, type, protocol \
	}
#define OPTION(fd, level, name)       \
	CALL(setsockopt),             \
	{                             \
		fd, level, name, v, n \
	}
#define REFUSED(n) #n, SYS_##n, { -1UL, -1UL, -1UL, -1UL, -1UL, -1UL }, EPERM

static inline int attempt_make(const struct attempt *a)
{
	const unsigned long *v = a->args;
	long r = syscall(a->nr, v[0], v[1], v[2], v[3], v[4], v[5]);
	int e = r < 0 ? errno : 0;

	if (a->nr == SYS_clone && r == 0)
		_exit(EXIT_SUCCESS);
	return e;
}

static inline void no_new_privs(void)
{
	EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
}

static inline void filter_on(void)
{
	struct warren_error err = WARREN_ERROR_INIT;

	no_new_privs();
	if (seccomp_load(&err) < 0)
		TAP_FAIL("%s", err.msg);
}

static inline void attempt_all(const struct attempt *list, size_t n)
{
	int expect[64];

	OK(n <= ARRAY_SIZE(expect));
	no_new_privs(); /* the result is not compared */
	for (size_t i = 0; i < n; i++) {
		expect[i] = list[i].expect;
		if (expect[i] == SAME)
			expect[i] = attempt_make(&list[i]);
	}
	filter_on();
	for (size_t i = 0; i < n; i++) {
		int e = attempt_make(&list[i]);

		if (e != expect[i])
			TAP_FAIL("%s, entry %zu: %s, not %s", list[i].name, i,
				 strerrorname_np(e), strerrorname_np(expect[i]));
	}
}

#endif /* TEST_SECCOMP_ATTEMPTS_H */
