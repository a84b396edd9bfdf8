/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recipe.h - what a sandbox of a code run is created from
 *
 * A request is gone when a sandbox like its own is created later: for a warm run
 * (warm.c), or after the run has waited for free capacity (code.c). So a recipe has
 * copies of all that the request borrowed.
 */
#ifndef SERVICE_CODE_RECIPE_H
#define SERVICE_CODE_RECIPE_H

#include "service/code/code.h"

struct code_recipe {
	struct code_recipe *next; /* next in the list of recipes of warm runs */
	struct sandbox_row row;
	struct warren_spec spec;
	struct warren_mount mounts[2];
	struct sandbox_source source;
	char *image, *owner, *backend, *tier, *text;
	/* How the program is run, without the program itself. */
	const struct code_language *language;
	const char *file;
	char **run, **env;
	size_t tool; /* index of the program, among those that the step names */
};

/* Copy everything that is needed to create a sandbox. NULL: out of memory. */
struct code_recipe *code_recipe_new(const struct code_plan *p,
				    const struct code_sandbox *from);
/* Accepts NULL; returns NULL. */
struct code_recipe *code_recipe_free(struct code_recipe *r);
/* Get a sandbox to create, with a new id. It is valid as long as @r. */
struct code_sandbox code_recipe_sandbox(struct code_recipe *r);
/* Return whether this plan and sandbox would have the same recipe. */
bool code_recipe_matches(const struct code_recipe *r, const struct code_plan *p,
			 const struct code_sandbox *sandbox);

#endif /* SERVICE_CODE_RECIPE_H */
