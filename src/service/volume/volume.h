/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume.h - volumes: filesystems of a tenant that sandboxes mount by name
 *
 * The warden creates and mounts them (warden/volume.h). The row of a volume is written
 * before its file is created, and deleted after its file, so that the next process can
 * complete an operation of a killed one.
 */
#ifndef SERVICE_VOLUME_VOLUME_H
#define SERVICE_VOLUME_VOLUME_H

#include "proto/warden_proto.h"
#include "service/core/hooks.h"

#define VOLUME_SIZE_DEFAULT (1ULL << 30)

extern const struct service_module volume_hooks;

/* What a tenant may have; 0: no limit. */
struct volume_quota {
	uint64_t volumes, bytes;
};

struct volume_request {
	const char *tenant, *name;
	const char *from;   /* copy this volume of the tenant; NULL: an empty volume */
	uint64_t size;      /* of an empty volume */
	const char *labels; /* a JSON object */
	uint32_t mode;      /* of its root directory; 0: the default */
	struct volume_quota quota;
};

/*
 * Create a volume. @done gets -ENOTUNIQ: the name is in use; -ENOENT: there is no volume
 * `from`; -EUSERS: the quota is exhausted (service_denied()); or an error of the warden.
 */
void volume_create(struct service *s, const struct volume_request *request,
		   service_done_fn done, void *ctx);
/* @done gets -ENOENT: there is no such volume; -EBUSY: sandboxes use it. */
void volume_delete(struct service *s, const char *tenant, const char *name,
		   service_done_fn done, void *ctx);

/*
 * Send a request about the volume @name to the warden; its verb, flags, path and so on
 * are in @m. @fn gets the reply, and must close @fd. -ENOTBLK: there is no such volume.
 */
typedef void (*volume_reply_fn)(void *ctx, const struct warren_error *err,
				const char *data, size_t size, int fd);
void volume_ask(struct service *s, const char *tenant, const char *name,
		struct warden_proto_volume *m, volume_reply_fn fn, void *ctx);

#endif /* SERVICE_VOLUME_VOLUME_H */
