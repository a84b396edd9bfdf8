/* SPDX-License-Identifier: Apache-2.0 */
/* copy.h - copy small trees of the machine into a layer; remove trees */
#ifndef IMAGE_COPY_H
#define IMAGE_COPY_H

/*
 * Copy "/@path" to @path below @root, with the directories on the way.
 * Directories, links and regular files that everybody may read; all else is
 * left out. A link at the top is copied as a link. 0 or -errno.
 */
int copy_from_host(int root, const char *path);

/* rm -rf, never through a link. Best effort. */
void copy_remove_tree(int at, const char *name);

#endif /* IMAGE_COPY_H */
