/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume.h - volumes: filesystems in files, which sandboxes mount
 *
 * The file of a volume is <dir>/<id>. While a volume is in use, its file is attached to
 * one loop device, whose filesystem all users share. Each user has its own mount, which
 * is not visible on the host and is held by a descriptor or a mount namespace. When the
 * last one is gone, the kernel removes the filesystem and the loop device. So the warden
 * has nothing to remember or to clean up.
 *
 * While a process attaches the file, it locks the file (flock(2)), so that no other
 * process attaches or deletes it at the same time.
 */
#ifndef WARDEN_VOLUME_H
#define WARDEN_VOLUME_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define VOLUME_SIZE_MIN (16ULL << 20)
#define VOLUME_SIZE_MAX (16ULL << 40)

struct warden_proto_volume;

/*
 * Mount the volume @id for one user: a detached mount, nosuid and nodev. -EMEDIUMTYPE:
 * its file is missing, or its filesystem is damaged; -EOPNOTSUPP: this
 * machine, or a service without root, cannot mount volumes.
 */
int volume_mount(const char *dir, const char *id, int *ret_fd, struct warren_error *err);
/*
 * Carry out a request (proto/warden_proto.h) that was checked. The reply contains @reply,
 * and *@ret_fd if it is not -1.
 */
int volume_carry_out(const char *dir, const struct warden_proto_volume *m,
		     struct buf *reply, int *ret_fd, struct warren_error *err);
/*
 * If copies of volumes were interrupted, let writes to these volumes continue; remove
 * incomplete files of volumes. Called before requests are carried out.
 */
void volume_recover(const char *dir);

/* volume_files.c: the requests about files, in the filesystem at @root. */
int volume_files(int root, const struct warden_proto_volume *m, struct buf *reply,
		 int *ret_fd, struct warren_error *err);

#endif /* WARDEN_VOLUME_H */
