/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c - add the layer; write configuration, manifest and record */
#include "image/snapshot.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/strv.h"
#include "image/build_store.h"
#include "image/oci_internal.h"
#include "image/oci_json.h"

/* A snapshot in progress. */
struct snapshot {
	const struct store *store;
	const struct snapshot_options *options;
	struct store_image parent; /* locked; without an id: the parent is a base */
	char diff_id[REF_DIGEST_LEN + 1]; /* of the new layer; "": none */
	uint64_t size;
	json_t *config, *manifest;
};

bool snapshot_is_base(const char *image)
{
	return strcmp(image, "host") == 0 || strncmp(image, "dir:", 4) == 0 ||
	       store_daemon_image(image);
}

/* ------------------------------------------------------------- configuration */

static char *snapshot_now(char text[32])
{
	time_t now = time(NULL);
	struct tm tm;

	(void)gmtime_r(&now, &tm);
	(void)strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return text;
}

static int snapshot_load_json(const struct snapshot *p, const char *name, json_t **ret,
			      struct warren_error *err)
{
	AUTO_FREE char *text = NULL;
	int r = store_read_json(p->store, p->parent.id, name, &text);

	if (r == 0)
		*ret = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	if (r == 0 && !*ret)
		r = -EBADMSG;
	return r < 0 ? error_errno(err, -r, "read '%s' of image '%s'", name,
				   p->options->parent)
		     : 0;
}

/* Create the configuration of an image whose parent is not in the store. */
static int snapshot_base_json(struct snapshot *p, struct warren_error *err)
{
	const char *platform = oci_platform(), *slash = strchr(platform, '/');

	p->config = json_pack("{s:s%,s:s,s:{},s:{s:s,s:[]}}", "os", platform,
			      (size_t)(slash - platform), "architecture", slash + 1,
			      "config", "rootfs", "type", "layers", "diff_ids");
	p->manifest = json_pack("{s:i,s:s,s:[]}", "schemaVersion", 2, "mediaType",
				"application/vnd.oci.image.manifest.v1+json", "layers");
	return p->config && p->manifest ? 0
					: error_errno(err, ENOMEM, "describe the image");
}

static int snapshot_open_parent(struct snapshot *p, struct warren_error *err)
{
	const char *parent = p->options->parent;
	int r;

	if (snapshot_is_base(parent))
		return snapshot_base_json(p, err);
	r = store_find(p->store, parent, &p->parent, err);
	if (r == 0)
		r = snapshot_load_json(p, "config.json", &p->config, err);
	if (r == 0)
		r = snapshot_load_json(p, "manifest.json", &p->manifest, err);
	return r;
}

/* Arrays may be missing in a configuration from a registry. */
static json_t *snapshot_array(json_t *object, const char *key)
{
	json_t *list = json_object_get(object, key);

	if (!json_is_array(list) && json_object_set_new(object, key, json_array()) == 0)
		list = json_object_get(object, key);
	return list;
}

static bool snapshot_add_history(const struct snapshot *p, const char *now)
{
	const char *by = p->options->created_by;
	json_t *entry;

	if (!by)
		return true;
	entry = json_pack("{s:s,s:s}", "created", now, "created_by", by);
	if (entry && !p->diff_id[0] &&
	    json_object_set_new(entry, "empty_layer", json_true()) < 0)
		return false;
	return json_array_append_new(snapshot_array(p->config, "history"), entry) == 0;
}

static bool snapshot_add_layer(const struct snapshot *p)
{
	json_t *rootfs = json_object_get(p->config, "rootfs");

	if (!p->diff_id[0])
		return true;
	return json_array_append_new(snapshot_array(rootfs, "diff_ids"),
				     json_string(p->diff_id)) == 0 &&
	       json_array_append_new(snapshot_array(p->manifest, "layers"),
				     json_pack("{s:s,s:s,s:I}", "mediaType",
					       "application/vnd.oci.image.layer.v1.tar",
					       "digest", p->diff_id, "size",
					       (json_int_t)p->size)) == 0;
}

/* The base is part of the configuration, so that the id depends on it. */
static int snapshot_configure(struct snapshot *p, const char *base,
			      struct warren_error *err)
{
	char now[32];
	bool fine = json_object_set_new(p->config, "created",
					json_string(snapshot_now(now))) == 0;

	if (p->options->config) {
		json_t *config =
			json_loads(p->options->config, JSON_REJECT_DUPLICATES, NULL);

		if (!json_is_object(config)) {
			json_decref(config);
			return error_set(err, EINVAL,
					 "the new configuration is not a JSON object");
		}
		fine = fine && json_object_set_new(p->config, "config", config) == 0;
	}
	if (base[0])
		fine = fine && json_object_set_new(p->config, "warren.base",
						   json_string(base)) == 0;
	fine = fine && snapshot_add_layer(p) && snapshot_add_history(p, now);
	return fine ? 0 : error_errno(err, ENOMEM, "describe the image");
}

/* The manifest names the configuration, whose text is final now. */
static char *snapshot_manifest(struct snapshot *p, const char *config)
{
	char digest[REF_DIGEST_LEN + 1];

	oci_digest(config, strlen(config), digest);
	if (json_object_set_new(p->manifest, "config",
				json_pack("{s:s,s:s,s:I}", "mediaType",
					  "application/vnd.oci.image.config.v1+json",
					  "digest", digest, "size",
					  (json_int_t)strlen(config))) < 0)
		return NULL;
	return json_dumps(p->manifest, JSON_COMPACT);
}

static int snapshot_put(struct snapshot *p, const struct ref *name,
			char ret_id[REF_DIGEST_LEN + 1], struct warren_error *err)
{
	const char *base = p->parent.id[0] ? p->parent.base : p->options->parent;
	AUTO_FREE char *config = NULL, *manifest = NULL;
	struct store_image image = { .lock = -1 };
	int r = snapshot_configure(p, base, err);

	if (r < 0)
		return r;
	config = json_dumps(p->config, JSON_COMPACT);
	manifest = config ? snapshot_manifest(p, config) : NULL;
	if (!manifest)
		return error_errno(err, ENOMEM, "describe the image");
	r = oci_parse_config(config, &image, err);
	if (r == 0 && strv_len(image.layers) > STORE_LAYERS_MAX)
		r = error_set(err, E2BIG,
			      "it would have more than %d layers, the maximum",
			      STORE_LAYERS_MAX);
	if (r == 0) {
		const char *id = p->options->snapshot;

		image.base = strdup(base);
		image.snapshot = strdup(id ? id : "");
		r = image.base && image.snapshot
			    ? 0
			    : error_errno(err, ENOMEM, "describe the image");
	}
	if (r == 0)
		r = oci_record(p->store, &image, manifest, config, name, err);
	if (r == 0)
		(void)strcpy(ret_id, image.id);
	store_image_done(&image);
	return r;
}

int snapshot_record(const struct store *s, struct snapshot_layer *layer,
		    const struct snapshot_options *o, const struct ref *name,
		    char ret_id[REF_DIGEST_LEN + 1], struct warren_error *err)
{
	struct snapshot p = { .store = s, .options = o, .parent = { .lock = -1 } };
	int r = snapshot_open_parent(&p, err);

	if (r == 0 && layer) {
		(void)strcpy(p.diff_id, layer->diff_id);
		p.size = layer->size;
		r = build_store_layer(s, &layer->dir, p.diff_id, p.size, err);
	}
	if (r == 0)
		r = snapshot_put(&p, name, ret_id, err);
	store_image_done(&p.parent);
	json_decref(p.config);
	json_decref(p.manifest);
	return r;
}
