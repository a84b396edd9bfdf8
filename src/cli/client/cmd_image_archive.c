/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_image_archive.c - warren image save, load, tag and push, if WARREN_HOST names a
 * service
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "cli/client/cmd_image.h"
#include "cli/client/commands.h"
#include "cli/client/pull.h"
#include "cli/client/transfer.h"
#include "cli/common_options.h"

#define ARCHIVE_URL "/v1/images/archive"

struct archive_options {
	const char *file;
	bool quiet, json;
};

#define FIELD(name) offsetof(struct archive_options, name)

/* clang-format off */
static const struct opt save_table[] = {
	{ NULL, "output", 'o', "FILE", "image.tar",
	  "file to write, instead of stdout",
	  opt_text, FIELD(file) },
};

static const struct opt load_table[] = {
	{ NULL, "input", 'i', "FILE", "image.tar",
	  "archive to read, instead of stdin",
	  opt_text, FIELD(file) },
	{ NULL, OPT_QUIET("print ids only", FIELD(quiet)) },
	{ NULL, OPT_JSON("print one JSON object for each image", FIELD(json)) },
};

static const struct opt push_table[] = {
	{ NULL, OPT_QUIET("print only the digest, no progress", FIELD(quiet)) },
	{ NULL, OPT_JSON("print the result as one JSON object, no progress", FIELD(json)) },
};
/* clang-format on */

static bool archive_is_piped(const char *file)
{
	return !file || strcmp(file, "-") == 0;
}

/* ------------------------------------------------------------------------ save */

static int archive_download(struct client *c, const char *image, struct transfer *file,
			    struct warren_error *err)
{
	AUTO_BUF struct buf url = BUF_INIT(PATH_LIMIT);
	AUTO_REQUEST struct request *request = NULL;
	int r;

	buf_puts(&url, ARCHIVE_URL);
	put_query(&url, "image", image);
	if (url.failed)
		return error_errno(err, ENAMETOOLONG, "save image '%.100s'", image);
	r = request_new(c, "GET", url.data, &request, err);
	if (r < 0)
		return r;
	return transfer_receive(file, request, err);
}

/* Write to a temporary name, which only the user may read, and then rename the file. */
static int archive_save(struct client *c, const char *image, const char *file,
			struct warren_error *err)
{
	struct transfer to = { .name = "-", .fd = STDOUT_FILENO };
	AUTO_FREE char *temporary = NULL;
	AUTO_CLOSE int fd = -1;
	int r;

	if (archive_is_piped(file) && isatty(STDOUT_FILENO) == 1)
		return error_set(
			err, ENOTTY,
			"stdout is a terminal: give a file with -o, or redirect stdout");
	if (archive_is_piped(file))
		return archive_download(c, image, &to, err);
	if (asprintf(&temporary, "%s.XXXXXX", file) < 0) {
		temporary = NULL;
		return error_errno(err, ENOMEM, "save the image");
	}
	to.name = file;
	to.fd = fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "create '%.200s'", file);
	r = archive_download(c, image, &to, err);
	if (r == 0 && rename(temporary, file) < 0)
		r = error_errno(err, errno, "create '%.200s'", file);
	if (r < 0)
		(void)unlink(temporary);
	return r;
}

static int remote_run_save(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct archive_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0;

	if (!command_operands(&remote_save, argc, argv, &o, 1, 1, &words, &status))
		return status;
	if (client_open(&c, &err) < 0 || archive_save(c, *words, o.file, &err) < 0)
		return client_fail(&remote_save, &err);
	return 0;
}

/* ------------------------------------------------------------------------ load */

static int archive_upload(struct client *c, struct transfer *file, json_t **ret,
			  struct warren_error *err)
{
	AUTO_REQUEST struct request *request = NULL;
	int r = request_new(c, "POST", ARCHIVE_URL, &request, err);

	if (r == 0)
		r = transfer_send(file, request, "application/x-tar", err);
	if (r == 0)
		*ret = json_loadb(request->answer.data, request->answer.len, 0, NULL);
	return r < 0 ? r : *ret ? 0 : error_set(err, EPROTO, "the answer is not valid");
}

static void archive_put_loaded(struct buf *out, const struct archive_options *o,
			       const json_t *image)
{
	const char *id = print_text_of(image, "id"), *name = print_text_of(image, "name");

	if (o->quiet)
		buf_printf(out, "%s\n", id);
	else if (*name)
		buf_printf(out, "Loaded image: %s\n", name);
	else
		buf_printf(out, "Loaded image ID: %s\n", id);
}

