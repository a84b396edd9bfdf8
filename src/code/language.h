/* SPDX-License-Identifier: Apache-2.0 */
/*
 * language.h - the programming languages of code runs: one table
 *
 * A row says how a program of the language is stored, compiled and run. The configuration
 * can add rows, and replace those that are shipped (code.languages).
 */
#ifndef CODE_LANGUAGE_H
#define CODE_LANGUAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define CODE_NAME_MAX      32  /* bytes of a language's name */
#define CODE_LANGUAGES_MAX 128 /* rows of a configuration */
#define CODE_STEP_MAX      64  /* words of a compile or run step */

/*
 * In a step, "{file}" is the name of the program's file. The first word may list several
 * programs ("gcc|cc"): the first that the image has is used.
 */
struct code_language {
	const char *name;
	const char *const *aliases; /* NULL-terminated; NULL: none */
	const char *file;           /* name of the program's file */
	/* Its name if the program is an ES module; NULL: the same. */
	const char *module_file;
	const char *const *compile; /* NULL: nothing is compiled */
	const char *const *run;
	/* The run step if the compiler is missing; NULL: that is an error. */
	const char *const *run_alone;
	const char *const *env; /* "NAME=value"; NULL: none */
	/* A program without it gets it in front of its first line; NULL: none. */
	const char *opening;
	/*
	 * The interpreter opens its file after it has loaded, and reads it once: so it
	 * can be started before there is a program (service/code/warm.c).
	 */
	bool warm;
	const char *image; /* NULL: the default of all languages */
	/* How to get the tool on Debian, for errors; NULL: not known. */
	const char *package;
};

extern const struct code_language code_languages[];
extern const size_t code_n_languages;

/* Rows of a configuration, which take precedence; zero: none. */
struct code_table {
	const struct code_language *rows;
	size_t n;
};

/* The language with this name or alias, in any case; NULL: unknown. */
const struct code_language *code_language_find(const struct code_table *more,
					       const char *name);
/* The row number @i of the languages that can be named; NULL: there are no more. */
const struct code_language *code_language_at(const struct code_table *more, size_t i);
/* The names of all languages, separated by ", ", cut to @size. */
void code_language_list(const struct code_table *more, char *out, size_t size);
/* Whether a row of a configuration is complete and valid; errors name the field. */
int code_language_check(const struct code_language *row,
			struct warren_error *err) MUST_CHECK;
/*
 * The programs that the first word of a step names: the one number @i, written to @out.
 * False: there is none.
 */
bool code_step_tool(const char *word, size_t i, char *out, size_t size);

#endif /* CODE_LANGUAGE_H */
