/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_image.c - warren image, if WARREN_HOST names a service: use the images of that
 * service
 *
 * The commands and options are those for this machine's images, as far as the API
 * supports them. All others are refused; they never act on this machine instead.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/client/cmd_image.h"
#include "cli/client/commands.h"
#include "cli/client/pull.h"
#include "cli/client/table.h"
#include "cli/common_options.h"
#include "cli/format.h"

#define NONE      "<none>"
#define SHORT_ID  12
#define ID_PREFIX "sha256:"

struct image_options {
	const char *platform, *backend;
	bool missing, force, whole, quiet, json;
};

#define FIELD(name) offsetof(struct image_options, name)

/* clang-format off */
static const struct opt pull_table[] = {
	{ NULL, "platform", 0, "OS/ARCH[/VARIANT]", "linux/arm64",
	  "platform to pull (default: the service's)",
	  opt_text, FIELD(platform) },
	{ NULL, OPT_BACKEND("docker", "pull into the image store of this backend (docker)",
		FIELD(backend)) },
	{ NULL, "missing", 0, NULL, NULL,
	  "pull only if the image is missing",
	  opt_flag, FIELD(missing) },
	{ NULL, OPT_QUIET("print only the id, no progress", FIELD(quiet)) },
	{ NULL, OPT_JSON("print the image as one JSON object", FIELD(json)) },
};

static const struct opt ls_table[] = {
	{ NULL, OPT_QUIET("print ids only", FIELD(quiet)) },
	{ NULL, "no-trunc", 0, NULL, NULL, "do not truncate ids", opt_flag, FIELD(whole) },
	{ NULL, OPT_JSON("print all images as one JSON array", FIELD(json)) },
};

static const struct opt rm_table[] = {
	{ NULL, "force", 'f', NULL, NULL,
	  "remove an id with all its names; ignore missing images",
	  opt_flag, FIELD(force) },
	{ NULL, OPT_JSON("print what was removed, one JSON object on each line", FIELD(json)) },
};
/* clang-format on */

static const struct opt_conflict pull_conflicts[] = {
	{ "missing", "backend", "the service can inspect only its own store" },
};

/* These commands need files or programs on the machine with the images. */
static const struct {
	const char *word, *why;
} image_local[] = {
	{ "import", "the service's API accepts archives of images only (load)" },
	{ "prune", "the service's API removes images by name or id only" },
	{ "du", "the service's API does not show what images share" },
	{ "login", "a service pulls with logins that are stored on its machine" },
	{ "logout", "a service pulls with logins that are stored on its machine" },
};

static const struct command remote_pull, remote_ls, remote_inspect, remote_rm;

static int remote_find(struct client *c, const char *image, json_t **ret,
		       struct warren_error *err)
{
	AUTO_BUF struct buf path = BUF_INIT(PATH_LIMIT);

	buf_puts(&path, "/v1/images/inspect");
	put_query(&path, "image", image);
	if (path.failed)
		return error_errno(err, ENAMETOOLONG, "find image '%.100s'", image);
	return client_call(c, "GET", path.data, NULL, ret, err);
}

/* ------------------------------------------------------------------------ pull */

/* "linux/arm" is also satisfied by "linux/arm/v7". */
static bool remote_fits(const json_t *image, const char *platform)
{
	const char *have = print_text_of(image, "platform");
	size_t n = platform ? strlen(platform) : 0;

	return !platform ||
	       (strncmp(have, platform, n) == 0 && (have[n] == '\0' || have[n] == '/'));
}

/* Pull the image; with --missing, use the existing one if there is one. */
static int remote_get(struct client *c, const char *name, const struct image_options *o,
		      json_t **ret, struct warren_error *err)
{
	const struct pull_request request = { .image = name,
					      .platform = o->platform,
					      .backend = o->backend,
					      .quiet = o->quiet };
	AUTO_JSON json_t *image = NULL;
	int r;

	if (o->missing) {
		r = remote_find(c, name, &image, err);
		if (r < 0 && !client_said(c, "image_not_found"))
			return r;
		if (r == 0 && remote_fits(image, o->platform)) {
			*ret = TAKE_PTR(image);
			return 0;
		}
		*err = (struct warren_error)WARREN_ERROR_INIT;
	}
	return pull_image(c, &request, ret, err);
}

