/* SPDX-License-Identifier: Apache-2.0 */
/* dir_handle.c - a directory as a memfd */
#include "shim/core/dir_handle.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "proto/init_proto.h"

#define TOKEN_MAGIC 0x444e5257 /* "WRND" */

struct head {
	uint32_t magic;
	uint32_t path_size;
	char path[TOKEN_PATH_MAX];
};

int token_make(const char *path)
{
	struct head h = { .magic = TOKEN_MAGIC, .path_size = (uint32_t)strlen(path) };
	AUTO_CLOSE int fd = memfd_create("warren-directory", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (h.path_size >= sizeof(h.path))
		return -ENAMETOOLONG;
	(void)strcpy(h.path, path);
	if (pwrite(fd, &h, sizeof(h), 0) != sizeof(h))
		return -errno;
	return TAKE_FD(fd);
}

int token_path(int fd, char path[TOKEN_PATH_MAX])
{
	struct head h;

	if (pread(fd, &h, sizeof(h), 0) != sizeof(h) || h.magic != TOKEN_MAGIC ||
	    h.path_size >= sizeof(h.path) || h.path[h.path_size] != '\0')
		return -ENOTDIR;
	(void)strcpy(path, h.path);
	return 0;
}

bool token_is_read(int fd)
{
	return lseek(fd, 0, SEEK_CUR) >= (off_t)sizeof(struct head);
}

int token_fill(int fd, const struct buf *entries)
{
	if (lseek(fd, sizeof(struct head), SEEK_SET) < 0)
		return -errno;
	for (size_t at = 0; at < entries->len;) {
		ssize_t n = pwrite(fd, entries->data + at, entries->len - at,
				   (off_t)(sizeof(struct head) + at));

		if (n < 0)
			return -errno;
		at += (size_t)n;
	}
	return 0;
}

int token_next(int fd, char *out, size_t size, uint32_t *ret_n)
{
	off_t from = lseek(fd, 0, SEEK_CUR);
	ssize_t got = from < 0 ? -1 : pread(fd, out, size, from);
	size_t at = 0;

	*ret_n = 0;
	if (got < 0)
		return -errno;
	while (at + sizeof(struct proto_entry) <= (size_t)got) {
		struct proto_entry e;
		size_t whole;

		(void)memcpy(&e, out + at, sizeof(e));
		whole = (sizeof(e) + e.name_size + 1U + e.link_size + 1U + 7) &
			~(size_t)7;
		if (at + whole > (size_t)got)
			break;
		at += whole;
		(*ret_n)++;
	}
	if (lseek(fd, from + (off_t)at, SEEK_SET) < 0)
		return -errno;
	return (int)at;
}
