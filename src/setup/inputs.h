/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inputs.h - which files of the project a step reads besides its manifests
 *
 * A result that is found again must not depend on a file that is not in its key. What
 * `go mod download` reads is known: its manifests. But `npm ci` runs the scripts of a
 * package.json, and these may read any file. So for each row of the table, inputs.c looks
 * for what makes a tool run code of the project or read further files. What it cannot
 * rule out counts: then every file of the project that .gitignore does not exclude
 * determines the result (SETUP_READS_ALL).
 */
#ifndef SETUP_INPUTS_H
#define SETUP_INPUTS_H

#include "setup/detect.h"
#include "setup/plan.h"

/* Add to @s what the step of @row reads because of the manifests in @dir. */
int setup_inputs_row(int project_fd, const struct detect_row *row, const char *dir,
		     struct setup_step *s, struct warren_error *err) MUST_CHECK;
/* The configuration of tools in @dir and in the directories above it. */
int setup_inputs_config(int project_fd, const char *dir, struct setup_step *s,
			struct warren_error *err) MUST_CHECK;
/* The same for a written command: one of the table's titles, or code that reads all. */
int setup_inputs_command(int project_fd, struct setup_step *s,
			 struct warren_error *err) MUST_CHECK;
/* Set .reads, with the reason; it only grows. */
int setup_inputs_set(struct setup_step *s, unsigned reads, const char *path,
		     const char *why, struct warren_error *err) MUST_CHECK;

/* The same for requirements.txt in @dir, with the files that it includes. */
int setup_inputs_requirements(int project_fd, const char *dir, struct setup_step *s,
			      struct warren_error *err) MUST_CHECK;

/* The same for package.json in @dir. */
int setup_inputs_node(int project_fd, const struct detect_row *row, const char *dir,
		      struct setup_step *s, struct warren_error *err) MUST_CHECK;

/* Return why an installation runs code of this package.json; NULL: it does not. */
const char *setup_inputs_node_code(int project_fd, const char *path);

/*
 * Read a manifest, and set *@ret_path to its path; the caller frees both. NULL: it cannot
 * be read, so nothing is known about it.
 */
char *setup_inputs_read(int project_fd, const char *dir, const char *name,
			char **ret_path) MUST_CHECK;
bool setup_inputs_has(int project_fd, const char *dir, const char *name);
/* The first of @words that the text contains; NULL: none. */
const char *setup_inputs_find(const char *text, const char *const *words);
/* Add those of the files that exist to .files. 0 or -ENOMEM. */
int setup_inputs_add_words(int project_fd, struct setup_step *s, const char *dir,
			   const char *const *names) MUST_CHECK;

/* Add the files that plan.reads and plan.lists stand for to a sum. */
int setup_inputs_sum(struct sha256 *h, int project_fd, const struct setup_plan *p,
		     struct warren_error *err) MUST_CHECK;

#endif /* SETUP_INPUTS_H */
