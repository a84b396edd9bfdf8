/* SPDX-License-Identifier: Apache-2.0 */
/* tree_restore_internal.h - parts of a restoration: removal, and names of one file */
#ifndef OS_TREE_RESTORE_INTERNAL_H
#define OS_TREE_RESTORE_INTERNAL_H

#include <sys/stat.h>

#include "base/error.h"
#include "os/tree_remove.h"

/* Open a directory of the mounted root, which must not be another mount: -EXDEV. */
int tree_open_root_dir(int dir, const char *name);

/*
 * tree_restore_links.c: which file of the copy became which file of the root. Only files
 * with several names are recorded.
 */
struct restore_links;
struct restore_links *restore_links_new(void);
void restore_links_free(struct restore_links *l);

enum restore_link {
	RESTORE_LINK_FIRST, /* neither file was recorded: the name can stay */
	RESTORE_LINK_SAME,  /* the name already belongs to the right file */
	RESTORE_LINK_OTHER, /* another name, at *ret_path, must be linked here */
	RESTORE_LINK_TAKEN, /* the file belongs to another file: create a new one */
};

/* @new is NULL if the name does not exist in the upper directory. */
enum restore_link restore_links_find(struct restore_links *l, const struct stat *old,
				     const struct stat *new, const char **ret_path);
/*
 * Another name of the file @st will be removed. Return whether it was the last one; false
 * as well if there is no room to count them.
 */
bool restore_links_last(struct restore_links *l, const struct stat *st);
/* Is there no room for another file? */
bool restore_links_full(const struct restore_links *l);
/* Record that the file @old is now @new (NULL: a file that was created), at @path.
 * -ENOMEM: there are too many. */
int restore_links_add(struct restore_links *l, const struct stat *old,
		      const struct stat *new, const char *path);

#endif /* OS_TREE_RESTORE_INTERNAL_H */
