/* SPDX-License-Identifier: Apache-2.0 */
/*
 * durable-one.h - for tests with one durable sandbox, and optionally a shell that runs
 * commands
 */
#ifndef TEST_DURABLE_ONE_H
#define TEST_DURABLE_ONE_H

#include <sys/mman.h>

#include "lib/durable-sandbox.h"

static struct warren *w;
static struct warren_sandbox *sb;

static inline void begin_with_sandbox(void)
{
	world_enter(SECONDS);
	w = engine();
	sb = make_durable(w);
}

static inline void end(void)
{
	sandbox_destroy(sb);
	w = warren_close(w);
}

/* A shell that runs the file at each wakeup, and reports the result on descriptor 7. */
#define SERVANT                                                            \
	SH("n=0; while read -r x <&6; do . /proc/self/fd/8; n=$((n + 1));" \
	   " echo \"$n $? $x\" >&7; done")
#define AT .child_result_fd = 7, .child_wakeup_fd = 6, .child_command_fd = 8

static inline int command_file(void)
{
	int fd = memfd_create("command", MFD_CLOEXEC);

	OK(fd > 0);
	return fd;
}

static inline void put_command(int fd, const char *text)
{
	EQ(ftruncate(fd, 0), 0);
	EQ(pwrite(fd, text, strlen(text), 0), strlen(text));
}

#endif /* TEST_DURABLE_ONE_H */
