/* SPDX-License-Identifier: Apache-2.0 */
/* kind.c - the descriptor of the backend `command` */
#include "backend/kind.h"
#include "base/macro.h"
#include "spec/spec.h"

#define LIMIT_PLACE(id, field, life, unit, word, ...) word,

static const char *const places_of_create[] = {
	"id", "image", "hostname", "user", "cwd", SPEC_LIMITS(LIMIT_PLACE) NULL
};
static const char *const places_of_destroy[] = { "id", NULL };
static const char *const places_of_exec[] = { "id",   "user",    "cwd", "tty",
					      "argv", "command", NULL };
static const char *const places_of_copy[] = { "id", "path", NULL };
static const char *const needs_command[] = { "argv", "command", NULL };
static const char *const needs_path[] = { "path", NULL };

static const struct backend_setting command_settings[] = {
	{ .name = "create",
	  .type = BACKEND_SETTING_ARGV,
	  .places = places_of_create,
	  .example =
		  "[docker, run, -d, --init, --name, 'box-{id}', '{image}', sleep, infinity]",
	  .help = "Command that creates a sandbox; without it, the sandbox must "
		  "already exist" },
	{ .name = "exec",
	  .type = BACKEND_SETTING_ARGV,
	  .required = true,
	  .places = places_of_exec,
	  .needs = needs_command,
	  .needs_what = "command",
	  .example = "[docker, exec, -i, 'box-{id}', '{argv}']",
	  .help = "Command that runs a command in the sandbox, passes on its streams, "
		  "and exits with its status: {argv} becomes the words of the "
		  "command, {command} one word for a shell" },
	{ .name = "destroy",
	  .type = BACKEND_SETTING_ARGV,
	  .places = places_of_destroy,
	  .example = "[docker, rm, -f, 'box-{id}']",
	  .help = "Command that destroys the sandbox, if it still exists (default: "
		  "none)" },
	{ .name = "copy_in",
	  .type = BACKEND_SETTING_ARGV,
	  .places = places_of_copy,
	  .needs = needs_path,
	  .needs_what = "file",
	  .help = "Command that writes its standard input to the file {path} "
		  "(default: use exec)" },
	{ .name = "copy_out",
	  .type = BACKEND_SETTING_ARGV,
	  .places = places_of_copy,
	  .needs = needs_path,
	  .needs_what = "file",
	  .help = "Command that prints the file {path} (default: use exec)" },
	{ .name = "tty",
	  .type = BACKEND_SETTING_TEXT,
	  .example = "-t",
	  .example_hidden = true,
	  .help = "What {tty} becomes if the command has a terminal (default: -t)" },
	{ .name = "timeout",
	  .type = BACKEND_SETTING_SECONDS,
	  .example = "60",
	  .example_hidden = true,
	  .help = "Maximum seconds to create a sandbox, to destroy it, to start a "
		  "command, and for a file transfer to make no progress (default: 60)" },
	{ .name = "tier",
	  .type = BACKEND_SETTING_CHOICE,
	  .choices = tier_names,
	  .help = "Isolation tier that the tool provides, which Warren cannot detect "
		  "(default: none)" },
};

const struct backend_kind backend_kind_command = {
	.name = "command",
	.help = "Any program that can run a command: ssh, kubectl, nsenter, docker",
	.tier = TIER_NONE,
	.images = BACKEND_IMAGES_NONE,
	.limits = SPEC_LIMIT_BITS,
	.settings = command_settings,
	.n_settings = ARRAY_SIZE(command_settings),
};
