/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ls.c - warren image ls: list images, in docker's format */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/snapshot_name.h"
#include "cli/common_options.h"
#include "cli/format.h"
#include "cli/image/catalog.h"
#include "cli/image/image.h"
#include "cli/image/report.h"
#include "image/build_store.h"

#define NONE     "<none>"
#define SHORT_ID 12

struct ls_options {
	bool all;
	bool quiet;
	bool json;
	bool digests;
	bool whole;
};

static const struct opt ls_table[] = {
	{ .name = "all",
	  .letter = 'a',
	  .help = "also list the steps of builds",
	  .set = opt_flag,
	  .field = offsetof(struct ls_options, all) },
	{ NULL, OPT_QUIET("print ids only", offsetof(struct ls_options, quiet)) },
	{ .name = "digests",
	  .help = "also show the digests of the manifests",
	  .set = opt_flag,
	  .field = offsetof(struct ls_options, digests) },
	{ .name = "no-trunc",
	  .help = "do not truncate ids",
	  .set = opt_flag,
	  .field = offsetof(struct ls_options, whole) },
	{ NULL, OPT_JSON("print all images as one JSON array",
			 offsetof(struct ls_options, json)) },
};

static const struct opts ls_opts = {
	.table = ls_table,
	.n = ARRAY_SIZE(ls_table),
	.example = "warren image ls",
};

/* A line of the table: a name of an image, or an image without one. */
struct row {
	char repository[REF_TEXT_MAX];
	char tag[130];
	char ago[HUMAN_MAX], size[HUMAN_MAX];
	const char *created, *id, *digest;
};

static void ls_fill(struct row *row, const struct store_image *image, const char *ref,
		    const struct ls_options *o)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct ref parsed;

	*row = (struct row){ .id = o->whole ? image->id : image->id + 7,
			     .digest = image->manifest[0] ? image->manifest : NONE };
	(void)strcpy(row->repository, NONE);
	(void)strcpy(row->tag, NONE);
	if (ref && ref_parse(ref, &parsed, &ignored) == 0) {
		if (parsed.tag[0])
			(void)snprintf(row->tag, sizeof(row->tag), "%s", parsed.tag);
		parsed.tag[0] = parsed.digest[0] = '\0';
		ref_familiar(&parsed, row->repository);
	}
	row->created = human_ago(human_parse_time(image->created), time(NULL), row->ago);
	(void)human_size(image->size, row->size);
}

static struct row *make_rows(const struct catalog *c, const struct ls_options *o,
			     size_t *ret_n)
{
	struct row *rows = calloc(c->n_images + c->n_names + 1, sizeof(*rows));
	size_t n = 0;

	for (size_t i = 0; rows && i < c->n_images; i++) {
		const struct store_image *image = &c->images[i];
		size_t named;
		const struct catalog_name *const *names =
			catalog_names_of(c, image->id, &named);

		for (size_t k = 0; k < named; k++)
			ls_fill(&rows[n++], image, names[k]->ref, o);
		if (named == 0)
			ls_fill(&rows[n++], image, NULL, o);
	}
	*ret_n = n;
	return rows;
}

static void ls_put_row(struct buf *out, const struct row *row, const int width[4],
		       const struct ls_options *o)
{
	buf_printf(out, "%-*s   %-*s   ", width[0], row->repository, width[1], row->tag);
	if (o->digests)
		buf_printf(out, "%-*s   ", REF_DIGEST_LEN, row->digest);
	buf_printf(out, "%-*.*s   %-*s   %s\n", o->whole ? REF_DIGEST_LEN : SHORT_ID,
		   o->whole ? REF_DIGEST_LEN : SHORT_ID, row->id, width[2], row->created,
		   row->size);
}

static int ls_wider(int width, const char *text)
{
	int n = (int)strlen(text);

	return n > width ? n : width;
}

static int ls_put_table(struct buf *out, const struct catalog *c,
			const struct ls_options *o)
{
	static const struct row head = {
		.repository = "REPOSITORY",
		.tag = "TAG",
		.created = "CREATED",
		.size = "SIZE",
		.id = "IMAGE ID",
		.digest = "DIGEST",
	};
	int width[4] = { 0 };
	size_t n;
	AUTO_FREE struct row *rows = make_rows(c, o, &n);

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i <= n; i++) {
		const struct row *row = i < n ? &rows[i] : &head;

		width[0] = ls_wider(width[0], row->repository);
		width[1] = ls_wider(width[1], row->tag);
		width[2] = ls_wider(width[2], row->created);
	}
	ls_put_row(out, &head, width, o);
	for (size_t i = 0; i < n; i++)
		ls_put_row(out, &rows[i], width, o);
	return 0;
}

