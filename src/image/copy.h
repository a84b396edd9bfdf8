/* SPDX-License-Identifier: Apache-2.0 */
/* copy.h - copy small directory trees of the host into a layer; remove trees */
#ifndef IMAGE_COPY_H
#define IMAGE_COPY_H

#include <stdint.h>

/*
 * Copy "/@path" to @path below @root, and create parent directories. Only directories,
 * symbolic links and world-readable regular files are copied. If "/@path" is a link, the
 * link is copied. 0 or -errno.
 */
int copy_from_host(int root, const char *path);

/* Open a directory below @at; no part of @path may be a link. Or -errno. */
int copy_open_dir(int at, const char *path);
/* Remove a tree like rm -rf, without following links. Errors are ignored. */
void copy_remove_tree(int at, const char *name);
/* The same, until *@max files and directories were looked at, which is counted down. */
void copy_remove_part(int at, const char *name, uint64_t *max);
/*
 * The same, with several threads: on some file systems, removing a file waits for the
 * disk, and threads wait at the same time.
 */
void copy_remove_large(int at, const char *name);
/*
 * The same, but it first gets the name @aside in the same directory, so that a removal
 * which is interrupted leaves no part of it under its own name.
 */
void copy_remove_whole(int at, const char *name, const char *aside);

#endif /* IMAGE_COPY_H */
