/* SPDX-License-Identifier: Apache-2.0 */
/* git_words_internal.h - what is known of programs that commands start */
#ifndef WORK_GIT_WORDS_INTERNAL_H
#define WORK_GIT_WORDS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

/* What is known of the command that the words are given to. */
enum words_kind {
	WORDS_PROGRAM,
	WORDS_HARMLESS,    /* it executes none of its arguments */
	WORDS_GIT,         /* the same, with some exceptions */
	WORDS_FIND,        /* the same */
	WORDS_WRAPPER,     /* its arguments are a command */
	WORDS_XARGS,       /* and more arguments are read from somewhere */
	WORDS_INTERPRETER, /* it executes an argument */
	WORDS_PYTHON,      /* and may import modules from the directory it starts in */
	WORDS_SHELL,       /* its arguments may be commands */
	WORDS_RUNNER,      /* it executes what files of the project say */
	WORDS_CD,
	WORDS_CASE,
};

enum words_kind words_kind_of(const char *word);
/* Does such a program execute files that are its arguments? */
bool words_executes(enum words_kind kind);
/* Does it only show or compare its arguments? */
bool words_harmless(enum words_kind kind);

/*
 * Is @word a command of git that can execute a part of its arguments? Then it is
 * returned.
 */
const char *words_git_command(const char *word);
/*
 * Does such a command of git execute what follows @word? *@ret is set if that is in the
 * word itself.
 */
bool words_git_executes(const char *command, const char *word, const char **ret);

/* Does git, or the user's session, set the variable to something that is not a script? */
bool words_is_given(const char *name, size_t n);
/* Does git, or another program, execute the value of the variable? */
bool words_is_command(const char *name, size_t n);

#endif /* WORK_GIT_WORDS_INTERNAL_H */
