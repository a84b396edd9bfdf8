/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-oci.c - any text as a document about an image, from a registry or an archive
 *
 * A manifest, an index, a configuration, the list of an archive: checked values, or an
 * error with a reason. The values that are kept from a configuration are read from its
 * record unchanged.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "image/oci_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_failed(int r, const struct warren_error *err)
{
	assert(r < 0 && r == -err->code && err->msg[0]);
}

static void check_manifest(const char *text)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct oci_manifest m = { 0 };
	int r = oci_parse_manifest(text, &m, &err);

	if (r < 0) {
		check_failed(r, &err);
		return;
	}
	assert(ref_digest_valid(m.config.digest) && m.config.size <= OCI_CONFIG_MAX);
	for (size_t i = 0; i < m.n_layers; i++)
		assert(ref_digest_valid(m.layers[i].digest));
	oci_manifest_done(&m);
}

static void check_index(const char *text)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char digest[REF_DIGEST_LEN + 1] = "";
	int r = oci_choose(text, "linux/amd64", digest, &err);

	(void)oci_is_index(text, NULL);
	if (r < 0)
		check_failed(r, &err);
	else
		assert(ref_digest_valid(digest));
}

static void check_config(const char *text)
{
	AUTO_BUF struct buf one = BUF_INIT(1U << 24), two = BUF_INIT(1U << 24);
	struct warren_error err = WARREN_ERROR_INIT;
	struct store_image image, again;
	AUTO_FREE char *record = NULL;
	int r = oci_parse_config(text, &image, &err);

	if (r < 0) {
		check_failed(r, &err);
		return;
	}
	(void)memcpy(image.manifest, image.id, sizeof(image.manifest));
	store_write_record(&image, &one);
	assert(!one.failed);
	record = strndup(one.data, one.len);
	assert(record && strlen(record) == one.len);
	assert(store_read_record(record, &again) == 0);
	store_write_record(&again, &two);
	assert(one.len == two.len && memcmp(one.data, two.data, one.len) == 0);
	store_image_done(&image);
	store_image_done(&again);
}

static void check_archive(const char *text, bool layout)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct oci_entry *entries = NULL;
	size_t n = 0;
	int r = oci_parse_archive(text, layout, &entries, &n, &err);

	if (r < 0) {
		check_failed(r, &err);
		return;
	}
	assert(n > 0);
	for (size_t i = 0; i < n; i++) {
		assert(entries[i].names);
		assert(layout ? ref_digest_valid(entries[i].manifest)
			      : entries[i].config && entries[i].layers);
	}
	oci_entries_free(entries, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = strndup((const char *)data, size);

	assert(text);
	check_manifest(text);
	check_index(text);
	check_config(text);
	check_archive(text, false);
	check_archive(text, true);
	return 0;
}
