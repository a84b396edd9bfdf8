/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.c - check a SPAWN message and prepare the streams
 *
 * exec_child.c creates the process and sends the reply.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "agent/core/agent.h"
#include "agent/core/spawn.h"

static char *pointers[PROTO_POINTERS_MAX + 2];

/* Read the file that follows the strings: its name and the remaining bytes. */
static long spawn_unpack_file(struct plan *p, const char *s, const char *end)
{
	p->file = s;
	while (s < end && *s && *s != '/')
		s++;
	if (s == end || *s || s == p->file)
		return -EPROTO;
	p->content = s + 1;
	p->content_size = (size_t)(end - p->content);
	return 0;
}

/* Split the strings, store them in the plan, and refuse inconsistent strings. */
static long spawn_unpack(struct plan *p, char *strings, size_t size)
{
	const struct proto_spawn *msg = p->msg;
	size_t n = 0, want = 1 + (size_t)msg->argc + msg->envc;
	char *s = strings, *end = strings + size;

	if (msg->argc == 0 || want > PROTO_POINTERS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < want; i++) {
		char *word = s;

		while (s < end && *s)
			s++;
		if (s == end)
			return -EPROTO;
		s++;
		if (i == 0) {
			p->cwd = word;
			continue;
		}
		pointers[n++] = word;
		if (i == msg->argc)
			pointers[n++] = NULL;
	}
	pointers[n] = NULL;
	p->argv = pointers;
	p->env = pointers + msg->argc + 1;
	if (msg->flags & PROTO_SPAWN_FILE)
		return init.files ? spawn_unpack_file(p, s, end) : -EOPNOTSUPP;
	return s == end ? 0 : -EPROTO;
}

/* Create a pipe: one end is for the child, the other is returned. */
static long spawn_open_pipe(struct plan *p, bool child_reads, int *ret_child)
{
	int ends[2];
	long r = SYS_2(SYS_pipe2, ends, O_CLOEXEC);

	if (r < 0)
		return r;
	*ret_child = ends[!child_reads];
	p->theirs[p->n_theirs++] = *ret_child;
	return ends[child_reads];
}

/* Create a pipe that is drained into the journal as stream @which + 1. */
static long spawn_open_stream(struct plan *p, struct exec *ex, unsigned which,
			      int *ret_child)
{
	long fd = spawn_open_pipe(p, false, ret_child);

	return fd < 0 ? fd : drain_watch(ex, which, (int)fd);
}

static long spawn_open_journal(struct plan *p, struct exec *ex, int c, int *last)
{
	static const uint32_t bit[] = { PROTO_SPAWN_OUT, PROTO_SPAWN_ERR };
	long r = 0;

	ex->journal = last[0];
	ex->notify[c] = last[1];
	last[0] = last[1] = -1;
	if (p->msg->flags & PROTO_SPAWN_HOLD)
		ex->holds = 1U << c;
	for (unsigned i = 0; i < 2 && r == 0; i++)
		if (p->msg->flags & bit[i] && !(p->msg->flags & PROTO_SPAWN_PTY))
			r = spawn_open_stream(p, ex, i, &p->stdio[1 + i]);
	return r < 0 ? r : drain_start(ex, p->msg->journal_limit);
}

static long spawn_check_control(const struct proto_spawn *msg, size_t n_fds)
{
	const uint8_t *at = msg->control;

	for (int i = 0; i < PROTO_CONTROL_MAX; i++) {
		if (at[i] == 0)
			continue;
		if (at[i] < 3 || at[i] == at[(i + 1) % PROTO_CONTROL_MAX])
			return -EINVAL;
		if (msg->nofile && at[i] >= msg->nofile)
			return -EMFILE;
	}
	if (!(msg->flags & PROTO_SPAWN_JOURNAL) ||
	    (at[PROTO_CONTROL_COMMAND] && n_fds < 3))
		return -EPROTO;
	return 0;
}

/*
 * Prepare the pipes of a session and the file that came with the request, before the
 * journal.
 */
