/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_links.h - files with several names: find the first name of each
 *
 * A file is forgotten when all its names were seen, so the table is as large as the
 * number of files that are waiting for another name.
 */
#ifndef IMAGE_LAYER_LINKS_H
#define IMAGE_LAYER_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct layer_link;

struct layer_links {
	struct layer_link *slots; /* hashed by device and inode */
	size_t n, cap;            /* slots that are or were in use, and all */
	size_t bytes;             /* of all names */
	char *last;               /* the name that was forgotten last */
};

/*
 * Note that the file @st has the name @path. *@ret_first is its first name, which stays
 * valid until the next call, or NULL if this is the first. -ENOMEM: the table is full.
 */
int layer_links_see(struct layer_links *l, const struct stat *st, const char *path,
		    const char **ret_first);
void layer_links_done(struct layer_links *l);

#endif /* IMAGE_LAYER_LINKS_H */
