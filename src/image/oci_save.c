/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_save.c - write images as one archive, for docker, podman, skopeo and Warren
 *
 * The archive is an OCI layout that also has docker's manifest.json, as docker save
 * writes it since version 25. It is written in one go, to a pipe or a file. The name of a
 * blob is its digest, which comes before its bytes: so each layer is packed twice, first
 * to learn its digest and size. A compressed layer is kept in an unnamed file of the
 * store instead, because compression takes longer than a copy.
 *
 * The archive depends only on the contents of the store: it contains no times.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/strv.h"
#include "image/oci_export.h"
#include "image/oci_internal.h"
#include "image/oci_json.h"
#include "image/unpack_queue.h"

#define COPY_BLOCK (256U << 10)
#define AUTO_JSON  CLEANUP(json_decrefp)

/* A blob that is in the archive. */
struct save_blob {
	struct save_blob *next;
	char digest[REF_DIGEST_LEN + 1];
};

struct save {
	const struct store *store;
	const struct oci_options *options;
	enum pack_kind kind;
	int out;
	struct save_blob *blobs;
	void (*saved)(void *ctx, const char *id, const char *ref);
	json_t *index, *docker; /* the lists of images */
	struct export_progress progress;
};

/* ------------------------------------------------------------------- members */

static int save_bytes(const struct save *s, const void *data, size_t n,
		      struct warren_error *err)
{
	int r = fd_write_all(s->out, data, n);

	return r < 0 ? error_errno(err, -r, "write the archive") : 0;
}

static int save_header(const struct save *s, const char *name, char type, uint64_t size,
		       struct warren_error *err)
{
	AUTO_BUF struct buf head = BUF_INIT(8192), pax = BUF_INIT(4096);
	const struct tar_header h = { .name = name,
				      .link = "",
				      .type = type,
				      .mode = type == '5' ? 0755 : 0644,
				      .size = size };

	tar_put_header(&head, &h, &pax);
	return head.failed ? error_errno(err, ENOMEM, "write the archive")
			   : save_bytes(s, head.data, head.len, err);
}

static int save_padding(const struct save *s, uint64_t size, struct warren_error *err)
{
	static const char zeros[TAR_BLOCK];

	return save_bytes(s, zeros, (size_t)(-size % TAR_BLOCK), err);
}

static int save_text(const struct save *s, const char *name, const char *text,
		     struct warren_error *err)
{
	size_t n = strlen(text);
	int r = save_header(s, name, '0', n, err);

	if (r == 0)
		r = save_bytes(s, text, n, err);
	return r == 0 ? save_padding(s, n, err) : r;
}

/* Return whether the archive has the blob; if not, it will. -ENOMEM. */
static int save_has_blob(struct save *s, const char *digest)
{
	struct save_blob *b;

	for (b = s->blobs; b; b = b->next)
		if (strcmp(b->digest, digest) == 0)
			return 1;
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	(void)strcpy(b->digest, digest);
	b->next = s->blobs;
	s->blobs = b;
	return 0;
}

static void save_blob_name(const char *digest, char name[96])
{
	(void)snprintf(name, 96, "blobs/sha256/%.64s", digest + 7);
}

static int save_text_blob(struct save *s, const char *digest, const char *text,
			  struct warren_error *err)
{
	char name[96];
	int r = save_has_blob(s, digest);

	if (r != 0)
		return r < 0 ? error_errno(err, -r, "write the archive") : 0;
	save_blob_name(digest, name);
	return save_text(s, name, text, err);
}

/* -------------------------------------------------------------------- layers */

/* Where the bytes of a layer go. */
struct save_target {
	struct save *save;
	int fd; /* -1: only count */
	uint64_t left;
};

static int save_take(void *ctx, const void *data, size_t n, struct warren_error *err)
{
	struct save_target *t = ctx;
	int r = export_progress_add(&t->save->progress, n, err);

	if (r < 0 || t->fd < 0)
		return r;
	if (n > t->left)
		return error_set(err, EIO, "the layer has changed while it was saved");
	t->left -= n;
	r = fd_write_all(t->fd, data, n);
	return r < 0 ? error_errno(err, -r,
				   t->fd == t->save->out ? "write the archive"
							 : "write to the store")
		     : 0;
}

static int save_pack(struct save *s, const char *diff_id, int fd, uint64_t size,
		     struct layer_blob *ret, struct warren_error *err)
{
	struct save_target target = { s, fd, size };
	const struct layer_blob_sink sink = { save_take, &target };

	return layer_blob_write(s->store, diff_id, s->kind, &sink, ret, err);
}

