/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_json.h - parse untrusted JSON of manifests, indexes and configurations into checked
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
 * Return whether @json is an index (a list of manifests by platform), judged by its media
 * type or its fields.
 */
bool oci_is_index(const char *json, const char *type);
/*
 * Find the digest of the manifest for @platform; with -ENOENT, @err lists the platforms.
 */
int oci_choose(const char *json, const char *platform, char ret[REF_DIGEST_LEN + 1],
	       struct warren_error *err);
int oci_parse_manifest(const char *json, struct oci_manifest *ret,
		       struct warren_error *err);
void oci_manifest_done(struct oci_manifest *m);

/* Parse the configuration into the store's record; ret->layers gets the diff ids. */
int oci_parse_config(const char *json, struct store_image *ret, struct warren_error *err);

/* An entry of docker save's manifest.json or of an OCI layout's index.json. */
struct oci_entry {
	char *config;   /* file in the archive */
	char **layers;  /* files in the archive */
	char **names;   /* references, never NULL */
	char *manifest; /* OCI layout: the digest; then the other members are NULL */
};
int oci_parse_archive(const char *json, bool layout, struct oci_entry **ret,
		      size_t *ret_n, struct warren_error *err);
void oci_entries_free(struct oci_entry *entries, size_t n);

/*
 * Build the configuration and the manifest of an image of one layer. The caller frees
 * them.
 */
char *oci_make_config(const char *platform, const char *diff_id);
char *oci_make_manifest(const char *config, const char *diff_id, uint64_t size);

/* Write the digest of @size bytes, "sha256:...". */
void oci_digest(const void *data, size_t size, char ret[REF_DIGEST_LEN + 1]);

#endif /* IMAGE_OCI_JSON_H */
