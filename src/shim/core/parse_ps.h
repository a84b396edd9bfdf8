/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_ps.h - the processes of a sandbox, from the lines of a script (scripts.h:
 * script_processes)
 *
 * The processes of an exec are its first one, identified by pid and start time; those
 * that the script reports with its mark; and all descendants of these.
 */
#ifndef SHIM_CORE_PARSE_PS_H
#define SHIM_CORE_PARSE_PS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROCS_MAX 65536 /* that a listing may have */

struct proc {
	int pid, ppid;
	uint64_t start; /* clock ticks, as inside */
	bool ours, dead, ignores_int;
};

struct procs {
	struct proc *procs; /* to be freed; by their numbers */
	size_t n;
};

/*
 * @text is written to. pid and start identify the @n first processes (start 0: only the
 * pid). @ret must be freed in any case; -ENOMEM; -E2BIG: more than PROCS_MAX.
 */
int procs_parse(char *text, const struct proc *first, size_t n, struct procs *ret);
/* NULL: it is not there. */
struct proc *procs_find(const struct procs *l, int pid);
/* When a process started, from the part of its stat after the name; 0: not known. */
uint64_t procs_start(const char *stat);

#endif /* SHIM_CORE_PARSE_PS_H */
