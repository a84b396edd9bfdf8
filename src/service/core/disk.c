/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk.c - the disk with the database and the journals: free space, and writes that wait
 * for it
 *
 * A full disk must not invalidate what was acknowledged, and must not prevent clients
 * from freeing space. The database has reserved space for results and deletions
 * (db/reserve.c). To keep that reserve, the service refuses new sandboxes, execs and
 * sessions while less than DISK_FLOOR is free. A result that still cannot be written
 * waits in memory (exec/exec_result.c), and this file tries again to write it. Output
 * waits in its pipe (agent/core/journal_write.c).
 */
#include <errno.h>
#include <inttypes.h>
#include <sys/statvfs.h>

#include "service/core/internal.h"

#define DISK_FLOOR  (4ULL << 20)
#define DISK_ENOUGH (6ULL << 20) /* free space at which the service continues */
#define SHORT_PART  10           /* if less than this part is free, keep all results */
#define TURN_MS     250
#define TRIM_PART   16 /* below this part and TRIM_FLOOR, trim builds */
#define TRIM_FLOOR  (512ULL << 20)
#define TRIM_MS     10000 /* between two attempts */
#define KEEP_TURNS  40    /* turns between two checks of the reserved space */

static void disk_look(struct service *s)
{
	struct statvfs fs;
	struct fair_quota *out = &s->shares[LEASE_OUTPUT];
	bool was = s->disk_full;
	uint64_t half;

	if (fstatvfs(s->journals, &fs) < 0 || fs.f_blocks == 0) {
		if (s->output_by_disk && out->limit == 0)
			out->limit = INT64_MAX;
		return; /* the space is unlimited, or unknown */
	}
	s->disk_left = (uint64_t)fs.f_bavail * fs.f_frsize;
	s->disk_size = (uint64_t)fs.f_blocks * fs.f_frsize;
	/*
	 * Compute the limit again, because the disk may have been full at the start. The
	 * limit never becomes smaller: otherwise, existing results would be deleted to
	 * make space for new ones.
	 */
	half = (s->disk_left + out->used) / 2 + 1;
	if (s->output_by_disk && out->limit < half)
		out->limit = half;
	s->disk_full = s->disk_left < (was ? DISK_ENOUGH : DISK_FLOOR);
	if (was == s->disk_full)
		return;
	if (!s->disk_full)
		s->disk_turn = 0; /* restore the part of the reserve that was used */
	if (s->note)
		s->note(s->note_ctx,
			s->disk_full
				? "the disk with the service's state is full: nothing "
				  "new starts until space is free"
				: "the disk with the service's state has free space again");
}

/*
 * Dropping old results for new ones is right if results fill the disk, but not if other
 * data does, even briefly. If the limit has grown, the caller tries again with it.
 */
int disk_may_forget(struct service *s)
{
	uint64_t limit = s->shares[LEASE_OUTPUT].limit;

	if (!s->output_by_disk)
		return 1;
	disk_look(s);
	if (s->shares[LEASE_OUTPUT].limit > limit)
		return -EAGAIN;
	return s->disk_left >= s->disk_size / SHORT_PART;
}

bool service_disk_ok(const struct service *s)
{
	return !s->disk_full && s->n_unsaved == 0;
}

int disk_admit(struct service *s, struct warren_error *err)
{
	if (s->disk_full)
		disk_look(s); /* the disk may have free space again */
	if (!s->disk_full)
		return 0;
	return error_set(err, ENOSPC,
			 "the disk with the service's state is full (%" PRIu64
			 " bytes left): delete sandboxes, or free some space",
			 s->disk_left);
}

int disk_reserve(struct service *s, uint64_t bytes, struct warren_error *err)
{
	uint64_t left;

	disk_look(s);
	left = s->disk_left > s->disk_reserved ? s->disk_left - s->disk_reserved : 0;
	if (s->disk_size != 0 && bytes > left)
		return error_set(err, ENOSPC,
				 "its files need %" PRIu64 " bytes, and %" PRIu64
				 " bytes are free",
				 bytes, left);
	s->disk_reserved += bytes;
	return 0;
}

void disk_release(struct service *s, uint64_t bytes)
{
	s->disk_reserved -= bytes;
}

/* -------------------------------------------------------------------- periodic checks */

static void disk_on_trimmed(void *ctx, int r UNUSED, const char *data UNUSED,
			    size_t size UNUSED, const struct warren_error *err UNUSED)
{
	struct service *s = ctx;

	s->disk_trims = false;
	s->disk_trimmed_at = loop_now(s->loop);
	disk_look(s);
}

/* Cached steps of builds are worth less than a request that would be refused. */
static void disk_trim(struct service *s)
{
	uint64_t now = loop_now(s->loop);

	if (s->disk_trims || s->closing || s->disk_size == 0 ||
	    s->disk_left >= s->disk_size / TRIM_PART || s->disk_left >= TRIM_FLOOR ||
	    (s->disk_trimmed_at && now - s->disk_trimmed_at < TRIM_MS))
		return;
	s->disk_trims = true;
	image_ask(s, IMAGE_TRIM, "", disk_on_trimmed, s);
}

static void disk_on_turn(void *ctx)
{
	struct service *s = ctx;

	disk_look(s);
	disk_trim(s);
	if (s->n_unsaved > 0)
		ROOMS_CALL(s, save, s);
	if (!s->disk_full && s->disk_turn++ % KEEP_TURNS == 0)
		(void)db_reserve(s->db);
	loop_timer_set(s->disk_timer, TURN_MS);
}

int disk_open(struct service *s)
{
	int r = loop_timer_new(s->loop, disk_on_turn, s, &s->disk_timer);

	disk_look(s);
	if (r == 0)
		loop_timer_set(s->disk_timer, TURN_MS);
	return r;
}

void disk_close(struct service *s)
{
	s->disk_timer = loop_timer_free(s->disk_timer);
}
