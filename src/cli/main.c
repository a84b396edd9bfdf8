/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - warren(1): one table of commands, one file per command */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/exec_helper.h"

/* NOLINTBEGIN(bugprone-macro-parentheses): string literals that are joined */
#define ALIAS(word, of)                                                       \
	&(const struct command)                                               \
	{                                                                     \
		.name = word, .summary = "Alias of '" of "'.", .alias_of = of \
	}
/* NOLINTEND(bugprone-macro-parentheses) */

#define CLIENT_LISTED(word, says) &command_##word,

/* clang-format off */
static const struct command *const commands[] = {
	&command_run,
	WORK_COMMANDS(CLIENT_LISTED)
	CLIENT_COMMANDS(CLIENT_LISTED)
	&command_image,
	&command_serve,
	&command_doctor,
	&command_gc,
	&command_completion,
	&command_version,
	&command_help,
	/* Names that docker and podman use. */
	ALIAS("ps", "ls"),
	ALIAS("inspect", "show"),
	ALIAS("stats", "top"),
	ALIAS("images", "image ls"),
	ALIAS("build", "image build"),
	ALIAS("pull", "image pull"),
	ALIAS("push", "image push"),
	ALIAS("rmi", "image rm"),
	ALIAS("load", "image load"),
	ALIAS("save", "image save"),
	ALIAS("tag", "image tag"),
	ALIAS("login", "image login"),
	ALIAS("logout", "image logout"),
	ALIAS("info", "doctor"),
	ALIAS("unpause", "resume"),
	ALIAS("commit", "snapshot create"),
	NULL,
};
/* clang-format on */

struct main_options {
	bool version;
};

static const struct opt main_table[] = {
	{ .name = "version",
	  .help = "show the version",
	  .set = opt_flag,
	  .field = offsetof(struct main_options, version) },
};

const struct command command_warren = {
	.summary = "Isolated, disposable sandboxes for commands.",
	.opts = &(const struct opts){ .table = main_table,
				      .n = ARRAY_SIZE(main_table),
				      .operands = "COMMAND [ARG...]",
				      .example = "warren run -- uname -n" },
	.verbs = commands,
};

/* Replace word @at by the command that it is an alias of. */
static int alias_expand(int at, int *argc, char ***argv)
{
	const struct command *cmd = command_among(commands, (*argv)[at], NULL);
	char **longer, *words, *blank;
	int n = 1;

	if (!cmd || !cmd->alias_of)
		return 0;
	words = strdup(cmd->alias_of);
	longer = calloc((size_t)*argc + 2, sizeof(*longer));
	if (!words || !longer) {
		free(longer);
		free(words);
		return -1;
	}
	blank = strchr(words, ' ');
	(void)memcpy(longer, *argv, (size_t)at * sizeof(*longer));
	longer[at] = words;
	if (blank) {
		*blank = '\0';
		longer[at + n++] = blank + 1;
	}
	(void)memcpy(longer + at + n, *argv + at + 1,
		     (size_t)(*argc - at - 1) * sizeof(*longer));
	*argc += n - 1;
	*argv = longer; /* used until the process exits */
	return 0;
}

/*
 * Expand aliases in the words after "warren"; for help and completion, in the next word.
 */
static int main_expand(int *argc, char ***argv)
{
	bool completes = *argc > 1 && strcmp((*argv)[1], COMPLETE_WORD) == 0;
	bool helps = *argc > 1 && strcmp((*argv)[1], "help") == 0;
	int at = completes || helps ? 2 : 1;

	/* Do not expand the last word of a completion, because it is still being typed.
	 */
	return *argc - completes > at ? alias_expand(at, argc, argv) : 0;
}

/* Print completions for a shell. The options of some commands are known only to other
 * programs. */
static int cli_complete(int argc, char **argv)
{
	char word[] = COMPLETE_WORD;

	for (const struct command *const *c = commands; argc > 1 && *c; c++) {
		char **from = argv;

		if (!(*c)->program || strcmp((*c)->name, argv[0]) != 0)
			continue;
		/*
		 * The tables of these programs contain all their commands; other programs
		 * have one command each.
		 */
		if (strcmp(helper_program(*c), "warren-client") == 0 ||
		    strcmp(helper_program(*c), "warren-work") == 0)
			from--;
		*from = word;
		return helper_run(*c, from);
	}
	return complete_words(commands, argc, argv);
}

int main(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct main_options options = { 0 };
	const struct command *cmd = NULL;
	int first = 0, status = 0;

	if (hold_standard_fds() < 0 || main_expand(&argc, &argv) < 0)
		return STATUS_FAILED;
	if (argc > 2 && strcmp(argv[1], COMPLETE_WORD) == 0)
		return cli_complete(argc - 2, argv + 2);
	if (opts_parse(command_warren.opts, argc, argv, &options, &first, &err) ==
		    OPTS_OK &&
	    options.version)
		return command_version.run(argc - first + 1, argv + first - 1);
	if (!command_verbs(&command_warren, argc, argv, &options, &cmd, &first, &status))
		return status;
	return cmd->program ? helper_run(cmd, argv + first)
			    : cmd->run(argc - first, argv + first);
}
