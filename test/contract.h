/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract.h - for the suites that run against every backend
 *
 * What is in them may not know which backend it runs against, but for what a backend says
 * itself: that it does not support something, by name.
 */
#ifndef TEST_CONTRACT_H
#define TEST_CONTRACT_H

#include "box.h"

/* A test once for each backend; this is the list of them. */
#define CONTRACT(n)                             \
	static void check_##n(const char *how); \
	TEST(null_##n)                          \
	{                                       \
		check_##n("null");              \
	}                                       \
	TEST(native_##n)                        \
	{                                       \
		check_##n("native");            \
	}                                       \
	TEST(command_##n)                       \
	{                                       \
		check_##n("command");           \
	}                                       \
	static void check_##n(const char *how)

/* An engine, a sandbox in it with the defaults, and the room for an error. */
#define BEGIN()                                             \
	struct warren_error err UNUSED = WARREN_ERROR_INIT; \
	struct warren *w = box_engine(how);                 \
	struct warren_sandbox *sb = box_make(w, &(struct warren_spec){ 0 })
#define END()                        \
	do {                         \
		box_destroy(sb);     \
		w = warren_close(w); \
	} while (0)

/*
 * A path that can be written inside. Of a backend without a filesystem of its own it is
 * the machine's, so it lies in the program's folder, which is removed in the end.
 */
static inline char *place(struct warren_sandbox *sb, const char *name)
{
	EQ(box_run(sb, ARGV("mkdir", "-p", box_dir)).res.exit_code, 0);
	return box_path("%d-%s", (int)getpid(), name);
}

#endif /* TEST_CONTRACT_H */
