/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_rm.c - warren image rm: remove names, and the image with its last name
 *
 * A name is always removed at once. The image is removed with its last name, unless a
 * sandbox uses it. Its layers are removed unless another process is adding images,
 * because it is then unknown which layers are needed. `warren image prune` removes what
 * is left.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/snapshot_name.h"
#include "cli/common_options.h"
#include "cli/image/catalog.h"
#include "cli/image/image.h"
#include "image/store_write.h"

#define LOCK_TRIES   20
#define LOCK_WAIT_US 25000

struct rm_options {
	bool force;
	bool json;
};

static const struct opt rm_table[] = {
	{ .name = "force",
	  .letter = 'f',
	  .help = "remove an id with all its names; ignore missing images",
	  .set = opt_flag,
	  .field = offsetof(struct rm_options, force) },
	{ NULL, OPT_JSON("print what was removed, one JSON object on each line",
			 offsetof(struct rm_options, json)) },
};

static const struct opts rm_opts = {
	.table = rm_table,
	.n = ARRAY_SIZE(rm_table),
	.operands = "IMAGE...",
	.example = "warren image rm python:3.12",
	.mixed = true,
};

struct removal {
	const struct store *store;
	bool force, json;
	bool alone; /* no other process is adding images */
	bool left;  /* something is left for prune */
	struct buf *out;
};

static int rm_untag(struct removal *rm, const char *ref, const char *id,
		    struct warren_error *err)
{
	char text[REF_TEXT_MAX];
	struct ref parsed;
	int r = ref_parse(ref, &parsed, err);

	if (r == 0)
		r = store_untag(rm->store, &parsed, err);
	if (r < 0)
		return r;
	if (rm->json)
		catalog_put_json(rm->out, "untagged", id, ref);
	else
		buf_printf(rm->out, "Untagged: %s\n", catalog_familiar(ref, text));
	return 0;
}

/* Remove the given name, or all names if the id was given. */
static int untag_all(struct removal *rm, const struct catalog *c, const char *text,
		     const char *id, struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	char whole[REF_TEXT_MAX] = "";
	struct ref parsed;
	int r = 0;

	if (ref_parse(text, &parsed, &ignored) == 0)
		ref_text(&parsed, whole);
	for (size_t i = 0; i < c->n_names; i++)
		if (strcmp(c->names[i].ref, whole) == 0)
			return rm_untag(rm, whole, id, err);
	if (catalog_count_names(c, id) > 1 && !rm->force)
		return error_set(
			err, EEXIST,
			"'%s' has several names; remove them, or all with --force", text);
	for (size_t i = 0; i < c->n_names && r == 0; i++)
		if (strcmp(c->names[i].id, id) == 0)
			r = rm_untag(rm, c->names[i].ref, id, err);
	return r;
}

static int count_ref(void *ctx, const char *ref, const char *id)
{
	(void)ref;
	return strcmp(id, ctx) == 0;
}

/* Remove the image itself if it has no name any more. */
static int remove_nameless(struct removal *rm, const char *text, char *id,
			   struct warren_error *err)
{
	int r = store_each_ref(rm->store, count_ref, id);

	if (r > 0)
		return 0;
	if (r == 0)
		r = store_remove_image(rm->store, id);
	if (r == -EBUSY) {
		message_say(
			image_rm.name,
			"'%.200s' no longer has a name, but a sandbox uses it: 'warren image prune' can remove it later",
			text);
		rm->left = true;
		return 0;
	}
	if (r < 0 && r != -ENOENT)
		return error_errno(err, -r, "remove image '%s'", text);
	if (rm->json)
		catalog_put_json(rm->out, "deleted", id, NULL);
	else
		buf_printf(rm->out, "Deleted: %s\n", id);
	return 0;
}

/*
 * Remove a snapshot of the service. Its name goes last, so that a removal that was killed
 * can be repeated. If it has other names, these keep its image. -EAGAIN: its layers may
 * still exist; remove it again.
 */
