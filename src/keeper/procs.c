/* SPDX-License-Identifier: Apache-2.0 */
/* procs.c - a listing of processes, as a script inside made it; whose they are */
#include "keeper/procs.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/macro.h"

/* Word @number of a stat, counted from 1 at the state. */
static uint64_t stat_word(const char *stat, int number)
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
	return stat_word(stat, 20);
}

static struct proc *find(const struct procs *l, int pid)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->procs[i].pid == pid)
			return &l->procs[i];
	return NULL;
}

static void mark_one(const struct procs *l, const char *line)
{
	struct proc *p = strncmp(line, "/proc/", 6) == 0
				 ? find(l, (int)strtol(line + 6, NULL, 10))
				 : NULL;

	if (p)
		p->ours = true;
}

/* Lines of script_processes: processes, and behind an empty one those with the mark. */
static int parse(char *text, int first, uint64_t start, struct procs *l)
{
	bool second = false;
	char *next, *end;

	for (char *line = text; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (!*line) {
			second = true;
			continue;
		}
		if (second) {
			mark_one(l, line);
			continue;
		}
		if (l->n % 256 == 0) {
			struct proc *more =
				reallocarray(l->procs, l->n + 256, sizeof(*more));

			if (!more)
				return -ENOMEM;
			l->procs = more;
		}
		struct proc p = { .pid = (int)strtol(line, &end, 10) };

		if (p.pid <= 1 || end[0] != ' ' || !isupper((unsigned char)end[1]))
			continue;
		p.dead = end[1] == 'Z' || end[1] == 'X';
		p.ppid = (int)stat_word(end + 1, 2);
		p.start = procs_start(end + 1);
		p.ours = p.pid == first && (p.start == start || start == 0);
		l->procs[l->n++] = p;
	}
	return 0;
}

/* Whoever descends from one of ours is ours. */
static void close_over(const struct procs *l)
{
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < l->n; i++) {
			const struct proc *up;

			if (l->procs[i].ours)
				continue;
			up = find(l, l->procs[i].ppid);
			if (up && up->ours) {
				l->procs[i].ours = true;
				more = true;
			}
		}
	}
}

int procs_parse(char *text, int first, uint64_t start, struct procs *ret)
{
	int r = parse(text, first, start, ret);

	if (r == 0)
		close_over(ret);
	return r;
}
