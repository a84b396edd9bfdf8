/* SPDX-License-Identifier: Apache-2.0 */
/* oci.c - pull images; record and name images (load and import use this too) */
#include "image/oci.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/fd.h"
#include "base/strv.h"
#include "image/oci_internal.h"
#include "image/oci_json.h"
#include "image/store_collect.h"
#include "image/unpack_queue.h"

#define PAUSE_MS 20 /* time between two tries to get a lock */

const char *oci_platform(void)
{
	static const struct {
		const char *machine, *platform;
	} known[] = {
		{ "x86_64", "linux/amd64" },
		{ "aarch64", "linux/arm64" },
	};
	struct utsname u;

	for (size_t i = 0; uname(&u) == 0 && i < ARRAY_SIZE(known); i++)
		if (strcmp(u.machine, known[i].machine) == 0)
			return known[i].platform;
	return "linux/unknown";
}

const char *oci_wanted_platform(const struct oci_options *o)
{
	return o->platform ? o->platform : oci_platform();
}

int oci_cancelled(const struct oci_options *o, struct warren_error *err)
{
	if (o->progress && o->progress(o->ctx, NULL, 0) != 0)
		return error_set(err, ECANCELED, "cancelled");
	return 0;
}

int oci_pause(const struct oci_options *o, struct warren_error *err)
{
	(void)poll(NULL, 0, PAUSE_MS);
	return oci_cancelled(o, err);
}

bool oci_unpack_cancelled(void *ctx)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	return oci_cancelled(ctx, &ignored) < 0;
}

int oci_lock(const struct store *s, const struct oci_options *o, struct warren_error *err)
{
	int r;

	while ((r = store_lock(s, false, false)) == -EWOULDBLOCK) {
		r = oci_pause(o, err);
		if (r < 0)
			return r;
	}
	return r < 0 ? error_errno(err, -r, "lock the store") : 0;
}

/* Write the total size of the layers, then the record, then the name. */
int oci_record(const struct store *s, struct store_image *image, const char *manifest,
	       const char *config, const struct ref *name, struct warren_error *err)
{
	int r;

	image->size = 0;
	for (char **l = image->layers; *l; l++)
		image->size += store_layer_size(s, *l);
	oci_digest(manifest, strlen(manifest), image->manifest);
	r = store_put_image(s, image, manifest, config, err);
	return r < 0 || !name ? r : store_tag(s, name, image->id, err);
}

/* ------------------------------------------------------------------- pull */

struct pull {
	struct registry *registry;
	struct buf manifest;
	char *config;
	struct oci_manifest m;
	struct store_image image;
	struct oci_work work;
	struct registry_blob *blobs; /* to fetch */
	size_t *layer_of;            /* the layer that each blob belongs to */
	size_t n_blobs;
	struct store_claim claim;
	struct warren_error failed; /* a worker's error that a callback noticed */
};

static void pull_done(struct pull *p, const struct store *s)
{
	oci_work_close(&p->work);
	store_claim_end(s, &p->claim);
	oci_manifest_done(&p->m);
	store_image_done(&p->image);
	buf_done(&p->manifest);
	free(p->config);
	free(p->blobs);
	free(p->layer_of);
	p->registry = registry_close(p->registry);
}

/* Get the manifest for this platform: by tag or digest, possibly through an index. */
static int oci_fetch_manifest(struct pull *p, const struct ref *ref, const char *platform,
			      struct warren_error *err)
{
	const char *what = ref->digest[0] ? ref->digest : ref->tag;
	char type[128], digest[REF_DIGEST_LEN + 1], chosen[REF_DIGEST_LEN + 1];
	int r = registry_manifest(p->registry, what, &p->manifest, type, digest, err);

	for (int depth = 0; r == 0 && oci_is_index(p->manifest.data, type); depth++) {
		if (depth == 2)
			return error_set(err, EBADMSG,
					 "its index contains only other indexes");
		r = oci_choose(p->manifest.data, platform, chosen, err);
		if (r < 0)
			return r;
		buf_done(&p->manifest);
		r = registry_manifest(p->registry, chosen, &p->manifest, type, digest,
				      err);
	}
	return r < 0 ? r : oci_parse_manifest(p->manifest.data, &p->m, err);
}

static int fetch_config(struct pull *p, const struct store *s, struct warren_error *err)
{
	AUTO_CLOSE int fd = oci_work_file(s, err);
	struct registry_blob blob = { .digest = p->m.config.digest,
				      .size = p->m.config.size,
				      .fd = fd };
	ssize_t n;
	int r;

	if (fd < 0)
		return fd;
	r = registry_fetch(p->registry, &blob, 1, err);
	if (r < 0)
		return r;
	p->config = calloc(1, p->m.config.size + 1);
	if (!p->config)
		return error_errno(err, ENOMEM, "read its configuration");
	n = pread(fd, p->config, p->m.config.size, 0);
	if (n != (ssize_t)p->m.config.size || strlen(p->config) != p->m.config.size)
		return error_set(err, EBADMSG, "its configuration is not text");
	return oci_parse_config(p->config, &p->image, err);
}