/* Copy the blob from an unnamed file. */
static int save_copy(struct save *s, int from, uint64_t size, struct warren_error *err)
{
	AUTO_FREE char *block = malloc(COPY_BLOCK);
	uint64_t at = 0;

	if (!block)
		return error_errno(err, ENOMEM, "write the archive");
	while (at < size) {
		ssize_t n = pread(from, block, COPY_BLOCK, (off_t)at);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return error_errno(err, n < 0 ? errno : EIO, "read the store");
		r = save_bytes(s, block, (size_t)n, err);
		if (r == 0)
			r = export_progress_add(&s->progress, 0, err);
		if (r < 0)
			return r;
		at += (uint64_t)n;
	}
	return 0;
}

/* Write the blob of a layer that is packed again, and must be the same. */
static int save_again(struct save *s, const char *diff_id, const struct layer_blob *first,
		      struct warren_error *err)
{
	struct layer_blob again;
	int r = save_pack(s, diff_id, s->out, first->size, &again, err);

	if (r == 0 && strcmp(again.digest, first->digest) != 0)
		r = error_set(err, EIO, "the layer has changed while it was saved");
	return r;
}

static int save_layer(struct save *s, const char *diff_id, struct export_layer *l,
		      struct warren_error *err)
{
	AUTO_CLOSE int spool = s->kind == PACK_NONE ? -1 : oci_work_file(s->store, err);
	char name[96];
	int r = s->kind != PACK_NONE && spool < 0 ? spool : 0;

	if (r == 0)
		r = save_pack(s, diff_id, spool, UINT64_MAX, &l->blob, err);
	if (r < 0)
		return r;
	l->type = oci_export_type(s->kind);
	l->known = true;
	r = save_has_blob(s, l->blob.digest);
	if (r != 0)
		return r < 0 ? error_errno(err, -r, "write the archive") : 0;
	save_blob_name(l->blob.digest, name);
	r = save_header(s, name, '0', l->blob.size, err);
	if (r == 0)
		r = spool < 0 ? save_again(s, diff_id, &l->blob, err)
			      : save_copy(s, spool, l->blob.size, err);
	return r == 0 ? save_padding(s, l->blob.size, err) : r;
}

static int save_layers(struct save *s, struct oci_export *x, struct warren_error *err)
{
	int r = export_progress_init(&s->progress, s->options, x->n);

	if (r < 0)
		return error_errno(err, -r, "list its layers");
	for (size_t i = 0; i < x->n; i++) {
		(void)strcpy(s->progress.layers[i].digest, x->image.layers[i]);
		(void)strcpy(s->progress.layers[i].diff_id, x->image.layers[i]);
	}
	for (size_t i = 0; r == 0 && i < x->n; i++) {
		r = export_progress_state(&s->progress, i, OCI_PACKING, err);
		if (r == 0)
			r = save_layer(s, x->image.layers[i], &x->layers[i], err);
		if (r == 0)
			r = export_progress_state(&s->progress, i, OCI_DONE, err);
	}
	export_progress_done(&s->progress);
	return r;
}

/* -------------------------------------------------------------------- images */

/* The entry of docker's manifest.json, with the name @tag or none. */
static json_t *save_docker_entry(const struct oci_export *x, const char *tag)
{
	json_t *layers = json_array();
	char name[96];

	for (size_t i = 0; layers && i < x->n; i++) {
		save_blob_name(x->layers[i].blob.digest, name);
		if (json_array_append_new(layers, json_string(name)) < 0) {
			json_decref(layers);
			return NULL;
		}
	}
	save_blob_name(x->id, name);
	return json_pack("{s:s,s:o,s:o}", "Config", name, "RepoTags",
			 *tag ? json_pack("[s]", tag) : json_null(), "Layers", layers);
}

static json_t *save_index_entry(const struct oci_export *x, const struct ref *ref,
				const char *name)
{
	json_t *j =
		json_pack("{s:s,s:s,s:I}", "mediaType", EXPORT_MANIFEST_TYPE, "digest",
			  x->manifest_digest, "size", (json_int_t)strlen(x->manifest));

	if (j && *name &&
	    json_object_set_new(j, "annotations",
				json_pack("{s:s,s:s}", "io.containerd.image.name", name,
					  "org.opencontainers.image.ref.name",
					  ref->tag)) < 0) {
		json_decref(j);
		return NULL;
	}
	return j;
}

static int save_lists(struct save *s, const struct oci_export *x, const struct ref *ref,
		      struct warren_error *err)
{
	char name[REF_TEXT_MAX] = "", familiar[REF_TEXT_MAX] = "";

