/* SPDX-License-Identifier: Apache-2.0 */
/* source.c - open archives and directories, and print the images that come from them */
#include "cli/image/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cli/image/cancel.h"
#include "cli/image/catalog.h"

static int source_open(const char *path, struct warren_error *err)
{
	int fd;

	if (strcmp(path, "-") == 0) {
		if (isatty(STDIN_FILENO) == 1)
			return error_set(
				err, ENOTTY,
				"stdin is a terminal: give a file, or redirect an "
				"archive to stdin");
		fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	} else {
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	}
	return fd < 0 ? error_errno(err, errno, "open '%s'", path) : fd;
}

static void loaded_init(struct loaded *l, bool quiet, bool json)
{
	*l = (struct loaded){ .text = BUF_INIT(OUTPUT_MAX),
			      .quiet = quiet,
			      .json = json };
	progress_init(&l->progress, quiet || json);
}

static void loaded_done(struct loaded *l)
{
	progress_done(&l->progress);
	buf_done(&l->text);
}

static int loaded_progress(void *ctx, const struct oci_layer *layers, size_t n)
{
	struct loaded *l = ctx;

	return progress_show(&l->progress, layers, n);
}

void loaded_add(void *ctx, const char *id, const char *ref)
{
	struct loaded *l = ctx;
	char text[REF_TEXT_MAX];
	bool again = strcmp(l->id, id) == 0;

	l->n += !again;
	(void)snprintf(l->id, sizeof(l->id), "%s", id);
	if (l->json)
		catalog_put_json(&l->text, "loaded", id, ref);
	else if (l->quiet && !again)
		buf_printf(&l->text, "%s\n", id);
	else if (!l->quiet && ref)
		buf_printf(&l->text, "Loaded image: %s\n", catalog_familiar(ref, text));
	else if (!l->quiet)
		buf_printf(&l->text, "Loaded image ID: %s\n", id);
}

void loaded_made(struct loaded *l, const char *id, const struct ref *name)
{
	char text[REF_TEXT_MAX];

	if (name)
		ref_text(name, text);
	if (l->json)
		catalog_put_json(&l->text, "loaded", id, name ? text : NULL);
	else
		buf_printf(&l->text, "%s\n", id);
}

int image_end(const struct command *cmd, int r, const struct warren_error *err,
	      const struct buf *text)
{
	int sig = cancel_signal();

	if (r >= 0)
		return message_print(cmd->name, text);
	if (sig == 0)
		return image_fail(cmd, err);
	message_say(cmd->name, "interrupted");
	return STATUS_SIGNAL + sig;
}

int source_max_size(void *field, const char *value, struct warren_error *err)
{
	uint64_t *size = field;
	int r = parse_size(value, size, err);

	return r == 0 && *size == 0 ? error_set(err, EINVAL, "is empty") : r;
}

static int image_source_bring(const struct source *from, struct loaded *loaded,
			      struct warren_error *err)
{
	const struct oci_options options = { .progress = loaded_progress,
					     .ctx = loaded,
					     .max_bytes = from->max_size };
	AUTO_CLOSE int fd = source_open(from->path, err);
	struct store s;
	int r;

	if (fd < 0)
		return fd;
	r = image_open_store(true, &s, err);
	if (r < 0)
		return r;
	r = from->take(&s, fd, &options, loaded, from->ctx, err);
	store_close(&s);
	return r < 0 ? error_wrap(err, "%s '%.200s'", from->verb, from->path) : 0;
}

int source_bring(const struct command *cmd, const struct source *from, bool quiet,
		 bool json)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct loaded loaded;
	int r, status;

	loaded_init(&loaded, quiet, json);
	cancel_arm();
	r = image_source_bring(from, &loaded, &err);
	status = image_end(cmd, r, &err, &loaded.text);
	loaded_done(&loaded);
	return status;
}