static int archive_show_loaded(const struct archive_options *o, const json_t *answer)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	json_t *images = json_object_get(answer, "images");
	int status = 0;

	for (size_t i = 0; i < json_array_size(images); i++) {
		json_t *image = json_array_get(images, i);

		if (o->json && print_json(&remote_load, image) != 0)
			status = STATUS_FAILED;
		else if (!o->json)
			archive_put_loaded(&out, o, image);
	}
	return o->json ? status : message_print(remote_load.name, &out);
}

static int remote_run_load(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct transfer file = { .name = "-", .fd = STDIN_FILENO };
	const char *name;
	AUTO_JSON json_t *answer = NULL;
	struct archive_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0, r = 0;

	if (!command_operands(&remote_load, argc, argv, &o, 0, 1, &words, &status))
		return status;
	name = *words ? *words : o.file;
	if (!archive_is_piped(name))
		file = (struct transfer){ .name = name,
					  .fd = open(name, O_RDONLY | O_CLOEXEC) };
	else if (isatty(STDIN_FILENO) == 1)
		r = error_set(&err, ENOTTY,
			      "stdin is a terminal: give a file, or redirect an archive "
			      "to stdin");
	if (file.fd < 0)
		r = error_errno(&err, errno, "open '%s'", name);
	if (r == 0)
		r = client_open(&c, &err);
	if (r == 0)
		r = archive_upload(c, &file, &answer, &err);
	if (file.fd > STDERR_FILENO)
		(void)close(file.fd);
	return r < 0 ? client_fail(&remote_load, &err) : archive_show_loaded(&o, answer);
}

/* ---------------------------------------------------------------- tag and push */

static int remote_run_tag(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLIENT struct client *c = NULL;
	AUTO_JSON json_t *body = NULL;
	char **words = NULL;
	int status = 0;

	if (!command_operands(&remote_tag, argc, argv, NULL, 2, 2, &words, &status))
		return status;
	body = json_pack("{s:s, s:s}", "image", words[0], "name", words[1]);
	if (client_open(&c, &err) < 0 ||
	    client_call(c, "POST", "/v1/images/tag", body, NULL, &err) < 0)
		return client_fail(&remote_tag, &err);
	return 0;
}

static int remote_run_push(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_JSON json_t *body = NULL, *pushed = NULL, *shown = NULL;
	struct archive_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0;

	if (!command_operands(&remote_push, argc, argv, &o, 1, 2, &words, &status))
		return status;
	body = json_pack("{s:s, s:s*}", "image", words[0], "name", words[1]);
	if (client_open(&c, &err) < 0 ||
	    pull_push_image(c, body, o.quiet || o.json, &pushed, &err) < 0)
		return client_fail(&remote_push, &err);
	if (o.json) {
		shown = json_pack("{s:s, s:s, s:s}", "id", print_text_of(pushed, "id"),
				  "digest", print_text_of(pushed, "digest"), "reference",
				  print_text_of(pushed, "name"));
		return print_json(&remote_push, shown);
	}
	if (o.quiet)
		buf_printf(&out, "%s\n", print_text_of(pushed, "digest"));
	else
		buf_printf(&out, "Digest: %s\nImage ID: %s\n%s\n",
			   print_text_of(pushed, "digest"), print_text_of(pushed, "id"),
			   print_text_of(pushed, "name"));
	return message_print(remote_push.name, &out);
}

/* -------------------------------------------------------------------- commands */

const struct command remote_save = {
	.name = "image save",
	.summary = "Write an image of the service as an archive.",
	.about = "Without -o, the archive is written to stdout.\n",
	.opts =
		&(const struct opts){
			.table = save_table,
			.n = ARRAY_SIZE(save_table),
			.operands = "IMAGE",
			.example = "warren image save -o python.tar python:3.12",
			.mixed = true },
	.run = remote_run_save,
};

const struct command remote_load = {
	.name = "image load",
	.summary = "Load the images of an archive into the service's store.",
	.about = "Without FILE, the archive is read from stdin.\n",
	.opts = &(const struct opts){ .table = load_table,
				      .n = ARRAY_SIZE(load_table),
				      .operands = "[FILE|-]",
				      .example = "warren image load image.tar",
				      .mixed = true },
	.run = remote_run_load,
};

const struct command remote_tag = {
	.name = "image tag",
	.summary = "Give an image of the service another name.",
	.opts = &(const struct opts){ .operands = "IMAGE REFERENCE",
				      .example = "warren image tag python:3.12 mine:1.0",
				      .mixed = true },
	.run = remote_run_tag,
};

const struct command remote_push = {
	.name = "image push",
	.summary = "Have the service upload an image to a registry.",
	.about = "Registries, certificates and logins are those of the service.\n",
	.opts =
		&(const struct opts){
			.table = push_table,
			.n = ARRAY_SIZE(push_table),
			.operands = "IMAGE [REFERENCE]",
			.example = "warren image push registry.lan:5000/mine:1.0",
			.mixed = true },
	.run = remote_run_push,
};
