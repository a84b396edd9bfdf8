/* SPDX-License-Identifier: Apache-2.0 */
/* command.c - find and run a command of a table, for all programs */
#include "cli/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/did_you_mean.h"

#define HELP_MAX (64U << 10)

bool command_options(const struct command *cmd, int argc, char **argv, void *target,
		     int *ret_first, int *ret_status)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r = opts_parse(cmd->opts, argc, argv, target, ret_first, &err);

	if (r == OPTS_OK)
		return true;
	if (r == OPTS_HELP) {
		*ret_status = help_command(cmd);
		return false;
	}
	message_say(cmd->name, "%s", err.msg);
	*ret_status = STATUS_FAILED;
	return false;
}

/* Return the first missing operand: "DST" of "SRC DST" if one was given. */
static const char *command_missing(const struct opts *o, int given)
{
	const char *at = o->operands;

	for (const char *blank; given > 0 && (blank = strchr(at, ' ')); given--)
		at = blank + 1;
	return at;
}

bool command_operands(const struct command *cmd, int argc, char **argv, void *target,
		      int min, int max, char ***ret_operands, int *ret_status)
{
	int first = 0, n;

	if (!command_options(cmd, argc, argv, target, &first, ret_status))
		return false;
	*ret_operands = argv + first;
	n = argc - first;
	if (n >= min && (max == 0 || n <= max))
		return true;
	if (n < min)
		message_say(cmd->name, "%s is missing (example: %s)",
			    command_missing(cmd->opts, n), cmd->opts->example);
	else
		message_say(cmd->name, "unexpected argument '%.100s' (example: %s)",
			    argv[first + max], cmd->opts->example);
	*ret_status = STATUS_FAILED;
	return false;
}

const char *command_word(const struct command *cmd)
{
	const char *blank = strrchr(cmd->name, ' ');

	return blank ? blank + 1 : cmd->name;
}

const struct command *command_among(const struct command *const *table, const char *word,
				    const char **ret_near)
{
	struct suggestion s = { .word = word };

	for (; *table; table++) {
		if (strcmp(command_word(*table), word) == 0)
			return *table;
		suggest_consider(&s, command_word(*table));
	}
	if (ret_near)
		*ret_near = s.best;
	return NULL;
}

const struct command *command_verb(const struct command *of, const char *word)
{
	const char *near = NULL, *blank = of->name ? " " : "",
		   *name = of->name ? of->name : "";
	const struct command *verb = command_among(of->verbs, word, &near);

	if (!verb && near)
		message_say(of->name,
			    "there is no command '%.100s', did you mean 'warren%s%s %s'?",
			    word, blank, name, near);
	else if (!verb)
		message_say(
			of->name,
			"there is no command '%.100s' (see 'warren%s%s --help'; example: %s)",
			word, blank, name, of->opts->example);
	return verb;
}

bool command_verbs(const struct command *of, int argc, char **argv, void *target,
		   const struct command **ret, int *ret_first, int *ret_status)
{
	const char *blank = of->name ? " " : "", *name = of->name ? of->name : "";

	*ret_status = STATUS_FAILED;
	*ret = NULL;
	/* 'warren help' runs the program in this way. */
	if (of->name && argc > 2 && strcmp(argv[1], "--help") == 0) {
		const struct command *verb = command_verb(of, argv[2]);

		if (verb)
			*ret_status = help_command(verb);
		return false;
	}
	if (!command_options(of, argc, argv, target, ret_first, ret_status))
		return false;
	*ret_status = STATUS_FAILED;
	if (*ret_first < argc)
		*ret = command_verb(of, argv[*ret_first]);
	else
		message_say(of->name,
			    "no command given (see 'warren%s%s --help'; example: %s)",
			    blank, name, of->opts->example);
	return *ret;
}

static void put_verbs(const struct command *of, struct buf *out)
{
	buf_puts(out, "\nCommands:\n");
	for (const struct command *const *c = of->verbs; *c; c++)
		buf_printf(out, "  %-10s %s\n", command_word(*c), (*c)->summary);
}

int help_command(const struct command *cmd)
{
	AUTO_BUF struct buf out = BUF_INIT(HELP_MAX);
	const char *blank = cmd->name ? " " : "", *name = cmd->name ? cmd->name : "";

	buf_printf(&out, "Usage: warren%s%s%s%s%s\n\n%s\n", blank, name,
		   cmd->verbs ? "" : " [OPTIONS]", cmd->opts->operands ? " " : "",
		   cmd->opts->operands ? cmd->opts->operands : "", cmd->summary);
	if (cmd->verbs)
		put_verbs(cmd, &out);
	opts_list(cmd->opts, &out);
	if (cmd->about)
		buf_printf(&out, "\n%s", cmd->about);
	if (cmd->verbs)
		buf_printf(&out,
			   "\nSee 'warren help%s%s COMMAND' for more about a command.\n",
			   blank, name);
	buf_printf(&out, "\nExample: %s\n", cmd->opts->example);
	return message_print(cmd->name, &out);
}

int hold_standard_fds(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int way = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", way | O_CLOEXEC) != fd)
			return -EBADF;
	}
	return 0;
}

int command_helper_main(const struct command *const *commands, int argc, char **argv)
{
	const struct command *cmd;

	if (argc < 1 || hold_standard_fds() < 0)
		return STATUS_FAILED;
	(void)signal(SIGPIPE, SIG_IGN); /* EPIPE reports the same */
	if (argc > 1 && strcmp(argv[0], COMPLETE_WORD) == 0)
		return complete_words(commands, argc - 1, argv + 1);
	cmd = command_among(commands, argv[0], NULL);
	if (!cmd) {
		message_say(NULL, "this program is part of warren(1): run that instead");
		return STATUS_FAILED;
	}
	return cmd->run(argc, argv);
}
