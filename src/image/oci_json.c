/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_json.c - parse with jansson, strictly: refuse duplicate keys, bad UTF-8 and deep
 * nesting
 *
 * Every value is checked for its type and its bounds before it is kept, so a record
 * contains only checked values.
 */
#include "image/oci_json.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/strv.h"

#define LIST_MAX   4096
#define STRING_MAX (1U << 20)
#define BLOB_MAX   (1ULL << 42)

#define AUTO_JSON CLEANUP(json_decrefp)

static int oci_json_bad(struct warren_error *err, const char *what)
{
	return error_set(err, EBADMSG, "%s", what);
}

static json_t *oci_json_load(const char *text, struct warren_error *err)
{
	json_error_t why;
	json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &why);

	if (!j)
		(void)error_set(err, EBADMSG, "it is not JSON: %.100s", why.text);
	else if (!json_is_object(j) && !json_is_array(j))
		(void)oci_json_bad(err, "it is not an object");
	return j;
}

void oci_digest(const void *data, size_t size, char ret[REF_DIGEST_LEN + 1])
{
	unsigned char sum[EVP_MAX_MD_SIZE] = { 0 };

	(void)EVP_Digest(data, size, sum, NULL, EVP_sha256(), NULL);
	(void)hex_encode(sum, 32, stpcpy(ret, "sha256:"));
}

/* ----------------------------------------------------------------- manifests */

static int get_blob(const json_t *j, struct oci_blob *ret, const char *what,
		    struct warren_error *err)
{
	const char *digest = json_string_value(json_object_get(j, "digest"));
	const json_t *size = json_object_get(j, "size");

	if (!digest || !ref_digest_valid(digest))
		return error_set(err, EBADMSG, "its %s has no sha256 digest", what);
	if (!json_is_integer(size) || json_integer_value(size) < 0 ||
	    (uint64_t)json_integer_value(size) > BLOB_MAX)
		return error_set(err, EBADMSG, "its %s has no size", what);
	(void)strcpy(ret->digest, digest);
	ret->size = (uint64_t)json_integer_value(size);
	return 0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n >= k && strcmp(s + n - k, end) == 0;
}

/* Is it a layer? It may also be an attestation, a helm chart, or a layer stored
 * elsewhere. */
