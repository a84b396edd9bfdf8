/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.c - for the warden: make an image of a layer that it has written
 *
 *	warren-image --snapshot LAYER PARENT ID
 *
 * LAYER is the name of a new layer in the store, PARENT the image that it belongs on, and
 * ID the id of the snapshot. The caller has locked LAYER and passes the lock on, as a
 * descriptor that stays open until this program ends. The report is a line with an array
 * of one object, and the last line of report.h.
 */
#include "cli/image/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/json.h"
#include "base/snapshot_name.h"
#include "cli/image/image.h"
#include "cli/image/report.h"
#include "image/build_store.h"
#include "image/snapshot.h"

static int snapshot_add(const struct store *s, struct snapshot_layer *layer,
			const struct snapshot_options *o, const struct ref *ref,
			char image[REF_DIGEST_LEN + 1], struct warren_error *err)
{
	int r = store_lock(s, false, true);

	if (r < 0)
		return error_errno(err, -r, "lock the image store");
	r = snapshot_record(s, layer, o, ref, image, err);
	store_unlock(s);
	return r;
}

static int snapshot_make(const struct store *s, const char *name, const char *parent,
			 const char *id, struct buf *out, struct warren_error *err)
{
	char ref_of[REF_TEXT_MAX], by[64], random[ID_LEN + 1], image[REF_DIGEST_LEN + 1];
	const struct snapshot_options o = { .parent = parent,
					    .created_by = by,
					    .snapshot = id };
	struct json j = { .out = out };
	struct snapshot_layer layer = { .dir = { .fd = -1 } };
	struct store_image made = { 0 };
	struct ref ref;
	int r;

	(void)snprintf(ref_of, sizeof(ref_of), SNAPSHOT_REGISTRY "/%s", id);
	/* The images of equal snapshots have different ids. */
	id_make(random);
	(void)snprintf(by, sizeof(by), "warren snapshot %s", random);
	r = id_valid(id) ? ref_parse(ref_of, &ref, err)
			 : error_set(err, EINVAL, "'%.40s' is not an id", id);
	if (r == 0)
		r = store_open_new(s, name, &layer.dir, err);
	if (r == 0)
		r = build_store_finish(&layer.dir, NULL, layer.diff_id, &layer.size, err);
	if (r == 0)
		r = snapshot_add(s, &layer, &o, &ref, image, err);
	store_drop_layer(s, &layer.dir);
	if (r == 0)
		r = store_find(s, image, &made, err);
	if (r < 0)
		return r;
	json_open(&j, NULL, '[');
	json_open(&j, NULL, '{');
	json_str(&j, "id", image);
	json_u64(&j, "size", made.size);
	json_close(&j, '}');
	json_close(&j, ']');
	buf_puts(out, "\n");
	store_image_done(&made);
	return 0;
}

/* The service that requested the snapshot is gone, and no other process knows it. */
static void snapshot_undo(const struct store *s, const char *id)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	char text[REF_TEXT_MAX];
	struct store_image image;
	struct ref ref;

	(void)snprintf(text, sizeof(text), SNAPSHOT_REGISTRY "/%s", id);
	if (ref_parse(text, &ref, &ignored) < 0 ||
	    store_find(s, text, &image, &ignored) < 0)
		return;
	(void)store_untag(s, &ref, &ignored);
	(void)strcpy(text, image.id);
	store_image_done(&image);
	(void)store_remove_image(s, text);
}

int snapshot_main(char **words)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct warren_error err = WARREN_ERROR_INIT;
	struct store s;
	int r = image_open_store(true, &s, &err);

	report_start();
	if (r == 0) {
		r = snapshot_make(&s, words[0], words[1], words[2], &out, &err);
		if (r == 0) {
			r = fd_write_all(STDOUT_FILENO, out.data, out.len);
			if (r < 0)
				snapshot_undo(&s, words[2]);
		}
		store_close(&s);
	}
	if (r < 0)
		image_report_error(&err);
	return report_end(r == 0 ? 0 : STATUS_FAILED);
}
