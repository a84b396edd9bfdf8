/* SPDX-License-Identifier: Apache-2.0 */
/* tree_compare.c - compare two entries of directories: attributes and contents */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/macro.h"
#include "os/tree_walk.h"

#define OVERLAY_PREFIX  "user.overlay."
#define OVERLAY_ESCAPED "user.overlay.overlay."

bool tree_is_layer(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) < 0 || fs.f_type != OVERLAYFS_SUPER_MAGIC;
}

static bool compare_begins(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

static void compare_put_name(struct tree_attribute *ret, const char *prefix,
			     const char *rest)
{
	(void)snprintf(ret->name, sizeof(ret->name), "%s%s", prefix, rest);
}

bool tree_attribute_shown(bool layer, bool all, const char *stored,
			  struct tree_attribute *ret)
{
	if (layer && compare_begins(stored, OVERLAY_ESCAPED))
		compare_put_name(ret, OVERLAY_PREFIX, stored + strlen(OVERLAY_ESCAPED));
	else if (layer && compare_begins(stored, OVERLAY_PREFIX))
		return false;
	else
		compare_put_name(ret, "", stored);
	return compare_begins(stored, "user.") ||
	       compare_begins(stored, "system.posix_acl_") ||
	       strcmp(stored, "security.capability") == 0 ||
	       (all && compare_begins(stored, "security."));
}

void tree_attribute_stored(bool layer, const struct tree_attribute *shown,
			   struct tree_attribute *ret)
{
	if (layer && compare_begins(shown->name, OVERLAY_PREFIX))
		compare_put_name(ret, OVERLAY_ESCAPED,
				 shown->name + strlen(OVERLAY_PREFIX));
	else
		*ret = *shown;
}

static size_t compare_count(const struct tree_compare *c, bool layer, const char *names,
			    ssize_t size)
{
	struct tree_attribute shown;
	size_t n = 0;

	for (const char *name = names; name < names + size; name += strlen(name) + 1)
		n += tree_attribute_shown(layer, c->all, name, &shown);
	return n;
}

/* An O_PATH descriptor has no attributes, so links and special files have none here. */
static int compare_attributes(struct tree_compare *c, const int fds[2])
{
	const bool layer[2] = { tree_is_layer(fds[0]), tree_is_layer(fds[1]) };
	ssize_t sizes[2];

	for (size_t i = 0; i < 2; i++) {
		sizes[i] = flistxattr(fds[i], c->names[i], sizeof(c->names[i]));
		if (sizes[i] < 0 && errno != EOPNOTSUPP)
			return -errno;
		if (sizes[i] < 0)
			sizes[i] = 0;
	}
	if (compare_count(c, layer[0], c->names[0], sizes[0]) !=
	    compare_count(c, layer[1], c->names[1], sizes[1]))
		return 0;
	for (const char *name = c->names[0]; name < c->names[0] + sizes[0];
	     name += strlen(name) + 1) {
		struct tree_attribute shown, stored;
		ssize_t n[2];

		if (!tree_attribute_shown(layer[0], c->all, name, &shown))
			continue;
		for (size_t i = 0; i < 2; i++) {
			tree_attribute_stored(layer[i], &shown, &stored);
			n[i] = fgetxattr(fds[i], stored.name, c->values[i],
					 sizeof(c->values[i]));
		}
		if (n[0] < 0 || n[0] != n[1] ||
		    memcmp(c->values[0], c->values[1], (size_t)n[0]) != 0)
			return 0;
	}
	return 1;
}

/* The next byte of @fd from @at on that is not in a hole; @size: there is none. */
static off_t compare_next_data(int fd, off_t at, off_t size)
{
	off_t next = lseek(fd, at, SEEK_DATA);

	return next >= 0 ? next : errno == ENXIO ? size : at;
}

static int compare_contents(struct tree_compare *c, const int fds[2], off_t size)
{
	off_t at = 0;

	while (at < size) {
		off_t a = compare_next_data(fds[0], at, size),
		      b = compare_next_data(fds[1], at, size);
		ssize_t n[2];

		at = a < b ? a : b;
		if (at >= size)
			break;
		for (size_t i = 0; i < 2; i++) {
			n[i] = pread(fds[i], c->values[i], sizeof(c->values[i]), at);
			if (n[i] < 0)
				return -errno;
		}
		if (n[0] != n[1] || n[0] == 0 ||
		    memcmp(c->values[0], c->values[1], (size_t)n[0]) != 0)
			return 0;
		at += n[0];
	}
	return 1;
}

static int compare_links(struct tree_compare *c, const struct tree_pair *pair)
{
	ssize_t a = readlinkat(pair->old.dir, pair->name, c->values[0],
			       sizeof(c->values[0])),
		b = readlinkat(pair->new.dir, pair->name, c->values[1],
			       sizeof(c->values[1]));

	return a >= 0 && a == b && memcmp(c->values[0], c->values[1], (size_t)a) == 0;
}

static int compare_open(struct tree_compare *c, const struct tree_pair *pair)
{
	const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	AUTO_CLOSE int old = openat(pair->old.dir, pair->name, flags),
		       new = openat(pair->new.dir, pair->name, flags);
	const int fds[2] = { old, new };
	int r;

	if (old < 0 || new < 0)
		return errno == ENOENT || errno == ELOOP || errno == ENXIO ? 0 : -errno;
	r = compare_attributes(c, fds);
	if (r > 0 && S_ISREG(pair->old.st.st_mode))
		r = compare_contents(c, fds, pair->old.st.st_size);
	return r;
}

int tree_compare(struct tree_compare *c, const struct tree_pair *pair, bool dir_times)
{
	const struct stat *a = &pair->old.st, *b = &pair->new.st;
	bool dir = S_ISDIR(a->st_mode);

	if (a->st_mode != b->st_mode || a->st_uid != b->st_uid ||
	    a->st_gid != b->st_gid || a->st_rdev != b->st_rdev)
		return 0;
	if ((!dir || dir_times) && (a->st_mtim.tv_sec != b->st_mtim.tv_sec ||
				    a->st_mtim.tv_nsec != b->st_mtim.tv_nsec))
		return 0;
	if (!dir && a->st_size != b->st_size)
		return 0;
	if (S_ISLNK(a->st_mode))
		return compare_links(c, pair);
	return dir || S_ISREG(a->st_mode) ? compare_open(c, pair) : 1;
}