static int rm_snapshot(struct removal *rm, const char *text, struct warren_error *err)
{
	struct catalog c;
	struct ref ref;
	int r = ref_parse(text, &ref, err);

	if (r == 0)
		r = catalog_read(rm->store, &c, err);
	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < c.n_images; i++) {
		size_t others = 0;

		if (strcmp(c.images[i].snapshot, ref.name) != 0)
			continue;
		for (size_t k = 0; k < c.n_names; k++)
			others += strcmp(c.names[k].id, c.images[i].id) == 0 &&
				  !snapshot_is_ref(c.names[k].ref);
		if (others == 0)
			r = store_remove_image(rm->store, c.images[i].id);
		if (r == -ENOENT)
			r = 0;
		if (r < 0)
			(void)error_errno(err, -r, "remove the snapshot '%s'", ref.name);
	}
	catalog_done(&c);
	if (r == 0)
		r = store_untag(rm->store, &ref, err);
	if (r < 0 && r != -ENOENT)
		return r;
	/* It may be one of those: an earlier service may have begun with the snapshot. */
	return rm->alone ? 0
			 : error_set(err, EAGAIN,
				     "images are being added, so the layers of the "
				     "snapshot '%s' cannot be removed yet",
				     ref.name);
}

static int rm_remove_one(struct removal *rm, const char *text, struct warren_error *err)
{
	char id[REF_DIGEST_LEN + 1];
	struct store_image image;
	struct catalog c;
	int r;

	if (snapshot_is_ref(text))
		return rm_snapshot(rm, text, err);
	r = image_find(rm->store, text, &image, err);

	if (r == -ENOENT && rm->force)
		return 0;
	if (r < 0)
		return r;
	(void)strcpy(id, image.id);
	store_image_done(&image);
	r = catalog_read(rm->store, &c, err);
	if (r < 0)
		return r;
	r = untag_all(rm, &c, text, id, err);
	catalog_done(&c);
	return r < 0 ? r : remove_nameless(rm, text, id, err);
}

/* Other removals end soon, but who adds images may take as long as a registry. */
static int rm_lock(const struct store *s)
{
	int r = -EWOULDBLOCK;

	for (unsigned i = 0; r == -EWOULDBLOCK && i < LOCK_TRIES; i++) {
		if (i > 0)
			(void)usleep(LOCK_WAIT_US);
		r = store_lock(s, true, false);
	}
	return r;
}

static int rm_remove_all(struct removal *rm, char **operands)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct store_collected collected;
	int r, status = 0;

	rm->alone = rm_lock(rm->store) == 0;
	if (!rm->alone) {
		r = store_lock(rm->store, false, true);
		if (r < 0) {
			(void)error_errno(&err, -r, "lock the image store");
			return image_fail(&image_rm, &err);
		}
	}
	for (; *operands; operands++)
		if (rm_remove_one(rm, *operands, &err) < 0)
			status = image_fail(&image_rm, &err);
	if (rm->alone) {
		r = store_collect(rm->store, &collected);
		if (r < 0) {
			(void)error_errno(&err, -r, "remove layers");
			status = image_fail(&image_rm, &err);
		}
	} else {
		message_say(image_rm.name,
			    "images are being added, so unused layers stay until "
			    "'warren image prune'");
	}
	store_unlock(rm->store);
	store_sweep(rm->store);
	return status;
}

static int image_cmd_rm(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	struct rm_options o = { 0 };
	struct store s;
	struct removal rm = { .store = &s, .out = &out };
	char **operands;
	int status = 0, printed;

	if (!command_operands(&image_rm, argc, argv, &o, 1, 0, &operands, &status))
		return status;
	if (image_open_store(true, &s, &err) < 0)
		return image_fail(&image_rm, &err);
	rm.force = o.force;
	rm.json = o.json;
	status = rm_remove_all(&rm, operands);
	store_close(&s);
	printed = message_print(image_rm.name, &out);
	return status ? status : printed;
}

const struct command image_rm = {
	.name = "image rm",
	.summary = "Remove names of images, and images without a name.",
	.about = "IMAGE is a reference, an id, or the beginning of an id.\n",
	.opts = &rm_opts,
	.run = image_cmd_rm,
};
