/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create_mounts.c - the mounts of a CreateSandbox
 *
 * Clients name volumes; the warden knows only their ids. Until mounts_finish(), a mount
 * has the name of its volume as source, as it is shown to clients.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1/sandbox.h"
#include "config/config.h"
#include "proto/warden_proto.h"
#include "warden/warden.h"

static int mounts_refuse(struct api_error *err, enum api_code code, size_t i,
			 const char *why)
{
	int r = api_error_set(err, code, "/mounts/%zu: %s", i, why);

	api_error_text(err, "pointer", "/mounts/%zu", i);
	return r;
}

/* Find the volume of the mount @i, and note its id. */
static int mounts_read_volume(struct v1 *v1, const char *tenant, struct wanted *w,
			      size_t i, struct api_error *err)
{
	AUTO_VOLUME_ROW struct volume_row row = { 0 };
	struct warren_error why = WARREN_ERROR_INIT;
	struct warren_mount *m = &w->mounts[i];
	int r;

	if (!w->backend->volumes) {
		r = api_error_set(err, API_ERR_NOT_SUPPORTED,
				  "/mounts/%zu: backend '%s' (kind %s) cannot mount "
				  "volumes",
				  i, w->backend->name, w->backend->kind);
		api_error_text(err, "pointer", "/mounts/%zu", i);
		api_error_text(err, "backend", "%s", w->backend->name);
		return r;
	}
	if (!v1->policy->volumes)
		return mounts_refuse(err, API_ERR_NOT_SUPPORTED, i,
				     "a private service has no volumes; start "
				     "'warren serve'");
	r = db_get_volume(service_db(v1->service), tenant, m->source, &row, &why);
	if (r == -ENOENT)
		return mounts_refuse(err, API_ERR_VOLUME_NOT_FOUND, i, why.msg);
	if (r < 0)
		return api_error_from(err, &why);
	m->volume = true;
	(void)memcpy(w->volume_ids[w->n_volumes], row.id, sizeof(row.id));
	w->volumes[w->n_volumes] = w->volume_ids[w->n_volumes];
	w->n_volumes++;
	return 0;
}

static int mounts_read_one(struct v1 *v1, const char *tenant, const struct body *body,
			   struct wanted *w, size_t i, struct api_error *err)
{
	struct body m = body_element(body, "mounts", i);
	const char *volume = body_text(&m, "volume");

	w->mounts[i] = (struct warren_mount){
		.source = volume ? volume : body_text(&m, "source"),
		.target = body_text(&m, "target"),
		.read_only = body_bool(&m, "read_only"),
		.size = body_size(&m, "size"),
	};
	if (!volume)
		return 0;
	if (body_has(&m, "source") || body_has(&m, "size"))
		return mounts_refuse(err, API_ERR_INVALID_REQUEST, i,
				     "with 'volume', neither 'source' nor 'size' is "
				     "allowed");
	return mounts_read_volume(v1, tenant, w, i, err);
}

int mounts_read(struct v1 *v1, const char *tenant, const struct body *body,
		struct wanted *w, struct api_error *err)
{
	size_t n = json_array_size(body_json(body, "mounts"));
	int r = 0;

	w->mounts = calloc(n + 2, sizeof(*w->mounts));
	w->volumes = calloc(n + 1, sizeof(*w->volumes));
	w->volume_ids = calloc(n + 1, sizeof(*w->volume_ids));
	if (!w->mounts || !w->volumes || !w->volume_ids)
		return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = mounts_read_one(v1, tenant, body, w, i, err);
	w->spec.mounts = w->mounts;
	w->spec.n_mounts = n;
	w->row.volumes = w->n_volumes > 0 ? w->volumes : NULL;
	return r;
}

void mounts_finish(struct wanted *w)
{
	size_t next = 0;

	for (size_t i = 0; i < w->spec.n_mounts; i++)
		if (w->mounts[i].volume)
			w->mounts[i].source = w->volumes[next++];
}

void mounts_done(struct wanted *w)
{
	free(w->mounts);
	free((void *)w->volumes);
	free(w->volume_ids);
}
