/* SPDX-License-Identifier: Apache-2.0 */
/* patch_path.h - the names of files in patches */
#ifndef TEXTDIFF_PATCH_PATH_H
#define TEXTDIFF_PATCH_PATH_H

#include "textdiff/text.h"

/*
 * Read the name at the start of @t: in quotes with escapes, or up to a tab or the end of
 * the line. If @prefixed, its first component ("a/") is removed. *@ret is NULL for
 * "/dev/null". *@ret_len is the length of what was read. -EINVAL: it is not a relative
 * path without "." and "..".
 */
int patch_path_read(struct text t, bool prefixed, char **ret, size_t *ret_len,
		    struct warren_error *err) MUST_CHECK;
/* Read the names of a line "diff --git a/x b/y", which starts at the "a". */
int patch_path_read_both(struct text t, char **ret_old, char **ret_new,
			 struct warren_error *err) MUST_CHECK;

#endif /* TEXTDIFF_PATCH_PATH_H */
