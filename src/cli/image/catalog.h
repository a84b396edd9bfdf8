/* SPDX-License-Identifier: Apache-2.0 */
/* catalog.h - list of all images in the store and their names */
#ifndef CLI_IMAGE_CATALOG_H
#define CLI_IMAGE_CATALOG_H

#include "image/store_collect.h"

struct catalog_name {
	char *ref; /* full name in the store: "docker.io/library/python:3.12" */
	char id[REF_DIGEST_LEN + 1];
};

/* An image that cannot be read. */
struct catalog_damaged {
	char id[REF_DIGEST_LEN + 1];
	int code; /* errno */
};

struct catalog {
	struct store_image *images; /* the newest first; none is locked */
	size_t n_images;
	struct catalog_name *names; /* sorted by name */
	size_t n_names;
	struct catalog_damaged *damaged;
	size_t n_damaged;
	/* The same, to find them; catalog_index() fills these. */
	const struct store_image **by_id;
	const struct catalog_name **names_by_id; /* by id, then by name */
};

/*
 * Images that cannot be read are not among the images; a warning names each of them, so
 * that one does not keep all others from being listed.
 */
int catalog_read(const struct store *s, struct catalog *ret,
		 struct warren_error *err) MUST_CHECK;
void catalog_done(struct catalog *c);

/* After images or names were taken out of the lists: find those that are left. */
int catalog_index(struct catalog *c, struct warren_error *err) MUST_CHECK;

/* Get the names of an image, in their order. */
const struct catalog_name *const *catalog_names_of(const struct catalog *c,
						   const char *id, size_t *ret_n);
/* Number of names of the image. */
size_t catalog_count_names(const struct catalog *c, const char *id);
const struct store_image *catalog_find(const struct catalog *c, const char *id);
const struct catalog_damaged *catalog_find_damaged(const struct catalog *c,
						   const char *id);
/* If a damaged image has kept all layers, say so in the name of a command. */
void catalog_warn_unknown(const char *command, const struct store_collected *by);
/* Is the image damaged for good, rather than unreadable at the moment? */
bool catalog_is_broken(const struct catalog_damaged *image);

struct catalog_layer {
	const char *id;
	const struct store_image *image; /* the last image that contains it */
	size_t users;                    /* number of images that contain it */
};
/* List the layers of all images, each once, sorted by id. The caller frees the list. */
int catalog_list_layers(const struct catalog *c, struct catalog_layer **ret,
			size_t *ret_n) MUST_CHECK;
/* Number of images in such a list that contain this layer. */
size_t catalog_count_users(const struct catalog_layer *list, size_t n,
			   const char *diff_id);
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
