/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - warren-image: `warren image` with the libraries that it needs */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/snapshot_name.h"
#include "cli/image/build_request.h"
#include "cli/image/image.h"
#include "cli/image/report.h"
#include "cli/image/snapshot.h"
#include "image/store_write.h"

static const struct command *const commands[] = {
	&image_build, &image_pull, &image_load,    &image_import, &image_save,
	&image_push,  &image_ls,   &image_inspect, &image_tag,    &image_rm,
	&image_prune, &image_du,   &image_login,   &image_logout, NULL,
};

struct options {
	bool report;
};

static const struct opt image_table[] = {
	{ .name = "report",
	  .help = "for programs: print progress and the result as lines of JSON",
	  .set = opt_flag,
	  .field = offsetof(struct options, report) },
};

static const struct opts image_opts = {
	.table = image_table,
	.n = ARRAY_SIZE(image_table),
	.operands = "COMMAND [ARG...]",
	.example = "warren image pull python:3.12",
};

static const struct command image = {
	.name = "image",
	.summary = "Build, pull, load, save, push, list and remove images.",
	.opts = &image_opts,
	.verbs = commands,
};

int image_open_store(bool make, struct store *ret, struct warren_error *err)
{
	AUTO_FREE char *dir = NULL;
	int r = store_state_dir(&dir, err);

	return r < 0 ? r : store_open(dir, make, ret, err);
}

static int image_is_snapshot(void *ctx UNUSED, const char *ref, const char *id UNUSED)
{
	return snapshot_is_ref(ref);
}

int image_hint(const struct store *s, int r, struct warren_error *err)
{
	const size_t n = strlen(err->msg);

	if (r != -ENOENT || report_wanted() ||
	    store_each_ref(s, image_is_snapshot, NULL) != 1)
		return r;
	(void)snprintf(err->msg + n, sizeof(err->msg) - n,
		       "; a snapshot of the service is found by its name only with "
		       "WARREN_HOST (example: WARREN_HOST=unix:/run/warren/warren.sock), "
		       "and otherwise by its whole id (warren snapshot inspect)");
	return r;
}

/* A prefix of an id finds no snapshot, so only a whole id is none of its names. */
static bool image_is_id(const char *text)
{
	const char *hex = strncmp(text, "sha256:", 7) == 0 ? text + 7 : text;

	return hex_is(hex, strlen(hex)) && strlen(hex) == STORE_HEX_LEN;
}

int image_find(const struct store *s, const char *text, struct store_image *ret,
	       struct warren_error *err)
{
	int r = image_hint(s, store_find(s, text, ret, err), err);

	if (r < 0 || !report_wanted() || !ret->snapshot[0] || !image_is_id(text))
		return r;
	store_image_done(ret);
	return error_set(err, ENOENT, "there is no image '%s' on this machine", text);
}

int image_fail(const struct command *cmd, const struct warren_error *err)
{
	if (report_wanted())
		image_report_error(err);
	else
		message_say(cmd->name, "%s", err->msg);
	return STATUS_FAILED;
}

int main(int argc, char **argv)
{
	const struct command *cmd = NULL;
	struct options o = { 0 };
	int first = 0, status = 0;

	if (hold_standard_fds() < 0)
		return STATUS_FAILED;
	(void)signal(SIGPIPE, SIG_IGN); /* EPIPE reports the same */
	if (argc > 1 && strcmp(argv[0], COMPLETE_WORD) == 0)
		return complete_words(commands, argc - 1, argv + 1);
	if (argc == 2 + SNAPSHOT_WORDS && strcmp(argv[1], SNAPSHOT_WORD) == 0)
		return snapshot_main(argv + 2);
	if (argc > 1 && strcmp(argv[1], BUILD_REQUEST_WORD) == 0)
		return build_request_main(argc - 1, argv + 1);
	if (!command_verbs(&image, argc, argv, &o, &cmd, &first, &status))
		return status;
	if (o.report)
		report_start();
	status = cmd->run(argc - first, argv + first);
	return o.report ? report_end(status) : status;
}
