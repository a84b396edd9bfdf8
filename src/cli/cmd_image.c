/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_image.c - warren image: run the helper program that has the necessary libraries
 *
 * If WARREN_HOST names a service, the command works on the images of that service.
 */
#include "cli/cli.h"

const struct command command_image = {
	.name = "image",
	.summary = "Build, pull, load, save, push, list and remove images.",
	.opts = &(const struct opts){ .operands = "COMMAND [ARG...]",
				      .example = "warren image pull python:3.12" },
	.program = "warren-image",
	.remote = "warren-client",
};
