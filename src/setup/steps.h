/* SPDX-License-Identifier: Apache-2.0 */
/* steps.h - written steps, and the files that determine them */
#ifndef SETUP_STEPS_H
#define SETUP_STEPS_H

#include "base/buf.h"
#include "setup/plan.h"

/* Set the texts of a new step. */
int setup_step_fill(struct setup_step *s, const char *title, const char *dir,
		    const char *why, const char *run,
		    struct warren_error *err) MUST_CHECK;
/* Add a word in single quotes to a text for /bin/sh. */
void setup_step_quote(struct buf *out, const char *word);
/*
 * Add the files that may determine steps whose files are not named: all known manifests,
 * and the files of the project whose names are words of the step.
 */
int setup_steps_guess_files(int project_fd, const char *memory, struct setup_steps *steps,
			    struct warren_error *err) MUST_CHECK;

/* setup.sh, or the target `setup` of a makefile. Returns whether there is one. */
int setup_script(int project_fd, const char *memory, struct setup_plan *p,
		 struct warren_error *err) MUST_CHECK;

/* warren.yaml: fill what @p does not have yet. Returns whether there is one. */
int setup_yaml(int project_fd, struct setup_plan *p, struct warren_error *err) MUST_CHECK;

/*
 * Make a path below the project from @name, relative to @dir, without "." and "..". NULL:
 * it leads out of the project, or there is no memory.
 */
char *setup_path_below(const char *dir, const char *name) MUST_CHECK;

#endif /* SETUP_STEPS_H */
