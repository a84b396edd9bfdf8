/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_run.h - run git in the user's repository, which cannot start other programs
 *
 * The configuration of the system and of the user is not read, that of the repository is.
 * If the kernel has Landlock, git can change files only below the directory .writes.
 * The program is /usr/local/bin/git or the system's; its memory and processor time are
 * limited, because what it reads may be hostile.
 * If root runs this, git runs as the owner of the project, or confined.
 */
#ifndef WORK_GIT_RUN_H
#define WORK_GIT_RUN_H

#include "base/buf.h"
#include "work/work.h"

struct git_command {
	const char *const *argv; /* without "git" */
	const char *program;     /* NULL: git; a test runs another one in its place */
	bool own; /* in <work>/git, and not in the repository of the project */
	/* A directory of the repository, "." for all of it; NULL: it only reads. */
	const char *writes;
	/* @writes only receives new objects; the repository has the others. */
	bool incoming;
	/* It reads objects of the sandbox: as root, git is confined (git_confine.h). */
	bool hostile;
	bool slow; /* it may read all commits; otherwise, it must end within 10 seconds */
	int sender; /* the pid of the git that writes to @in, or 0 */
	int in;     /* -1: nothing */
	int out;    /* -1: @ret_out gets the output */
	int errors; /* a file of git_errors_open(); 0: the errors are dropped */
};

/* The path of the program, which is none that the project could have. */
const char *git_program(void);
/* Start it; the pid or -errno. */
int git_start(const struct work *w, const struct git_command *c,
	      struct warren_error *err);
/* Wait for it: its exit status, or -errno. */
int git_wait(int pid);
/*
 * Describe why a command ended with @status; the file @errors has git's messages. Returns
 * the system's error that they name, such as -ENOSPC, or -EPROTO; -ENOENT: git is not
 * installed.
 */
int git_failed(const struct git_command *c, int status, int errors,
	       struct warren_error *err);
/*
 * Run it, and get its output. If it fails, returns the same as git_failed(). -EFBIG: @out
 * is full. -ETIMEDOUT: it waited for something, such as a named pipe, or took too long;
 * after that, git is not started again.
 */
int git_run(const struct work *w, const struct git_command *c, struct buf *out,
	    struct warren_error *err);

#endif /* WORK_GIT_RUN_H */
