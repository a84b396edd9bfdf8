/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_push.c - push an image: its layers, its configuration, and last its manifest
 *
 * The manifest of a pulled image has the digests of the original blobs. If the registry
 * has such a blob, in this repository or in another one that this machine knows, it is
 * used, and the layer keeps its digest and diff id. Otherwise the layer is packed and
 * compressed into an unnamed file, and uploaded. If the registry has all original blobs,
 * the image is pushed with its original configuration and manifest, and so with the same
 * digest.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "image/oci_export.h"
#include "image/oci_internal.h"
#include "image/oci_json.h"
#include "image/store_write.h"
#include "image/unpack_queue.h"

#define SOURCES_MAX 4 /* repositories to take a blob from */
#define AUTO_JSON   CLEANUP(json_decrefp)

struct push {
	const struct store *store;
	const struct ref *to;
	struct registry *registry;
	struct oci_export x;
	struct export_progress progress;
	/* The manifest as it was received, if it is a manifest of this image. */
	char *original;
	struct oci_manifest m;
	char type[128]; /* its media type */
	size_t kept;    /* layers whose original blobs are used */
	char sources[SOURCES_MAX][sizeof(((struct ref *)NULL)->name)];
	size_t n_sources;
	struct warren_error failed; /* cancelled in a callback */
};

static void push_done(struct push *p)
{
	p->registry = registry_close(p->registry);
	export_progress_done(&p->progress);
	oci_export_done(&p->x);
	oci_manifest_done(&p->m);
	free(p->original);
}

/* ------------------------------------------------------------------ originals */

/* Not an error if it has none: an archive of docker has no digests of blobs. */
static void push_read_original(struct push *p)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_JSON json_t *j = NULL;
	const char *type;

	if (store_read_json(p->store, p->x.image.id, "manifest.json", &p->original) < 0)
		return;
	j = json_loads(p->original, JSON_REJECT_DUPLICATES, NULL);
	type = json_string_value(json_object_get(j, "mediaType"));
	if (type && strlen(type) >= sizeof(p->type))
		return;
	(void)strcpy(p->type, type ? type : EXPORT_MANIFEST_TYPE);
	if (!json_is_object(j) || oci_parse_manifest(p->original, &p->m, &ignored) < 0)
		return;
	if (p->m.n_layers != p->x.n || strcmp(p->m.config.digest, p->x.image.id) != 0)
		oci_manifest_done(&p->m);
}

/* The media type of layer @i in OCI's terms, by the end of its type in the original. */
static const char *push_original_type(const struct push *p, size_t i)
{
	AUTO_JSON json_t *j = json_loads(p->original, JSON_REJECT_DUPLICATES, NULL);
	const json_t *layer = json_array_get(json_object_get(j, "layers"), i);
	const char *type = json_string_value(json_object_get(layer, "mediaType"));
	size_t n = type ? strlen(type) : 0;

	if (n > 4 && strcmp(type + n - 4, "gzip") == 0)
		return oci_export_type(PACK_GZIP);
	return oci_export_type(n > 4 && strcmp(type + n - 4, "zstd") == 0 ? PACK_ZSTD
									  : PACK_NONE);
}

/* A repository of the same registry with the same image may have its blobs. */
static int push_add_source(void *ctx, const char *text, const char *id)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct push *p = ctx;
	struct ref ref;

	if (strcmp(id, p->x.image.id) != 0 || p->n_sources == SOURCES_MAX ||
	    ref_parse(text, &ref, &ignored) < 0 ||
	    strcmp(ref.registry, p->to->registry) != 0 ||
	    strcmp(ref.name, p->to->name) == 0)
		return 0;
	for (size_t i = 0; i < p->n_sources; i++)
		if (strcmp(p->sources[i], ref.name) == 0)
			return 0;
	(void)strcpy(p->sources[p->n_sources++], ref.name);
	return 0;
}

/* Whether the registry has the blob, or lets this repository use it: 1 or 0. */
static int push_find_blob(struct push *p, const char *digest, struct warren_error *err)
{
	int r = registry_has_blob(p->registry, digest, err);

	for (size_t i = 0; r == 0 && i < p->n_sources; i++)
		r = registry_mount_blob(p->registry, digest, p->sources[i], err);
	return r;
}

/* 1: the original blob of layer @i is in the repository. */
static int push_keep(struct push *p, size_t i, struct warren_error *err)
{
	struct export_layer *l = &p->x.layers[i];
	int r = p->m.n_layers ? push_find_blob(p, p->m.layers[i].digest, err) : 0;

	if (r <= 0)
		return r;
	(void)strcpy(l->blob.diff_id, p->x.image.layers[i]);
	(void)strcpy(l->blob.digest, p->m.layers[i].digest);
	l->blob.size = p->m.layers[i].size;
	l->type = push_original_type(p, i);
	p->kept++;
	return 1;
}

/* ------------------------------------------------------------------- uploads */

struct push_spool {
	struct push *push;
	int fd;
};

static int push_spool_take(void *ctx, const void *data, size_t n,
			   struct warren_error *err)
{
	struct push_spool *spool = ctx;
	int r = fd_write_all(spool->fd, data, n);

	if (r < 0)
		return error_errno(err, -r, "write to the store");
	return export_progress_add(&spool->push->progress, n, err);
}

