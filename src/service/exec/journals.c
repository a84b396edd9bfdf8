/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journals.c - the room that a sandbox's journals take on the machine's disk
 *
 * A journal is on the machine's disk and not the sandbox's, so it is counted here. An exec that
 * runs is counted with all that its journal may become; one that ended with what its journal is.
 * When an exec is started that does not fit, the oldest results are forgotten with their output,
 * as they are when there are too many; when that does not suffice, the exec is refused.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "service/core/internal.h"

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

static struct run *loaded_run(const struct box *box, const char *id)
{
	struct run *run = box->runs;

	while (run && strcmp(run->row.id, id) != 0)
		run = run->next;
	return run;
}

static uint64_t size_on_disk(const struct service *s, const char *name)
{
	struct stat st;

	return name && name[0] && fstatat(s->journals, name, &st, 0) == 0
		       ? (uint64_t)st.st_blocks * 512
		       : 0;
}

static void set_total(struct box *box, uint64_t bytes)
{
	box->journal_bytes = bytes;
	lease_force(box->service, LEASE_OUTPUT, box->row.owner, bytes, &box->output);
}

static void subtract(struct box *box, uint64_t bytes)
{
	set_total(box, box->journal_bytes -
			       (bytes < box->journal_bytes ? bytes : box->journal_bytes));
}

static int forget_exec(struct box *box, const struct oldest *o)
{
	struct service *s = box->service;
	struct warren_error err = WARREN_ERROR_INIT;
	int r = db_delete_exec(s->db, o->id, &err);
	struct run *run;
	uint64_t room;

	if (r < 0)
		return r;
	run = loaded_run(box, o->id);
	room = run && run->journal_room ? run->journal_room : size_on_disk(s, o->journal);
	if (run)
		run->journal_room = 0;
	run_remove_journal(s, o->journal);
	subtract(box, room);
	box->n_kept--;
	return 1;
}

/* 1; 0: there is none that ended; -errno: it could not be forgotten. */
static int forget_one(struct box *box)
{
	struct service *s = box->service;
	struct warren_error err = WARREN_ERROR_INIT;
	struct oldest o = { "", "" };
	int r = db_each_exec(s->db, box->row.id, 0, 0, take_oldest, &o, &err);

	if (r >= 0 && !o.id[0])
		return 0;
	if (r >= 0)
		r = forget_exec(box, &o);
	survive(s, r);
	return r;
}

void journals_forget_closed(struct box *box, const char *exec, const char *journal)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct oldest o = { "", "" };
	int r = db_has_session(box->service->db, exec, &err);

	if (r == 0) {
		(void)snprintf(o.id, sizeof(o.id), "%s", exec);
		(void)snprintf(o.journal, sizeof(o.journal), "%s",
			       journal ? journal : "");
		r = forget_exec(box, &o);
	}
	survive(box->service, r == -ENOENT ? 0 : r);
}

/* Of those that ended, no more are remembered than the service was told to. */
void journals_forget(struct box *box)
{
	while (box->n_kept > box->service->execs_max && forget_one(box) > 0)
		;
}

int journals_reserve(struct run *run, uint64_t capacity, struct warren_error *err)
{
	struct box *box = run->box;
	struct service *s = box->service;
	uint64_t room = capacity + JOURNAL_RING;
	int r;

	while (box->journal_bytes + room > s->journal_total) {
		if (forget_one(box) <= 0)
			return lease_deny(s, LEASE_OUTPUT, box->journal_bytes,
					  s->journal_total, err);
	}
	for (;;) {
		int may;

		r = lease_take(s, LEASE_OUTPUT, box->row.owner, box->journal_bytes + room,
			       &box->output, err);
		may = r == -EUSERS ? disk_may_forget(s) : 0;
		if (may != -EAGAIN && (may == 0 || forget_one(box) <= 0))
			break;
	}
	if (r < 0)
		return r;
	box->journal_bytes += room;
	run->journal_room = room;
	return 0;
}

void journals_settle(struct run *run)
{
	uint64_t room = run->journal_room;
	struct stat st;

	if (room == 0 || !run->box)
		return;
	run->journal_room = 0;
	if (run->journal >= 0 && fstat(run->journal, &st) == 0 && st.st_nlink > 0) {
		uint64_t is = (uint64_t)st.st_blocks * 512;

		room -= is < room ? is : room;
	}
	subtract(run->box, room);
}

void journals_drop(struct run *run)
{
	uint64_t room = run->journal_room;

	run->journal_room = 0;
	if (run->box && room)
		subtract(run->box, room);
}

/* What a header says is an init's word: it is believed up to what any exec may have. */
static uint64_t room_of(struct run *run)
{
	struct service *s = run->service;
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct journal_header h = { 0 };

	if (run_open_journal(run, &ignored) < 0 ||
	    pread(run->journal, &h, sizeof(h), 0) != (ssize_t)sizeof(h))
		return s->journal_default + JOURNAL_RING;
	return (h.capacity < s->journal_max ? h.capacity : s->journal_max) + JOURNAL_RING;
}

void journals_restore(struct box *box, const struct exec_row *row, struct run *run)
{
	uint64_t room = run ? room_of(run) : size_on_disk(box->service, row->journal);

	if (run)
		run->journal_room = room;
	set_total(box, box->journal_bytes + room);
}
