/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dir_handle.h - an open directory, as a file with its path
 *
 * A shim has no descriptors of files inside to pass on. For a directory it passes on a
 * memfd with the path, which also holds everything about a directory that is being read:
 * its entries after the path, and the reader's progress as the position of the file,
 * which all duplicates share. So the shim stores nothing that it would have to release
 * when the directory is closed.
 */
#ifndef SHIM_CORE_DIR_HANDLE_H
#define SHIM_CORE_DIR_HANDLE_H

#include <stdint.h>

#include "base/buf.h"

#define TOKEN_PATH_MAX 8192

/* A descriptor, or -errno. */
int token_make(const char *path);
/* The path of the directory that @fd stands for; -ENOTDIR: it is no token. */
int token_path(int fd, char path[TOKEN_PATH_MAX]);
/* Whether its entries were requested already. */
bool token_is_read(int fd);
/* Add the entries, one struct proto_entry after another. */
int token_fill(int fd, const struct buf *entries);
/*
 * The next of them, whole ones, at most @size bytes: how many bytes, 0 at the end, or
 * -errno.
 */
int token_next(int fd, char *out, size_t size, uint32_t *ret_n);

#endif /* SHIM_CORE_DIR_HANDLE_H */
