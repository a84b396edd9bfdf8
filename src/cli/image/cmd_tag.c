/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_tag.c - warren image tag: give an image another name */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "cli/common_options.h"
#include "cli/image/catalog.h"
#include "cli/image/image.h"
#include "image/store_write.h"

struct tag_options {
	bool json;
};

static const struct opt tag_table[] = {
	{ NULL, OPT_JSON("print the image and its name as one JSON object",
			 offsetof(struct tag_options, json)) },
};

static const struct opts tag_opts = {
	.table = tag_table,
	.n = ARRAY_SIZE(tag_table),
	.operands = "IMAGE REFERENCE",
	.example = "warren image tag python:3.12 mine:1.0",
	.mixed = true,
};

/* Hold the lock, so that no cleanup runs between finding the image and naming it. */
static int image_cmd_tag(const struct store *s, const char *from, const char *to,
			 struct buf *json, struct warren_error *err)
{
	char text[REF_TEXT_MAX];
	struct store_image image;
	struct ref ref;
	int r = ref_parse(to, &ref, err);

	if (r < 0)
		return r;
	if (ref.digest[0])
		return error_set(err, EINVAL, "'%s': a digest cannot be given as a name",
				 to);
	r = store_lock(s, false, true);
	if (r < 0)
		return error_errno(err, -r, "lock the image store");
	r = image_hint(s, store_find(s, from, &image, err), err);
	if (r == 0 && store_daemon_image(image.base)) {
		r = store_refuse_daemon(err);
		store_image_done(&image);
	} else if (r == 0) {
		r = store_tag(s, &ref, image.id, err);
		ref_text(&ref, text);
		catalog_put_json(json, "tagged", image.id, text);
		store_image_done(&image);
	}
	store_unlock(s);
	return r;
}

static int run_tag(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	struct tag_options o = { 0 };
	struct store s;
	char **operands;
	int r, status = 0;

	if (!command_operands(&image_tag, argc, argv, &o, 2, 2, &operands, &status))
		return status;
	if (image_open_store(true, &s, &err) < 0)
		return image_fail(&image_tag, &err);
	r = image_cmd_tag(&s, operands[0], operands[1], &out, &err);
	store_close(&s);
	if (r < 0)
		return image_fail(&image_tag, &err);
	return o.json ? message_print(image_tag.name, &out) : 0;
}

const struct command image_tag = {
	.name = "image tag",
	.summary = "Give an image another name.",
	.opts = &tag_opts,
	.run = run_tag,
};
