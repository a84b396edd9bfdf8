/* SPDX-License-Identifier: Apache-2.0 */
/* layer_xattrs.c - extended attributes of a layer's files as records of a pax header */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "archive/tar.h"
#include "base/base64.h"
#include "base/hex.h"
#include "image/layer_tar_internal.h"

#define XATTR_MAX   65536 /* the kernel's maximum for a list, and for a value */
#define OVERLAY     "user.overlay."
#define CAPS        "security.capability"
#define CAPS_NESTED 24 /* bytes of capabilities for another namespace's root */

/*
 * A key of a record ends at the first '='. A name that contains '=' is written as
 * libarchive does it: escaped, with its value in base64.
 */
static void layer_xattrs_put_escaped(struct buf *pax, const char *name, const void *value,
				     size_t n)
{
	AUTO_BUF struct buf key = BUF_INIT(4096), text = BUF_INIT(2UL * XATTR_MAX);
	char *room = buf_reserve(&text, base64_size(n) + 1);

	buf_puts(&key, "LIBARCHIVE.xattr.");
	for (; *name; name++) {
		unsigned char c = (unsigned char)*name;

		if (c > ' ' && c < 0x7f && c != '=' && c != '%')
			buf_add(&key, name, 1);
		else
			buf_printf(&key, "%%%c%c", hex_digit(c >> 4), hex_digit(c));
	}
	pax->failed |= key.failed || !room;
	if (pax->failed)
		return;
	base64_encode(value, n, room);
	for (n = base64_size(n); n > 0 && room[n - 1] == '=';)
		n--;
	tar_put_record(pax, key.data, room, n);
}

static void layer_xattrs_put(struct buf *pax, const char *name, const void *value,
			     size_t n)
{
	char key[300];

	if (strchr(name, '=')) {
		layer_xattrs_put_escaped(pax, name, value, n);
		return;
	}
	(void)snprintf(key, sizeof(key), "SCHILY.xattr.%s", name);
	tar_put_record(pax, key, value, n);
}

/*
 * Attributes that overlay has written: only `opaque` matters here; the others are for the
 * kernel.
 */
static int layer_xattrs_overlay(const char *path, const char *name, const char *value,
				size_t n, bool *opaque, struct warren_error *err)
{
	name += strlen(OVERLAY);
	if (strcmp(name, "opaque") == 0 && n == 1 && value[0] == 'y' && opaque)
		*opaque = true;
	if (strcmp(name, "redirect") == 0 || strcmp(name, "metacopy") == 0)
		return error_set(err, EOPNOTSUPP,
				 "'%.200s' refers to a file of another layer", path);
	return 0;
}

static int layer_xattrs_one(int fd, const char *path, const char *name, struct buf *pax,
			    bool *opaque, uint64_t *skipped, struct warren_error *err)
{
	char value[XATTR_MAX];
	ssize_t n;

	if (strncmp(name, "user.", 5) != 0 && strcmp(name, CAPS) != 0) {
		(*skipped)++;
		return 0;
	}
	n = fgetxattr(fd, name, value, sizeof(value));
	if (n < 0)
		return error_errno(err, errno, "read the attribute '%.100s' of '%.200s'",
				   name, path);
	if (strncmp(name, OVERLAY, strlen(OVERLAY)) == 0)
		return layer_xattrs_overlay(path, name, value, (size_t)n, opaque, err);
	/* In another sandbox, its own root would have these capabilities. */
	if (strcmp(name, CAPS) == 0 && n >= CAPS_NESTED)
		(*skipped)++;
	else
		layer_xattrs_put(pax, name, value, (size_t)n);
	return 0;
}

static int layer_xattrs_compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int layer_xattrs(int fd, const char *path, struct buf *pax, bool *ret_opaque,
		 uint64_t *skipped, struct warren_error *err)
{
	char few[1024], *names = few;
	AUTO_FREE char *many = NULL;
	AUTO_FREE const char **list = NULL;
	ssize_t size = flistxattr(fd, few, sizeof(few));
	size_t n = 0;
	int r = 0;

	if (size < 0 && errno == ERANGE) {
		names = many = malloc(XATTR_MAX);
		if (!many)
			return error_errno(err, ENOMEM, "read '%.200s'", path);
		size = flistxattr(fd, many, XATTR_MAX);
	}
	if (size == 0 || (size < 0 && errno == EOPNOTSUPP))
		return 0;
	if (size < 0)
		return error_errno(err, errno, "list the attributes of '%.200s'", path);
	list = calloc((size_t)size, sizeof(*list)); /* a name has at least one byte */
	if (!list)
		return error_errno(err, ENOMEM, "read '%.200s'", path);
	for (const char *p = names; p < names + size; p += strlen(p) + 1)
		list[n++] = p;
	qsort(list, n, sizeof(*list), layer_xattrs_compare);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = layer_xattrs_one(fd, path, list[i], pax, ret_opaque, skipped, err);
	return r;
}
