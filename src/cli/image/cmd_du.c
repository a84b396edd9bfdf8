/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_du.c - warren image du: show the disk usage of images */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/common_options.h"
#include "cli/format.h"
#include "cli/image/catalog.h"
#include "cli/image/image.h"
#include "image/store_write.h"

struct du_options {
	bool json;
};

static const struct opt du_table[] = {
	{ NULL, OPT_JSON("print the same as one JSON object, in bytes",
			 offsetof(struct du_options, json)) },
};

static const struct opts du_opts = {
	.table = du_table,
	.n = ARRAY_SIZE(du_table),
	.example = "warren image du",
};

struct use {
	uint64_t own, shared; /* bytes of layers that only this image has, and of its
				 other layers */
};

struct totals {
	uint64_t bytes, unused; /* bytes of all layers, each counted once, and of those
				   without an image */
	size_t layers;
	struct catalog_layer *list; /* of the images */
	size_t n_list;
};

static struct use use_of(const struct store *s, const struct totals *t,
			 const struct store_image *image)
{
	struct use u = { 0 };

	for (size_t i = 0; image->layers[i]; i++) {
		uint64_t n = store_layer_size(s, image->layers[i]);

		if (catalog_repeats(image, i))
			continue;
		if (catalog_count_users(t->list, t->n_list, image->layers[i]) > 1)
			u.shared += n;
		else
			u.own += n;
	}
	return u;
}

/* Count by the names in the store, because some layers have no image. */
static int add_up(const struct store *s, struct totals *t)
{
	int fd = openat(s->layers, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d)
		return -errno;
	while ((e = readdir(d))) {
		char id[REF_DIGEST_LEN + 1];
		uint64_t n;

		(void)snprintf(id, sizeof(id), "sha256:%.64s", e->d_name);
		if (strlen(e->d_name) != 64 || !ref_digest_valid(id))
			continue;
		n = store_layer_size(s, id);
		t->layers++;
		t->bytes += n;
		if (catalog_count_users(t->list, t->n_list, id) == 0)
			t->unused += n;
	}
	(void)closedir(d);
	return 0;
}

/* Return the first name of an image, or a replacement. */
static const char *du_name_of(const struct catalog *c, const char *id,
			      char text[REF_TEXT_MAX])
{
	size_t n;
	const struct catalog_name *const *names = catalog_names_of(c, id, &n);

	return n > 0 ? catalog_familiar(names[0]->ref, text) : "<none>";
}

static void du_put_table(const struct store *s, const struct catalog *c,
			 const struct totals *t, struct buf *out)
{
	char text[REF_TEXT_MAX], own[HUMAN_MAX], shared[HUMAN_MAX];
	int width = (int)strlen("IMAGE");

	for (size_t i = 0; i < c->n_images; i++) {
		int n = (int)strlen(du_name_of(c, c->images[i].id, text));

		width = n > width ? n : width;
	}
	buf_printf(out, "%-*s   %-12s   %8s   %8s\n", width, "IMAGE", "IMAGE ID", "OWN",
		   "SHARED");
	for (size_t i = 0; i < c->n_images; i++) {
		struct use u = use_of(s, t, &c->images[i]);

		buf_printf(out, "%-*s   %.12s   %8s   %8s\n", width,
			   du_name_of(c, c->images[i].id, text), c->images[i].id + 7,
			   human_size(u.own, own), human_size(u.shared, shared));
	}
	buf_printf(out, "Total: %s in %zu layer%s", human_size(t->bytes, own), t->layers,
		   t->layers == 1 ? "" : "s");
	if (t->unused)
		buf_printf(out, ", of which %s can be pruned",
			   human_size(t->unused, shared));
	buf_puts(out, "\n");
}

static void du_put_json(const struct store *s, const struct catalog *c,
			const struct totals *t, struct buf *out)
{
	struct json j = { .out = out };
	char text[REF_TEXT_MAX];

	json_open(&j, NULL, '{');
	json_open(&j, "images", '[');
	for (size_t i = 0; i < c->n_images; i++) {
		struct use u = use_of(s, t, &c->images[i]);

		json_open(&j, NULL, '{');
		json_str(&j, "id", c->images[i].id);
		json_str(&j, "name",
			 catalog_count_names(c, c->images[i].id)
				 ? du_name_of(c, c->images[i].id, text)
				 : NULL);
		json_u64(&j, "own", u.own);
		json_u64(&j, "shared", u.shared);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_u64(&j, "layers", t->layers);
	json_u64(&j, "total", t->bytes);
	json_u64(&j, "unused", t->unused);
	json_close(&j, '}');
	buf_puts(out, "\n");
}

static int run_du(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	struct du_options o = { 0 };
	struct totals t = { 0 };
	struct catalog c = { 0 };
	struct store s;
	int first = 0, status = 0, r;

	if (!command_options(&image_du, argc, argv, &o, &first, &status))
		return status;
	if (image_open_store(true, &s, &err) < 0)
		return image_fail(&image_du, &err);
	r = catalog_read(&s, &c, &err);
	if (r == 0) {
		r = catalog_list_layers(&c, &t.list, &t.n_list);
		if (r == 0)
			r = add_up(&s, &t);
		if (r < 0)
			(void)error_errno(&err, -r, "list the layers");
	}
	if (r == 0 && o.json)
		du_put_json(&s, &c, &t, &out);
	else if (r == 0)
		du_put_table(&s, &c, &t, &out);
	free(t.list);
	catalog_done(&c);
	store_close(&s);
	return r < 0 ? image_fail(&image_du, &err) : message_print(image_du.name, &out);
}

const struct command image_du = {
	.name = "image du",
	.summary = "Show how much space images take, and how much they share.",
	.about = "The size of a layer is the size of its uncompressed archive.\n",
	.opts = &du_opts,
	.run = run_du,
};