static long open_control(struct plan *p, struct exec *ex, int *fds, size_t n_fds)
{
	const uint8_t *at = p->msg->control;
	long r = spawn_has_control(p->msg) ? spawn_check_control(p->msg, n_fds) : 0;

	if (r == 0 && at[PROTO_CONTROL_COMMAND]) {
		ex->command = p->extra[PROTO_CONTROL_COMMAND] = fds[n_fds - 3];
		fds[n_fds - 3] = -1;
	}
	if (r == 0 && at[PROTO_CONTROL_RESULT])
		r = spawn_open_stream(p, ex, STREAMS - 1,
				      &p->extra[PROTO_CONTROL_RESULT]);
	if (r < 0 || !at[PROTO_CONTROL_POKE])
		return r;
	r = spawn_open_pipe(p, true, &p->extra[PROTO_CONTROL_POKE]);
	if (r < 0)
		return r;
	ex->wakeup = (int)r;
	/* The pipe belongs to init, but the exec may have another user. */
	return SYS_2(SYS_fchmod, ex->wakeup, 0444);
}

static long open_input(struct plan *p, struct exec *ex)
{
	long r = spawn_open_pipe(p, true, &p->stdio[0]);

	if (r < 0)
		return r;
	ex->input = (int)r;
	return 0;
}

/*
 * With a journal, the terminal is kept and drained; otherwise only the requesting client
 * has it.
 */
static long open_terminal(struct plan *p, struct exec *ex)
{
	long r = spawn_terminal(p->msg, &ex->input, &p->tty);

	if (r < 0)
		return r;
	ex->tty = true;
	p->theirs[p->n_theirs++] = p->tty;
	for (int i = 0; i < 3; i++)
		p->stdio[i] = p->tty;
	if (ex->journal < 0)
		return 0;
	r = SYS_3(SYS_fcntl, ex->input, F_DUPFD_CLOEXEC, 0);
	return r < 0 ? r : drain_watch(ex, 0, (int)r);
}

static long spawn_dup_stdio(struct plan *p, const int *fds, size_t n_fds)
{
	for (int i = 0; i < 3; i++) {
		uint8_t slot = p->msg->stdio[i];

		p->stdio[i] = init.null;
		if (slot == PROTO_STDIO_NULL)
			continue;
		if (slot >= n_fds || fds[slot] < 0)
			return -EPROTO;
		p->stdio[i] = fds[slot];
	}
	if (p->msg->gate == 0)
		return 0;
	if (p->msg->gate > n_fds || fds[p->msg->gate - 1] < 0)
		return -EPROTO;
	p->gate = fds[p->msg->gate - 1];
	return 0;
}

/*
 * Send the error to the client that sent the request and, if that client is gone, to
 * readers of the journal.
 */
void spawn_failed(struct exec *ex, long error, enum proto_stage stage)
{
	const struct journal_result res = { .status = (int32_t)error, .stage = stage };

	drain_result(ex, JOURNAL_FAILED, &res);
	conn_reply(ex->asker, ex->seq, error, stage, -1);
}

static long open_streams(struct plan *p, struct exec *ex, int *fds, size_t n_fds)
{
	const uint32_t flags = p->msg->flags;
	long r = spawn_dup_stdio(p, fds, n_fds);

	p->stage = PROTO_STAGE_REQUEST;
	if (r == 0 && flags & PROTO_SPAWN_HOLD && !(flags & PROTO_SPAWN_JOURNAL))
		r = -EPROTO;
	if (r == 0 && flags & PROTO_SPAWN_INPUT)
		r = open_input(p, ex);
	if (r == 0 && flags & PROTO_SPAWN_JOURNAL) {
		p->stage = PROTO_STAGE_JOURNAL;
		r = n_fds > 1 ? spawn_open_journal(p, ex, ex->asker, &fds[n_fds - 2])
			      : -EPROTO;
	}
	if (r == 0) {
		p->stage = PROTO_STAGE_REQUEST;
		r = open_control(p, ex, fds, n_fds);
	}
	if (r == 0 && flags & PROTO_SPAWN_PTY) {
		p->stage = PROTO_STAGE_PTY;
		r = flags & PROTO_SPAWN_INPUT ? -EPROTO : open_terminal(p, ex);
	}
	return r;
}

