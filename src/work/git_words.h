/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_words.h - the paths in a command that git gives to the shell
 *
 * Quotes, escapes, $PWD, $HOME, "cd", assignments, and commands in the words of others
 * are understood. Of what else the shell would do, it is only noted that it is unclear
 * which file is meant.
 */
#ifndef WORK_GIT_WORDS_H
#define WORK_GIT_WORDS_H

#include <stdbool.h>

#include "base/macro.h"

struct git_words {
	const char *top;  /* the directory in which the command runs: $PWD */
	const char *home; /* $HOME; NULL: not known */
	/*
	 * Called for each word that could be a path, relative to @top, and for each
	 * directory that the command takes programs or modules from (@dir).
	 */
	void (*path)(void *arg, const char *word, bool dir);
	void *arg;
	/* Set if the command may execute other files, which cannot be known. */
	bool unclear;
};

/* Read a command; 0 or -ENOMEM. */
int git_words_read(struct git_words *w, const char *command) MUST_CHECK;
/* Read words that git separates itself: only quotes and escapes mean something. */
int git_words_read_plain(struct git_words *w, const char *words) MUST_CHECK;

#endif /* WORK_GIT_WORDS_H */