static int remote_run_pull(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_JSON json_t *image = NULL, *shown = NULL;
	struct image_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0;

	if (!command_operands(&remote_pull, argc, argv, &o, 1, 1, &words, &status))
		return status;
	if (client_open(&c, &err) < 0 || remote_get(c, *words, &o, &image, &err) < 0)
		return client_fail(&remote_pull, &err);
	if (o.json) {
		shown = json_pack("{s:s, s:s}", "id", print_text_of(image, "id"),
				  "reference", *words);
		return print_json(&remote_pull, shown);
	}
	buf_printf(&out, o.quiet ? "%s\n" : "Image ID: %s\n", print_text_of(image, "id"));
	return message_print(remote_pull.name, &out);
}

/* -------------------------------------------------------------------------- ls */

static int remote_collect(void *arg, json_t *item)
{
	return json_array_append(arg, item);
}

static void remote_put_id(struct buf *out, const json_t *image, bool whole)
{
	const char *id = print_text_of(image, "id");

	if (!whole && strncmp(id, ID_PREFIX, strlen(ID_PREFIX)) == 0)
		buf_printf(out, "%.*s", SHORT_ID, id + strlen(ID_PREFIX));
	else
		buf_puts(out, id);
}

/* Write a row for a name of an image ("" if it has none), in docker's columns. */
static void remote_put_row(struct table *t, const json_t *image, const char *name,
			   bool whole)
{
	AUTO_BUF struct buf id = BUF_INIT(256), made = BUF_INIT(64);
	const char *slash = strrchr(name, '/');
	const char *tag = strchr(slash ? slash : name, ':');
	const char *digest = strchr(name, '@');
	char size[HUMAN_MAX];
	size_t n = strlen(name);

	if (digest && tag > digest)
		tag = NULL; /* this is the colon of the digest */
	if (tag || digest)
		n = (size_t)((tag ? tag : digest) - name);
	remote_put_id(&id, image, whole);
	put_ago(&made, print_text_of(image, "created_at"));
	table_cell(t, "%.*s", n ? (int)n : (int)strlen(NONE), n ? name : NONE);
	if (tag)
		table_cell(t, "%.*s", (int)strcspn(tag + 1, "@"), tag + 1);
	else
		table_cell(t, "%s", NONE);
	table_cell(t, "%s", id.data ? id.data : "");
	table_cell(t, "%s", made.data);
	table_cell(
		t, "%s",
		human_size((uint64_t)json_integer_value(json_object_get(image, "size")),
			   size));
}

static void remote_put_rows(struct table *t, const json_t *image, bool whole)
{
	const json_t *names = json_object_get(image, "names");

	for (size_t i = 0; i < json_array_size(names); i++) {
		const char *name = json_string_value(json_array_get(names, i));

		remote_put_row(t, image, name ? name : "", whole);
	}
	if (json_array_size(names) == 0)
		remote_put_row(t, image, "", whole);
}

static int remote_run_ls(int argc, char **argv)
{
	AUTO_TABLE struct table t =
		TABLE_INIT("REPOSITORY", "TAG", "IMAGE ID", "CREATED", "SIZE");
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	AUTO_JSON json_t *all = json_array();
	struct warren_error err = WARREN_ERROR_INIT;
	struct image_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0;

	if (!command_operands(&remote_ls, argc, argv, &o, 0, 0, &words, &status))
		return status;
	if (client_open(&c, &err) < 0 ||
	    client_list(c, "/v1/images", "images", remote_collect, all, &err) < 0)
		return client_fail(&remote_ls, &err);
	if (o.json)
		return print_json(&remote_ls, all);
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *image = json_array_get(all, i);

		remote_put_rows(&t, image, o.whole);
		if (o.quiet) {
			remote_put_id(&out, image, o.whole);
			buf_puts(&out, "\n");
		}
	}
	if (!o.quiet)
		table_put(&t, 0, "\n", &out);
	return message_print(remote_ls.name, &out);
}

/* -------------------------------------------------------------- inspect and rm */

static int remote_run_inspect(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLIENT struct client *c = NULL;
	AUTO_JSON json_t *all = json_array();
	char **words = NULL;
	int status = 0, printed;

	if (!command_operands(&remote_inspect, argc, argv, NULL, 1, 0, &words, &status))
		return status;
	if (client_open(&c, &err) < 0)
		return client_fail(&remote_inspect, &err);
	for (; *words; words++) {
		json_t *image = NULL;

		if (remote_find(c, *words, &image, &err) < 0)
			status = client_fail(&remote_inspect, &err);
		else
			(void)json_array_append_new(all, image);
	}
	printed = print_json(&remote_inspect, all);
	return status ? status : printed;
}

static int remote_remove(struct client *c, const char *image, bool force,
			 struct warren_error *err)
{
	AUTO_BUF struct buf path = BUF_INIT(PATH_LIMIT);

