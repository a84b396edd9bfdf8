/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_ps.c - parse a list of processes from a script inside, and find the execs they
 * belong to
 *
 * Root inside can replace the tools that the script calls, so the list may contain
 * anything. The number of processes is limited, and no step makes more than one search
 * per process, whatever parents the list contains.
 */
#include "shim/core/parse_ps.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"

#define COMM_MAX    64 /* a name has at most 15 bytes, or 63 in a kernel thread */
#define NUMBERS_MIN 40 /* minimum length of about fifty numbers */

/* Return word @number of a stat, counted from 1 at the state. */
static uint64_t parse_ps_stat_word(const char *stat, int number)
{
	for (; stat; number--) {
		while (*stat == ' ')
			stat++;
		if (number == 1)
			return strtoull(stat, NULL, 10);
		stat = strchr(stat, ' ');
	}
	return 0;
}

uint64_t procs_start(const char *stat)
{
	return parse_ps_stat_word(stat, 20);
}

static int by_pid(const void *a, const void *b)
{
	int x = ((const struct proc *)a)->pid, y = ((const struct proc *)b)->pid;

	return (x > y) - (x < y);
}

struct proc *procs_find(const struct procs *l, int pid)
{
	const struct proc key = { .pid = pid };

	return l->n ? bsearch(&key, l->procs, l->n, sizeof(key), by_pid) : NULL;
}

static void mark_one(const struct procs *l, const char *line)
{
	struct proc *p = strncmp(line, "/proc/", 6) == 0
				 ? procs_find(l, (int)strtol(line + 6, NULL, 10))
				 : NULL;

	if (p)
		p->ours = true;
}

/*
 * Return the text after the name. The name begins at @at and may contain anything, even
 * newlines and text that looks like other processes. But a name is so short that the
 * numbers after it would not fit into a name.
 */
static char *behind_name(char *at)
{
	for (char *p = at; *p && p - at < COMM_MAX; p++)
		if (p[0] == ')' && p[1] == ' ' && isupper((unsigned char)p[2]) &&
		    strspn(p + 3, " -0123456789") >= NUMBERS_MIN)
			return p + 2;
	return NULL;
}

static int parse_ps_add(struct procs *l, struct proc p)
{
	if (l->n == PROCS_MAX)
		return -E2BIG;
	if (l->n % 256 == 0) {
		struct proc *more = reallocarray(l->procs, l->n + 256, sizeof(*more));

		if (!more)
			return -ENOMEM;
		l->procs = more;
	}
	l->procs[l->n++] = p;
	return 0;
}

static bool is_first(const struct proc *p, const struct proc *first, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p->pid == first[i].pid &&
		    (p->start == first[i].start || first[i].start == 0))
			return true;
	return false;
}

/* Parse a sequence of "PID (NAME) STAT"; *@ret_end is the text after them. */
static int parse_stats(char *text, const struct proc *first, size_t n, struct procs *l,
		       char **ret_end)
{
	char *next, *end;
	int r = 0;

	for (char *line = text; r == 0 && *line && *line != '\n'; line = next) {
		struct proc p = { 0 };
		char *stat = NULL;

		/* strtol(3) would skip lines that contain only whitespace. */
		if (isdigit((unsigned char)*line)) {
			p.pid = (int)strtol(line, &end, 10);
			stat = strncmp(end, " (", 2) == 0 ? behind_name(end + 2) : NULL;
		}
		next = strchr(stat ? stat : line, '\n');
		if (next)
			*next++ = '\0';
		else
			next = strchr(line, '\0');
		*ret_end = next;
		if (!stat || p.pid <= 1)
			continue;
		p.dead = *stat == 'Z' || *stat == 'X';
		p.ppid = (int)parse_ps_stat_word(stat, 2);
		p.start = procs_start(stat);
		p.ours = is_first(&p, first, n);
		r = parse_ps_add(l, p);
	}
	return r;
}

/*
 * Parse the output of script_processes: processes, then an empty line, then those with
 * the mark.
 */
static int parse_ps_line(char *text, const struct proc *first, size_t n, struct procs *l)
{
	char *line = text, *next;
	int r = parse_stats(text, first, n, l, &line);

	if (r < 0)
		return r;
	if (l->n > 0)
		qsort(l->procs, l->n, sizeof(*l->procs), by_pid);
	for (; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		mark_one(l, line);
	}
	return 0;
}

enum {
	UNKNOWN,
	ON_THE_WAY, /* visited in the current walk: meeting it again is a cycle */
	KNOWN,
};

/*
 * Find out whether @at descends from an exec's process: go from parent to parent up to
 * the first process whose answer is known, and then the same way again to record the
 * answer for each process. So no process is visited more than twice in all walks
 * together.
 */
static void walk_up(const struct procs *l, unsigned char *state, struct proc *at)
{
	struct proc *first = at, *up;
	bool ours;

	for (up = at; up && state[up - l->procs] == UNKNOWN && !up->ours;
	     up = procs_find(l, up->ppid))
		state[up - l->procs] = ON_THE_WAY;
	ours = up && up->ours;
	for (at = first; at && state[at - l->procs] == ON_THE_WAY;
	     at = procs_find(l, at->ppid)) {
		state[at - l->procs] = KNOWN;
		at->ours = ours;
	}
}

/* Mark all descendants of the execs' processes. */
static int close_over(const struct procs *l)
{
	unsigned char *state = calloc(l->n + 1, 1);

	if (!state)
		return -ENOMEM;
	for (size_t i = 0; i < l->n; i++)
		walk_up(l, state, &l->procs[i]);
	free(state);
	return 0;
}

int procs_parse(char *text, const struct proc *first, size_t n, struct procs *ret)
{
	int r = parse_ps_line(text, first, n, ret);

	return r < 0 ? r : close_over(ret);
}
