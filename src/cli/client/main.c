/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - warren-client: the commands of warren(1) that `warren serve` answers */
#include <signal.h>
#include <string.h>

#include "base/suggest.h"
#include "cli/client/commands.h"

#define HELP_MAX (64U << 10)

static const struct command *const commands[] = {
	&client_create,  &client_ls,     &client_show,     &client_exec, &client_shell,
	&client_session, &client_cp,     &client_logs,     &client_top,  &client_events,
	&client_pause,   &client_resume, &client_rm,       &client_wait, &client_port,
	&client_token,   &client_run,    &client_backends, NULL,
};

static const struct command *find(const struct command *const *table, const char *word,
				  const char **ret_near)
{
	struct suggestion s = { .word = word };

	for (; *table; table++) {
		const char *space = strrchr((*table)->name, ' ');
		const char *name = space ? space + 1 : (*table)->name;

		if (strcmp(name, word) == 0)
			return *table;
		suggest_consider(&s, name);
	}
	if (ret_near)
		*ret_near = s.best;
	return NULL;
}

bool verbs_has(const struct command *of, const char *word)
{
	return find(of->verbs, word, NULL);
}

static int verbs_help(const struct command *of)
{
	AUTO_BUF struct buf out = BUF_INIT(HELP_MAX);

	buf_printf(&out, "Usage: warren %s %s\n\n%s\n\nCommands:\n", of->name,
		   of->opts->operands, of->summary);
	for (const struct command *const *c = of->verbs; *c; c++)
		buf_printf(&out, "  %-10s %s\n", strrchr((*c)->name, ' ') + 1,
			   (*c)->summary);
	opts_list(of->opts, &out);
	if (of->about)
		buf_printf(&out, "\n%s", of->about);
	buf_printf(&out, "\n'warren help %s COMMAND' says more of one.\n\nExample: %s\n",
		   of->name, of->opts->example);
	return print(of->name, &out);
}

int verbs_run(const struct command *of, int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	const struct command *verb;
	const char *near = NULL;
	int first = 0, r = opts_parse(of->opts, argc, argv, NULL, &first, &err);

	if (r == OPTS_HELP)
		return verbs_help(of);
	if (r < 0)
		return client_fail(of, &err);
	if (first >= argc) {
		say(of->name, "no command given (see 'warren %s --help'; example: %s)",
		    of->name, of->opts->example);
		return STATUS_FAILED;
	}
	verb = find(of->verbs, argv[first], &near);
	if (verb)
		return verb->run(argc - first, argv + first);
	if (near)
		say(of->name,
		    "there is no command '%.100s', did you mean 'warren %s %s'?",
		    argv[first], of->name, near);
	else
		say(of->name,
		    "there is no command '%.100s' (see 'warren %s --help'; example: %s)",
		    argv[first], of->name, of->opts->example);
	return STATUS_FAILED;
}

bool client_options(const struct command *cmd, int argc, char **argv, void *target,
		    int min, int max, char ***ret_operands, int *ret_status)
{
	int first = 0;

	if (!command_options(cmd, argc, argv, target, &first, ret_status))
		return false;
	*ret_operands = argv + first;
	if (argc - first >= min && (max == 0 || argc - first <= max))
		return true;
	if (argc - first < min)
		say(cmd->name, "%s is missing (example: %s)",
		    first == argc ? cmd->opts->operands
				  : strchr(cmd->opts->operands, ' ') + 1,
		    cmd->opts->example);
	else
		say(cmd->name, "unexpected argument '%.100s' (example: %s)",
		    argv[first + max], cmd->opts->example);
	*ret_status = STATUS_FAILED;
	return false;
}

int client_fail(const struct command *cmd, const struct warren_error *err)
{
	say(cmd->name, "%s", err->msg);
	return STATUS_FAILED;
}

/* Called by `warren` with the words of a command: argv[0] is its name. */
int main(int argc, char **argv)
{
	const struct command *cmd;

	if (argc < 1 || hold_standard_fds() < 0)
		return STATUS_FAILED;
	(void)signal(SIGPIPE, SIG_IGN); /* EPIPE says it all */
	if (argc > 1 && strcmp(argv[0], COMPLETE_WORD) == 0)
		return complete_words(commands, argc - 1, argv + 1);
	cmd = find(commands, argv[0], NULL);
	if (!cmd) {
		say(NULL, "this program is a part of warren(1), which calls it");
		return STATUS_FAILED;
	}
	return cmd->run(argc, argv);
}
