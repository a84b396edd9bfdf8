/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_json.h - manifests, indexes and configurations, from untrusted JSON to checked
 * values
 */
#ifndef IMAGE_OCI_JSON_H
#define IMAGE_OCI_JSON_H

#include "image/store.h"

#define OCI_CONFIG_MAX (8U << 20)

struct oci_blob {
	char digest[REF_DIGEST_LEN + 1];
	uint64_t size;
};

struct oci_manifest {
	struct oci_blob config;
	size_t n_layers;
	struct oci_blob *layers;
};

/*
 * Is it an index (a list of manifests by platform)? By its media type, or by what it has.
 */
bool oci_is_index(const char *json, const char *type);
/* The digest of the manifest for @platform; -ENOENT names those that there are. */
int oci_choose(const char *json, const char *platform, char ret[REF_DIGEST_LEN + 1],
	       struct warren_error *err);
int oci_parse_manifest(const char *json, struct oci_manifest *ret,
		       struct warren_error *err);
void oci_manifest_done(struct oci_manifest *m);

/* The configuration, into what the store records; diff ids go to ret->layers. */
int oci_parse_config(const char *json, struct store_image *ret, struct warren_error *err);

/* docker save's manifest.json and an OCI layout's index.json: one entry after another. */
struct oci_entry {
	char *config;   /* a file of the archive */
	char **layers;  /* files of the archive */
	char **names;   /* references, never NULL */
	char *manifest; /* of a layout: the digest; then the others are NULL */
};
int oci_parse_archive(const char *json, bool layout, struct oci_entry **ret,
		      size_t *ret_n, struct warren_error *err);
void oci_entries_free(struct oci_entry *entries, size_t n);

/* The configuration and the manifest of an image of one layer. To be freed. */
char *oci_make_config(const char *platform, const char *diff_id);
char *oci_make_manifest(const char *config, const char *diff_id, uint64_t size);

/* "sha256:..." of @size bytes. */
void oci_digest(const void *data, size_t size, char ret[REF_DIGEST_LEN + 1]);

#endif /* IMAGE_OCI_JSON_H */
