/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detect.h - recognise what a project needs by its manifests
 *
 * The table is in detect_table.c: each row says which files it recognises, what it
 * installs, and how the result is verified. Rows of the same group are alternatives: in a
 * directory, the first that matches counts. A project with several directories (a
 * monorepo) gets a step for each, unless a step of a directory above also does the work
 * of its members.
 */
#ifndef SETUP_DETECT_H
#define SETUP_DETECT_H

#include "setup/plan.h"

struct detect_row {
	const char *name;  /* "npm" */
	const char *group; /* "node" */
	const char *file;  /* the manifest */
	const char *lock;  /* another file that must exist; NULL: none */
	const char *text;  /* words of which the manifest must contain one; NULL: none */
	/*
	 * What makes this the step of all directories below with the same group: "*":
	 * always; a file that exists; or "FILE:TEXT", a text in a file. NULL: never.
	 */
	const char *members;
	const char *files; /* patterns of further files that determine the result */
	const char *needs; /* the program that installs */
	const char *title;
	const char *run, *verify; /* for /bin/sh */
};

extern const struct detect_row detect_table[];
extern const size_t n_detect_table;

/* Add the steps, and notes, to @p. @memory is setup_options.memory. */
int setup_detect(int project_fd, const char *memory, struct setup_plan *p,
		 struct warren_error *err) MUST_CHECK;
/* Add all existing files of the table to the list @files. */
int setup_detect_files(int project_fd, const char *memory, char ***files,
		       struct warren_error *err) MUST_CHECK;
/* Is this the name of a file in the table? */
bool setup_detect_knows(const char *name);

#endif /* SETUP_DETECT_H */
