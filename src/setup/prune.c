/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prune.c - keep only new files of a setup
 *
 * A layer lies over the project as it is at the next start. If a step changed a file of
 * the project, the layer would hide the user's later changes to it. So such changes are
 * removed, and so are marks that would hide a directory. Directories of dependencies and
 * results stay whole: they belong to the tools.
 *
 * The files are hostile: links are not followed, and the depth is limited.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/strv.h"
#include "os/tree_remove.h"
#include "setup/store.h"
#include "setup/tree.h"

#define PRUNE_DEPTH_MAX   64
#define PRUNE_DROPPED_MAX 1000
#define PRUNE_OPAQUE      "user.overlay.opaque"

static const char *const prune_whole[] = {
	"node_modules", ".venv",  "venv",       "target",      "build",   "vendor",
	"deps",         "_build", ".gradle",    ".yarn",       ".bundle", "__pycache__",
	"dist",         ".tox",   "*.egg-info", ".pnpm-store",
};

static bool prune_is_whole(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(prune_whole); i++)
		if (fnmatch(prune_whole[i], name, 0) == 0)
			return true;
	return false;
}

static int prune_dir(int upper, int lower, const char *path, unsigned depth,
		     char ***dropped);

static int setup_prune_open(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

static int prune_drop(int upper, const char *name, const char *path, char ***dropped)
{
	int r = tree_remove(upper, upper, name);

	if (r < 0 || strv_len((union strv){ .list = *dropped }) >= PRUNE_DROPPED_MAX)
		return r;
	return strv_add(dropped, path);
}

static int prune_entry(int upper, int lower, const char *name, const char *dir,
		       unsigned depth, char ***dropped)
{
	AUTO_FREE char *path = setup_tree_join(dir, name);
	AUTO_CLOSE int up = -1, low = -1;
	struct stat changed, original;
	int r;

	if (!path)
		return -ENOMEM;
	if (fstatat(lower, name, &original, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstatat(upper, name, &changed, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (prune_is_whole(name))
		return 0;
	if (!S_ISDIR(changed.st_mode) || !S_ISDIR(original.st_mode))
		return prune_drop(upper, name, path, dropped);
	up = setup_prune_open(upper, name);
	low = setup_prune_open(lower, name);
	if (up < 0 || low < 0)
		return up < 0 ? up : low;
	(void)fremovexattr(up, PRUNE_OPAQUE);
	r = prune_dir(up, low, path, depth + 1, dropped);
	if (r == 0)
		(void)unlinkat(upper, name, AT_REMOVEDIR); /* if nothing is left in it */
	return r;
}

static int prune_dir(int upper, int lower, const char *path, unsigned depth,
		     char ***dropped)
{
	int fd = setup_prune_open(upper, ".");
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int r = 0;

	if (!d) {
		if (fd >= 0)
			(void)close(fd);
		return fd < 0 ? fd : -ENOMEM;
	}
	if (depth > PRUNE_DEPTH_MAX)
		r = -ELOOP;
	while (r == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = prune_entry(upper, lower, e->d_name, path, depth, dropped);
	(void)closedir(d);
	return r;
}

int setup_prune(int upper, int project, char ***ret_dropped, struct warren_error *err)
{
	char AUTO_STRV **dropped = NULL;
	int r = prune_dir(upper, project, "", 0, &dropped);

	if (r < 0)
		return error_errno(err, -r, "look at the changes of the setup");
	*ret_dropped = TAKE_PTR(dropped);
	return 0;
}
