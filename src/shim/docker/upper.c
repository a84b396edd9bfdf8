/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upper.c - the files that were written in a container: snapshots of them, and containers
 * with the files of a snapshot
 *
 * The daemon's storage overlay2 (podman: overlay) has a directory for each container, the
 * upper directory of its overlay. Its name contains a random id, so if the directory
 * exists here, it is the daemon's. A snapshot is a copy of it, one layer in Warren's
 * store, relative to the image of the container ("docker:ID"). A container of a snapshot
 * is created from that image, and gets the layer as its upper directory before it starts.
 * So the layer has everything that was written since the image, even if the source had
 * been created from a snapshot itself. The daemon has no image of a snapshot, so its
 * other users cannot use one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include "base/snapshot_name.h"
#include "base/strv.h"
#include "image/copy.h"
#include "os/mount.h"
#include "os/tree_copy.h"
#include "shim/docker/docker.h"

/* Bytes that stay free in the daemon's storage, which others use as well. */
#define UPPER_KEEP_FREE (16ULL << 20)

static void upper_refuse(struct shim_sandbox *p, const char *why)
{
	(void)snprintf(p->no_upper, sizeof(p->no_upper),
		       "backend '%.40s' cannot copy the files of this sandbox: %s",
		       p->name, why);
}

void docker_upper_open(struct docker *d, struct shim_sandbox *p,
		       const struct docker_info *info)
{
	struct warren_error err = WARREN_ERROR_INIT;
	const char *path;

	if (info->userns || info->rootless) {
		upper_refuse(p, "the daemon maps user ids");
		return;
	}
	if (docker_inspect(d, p, &err) <= 0) {
		upper_refuse(p, "the container cannot be inspected");
		return;
	}
	path = json_string_value(json_object_get(
		json_object_get(json_object_get(d->answer, "GraphDriver"), "Data"),
		"UpperDir"));
	if (!path || path[0] != '/')
		upper_refuse(p, "the daemon's storage is not overlay2");
	/* This mount has no parent, so that nothing else can be reached through it. */
	else if (mount_copy(AT_FDCWD, path, false, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID,
			    -1, &p->upper, &err) < 0)
		upper_refuse(p, "the daemon's storage is not visible from here");
}

/* ---------------------------------------------------------------- from a snapshot */

int docker_snapshot_open(const struct shim_sandbox *p, const char *ref,
			 struct docker_snapshot *ret, struct warren_error *err)
{
	struct docker_snapshot s = { .image.lock = -1, .layer = -1 };
	char name[STORE_SHORT_LEN + 1];
	struct store store;
	const char *base;
	int r = store_open(p->state_dir, false, &store, err);

	if (r < 0)
		return r;
	r = store_find(&store, ref, &s.image, err);
	base = r == 0 ? store_daemon_image(s.image.base) : NULL;
	if (r == 0 && !base)
		r = error_set(err, EOPNOTSUPP,
			      "%s: image: only snapshots of docker sandboxes can be used "
			      "here",
			      p->name);
	if (r == 0 && strv_len(s.image.layers) != 1)
		r = error_errno(err, EBADMSG, "%s: image '%s'", p->name, ref);
	if (r == 0) {
		(void)snprintf(s.base, sizeof(s.base), "%s", base);
		(void)snprintf(s.id, sizeof(s.id), "%s", s.image.snapshot);
		r = store_layer(&store, s.image.layers[0], name);
		if (r == 0)
			s.layer = openat(store.data, name,
					 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (r < 0 || s.layer < 0)
			r = error_errno(err, r < 0 ? -r : errno,
					"%s: open the files of the snapshot", p->name);
	}
	store_close(&store);
	if (r < 0)
		docker_snapshot_done(&s);
	else
		*ret = s;
	return r;
}

void docker_snapshot_done(struct docker_snapshot *s)
{
	if (s->layer >= 0)
		(void)close(TAKE_FD(s->layer));
	store_image_done(&s->image);
}

/* The daemon may have created the working directory in it. */
static int upper_clear(int upper)
{
	int fd = openat(upper, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d)
		return -errno;
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			copy_remove_tree(upper, e->d_name);
	(void)closedir(d);
	return 0;
}

int docker_upper_fill(const struct shim_sandbox *p, const struct docker_snapshot *s,
		      struct warren_error *err)
{
	struct tree_copy copy = { .marks = TREE_COPY_TO_TRUSTED,
				  .keep_free = UPPER_KEEP_FREE };
	int r;

	if (p->upper < 0)
		return error_set(err, EOPNOTSUPP, "%s: image: %s", p->name, p->no_upper);
	r = upper_clear(p->upper);
	r = r < 0 ? error_errno(err, -r, "clear the new container")
		  : tree_copy(s->layer, p->upper, &copy, err);
	return r < 0 ? error_wrap(err, "%s: copy the files of the snapshot", p->name) : 0;
}
