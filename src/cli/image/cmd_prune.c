/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_prune.c - warren image prune: remove images without a name, and leftovers */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>

#include "base/json.h"
#include "base/snapshot_name.h"
#include "cli/common_options.h"
#include "cli/format.h"
#include "cli/image/catalog.h"
#include "cli/image/image.h"
#include "image/build_store.h"
#include "image/copy.h"
#include "image/store_collect.h"

struct prune_options {
	bool all;
	bool force; /* has no effect: the command never asks */
	bool json;
};

static const struct opt prune_table[] = {
	{ .name = "all",
	  .letter = 'a',
	  .help = "remove all images that no sandbox uses, even with a name",
	  .set = opt_flag,
	  .field = offsetof(struct prune_options, all) },
	{ .name = "force",
	  .letter = 'f',
	  .help = "for compatibility with docker: the command never asks",
	  .set = opt_flag,
	  .field = offsetof(struct prune_options, force) },
	{ NULL, OPT_JSON("print what was removed as one JSON object",
			 offsetof(struct prune_options, json)) },
};

static const struct opts prune_opts = {
	.table = prune_table,
	.n = ARRAY_SIZE(prune_table),
	.example = "warren image prune",
};

struct pruned {
	unsigned images, names, busy;
	struct store_collected collected;
	struct buf ids; /* ids of the images, one per line */
};

/* Remove names of images that do not exist. */
static int remove_names(const struct store *s, const struct catalog *c, struct pruned *p,
			struct warren_error *err)
{
	for (size_t i = 0; i < c->n_names; i++) {
		struct ref ref;
		int r;

		if (catalog_find(c, c->names[i].id) ||
		    catalog_find_damaged(c, c->names[i].id))
			continue;
		r = ref_parse(c->names[i].ref, &ref, err);
		if (r == 0)
			r = store_untag(s, &ref, err);
		if (r < 0)
			return r;
		p->names++;
	}
	return 0;
}

/* Does the service keep the image as a snapshot? It removes it by itself. */
static bool prune_is_ours(const struct catalog *c, const char *id)
{
	size_t n;
	const struct catalog_name *const *names = catalog_names_of(c, id, &n);

	for (size_t i = 0; i < n; i++)
		if (snapshot_is_ref(names[i]->ref))
			return true;
	return false;
}

static int prune_remove(const struct store *s, const char *id, struct pruned *p,
			struct warren_error *err)
{
	int r = store_remove_image(s, id);

	if (r == -EBUSY) {
		p->busy++;
		return 0;
	}
	if (r < 0 && r != -ENOENT)
		return error_errno(err, -r, "remove image '%s'", id);
	p->images++;
	buf_printf(&p->ids, "%s\n", id);
	return 0;
}

static int remove_images(const struct store *s, const struct catalog *c, bool all,
			 struct pruned *p, struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < c->n_images; i++) {
		const struct store_image *image = &c->images[i];

		if ((all || catalog_count_names(c, image->id) == 0) &&
		    !(image->snapshot[0] && prune_is_ours(c, image->id)))
			r = prune_remove(s, image->id, p, err);
	}
	/* No sandbox can start from a damaged image, whether it has a name or not. */
	for (size_t i = 0; r == 0 && i < c->n_damaged; i++)
		if (catalog_is_broken(&c->damaged[i]) &&
		    !prune_is_ours(c, c->damaged[i].id))
			r = prune_remove(s, c->damaged[i].id, p, err);
	return r;
}

/* Remove the caches of RUN --mount=type=cache, unless a build uses one. */
static void remove_build_mounts(const struct store *s)
{
	AUTO_CLOSE int dir = openat(s->images, BUILD_MOUNTS_DIR,
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0)
		copy_remove_tree(s->images, BUILD_MOUNTS_DIR);
}

/* Remove images first, then names without an image, then layers. */
static int image_cmd_prune(const struct store *s, bool all, struct pruned *p,
			   struct warren_error *err)
{
	struct catalog c;
	int r = catalog_read(s, &c, err);

	if (r < 0)
		return r;
	r = remove_images(s, &c, all, p, err);
	catalog_done(&c);
	if (r == 0)
		r = catalog_read(s, &c, err);
	if (r < 0)
		return r;
	r = remove_names(s, &c, p, err);
	catalog_done(&c);
	if (r == 0 && all)
		remove_build_mounts(s);
	if (r < 0)
		return r;
	r = store_collect(s, &p->collected);
	if (r < 0)
		return error_errno(err, -r, "remove layers");
	catalog_warn_unknown(image_prune.name, &p->collected);
	return 0;
}

static int lock_and_prune(bool all, struct pruned *p, struct warren_error *err)
{
	struct store s;
	int r = image_open_store(true, &s, err);

	if (r < 0)
		return r;
	r = store_lock(&s, true, false);
	if (r == -EWOULDBLOCK) {
		message_say(image_prune.name, "waiting for images that are being added");
		r = store_lock(&s, true, true);
	}
	r = r < 0 ? error_errno(err, -r, "lock the image store")
		  : image_cmd_prune(&s, all, p, err);
	store_unlock(&s);
	store_sweep(&s);
	store_close(&s);
	return r;
}

static void prune_put_text(const struct pruned *p, struct buf *out)
{
	char size[HUMAN_MAX];
	const char *ids = p->ids.data ? p->ids.data : "";

	for (size_t n; *ids; ids += n + (ids[n] == '\n')) {
		n = strcspn(ids, "\n");
		buf_printf(out, "Deleted: %.*s\n", (int)n, ids);
	}
	if (p->busy)
		buf_printf(out, "Kept: %u image%s that sandboxes use\n", p->busy,
			   p->busy == 1 ? "" : "s");
	buf_printf(out, "Removed: %u image%s, %u layer%s, %u leftover%s\n", p->images,
		   p->images == 1 ? "" : "s", p->collected.layers,
		   p->collected.layers == 1 ? "" : "s", p->collected.leftovers,
		   p->collected.leftovers == 1 ? "" : "s");
	buf_printf(out, "Total reclaimed space: %s\n",
		   human_size(p->collected.bytes, size));
}

static void prune_put_json(const struct pruned *p, struct buf *out)
{
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	json_u64(&j, "images", p->images);
	json_u64(&j, "names", p->names);
	json_u64(&j, "layers", p->collected.layers);
	json_u64(&j, "leftovers", p->collected.leftovers);
	json_u64(&j, "in_use", p->busy);
	json_u64(&j, "bytes", p->collected.bytes);
	json_close(&j, '}');
	buf_puts(out, "\n");
}

static int run_prune(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	struct pruned p = { .ids = BUF_INIT(OUTPUT_MAX) };
	struct prune_options o = { 0 };
	int first = 0, status = 0;

	if (!command_options(&image_prune, argc, argv, &o, &first, &status))
		return status;
	if (lock_and_prune(o.all, &p, &err) < 0) {
		buf_done(&p.ids);
		return image_fail(&image_prune, &err);
	}
	if (o.json)
		prune_put_json(&p, &out);
	else
		prune_put_text(&p, &out);
	buf_done(&p.ids);
	return message_print(image_prune.name, &out);
}

const struct command image_prune = {
	.name = "image prune",
	.summary = "Remove images without a name, unused layers and leftovers.",
	.opts = &prune_opts,
	.run = run_prune,
};
