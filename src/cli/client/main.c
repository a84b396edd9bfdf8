/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - warren-client: the commands of warren(1) that use `warren serve` */
#include <ctype.h>
#include <string.h>

#include "cli/client/commands.h"
#include "spec/spec.h"

#define SAID_MAX 400 /* maximum size that leaves space for the example */

#define CLIENT_LISTED(word, says) &client_##word,

/* clang-format off */
static const struct command *const commands[] = {
	CLIENT_COMMANDS(CLIENT_LISTED)
	CLIENT_FORWARDED(CLIENT_LISTED)
	&client_image,
	&client_run,
	NULL,
};
/* clang-format on */

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
	/* Options ended at the sandbox, so the dashes are still among the words. */
	if (strcmp(*words, "--") == 0)
		words++;
	*ret_words = words;
	if (*words && **words)
		return true;
	message_say(cmd->name, "CMD is missing (example: %s)", cmd->opts->example);
	*ret_status = STATUS_FAILED;
	return false;
}

/* Fields of the service whose options have another name. */
static const struct {
	const char *field, *option;
} called[] = {
	{ "cwd", "workdir" },
	{ "expires_in_ms", "expires" },
	{ "idempotency_key", "key" },
	{ "idle_timeout_ms", "idle-timeout" },
	{ "labels", "label" },
	{ "mounts", "volume" },
	{ "idle_action", "idle-action" },
	{ "on_idle", "on-idle" },
	{ "on_ttl", "on-ttl" },
	{ "output_limit", "output-limit" },
	{ "read_only", "read-only" },
	{ "sandbox_id", "sandbox" },
	{ "scopes", "scope" },
	{ "timeout_ms", "timeout" },
	{ "ttl_ms", "ttl" },
	{ "wait_ms", "wait" },
};

static const struct opt *option_of(const struct command *cmd, const char *field, size_t n)
{
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++)
		if (strlen(spec_limits[i].name) == n &&
		    strncmp(spec_limits[i].name, field, n) == 0)
			return opts_find(cmd->opts, spec_limits[i].word,
					 strlen(spec_limits[i].word));
	for (size_t i = 0; i < ARRAY_SIZE(called); i++)
		if (strlen(called[i].field) == n &&
		    strncmp(called[i].field, field, n) == 0)
			return opts_find(cmd->opts, called[i].option,
					 strlen(called[i].option));
	return opts_find(cmd->opts, field, n);
}

/* Is @field an operand: "name" for "NAME", which is written to @word? */
static bool is_operand(const struct command *cmd, const char *field, size_t n,
		       char word[32])
{
	if (n >= 32 || !cmd->opts->operands)
		return false;
	for (size_t i = 0; i < n; i++)
		word[i] = (char)toupper((unsigned char)field[i]);
	word[n] = '\0';
	return strcmp(cmd->opts->operands, word) == 0;
}

/*
 * The service names a field by a pointer into the request, or by the name of a parameter:
 * "/limits/pids: ...", "state: ...". Replace it by the option that the user gave.
 */
struct warren_error client_words(const struct command *cmd,
				 const struct warren_error *err)
{
	struct warren_error words = *err;
	const char *at = err->msg, *end = strstr(at, ": ");
	const struct opt *opt = NULL;
	char word[32];
	size_t n;

	at += *at == '/';
	for (; end && at < end && !opt; at += n + (at[n] == '/')) {
		n = strcspn(at, "/:");
		if (n == 0 || at + n > end)
			break;
		opt = option_of(cmd, at, n);
		/* A rule of a policy is an option, and so is its list of capabilities. */
		if (opt && strcmp(opt->name, "network") == 0 && at[n] == '/') {
			const struct opt *rule =
				option_of(cmd, at + n + 1, strcspn(at + n + 1, "/:"));

			opt = rule ? rule : opt;
		}
		if (!opt && err->msg[0] == '/' && is_operand(cmd, at, n, word)) {
			(void)error_set(&words, err->code, "%s%.*s (example: %s)", word,
					SAID_MAX, end, cmd->opts->example);
			return words;
		}
		if (err->msg[0] != '/')
			break;
	}
	if (opt && opt->value)
		(void)error_set(&words, err->code, "--%s%.*s (example: --%s %s)",
				opt->name, SAID_MAX, end, opt->name, opt->example);
	else if (opt)
		(void)error_set(&words, err->code, "--%s%.*s", opt->name, SAID_MAX, end);
	return words;
}

void client_say(const struct command *cmd, const struct warren_error *err)
{
	const struct warren_error words = client_words(cmd, err);

	message_say(cmd->name, "%s", words.msg);
}

int client_fail(const struct command *cmd, const struct warren_error *err)
{
	client_say(cmd, err);
	return STATUS_FAILED;
}

int main(int argc, char **argv)
{
	return command_helper_main(commands, argc, argv);
}
