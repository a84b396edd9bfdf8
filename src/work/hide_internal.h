/* SPDX-License-Identifier: Apache-2.0 */
/* hide_internal.h - the parts of hiding: the search, and git's configuration */
#ifndef WORK_HIDE_INTERNAL_H
#define WORK_HIDE_INTERNAL_H

#include "base/buf.h"
#include "work/hide.h"

/*
 * Find the files that are hidden (h->paths), and git's configuration files (h->cleaned),
 * of which some may need no change. Unsorted. The file @name in the directory @memory
 * remembers directories for the next search; NULL: none.
 */
int hide_search(int project, const char *const *patterns, int memory, const char *name,
		struct work_hidden *h, struct warren_error *err);
int hide_add(char ***list, size_t *n, const char *path);

/*
 * Write git's configuration without credentials: sections "credential", keys that hold
 * tokens, passwords or headers, and user names and passwords in URLs.
 */
void git_config_clean(const char *text, size_t n, struct buf *out);

#endif /* WORK_HIDE_INTERNAL_H */
