/* SPDX-License-Identifier: Apache-2.0 */
/*
 * language.h - the programming languages of code runs: one table
 *
 * A row says how a program in the language is stored, compiled and run. The configuration
 * (code.languages) can add rows and replace built-in rows.
 */
#ifndef CODE_LANGUAGE_H
#define CODE_LANGUAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define CODE_NAME_MAX      32  /* maximum bytes in the name of a language */
#define CODE_LANGUAGES_MAX 128 /* maximum rows in a configuration */
#define CODE_STEP_MAX      64  /* maximum words in a compile or run step */

/*
 * In a step, "{file}" is the name of the program's file. The first word may list several
 * programs ("gcc|cc"): the first that the image has is used.
 */
struct code_language {
	const char *name;
	const char *const *aliases; /* NULL-terminated; NULL: none */
	const char *file;           /* name of the program's file */
	/* File name if the program is an ES module; NULL: the same. */
	const char *module_file;
	const char *const *compile; /* NULL: nothing is compiled */
	const char *const *run;
	/* The run step if the compiler is missing; NULL: that is an error. */
	const char *const *run_alone;
	const char *const *env; /* "NAME=value"; NULL: none */
	/* Text to insert before the first line of a program that lacks it; NULL: none. */
	const char *opening;
	/*
	 * The interpreter opens the file of the program only after it has loaded, and
	 * reads it once. So the interpreter can be started before there is a program
	 * (service/code/warm.c).
	 */
	bool warm;
	const char *image; /* NULL: the default of all languages */
	/* How to get the tool on Debian, for errors; NULL: not known. */
	const char *package;
};

extern const struct code_language code_languages[];
extern const size_t code_n_languages;

/* Rows from the configuration, which take precedence over built-in rows; zero: none. */
struct code_table {
	const struct code_language *rows;
	size_t n;
};

/* Find a language by name or alias, ignoring case. NULL: unknown. */
const struct code_language *code_language_find(const struct code_table *more,
					       const char *name);
/* Get row @i of the languages that a request can name. NULL: there are no more. */
const struct code_language *code_language_at(const struct code_table *more, size_t i);
/* Write the names of all languages, separated by ", ", and truncated to @size. */
void code_language_list(const struct code_table *more, char *out, size_t size);
/*
 * Check that a row from the configuration is complete and valid. Errors name the field.
 */
int code_language_check(const struct code_language *row,
			struct warren_error *err) MUST_CHECK;
/*
 * Write program number @i of those that the first word of a step names to @out. Returns
 * false if there is no such program.
 */
bool code_step_tool(const char *word, size_t i, char *out, size_t size);

#endif /* CODE_LANGUAGE_H */
