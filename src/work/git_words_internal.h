/* SPDX-License-Identifier: Apache-2.0 */
/* git_words_internal.h - how programs in commands use their arguments */
#ifndef WORK_GIT_WORDS_INTERNAL_H
#define WORK_GIT_WORDS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

/* What the program does with the words that follow it. */
enum words_kind {
	WORDS_PROGRAM,
	WORDS_HARMLESS,    /* it executes none of its arguments */
	WORDS_GIT,         /* the same, with some exceptions */
	WORDS_FIND,        /* the same */
	WORDS_WRAPPER,     /* its arguments are a command */
	WORDS_XARGS,       /* the same, and more arguments come from a file or pipe */
	WORDS_INTERPRETER, /* it executes an argument */
	WORDS_PYTHON,      /* the same, and it may import modules from where it runs */
	WORDS_SHELL,       /* its arguments may be commands */
	WORDS_RUNNER,      /* it executes commands from files of the project */
	WORDS_CD,
	WORDS_CASE,
};

enum words_kind words_kind_of(const char *word);
/* Does a program of this kind execute files that are its arguments? */
bool words_executes(enum words_kind kind);
/* Does it only show or compare them? */
bool words_harmless(enum words_kind kind);

/*
 * Return @word if it is a command of git that can execute a part of its arguments;
 * otherwise, NULL.
 */
const char *words_git_command(const char *word);
/*
 * Does this command of git execute what follows @word? If that is in the same word, *@ret
 * is set to it.
 */
bool words_git_executes(const char *command, const char *word, const char **ret);

/* Does git or the user's session set the variable, but never to a script? */
bool words_is_given(const char *name, size_t n);
/* Does git, or another program, execute the value of the variable? */
bool words_is_command(const char *name, size_t n);

#endif /* WORK_GIT_WORDS_INTERNAL_H */
