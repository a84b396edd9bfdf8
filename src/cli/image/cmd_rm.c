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
#include "cli/image/report.h"
#include "image/store_collect.h"

#define LOCK_TRIES   20
#define LOCK_WAIT_US 25000
/* As store_find() requires. */
#define RM_PREFIX_MIN 6

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
	const struct catalog_name *const *names;
	struct ref parsed;
	size_t n;
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
	names = catalog_names_of(c, id, &n);
	for (size_t i = 0; i < n && r == 0; i++)
		r = rm_untag(rm, names[i]->ref, id, err);
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

/* Remove the image of a snapshot, unless it has other names. */
static int rm_snapshot_image(const struct removal *rm, const struct catalog *c,
			     const char *id, const char *snapshot,
			     struct warren_error *err)
{
	size_t n;
	const struct catalog_name *const *names = catalog_names_of(c, id, &n);
	int r;

	for (size_t i = 0; i < n; i++)
		if (!snapshot_is_ref(names[i]->ref))
			return 0;
	r = store_remove_image(rm->store, id);
	return r == 0 || r == -ENOENT
		       ? 0
		       : error_errno(err, -r, "remove the snapshot '%s'", snapshot);
}

/*
 * Remove a snapshot of the service. Its name goes last, so that a removal that was killed
 * can be repeated. If it has other names, these keep its image. -EAGAIN: its layers may
 * still exist, or it may be created later; remove it again.
 */
static int rm_snapshot(struct removal *rm, const char *text, struct warren_error *err)
{
	char whole[REF_TEXT_MAX];
	struct catalog c;
	struct ref ref;
	int r = ref_parse(text, &ref, err);

	if (r == 0)
		r = catalog_read(rm->store, &c, err);
	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < c.n_images; i++) {
		if (strcmp(c.images[i].snapshot, ref.name) == 0)
			r = rm_snapshot_image(rm, &c, c.images[i].id, ref.name, err);
	}
	/* The record of a damaged image does not say which snapshot it is. */
	ref_text(&ref, whole);
	for (size_t i = 0; r == 0 && i < c.n_names; i++)
		if (strcmp(c.names[i].ref, whole) == 0 &&
		    catalog_find_damaged(&c, c.names[i].id))
			r = rm_snapshot_image(rm, &c, c.names[i].id, ref.name, err);
	catalog_done(&c);
	if (r == 0)
		r = store_untag(rm->store, &ref, err);
	if (r < 0 && r != -ENOENT)
		return r;
	/* An earlier service may have begun with the snapshot. */
	if (store_has_snapshot_work(rm->store, ref.name))
		return error_set(err, EAGAIN, "the snapshot '%s' is being created",
				 ref.name);
	return rm->alone ? 0
			 : error_set(err, EAGAIN,
				     "images are being added, so the layers of the "
				     "snapshot '%s' cannot be removed yet",
				     ref.name);
}

/*
 * Find the image that @text names among those that cannot be read. A client of the
 * service needs its name: the image may be a snapshot of another tenant.
 */
static int rm_find_damaged(const struct catalog *c, const char *text,
			   char id[REF_DIGEST_LEN + 1])
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	const char *hex = strncmp(text, "sha256:", 7) == 0 ? text + 7 : text;
	char whole[REF_TEXT_MAX] = "";
	unsigned found = 0;
	struct ref parsed;

	if (ref_parse(text, &parsed, &ignored) == 0)
		ref_text(&parsed, whole);
	for (size_t i = 0; i < c->n_names; i++)
		if (strcmp(c->names[i].ref, whole) == 0 &&
		    catalog_find_damaged(c, c->names[i].id)) {
			(void)strcpy(id, c->names[i].id);
			return 0;
		}
	if (report_wanted() || strlen(hex) < RM_PREFIX_MIN)
		return -ENOENT;
	for (size_t i = 0; i < c->n_damaged; i++)
		if (strncmp(c->damaged[i].id + 7, hex, strlen(hex)) == 0) {
			(void)strcpy(id, c->damaged[i].id);
			found++;
		}
	return found == 1 ? 0 : -ENOENT;
}

static int rm_remove_one(struct removal *rm, const char *text, struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	char id[REF_DIGEST_LEN + 1];
	struct store_image image;
	struct catalog c;
	int r;

	if (snapshot_is_ref(text))
		return rm_snapshot(rm, text, err);
	r = image_find(rm->store, text, &image, err);

	if (r == -ENOENT && rm->force)
		return 0;
	if (r == -ENOENT || r == -ENOTUNIQ || r == -EINVAL)
		return r;
	if (r == 0) {
		(void)strcpy(id, image.id);
		store_image_done(&image);
	}
	if (catalog_read(rm->store, &c, r < 0 ? &ignored : err) < 0)
		return r < 0 ? r : -err->code;
	if (r < 0 && rm_find_damaged(&c, text, id) == 0)
		r = 0;
	if (r == 0)
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
		catalog_warn_unknown(image_rm.name, &collected);
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
