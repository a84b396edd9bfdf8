/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_image.c - warren image: handed over to the program that has the libraries for it */
#include <errno.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/helper.h"

static int run_image(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char path[PATH_MAX];

	(void)argc;
	if (helper_find("warren-image", path, &err) < 0) {
		say("image", "%s", err.msg);
		return STATUS_FAILED;
	}
	(void)execv(path, argv);
	say("image", "start %s: %s", path, strerrordesc_np(errno));
	return STATUS_FAILED;
}

const struct command command_image = {
	.name = "image",
	.summary = "Pull, load, list and remove images.",
	.opts = &(const struct opts){ .operands = "COMMAND [ARG...]",
				      .example = "warren image pull python:3.12" },
	.run = run_image,
	.elsewhere = true,
};
