/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_load.c - warren image load: load all images of an archive */
#include <stddef.h>

#include "cli/common_options.h"
#include "cli/image/source.h"

struct load_options {
	uint64_t max_size;
	const char *input;
	bool quiet;
	bool json;
};

static const struct opt load_table[] = {
	{ .name = "input",
	  .letter = 'i',
	  .value = "FILE",
	  .example = "image.tar",
	  .help = "archive to read, instead of FILE",
	  .set = opt_text,
	  .field = offsetof(struct load_options, input) },
	{ OPT_MAX_SIZE(offsetof(struct load_options, max_size)) },
	{ NULL, OPT_QUIET("print only the ids, no progress",
			  offsetof(struct load_options, quiet)) },
	{ NULL, OPT_JSON("print one JSON object for each image, no progress",
			 offsetof(struct load_options, json)) },
};

static const struct opts load_opts = {
	.table = load_table,
	.n = ARRAY_SIZE(load_table),
	.operands = "[FILE|-]",
	.example = "warren image load image.tar",
	.mixed = true,
};

static int image_cmd_load(const struct store *s, int fd,
			  const struct oci_options *options, struct loaded *loaded,
			  const void *ctx, struct warren_error *err)
{
	(void)loaded; /* required by the type of the function */
	(void)ctx;
	return oci_load(s, fd, options, loaded_add, err);
}

static int run_load(int argc, char **argv)
{
	struct load_options o = { 0 };
	char **operands;
	int status = 0;

	if (!command_operands(&image_load, argc, argv, &o, 0, 1, &operands, &status))
		return status;
	if (operands[0] && o.input) {
		message_say(image_load.name, "give only one archive (example: %s)",
			    load_opts.example);
		return STATUS_FAILED;
	}
	if (operands[0])
		o.input = operands[0];
	if (!o.input) /* as for docker load < image.tar */
		o.input = "-";
	return source_bring(
		&image_load,
		&(struct source){ o.input, "load", image_cmd_load, NULL, o.max_size },
		o.quiet, o.json);
}

const struct command image_load = {
	.name = "image load",
	.summary = "Load the images of an archive (docker save, OCI).",
	.about = "Without FILE, the archive is read from stdin.\n"
		 "Exit status: 0, or 125 after an error message.\n",
	.opts = &load_opts,
	.run = run_load,
};
