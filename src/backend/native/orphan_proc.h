/* SPDX-License-Identifier: Apache-2.0 */
/* orphan_proc.h - what /proc says of a process; @pid is the name of its directory there
 */
#ifndef BACKEND_NATIVE_ORPHAN_PROC_H
#define BACKEND_NATIVE_ORPHAN_PROC_H

#include <stdbool.h>
#include <stdint.h>

/* The owner of its directory; UINT64_MAX: there is no such process. */
uint64_t proc_uid(const char *pid);
void proc_name(const char *pid, char ret[32]);
/* Is its program owned by this engine's user, and does its path in /proc end in @link? */
bool proc_runs(const char *pid, const char *link);
/* Its three user ids, and its process id in its innermost namespace. */
bool proc_ids(const char *pid, uint32_t uids[3], int *ret_inner);
/* Has it begun to end? */
bool proc_is_exiting(const char *pid);

#endif /* BACKEND_NATIVE_ORPHAN_PROC_H */