static bool layer_type(const char *type)
{
	static const char *const known[] = { "layer.v1.tar",
					     "layer.v1.tar+gzip",
					     "layer.v1.tar+zstd",
					     "rootfs.diff.tar",
					     "rootfs.diff.tar.gzip",
					     "rootfs.diff.tar.zstd",
					     "image.rootfs.diff.tar.gzip" };

	if (!type || strstr(type, "foreign") || strstr(type, "nondistributable"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (ends_with(type, known[i]))
			return true;
	return false;
}

bool oci_is_index(const char *json, const char *type)
{
	json_error_t why;
	AUTO_JSON json_t *j = json_loads(json, JSON_REJECT_DUPLICATES, &why);

	return (type && (strstr(type, "image.index") || strstr(type, "manifest.list"))) ||
	       (j && json_is_array(json_object_get(j, "manifests")));
}

int oci_parse_manifest(const char *json, struct oci_manifest *ret,
		       struct warren_error *err)
{
	AUTO_JSON json_t *j = oci_json_load(json, err);
	struct oci_manifest m = { 0 };
	json_t *layers, *layer;
	size_t i;
	int r;

	if (!j || err->code)
		return -EBADMSG;
	layers = json_object_get(j, "layers");
	if (json_integer_value(json_object_get(j, "schemaVersion")) != 2 ||
	    !json_is_array(layers))
		return oci_json_bad(err, "it is not an image manifest of schema 2");
	if (json_array_size(layers) > LIST_MAX)
		return oci_json_bad(err, "it has too many layers");
	r = get_blob(json_object_get(j, "config"), &m.config, "configuration", err);
	if (r == 0 && m.config.size > OCI_CONFIG_MAX)
		r = oci_json_bad(err, "its configuration is too large");
	m.layers = calloc(json_array_size(layers) + 1, sizeof(*m.layers));
	if (r == 0 && !m.layers)
		r = error_errno(err, ENOMEM, "read it");
	json_array_foreach(layers, i, layer)
	{
		const char *type = json_string_value(json_object_get(layer, "mediaType"));

		if (r == 0 && !layer_type(type))
			r = error_set(err, EBADMSG,
				      "its layer %zu has an unknown type: %.80s", i,
				      type ? type : "none");
		if (r == 0)
			r = get_blob(layer, &m.layers[i], "layer", err);
	}
	m.n_layers = json_array_size(layers);
	if (r < 0) {
		oci_manifest_done(&m);
		return r;
	}
	*ret = m;
	return 0;
}

void oci_manifest_done(struct oci_manifest *m)
{
	free(m->layers);
	*m = (struct oci_manifest){ 0 };
}

static void platform_text(const json_t *p, char *out, size_t size)
{
	const char *os = json_string_value(json_object_get(p, "os"));
	const char *arch = json_string_value(json_object_get(p, "architecture"));
	const char *variant = json_string_value(json_object_get(p, "variant"));

	(void)snprintf(out, size, "%.20s/%.20s%s%.20s", os ? os : "?", arch ? arch : "?",
		       variant ? "/" : "", variant ? variant : "");
}

/* "linux/arm64" matches "linux/arm64/v8"; a requested variant must match. */
static bool platform_matches(const char *has, const char *want)
{
	size_t n = strlen(want);

	return strncmp(has, want, n) == 0 && (has[n] == '\0' || has[n] == '/');
}

int oci_choose(const char *json, const char *platform, char ret[REF_DIGEST_LEN + 1],
	       struct warren_error *err)
{
	AUTO_JSON json_t *j = oci_json_load(json, err);
	char seen[200] = "";
	json_t *list, *m;
	size_t i;

	if (!j || err->code)
		return -EBADMSG;
	list = json_object_get(j, "manifests");
	if (!json_is_array(list) || json_array_size(list) > LIST_MAX)
		return oci_json_bad(err, "its index lists no manifests");
	json_array_foreach(list, i, m)
	{
		const json_t *p = json_object_get(m, "platform");
		const char *digest = json_string_value(json_object_get(m, "digest"));
		char has[80] = "";

		if (!digest || !ref_digest_valid(digest))
			return oci_json_bad(
				err, "its index has a manifest without a sha256 digest");
		/* An index entry without a platform (an OCI layout) is accepted. */
		if (p)
			platform_text(p, has, sizeof(has));
		if ((!p && json_array_size(list) == 1) ||
		    (p && platform_matches(has, platform))) {
			(void)strcpy(ret, digest);
			return 0;
		}
		if (strlen(seen) + strlen(has) + 3 < sizeof(seen) &&
		    !strstr(has, "unknown")) {
			(void)strcat(seen, seen[0] ? ", " : "");
			(void)strcat(seen, has);
		}
	}
	return error_set(err, ENOENT, "there is none for %s; available: %s", platform,
			 seen[0] ? seen : "none");
}

/* ------------------------------------------------------------- configurations */

static int add_string(char ***list, size_t *n, const char *s, struct warren_error *err)
{
	if (*n >= LIST_MAX || !s || strlen(s) > STRING_MAX)
		return oci_json_bad(err, "its configuration has a list that is too long");
	if (strv_add(list, s) < 0)
		return error_errno(err, ENOMEM, "read it");
	++*n;
	return 0;
}

/* Read a list of strings, or null. */
static int get_list(const json_t *from, const char *key, char ***ret,
		    struct warren_error *err)
{
	const json_t *j = json_object_get(from, key), *item;
	size_t i, n = 0;
	int r = 0;

	*ret = calloc(1, sizeof(char *));
	if (!*ret)
		return error_errno(err, ENOMEM, "read it");
	if (!j || json_is_null(j))
		return 0;
	if (!json_is_array(j))
		return error_set(err, EBADMSG, "'%s' in its configuration is not a list",
				 key);
	json_array_foreach(j, i, item)
	{
		if (r == 0 && !json_is_string(item))
			r = error_set(err, EBADMSG,
				      "'%s' in its configuration does not hold strings",
				      key);
		if (r == 0)
			r = add_string(ret, &n, json_string_value(item), err);
	}
	return r;
}

/* Read the keys of an object ("Volumes"), or "key=value" ("Labels"). */
static int get_keys(json_t *from, const char *key, bool values, char ***ret,
		    struct warren_error *err)
{
	json_t *j = json_object_get(from, key), *value;
	const char *name;
	size_t n = 0;
	int r = 0;

	*ret = calloc(1, sizeof(char *));
	if (!*ret)
		return error_errno(err, ENOMEM, "read it");
	json_object_foreach(j, name, value)
	{
		AUTO_FREE char *text = NULL;

		if (r < 0)
			break;
		if (values &&
		    asprintf(&text, "%s=%s", name,
			     json_is_string(value) ? json_string_value(value) : "") < 0)
			return error_errno(err, ENOMEM, "read it");
		r = add_string(ret, &n, values ? text : name, err);
	}
	return r;
}

static int get_text(const json_t *from, const char *key, char **ret,
		    struct warren_error *err)
{
	const json_t *j = json_object_get(from, key);

	if (j && !json_is_null(j) && !json_is_string(j))
		return error_set(err, EBADMSG,
				 "'%s' in its configuration is not a string", key);
	*ret = strdup(json_is_string(j) ? json_string_value(j) : "");
	if (!*ret)
		return error_errno(err, ENOMEM, "read it");
	return strlen(*ret) > 4096
		       ? oci_json_bad(err,
				      "its configuration has a string that is too long")
		       : 0;
}

static int check_config(const struct store_image *im, struct warren_error *err)
{
	for (char **l = im->layers; *l; l++)
		if (!ref_digest_valid(*l))
			return oci_json_bad(
				err,
				"a diff id in its configuration is not a sha256 digest");
	for (char **e = im->env; *e; e++)
		if (!strchr(*e, '=') || (*e)[0] == '=')
			return error_set(err, EBADMSG,
					 "its variable '%.60s' is not NAME=value", *e);
	return 0;
}

int oci_parse_config(const char *json, struct store_image *ret, struct warren_error *err)
{
	AUTO_JSON json_t *j = oci_json_load(json, err);
	struct store_image im = { .lock = -1 };
	json_t *config, *rootfs;
	char platform[80];
	int r;

	if (!j || err->code)
		return -EBADMSG;
	config = json_object_get(j, "config");
	rootfs = json_object_get(j, "rootfs");
	platform_text(j, platform, sizeof(platform));
	oci_digest(json, strlen(json), im.id);
	im.platform = strdup(platform);
	r = im.platform ? 0 : error_errno(err, ENOMEM, "read it");
	if (r == 0)
		r = get_text(j, "created", &im.created, err);
	if (r == 0)
		r = get_text(config, "User", &im.user, err);
	if (r == 0)
		r = get_text(config, "WorkingDir", &im.workdir, err);
	if (r == 0)
		r = get_list(config, "Env", &im.env, err);
	if (r == 0)
		r = get_list(config, "Entrypoint", &im.entrypoint, err);
	if (r == 0)
		r = get_list(config, "Cmd", &im.cmd, err);
	if (r == 0)
		r = get_keys(config, "Volumes", false, &im.volumes, err);
	if (r == 0)
		r = get_keys(config, "Labels", true, &im.labels, err);
	if (r == 0)
		r = get_list(rootfs, "diff_ids", &im.layers, err);
	if (r == 0)
		r = check_config(&im, err);
	if (r < 0) {
		store_image_done(&im);
		return r;
	}
	*ret = im;
	return 0;
}

/* ------------------------------------------------------------------ archives */

static int docker_entry(const json_t *j, struct oci_entry *e, struct warren_error *err)
{
	int r = get_text(j, "Config", &e->config, err);

	if (r == 0)
		r = get_list(j, "Layers", &e->layers, err);
	if (r == 0)
		r = get_list(j, "RepoTags", &e->names, err);
	return r;
}

static int layout_entry(const json_t *j, struct oci_entry *e, struct warren_error *err)
{
	static const char *const keys[] = { "io.containerd.image.name",
					    "org.opencontainers.image.ref.name" };
	const json_t *notes = json_object_get(j, "annotations");
	size_t n = 0;
	int r = get_text(j, "digest", &e->manifest, err);

	if (r == 0 && !ref_digest_valid(e->manifest))
		r = oci_json_bad(err, "its index has a manifest without a sha256 digest");
	if (r < 0)
		return r;
	e->names = calloc(1, sizeof(char *));
	if (!e->names)
		return error_errno(err, ENOMEM, "read it");
	for (size_t i = 0; r == 0 && n == 0 && i < ARRAY_SIZE(keys); i++) {
		const char *name = json_string_value(json_object_get(notes, keys[i]));

		if (name)
			r = add_string(&e->names, &n, name, err);
	}
	return r;
}

int oci_parse_archive(const char *json, bool layout, struct oci_entry **ret,
		      size_t *ret_n, struct warren_error *err)
{
	AUTO_JSON json_t *j = oci_json_load(json, err);
	struct oci_entry *entries;
	json_t *list, *item;
	size_t i, n;
	int r = 0;

	if (!j || err->code)
		return -EBADMSG;
	list = layout ? json_object_get(j, "manifests") : j;
	if (!json_is_array(list) || json_array_size(list) == 0 ||
	    json_array_size(list) > LIST_MAX)
		return oci_json_bad(err, "it lists no images");
	n = json_array_size(list);
	entries = calloc(n, sizeof(*entries));
	if (!entries)
		return error_errno(err, ENOMEM, "read it");
	json_array_foreach(list, i, item)
	{
		if (r == 0)
			r = layout ? layout_entry(item, &entries[i], err)
				   : docker_entry(item, &entries[i], err);
	}
	if (r < 0) {
		oci_entries_free(entries, n);
		return r;
	}
	*ret = entries;
	*ret_n = n;
	return 0;
}

void oci_entries_free(struct oci_entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(entries[i].config);
		free(entries[i].manifest);
		(void)strv_free(entries[i].layers);
		(void)strv_free(entries[i].names);
	}
	free(entries);
}

/* -------------------------------------------------------------------- writing */

char *oci_make_config(const char *platform, const char *diff_id)
{
	const char *slash = strchr(platform, '/');
	AUTO_JSON json_t *j =
		json_pack("{s:s%,s:s,s:{},s:{s:s,s:[s]}}", "os", platform,
			  (size_t)(slash - platform), "architecture", slash + 1, "config",
			  "rootfs", "type", "layers", "diff_ids", diff_id);

	return j ? json_dumps(j, JSON_COMPACT) : NULL;
}

char *oci_make_manifest(const char *config, const char *diff_id, uint64_t size)
{
	char digest[REF_DIGEST_LEN + 1];
	AUTO_JSON json_t *j = NULL;

	oci_digest(config, strlen(config), digest);
	j = json_pack("{s:i,s:s,s:{s:s,s:s,s:I},s:[{s:s,s:s,s:I}]}", "schemaVersion", 2,
		      "mediaType", "application/vnd.oci.image.manifest.v1+json", "config",
		      "mediaType", "application/vnd.oci.image.config.v1+json", "digest",
		      digest, "size", (json_int_t)strlen(config), "layers", "mediaType",
		      "application/vnd.oci.image.layer.v1.tar", "digest", diff_id, "size",
		      (json_int_t)size);
	return j ? json_dumps(j, JSON_COMPACT) : NULL;
}
