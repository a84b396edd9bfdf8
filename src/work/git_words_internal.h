/* SPDX-License-Identifier: Apache-2.0 */
/* git_words_internal.h - a command that is being read */
#ifndef WORK_GIT_WORDS_INTERNAL_H
#define WORK_GIT_WORDS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "work/git_words.h"

/* ---------------------------------------------------------- git_words_kinds.c */

/* What the program does with the words that follow it. */
enum words_kind {
	WORDS_PROGRAM,
	WORDS_HARMLESS,    /* it executes none of its arguments */
	WORDS_GIT,         /* the same, with some exceptions */
	WORDS_FIND,        /* the same */
	WORDS_WRAPPER,     /* its arguments are a command */
	WORDS_XARGS,       /* the same, and more arguments come from a file or pipe */
	WORDS_NPX,         /* and they are looked for in node_modules */
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
/* Is it the user's own editor, pager or browser? */
bool words_is_editor(const char *name, size_t n);
/* Does git, or another program, execute the value of the variable? */
bool words_is_command(const char *name, size_t n);

/* ----------------------------------------------------------------- git_words.c */

#define WORDS_DEPTH_MAX 6     /* of commands in commands */
#define WORDS_SIZE_MAX  16384 /* bytes of a command; a longer one is unclear */

#define MARK_ANY     '\1' /* something that is not known */
#define MARK_PATTERN '\2' /* any part of a name */
#define MARK_GIVEN   '\3' /* an argument of the command */
#define MARK_EDITOR  '\4' /* the user's editor, pager or browser */
#define MARKS        "\1\2\3\4"

struct words {
	struct git_words *w;
	struct buf dir; /* where "cd" went; "": nowhere */
	bool lost;      /* it went to a directory that is not known */
	bool quiet;     /* nothing is executed: unclear words are harmless */
	bool plain;
	unsigned depth;
	/* The word that is being read: */
	struct buf word;
	bool begun, redirects;
	unsigned parens;
	/* The command that it is given to: */
	bool inside;     /* its name was read */
	bool isolated;   /* python -I: no module of the project is used */
	bool argued;     /* it has an argument that is not an option */
	bool fed_script; /* a shell reads its script from the input */
	bool optioned;   /* a wrapper has an option, which may have a value */
	bool fed;        /* xargs adds arguments */
	bool npx;        /* npx was before it */
	bool piped;      /* a command before it may write the commands that it executes */
	bool config;     /* of git: a configuration assignment follows */
	const char *git; /* a command of git that executes something, or NULL */
	enum words_kind kind;
};

/* Other files may be executed, unless nothing is. */
void words_unclear(struct words *s);
/* Judge the word that ends before @next. */
int words_finish(struct words *s, char next) MUST_CHECK;
/* The command ends. It may execute its input. */
void words_command_end(struct words *s);
/* Read a command that is in a word: 'sh -c "exec t/x.sh"', or "rebase -x 'make check'".
 */
int words_nested(struct words *s, const char *word) MUST_CHECK;
/* Judge a word that is a command for the shell, whatever it was given to. */
int words_command(struct words *s, char *word) MUST_CHECK;

/* ------------------------------------------------------------ git_words_read.c */

int words_run(struct words *s, const char *at, const char *end) MUST_CHECK;

#endif /* WORK_GIT_WORDS_INTERNAL_H */
