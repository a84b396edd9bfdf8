/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opts.h - options as a table, parsed strictly, and the help generated from it
 *
 * Habits are GNU's: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, grouped
 * flags (-it), "--" ends the options. So does the first word that is not an
 * option: what follows belongs to the command. Names are not abbreviated.
 * Of an option that is given twice the last one counts, unless it adds to a
 * list. Each table has --help (-h) without listing it.
 */
#ifndef CLI_OPTS_H
#define CLI_OPTS_H

#include "base/buf.h"
#include "base/error.h"

struct opt {
	const char *group; /* begins a group of the help; NULL: goes on with the last */
	const char *name;
	char letter;         /* 0: it has none */
	const char *value;   /* what its value is called; NULL: it is a flag */
	const char *example; /* a value that works, for the errors */
	const char *help;
	/* Reads @value (NULL: a flag was given) into @field. */
	int (*set)(void *field, const char *value, struct warren_error *err);
	size_t field; /* its offset in the structure that the command passes */
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
	const char *operands; /* "[--] CMD [ARG...]"; NULL: none are taken */
	const char *example;  /* a whole call that works */
	bool mixed; /* options may follow operands: no operand is a command with its own
		     */
};

enum {
	OPTS_OK = 0,
	OPTS_HELP = 1, /* --help was given, and nothing else matters */
};

/*
 * Fills @target from argv[1] on; *@ret_first is the index of the first operand (argc:
 * none); where they are mixed @argv is sorted, options first. On an error the rest is
 * read all the same, so that a flag like --json holds for the report of the error, and
 * the first error is returned.
 */
int opts_parse(const struct opts *o, int argc, char **argv, void *target, int *ret_first,
	       struct warren_error *err) MUST_CHECK;

/* The one that is called so, --help included; NULL: there is none. */
const struct opt *opts_find(const struct opts *o, const char *name, size_t len);

/* The options as the help lists them. */
void opts_list(const struct opts *o, struct buf *out);

/*
 * For the tables. A `bool`; a `const char *`, which is not empty unless @_or_none; a
 * `uint64_t` each.
 */
int opt_flag(void *field, const char *value, struct warren_error *err);
int opt_text(void *field, const char *value, struct warren_error *err);
int opt_text_or_none(void *field, const char *value, struct warren_error *err);
int opt_duration(void *field, const char *value, struct warren_error *err);
int opt_cpus(void *field, const char *value, struct warren_error *err);

#endif /* CLI_OPTS_H */
