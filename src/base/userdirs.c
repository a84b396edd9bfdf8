/* SPDX-License-Identifier: Apache-2.0 */
/*
 * userdirs.c - find the directories of an ordinary user, and check that they are private
 */
#include "base/userdirs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int user_dir_check(const char *path, struct warren_error *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return error_errno(err, errno, "inspect '%s'", path);
	if (!S_ISDIR(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0) ||
	    (st.st_mode & (S_IWGRP | S_IWOTH)))
		return error_set(
			err, EPERM,
			"'%s' is not a directory that only you can use (uid %u, mode "
			"%03o): remove it, or set XDG_RUNTIME_DIR to one that is",
			path, st.st_uid, st.st_mode & 07777);
	return 0;
}

/* Check the owner of $HOME: sudo -u and similar programs may leave another user's
 * directory there. */
static const char *own_home(void)
{
	const char *home = getenv("HOME");
	struct stat st;

	return home && home[0] == '/' && stat(home, &st) == 0 && st.st_uid == geteuid()
		       ? home
		       : NULL;
}

static const char *userdirs_absolute(const char *name)
{
	const char *value = getenv(name);

	return value && value[0] == '/' ? value : NULL;
}

/* Create a directory for the user below /tmp, owned by that user. */
static int tmp_dir(const char *below, char **ret, struct warren_error *err)
{
	char dir[64];
	int r;

	(void)snprintf(dir, sizeof(dir), "/tmp/warren-%u", geteuid());
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "make '%s'", dir);
	r = user_dir_check(dir, err);
	if (r == 0 && asprintf(ret, "%s%s", dir, below) < 0)
		r = error_errno(err, ENOMEM, "name a directory");
	return r;
}

static int userdirs_below(const char *dir, const char *name, char **ret,
			  struct warren_error *err)
{
	return asprintf(ret, "%s%s", dir, name) < 0
		       ? error_errno(err, ENOMEM, "name a directory")
		       : 0;
}

int user_run_dir(char **ret, struct warren_error *err)
{
	const char *run = userdirs_absolute("XDG_RUNTIME_DIR"),
		   *data = userdirs_absolute("XDG_DATA_HOME");
	const char *home = own_home();

	if (run)
		return userdirs_below(run, "/warren", ret, err);
	if (data)
		return userdirs_below(data, "/warren/run", ret, err);
	if (home)
		return userdirs_below(home, "/.local/share/warren/run", ret, err);
	return tmp_dir("", ret, err);
}

int user_state_dir(char **ret, struct warren_error *err)
{
	const char *data = userdirs_absolute("XDG_DATA_HOME"), *home = own_home();

	if (data)
		return userdirs_below(data, "/warren", ret, err);
	if (home)
		return userdirs_below(home, "/.local/share/warren", ret, err);
	return tmp_dir("/state", ret, err);
}

int state_dir_default(char **ret, struct warren_error *err)
{
	const char *asked = getenv("WARREN_STATE");
	int r;

	/* Refuse an invalid directory: using the default instead could remove data that
	 * the user needs. */
	if (asked && asked[0] != '/')
		return error_set(err, EINVAL,
				 "WARREN_STATE, '%s', is not an absolute path", asked);
	if (asked)
		r = asprintf(ret, "%s", asked);
	else if (geteuid() == 0)
		r = asprintf(ret, "/var/lib/warren");
	else
		return user_state_dir(ret, err);
	return r < 0 ? error_errno(err, ENOMEM, "build the path of the state directory")
		     : 0;
}
