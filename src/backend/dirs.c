/* SPDX-License-Identifier: Apache-2.0 */
/* dirs.c - the directories of an engine: state and live sandboxes */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "backend/backend.h"
#include "base/fd.h"
#include "base/userdirs.h"
#include "image/store.h"

/* Root uses the standard directories, other users their own. */
int backend_choose_dirs(const struct warren_options *o, char **ret_run, char **ret_state,
			struct warren_error *err)
{
	int r = 0;

	if (o->run_dir)
		r = asprintf(ret_run, "%s", o->run_dir);
	else if (geteuid() == 0)
		r = asprintf(ret_run, "/run/warren");
	else if (user_run_dir(ret_run, err) < 0)
		return -err->code;
	if (r < 0)
		*ret_run = NULL;
	if (!o->state_dir) {
		r = store_state_dir(ret_state, err);
		if (r < 0)
			return r;
	} else if (asprintf(ret_state, "%s", o->state_dir) < 0) {
		*ret_state = NULL;
	}
	return *ret_run && *ret_state ? 0
				      : error_errno(err, ENOMEM, "name the directories");
}

int backend_open_run(const char *path, struct warren_error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno == ENOENT) {
		int r = fd_make_dirs(path, 0700);

		if (r < 0)
			return error_errno(err, -r, "create the directory '%s'", path);
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "open the directory '%s'", path);
	if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return error_set(
			err, EPERM,
			"the directory '%s' is not private to this user (uid %u, mode "
			"%03o): remove it",
			path, st.st_uid, st.st_mode & 07777);
	return TAKE_FD(fd);
}

int backend_open_sub(int at, const char *name, struct warren_error *err)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT) {
		(void)mkdirat(at, name, 0700);
		fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	return fd < 0 ? error_errno(err, errno, "open the directory '%s'", name) : fd;
}
