/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_export.h - blobs, configuration and manifest of an image that is saved or pushed
 *
 * If every layer has its recorded diff id, the configuration is the original one, so the
 * image keeps its id. Otherwise the configuration lists the new diff ids, and the image
 * gets a new id.
 */
#ifndef IMAGE_OCI_EXPORT_H
#define IMAGE_OCI_EXPORT_H

#include "image/layer_blob.h"
#include "image/oci.h"

#define EXPORT_MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"

struct export_layer {
	struct layer_blob blob;
	const char *type; /* media type, a constant */
	bool known;       /* the members above are set */
};

struct oci_export {
	struct store_image image; /* locked until oci_export_done() */
	size_t n;
	struct export_layer *layers; /* from the bottom up, as in the image */
	char *config;
	char id[REF_DIGEST_LEN + 1]; /* digest of `config` */
	char *manifest;
	char manifest_digest[REF_DIGEST_LEN + 1];
};

/* Find and lock the image @text; its layers are not known yet. */
int oci_export_open(const struct store *s, const char *text, struct oci_export *ret,
		    struct warren_error *err);
/* Build the configuration and the manifest, when all layers are known. */
int oci_export_describe(const struct store *s, struct oci_export *x,
			struct warren_error *err);
void oci_export_done(struct oci_export *x);

/* The media type of a layer with this compression. */
const char *oci_export_type(enum pack_kind kind);

/* ------------------------------------------------------------------ progress */

/* Calls the caller's progress function ten times a second. */
struct export_progress {
	const struct oci_options *options;
	struct oci_layer *layers;
	size_t n;
	size_t current;
	uint64_t told;
};

int export_progress_init(struct export_progress *p, const struct oci_options *o,
			 size_t n);
void export_progress_done(struct export_progress *p);
/* Change the state of layer @i; -ECANCELED. */
int export_progress_state(struct export_progress *p, size_t i, enum oci_state state,
			  struct warren_error *err);
/* Note that @n more bytes of the current layer are done; -ECANCELED. */
int export_progress_add(struct export_progress *p, uint64_t n, struct warren_error *err);

#endif /* IMAGE_OCI_EXPORT_H */
