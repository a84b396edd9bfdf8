/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_version.c - warren version */
#include <stddef.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/common_options.h"

struct version_options {
	bool json;
};

static const struct opt version_table[] = {
	{ NULL, OPT_JSON("print the version as one JSON object",
			 offsetof(struct version_options, json)) },
};

static int run_version(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(256);
	struct version_options o = { 0 };
	struct json j = { .out = &out };
	int first = 0, status = 0;

	if (!command_options(&command_version, argc, argv, &o, &first, &status))
		return status;
	if (o.json) {
		json_open(&j, NULL, '{');
		json_str(&j, "version", warren_version());
		json_close(&j, '}');
		buf_puts(&out, "\n");
	} else {
		buf_printf(&out, "warren %s\n", warren_version());
	}
	return message_print("version", &out);
}

const struct command command_version = {
	.name = "version",
	.summary = "Show the version.",
	.opts = &(const struct opts){ .table = version_table,
				      .n = ARRAY_SIZE(version_table),
				      .example = "warren version" },
	.run = run_version,
};
