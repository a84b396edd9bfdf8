/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.c - output from an exec's pipes into its journal (journal.h has the format)
 *
 * splice(2) moves the bytes from the pipe to the file without our seeing them.
 * The pipe is always emptied, whatever happens to the journal: a full disk
 * costs output, which is counted, and never blocks who writes it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>

#include "init/init.h"
#include "init/journal.h"

static void publish(const struct exec *ex, uint64_t ended)
{
	struct journal_header h = {
		.magic = JOURNAL_MAGIC,
		.version = JOURNAL_VERSION,
		.capacity = ex->capacity,
		.head = ex->head,
		.tail = ex->tail,
		.lost = ex->lost,
		.ended = ended,
	};
	uint64_t one = 1;

	(void)sys_pwrite(ex->journal, &h, sizeof(h), 0);
	(void)sys_write(ex->notify, &one, sizeof(one));
}

long drain_start(struct exec *ex, uint64_t limit)
{
	if (limit < JOURNAL_CAPACITY_MIN || limit > JOURNAL_CAPACITY_MAX)
		return -EINVAL;
	ex->capacity = limit & ~7ULL;
	publish(ex, 0);
	return 0;
}

static uint64_t at(const struct exec *ex, uint64_t position)
{
	return JOURNAL_RING + position % ex->capacity;
}

/* Drop whole records until @need bytes are free. */
static bool make_room(struct exec *ex, uint64_t need)
{
	bool dropped = false;

	while (ex->tail + need - ex->head > ex->capacity) {
		struct journal_record rec;

		if (sys_pread(ex->journal, &rec, sizeof(rec), at(ex, ex->head)) !=
			    sizeof(rec) ||
		    journal_span(rec.size) > ex->tail - ex->head)
			return false;
		ex->head += journal_span(rec.size);
		if (rec.stream != 0)
			ex->lost += rec.size;
		dropped = true;
	}
	if (dropped)
		publish(ex, 0);
	return true;
}

static bool put_record(struct exec *ex, uint32_t stream, uint32_t size)
{
	struct journal_record rec = { .size = size, .stream = stream };

	return sys_pwrite(ex->journal, &rec, sizeof(rec), at(ex, ex->tail)) ==
	       sizeof(rec);
}

/* Room for a record of up to JOURNAL_CHUNK bytes that does not wrap; its largest payload. */
static uint32_t next_slot(struct exec *ex)
{
	uint64_t to_end = ex->capacity - ex->tail % ex->capacity;
	uint64_t want = sizeof(struct journal_record) + JOURNAL_CHUNK / 4;

	if (to_end < want) {
		/* The pad is a record like any other, for readers and for make_room(). */
		if (!make_room(ex, to_end) ||
		    !put_record(ex, 0,
				(uint32_t)(to_end - sizeof(struct journal_record))))
			return 0;
		ex->tail += to_end;
		to_end = ex->capacity;
	}
	want = to_end - sizeof(struct journal_record);
	if (want > JOURNAL_CHUNK)
		want = JOURNAL_CHUNK;
	if (want > ex->capacity / 4)
		want = ex->capacity / 4;
	want &= ~7ULL;
	return make_room(ex, sizeof(struct journal_record) + want) ? (uint32_t)want : 0;
}

static long discard(struct exec *ex, int pipe)
{
	static char scrap[65536];
	long n = sys_read(pipe, scrap, sizeof(scrap));

	if (n > 0)
		ex->lost += (uint64_t)n;
	return n;
}

static long move_chunk(struct exec *ex, unsigned which)
{
	uint32_t room = next_slot(ex);
	int64_t off = (int64_t)(at(ex, ex->tail) + sizeof(struct journal_record));
	long n = -EIO;

	if (room > 0)
		n = SYS_6(SYS_splice, ex->pipe[which], NULL, ex->journal, &off, room, 0);
	if (n == -EAGAIN || n == 0)
		return n;
	if (n < 0 || !put_record(ex, 1 + which, (uint32_t)n)) {
		n = n < 0 ? discard(ex, ex->pipe[which]) : n;
		publish(ex, 0);
		return n;
	}
	ex->tail += journal_span((uint32_t)n);
	publish(ex, 0);
	return n;
}

void drain(struct exec *ex, unsigned which)
{
	/* A share a turn: a flood from one exec must not keep the others waiting. */
	for (int i = 0; i < 16 && ex->used && ex->pipe[which] >= 0; i++) {
		long n = move_chunk(ex, which);

		if (n == -EAGAIN || n == -EINTR)
			return;
		if (n <= 0) {
			sys_close(ex->pipe[which]);
			ex->pipe[which] = -1;
			drain_end(ex);
			return;
		}
	}
}

/* Both streams ended and the process is reaped: the journal is complete. */
void drain_end(struct exec *ex)
{
	if (ex->journal < 0 || ex->pid != 0 || ex->pipe[0] >= 0 || ex->pipe[1] >= 0)
		return;
	publish(ex, 1);
	exec_release(ex);
}
