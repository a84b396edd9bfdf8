/* SPDX-License-Identifier: Apache-2.0 */
/* files.h - functions that all file requests use: the user, the path, the error */
#ifndef SHIM_CORE_FILES_H
#define SHIM_CORE_FILES_H

#include "shim/core/dir_handle.h"
#include "shim/core/workers.h"

/* Format a user for the driver; "": the sandbox's default user. */
void files_user(uint32_t uid, uint32_t gid, char user[32]);
/* Get the absolute path of @path, which may be relative to the directory in @fds. */
int files_path(const char *path, const int *fds, size_t n_fds, char out[TOKEN_PATH_MAX]);
/*
 * Append script lines that run @otherwise if @path is relative and leads through a link.
 * @full is its absolute path. @before: a path that lines before these check, from the
 * same directory; its directories are not checked again. NULL: none.
 */
void files_guard(struct buf *script, const char *path, const char *full,
		 const char *before, const char *otherwise);
/* Reply with a failure and the message of a tool; return -@code. */
int files_fail(const struct work *w, int code, const char *said);

/* file_change.c */
void change_work(const struct work *w, const struct proto_change *msg, size_t size,
		 const int *fds, size_t n_fds);

#endif /* SHIM_CORE_FILES_H */
