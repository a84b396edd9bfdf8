/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - warren-client: the commands of warren(1) that `warren serve` answers */
#include <signal.h>
#include <string.h>

#include "cli/client/commands.h"

static const struct command *const commands[] = {
	&client_create,  &client_ls,     &client_show,     &client_exec, &client_shell,
	&client_session, &client_cp,     &client_logs,     &client_top,  &client_events,
	&client_pause,   &client_resume, &client_rm,       &client_wait, &client_port,
	&client_token,   &client_run,    &client_backends, NULL,
};

int verbs_run(const struct command *of, int argc, char **argv)
{
	const struct command *verb = NULL;
	int first = 0, status = 0;

	return command_verbs(of, argc, argv, NULL, &verb, &first, &status)
		       ? verb->run(argc - first, argv + first)
		       : status;
}

bool command_in_sandbox(const struct command *cmd, int argc, char **argv, void *target,
			const char **ret_sandbox, char ***ret_words, int *ret_status)
{
	char **words = NULL;

	if (!command_operands(cmd, argc, argv, target, 2, 0, &words, ret_status))
		return false;
	*ret_sandbox = *words++;
	/* Options ended at the sandbox, so the dashes came through. */
	if (strcmp(*words, "--") == 0)
		words++;
	*ret_words = words;
	if (*words && **words)
		return true;
	say(cmd->name, "CMD is missing (example: %s)", cmd->opts->example);
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
	cmd = command_among(commands, argv[0], NULL);
	if (!cmd) {
		say(NULL, "this program is a part of warren(1), which calls it");
		return STATUS_FAILED;
	}
	return cmd->run(argc, argv);
}
