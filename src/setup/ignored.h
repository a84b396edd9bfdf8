/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ignored.h - which files of a project its .gitignore files exclude
 *
 *	struct setup_ignored *g = setup_ignored_new(project_fd);
 *
 *	setup_ignored_enter(g, dir, at) for each directory on the way down; @at is where
 *	    names in it begin in paths relative to the project
 *	setup_ignored_has(g, path, is_dir)
 *	setup_ignored_leave(g) on the way up
 *
 * Files are hostile: only regular files of limited size are read, never through links.
 * If matching takes too long, the patterns exclude nothing more.
 */
#ifndef SETUP_IGNORED_H
#define SETUP_IGNORED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/macro.h"

#define SETUP_IGNORED_DEPTH 256 /* directories below each other */

struct setup_ignored;

/* Read .git/info/exclude; NULL: no memory. */
struct setup_ignored *setup_ignored_new(int project_fd) MUST_CHECK;
struct setup_ignored *setup_ignored_free(struct setup_ignored *g);
/* Read the .gitignore of @dir, if it has one. -ELOOP: too deep; -ENOMEM. */
int setup_ignored_enter(struct setup_ignored *g, int dir, size_t at) MUST_CHECK;
void setup_ignored_leave(struct setup_ignored *g);
/* The directories that the path is in were entered. */
bool setup_ignored_has(struct setup_ignored *g, const char *path, bool is_dir);

static inline void setup_ignored_free_p(struct setup_ignored **g)
{
	(void)setup_ignored_free(*g);
}

#define AUTO_SETUP_IGNORED CLEANUP(setup_ignored_free_p)

#endif /* SETUP_IGNORED_H */
