/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - the store of images on this machine
 *
 *	<state>/images/lock		locked to add images (shared) or collect garbage
 *	<state>/images/refs/<ref>	its image: "sha256:<image id>"
 *	<state>/images/<hex>/		an image by its id (digest of its configuration):
 *		record			the data needed to run it (below)
 *		manifest.json, config.json	as received
 *		saved-<id>		a link to the saved files of a sandbox that
 *					hibernates on this image (<state>/saved/<id>)
 *	<state>/images/build/<key>	the image of a step of a build (build_store.h)
 *	<state>/layers/<hex>		a link to d/<short>, by the diff id of the layer
 *	<state>/layers/d/<short>/	the layer, unpacked once for all images
 *
 * Everything is created under another name (".new-...") and then renamed, so that it is
 * either complete or absent. A running sandbox holds a shared lock on its image's
 * directory. If the image is removed while it is locked, its references are removed at
 * once, and the image itself when the lock is free. A layer is removed when no image uses
 * it.
 *
 * These functions need no JSON, TLS or archives, because `warren run` reads only the
 * record. Separate programs fill the store.
 */
#ifndef IMAGE_STORE_H
#define IMAGE_STORE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "image/ref.h"

#define STORE_RECORD_MAX (4U << 20) /* size of the record of an image, with a NUL */

#define STORE_LAYERS_MAX \
	440 /* maximum that one page of mount options holds; overlay allows 500 */
#define STORE_SHORT_LEN 5
#define STORE_HEX_LEN   64 /* hexadecimal digits of a digest */
#define STORE_BUILD_DIR "build"
/* The base of a snapshot of a docker sandbox: this, and the id of the daemon's image. */
#define STORE_DAEMON_BASE "docker:"

/* Lists are NULL-terminated and never NULL. */
struct store_image {
	char id[REF_DIGEST_LEN + 1];
	char manifest[REF_DIGEST_LEN + 1];
	char *platform; /* "linux/amd64" */
	char *created;
	char *user, *workdir; /* "" when the image has none */
	/*
	 * "host", "dir:PATH", or "docker:ID" for the image ID of a docker daemon: its
	 * layers are stacked on that (snapshot.h); "": none
	 */
	char *base;
	/*
	 * Of a snapshot of the service: its id; "": none. It is found by its reference
	 * (snapshot_name.h) or its whole id, which only its owner knows.
	 */
	char *snapshot;
	char **env, **entrypoint, **cmd, **volumes, **labels;
	char **layers; /* diff ids, from the bottom up */
	uint64_t size; /* sum of its layers' uncompressed archives */
	int lock;      /* the image's directory, with a shared lock; -1: not locked */
};

struct store {
	int images, refs, layers, data; /* directories */
	int lock;
	char *path; /* <state>/layers/d */
};

/*
 * Get the default state directory: $WARREN_STATE, otherwise /var/lib/warren for root, and
 * a directory in the user's data directory for other users. The caller frees it.
 */
int store_state_dir(char **ret, struct warren_error *err);

/* Open the store, and create it if @make. -ENOENT: there is none. */
int store_open(const char *state_dir, bool make, struct store *ret,
	       struct warren_error *err);
void store_close(struct store *s);
/*
 * Keep the image @id from being removed as long as a sandbox has saved files: @saved is
 * their path below <state>/saved, which ends with the id of the sandbox. The files may be
 * created later. The link survives a power failure once this returns.
 */
int store_pin_image(const char *state_dir, const char *id, const char *saved,
		    struct warren_error *err);
/* Does a sandbox that hibernates need the image with this directory? */
bool store_is_pinned(int dir);

/*
 * Find an image by reference, by id, or by an unambiguous prefix of its id ("sha256:" is
 * optional). A prefix finds no snapshot.
 */
int store_find(const struct store *s, const char *text, struct store_image *ret,
	       struct warren_error *err);
void store_image_done(struct store_image *image);
/* Get the image of a docker daemon that @base is; NULL: it is something else. */
const char *store_daemon_image(const char *base);
/* Set @err because only docker sandboxes can use an image with such a base. */
int store_refuse_daemon(struct warren_error *err);

/* Get the short name of a layer's directory; -ENOENT if the store does not have it. */
int store_layer(const struct store *s, const char *diff_id,
		char ret[STORE_SHORT_LEN + 1]);

/* Write and read the record. Characters that would break a line are escaped. */
void store_write_record(const struct store_image *image, struct buf *out);
int store_read_record(char *text, struct store_image *ret);

#endif /* IMAGE_STORE_H */