/* List the missing layers as blobs to fetch. */
static int list_blobs(struct pull *p, const struct store *s, struct warren_error *err)
{
	p->blobs = calloc(p->m.n_layers + 1, sizeof(*p->blobs));
	p->layer_of = calloc(p->m.n_layers + 1, sizeof(*p->layer_of));
	if (!p->blobs || !p->layer_of)
		return error_errno(err, ENOMEM, "list its layers");
	for (size_t i = 0; i < p->m.n_layers; i++) {
		struct oci_layer *l = &p->work.layers[i];
		int fd;

		(void)strcpy(l->digest, p->m.layers[i].digest);
		l->size = p->m.layers[i].size;
		if (l->state == OCI_PRESENT)
			continue;
		fd = oci_work_file(s, err);
		if (fd < 0)
			return fd;
		p->work.state[i].blob = fd;
		p->layer_of[p->n_blobs] = i;
		p->blobs[p->n_blobs++] = (struct registry_blob){
			.digest = p->m.layers[i].digest, .size = l->size, .fd = fd
		};
	}
	return 0;
}

/* Complete blobs are unpacked while others are downloaded. */
static int on_progress(void *ctx, const struct registry_blob *blobs, size_t n)
{
	struct pull *p = ctx;

	/* This is for a manifest, a login, or the configuration. */
	if (!p->blobs || blobs != p->blobs)
		return oci_cancelled(p->work.options, &p->failed);
	for (size_t i = 0; i < n; i++) {
		struct oci_layer *l = &p->work.layers[p->layer_of[i]];

		l->done = blobs[i].done;
		if (blobs[i].verified)
			p->work.state[p->layer_of[i]].ready = true;
		else if (l->state == OCI_WAITING && l->done > 0)
			l->state = OCI_DOWNLOADING;
	}
	return oci_work_step(&p->work, &p->failed) < 0;
}

static int fetch_layers(struct pull *p, struct warren_error *err)
{
	int r = p->n_blobs ? registry_fetch(p->registry, p->blobs, p->n_blobs, err) : 0;

	if (r < 0 && p->failed.code) {
		*err = p->failed;
		return -err->code;
	}
	if (r < 0)
		return r;
	(void)on_progress(p, p->blobs, p->n_blobs);
	if (p->failed.code) {
		*err = p->failed;
		return -err->code;
	}
	return oci_work_finish(&p->work, err);
}

/* An image without an index states its platform only in its configuration. */
static int check_platform(const struct pull *p, const char *wanted,
			  struct warren_error *err)
{
	const char *have = p->image.platform;
	size_t n = strlen(have) < strlen(wanted) ? strlen(have) : strlen(wanted);

	/* "linux/arm" and "linux/arm/v7" match each other. */
	if (n > 0 && strncmp(have, wanted, n) == 0 &&
	    (have[n] == '\0' || have[n] == '/') &&
	    (wanted[n] == '\0' || wanted[n] == '/'))
		return 0;
	return error_set(err, ENOENT, "it is for %s, not for %s", have, wanted);
}

/* The registry may take its time, so the store is not locked. */
static int pull_layers(struct pull *p, const struct store *s, const struct ref *ref,
		       const struct oci_options *o, struct warren_error *err)
{
	struct registry_options ro = o->registry;
	size_t n;
	int r;

	ro.progress = on_progress;
	ro.ctx = p;
	r = registry_open(ref, &ro, &p->registry, err);
	if (r == 0)
		r = oci_fetch_manifest(p, ref, oci_wanted_platform(o), err);
	if (r == 0)
		r = fetch_config(p, s, err);
	if (r == 0)
		r = check_platform(p, oci_wanted_platform(o), err);
	if (r < 0)
		return r;
	n = strv_len(p->image.layers);
	if (n != p->m.n_layers)
		return error_set(
			err, EBADMSG,
			"its manifest has %zu layers, but its configuration has %zu",
			p->m.n_layers, n);
	r = oci_work_plan(&p->work, p->image.layers, &p->claim, err);
	if (r == 0)
		r = list_blobs(p, s, err);
	return r < 0 ? r : fetch_layers(p, err);
}

int oci_pull(const struct store *s, const struct ref *ref, const struct oci_options *o,
	     char ret_id[REF_DIGEST_LEN + 1], struct warren_error *err)
{
	struct pull p = { .manifest = BUF_INIT(REGISTRY_MANIFEST_MAX),
			  .image = { .lock = -1 },
			  .claim = STORE_CLAIM_NONE };
	char text[REF_TEXT_MAX];
	int r;

	store_tidy(s, false);
	r = oci_work_open(&p.work, s, o, err);
	if (r == 0)
		r = pull_layers(&p, s, ref, o, err);
	if (r == 0)
		r = oci_lock(s, o, err);
	if (r == 0) {
		r = oci_record(s, &p.image, p.manifest.data, p.config, ref, err);
		store_unlock(s);
	}
	if (r == 0)
		(void)strcpy(ret_id, p.image.id);
	pull_done(&p, s);
	if (r < 0) {
		store_tidy(s, true);
		ref_text(ref, text);
		/* Errors of the registry already contain the name. */
		return strstr(err->msg, text) ? r : error_wrap(err, "pull %s", text);
	}
	return 0;
}
