/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.h - a request to create a sandbox, for the engine and the database */
#ifndef API_V1_SANDBOX_H
#define API_V1_SANDBOX_H

#include "api/v1/v1.h"

struct wanted {
	struct sandbox_row row;
	struct warren_spec spec; /* the strings in the spec belong to the request */
	struct sandbox_source source;
	struct db_request request;
	enum v1_on_idle on_idle;
	enum v1_on_ttl on_ttl;
	bool wake_on_use;
	/* Memory that row and spec point to. */
	struct buf text;
	const char **env;
	char **env_texts;
	struct warren_mount *mounts;
	const char **volumes; /* the ids of its volumes, NULL-terminated */
	char (*volume_ids)[ID_LEN + 1];
	size_t n_volumes;
	struct snapshot_row snapshot; /* if the image is one */
	char snapshot_ref[48];        /* the reference of its image; "": none */
	struct db_label *labels;
	const struct config_backend *backend;
	enum v1_network network;
	struct buf policy;  /* JSON, for V1_NETWORK_POLICY */
	bool terminates;    /* the policy needs TLS to be terminated */
	struct body merged; /* the request merged with its template */
};

/*
 * Convert an error from backend @name, which is another program. Errors about the request
 * keep their code; errors of the program itself (such as a refused connection) become
 * API_ERR_BACKEND_UNAVAILABLE.
 */
void backend_failed(struct api_error *err, const char *name,
		    const struct warren_error *why);

/*
 * Read a CreateSandbox, apply the service's defaults, and check its maximum values and
 * policy.
 */
int wanted_read(struct v1 *v1, const struct caller *caller, const struct body *body,
		struct wanted *w, struct api_error *err) MUST_CHECK;
void wanted_done(struct wanted *w);
/* create_mounts.c: read the mounts, with the names of volumes as sources. */
int mounts_read(struct v1 *v1, const char *tenant, const struct body *body,
		struct wanted *w, struct api_error *err) MUST_CHECK;
/* Replace the names of volumes by their ids, for the warden. */
void mounts_finish(struct wanted *w);
void mounts_done(struct wanted *w);
/*
 * template.c: apply the template of a request. 1: *@ret is the request merged with its
 * template; 0: the request names no template.
 */
int template_apply(const struct v1 *v1, const struct body *body, struct body *ret,
		   struct api_error *err) MUST_CHECK;
/* Compute the hash by which a repeated request is recognised. */
void wanted_hash(struct wanted *w, const struct body *body);
void wanted_hash_all(const struct body *body, uint8_t hash[DB_HASH_SIZE]);

/*
 * fork.c: create @n copies of the sandbox in the path, and call @answer with them; one
 * that was deleted in the meantime is NULL. On failure, the call is refused.
 */
typedef void (*v1_fork_fn)(struct call *c, struct sandbox **all, size_t n);
void v1_fork(struct call *c, size_t n, v1_fork_fn answer);
/*
 * respec.c: read the request for copies of @sandbox, with the snapshot @image and further
 * @labels (NULL: none). The caller frees *@ret_body after @w.
 */
int v1_respec_fork(struct v1 *v1, const struct sandbox *sandbox, const char *image,
		   json_t *labels, json_t **ret_body, struct wanted *w,
		   struct api_error *err) MUST_CHECK;

/*
 * Read the field `limits` of a CreateSandbox; a limit that it omits gets the service's
 * default. -EBADMSG: one is above the service's maximum.
 */
int limits_read(const struct config *cfg, const struct body *body,
		struct warren_spec *spec, struct api_error *err) MUST_CHECK;

#endif /* API_V1_SANDBOX_H */
