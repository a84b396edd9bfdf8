/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_import.c - warren image import: create an image from a root filesystem or an OCI
 * layout
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>

#include "cli/common_options.h"
#include "cli/image/source.h"
#include "image/store_write.h"

struct import_options {
	uint64_t max_size;
	bool quiet;
	bool json;
};

static const struct opt import_table[] = {
	{ OPT_MAX_SIZE(offsetof(struct import_options, max_size)) },
	{ NULL, OPT_QUIET("print only the id, no progress",
			  offsetof(struct import_options, quiet)) },
	{ NULL, OPT_JSON("print one JSON object for each image, no progress",
			 offsetof(struct import_options, json)) },
};

static const struct opts import_opts = {
	.table = import_table,
	.n = ARRAY_SIZE(import_table),
	.operands = "FILE|DIRECTORY|- [NAME]",
	.example = "warren image import rootfs.tar mine:1.0",
	.mixed = true,
};

static bool is_layout(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) &&
	       fstatat(fd, "oci-layout", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode) &&
	       fstatat(fd, "index.json", &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Add a name to the only image that was imported. */
static int name_it(const struct store *s, const struct ref *name, struct loaded *loaded,
		   struct warren_error *err)
{
	char text[REF_TEXT_MAX];
	int r;

	if (loaded->n != 1)
		return error_set(
			err, EINVAL,
			"the archive contains %zu images, but one name was given; they "
			"are stored without it",
			loaded->n);
	r = store_tag(s, name, loaded->id, err);
	if (r < 0)
		return r;
	ref_text(name, text);
	if (!loaded->quiet)
		loaded_add(loaded, loaded->id, text);
	return 0;
}

static int image_cmd_import(const struct store *s, int fd,
			    const struct oci_options *options, struct loaded *loaded,
			    const void *ctx, struct warren_error *err)
{
	const struct ref *name = ctx; /* NULL: none */
	char id[REF_DIGEST_LEN + 1];
	int r;

	if (is_layout(fd)) {
		r = oci_load_layout(s, fd, options, loaded_add, err);
		return r < 0 || !name ? r : name_it(s, name, loaded, err);
	}
	r = oci_import(s, fd, name, options, id, err);
	if (r >= 0)
		loaded_made(loaded, id, name);
	return r;
}

static int run_import(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct import_options o = { 0 };
	struct ref name;
	char **operands;
	int status = 0;

	if (!command_operands(&image_import, argc, argv, &o, 1, 2, &operands, &status))
		return status;
	if (operands[1]) {
		if (ref_parse(operands[1], &name, &err) < 0)
			return image_fail(&image_import, &err);
		if (name.digest[0]) {
			message_say(image_import.name,
				    "'%.200s': a digest cannot be given as a name",
				    operands[1]);
			return STATUS_FAILED;
		}
	}
	return source_bring(&image_import,
			    &(struct source){ operands[0], "import", image_cmd_import,
					      operands[1] ? &name : NULL, o.max_size },
			    o.quiet, o.json);
}

const struct command image_import = {
	.name = "image import",
	.summary = "Create an image from a root filesystem or an OCI layout.",
	.about = "Exit status: 0, or 125 after an error message.\n",
	.opts = &import_opts,
	.run = run_import,
};
