/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_pull.c - warren image pull: pull from a registry into the store */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/json.h"
#include "cli/common_options.h"
#include "cli/image/backend_images.h"
#include "cli/image/cancel.h"
#include "cli/image/image.h"
#include "cli/image/progress.h"
#include "cli/image/pull.h"
#include "cli/image/report.h"
#include "cli/image/settings.h"
#include "cli/image/source.h"

struct pull_options {
	const char *backend; /* NULL: Warren's own store */
	const char *platform;
	const char *ca_file;
	struct host_list insecure, trusted;
	bool public_only, for_project;
	bool missing;
	bool quiet;
	bool json;
};

/* Why an image of a project may not be reached. */
#define PULL_ADVICE                                                                       \
	"for a project, images are pulled over TLS, and from public addresses only; for " \
	"a registry that you trust, use 'warren image pull' first, or add 'trusted "      \
	"HOST:PORT' or 'insecure HOST:PORT' to registries.conf"

/* Parse OS/ARCH[/VARIANT], in the terms of the image format. */
static int set_platform(void *field, const char *value, struct warren_error *err)
{
	size_t n = strlen(value), slashes = 0;

	for (size_t i = 0; i < n; i++)
		slashes += value[i] == '/';
	if (strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789_/") != n || slashes < 1 ||
	    slashes > 2 || n > 64 || value[0] == '/' || value[n - 1] == '/' ||
	    strstr(value, "//"))
		return error_set(err, EINVAL, "'%s' is not OS/ARCH[/VARIANT]", value);
	*(const char **)field = value;
	return 0;
}

#define FIELD(name) offsetof(struct pull_options, name)

/* clang-format off */
static const struct opt pull_table[] = {
	{ NULL, "platform", 0, "OS/ARCH[/VARIANT]", "linux/arm64",
	  "platform to pull (default: this machine's)",
	  set_platform, FIELD(platform) },
	{ NULL, OPT_BACKEND("docker", "pull into the image store of this backend (docker)",
		FIELD(backend)) },
	{ NULL, "missing", 0, NULL, NULL,
	  "pull only if the image is missing",
	  opt_flag, FIELD(missing) },
	{ NULL, OPT_INSECURE(FIELD(insecure)) },
	{ NULL, OPT_PUBLIC_ONLY("pull from public addresses only; errors give no detail",
		FIELD(public_only)) },
	{ NULL, OPT_TRUSTED(FIELD(trusted)) },
	{ NULL, OPT_FOR_PROJECT(FIELD(for_project)) },
	{ NULL, OPT_CA(FIELD(ca_file)) },
	{ NULL, OPT_QUIET("print only the id, no progress", FIELD(quiet)) },
	{ NULL, OPT_JSON("print the image as one JSON object", FIELD(json)) },
};
/* clang-format on */

static const struct opts pull_opts = {
	.table = pull_table,
	.n = ARRAY_SIZE(pull_table),
	.operands = "REFERENCE",
	.example = "warren image pull python:3.12",
	.mixed = true,
};

/* "linux/arm" is also satisfied by "linux/arm/v7". */
static bool platform_fits(const char *have, const char *want)
{
	size_t n = strlen(want);

	return strncmp(have, want, n) == 0 && (have[n] == '\0' || have[n] == '/');
}

/* Is the image complete, and for the requested platform? If so, its id is in @id. */
static bool is_here(const struct store *s, const char *text, const struct pull_options *o,
		    char id[REF_DIGEST_LEN + 1])
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	char name[STORE_SHORT_LEN + 1];
	struct store_image image;
	bool here;

	if (store_find(s, text, &image, &ignored) < 0)
		return false;
	here = !o->platform || platform_fits(image.platform, o->platform);
	for (char **l = image.layers; here && *l; l++)
		here = store_layer(s, *l, name) == 0;
	(void)strcpy(id, image.id);
	store_image_done(&image);
	return here;
}

static int image_cmd_pull(const struct store *s, const char *text,
			  const struct pull_options *o, char id[REF_DIGEST_LEN + 1],
			  struct warren_error *err)
{
	struct oci_options options = {
		.platform = o->platform,
		.registry = { .ca_file = o->ca_file,
			      .insecure = o->insecure.v,
			      .public_only = o->public_only || o->for_project,
			      .advice = o->for_project ? PULL_ADVICE : NULL,
			      .trusted = o->trusted.v,
			      .hidden = report_hidden() },
		.progress = progress_show,
	};
	struct progress progress;
	struct ref ref;
	int r;

	if (o->missing && is_here(s, text, o, id))
		return 0;
	if (strncmp(text, "sha256:", 7) == 0)
		return error_set(
			err, ENOENT,
			"there is no image '%s' on this machine; to pull one, give "
			"its name",
			text);
	r = ref_parse(text, &ref, err);
	if (r < 0)
		return r;
	if (o->for_project && ref_is_of_project(text))
		return error_set(err, ENOENT,
				 "'%s' was built from a project, and no registry has it: "
				 "'warren setup' builds it again",
				 text);
	progress_init(&progress, o->quiet);
	options.ctx = &progress;
	r = oci_pull(s, &ref, &options, id, err);
	progress_done(&progress);
	return r;
}

