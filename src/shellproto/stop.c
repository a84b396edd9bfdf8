/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stop.c - choose the processes to signal so that a command ends, but its shell does not
 *
 * Without a terminal, only the process tree distinguishes the processes of a command from
 * the shell and from the jobs of earlier commands. These processes are spared: the shell;
 * processes that are older than the command; processes that the shell reported as a job
 * ($!) after an earlier command; and all descendants of these, except those of the shell.
 * A process that a shell starts with & ignores SIGINT. The second step uses this to spare
 * the jobs of the command itself, such as a server that it started and then waited for.
 *
 * The shell is signalled first: it must know that it was interrupted when it notices that
 * its child has ended, or it would continue with the rest of the command.
 */
#include <signal.h>

#include "shellproto/shellproto_internal.h"

static const struct {
	int signal;
	bool shell;    /* signal the shell too */
	bool others;   /* signal the command's processes */
	bool ignoring; /* include processes that ignore SIGINT */
} steps[] = {
	[SHELLPROTO_STEP_INTERRUPT] = { SIGINT, true, true, true },
	[SHELLPROTO_STEP_KILL] = { SIGKILL, false, true, false },
	[SHELLPROTO_STEP_KILL_ALL] = { SIGKILL, false, true, true },
	[SHELLPROTO_STEP_END] = { SIGKILL, true, false, false },
};

_Static_assert(ARRAY_SIZE(steps) == SHELLPROTO_STEP_MAX, "a step is missing");

static size_t n_jobs(const struct shellproto *s)
{
	return s->n_jobs < JOBS_MAX ? s->n_jobs : JOBS_MAX;
}

static bool is_job(const struct shellproto *s, int pid)
{
	for (size_t i = 0; i < n_jobs(s); i++)
		if (s->jobs[i] == pid)
			return true;
	return false;
}

static const struct shellproto_process *stop_find(const struct shellproto_process *procs,
						  size_t n, int pid)
{
	for (size_t i = 0; i < n; i++)
		if (procs[i].pid == pid)
			return &procs[i];
	return NULL;
}

/*
 * Is the process kept? Follow its parents to the shell, or out of the exec. The number of
 * steps is limited, because the table may contain a cycle.
 */
static bool is_kept(const struct shellproto *s, uint64_t since,
		    const struct shellproto_process *procs, size_t n,
		    const struct shellproto_process *p)
{
	for (size_t i = 0; p && p->pid != s->pid && i <= n; i++) {
		if (p->start < since || is_job(s, p->pid))
			return true;
		p = stop_find(procs, n, p->ppid);
	}
	return false;
}

size_t shellproto_victims(const struct shellproto *s, enum shellproto_step step,
			  uint64_t since, const struct shellproto_process *procs,
			  size_t n, int *pids, int *ret_signal)
{
	size_t count = 0;

	*ret_signal = steps[step].signal;
	if (steps[step].shell && stop_find(procs, n, s->pid))
		pids[count++] = s->pid;
	for (size_t i = 0; i < n && steps[step].others; i++) {
		const struct shellproto_process *p = &procs[i];

		if (p->pid != s->pid && (steps[step].ignoring || !p->ignores_int) &&
		    !is_kept(s, since, procs, n, p))
			pids[count++] = p->pid;
	}
	return count;
}

/*
 * A comm can contain spaces, parentheses and newlines: the fields begin after the last
 * ")". Processes that end in the meantime are skipped. All are listed before any is
 * signalled, because a process whose parent is gone leaves the tree.
 */
static const char script[] =
	/* clang-format off */
	"all=\n"
	"for d in /proc/[0-9]*; do\n"
	"	p=${d#/proc/} q=${d#/proc/}\n"
	"	[ \"$p\" != $$ ] && [ \"$p\" != $shell ] || continue\n"
	"	while [ \"$q\" != $shell ]; do\n"
	"		case \"$jobs\" in *\" $q \"*) continue 2;; esac\n"
	"		stat=\n"
	"		{ while read -r line; do stat=\"$stat $line\"; done </proc/$q/stat; } 2>/dev/null\n"
	"		stat=${stat##*) }\n"
	"		q=${stat#? } q=${q%% *}\n"
	"		case $q in 0 | 1 | '' | *[!0-9]*) continue 2;; esac\n"
	"	done\n"
	"	if [ $ignoring = 0 ]; then\n"
	"		mask=\n"
	"		{ while read -r key value; do\n"
	"			case $key in SigIgn:) mask=$value;; esac\n"
	"		done <$d/status; } 2>/dev/null\n"
	"		case $mask in *[2367abef]) continue;; esac\n"
	"	fi\n"
	"	all=\"$all $p\"\n"
	"done\n"
	"[ $others = 1 ] || all=\n"
	"[ $self = 0 ] || all=\"$shell $all\"\n"
	"[ -z \"$all\" ] || kill -$signal $all 2>/dev/null\n"
	"exit 0\n";
/* clang-format on */

void shellproto_stop_script(const struct shellproto *s, enum shellproto_step step,
			    struct buf *out)
{
	buf_printf(out, "shell=%d signal=%d self=%d others=%d ignoring=%d jobs=' ",
		   s->pid, steps[step].signal, steps[step].shell, steps[step].others,
		   steps[step].ignoring);
	for (size_t i = 0; i < n_jobs(s); i++)
		buf_printf(out, "%d ", s->jobs[i]);
	buf_puts(out, "'\n");
	buf_puts(out, script);
}
