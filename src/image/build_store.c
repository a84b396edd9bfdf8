/* SPDX-License-Identifier: Apache-2.0 */
/* build_store.c - add layers and images of a build, and remember its steps */
#include "image/build_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/strv.h"
#include "image/entry.h"
#include "image/layer_tar.h"
#include "image/oci_internal.h"
#include "image/oci_json.h"
#include "image/store_internal.h"

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define CONFIG_TYPE   "application/vnd.oci.image.config.v1+json"
#define LAYER_TYPE    "application/vnd.oci.image.layer.v1.tar"

struct build_sink {
	struct hash *hash;
	bool (*cancelled)(void);
};

static int build_hash_sink(void *ctx, const void *data, size_t n)
{
	const struct build_sink *sink = ctx;

	if (sink->cancelled && sink->cancelled())
		return -ECANCELED;
	hash_add(sink->hash, data, n);
	return 0;
}

int build_store_finish(const struct store_new *layer, bool (*cancelled)(void),
		       char ret_diff_id[REF_DIGEST_LEN + 1], uint64_t *ret_bytes,
		       struct warren_error *err)
{
	AUTO_HASH struct hash *h = hash_new();
	struct build_sink sink = { h, cancelled };
	const struct layer_tar_options o = { .sink = build_hash_sink,
					     .ctx = &sink,
					     .max_bytes = OCI_BYTES_MAX };
	char diff_id[REF_DIGEST_LEN + 1] = "sha256:";
	struct layer_tar_result res;
	int r = layer_tar_write(layer->fd, &o, &res, err);

	if (r == -ECANCELED)
		return error_set(err, ECANCELED, "cancelled");
	if (r < 0)
		return r;
	r = hash_end(h, diff_id + 7);
	if (r < 0)
		return error_errno(err, -r, "hash the layer");
	r = store_sync_layer(layer, err);
	if (r < 0)
		return r;
	(void)strcpy(ret_diff_id, diff_id);
	*ret_bytes = res.bytes;
	return 0;
}

int build_store_layer(const struct store *s, struct store_new *layer, const char *diff_id,
		      uint64_t bytes, struct warren_error *err)
{
	char name[STORE_SHORT_LEN + 1];

	return store_layer(s, diff_id, name) == 0
		       ? 0
		       : store_keep_layer(s, layer, diff_id, bytes, err);
}

/* Return the layers of the parent as its manifest describes them: compressed blobs. */
static json_t *build_parent_layers(const struct store *s, const char *parent, size_t max)
{
	AUTO_FREE char *text = NULL;
	json_t *manifest, *layers = NULL;

	if (!*parent || store_read_json(s, parent, "manifest.json", &text) < 0)
		return json_array();
	manifest = json_loads(text, 0, NULL);
	layers = json_incref(json_object_get(manifest, "layers"));
	json_decref(manifest);
	if (!json_is_array(layers) || json_array_size(layers) > max) {
		json_decref(layers);
		return json_array();
	}
	return layers;
}

static char *build_manifest(const struct store *s, const struct store_image *image,
			    const char *config, const char *parent)
{
	size_t n = 0;
	json_t *layers, *manifest;
	char *text;

	while (image->layers[n])
		n++;
	layers = build_parent_layers(s, parent, n);
	for (size_t i = json_array_size(layers); i < n; i++)
		(void)json_array_append_new(
			layers,
			json_pack("{s:s,s:s,s:I}", "mediaType", LAYER_TYPE, "digest",
				  image->layers[i], "size",
				  (json_int_t)store_layer_size(s, image->layers[i])));
	manifest = json_pack("{s:i,s:s,s:{s:s,s:s,s:I},s:o}", "schemaVersion", 2,
			     "mediaType", MANIFEST_TYPE, "config", "mediaType",
			     CONFIG_TYPE, "digest", image->id, "size",
			     (json_int_t)strlen(config), "layers", layers);
	text = manifest ? json_dumps(manifest, JSON_COMPACT) : NULL;
	json_decref(manifest);
	return text;
}

