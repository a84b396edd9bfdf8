/* SPDX-License-Identifier: Apache-2.0 */
/*
 * complete.c - complete words from the tables that also generate the help
 *
 * The scripts for the shells (cmd_completion.c) contain no commands or options: they ask
 * the program each time, so that they are never out of date.
 */
#include <string.h>

#include "cli/command.h"

#define OUTPUT_MAX (4U << 20)

static void put_commands(const struct command *const *table, struct buf *out)
{
	for (; *table; table++)
		buf_printf(out, "%s\t%s\n", command_word(*table), (*table)->summary);
}

static void put_options(const struct opts *o, struct buf *out)
{
	for (size_t i = 0; i < o->n; i++)
		buf_printf(out, "--%s\t%s\n", o->table[i].name, o->table[i].help);
	buf_puts(out, "--help\tshow this help\n");
}

/* Return the option of @word, if its value is the next word. */
static const struct opt *takes_next(const struct opts *o, const char *word)
{
	size_t n = strlen(word);

	for (size_t i = 0; i < o->n; i++) {
		const struct opt *opt = &o->table[i];

		if (!opt->value)
			continue;
		if (strncmp(word, "--", 2) == 0
			    ? strcmp(word + 2, opt->name) == 0
			    : opt->letter && word[0] == '-' && word[n - 1] == opt->letter)
			return opt;
	}
	return NULL;
}

/*
 * Complete a word after the name of the command: count the operands, and check whether a
 * value is being typed.
 */
static void put_for(const struct command *c, int argc, char **argv, struct buf *out)
{
	int operands = 0;
	bool options = true;

	for (int i = 0; i < argc - 1; i++) {
		const char *word = argv[i];

		if (options && strcmp(word, "--") == 0) {
			options = false;
		} else if (options && word[0] == '-' && word[1]) {
			if (takes_next(c->opts, word) && ++i >= argc - 1)
				return; /* a value: let the shell complete file names */
		} else {
			operands++;
			options = options && c->opts->mixed;
		}
	}
	if (options && argv[argc - 1][0] == '-')
		put_options(c->opts, out);
	else if (c->complete)
		c->complete(operands, out);
}

int complete_words(const struct command *const *table, int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	const struct command *c = argc > 1 ? command_among(table, argv[0], NULL) : NULL;
	const struct command *verb =
		c && c->verbs ? command_among(c->verbs, argv[1], NULL) : NULL;

	if (argc == 1)
		put_commands(table, &out);
	else if (c && c->verbs && argc == 2 && argv[1][0] != '-')
		put_commands(c->verbs, &out);
	else if (verb)
		put_for(verb, argc - 2, argv + 2, &out);
	else if (c)
		put_for(c, argc - 1, argv + 1, &out);
	return message_print(NULL, &out);
}
