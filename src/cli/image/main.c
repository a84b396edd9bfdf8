/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - warren-image: `warren image` with all that it needs libraries for */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "base/suggest.h"
#include "cli/image/image.h"
#include "cli/image/report.h"

#define HELP_MAX (64U << 10)

static const struct command *const commands[] = {
	&image_pull, &image_load, &image_import, &image_ls, &image_inspect,
	&image_tag,  &image_rm,   &image_prune,  &image_du, NULL,
};

struct options {
	bool report;
};

static const struct opt image_table[] = {
	{ .name = "report",
	  .help = "for programs: progress, and at the end how it went, as lines of JSON",
	  .set = opt_flag,
	  .field = offsetof(struct options, report) },
};

static const struct opts image_opts = {
	.table = image_table,
	.n = ARRAY_SIZE(image_table),
	.operands = "COMMAND [ARG...]",
	.example = "warren image pull python:3.12",
};

/* Without the "image " in front. */
static const char *short_name(const struct command *cmd)
{
	return cmd->name + strlen("image ");
}

static const struct command *find(const char *name)
{
	struct suggestion s = { .word = name };

	for (const struct command *const *c = commands; *c; c++) {
		if (strcmp(short_name(*c), name) == 0)
			return *c;
		suggest_consider(&s, short_name(*c));
	}
	if (s.best)
		say("image",
		    "there is no command '%.100s', did you mean 'warren image %s'?", name,
		    s.best);
	else
		say("image",
		    "there is no command '%.100s' (see 'warren image --help'; example: %s)",
		    name, image_opts.example);
	return NULL;
}

static int help(void)
{
	AUTO_BUF struct buf out = BUF_INIT(HELP_MAX);

	buf_printf(&out,
		   "Usage: warren image %s\n\nImages of this machine: pulled, loaded, "
		   "listed, removed.\n\nCommands:\n",
		   image_opts.operands);
	for (const struct command *const *c = commands; *c; c++)
		buf_printf(&out, "  %-10s %s\n", short_name(*c), (*c)->summary);
	opts_list(&image_opts, &out);
	buf_printf(&out,
		   "\n'warren help image COMMAND' says more of one.\n\nExample: %s\n",
		   image_opts.example);
	return print("image", &out);
}

int open_store(bool make, struct store *ret, struct warren_error *err)
{
	AUTO_FREE char *dir = NULL;
	int r = store_state_dir(&dir, err);

	return r < 0 ? r : store_open(dir, make, ret, err);
}

bool image_options(const struct command *cmd, int argc, char **argv, void *target,
		   int min, int max, char ***ret_operands, int *ret_status)
{
	int first = 0;

	if (!command_options(cmd, argc, argv, target, &first, ret_status))
		return false;
	*ret_operands = argv + first;
	if (argc - first >= min && (max == 0 || argc - first <= max))
		return true;
	if (argc - first < min)
		say(cmd->name, "%s is missing (example: %s)", cmd->opts->operands,
		    cmd->opts->example);
	else
		say(cmd->name, "unexpected argument '%.100s' (example: %s)",
		    argv[first + max], cmd->opts->example);
	*ret_status = STATUS_FAILED;
	return false;
}

int image_fail(const struct command *cmd, const struct warren_error *err)
{
	if (report_wanted())
		report_error(err);
	else
		say(cmd->name, "%s", err->msg);
	return STATUS_FAILED;
}

int main(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	const struct command *cmd;
	struct options o = { 0 };
	int first = 0;
	int r;

	if (hold_standard_fds() < 0)
		return STATUS_FAILED;
	(void)signal(SIGPIPE, SIG_IGN); /* EPIPE says it all */
	if (argc > 1 && strcmp(argv[0], COMPLETE_WORD) == 0)
		return complete_words(commands, argc - 1, argv + 1);
	r = opts_parse(&image_opts, argc, argv, &o, &first, &err);
	if (r == OPTS_HELP)
		return help();
	if (r < 0) {
		say("image", "%s", err.msg);
		return STATUS_FAILED;
	}
	if (first >= argc) {
		say("image", "no command given (see 'warren image --help'; example: %s)",
		    image_opts.example);
		return STATUS_FAILED;
	}
	cmd = find(argv[first]);
	if (o.report)
		report_start();
	r = cmd ? cmd->run(argc - first, argv + first) : STATUS_FAILED;
	return o.report ? report_end(r) : r;
}
