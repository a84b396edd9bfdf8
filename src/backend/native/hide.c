/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hide.c - hide mounts in the host's directories from an ordinary user's sandbox
 *
 * If root creates a sandbox, the copies of /usr and /opt do not include mounts below
 * them. For an ordinary user the kernel refuses such a copy with EINVAL: the mounts are
 * locked together, because removing one would show what is under it. The copy then
 * includes all mounts below, and each of them is covered by an empty directory or file.
 * Such mounts may be the user's own (a network disk, FUSE), and are not part of the
 * image.
 *
 * The child does this before it has its own root. It does not use malloc(3), whose locks
 * another thread of the creator may hold.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/native/native.h"
#include "base/fd.h"
#include "os/mount.h"

#define MOUNT_POINT 4 /* number of fields of mountinfo(5) before the mount point */

/* Replace escapes such as "\040" by their characters. */
static void hide_unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		bool octal = s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' &&
			     s[2] <= '7' && s[3] >= '0' && s[3] <= '7';
		unsigned char c = (unsigned char)*s;

		if (octal)
			c = (unsigned char)((s[1] - '0') << 6 | (s[2] - '0') << 3 |
					    (s[3] - '0'));
		*to++ = (char)c;
		s += octal ? 3 : 0;
	}
	*to = '\0';
}

/* The mount point in a line of mountinfo, or NULL. */
static char *point_of(char *line)
{
	char *end;

	for (int i = 0; i < MOUNT_POINT; i++) {
		line = strchr(line, ' ');
		if (!line)
			return NULL;
		line++;
	}
	end = strchr(line, ' ');
	if (!end)
		return NULL;
	*end = '\0';
	hide_unescape(line);
	return line[0] == '/' ? line : NULL;
}

/* Is @path below one of the trees that the sandbox shows? */
static bool is_shown(const struct image *image, const char *path)
{
	for (size_t i = 0; i < image->n_mounts; i++) {
		const char *at = image->mounts[i].at;
		size_t n = strlen(at);

		if (n > 0 && strncmp(path + 1, at, n) == 0 && path[1 + n] == '/')
			return true;
	}
	return false;
}

static int hide_cover(const struct native_plan *p, const char *path,
		      struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	AUTO_CLOSE int target = mount_openat2(p->root, path + 1, O_PATH | O_NOFOLLOW, 0,
					      RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	struct stat st;
	int r;

	/*
	 * The mount is below one that is already covered, or is gone, so it is not
	 * visible.
	 */
	if (target == -ENOENT || target == -ENOTDIR)
		return 0;
	/*
	 * A mount that cannot be inspected (its server does not answer) is treated as a
	 * directory.
	 */
	if (target < 0)
		return error_errno(err, -target, "open '%s'", path);
	if (fstat(target, &st) < 0)
		st.st_mode = S_IFDIR;
	r = mount_copy(p->scratch, S_ISDIR(st.st_mode) ? "m/d" : "m/f", false, 0, -1, &fd,
		       err);
	if (r == 0)
		r = mount_attach(fd, target, "", err);
	return r < 0 ? error_wrap(err, "hide '%s'", path) : 0;
}

/* Handle each complete line of @text; return the number of bytes in these lines. */
static ssize_t hide_lines(const struct native_plan *p, char *text, size_t size,
			  struct warren_error *err)
{
	size_t done = 0;
	char *end;

	while ((end = memchr(text + done, '\n', size - done))) {
		char *path;
		int r = 0;

		*end = '\0';
		path = point_of(text + done);
		if (path && is_shown(&p->image, path))
			r = hide_cover(p, path, err);
		if (r < 0)
			return r;
		done = (size_t)(end + 1 - text);
	}
	return (ssize_t)done;
}

int rootfs_hide(struct native_plan *p, struct warren_error *err)
{
	static char text[65536]; /* not shared with the engine */
	AUTO_CLOSE int fd = -1;
	size_t have = 0;
	ssize_t n;

	if (p->engine->privileged)
		return 0;
	fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "open /proc/self/mountinfo");
	while ((n = read(fd, text + have, sizeof(text) - have)) > 0) {
		have += (size_t)n;
		n = hide_lines(p, text, have, err);
		if (n < 0)
			return (int)n;
		have -= (size_t)n;
		(void)memmove(text, text + n, have);
	}
	if (n < 0 || have > 0)
		return error_errno(err, n < 0 ? errno : E2BIG,
				   "read /proc/self/mountinfo");
	return 0;
}
