/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_version.c - warren version */
#include "cli/cli.h"

static int run_version(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(256);
	int first = 0, status = 0;

	if (!command_options(&command_version, argc, argv, NULL, &first, &status))
		return status;
	buf_printf(&out, "warren %s\n", warren_version());
	return print("version", &out);
}

const struct command command_version = {
	.name = "version",
	.summary = "Show the version.",
	.opts = &(const struct opts){ .example = "warren version" },
	.run = run_version,
};