static long spawn_launch(struct plan *p, struct exec *ex, int *fds, size_t n_fds)
{
	const struct proto_spawn *msg = p->msg;
	long r = open_streams(p, ex, fds, n_fds);

	if (r < 0)
		return r;
	p->stage = PROTO_STAGE_CGROUP;
	ex->accounts_sandbox = msg->flags & PROTO_SPAWN_SOLE;
	r = group_make(ex, p->own, &p->n_own);
	if (r == 0)
		r = group_limit(ex, msg);
	if (r < 0)
		return r;
	p->stage = PROTO_STAGE_FORK;
	return spawn_child(p, ex);
}

static long map_strings(const struct proto_spawn *msg, int fd, char **ret)
{
	long r;

	if (msg->strings_size == 0 || msg->strings_size > PROTO_STRINGS_MAX)
		return -E2BIG;
	r = SYS_6(SYS_mmap, NULL, msg->strings_size, PROT_READ | PROT_WRITE, MAP_PRIVATE,
		  fd, 0);
	if (r < 0 && r > -4096)
		return r;
	*ret = (char *)r;
	return 0;
}

static long spawn_prepare(struct plan *p, size_t size, const int *fds, size_t n_fds,
			  char **mapped)
{
	const struct proto_spawn *msg = p->msg;
	char *strings = (char *)(uintptr_t)msg->strings;

	if (size < sizeof(*msg) || msg->n_groups > PROTO_GROUPS_MAX)
		return -EPROTO;
	if (msg->flags & PROTO_SPAWN_MEMFD) {
		long r = n_fds > 0 ? map_strings(msg, fds[0], mapped) : -EPROTO;

		if (r < 0 || !*mapped)
			return r < 0 ? r : -EPROTO;
		strings = *mapped;
	} else if (msg->strings_size != size - sizeof(*msg)) {
		return -EPROTO;
	}
	return spawn_unpack(p, strings, msg->strings_size);
}

/*
 * Close the descriptors of a plan: cgroups, the slave of the pty, and the child's ends of
 * pipes.
 */
static void close_plan(const struct plan *p)
{
	for (int i = 0; i < p->n_theirs; i++)
		sys_close(p->theirs[i]);
	for (int i = 0; i < p->n_own; i++)
		sys_close(p->own[i]);
}

void spawn_exec(int c, const struct proto_spawn *msg, size_t size, int *fds, size_t n_fds)
{
	struct plan p = {
		.msg = msg,
		.tty = -1,
		.extra = { -1, -1, -1 },
		.gate = -1,
		.report = -1,
		.stage = PROTO_STAGE_REQUEST,
	};
	struct exec *ex = NULL;
	char *mapped = NULL;
	long r = spawn_prepare(&p, size, fds, n_fds, &mapped);

	if (r == 0 && exec_find(msg->exec))
		r = -EEXIST;
	if (r == 0) {
		ex = agent_exec_new(msg->exec);
		r = ex ? 0 : -EAGAIN;
	}
	if (ex) {
		ex->asker = c;
		ex->seq = msg->h.seq;
		ex->hears = 1U << c;
		r = spawn_launch(&p, ex, fds, n_fds);
		close_plan(&p);
	}
	if (mapped)
		(void)SYS_2(SYS_munmap, mapped, msg->strings_size);
	if (!ex) {
		conn_reply(c, msg->h.seq, r, p.stage, -1);
		return;
	}
	if (r < 0) {
		ex->failed = true;
		spawn_failed(ex, r, p.stage);
		agent_exec_release(ex);
		return;
	}
	if (msg->timeout_ms > 0 && msg->timeout_ms < PROTO_TIMEOUT_MAX)
		ex->deadline = ex->started + msg->timeout_ms * 1000000;
	exec_deadlines();
}
