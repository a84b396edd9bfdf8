/* SPDX-License-Identifier: Apache-2.0 */
/* git_named.h - files of the project that the user's configuration of git names */
#ifndef WORK_GIT_NAMED_H
#define WORK_GIT_NAMED_H

#include <stdbool.h>
#include <stddef.h>

struct git_named {
	char **paths; /* relative to the project */
	size_t n;
};

/*
 * Read the configuration that git of this user would read in @project (an absolute path
 * without links): that of the repository, of the user and of the machine, and the files
 * that they include. What it names in the project is executed by git, or read as
 * configuration: hooks, filters, other programs, and included files. What cannot be read
 * is left out. 0 or -ENOMEM.
 */
int git_named_read(const char *project, struct git_named *ret);
void git_named_done(struct git_named *n);
/*
 * Is a file at @path named, or in a directory that is? Or, unless @is_dir, does it take
 * the place of a directory above one that is named?
 */
bool git_named_has(const struct git_named *n, const char *path, bool is_dir);

#endif /* WORK_GIT_NAMED_H */
