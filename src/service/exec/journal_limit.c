/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal_limit.c - journals are as large as was agreed, whoever writes them
 *
 * init keeps to the limit that it is given. An init that was taken over need not: it has the file
 * open, and the kernel has no limit for one file of one writer that its children would not
 * inherit. So the size is looked at from here, whenever there is news of a journal and every two
 * seconds, and so is the capacity that the journal claims. One that is larger than agreed breaks
 * the protocol: the file is cut back, and the sandbox is lost.
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/core/internal.h"

#define TURN_MS 250
#define TURNS   8 /* in which all boxes are looked at */

/* Whoever notices is in the middle of reading, and what he reads ends with the sandbox. */
void run_journal_broken(struct run *run)
{
	if (run->box && run->box->conn >= 0)
		loop_defer(run->box->service->loop, &run->box->broken_task);
}

void box_journal_broken(void *ctx)
{
	struct warren_error why = WARREN_ERROR_INIT;
	struct box *box = ctx;

	(void)error_set(&why, EPROTO,
			"the sandbox's init does not keep to the format of journals");
	if (box->conn >= 0)
		box_lost(box, &why);
}

bool run_check_journal(struct run *run)
{
	const struct box *box = run->box;
	uint64_t most, claimed = 0;
	struct stat st;

	if (!box || box->conn < 0 || run->journal < 0 || fstat(run->journal, &st) < 0)
		return true;
	most = run->capacity ? run->capacity : box->service->journal_max;
	if (most < JOURNAL_CAPACITY_MIN)
		most = JOURNAL_CAPACITY_MIN;
	if (pread(run->journal, &claimed, sizeof(claimed),
		  offsetof(struct journal_header, capacity)) != sizeof(claimed))
		claimed = 0; /* it is not begun */
	if ((uint64_t)st.st_size <= JOURNAL_RING + most && claimed <= most)
		return true;
	/* What cannot be cut is removed with the sandbox. */
	survive(box->service, ftruncate(run->journal, (off_t)(JOURNAL_RING + most)));
	run_journal_broken(run);
	return false;
}

static void check_box(struct box *box)
{
	for (struct run *run = box->runs; run; run = run->next)
		if (!run->row.ended && !run_check_journal(run))
			return;
}

static void on_turn(void *ctx)
{
	struct service *s = ctx;
	const size_t n = BOX_BUCKETS / TURNS;

	for (size_t i = s->journal_turn * n; i < (s->journal_turn + 1) * n; i++) {
		struct box *next;

		for (struct box *box = s->boxes[i]; box; box = next) {
			next = box->hash_next;
			check_box(box);
		}
	}
	s->journal_turn = (s->journal_turn + 1) % TURNS;
	loop_timer_set(s->journal_timer, TURN_MS);
}

int journal_limit_open(struct service *s)
{
	int r = loop_timer_new(s->loop, on_turn, s, &s->journal_timer);

	if (r == 0)
		loop_timer_set(s->journal_timer, TURN_MS);
	return r;
}

void journal_limit_close(struct service *s)
{
	s->journal_timer = loop_timer_free(s->journal_timer);
}
