/* SPDX-License-Identifier: Apache-2.0 */
/* catalog.h - list of all images in the store and their names */
#ifndef CLI_IMAGE_CATALOG_H
#define CLI_IMAGE_CATALOG_H

#include "image/store.h"

struct catalog_name {
	char *ref; /* full name in the store: "docker.io/library/python:3.12" */
	char id[REF_DIGEST_LEN + 1];
};

struct catalog {
	struct store_image *images; /* the newest first; none is locked */
	size_t n_images;
	struct catalog_name *names; /* sorted by name */
	size_t n_names;
};

int catalog_read(const struct store *s, struct catalog *ret,
		 struct warren_error *err) MUST_CHECK;
void catalog_done(struct catalog *c);

/* Number of names of the image. */
size_t catalog_count_names(const struct catalog *c, const char *id);
const struct store_image *catalog_find(const struct catalog *c, const char *id);
/* Number of images that contain this layer; each counts once. */
size_t catalog_count_users(const struct catalog *c, const char *diff_id);
/* Return whether layer @before of @image is the same as a layer below it. */
bool catalog_repeats(const struct store_image *image, size_t before);

struct json;
/* Add a description of @image as fields of the open JSON object. */
void catalog_describe(const struct store *s, const struct catalog *c,
		      const struct store_image *image, struct json *j);

struct buf;
/* Append a line of JSON about a change of an image or of its name; @ref NULL: no name. */
void catalog_put_json(struct buf *out, const char *action, const char *id,
		      const char *ref);

/* The short form that people type: "python:3.12". */
const char *catalog_familiar(const char *ref, char text[REF_TEXT_MAX]);

#endif /* CLI_IMAGE_CATALOG_H */