int build_store_image(const struct store *s, const char *config,
		      const struct store_image *parent, const char *snapshot,
		      char ret_id[REF_DIGEST_LEN + 1], struct warren_error *err)
{
	AUTO_FREE char *manifest = NULL;
	struct store_image image = { .lock = -1 };
	int r = oci_parse_config(config, &image, err);

	if (r < 0)
		return r;
	if (strv_len((union strv){ image.layers }) > STORE_LAYERS_MAX) {
		store_image_done(&image);
		return error_set(err, E2BIG,
				 "it would have more than %d layers, the maximum",
				 STORE_LAYERS_MAX);
	}
	image.base = strdup(parent && parent->base ? parent->base : "");
	if (snapshot)
		image.snapshot = strdup(snapshot);
	manifest = build_manifest(s, &image, config, parent ? parent->id : "");
	r = manifest && image.base && (image.snapshot || !snapshot)
		    ? oci_record(s, &image, manifest, config, NULL, err)
		    : error_errno(err, ENOMEM, "describe the image");
	if (r == 0)
		(void)strcpy(ret_id, image.id);
	store_image_done(&image);
	return r;
}

/* -------------------------------------------------------------------- cache */

static void build_cache_path(const char *key, char path[128])
{
	(void)snprintf(path, 128, STORE_BUILD_DIR "/%.64s", key);
}

int build_cache_find(const struct store *s, const char key[HASH_LEN + 1],
		     struct store_image *ret)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	char path[128], id[REF_DIGEST_LEN + 2], name[STORE_SHORT_LEN + 1];
	struct store_image image;
	ssize_t n;
	int r;

	build_cache_path(key, path);
	n = fd_read_file_at(s->images, path, id, sizeof(id));
	if (n < 0)
		return (int)n;
	id[strcspn(id, "\n")] = '\0';
	if (!ref_digest_valid(id))
		return -ENOENT;
	r = store_find(s, id, &image, &ignored);
	if (r < 0)
		return -ENOENT;
	for (char **l = image.layers; r == 0 && *l; l++)
		r = store_layer(s, *l, name);
	if (r < 0) {
		store_image_done(&image);
		return -ENOENT;
	}
	(void)utimensat(s->images, path, NULL, 0);
	*ret = image;
	return 0;
}

int build_cache_each(const struct store *s,
		     int (*fn)(void *ctx, const char *id, uint64_t used), void *ctx)
{
	AUTO_CLOSE int dir = openat(s->images, STORE_BUILD_DIR,
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = dir < 0 ? NULL : fdopendir(dir);
	struct dirent *e;
	int r = 0;

	if (d)
		(void)TAKE_FD(dir);
	while (r == 0 && d && (e = readdir(d))) {
		char id[REF_DIGEST_LEN + 2];
		struct stat st;

		if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &st, 0) < 0 ||
		    fd_read_file_at(dirfd(d), e->d_name, id, sizeof(id)) < 0)
			continue;
		id[strcspn(id, "\n")] = '\0';
		if (ref_digest_valid(id))
			r = fn(ctx, id,
			       (uint64_t)st.st_mtim.tv_sec * 1000000000ULL +
				       (uint64_t)st.st_mtim.tv_nsec);
	}
	if (d)
		(void)closedir(d);
	return r;
}

/* Not synced: if a power failure loses the file, the step is only executed again. */
int build_cache_put(const struct store *s, const char key[HASH_LEN + 1], const char *id,
		    struct warren_error *err)
{
	char path[128], temp[64], random[ID_LEN + 1], text[REF_DIGEST_LEN + 2];
	AUTO_CLOSE int fd = -1;
	int r;

	build_cache_path(key, path);
	id_make(random);
	(void)snprintf(temp, sizeof(temp), STORE_NEW_PREFIX "%s", random);
	(void)snprintf(text, sizeof(text), "%s\n", id);
	if (mkdirat(s->images, STORE_BUILD_DIR, 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "create the build cache");
	fd = entry_new_file(s->images, temp, 0600);
	r = fd < 0 ? fd : fd_write_all(fd, text, strlen(text));
	if (r == 0 && renameat(s->images, temp, s->images, path) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(s->images, temp, 0);
	return r < 0 ? error_errno(err, -r, "write the build cache") : 0;
}
