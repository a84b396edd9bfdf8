/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_ps.h - parse the list of a sandbox's processes that script_processes (scripts.h)
 * prints
 *
 * The processes of an exec are its first process, identified by pid and start time; the
 * processes that the script reports with the exec's mark; and all descendants of these.
 */
#ifndef SHIM_CORE_PARSE_PS_H
#define SHIM_CORE_PARSE_PS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROCS_MAX 65536 /* maximum processes in a list */

struct proc {
	int pid, ppid;
	uint64_t start; /* clock ticks, as seen inside */
	bool ours, dead, ignores_int;
};

struct procs {
	struct proc *procs; /* sorted by pid; the caller frees them */
	size_t n;
};

/*
 * Parse @text, which is modified. @first lists the @n first processes of execs, by pid
 * and start (start 0: only the pid). The caller must always free ret->procs. -ENOMEM: out
 * of memory; -E2BIG: more than PROCS_MAX processes.
 */
int procs_parse(char *text, const struct proc *first, size_t n, struct procs *ret);
/* Find a process by pid; NULL: there is none. */
struct proc *procs_find(const struct procs *l, int pid);
/*
 * Get the start time of a process from the part of its stat after the name; 0: unknown.
 */
uint64_t procs_start(const char *stat);

#endif /* SHIM_CORE_PARSE_PS_H */
