/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files_child.h - a child of the engine that reads and writes the files of a sandbox
 *
 * Only a process without privileges on the host may use descriptors that come from a
 * sandbox, because a compromised init could send descriptors of other directories. So a
 * child does the work, as root of a user namespace with the ids of the sandbox: it can do
 * what the sandbox's root can, and no more.
 */
#ifndef NATIVE_FILES_CHILD_H
#define NATIVE_FILES_CHILD_H

#include "backend/native/native.h"

#define FILES_CHILD_FDS_MAX  4
#define FILES_CHILD_DIRS_MAX 8

/* What the child reports; the task defines the meaning of the numbers. */
struct files_child_report {
	struct warren_error err; /* code 0: success */
	uint64_t numbers[4];
};

struct files_child_task {
	int fds[FILES_CHILD_FDS_MAX]; /* passed on as they are */
	size_t n_fds;
	int dirs[FILES_CHILD_DIRS_MAX]; /* passed on with the sandbox's ids mapped */
	size_t n_dirs;
	bool only_root;  /* files of users other than root are refused */
	const void *ctx; /* defined by the task; read in the child */
	/*
	 * Runs in the child, after clone(2) of a process with threads: no malloc(3), no
	 * locks. @fds and @dirs are those above.
	 */
	int (*run)(const struct files_child_task *task, const int *fds, const int *dirs,
		   struct files_child_report *report);
};

/* When to give up. */
struct files_child_limits {
	unsigned seconds; /* 0: none */
	int cancel;       /* give up when this can be read; 0: none */
};

struct files_child {
	int pidfd, control;
};

#define FILES_CHILD_NONE                   \
	(struct files_child)               \
	{                                  \
		.pidfd = -1, .control = -1 \
	}

/* Start the child, which waits for files_child_run(). */
int files_child_start(const struct native_sandbox *sandbox,
		      const struct files_child_task *task, struct files_child *ret,
		      struct warren_error *err);
/*
 * Let the child do its task, and wait for its report. -ETIMEDOUT, -ECANCELED: a limit
 * (NULL: none) was reached; then files_child_done() ends the child before its end.
 */
int files_child_run(const struct files_child *c, const struct files_child_limits *limits,
		    struct files_child_report *ret, struct warren_error *err);
/* End the child. */
void files_child_done(struct files_child *c);

#endif /* NATIVE_FILES_CHILD_H */