/* The user's registries are for the images of projects; the service has its own list. */
static int pull_trust(const struct settings *s, struct pull_options *o,
		      struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && o->for_project && i < s->trusted.n; i++)
		r = host_list_add(&o->trusted, s->trusted.v[i], err);
	return r;
}

int image_pull_ref(const struct store *s, const char *text,
		   const struct pull_rules *rules, bool missing, bool quiet,
		   char id[REF_DIGEST_LEN + 1], struct warren_error *err)
{
	CLEANUP(settings_done) struct settings settings = { 0 };
	struct pull_options o = { .missing = missing,
				  .quiet = quiet,
				  .for_project = rules->for_project,
				  .public_only = rules->public_only };
	int r = settings_read(&settings, err);

	if (rules->insecure)
		o.insecure = *rules->insecure;
	if (rules->trusted)
		o.trusted = *rules->trusted;
	if (r == 0)
		r = settings_apply(&settings, &o.insecure, &o.ca_file, err);
	if (r == 0)
		r = pull_trust(&settings, &o, err);
	return r < 0 ? r : image_cmd_pull(s, text, &o, id, err);
}

static void pull_describe(const struct store *s, const char *text,
			  const struct pull_options *o, const char *id, struct buf *out)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	char manifest[REF_DIGEST_LEN + 1] = "", name[REF_TEXT_MAX] = "";
	struct store_image image;
	struct json j = { .out = out };
	struct ref ref;

	if (o->quiet) {
		buf_printf(out, "%s\n", id);
		return;
	}
	if (store_find(s, id, &image, &ignored) == 0) {
		(void)strcpy(manifest, image.manifest);
		store_image_done(&image);
	}
	if (ref_parse(text, &ref, &ignored) == 0)
		ref_text(&ref, name);
	if (!o->json) {
		buf_printf(out, "Digest: %s\nImage ID: %s\n%s\n", manifest, id, name);
		return;
	}
	json_open(&j, NULL, '{');
	json_str(&j, "id", id);
	json_str(&j, "digest", manifest);
	json_str(&j, "reference", name);
	json_close(&j, '}');
	buf_puts(out, "\n");
}

/* Pull with the backend's daemon; refuse options that do not apply to it. */
static int pull_theirs(const char *text, const struct pull_options *o, struct buf *out,
		       struct warren_error *err)
{
	char id[REF_DIGEST_LEN + 1] = "";
	struct progress progress;
	struct json j = { .out = out };
	int r;

	if (o->platform || o->insecure.n > 0 || o->public_only || o->for_project ||
	    o->trusted.n > 0 || o->ca_file)
		return error_set(err, EINVAL,
				 "--%s: backend '%s' pulls images by itself, as it is "
				 "configured",
				 o->platform      ? "platform"
				 : o->insecure.n  ? "insecure"
				 : o->public_only ? "public-only"
				 : o->for_project ? "for-project"
				 : o->trusted.n   ? "trusted"
						  : "ca",
				 o->backend);
	progress_init(&progress, o->quiet);
	r = theirs_pull(o->backend, text, o->missing, &progress, id, err);
	progress_done(&progress);
	if (r < 0)
		return r;
	if (!o->json) {
		buf_printf(out, o->quiet ? "%s\n" : "Image ID: %s\n", id);
		return 0;
	}
	json_open(&j, NULL, '{');
	json_str(&j, "id", id);
	json_str(&j, "reference", text);
	json_close(&j, '}');
	buf_puts(out, "\n");
	return 0;
}

static int image_cmd_pull_run(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	CLEANUP(settings_done) struct settings settings = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct pull_options o = { 0 };
	char id[REF_DIGEST_LEN + 1] = "";
	char **operands;
	struct store s;
	int status = 0;
	int r;

	if (!command_operands(&image_pull, argc, argv, &o, 1, 1, &operands, &status))
		return status;
	if (o.backend && strcmp(o.backend, "native") != 0)
		return image_end(&image_pull, pull_theirs(operands[0], &o, &out, &err),
				 &err, &out);
	cancel_arm();
	if (settings_read(&settings, &err) < 0 ||
	    settings_apply(&settings, &o.insecure, &o.ca_file, &err) < 0 ||
	    pull_trust(&settings, &o, &err) < 0 || image_open_store(true, &s, &err) < 0)
		return image_fail(&image_pull, &err);
	r = image_cmd_pull(&s, operands[0], &o, id, &err);
	if (r >= 0)
		pull_describe(&s, operands[0], &o, id, &out);
	store_close(&s);
	return image_end(&image_pull, r, &err, &out);
}

const struct command image_pull = {
	.name = "image pull",
	.summary = "Fetch an image from a registry.",
	.about = "Exit status: 0, or 125 after an error message.\n",
	.opts = &pull_opts,
	.run = image_cmd_pull_run,
};
