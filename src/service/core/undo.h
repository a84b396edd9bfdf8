/* SPDX-License-Identifier: Apache-2.0 */
/* undo.h - undo the last command of a sandbox */
#ifndef SERVICE_CORE_UNDO_H
#define SERVICE_CORE_UNDO_H

#include "service/core/service.h"

#define UNDO_NOTHING                                                                  \
	"there is nothing to undo: the last command was not undoable, or a file was " \
	"changed after it"

#define UNDO_RUNS                                                                        \
	"the last command is still running: end it, or wait until it has ended, before " \
	"it is undone"

/* Return -EOPNOTSUPP if the sandbox's backend cannot undo commands. */
int undo_check_backend(const struct sandbox *sandbox, struct warren_error *err);
/* A last check before the files are copied; -errno: they are not. */
typedef int (*undo_check_fn)(void *ctx, struct warren_error *err);
/*
 * Call this when the sandbox can be used, before a command starts: copy the files if it
 * is @undoable and @check (NULL: none) permits it; otherwise, remove the copy, so that
 * nothing can be undone. If @done gets an error, the command must not start. If it gets a
 * number > 0, a copy was made for the command, which has this number from now on. A
 * hibernation does not come in between if the command starts in @done.
 */
void undo_settle(struct sandbox *sandbox, bool undoable, undo_check_fn check,
		 service_done_fn done, void *ctx);
/* Like sandbox_use(), followed by undo_settle(). */
void undo_use(struct sandbox *sandbox, bool undoable, service_done_fn done, void *ctx);
/*
 * Call one of these after a copy was made: the command has started, or it could not be
 * started. In this case, the copy before is valid again. 0: it is not undoable. @sandbox
 * may be NULL for undo_not_started().
 */
void undo_started(struct sandbox *sandbox, uint32_t number);
void undo_not_started(struct sandbox *sandbox, uint32_t number);
/* The command has ended; 0: it was not undoable. */
void undo_ended(struct sandbox *sandbox, uint32_t number);
/*
 * An earlier process started this command. It may be the last one, of which a copy may
 * exist. Return a number for undo_ended().
 */
uint32_t undo_restored(struct sandbox *sandbox);
/* The sandbox was created or woken: there is no copy. */
void undo_is_new(struct sandbox *sandbox);
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
/* Restore the files. -ESTALE: there is nothing to undo, or the command still runs. */
void sandbox_undo(struct sandbox *sandbox, undo_fn done, void *ctx);

#endif /* SERVICE_CORE_UNDO_H */