/* The progress of an upload; other requests may be cancelled. */
static int push_on_progress(void *ctx, const struct registry_blob *blobs, size_t n)
{
	struct push *p = ctx;
	struct export_progress *progress = &p->progress;

	if (n == 0 || progress->layers[progress->current].state != OCI_UPLOADING)
		return oci_cancelled(progress->options, &p->failed) < 0;
	progress->layers[progress->current].done = blobs->done;
	return export_progress_add(progress, 0, &p->failed) < 0;
}

static int push_upload(struct push *p, const char *digest, uint64_t size, int fd,
		       struct warren_error *err)
{
	struct registry_blob blob = { .digest = digest, .size = size, .fd = fd };

	return registry_push_blob(p->registry, &blob, err);
}

static int push_layer(struct push *p, size_t i, struct warren_error *err)
{
	struct export_layer *l = &p->x.layers[i];
	struct oci_layer *shown = &p->progress.layers[i];
	AUTO_CLOSE int fd = oci_work_file(p->store, err);
	struct push_spool spool = { p, fd };
	const struct layer_blob_sink sink = { push_spool_take, &spool };
	int r = fd < 0 ? fd : export_progress_state(&p->progress, i, OCI_PACKING, err);

	if (r == 0)
		r = layer_blob_write(p->store, p->x.image.layers[i], PACK_GZIP, &sink,
				     &l->blob, err);
	if (r < 0)
		return r;
	l->type = oci_export_type(PACK_GZIP);
	(void)strcpy(shown->digest, l->blob.digest);
	shown->size = l->blob.size;
	r = registry_has_blob(p->registry, l->blob.digest, err);
	if (r != 0)
		return r < 0 ? r
			     : export_progress_state(&p->progress, i, OCI_PRESENT, err);
	r = export_progress_state(&p->progress, i, OCI_UPLOADING, err);
	if (r == 0)
		r = push_upload(p, l->blob.digest, l->blob.size, fd, err);
	return r < 0 ? r : export_progress_state(&p->progress, i, OCI_DONE, err);
}

static int push_layers(struct push *p, struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < p->x.n; i++) {
		r = push_keep(p, i, err);
		if (r == 0)
			r = push_layer(p, i, err);
		else if (r > 0)
			r = export_progress_state(&p->progress, i, OCI_PRESENT, err);
	}
	return r < 0 ? r : 0;
}

static int push_config(struct push *p, struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	int r = push_find_blob(p, p->x.id, err);

	if (r != 0)
		return r < 0 ? r : 0;
	fd = oci_work_file(p->store, err);
	if (fd < 0)
		return fd;
	r = fd_write_all(fd, p->x.config, strlen(p->x.config));
	if (r < 0)
		return error_errno(err, -r, "write to the store");
	return push_upload(p, p->x.id, strlen(p->x.config), fd, err);
}

/* -------------------------------------------------------------------- images */

static int push_open(struct push *p, const char *text, const struct oci_options *o,
		     struct warren_error *err)
{
	struct registry_options ro = o->registry;
	int r = oci_export_open(p->store, text, &p->x, err);

	if (r < 0)
		return r;
	push_read_original(p);
	if (p->m.n_layers)
		(void)store_each_ref(p->store, push_add_source, p);
	r = export_progress_init(&p->progress, o, p->x.n);
	if (r < 0)
		return error_errno(err, -r, "list its layers");
	for (size_t i = 0; i < p->x.n; i++) {
		(void)strcpy(p->progress.layers[i].digest, p->x.image.layers[i]);
		(void)strcpy(p->progress.layers[i].diff_id, p->x.image.layers[i]);
	}
	ro.progress = push_on_progress;
	ro.ctx = p;
	return registry_open(p->to, &ro, &p->registry, err);
}

static int push_manifest(struct push *p, char ret_digest[REF_DIGEST_LEN + 1],
			 struct warren_error *err)
{
	bool original = p->m.n_layers && p->kept == p->x.n;
	const char *text = original ? p->original : p->x.manifest;
	int r = registry_push_manifest(
		p->registry, original ? p->type : EXPORT_MANIFEST_TYPE, text, err);

	if (r == 0)
		oci_digest(text, strlen(text), ret_digest);
	return r;
}

static int push_image(struct push *p, const char *text, const struct oci_options *o,
		      char ret_digest[REF_DIGEST_LEN + 1], struct warren_error *err)
{
	int r = push_open(p, text, o, err);

	if (r == 0)
		r = push_layers(p, err);
	if (r == 0)
		r = oci_export_describe(p->store, &p->x, err);
	if (r == 0)
		r = push_config(p, err);
	return r == 0 ? push_manifest(p, ret_digest, err) : r;
}

int oci_push(const struct store *s, const char *text, const struct ref *to,
	     const struct oci_options *o, struct oci_pushed *ret,
	     struct warren_error *err)
{
	struct push p = { .store = s, .to = to };
	char name[REF_TEXT_MAX];
	int r;

	if (to->digest[0] || !to->tag[0])
		return error_set(err, EINVAL,
				 "push %.200s: give a tag, because the digest depends on "
				 "what is pushed",
				 text);
	r = push_image(&p, text, o, ret->digest, err);
	if (r == 0)
		(void)strcpy(ret->id, p.x.id);
	push_done(&p);
	ref_text(to, name);
	if (r < 0)
		return strstr(err->msg, name) ? r : error_wrap(err, "push %s", name);
	return 0;
}
