/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dir_handle.h - represent an open directory by a file that contains its path
 *
 * A shim cannot send descriptors of files inside the sandbox. For a directory, it sends a
 * memfd instead. The memfd contains the path and, once the directory is read, its
 * entries; the file position, which all duplicates share, is the reader's progress. So
 * the shim keeps no state that it would have to release when the directory is closed.
 */
#ifndef SHIM_CORE_DIR_HANDLE_H
#define SHIM_CORE_DIR_HANDLE_H

#include <stdint.h>

#include "base/buf.h"

#define TOKEN_PATH_MAX 8192

/* Create a token for @path; return a descriptor or -errno. */
int token_make(const char *path);
/* Get the path of the directory that @fd stands for; -ENOTDIR: @fd is not a token. */
int token_path(int fd, char path[TOKEN_PATH_MAX]);
/* Return whether the entries were already requested. */
bool token_is_read(int fd);
/* Add the entries, one struct proto_entry after another. */
int token_fill(int fd, const struct buf *entries);
/*
 * Get the next complete entries, at most @size bytes; return the number of bytes, 0 at
 * the end, or -errno.
 */
int token_next(int fd, char *out, size_t size, uint32_t *ret_n);

#endif /* SHIM_CORE_DIR_HANDLE_H */
