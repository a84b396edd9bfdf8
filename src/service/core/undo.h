/* SPDX-License-Identifier: Apache-2.0 */
/* undo.h - undo the last command of a sandbox */
#ifndef SERVICE_CORE_UNDO_H
#define SERVICE_CORE_UNDO_H

#include "service/core/service.h"

#define UNDO_NOTHING                                                                  \
	"there is nothing to undo: the last command was not undoable, or a file was " \
	"changed after it"

/* Return -EOPNOTSUPP if the sandbox's backend cannot undo commands. */
int undo_check_backend(const struct sandbox *sandbox, struct warren_error *err);
/* A last check before the files are copied; -errno: they are not. */
typedef int (*undo_check_fn)(void *ctx, struct warren_error *err);
/*
 * Call this when the sandbox can be used, before a command starts: copy the files if it
 * is @undoable and @check (NULL: none) permits it; otherwise, remove the copy, so that
 * nothing can be undone. If @done gets an error, the command must not start. A
 * hibernation does not come in between if the command starts in @done.
 */
void undo_settle(struct sandbox *sandbox, bool undoable, undo_check_fn check,
		 service_done_fn done, void *ctx);
/* Like sandbox_use(), followed by undo_settle(). */
void undo_use(struct sandbox *sandbox, bool undoable, service_done_fn done, void *ctx);
/*
 * Call this before a file is changed or input is sent to a shell: after that, nothing can
 * be undone.
 */
void undo_spoil(struct sandbox *sandbox);
/* Like undo_spoil(), if a request about files to init changes them. */
void undo_note_request(struct sandbox *sandbox, const void *msg);

/* @undone is NULL after a failure. */
typedef void (*undo_fn)(void *ctx, const struct warren_undone *undone,
			const struct warren_error *err);
/* Restore the files. -ESTALE: there is nothing to undo. */
void sandbox_undo(struct sandbox *sandbox, undo_fn done, void *ctx);

#endif /* SERVICE_CORE_UNDO_H */
