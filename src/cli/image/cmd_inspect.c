/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_inspect.c - warren image inspect: show everything about an image as JSON */
#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "cli/image/catalog.h"
#include "cli/image/image.h"
#include "image/store_write.h"

static const struct opts inspect_opts = {
	.operands = "IMAGE...",
	.example = "warren image inspect python:3.12",
	.mixed = true,
};

/* Write JSON without changes, except for its final line break. */
static void put_raw(struct json *j, const char *key, const char *text)
{
	size_t n = strlen(text);

	while (n > 0 && strchr(" \t\r\n", text[n - 1]))
		n--;
	if (n == 0) {
		json_nil(j, key);
		return;
	}
	buf_printf(j->out, "%s\"%s\":", j->comma ? "," : "", key);
	buf_add(j->out, text, n);
	j->comma = true;
}

static int image_cmd_inspect(const struct store *s, const char *text,
			     const struct catalog *c, struct json *j,
			     struct warren_error *err)
{
	AUTO_FREE char *config = NULL;
	struct store_image image;
	int r = image_find(s, text, &image, err);

	if (r < 0)
		return r;
	r = store_read_json(s, image.id, "config.json", &config);
	if (r == 0) {
		json_open(j, NULL, '{');
		catalog_describe(s, c, &image, j);
		put_raw(j, "config", config);
		json_close(j, '}');
	}
	store_image_done(&image);
	return r < 0 ? error_errno(err, -r, "read the configuration of '%s'", text) : 0;
}

static int run_inspect(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	struct json j = { .out = &out };
	struct catalog c = { 0 };
	struct store s;
	char **operands;
	int status = 0, printed;

	if (!command_operands(&image_inspect, argc, argv, NULL, 1, 0, &operands, &status))
		return status;
	if (image_open_store(true, &s, &err) < 0)
		return image_fail(&image_inspect, &err);
	if (catalog_read(&s, &c, &err) < 0) {
		store_close(&s);
		return image_fail(&image_inspect, &err);
	}
	json_open(&j, NULL, '[');
	for (; *operands; operands++)
		if (image_cmd_inspect(&s, *operands, &c, &j, &err) < 0)
			status = image_fail(&image_inspect, &err);
	json_close(&j, ']');
	buf_puts(&out, "\n");
	catalog_done(&c);
	store_close(&s);
	printed = message_print(image_inspect.name, &out);
	return status ? status : printed;
}

const struct command image_inspect = {
	.name = "image inspect",
	.summary = "Show everything known about images, as a JSON array.",
	.about = "IMAGE is a reference, an id, or the beginning of an id.\n",
	.opts = &inspect_opts,
	.run = run_inspect,
};
