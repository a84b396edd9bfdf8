/* SPDX-License-Identifier: Apache-2.0 */
/* git_index.h - which files of a repository are tracked: .git/index */
#ifndef WORK_GIT_INDEX_H
#define WORK_GIT_INDEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define GIT_INDEX_MAX ((size_t)512 << 20) /* bytes */

struct git_index {
	const char **paths; /* sorted by bytes */
	size_t n;
	char *room; /* what they point into */
};

/*
 * Parse an index of version 2, 3 or 4, with ids of @id_size bytes (20 or 32). -EBADMSG:
 * it is damaged, or its paths are many times its size. -EOPNOTSUPP: another version, or
 * parts of it are in another file.
 */
int git_index_parse(const char *data, size_t n, size_t id_size, struct git_index *ret);
/*
 * If the index *@data, which is the file @path below the directory @root, is only a part
 * (core.splitIndex), replace it by the whole index. 1: replaced; 0: it was whole. Errors
 * are those of git_index_parse(), and those of reading the other part.
 */
int git_index_join(int root, const char *path, size_t id_size, char **data, size_t *n);
void git_index_done(struct git_index *x);
/* Is @path a tracked file, or a directory that has one? */
bool git_index_has(const struct git_index *x, const char *path);
/*
 * Write the index @data to @out, with the files for which @is returns true marked as not
 * checked out (skip-worktree): git takes no notice that they are missing, and keeps them
 * in commits. Returns how many were marked; 0: nothing was written. -EBADMSG and
 * -EOPNOTSUPP as above.
 */
int git_index_skip(const char *data, size_t n, size_t id_size,
		   bool (*is)(const void *context, const char *path), const void *context,
		   struct buf *out);

#endif /* WORK_GIT_INDEX_H */
