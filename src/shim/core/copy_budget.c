/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_budget.c - count the bytes of files being copied, with locks on a file that all
 * shims share
 */
#include "shim/core/copy_budget.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "shim/core/shim.h"

#define UNIT       (1ULL << 20) /* bytes that one byte of the file represents */
#define AREA       (1ULL << 24) /* size of one shim's part of the file */
#define AREAS      (1ULL << 38)
#define MEMORY_ALL (1ULL << 30) /* limit if temporary files are in memory */
/* Maximum number of locks to count; more locks are treated as too many. */
#define LOCKS_MAX 8192
/* A sandbox may use this multiple of the space that is left for others. */
#define WEIGHT 3

/* The values that a shim records about itself, each in a part of its area. */
enum ledger_part {
	LEDGER_BYTES,   /* bytes that are being copied */
	LEDGER_WRITTEN, /* the part of them that the disk no longer reports as free */
	LEDGER_PARTS,
};

#define PART (AREA / LEDGER_PARTS)

static uint64_t limit = ROOM_DEFAULT;
static int ledger = -1;
static uint64_t area; /* position of this shim's locks */

void room_bound(uint64_t disk)
{
	limit = disk == 0 ? ROOM_DEFAULT : disk > ROOM_LEAST ? disk : ROOM_LEAST;
}

uint64_t room_limit(void)
{
	return limit;
}

void room_leave(void)
{
	if (ledger >= 0)
		(void)close(TAKE_FD(ledger));
}

static int ledger_open(const char *dir)
{
	char path[4096];

	if (ledger >= 0)
		return 0;
	if (snprintf(path, sizeof(path), "%s/copies.lock", dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	ledger = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (ledger < 0)
		return -errno;
	if (getrandom(&area, sizeof(area), 0) != sizeof(area))
		abort(); /* requests for so few bytes never fail once the kernel's
			    generator is ready */
	area = area % AREAS * AREA;
	return 0;
}

static int ledger_lock(short type, uint64_t from, uint64_t n)
{
	struct flock l = { .l_type = type,
			   .l_whence = SEEK_SET,
			   .l_start = (off_t)from,
			   .l_len = (off_t)n };

	return n > 0 && fcntl(ledger, F_OFD_SETLK, &l) < 0 ? -errno : 0;
}

/* Set the number of locked units. A child may have locked more (room_written()); the
 * excess is unlocked. */
static int ledger_set(enum ledger_part part, uint64_t units)
{
	uint64_t from = area + part * PART;
	int r;

	if (units >= PART)
		return -EFBIG;
	r = ledger_lock(F_WRLCK, from, units);
	return r < 0 ? r : ledger_lock(F_UNLCK, from + units, PART - units);
}

void room_written(uint64_t written)
{
	if (ledger >= 0 && written / UNIT < PART)
		(void)ledger_lock(F_WRLCK, area + LEDGER_WRITTEN * PART, written / UNIT);
}

/*
 * Add up the locks of other shims. The kernel reports only one lock of another process at
 * a time, so the ranges on both sides of it are queried again.
 */
static void ledger_others(uint64_t sum[LEDGER_PARTS])
{
	struct {
		off_t from, to; /* 0: forever */
	} todo[64] = { { 0, 0 } };
	size_t n = 1;

	(void)memset(sum, 0, LEDGER_PARTS * sizeof(*sum));
	for (unsigned found = 0; n > 0; found++) {
		off_t from = todo[--n].from, to = todo[n].to, end;
		struct flock l = { .l_type = F_WRLCK,
				   .l_whence = SEEK_SET,
				   .l_start = from,
				   .l_len = to ? to - from : 0 };

		if (found == LOCKS_MAX || n + 2 > ARRAY_SIZE(todo)) {
			sum[LEDGER_BYTES] = UINT64_MAX / 4;
			return;
		}
		if (fcntl(ledger, F_OFD_GETLK, &l) < 0 || l.l_type == F_UNLCK)
			continue;
		end = l.l_len ? l.l_start + l.l_len : 0;
		sum[(uint64_t)l.l_start % AREA / PART] +=
			UNIT * (l.l_len ? (uint64_t)l.l_len : AREA);
		if (l.l_start > from) {
			todo[n].from = from;
			todo[n++].to = l.l_start;
		}
		if (end && (!to || end < to)) {
			todo[n].from = end;
			todo[n++].to = to;
		}
	}
}

int room_claim(const char *dir, int fd, uint64_t bytes, uint64_t written,
	       struct warren_error *err)
{
	uint64_t room = MEMORY_ALL, others[LEDGER_PARTS], left;
	struct statvfs fs;
	int r;

	if (bytes == 0 && ledger < 0)
		return 0;
	r = ledger_open(dir);
	if (r == 0)
		r = ledger_set(LEDGER_BYTES, (bytes + UNIT - 1) / UNIT);
	if (r == 0)
		r = ledger_set(LEDGER_WRITTEN, written / UNIT);
	if (r < 0)
		return error_errno(err, -r, "count the files being copied in '%s'", dir);
	if (bytes == 0)
		return 0;
	if (bytes > limit)
		return error_set(
			err, EFBIG,
			"%s: more than %" PRIu64
			" MiB of files are being copied at once, which is the maximum for this sandbox: copy less at a time",
			this_sandbox.name, limit >> 20);
	/* A filesystem in memory may report 0 bytes in total and 0 free. */
	ledger_others(others);
	if (fstatvfs(fd, &fs) == 0 && fs.f_blocks > 0)
		room = (fs.f_bavail * fs.f_frsize + written + others[LEDGER_WRITTEN]) /
		       4 * 3;
	left = room > others[LEDGER_BYTES] ? room - others[LEDGER_BYTES] : 0;
	if (bytes > left || bytes > WEIGHT * (left - bytes))
		return error_set(err, ENOSPC,
				 "%s: no space for a copy of it on the service's disk",
				 this_sandbox.name);
	return 0;
}