	if (ref) {
		ref_text(ref, name);
		ref_familiar(ref, familiar);
	}
	if (json_array_append_new(s->docker, save_docker_entry(x, familiar)) < 0 ||
	    json_array_append_new(s->index, save_index_entry(x, ref, name)) < 0)
		return error_errno(err, ENOMEM, "write the archive");
	return 0;
}

/* The name of the image in the archive; NULL: it is meant by its id, even a short one. */
static const struct ref *save_name(const struct save *s, const char *text,
				   struct ref *room)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct store_image image;
	char full[REF_TEXT_MAX];

	if (strncmp(text, "sha256:", 7) == 0 || ref_parse(text, room, &ignored) < 0 ||
	    !room->tag[0])
		return NULL;
	ref_text(room, full);
	if (store_find(s->store, full, &image, &ignored) < 0)
		return NULL;
	store_image_done(&image);
	room->digest[0] = '\0';
	return room;
}

/* An image to save, which stays locked until the archive is complete. */
struct save_image {
	struct oci_export x;
	struct ref room;
	const struct ref *name; /* NULL: none */
};

static int save_image(struct save *s, struct save_image *im, struct warren_error *err)
{
	struct oci_export *x = &im->x;
	char text[REF_TEXT_MAX];
	int r = save_layers(s, x, err);

	if (r == 0)
		r = oci_export_describe(s->store, x, err);
	if (r == 0)
		r = save_text_blob(s, x->id, x->config, err);
	if (r == 0)
		r = save_text_blob(s, x->manifest_digest, x->manifest, err);
	if (r == 0)
		r = save_lists(s, x, im->name, err);
	if (r == 0 && s->saved) {
		if (im->name)
			ref_text(im->name, text);
		s->saved(s->options->ctx, x->id, im->name ? text : NULL);
	}
	return r;
}

static int save_json(const struct save *s, const char *name, const json_t *j,
		     struct warren_error *err)
{
	AUTO_FREE char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	return text ? save_text(s, name, text, err)
		    : error_errno(err, ENOMEM, "write the archive");
}

static int save_end(const struct save *s, struct warren_error *err)
{
	static const char zeros[2 * TAR_BLOCK];
	AUTO_JSON json_t *index = json_pack(
		"{s:i,s:s,s:O}", "schemaVersion", 2, "mediaType",
		"application/vnd.oci.image.index.v1+json", "manifests", s->index);
	int r = save_json(s, "index.json", index, err);

	if (r == 0)
		r = save_json(s, "manifest.json", s->docker, err);
	return r == 0 ? save_bytes(s, zeros, sizeof(zeros), err) : r;
}

static int save_all(struct save *s, const char *const *texts, struct save_image *images,
		    struct warren_error *err)
{
	int r = save_text(s, "oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}", err);

	if (r == 0)
		r = save_header(s, "blobs/", '5', 0, err);
	if (r == 0)
		r = save_header(s, "blobs/sha256/", '5', 0, err);
	for (size_t i = 0; r == 0 && texts[i]; i++) {
		r = save_image(s, &images[i], err);
		if (r < 0)
			return error_wrap(err, "save %.200s", texts[i]);
	}
	return r == 0 ? save_end(s, err) : r;
}

static int save_open_images(const struct save *s, const char *const *texts,
			    struct save_image *images, struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && texts[i]; i++) {
		r = oci_export_open(s->store, texts[i], &images[i].x, err);
		if (r == 0)
			images[i].name = save_name(s, texts[i], &images[i].room);
	}
	return r;
}

int oci_save(const struct store *store, const char *const *texts, enum pack_kind kind,
	     int out, const struct oci_options *o,
	     void (*saved)(void *ctx, const char *id, const char *ref),
	     struct warren_error *err)
{
	struct save s = { .store = store,
			  .options = o,
			  .kind = kind,
			  .out = out,
			  .saved = saved,
			  .index = json_array(),
			  .docker = json_array() };
	size_t n = strv_len(texts);
	AUTO_FREE struct save_image *images = calloc(n + 1, sizeof(*images));
	int r = s.index && s.docker && images
			? 0
			: error_errno(err, ENOMEM, "write the archive");

	if (r == 0)
		r = save_open_images(&s, texts, images, err);
	if (r == 0)
		r = save_all(&s, texts, images, err);
	for (size_t i = 0; images && i < n; i++)
		oci_export_done(&images[i].x);
	json_decref(s.index);
	json_decref(s.docker);
	while (s.blobs) {
		struct save_blob *b = s.blobs;

		s.blobs = b->next;
		free(b);
	}
	return r;
}
