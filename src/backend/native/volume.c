/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume.c - filesystems of volumes, with the ids of a sandbox
 *
 * The caller has mounted the filesystem for this sandbox alone, so the mount needs no
 * copy: it gets the id map of the sandbox, as the scratch disk does. User 0 of the
 * filesystem is then user 0 inside, in every sandbox.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "backend/native/create_op.h"
#include "backend/native/native.h"
#include "os/mount.h"

int volume_check(const struct native *n, const struct warren_spec *spec,
		 struct warren_error *err)
{
	for (size_t i = 0; !n->privileged && i < spec->n_mounts; i++)
		if (spec->mounts[i].volume)
			return error_set(err, EOPNOTSUPP,
					 "volume '%s': only root can mount volumes",
					 spec->mounts[i].source);
	return 0;
}

int volume_take(struct create_op *m, const struct warren_mount *v, int *ret_fd,
		struct warren_error *err)
{
	AUTO_CLOSE int fd = fcntl(v->source_fd, F_DUPFD_CLOEXEC, 0);
	uint64_t attr = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID |
			(v->read_only ? MOUNT_ATTR_RDONLY : 0);
	int r = fd < 0 ? error_errno(err, errno, "copy a descriptor")
		       : mount_restrict(fd, attr, err);

	if (r == 0)
		r = mount_idmap(fd, m->userns, err);
	if (r < 0)
		return error_wrap(err, "volume '%s'", v->source);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int volume_copy(struct create_op *m, const struct warren_mount *v, int *ret_fd,
		struct warren_error *err)
{
	/*
	 * The source is opened only once, here or by the process that checked it, so the
	 * checked file is the mounted one.
	 */
	AUTO_CLOSE int at = v->source_fd ? fcntl(v->source_fd, F_DUPFD_CLOEXEC, 0)
					 : open(v->source, O_PATH | O_CLOEXEC),
		       map = -1;
	uint64_t attr = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID |
			(v->read_only ? MOUNT_ATTR_RDONLY : 0);
	struct ns_maps maps;
	struct stat st;
	int r;

	if (at < 0 || fstat(at, &st) < 0)
		return error_errno(err, errno, "volume '%s'", v->source);
	idmap_volume(m->sandbox, st.st_uid, st.st_gid, &maps);
	r = ns_make_userns(&maps, &map, err);
	if (r == 0)
		r = mount_copy(at, "", true, attr, map, ret_fd, err);
	return r < 0 ? error_wrap(err, "volume '%s'", v->source) : 0;
}
