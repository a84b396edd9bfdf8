/* SPDX-License-Identifier: Apache-2.0 */
/* files_internal.h - reach files beneath a directory, without links, and read them */
#ifndef WORK_FILES_INTERNAL_H
#define WORK_FILES_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"

/*
 * Open the directory @path ("" or "."): @root itself) beneath @root, without links or
 * other mounts; @flags are O_RDONLY or O_PATH. A descriptor or -errno.
 */
int beneath_dir(int root, const char *path, int flags);
/*
 * Open the directory that contains @path, with O_PATH; *@ret_name is its last component,
 * in
 * @path.
 */
int beneath_parent(int root, const char *path, const char **ret_name);
/*
 * Open the regular file @name in @dir for reading, even if it is the user's and denies
 * that (reach.h), and get its status. -EMEDIUMTYPE: it is something else.
 */
int beneath_file(int dir, const char *name, struct stat *ret);
/* Get the status of @path, without links; 0 or -errno. */
int beneath_stat(int root, const char *path, struct stat *ret);
/* Create @path and its missing parents below @root; a descriptor (O_PATH) or -errno. */
int beneath_make_dirs(int root, const char *path, mode_t mode);

/* Read the whole file into *@ret, which has a NUL at its end. -EFBIG: more than @max. */
int work_file_read(int fd, size_t max, char **ret, size_t *ret_len);
/* Read a small file below @root that may not exist: 0 or -errno. */
int work_file_read_at(int root, const char *path, size_t max, char **ret,
		      size_t *ret_len);
/* Get the target of a link, with a NUL at its end. */
int link_read(int dir, const char *name, char **ret, size_t *ret_len);
/*
 * Write @name in @dir anew: it has all bytes or the old ones. @sync: it survives a power
 * cut as well.
 */
int work_file_replace(int dir, const char *name, const void *data, size_t n, bool sync);

/*
 * Remove @name in @dir like reach_remove(), in another process: return after at most @ms
 * milliseconds, even if the removal takes longer. Another removal of the same files does
 * no harm.
 */
void remove_behind(int dir, const char *name, int ms);

/* One entry of a directory, as getdents64(2) returns it. */
struct dir_entry {
	uint64_t ino;
	int64_t off;
	uint16_t size;
	uint8_t type; /* DT_*; DT_UNKNOWN: it is gone */
	char name[];
};

/* Read a directory: initialise .fd, and call dir_next() until it returns <= 0. */
struct dir_reader {
	int fd; /* borrowed */
	long n, at;
	_Alignas(8) char room[32768];
};

/* 1; 0: there are no more entries; -errno. "." and ".." are left out. */
int dir_next(struct dir_reader *r, const struct dir_entry **ret);

/* Is the file a whiteout of an overlay? */
static inline bool stat_is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

/* Does the directory hide the lower one completely? */
bool dir_is_opaque(int fd);

#endif /* WORK_FILES_INTERNAL_H */
