/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commits_incoming.c - where git puts the objects that it receives
 *
 * If git fails or is killed, it leaves a part of a pack, which may be large. So git
 * writes to a separate directory in `objects`, as `git receive-pack` does. Only a
 * complete pack is moved to the other packs. The next command for the work removes the
 * directory; so does `git prune`, which recognises names that begin with `tmp_`.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "os/tree_remove.h"
#include "work/commits_internal.h"
#include "work/files_internal.h"

static void incoming_name(const struct work *w, char name[INCOMING_MAX])
{
	(void)snprintf(name, INCOMING_MAX, "tmp_objdir-warren-%s", w->id);
}

void commits_incoming_path(const struct work *w, char path[INCOMING_MAX])
{
	char name[INCOMING_MAX];

	incoming_name(w, name);
	(void)snprintf(path, INCOMING_MAX, "objects/%.*s", INCOMING_MAX - 10, name);
}

void commits_incoming_remove(const struct work *w)
{
	AUTO_CLOSE int objects =
		w->project_fd < 0 ? -1
				  : beneath_dir(w->project_fd, ".git/objects", O_RDONLY);
	char name[INCOMING_MAX];
	struct stat st;

	incoming_name(w, name);
	if (objects >= 0 && fstatat(objects, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		(void)tree_remove(objects, objects, name);
}

/* If root works in a user's repository, the directory belongs to the user. */
static int incoming_mkdir(int parent, const char *name, mode_t mode)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;

	if (fstat(parent, &st) < 0 || mkdirat(parent, name, mode) < 0)
		return -errno;
	fd = beneath_dir(parent, name, O_RDONLY);
	if (fd < 0)
		return fd;
	return geteuid() == 0 && fchown(fd, st.st_uid, st.st_gid) < 0 ? -errno
								      : TAKE_FD(fd);
}

int commits_incoming_make(const struct work *w, struct warren_error *err)
{
	AUTO_CLOSE int objects = beneath_dir(w->project_fd, ".git/objects", O_RDONLY),
		       dir = -1, pack = -1;
	char name[INCOMING_MAX];

	incoming_name(w, name);
	commits_incoming_remove(w);
	dir = objects < 0 ? objects : incoming_mkdir(objects, name, 0700);
	pack = dir < 0 ? dir : incoming_mkdir(dir, "pack", 0700);
	return pack < 0 ? error_errno(err, -pack, "create '.git/objects/%s'", name) : 0;
}

/* Is the pack empty? Its header ends with the number of objects. */
static bool incoming_is_empty(int dir, const char *name)
{
	struct stat st;
	AUTO_CLOSE int fd = beneath_file(dir, name, &st);
	unsigned char header[12];

	return fd >= 0 && pread(fd, header, sizeof(header), 0) == sizeof(header) &&
	       memcmp(header + 8, "\0\0\0\0", 4) == 0;
}

/* Move a file of the pack. If it exists there, it has the same objects. */
static int incoming_move(int from, int to, const char *name)
{
	if (renameat2(from, name, to, name, RENAME_NOREPLACE) == 0 || errno == EEXIST)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	return renameat(from, name, to, name) < 0 ? -errno : 0;
}

/* Move all files that end with @suffix; 1: there is nothing to move. */
static int incoming_move_all(int from, int to, const char *suffix)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const size_t n = strlen(suffix);
	const struct dir_entry *e;
	int r;

	if (!reader || fd < 0)
		return reader ? -errno : -ENOMEM;
	reader->fd = fd;
	while ((r = dir_next(reader, &e)) > 0) {
		size_t len = strlen(e->name);

		if (strncmp(e->name, "pack-", 5) != 0 || len < n ||
		    strcmp(e->name + len - n, suffix) != 0)
			continue;
		if (strcmp(suffix, ".pack") == 0 && incoming_is_empty(from, e->name))
			return 1;
		r = incoming_move(from, to, e->name);
		if (r < 0)
			break;
	}
	return r;
}

int commits_incoming_take(const struct work *w, struct warren_error *err)
{
	/* git finds a pack by its index, so that is moved last. */
	static const char *const suffixes[] = { ".pack", ".rev", ".idx" };
	AUTO_CLOSE int objects = beneath_dir(w->project_fd, ".git/objects", O_RDONLY),
		       dir = -1, from = -1, to = -1;
	char name[INCOMING_MAX];
	int r = objects < 0 ? objects : 0;

	incoming_name(w, name);
	dir = r < 0 ? r : beneath_dir(objects, name, O_RDONLY);
	from = dir < 0 ? dir : beneath_dir(dir, "pack", O_RDONLY);
	to = r < 0 ? r : beneath_dir(objects, "pack", O_RDONLY);
	if (to == -ENOENT)
		to = incoming_mkdir(objects, "pack", 0777);
	r = from < 0 ? from : to < 0 ? to : 0;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(suffixes); i++)
		r = incoming_move_all(from, to, suffixes[i]);
	return r < 0 ? error_errno(err, -r, "move the objects to '.git/objects/pack'")
		     : 0;
}
