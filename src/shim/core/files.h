/* SPDX-License-Identifier: Apache-2.0 */
/* files.h - what file requests have in common: the user, the path, the error */
#ifndef SHIM_CORE_FILES_H
#define SHIM_CORE_FILES_H

#include "shim/core/dir_handle.h"
#include "shim/core/workers.h"

/* "": the sandbox's own. */
void files_user(uint32_t uid, uint32_t gid, char user[32]);
/* The whole path of @path, which may be relative to the directory that came along. */
int files_path(const char *path, const int *fds, size_t n_fds, char out[TOKEN_PATH_MAX]);
/*
 * Lines of a script that do @otherwise if @path, which is @full as a whole, is relative
 * and leads through a link.
 */
void files_guard(struct buf *script, const char *path, const char *full,
		 const char *otherwise);
/* The answer: that it failed, with what a tool said. Returns -@code. */
int files_fail(const struct work *w, int code, const char *said);

/* file_change.c */
void change_work(const struct work *w, const struct proto_change *msg, size_t size,
		 const int *fds, size_t n_fds);

#endif /* SHIM_CORE_FILES_H */
