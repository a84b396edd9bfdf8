/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journals.c - the disk space of a sandbox's journals
 *
 * A journal is on the machine's disk, not on the sandbox's, so its size is counted here.
 * A running exec counts with the maximum size of its journal, an ended exec with the
 * actual size. If a new exec does not fit, the oldest results are deleted with their
 * output; they are also deleted when there are too many execs. If that frees too little
 * space, the exec is refused.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "service/exec/internal.h"

struct oldest {
	char id[ID_LEN + 1];
	char journal[ID_LEN + 1];
};

static int take_oldest(void *ctx, const struct exec_row *row)
{
	struct oldest *o = ctx;

	if (!row->ended || row->session)
		return 0;
	(void)snprintf(o->id, sizeof(o->id), "%s", row->id);
	(void)snprintf(o->journal, sizeof(o->journal), "%s",
		       row->journal ? row->journal : "");
	return 1;
}

static struct exec *loaded_exec(const struct sandbox *sandbox, const char *id)
{
	struct exec *exec = sandbox_execs(sandbox)->list;

	while (exec && strcmp(exec->row.id, id) != 0)
		exec = exec->next;
	return exec;
}

static uint64_t size_on_disk(const struct service *s, const char *name)
{
	struct stat st;

	return name && name[0] && fstatat(s->journals, name, &st, 0) == 0
		       ? (uint64_t)st.st_blocks * 512
		       : 0;
}

static void set_total(struct sandbox *sandbox, uint64_t bytes)
{
	struct sandbox_execs *all = sandbox_execs(sandbox);

	all->journal_bytes = bytes;
	lease_force(sandbox->service, LEASE_OUTPUT, sandbox->row.owner, bytes,
		    &all->output);
}

static void journals_subtract(struct sandbox *sandbox, uint64_t bytes)
{
	uint64_t has = sandbox_execs(sandbox)->journal_bytes;

	set_total(sandbox, has - (bytes < has ? bytes : has));
}

static int forget_exec(struct sandbox *sandbox, const struct oldest *o)
{
	struct service *s = sandbox->service;
	struct warren_error err = WARREN_ERROR_INIT;
	int r = db_delete_exec(s->db, o->id, &err);
	struct exec *exec;
	uint64_t room;

	if (r < 0)
		return r;
	exec = loaded_exec(sandbox, o->id);
	room = exec && exec->journal_room ? exec->journal_room
					  : size_on_disk(s, o->journal);
	if (exec)
		exec->journal_room = 0;
	exec_remove_journal(s, o->journal);
	journals_subtract(sandbox, room);
	sandbox_execs(sandbox)->n_kept--;
	return 1;
}

/* Delete the oldest result. Return 1 if one was deleted, 0 if no exec has ended, or
 * -errno if it could not be deleted. */
static int forget_one(struct sandbox *sandbox)
{
	struct service *s = sandbox->service;
	struct warren_error err = WARREN_ERROR_INIT;
	struct oldest o = { "", "" };
	int r = db_each_exec(s->db, sandbox->row.id, 0, 0, take_oldest, &o, &err);

	if (r >= 0 && !o.id[0])
		return 0;
	if (r >= 0)
		r = forget_exec(sandbox, &o);
	survive(s, r);
	return r;
}

void exec_forget_closed(struct sandbox *sandbox, const char *exec, const char *journal)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct oldest o = { "", "" };
	int r = db_has_session(sandbox->service->db, exec, &err);

	if (r == 0) {
		(void)snprintf(o.id, sizeof(o.id), "%s", exec);
		(void)snprintf(o.journal, sizeof(o.journal), "%s",
			       journal ? journal : "");
		r = forget_exec(sandbox, &o);
	}
	survive(sandbox->service, r == -ENOENT ? 0 : r);
}

/* Delete ended execs beyond the number that the configuration allows. */
void journals_forget(struct sandbox *sandbox)
{
	while (sandbox_execs(sandbox)->n_kept >
		       service_execs(sandbox->service)->execs_max &&
	       forget_one(sandbox) > 0)
		;
}

int journals_reserve(struct exec *exec, uint64_t capacity, struct warren_error *err)
{
	struct sandbox *sandbox = exec->sandbox;
	struct sandbox_execs *all = sandbox_execs(sandbox);
	struct service *s = sandbox->service;
	uint64_t most = service_execs(s)->journal_total, room = capacity + JOURNAL_RING;
	int r;

	while (all->journal_bytes + room > most) {
		if (forget_one(sandbox) <= 0)
			return lease_deny(s, LEASE_OUTPUT, all->journal_bytes, most, err);
	}
	for (;;) {
		int may;

		r = lease_take(s, LEASE_OUTPUT, sandbox->row.owner,
			       all->journal_bytes + room, &all->output, err);
		may = r == -EUSERS ? disk_may_forget(s) : 0;
		if (may != -EAGAIN && (may == 0 || forget_one(sandbox) <= 0))
			break;
	}
	if (r < 0)
		return r;
	all->journal_bytes += room;
	exec->journal_room = room;
	return 0;
}

void journals_settle(struct exec *exec)
{
	uint64_t room = exec->journal_room;
	struct stat st;

	if (room == 0 || !exec->sandbox)
		return;
	exec->journal_room = 0;
	if (exec->journal >= 0 && fstat(exec->journal, &st) == 0 && st.st_nlink > 0) {
		uint64_t is = (uint64_t)st.st_blocks * 512;

		room -= is < room ? is : room;
	}
	journals_subtract(exec->sandbox, room);
}

void journals_drop(struct exec *exec)
{
	uint64_t room = exec->journal_room;

	exec->journal_room = 0;
	if (exec->sandbox && room)
		journals_subtract(exec->sandbox, room);
}

/* init writes the header, so it is trusted only up to the maximum of any exec. */
static uint64_t room_of(struct exec *exec)
{
	const struct service_execs *x = service_execs(exec->service);
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct journal_header h = { 0 };

	if (exec_open_journal(exec, &ignored) < 0 ||
	    pread(exec->journal, &h, sizeof(h), 0) != (ssize_t)sizeof(h))
		return x->journal_default + JOURNAL_RING;
	return (h.capacity < x->journal_max ? h.capacity : x->journal_max) + JOURNAL_RING;
}

void journals_restore(struct sandbox *sandbox, const struct exec_row *row,
		      struct exec *exec)
{
	uint64_t room =
		exec ? room_of(exec) : size_on_disk(sandbox->service, row->journal);

	if (exec)
		exec->journal_room = room;
	set_total(sandbox, sandbox_execs(sandbox)->journal_bytes + room);
}
