/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_save.c - warren image save: write images as one archive */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/common_options.h"
#include "cli/image/cancel.h"
#include "cli/image/catalog.h"
#include "cli/image/image.h"
#include "cli/image/progress.h"
#include "cli/image/source.h"

struct save_options {
	const char *output;
	enum pack_kind kind;
	bool quiet;
	bool json;
};

/* The context of struct oci_options. */
struct saving {
	struct progress progress;
	struct buf json;
};

/* Where the archive goes. A file is complete or does not exist. */
struct save_output {
	int fd;
	char *path, *temp; /* NULL: written in place */
};

static int save_set_compression(void *field, const char *value, struct warren_error *err)
{
	static const struct {
		const char *name;
		enum pack_kind kind;
	} kinds[] = { { "none", PACK_NONE },
		      { "gzip", PACK_GZIP },
		      { "zstd", PACK_ZSTD } };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(value, kinds[i].name) == 0) {
			*(enum pack_kind *)field = kinds[i].kind;
			return 0;
		}
	return error_set(err, EINVAL, "'%s' is not none, gzip or zstd", value);
}

static const struct opt save_table[] = {
	{ .name = "output",
	  .letter = 'o',
	  .value = "FILE",
	  .example = "image.tar",
	  .help = "file to write, instead of stdout",
	  .set = opt_text,
	  .field = offsetof(struct save_options, output) },
	{ .name = "compress",
	  .value = "none|gzip|zstd",
	  .example = "zstd",
	  .help = "compression of the layers (default: none)",
	  .set = save_set_compression,
	  .field = offsetof(struct save_options, kind) },
	{ NULL, OPT_QUIET("no progress", offsetof(struct save_options, quiet)) },
	{ NULL, OPT_JSON("with -o: print a JSON object for each image, no progress",
			 offsetof(struct save_options, json)) },
};

static const struct opts save_opts = {
	.table = save_table,
	.n = ARRAY_SIZE(save_table),
	.operands = "IMAGE...",
	.example = "warren image save -o python.tar python:3.12",
	.mixed = true,
};

static int save_output_stdout(struct save_output *out, struct warren_error *err)
{
	if (isatty(STDOUT_FILENO) == 1)
		return error_set(
			err, ENOTTY,
			"stdout is a terminal: give a file with -o, or redirect stdout");
	out->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	return out->fd < 0 ? error_errno(err, errno, "open stdout") : 0;
}

static int save_output_open(const char *path, struct save_output *out,
			    struct warren_error *err)
{
	struct stat st;

	if (!path || strcmp(path, "-") == 0)
		return save_output_stdout(out, err);
	/* A pipe or a device is written to, not replaced. */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
		out->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
		return out->fd < 0 ? error_errno(err, errno, "open '%.200s'", path) : 0;
	}
	out->path = realpath(path, NULL);
	if (!out->path)
		out->path = strdup(path);
	if (!out->path || asprintf(&out->temp, "%s.XXXXXX", out->path) < 0) {
		out->temp = NULL;
		return error_errno(err, ENOMEM, "open '%.200s'", path);
	}
	/* Only the user may read it: an image can contain secrets. */
	out->fd = mkostemp(out->temp, O_CLOEXEC);
	if (out->fd >= 0)
		return 0;
	free(TAKE_PTR(out->temp));
	return error_errno(err, errno, "create '%.200s'", path);
}

/* Give a complete file its name, or remove an incomplete one. */
static int save_output_close(struct save_output *out, int r, struct warren_error *err)
{
	if (out->fd >= 0 && close(TAKE_FD(out->fd)) < 0 && r == 0)
		r = error_errno(err, errno, "write the archive");
	if (r == 0 && out->temp && rename(out->temp, out->path) < 0)
		r = error_errno(err, errno, "rename the archive to '%.200s'", out->path);
	if (r < 0 && out->temp)
		(void)unlink(out->temp);
	free(out->path);
	free(out->temp);
	return r;
}

static int save_progress(void *ctx, const struct oci_layer *layers, size_t n)
{
	struct saving *saving = ctx;

	return progress_show(&saving->progress, layers, n);
}

static void save_add(void *ctx, const char *id, const char *ref)
{
	struct saving *saving = ctx;

	catalog_put_json(&saving->json, "saved", id, ref);
}

static int image_cmd_save(const struct save_options *o, char **images,
			  struct saving *saving, struct warren_error *err)
{
	const struct oci_options options = { .progress = save_progress, .ctx = saving };
	struct save_output out = { .fd = -1 };
	struct store s;
	int r = image_open_store(false, &s, err);

	if (r == -ENOENT)
		return error_set(err, ENOENT, "there is no image '%s' on this machine",
				 images[0]);
	if (r < 0)
		return r;
	r = save_output_open(o->output, &out, err);
	if (r == 0)
		r = oci_own_layers(err);
	if (r == 0)
		r = oci_save(&s, (const char *const *)images, o->kind, out.fd, &options,
			     save_add, err);
	r = image_hint(&s, r, err);
	store_close(&s);
	return save_output_close(&out, r, err);
}

static int run_save(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct saving saving = { .json = BUF_INIT(OUTPUT_MAX) };
	struct save_options o = { 0 };
	char **operands;
	int status = 0, r;

	if (!command_operands(&image_save, argc, argv, &o, 1, 0, &operands, &status))
		return status;
	if (o.json && (!o.output || strcmp(o.output, "-") == 0)) {
		message_say(image_save.name, "--json needs -o FILE, because the archive "
					     "is written to stdout");
		return STATUS_FAILED;
	}
	cancel_arm();
	progress_init(&saving.progress, o.quiet || o.json);
	r = image_cmd_save(&o, operands, &saving, &err);
	progress_done(&saving.progress);
	if (!o.json)
		buf_done(&saving.json);
	status = image_end(&image_save, r, &err, &saving.json);
	buf_done(&saving.json);
	return status;
}

const struct command image_save = {
	.name = "image save",
	.summary = "Write images as an archive (for load, docker load, skopeo).",
	.about = "Without -o, the archive is written to stdout.\n"
		 "Layers are packed again. So an image that was pulled gets another id\n"
		 "where it is loaded; one that was created by Warren keeps its id.\n"
		 "Exit status: 0, or 125 after an error message.\n",
	.opts = &save_opts,
	.run = run_save,
};
