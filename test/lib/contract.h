/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract.h - for the suites that run against every backend
 *
 * These suites must not know which backend they test, except for features that the
 * backend itself reports as not supported.
 */
#ifndef TEST_CONTRACT_H
#define TEST_CONTRACT_H

#include "lib/sandbox.h"

/*
 * Define a test for each backend; this is the list of backends. With $WARREN_OTHER_KIND
 * they run against that backend instead, with the configuration $WARREN_OTHER_CONFIG:
 * test-contract-others.py starts the servers that it needs.
 */
#define CONTRACT(n)                                                         \
	static void check_##n(const char *how);                             \
	static void test_null_##n(void)                                     \
	{                                                                   \
		check_##n("null");                                          \
	}                                                                   \
	static void test_native_##n(void)                                   \
	{                                                                   \
		check_##n("native");                                        \
	}                                                                   \
	static void test_command_##n(void)                                  \
	{                                                                   \
		check_##n("command");                                       \
	}                                                                   \
	static void test_other_##n(void)                                    \
	{                                                                   \
		check_##n(getenv("WARREN_OTHER_NAME"));                     \
	}                                                                   \
	__attribute__((constructor)) static void contract_add_##n(void)     \
	{                                                                   \
		static struct tap_test t[] = {                              \
			{ .name = "null_" #n, .run = test_null_##n },       \
			{ .name = "native_" #n, .run = test_native_##n },   \
			{ .name = "command_" #n, .run = test_command_##n }, \
			{ .name = "other_" #n, .run = test_other_##n },     \
		};                                                          \
		contract_add(t);                                            \
	}                                                                   \
	static void check_##n(const char *how)

static inline void contract_add(struct tap_test t[4])
{
	bool other = getenv("WARREN_OTHER_KIND");

	for (int i = other ? 3 : 0; i < (other ? 4 : 3); i++) {
		*tap_last = &t[i];
		tap_last = &t[i].next;
	}
}

/* Return @n, or @few for a backend that uses other programs, because it is slow. */
static inline int some(int n, int few)
{
	return getenv("WARREN_OTHER_KIND") ? few : n;
}

/* Create an engine, a sandbox with the defaults, and space for an error. */
#define BEGIN()                                             \
	struct warren_error err UNUSED = WARREN_ERROR_INIT; \
	struct warren *w = sandbox_engine(how);             \
	struct warren_sandbox *sb = sandbox_make(w, &(struct warren_spec){ 0 })
#define END()                        \
	do {                         \
		sandbox_destroy(sb); \
		w = warren_close(w); \
	} while (0)

/*
 * Return a path that can be written inside. A backend without its own filesystem uses the
 * machine's, so the path is in the program's directory, which is removed at the end.
 */
static inline char *place(struct warren_sandbox *sb, const char *name)
{
	EQ(sandbox_run(sb, ARGV("mkdir", "-p", sandbox_dir)).res.exit_code, 0);
	return sandbox_path("%d-%s", (int)getpid(), name);
}

#endif /* TEST_CONTRACT_H */
