/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_push.c - warren image push: upload an image to a registry */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/json.h"
#include "cli/common_options.h"
#include "cli/image/cancel.h"
#include "cli/image/image.h"
#include "cli/image/progress.h"
#include "cli/image/report.h"
#include "cli/image/settings.h"
#include "cli/image/source.h"

struct push_options {
	const char *ca_file;
	struct host_list insecure, trusted;
	bool public_only;
	bool quiet;
	bool json;
};

#define FIELD(name) offsetof(struct push_options, name)

/* clang-format off */
static const struct opt push_table[] = {
	{ NULL, OPT_INSECURE(FIELD(insecure)) },
	{ NULL, OPT_PUBLIC_ONLY("push to public addresses only; errors give no detail",
		FIELD(public_only)) },
	{ NULL, OPT_TRUSTED(FIELD(trusted)) },
	{ NULL, OPT_CA(FIELD(ca_file)) },
	{ NULL, OPT_QUIET("print only the digest, no progress", FIELD(quiet)) },
	{ NULL, OPT_JSON("print the result as one JSON object, no progress", FIELD(json)) },
};
/* clang-format on */

static const struct opts push_opts = {
	.table = push_table,
	.n = ARRAY_SIZE(push_table),
	.operands = "IMAGE [REFERENCE]",
	.example = "warren image push registry.lan:5000/mine:1.0",
	.mixed = true,
};

static int image_cmd_push(const struct push_options *o, const char *image,
			  const char *reference, struct buf *out,
			  struct warren_error *err)
{
	struct progress progress;
	const struct oci_options options = { .registry = { .ca_file = o->ca_file,
							   .insecure = o->insecure.v,
							   .public_only = o->public_only,
							   .trusted = o->trusted.v,
							   .hidden = report_hidden() },
					     .progress = progress_show,
					     .ctx = &progress };
	struct json j = { .out = out };
	char name[REF_TEXT_MAX];
	struct oci_pushed pushed;
	struct store s;
	struct ref ref;
	int r = ref_parse(reference, &ref, err);

	if (r == 0)
		r = image_open_store(true, &s, err);
	if (r < 0)
		return r;
	progress_init(&progress, o->quiet || o->json);
	r = oci_own_layers(err);
	if (r == 0)
		r = image_hint(&s, oci_push(&s, image, &ref, &options, &pushed, err),
			       err);
	progress_done(&progress);
	store_close(&s);
	if (r < 0)
		return r;
	ref_text(&ref, name);
	if (o->quiet) {
		buf_printf(out, "%s\n", pushed.digest);
	} else if (!o->json) {
		buf_printf(out, "Digest: %s\nImage ID: %s\n%s\n", pushed.digest,
			   pushed.id, name);
	} else {
		json_open(&j, NULL, '{');
		json_str(&j, "id", pushed.id);
		json_str(&j, "digest", pushed.digest);
		json_str(&j, "reference", name);
		json_close(&j, '}');
		buf_puts(out, "\n");
	}
	return 0;
}

static int run_push(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	CLEANUP(settings_done) struct settings settings = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct push_options o = { 0 };
	char **operands;
	int status = 0, r;

	if (!command_operands(&image_push, argc, argv, &o, 1, 2, &operands, &status))
		return status;
	cancel_arm();
	r = settings_read(&settings, &err);
	if (r == 0)
		r = settings_apply(&settings, &o.insecure, &o.ca_file, &err);
	if (r == 0)
		r = image_cmd_push(&o, operands[0],
				   operands[1] ? operands[1] : operands[0], &out, &err);
	return image_end(&image_push, r, &err, &out);
}

const struct command image_push = {
	.name = "image push",
	.summary = "Upload an image to a registry.",
	.about =
		"Without REFERENCE, IMAGE is pushed under its own name.\n"
		"Layers that the registry has are not uploaded. Other layers of a pulled\n"
		"image are packed again, so that the image gets another digest.\n"
		"Exit status: 0, or 125 after an error message.\n",
	.opts = &push_opts,
	.run = run_push,
};
