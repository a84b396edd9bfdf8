/* SPDX-License-Identifier: Apache-2.0 */
/* git_named.h - files of the project that the user's configuration of git names */
#ifndef WORK_GIT_NAMED_H
#define WORK_GIT_NAMED_H

#include <stdbool.h>
#include <stddef.h>

struct git_named {
	/* Relative to the project, in lower case, sorted; with NAMED_... at the end. */
	char **paths;
	size_t n;
	/*
	 * A command cannot be understood, or there is too much to read: any program or
	 * script of the project may be named.
	 */
	bool unclear;
	char **configs; /* files of the project with configuration, relative */
	/*
	 * Files of the project with private keys, passwords or cookies that the
	 * configuration names, relative: 'store --file X', 'ssh -i X', http.cookieFile.
	 */
	char **secrets;
	/*
	 * Why .configs and .secrets may lack files: the part of a sentence that says what
	 * there is too much of. NULL: they lack none.
	 */
	char *too_much;
	char **read; /* git's directories that were read, absolute */
	char **tops; /* such a directory, a newline, and the directory where its commands
			run */
};

/*
 * Read the configuration that git of this user would read in @project (an absolute path
 * without links): that of the repository, of the user, of the machine and of the
 * environment, and the files that they include; if root runs this, also that of the
 * project's owner. The same for the repositories in the directories @repositories of the
 * project, for submodules, and for linked worktrees. Git executes the files of the
 * project that it names, or reads them as configuration: hooks, filters, other programs,
 * and included files. Files that links in git's directories lead to are added; with
 * @programs also those that links in the directories of PATH lead to, which takes longer.
 * Files that cannot be read are skipped. 0 or -ENOMEM, also if there is too much to read.
 */
int git_named_read(const char *project, char *const *repositories, bool programs,
		   struct git_named *ret);
/* The same for one more directory of the project, relative, which has a repository. */
int git_named_add(const char *project, const char *repository, struct git_named *n);
void git_named_done(struct git_named *n);
/*
 * Is the file at @path named, or is it in a directory that is? Or, unless @is_dir, does
 * it replace a directory above a file that is named? @program: the file can be executed,
 * or is a link.
 */
bool git_named_has(const struct git_named *n, const char *path, bool is_dir,
		   bool program);

#endif /* WORK_GIT_NAMED_H */