	buf_puts(&path, "/v1/images");
	put_query(&path, "image", image);
	if (force)
		put_query(&path, "force", "true");
	if (path.failed)
		return error_errno(err, ENAMETOOLONG, "remove image '%.100s'", image);
	/* With force, the service reports success even if the image does not exist, so
	 * check first. */
	if (force && remote_find(c, image, NULL, err) < 0)
		return -err->code;
	return client_call(c, "DELETE", path.data, NULL, NULL, err);
}

static int remote_run_rm(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct image_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0;

	if (!command_operands(&remote_rm, argc, argv, &o, 1, 0, &words, &status))
		return status;
	if (client_open(&c, &err) < 0)
		return client_fail(&remote_rm, &err);
	for (; *words; words++) {
		AUTO_BUF struct buf out = BUF_INIT(PATH_LIMIT);
		AUTO_JSON json_t *gone = NULL;
		int r = remote_remove(c, *words, o.force, &err);

		if (r < 0 && o.force && client_said(c, "image_not_found"))
			continue;
		if (r < 0) {
			status = client_fail(&remote_rm, &err);
			continue;
		}
		buf_printf(&out, "Removed: %s\n", *words);
		gone = json_pack("{s:s}", "removed", *words);
		r = o.json ? print_json(&remote_rm, gone)
			   : message_print(remote_rm.name, &out);
		status = status ? status : r;
	}
	return status;
}

/* ---------------------------------------------------------------------- commands */

static const struct command remote_pull = {
	.name = "image pull",
	.summary = "Have the service fetch an image from a registry.",
	.about = "Registries, certificates and logins are those of the service.\n",
	.opts = &(const struct opts){ .table = pull_table,
				      .n = ARRAY_SIZE(pull_table),
				      .conflicts = pull_conflicts,
				      .n_conflicts = ARRAY_SIZE(pull_conflicts),
				      .operands = "REFERENCE",
				      .example = "warren image pull python:3.12",
				      .mixed = true },
	.run = remote_run_pull,
};

static const struct command remote_ls = {
	.name = "image ls",
	.summary = "List the images of the service.",
	.opts = &(const struct opts){ .table = ls_table,
				      .n = ARRAY_SIZE(ls_table),
				      .example = "warren image ls" },
	.run = remote_run_ls,
};

static const struct command remote_inspect = {
	.name = "image inspect",
	.summary = "Show images of the service, as a JSON array.",
	.about = "IMAGE is a reference, an id, or the beginning of an id.\n",
	.opts = &(const struct opts){ .operands = "IMAGE...",
				      .example = "warren image inspect python:3.12",
				      .mixed = true },
	.run = remote_run_inspect,
};

static const struct command remote_rm = {
	.name = "image rm",
	.summary = "Remove names of images, and images without a name.",
	.about = "IMAGE is a reference, an id, or the beginning of an id.\n",
	.opts = &(const struct opts){ .table = rm_table,
				      .n = ARRAY_SIZE(rm_table),
				      .operands = "IMAGE...",
				      .example = "warren image rm python:3.12",
				      .mixed = true },
	.run = remote_run_rm,
};

static const struct command *const verbs[] = {
	&remote_build, &remote_pull, &remote_push,    &remote_load, &remote_save,
	&remote_tag,   &remote_ls,   &remote_inspect, &remote_rm,   NULL,
};

/* Find "prune" in "image prune" and in "image --help prune". */
static bool remote_refuses(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";

	if (strcmp(word, "--help") == 0 && argc > 2)
		word = argv[2];
	for (size_t i = 0; i < ARRAY_SIZE(image_local); i++)
		if (strcmp(word, image_local[i].word) == 0) {
			message_say(client_image.name,
				    "'%s' does not work with WARREN_HOST: %s; run it on "
				    "the service's machine, without WARREN_HOST",
				    word, image_local[i].why);
			return true;
		}
	return false;
}

static int run_image(int argc, char **argv)
{
	return remote_refuses(argc, argv) ? STATUS_FAILED
					  : verbs_run(&client_image, argc, argv);
}

const struct command client_image = {
	.name = "image",
	.summary =
		"Build, pull, push, load, save, list and remove images of the service in "
		"WARREN_HOST.",
	.about =
		"Without WARREN_HOST these commands, and more, use this machine's images.\n",
	.opts = &(const struct opts){ .operands = "COMMAND [ARG...]",
				      .example = "warren image pull python:3.12" },
	.run = run_image,
	.verbs = verbs,
};
