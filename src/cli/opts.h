/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opts.h - parse a table of options strictly, and generate the help from it
 *
 * The syntax is that of GNU: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, grouped flags
 * (-it). Options end at "--" or at the first word that is not an option; the rest belongs
 * to the command. Names cannot be abbreviated. If an option is given twice, the last one
 * counts, unless it adds to a list. Each table has --help (-h) without listing it.
 */
#ifndef CLI_OPTS_H
#define CLI_OPTS_H

#include "base/buf.h"
#include "base/error.h"

struct opt {
	const char *group; /* title of a new group in the help; NULL: same group */
	const char *name;
	char letter;       /* 0: no short option */
	const char *value; /* name of the value in the help; NULL: the option is a flag */
	const char *example; /* a valid value, for error messages */
	const char *help;
	/* Parse @value (NULL: a flag was given) into @field. */
	int (*set)(void *field, const char *value, struct warren_error *err);
	size_t field; /* offset in the structure that the command passes */
};

/* Two options that contradict each other. */
struct opt_conflict {
	const char *one, *other;
	const char *why;
};

struct opts {
	const struct opt *table;
	size_t n;
	const struct opt_conflict *conflicts;
	size_t n_conflicts;
	const char *operands; /* "[--] CMD [ARG...]"; NULL: none allowed */
	const char *example;  /* a complete valid call */
	bool mixed;           /* options may follow operands */
};

enum {
	OPTS_OK = 0,
	OPTS_HELP = 1, /* --help was given; ignore everything else */
};

/*
 * Parse @argv from argv[1] on into @target. *@ret_first is the index of the first operand
 * (argc: none). If `mixed` is set, @argv is sorted, options first. After an error parsing
 * continues, so that a flag like --json applies to the error report; the first error is
 * returned.
 */
int opts_parse(const struct opts *o, int argc, char **argv, void *target, int *ret_first,
	       struct warren_error *err) MUST_CHECK;

/* Find an option by name, including --help; NULL: there is none. */
const struct opt *opts_find(const struct opts *o, const char *name, size_t len);

/* Append the list of options for the help. */
void opts_list(const struct opts *o, struct buf *out);

/*
 * Setters for the tables: opt_flag() sets a `bool`, opt_text() a non-empty `const char *`
 * (_or_none: it may be empty), the others a `uint64_t`.
 */
int opt_flag(void *field, const char *value, struct warren_error *err);
int opt_text(void *field, const char *value, struct warren_error *err);
int opt_text_or_none(void *field, const char *value, struct warren_error *err);
int opt_duration(void *field, const char *value, struct warren_error *err);
int opt_cpus(void *field, const char *value, struct warren_error *err);

#endif /* CLI_OPTS_H */