static void put_ids(struct buf *out, const struct catalog *c, const struct ls_options *o)
{
	for (size_t i = 0; i < c->n_images; i++)
		buf_printf(out, "%.*s\n", o->whole ? REF_DIGEST_LEN : SHORT_ID,
			   o->whole ? c->images[i].id : c->images[i].id + 7);
}

static void ls_put_json(struct buf *out, const struct store *s, const struct catalog *c)
{
	struct json j = { .out = out };

	json_open(&j, NULL, '[');
	for (size_t i = 0; i < c->n_images; i++) {
		json_open(&j, NULL, '{');
		catalog_describe(s, c, &c->images[i], &j);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	buf_puts(out, "\n");
}

/*
 * Snapshots belong to tenants, and the service lists each tenant's own. One that was
 * tagged is an image for all, without the reference that the service gave it.
 */
static int ls_drop_snapshots(struct catalog *c, struct warren_error *err)
{
	size_t kept = 0;
	int r;

	for (size_t i = 0; i < c->n_names; i++) {
		if (snapshot_is_ref(c->names[i].ref))
			free(c->names[i].ref);
		else
			c->names[kept++] = c->names[i];
	}
	c->n_names = kept;
	r = catalog_index(c, err);
	if (r < 0)
		return r;
	kept = 0;
	for (size_t i = 0; i < c->n_images; i++) {
		struct store_image *image = &c->images[i];

		if (image->snapshot[0] && catalog_count_names(c, image->id) == 0)
			store_image_done(image);
		else
			c->images[kept++] = *image;
	}
	c->n_images = kept;
	return catalog_index(c, err);
}

struct ls_steps {
	const struct catalog *catalog;
	bool *are; /* for each image of the catalog */
};

static int ls_note_step(void *ctx, const char *id, uint64_t used UNUSED)
{
	const struct ls_steps *steps = ctx;
	const struct store_image *image = catalog_find(steps->catalog, id);

	if (image)
		steps->are[image - steps->catalog->images] = true;
	return 0;
}

/* Steps of builds are images without a name, which are of interest to builds only. */
static int ls_drop_steps(const struct store *s, struct catalog *c,
			 struct warren_error *err)
{
	AUTO_FREE bool *are = calloc(c->n_images + 1, sizeof(*are));
	struct ls_steps steps = { c, are };
	size_t kept = 0;

	if (!are || build_cache_each(s, ls_note_step, &steps) < 0)
		return error_errno(err, ENOMEM, "read the build cache");
	for (size_t i = 0; i < c->n_images; i++) {
		struct store_image *image = &c->images[i];

		if (are[i] && catalog_count_names(c, image->id) == 0)
			store_image_done(image);
		else
			c->images[kept++] = *image;
	}
	c->n_images = kept;
	return catalog_index(c, err);
}

static int image_cmd_ls(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	struct ls_options o = { 0 };
	struct catalog c = { 0 };
	int first = 0, status = 0, r;
	bool opened;
	struct store s;

	if (!command_options(&image_ls, argc, argv, &o, &first, &status))
		return status;
	r = image_open_store(false, &s, &err);
	opened = r == 0;
	if (opened)
		r = catalog_read(&s, &c, &err);
	if (opened && r == 0 && !o.all)
		r = ls_drop_steps(&s, &c, &err);
	if (opened && r == 0 && report_wanted())
		r = ls_drop_snapshots(&c, &err);
	/* If there is no store, there are no images. */
	if (r < 0 && (opened || r != -ENOENT)) {
		catalog_done(&c);
		if (opened)
			store_close(&s);
		return image_fail(&image_ls, &err);
	}
	if (o.json)
		ls_put_json(&out, &s, &c);
	else if (o.quiet)
		put_ids(&out, &c, &o);
	else if (ls_put_table(&out, &c, &o) < 0)
		out.failed = true;
	catalog_done(&c);
	if (opened)
		store_close(&s);
	return message_print(image_ls.name, &out);
}

const struct command image_ls = {
	.name = "image ls",
	.summary = "List the images of this machine.",
	.opts = &ls_opts,
	.run = image_cmd_ls,
};
