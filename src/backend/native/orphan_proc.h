/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orphan_proc.h - read facts about a process from /proc; @pid is the name of its
 * directory
 */
#ifndef BACKEND_NATIVE_ORPHAN_PROC_H
#define BACKEND_NATIVE_ORPHAN_PROC_H

#include <stdbool.h>
#include <stdint.h>

/* Get the owner of the process's directory; UINT64_MAX: there is no such process. */
uint64_t proc_uid(const char *pid);
void proc_name(const char *pid, char ret[32]);
/*
 * Return whether this engine's user owns the program of the process, and the path of that
 * program, as /proc shows it, ends in @link.
 */
bool proc_runs(const char *pid, const char *link);
/*
 * Get the three user ids of the process, and its process id in its innermost namespace.
 */
bool proc_ids(const char *pid, uint32_t uids[3], int *ret_inner);
/* Return whether the process has begun to exit. */
bool proc_is_exiting(const char *pid);

#endif /* BACKEND_NATIVE_ORPHAN_PROC_H */
