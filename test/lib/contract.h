/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract.h - for the suites that run against every backend
 *
 * What is in them may not know which backend it runs against, but for what a backend says
 * itself: that it does not support something, by name.
 */
#ifndef TEST_CONTRACT_H
#define TEST_CONTRACT_H

#include "lib/sandbox.h"

/*
 * A test once for each backend; this is the list of them. With $WARREN_OTHER_KIND they
 * run against that one instead, as $WARREN_OTHER_CONFIG has it configured: what needs
 * servers to talk to is run by who starts those (test-contract-others.py).
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

/*
 * @n of something, or @few: a backend that goes through other programs takes long for
 * each.
 */
static inline int some(int n, int few)
{
	return getenv("WARREN_OTHER_KIND") ? few : n;
}

/* An engine, a sandbox in it with the defaults, and the room for an error. */
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
 * A path that can be written inside. Of a backend without a filesystem of its own it is
 * the machine's, so it lies in the program's folder, which is removed in the end.
 */
static inline char *place(struct warren_sandbox *sb, const char *name)
{
	EQ(sandbox_run(sb, ARGV("mkdir", "-p", sandbox_dir)).res.exit_code, 0);
	return sandbox_path("%d-%s", (int)getpid(), name);
}

#endif /* TEST_CONTRACT_H */
