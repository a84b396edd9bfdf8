/* SPDX-License-Identifier: Apache-2.0 */
/* oci_export.c - build the configuration and manifest of an image that is exported */
#include "image/oci_export.h"

#include <errno.h>
#include <jansson.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/strv.h"
#include "image/oci_json.h"
#include "image/store_write.h"
#include "os/ns.h"

#define CONFIG_TYPE "application/vnd.oci.image.config.v1+json"
#define LAYER_TYPE  "application/vnd.oci.image.layer.v1.tar"
#define TELL_NS     100000000ULL

#define AUTO_JSON CLEANUP(json_decrefp)

const char *oci_export_type(enum pack_kind kind)
{
	return kind == PACK_GZIP   ? LAYER_TYPE "+gzip"
	       : kind == PACK_ZSTD ? LAYER_TYPE "+zstd"
				   : LAYER_TYPE;
}

int oci_export_open(const struct store *s, const char *text, struct oci_export *ret,
		    struct warren_error *err)
{
	struct oci_export x = { 0 };
	int r = store_find(s, text, &x.image, err);

	if (r == 0 && x.image.base[0]) {
		r = error_set(err, EOPNOTSUPP,
			      "image '%s' is stacked on '%s', which exists only on this "
			      "machine; to save or push it, build it FROM another image",
			      text, x.image.base);
		store_image_done(&x.image);
	}
	if (r < 0)
		return r;
	x.n = strv_len(x.image.layers);
	x.layers = calloc(x.n + 1, sizeof(*x.layers));
	if (!x.layers) {
		store_image_done(&x.image);
		return error_errno(err, ENOMEM, "list its layers");
	}
	*ret = x;
	return 0;
}

void oci_export_done(struct oci_export *x)
{
	if (!x->layers)
		return;
	store_image_done(&x->image);
	free(x->layers);
	free(x->config);
	free(x->manifest);
	*x = (struct oci_export){ 0 };
}

/* Return whether all layers have their recorded diff ids. */
static bool oci_export_unchanged(const struct oci_export *x)
{
	for (size_t i = 0; i < x->n; i++)
		if (strcmp(x->layers[i].blob.diff_id, x->image.layers[i]) != 0)
			return false;
	return true;
}

/* The configuration with other diff ids; the rest stays as it is. */
static char *oci_export_config(const struct oci_export *x, const char *old)
{
	AUTO_JSON json_t *j = json_loads(old, JSON_REJECT_DUPLICATES, NULL);
	AUTO_JSON json_t *ids = json_array();
	json_t *rootfs = json_object_get(j, "rootfs");
	bool fine = json_is_object(rootfs) && ids;

	for (size_t i = 0; fine && i < x->n; i++)
		fine = json_array_append_new(ids,
					     json_string(x->layers[i].blob.diff_id)) == 0;
	fine = fine && json_object_set(rootfs, "diff_ids", ids) == 0;
	return fine ? json_dumps(j, JSON_COMPACT) : NULL;
}

static json_t *oci_export_descriptor(const char *type, const char *digest, uint64_t size)
{
	return json_pack("{s:s,s:s,s:I}", "mediaType", type, "digest", digest, "size",
			 (json_int_t)size);
}

static char *oci_export_manifest(const struct oci_export *x)
{
	AUTO_JSON json_t *layers = json_array(), *j = NULL;
	bool fine = layers;

	for (size_t i = 0; fine && i < x->n; i++) {
		const struct export_layer *l = &x->layers[i];

		fine = json_array_append_new(
			       layers, oci_export_descriptor(l->type, l->blob.digest,
							     l->blob.size)) == 0;
	}
	if (fine)
		j = json_pack(
			"{s:i,s:s,s:o,s:O}", "schemaVersion", 2, "mediaType",
			EXPORT_MANIFEST_TYPE, "config",
			oci_export_descriptor(CONFIG_TYPE, x->id, strlen(x->config)),
			"layers", layers);
	return j ? json_dumps(j, JSON_COMPACT) : NULL;
}

int oci_export_describe(const struct store *s, struct oci_export *x,
			struct warren_error *err)
{
	AUTO_FREE char *old = NULL;
	int r = store_read_json(s, x->image.id, "config.json", &old);

	if (r < 0)
		return error_errno(err, -r, "read its configuration");
	oci_digest(old, strlen(old), x->id);
	if (strcmp(x->id, x->image.id) != 0)
		return error_set(err, EBADMSG,
				 "its configuration is damaged: it has the digest %.19s",
				 x->id);
	x->config = oci_export_unchanged(x) ? TAKE_PTR(old) : oci_export_config(x, old);
	if (!x->config)
		return error_set(err, EBADMSG, "its configuration cannot be rewritten");
	oci_digest(x->config, strlen(x->config), x->id);
	x->manifest = oci_export_manifest(x);
	if (!x->manifest)
		return error_errno(err, ENOMEM, "write its manifest");
	oci_digest(x->manifest, strlen(x->manifest), x->manifest_digest);
	return 0;
}

int oci_own_layers(struct warren_error *err)
{
	const struct ns_maps maps = { .n_uid = 1,
				      .n_gid = 1,
				      .uid = { { 0, geteuid(), 1 } },
				      .gid = { { 0, getegid(), 1 } } };

	if (geteuid() == 0)
		return 0;
	if (unshare(CLONE_NEWUSER) < 0)
		return error_errno(err, errno, "create a user namespace");
	return ns_write_maps(getpid(), &maps, false, err);
}

/* ------------------------------------------------------------------ progress */

int export_progress_init(struct export_progress *p, const struct oci_options *o, size_t n)
{
	*p = (struct export_progress){ .options = o, .n = n };
	p->layers = calloc(n + 1, sizeof(*p->layers));
	return p->layers ? 0 : -ENOMEM;
}

void export_progress_done(struct export_progress *p)
{
	free(p->layers);
	p->layers = NULL;
}

static int export_progress_tell(struct export_progress *p, struct warren_error *err)
{
	const struct oci_options *o = p->options;

	p->told = clock_now();
	if (o->progress && o->progress(o->ctx, p->layers, p->n) != 0)
		return error_set(err, ECANCELED, "cancelled");
	return 0;
}

int export_progress_state(struct export_progress *p, size_t i, enum oci_state state,
			  struct warren_error *err)
{
	p->current = i;
	p->layers[i].state = state;
	p->layers[i].done = 0;
	return export_progress_tell(p, err);
}

int export_progress_add(struct export_progress *p, uint64_t n, struct warren_error *err)
{
	p->layers[p->current].done += n;
	return clock_now() - p->told < TELL_NS ? 0 : export_progress_tell(p, err);
}
