/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attributes.c - extended attributes of files (xattr(7)) whose names begin with "user."
 *
 * Others belong to the kernel or to root, and are neither shown nor changed. A file is
 * reached through its descriptor, so no link in a path can lead elsewhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>

#include "agent/core/agent.h"

#define NAMES_MAX 16384 /* all names of a file */
#define VALUE_MAX 4096
#define NAMESPACE "user."

static char names[NAMES_MAX];

static bool attributes_begin(const char *text, const char *prefix)
{
	while (*prefix && *text == *prefix) {
		text++;
		prefix++;
	}
	return !*prefix;
}

/* Return the next name in names[] that begins with @prefix; NULL: none. */
static const char *attributes_next(long size, long *at, const char *prefix)
{
	while (*at < size) {
		const char *name = names + *at;

		*at += (long)strlen(name) + 1;
		if (attributes_begin(name, prefix))
			return name;
	}
	return NULL;
}

bool attributes_any(int dir, const char *name, uint32_t mode)
{
	static char path[32 + 256];
	const char *from = files_name_of(dir);
	size_t n = strlen(from), len = strlen(name);
	long size, at = 0;

	if (((mode & S_IFMT) != S_IFREG && (mode & S_IFMT) != S_IFDIR) ||
	    n + 1 + len >= sizeof(path))
		return false;
	__builtin_memcpy(path, from, n);
	path[n] = '/';
	__builtin_memcpy(path + n + 1, name, len + 1);
	size = SYS_3(SYS_llistxattr, path, names, sizeof(names));
	return attributes_next(size, &at, NAMESPACE);
}

static bool attributes_has(const char *text, size_t n, char c)
{
	for (size_t i = 0; i < n; i++)
		if (text[i] == c)
			return true;
	return false;
}

void attributes_append(int fd)
{
	static char value[VALUE_MAX + 1];
	const char *file = files_name_of(fd), *name;
	struct statx stx = { 0 };
	uint32_t type;
	long at = 0, size;

	if (SYS_5(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &stx) < 0)
		return;
	type = stx.stx_mode & S_IFMT;
	if (type != S_IFREG && type != S_IFDIR)
		return;
	size = SYS_3(SYS_listxattr, file, names, sizeof(names));
	while ((name = attributes_next(size, &at, NAMESPACE))) {
		long n = SYS_4(SYS_getxattr, file, name, value, VALUE_MAX);

		if (n < 0 || attributes_has(value, (size_t)n, '\0') ||
		    attributes_has(name, strlen(name), '/'))
			continue;
		value[n] = '\0';
		if (files_append_entry(&(struct proto_entry){ 0 }, name, value) < 0)
			return;
	}
}

long attributes_set(const struct proto_change *msg, const int *fds, size_t n_fds)
{
	const char *prefix = msg->strings, *name, *value;
	long at = 0, size, r = 0;

	if (n_fds != 1 || msg->n % 2 != 1 || !attributes_begin(prefix, NAMESPACE))
		return -EINVAL;
	size = SYS_3(SYS_flistxattr, fds[0], names, sizeof(names));
	if (size < 0)
		return size == -ERANGE ? -E2BIG : size;
	while (r == 0 && (name = attributes_next(size, &at, prefix)))
		r = SYS_2(SYS_fremovexattr, fds[0], name);
	name = prefix + strlen(prefix) + 1;
	for (uint32_t i = 1; i < msg->n && r == 0; i += 2) {
		value = name + strlen(name) + 1;
		r = attributes_begin(name, prefix)
			    ? SYS_5(SYS_fsetxattr, fds[0], name, value, strlen(value), 0)
			    : -EINVAL;
		name = value + strlen(value) + 1;
	}
	return r;
}
