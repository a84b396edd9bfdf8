/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dir_handle.h - an open directory, as a file with its path
 *
 * A shim has no descriptor of anything inside to pass on. What it passes on for a
 * directory is a memfd with the path in it, and all it must remember of a directory that
 * is being read is in there, too: its entries behind the path, and how far its reader is
 * as the position of the file, which is the same for every duplicate. So nothing need be
 * kept here, nor forgotten when it is closed.
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
/* Was what is in it asked for already? */
bool token_is_read(int fd);
/* Here it is, as struct proto_entry after struct proto_entry. */
int token_fill(int fd, const struct buf *entries);
/*
 * The next of them, whole ones, at most @size bytes: how many bytes, 0 at the end, or
 * -errno.
 */
int token_next(int fd, char *out, size_t size, uint32_t *ret_n);

#endif /* SHIM_CORE_DIR_HANDLE_H */
