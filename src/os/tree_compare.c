/* SPDX-License-Identifier: Apache-2.0 */
/* tree_compare.c - compare two entries of directories: attributes and contents */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/macro.h"
#include "os/tree_walk.h"

bool tree_has_attribute(const char *name)
{
	return strncmp(name, "user.overlay.", 13) != 0 &&
	       (strncmp(name, "user.", 5) == 0 ||
		strncmp(name, "system.posix_acl_", 17) == 0 ||
		strcmp(name, "security.capability") == 0);
}

static size_t compare_count(const char *names, ssize_t size)
{
	size_t n = 0;

	for (const char *name = names; name < names + size; name += strlen(name) + 1)
		n += tree_has_attribute(name);
	return n;
}

/* An O_PATH descriptor has no attributes, so links and special files have none here. */
static int compare_attributes(struct tree_compare *c, const int fds[2])
{
	ssize_t sizes[2];

	for (size_t i = 0; i < 2; i++) {
		sizes[i] = flistxattr(fds[i], c->names[i], sizeof(c->names[i]));
		if (sizes[i] < 0 && errno != EOPNOTSUPP)
			return -errno;
		if (sizes[i] < 0)
			sizes[i] = 0;
	}
	if (compare_count(c->names[0], sizes[0]) != compare_count(c->names[1], sizes[1]))
		return 0;
	for (const char *name = c->names[0]; name < c->names[0] + sizes[0];
	     name += strlen(name) + 1) {
		ssize_t n[2];

		if (!tree_has_attribute(name))
			continue;
		for (size_t i = 0; i < 2; i++)
			n[i] = fgetxattr(fds[i], name, c->values[i],
					 sizeof(c->values[i]));
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
