/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - the images of this machine, as files
 *
 *	<state>/images/lock		shared to add images, exclusive to collect garbage
 *	<state>/images/refs/<ref>	"sha256:<image id>": what a reference names
 *	<state>/images/<hex>/		an image by its id (digest of its configuration):
 *		record			what running it needs, in lines (below)
 *		manifest.json, config.json	as they came
 *	<state>/layers/<hex>		a link to d/<short>, by the diff id of the layer
 *	<state>/layers/d/<short>/	the layer, unpacked once for all images
 *
 * Everything is created under another name (".new-...") and renamed: it is complete or
 * absent. A running sandbox holds a shared lock on its image's directory; an
 * image that is removed in the meantime loses its references at once and goes when
 * the lock is free. A layer goes when no image has it.
 *
 * This side needs no JSON, no TLS and no archives: `warren run` reads the record.
 * Separate programs fill the store.
 */
#ifndef IMAGE_STORE_H
#define IMAGE_STORE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "image/ref.h"

#define STORE_LAYERS_MAX \
	440 /* what a page of mount options can name; overlay takes 500 */
#define STORE_SHORT_LEN 5
#define STORE_HEX_LEN   64 /* of a digest, without what names its kind */

/* Lists are NULL-terminated and never NULL. */
struct store_image {
	char id[REF_DIGEST_LEN + 1];
	char manifest[REF_DIGEST_LEN + 1];
	char *platform; /* "linux/amd64" */
	char *created;
	char *user, *workdir; /* "" when the image has none */
	char **env, **entrypoint, **cmd, **volumes, **labels;
	char **layers; /* diff ids, from the bottom up */
	uint64_t size; /* of its layers, unpacked archives */
	int lock;      /* the image's directory, share-locked; -1 when not asked for */
};

struct store {
	int images, refs, layers, data; /* directories */
	int lock;
	char *path; /* of the layers' data: <state>/layers/d */
};

/*
 * The default state directory, to be freed: $WARREN_STATE, otherwise /var/lib/warren for
 * root, and below the user's own data for other users.
 */
int store_state_dir(char **ret, struct warren_error *err);

/* Opens it, made if @make. -ENOENT: there is none. */
int store_open(const char *state_dir, bool make, struct store *ret,
	       struct warren_error *err);
void store_close(struct store *s);

/* By reference, or by an id or an unambiguous beginning of one ("sha256:" optional). */
int store_find(const struct store *s, const char *text, struct store_image *ret,
	       struct warren_error *err);
void store_image_done(struct store_image *image);

/* The short name of a layer's directory; -ENOENT when it is not here. */
int store_layer(const struct store *s, const char *diff_id,
		char ret[STORE_SHORT_LEN + 1]);

/* The record, written and read; escapes what would break a line. */
void store_write_record(const struct store_image *image, struct buf *out);
int store_read_record(char *text, struct store_image *ret);

#endif /* IMAGE_STORE_H */
