/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.h - snapshots: the files of a sandbox at one instant, stored as a tenant's
 * image
 *
 * The warden copies the files and starts warren-image, which creates the image. The row
 * of a snapshot is written before its image is created, and deleted after its image is
 * deleted. So if the service is killed, the next process can finish the work. Only its
 * own tenant can name it.
 */
#ifndef SERVICE_SNAPSHOT_SNAPSHOT_H
#define SERVICE_SNAPSHOT_SNAPSHOT_H

#include "service/core/hooks.h"

extern const struct service_module snapshot_hooks;

/* The quotas of a tenant; 0: no limit. */
struct snapshot_quota {
	uint64_t snapshots, bytes;
};

struct snapshot_request {
	const char *name;   /* NULL: none */
	const char *labels; /* a JSON object */
	bool transient;     /* delete it when no sandbox uses it */
	struct snapshot_quota quota;
};

/* @id: of the new snapshot; NULL on failure. */
typedef void (*snapshot_done_fn)(void *ctx, int r, const char *id,
				 const struct warren_error *err);

/*
 * Create a snapshot; a sandbox that hibernates is woken. @done gets -EINVAL: the name is
 * wrong; -EUSERS: the quota is exhausted (service_denied()); -ESTALE: the state of the
 * sandbox does not allow it; or an error of the warden or of warren-image.
 */
void snapshot_create(struct sandbox *sandbox, const struct snapshot_request *request,
		     snapshot_done_fn done, void *ctx);

/* Give the snapshot @word another name. -ENOENT: there is no such snapshot. */
int snapshot_tag(struct service *s, const char *tenant, const char *word,
		 const char *name, char ret_id[ID_LEN + 1], struct warren_error *err);

/*
 * Remove the name @word of a snapshot, or all names if it is an id. Without a name, the
 * snapshot is deleted. @done gets -ENOENT: there is no such snapshot; -EBUSY: sandboxes
 * use it, and @force is false. With @force, the snapshot is deleted together with the
 * last of them.
 */
void snapshot_delete(struct service *s, const char *tenant, const char *word, bool force,
		     service_done_fn done, void *ctx);

/*
 * A snapshot whose image warren-image(1) builds: record it, use its id for the build, and
 * then finish or abandon it. If the service dies, the next one deletes it.
 * snapshot_finish() takes the report of the image, and calls @done before it returns.
 */
struct snapshot_op;
int snapshot_reserve(struct service *s, const char *tenant,
		     const struct snapshot_request *request, struct snapshot_op **ret,
		     struct warren_error *err) MUST_CHECK;
const char *snapshot_op_id(const struct snapshot_op *op);
void snapshot_finish(struct snapshot_op *op, const char *json, size_t size,
		     snapshot_done_fn done, void *ctx);
/* Accepts NULL, returns NULL. */
struct snapshot_op *snapshot_abandon(struct snapshot_op *op);
/* Snapshots may have lost their last name or user: delete those soon. */
void snapshot_sweep(struct service *s);

#endif /* SERVICE_SNAPSHOT_SNAPSHOT_H */
