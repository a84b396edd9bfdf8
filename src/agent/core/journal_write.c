/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal_write.c - write output from an exec's pipes into its journal (journal.h has the
 * format)
 *
 * splice(2) moves the bytes from the pipe to the file without a copy through this
 * process; bytes of a terminal are copied, because terminals do not support splice(2).
 * The pipe is emptied whatever happens to the journal: if the disk fails, output is lost
 * and counted, but the writer is never blocked.
 *
 * There are two exceptions. If a reader holds output (init_proto.h), draining stops when
 * the ring is full of unacknowledged output, until the reader acknowledges some or
 * disconnects. A full disk also stops draining until there is space: nothing is lost, and
 * a timer tries again (drain_retry()). The pipes are then removed from the epoll
 * instance, because readable pipes would keep the loop busy. The first page, with the
 * header and the result, is written before the exec starts, so that there is always space
 * for its result.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "agent/core/agent.h"

#define HELD     (-EBUSY)  /* nothing can be moved until a reader acknowledges output */
#define FULL     (-ENOSPC) /* nothing can be moved until the disk has free space */
#define RETRY_NS 100000000ULL /* time until init checks again for free space */
#define BLOCK    512          /* the smallest unit that a filesystem allocates */

static char scrap[JOURNAL_CHUNK];

static void journal_write_publish(const struct exec *ex, uint64_t ended)
{
	struct journal_header h = {
		.magic = JOURNAL_MAGIC,
		.version = JOURNAL_VERSION,
		.capacity = ex->capacity,
		.head = ex->head,
		.tail = ex->tail,
		.lost = ex->lost,
		.ended = ended,
		.skipped = ex->skipped,
		.state = ex->state,
		.written = ex->written,
	};
	uint64_t one = 1;

	(void)sys_pwrite(ex->journal, &h, sizeof(h), 0);
	for (int i = 0; i < PROTO_CONNECTIONS_MAX; i++)
		if (ex->notify[i] >= 0)
			(void)sys_write(ex->notify[i], &one, sizeof(one));
}

long drain_start(struct exec *ex, uint64_t limit)
{
	long n;

	if (limit < JOURNAL_CAPACITY_MIN || limit > JOURNAL_CAPACITY_MAX)
		return -EINVAL;
	/* Write the whole page, because a filesystem may have smaller blocks. */
	memset(scrap, 0, JOURNAL_RING);
	n = sys_pwrite(ex->journal, scrap, JOURNAL_RING, 0);
	if (n != JOURNAL_RING)
		return n < 0 ? n : -ENOSPC;
	ex->capacity = limit & ~7ULL;
	journal_write_publish(ex, 0);
	return 0;
}

long drain_watch(struct exec *ex, unsigned which, int fd)
{
	long r = SYS_3(SYS_fcntl, fd, F_SETFL, O_RDWR | O_NONBLOCK);

	ex->pipe[which] = fd;
	return r < 0 ? r : watch_add(fd, WATCH_OUT, (unsigned)(ex - init.execs), which);
}

void drain_result(struct exec *ex, enum journal_state state,
		  const struct journal_result *res)
{
	if (ex->journal < 0 || ex->capacity == 0)
		return;
	(void)sys_pwrite(ex->journal, res, sizeof(*res), JOURNAL_RESULT);
	ex->state = state;
	journal_write_publish(ex, state == JOURNAL_FAILED);
}

static uint64_t journal_write_at(const struct exec *ex, uint64_t position)
{
	return JOURNAL_RING + position % ex->capacity;
}

/* May records that end before @cursor be dropped? */
static bool is_read(const struct exec *ex, uint64_t cursor)
{
	for (int i = 0; ex->holds && i < PROTO_CONNECTIONS_MAX; i++)
		if (ex->holds & (1U << i) && ex->acked[i] < cursor)
			return false;
	return true;
}

/* Drop whole records until @need bytes are free. Return 0, HELD, or -EIO. */
static long journal_write_make_room(struct exec *ex, uint64_t need)
{
	bool dropped = false;
	long r = 0;

	while (r == 0 && ex->tail + need - ex->head > ex->capacity) {
		struct journal_record rec;
		uint64_t bytes;

		if (sys_pread(ex->journal, &rec, sizeof(rec),
			      journal_write_at(ex, ex->head)) != sizeof(rec) ||
		    journal_span(rec.size) > ex->tail - ex->head)
			return -EIO;
		bytes = rec.stream != 0 ? rec.size : 0;
		if (!is_read(ex, ex->lost + bytes)) {
			r = HELD;
			break;
		}
		ex->head += journal_span(rec.size);
		ex->lost += bytes;
		dropped = true;
	}
	if (dropped)
		journal_write_publish(ex, 0);
	return r;
}

/* Return the error of an incomplete write: no space, or a failure. */
static long write_error(long n)
{
	return n >= 0 || n == -ENOSPC || n == -EDQUOT ? FULL : -EIO;
}

/* Return 0, FULL, or -EIO. */
static long journal_write_put_record(struct exec *ex, uint32_t stream, uint32_t size)
{
	struct journal_record rec = { .size = size, .stream = stream };
	long n = sys_pwrite(ex->journal, &rec, sizeof(rec),
			    journal_write_at(ex, ex->tail));

	return n == sizeof(rec) ? 0 : write_error(n);
}

/* A complete record of output is at the tail. */
static void add_record(struct exec *ex, uint32_t size)
{
	struct journal_slot entry = { .at = ex->tail, .cursor = ex->written };
	uint64_t slot = journal_slot(ex->tail, ex->capacity);

	if (ex->slot != slot + 1)
		(void)sys_pwrite(ex->journal, &entry, sizeof(entry),
				 JOURNAL_INDEX + (int64_t)(slot * sizeof(entry)));
	ex->slot = slot + 1;
	ex->tail += journal_span(size);
	ex->written += size;
}

/*
 * Find room for a record of up to JOURNAL_CHUNK bytes that does not wrap; return its
 * largest payload.
 */
static long next_slot(struct exec *ex)
{
	uint64_t to_end = ex->capacity - ex->tail % ex->capacity;
	uint64_t want = sizeof(struct journal_record) + JOURNAL_CHUNK / 4;
	long r;

	if (to_end < want) {
		/*
		 * The pad is a record like any other, for readers and for
		 * journal_write_make_room().
		 */
		r = journal_write_make_room(ex, to_end);
		if (r == 0)
			r = journal_write_put_record(
				ex, 0,
				(uint32_t)(to_end - sizeof(struct journal_record)));
		if (r < 0)
			return r;
		ex->tail += to_end;
		to_end = ex->capacity;
	}
	want = to_end - sizeof(struct journal_record);
	if (want > JOURNAL_CHUNK)
		want = JOURNAL_CHUNK;
	if (want > ex->capacity / 4)
		want = ex->capacity / 4;
	want &= ~7ULL;
	r = journal_write_make_room(ex, sizeof(struct journal_record) + want);
	/*
	 * The header may be in another block; it is written after the bytes have left the
	 * pipe.
	 */
	if (r == 0 &&
	    (journal_write_at(ex, ex->tail) + sizeof(struct journal_record)) % BLOCK == 0)
		r = journal_write_put_record(ex, 0, 0);
	return r < 0 ? r : (long)want;
}

static long journal_write_discard(struct exec *ex, int pipe)
{
	long n = sys_read(pipe, scrap, sizeof(scrap));

	if (n > 0)
		ex->skipped += (uint64_t)n;
	journal_write_publish(ex, 0);
	return n;
}

void drain_forget(struct exec *ex)
{
	if (ex->kept)
		(void)SYS_2(SYS_munmap, ex->kept, JOURNAL_CHUNK);
	ex->kept = NULL;
	ex->n_kept = 0;
}

/* Record that the @n bytes in scrap wait for space. */
static long keep_chunk(struct exec *ex, long n)
{
	long map = SYS_6(SYS_mmap, NULL, JOURNAL_CHUNK, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map < 0 && map > -4096) {
		ex->skipped += (uint64_t)n;
		return -EIO;
	}
	ex->kept = (char *)map;
	ex->n_kept = (uint32_t)n;
	memcpy(ex->kept, scrap, (size_t)n);
	return FULL;
}

/* Record that the first @n of these bytes no longer wait. */
static void unkeep_chunk(struct exec *ex, long n)
{
	if (!ex->kept)
		return;
	ex->n_kept -= (uint32_t)n;
	memmove(ex->kept, ex->kept + n, ex->n_kept);
	if (ex->n_kept == 0)
		drain_forget(ex);
}

/*
 * Copy up to @room bytes of a terminal into the file at @off. Bytes that were read cannot
 * be put back: if there is no space for them, they are kept in mapped memory.
 */
static long copy_chunk(struct exec *ex, int fd, long room, int64_t off)
{
	const char *from = ex->kept ? ex->kept : scrap;
	long n = !ex->kept                 ? sys_read(fd, scrap, (size_t)room)
		 : (long)ex->n_kept < room ? (long)ex->n_kept
					   : room;
	long w;

	if (n <= 0)
		return n == -EIO ? 0 : n; /* a hangup ends the stream */
	w = sys_pwrite(ex->journal, from, (size_t)n, off);
	if (w != n && write_error(w) == FULL)
		return ex->kept ? FULL : keep_chunk(ex, n);
	unkeep_chunk(ex, n);
	if (w == n)
		return n;
	ex->skipped += (uint64_t)n;
	return -EIO;
}

/* Return the number of bytes that left the pipe; 0 at its end; otherwise -EAGAIN, -EINTR,
 * HELD or FULL. */
static long move_chunk(struct exec *ex, unsigned which, long max)
{
	long room = next_slot(ex), n;
	int64_t off =
		(int64_t)(journal_write_at(ex, ex->tail) + sizeof(struct journal_record));
	int fd = ex->pipe[which];
	bool tty = ex->tty && which == 0;

	if (room == HELD || room == FULL)
		return room;
	if (room < 0)
		return journal_write_discard(ex, fd);
	if (room > max)
		room = max;
	n = tty ? copy_chunk(ex, fd, room, off)
		: SYS_6(SYS_splice, fd, NULL, ex->journal, &off, room, 0);
	if (n == -EDQUOT)
		n = FULL;
	if (n == -EAGAIN || n == -EINTR || n == FULL || n == 0)
		return n;
	if (n < 0 && !tty)
		return journal_write_discard(ex, fd);
	if (n > 0 && journal_write_put_record(ex, 1 + which, (uint32_t)n) == 0)
		add_record(ex, (uint32_t)n);
	else if (n > 0)
		ex->skipped += (uint64_t)n;
	/*
	 * Note this before any client can react: processes that start later belong to the
	 * next command.
	 */
	if (which == STREAMS - 1)
		ex->mark = tree_newest();
	journal_write_publish(ex, 0);
	return n > 0 ? n : 1;
}

static void journal_write_hold(struct exec *ex)
{
	for (unsigned i = 0; i < STREAMS; i++)
		if (ex->pipe[i] >= 0)
			watch_drop(ex->pipe[i]);
	ex->held = true;
}

void drain_resume(struct exec *ex)
{
	if (!ex->held || ex->start >= 0)
		return;
	ex->held = ex->head_held = false;
	for (unsigned i = 0; i < STREAMS; i++)
		if (ex->pipe[i] >= 0)
			(void)watch_add(ex->pipe[i], WATCH_OUT,
					(unsigned)(ex - init.execs), i);
}

void drain_retry(struct exec *ex, uint64_t t)
{
	if (ex->retry_at == 0 || ex->retry_at > t)
		return;
	ex->retry_at = 0;
	drain_resume(ex);
}

/*
 * Move one piece of stream @which, at most @max bytes; return the number of bytes, or 0
 * if there are none now.
 */
static long journal_write_take(struct exec *ex, unsigned which, long max)
{
	bool held = ex->held || (ex->head_held && which == 1);
	long n = ex->pipe[which] >= 0 && !held ? move_chunk(ex, which, max) : -EAGAIN;

	if (n > 0)
		return n;
	if (n == HELD || n == FULL)
		journal_write_hold(ex);
	if (n == FULL) {
		ex->retry_at = agent_now() + RETRY_NS;
		exec_deadlines();
	}
	if (n == -EAGAIN || n == -EINTR || n == HELD || n == FULL)
		return 0;
	/* If a duplicate of the terminal is open, closing this descriptor would not
	 * remove it from the epoll instance. */
	if (ex->tty)
		watch_drop(ex->pipe[which]);
	sys_close(ex->pipe[which]);
	ex->pipe[which] = -1;
	drain_end(ex);
	return 0;
}

/*
 * Move everything that is in stream @which now, but not what is written in the meantime.
 */
static void take_present(struct exec *ex, unsigned which)
{
	int left = ex->tty ? (int)sizeof(scrap) : 0;
	long n;

	if (ex->pipe[which] < 0)
		return;
	if (!ex->tty)
		(void)sys_ioctl(ex->pipe[which], FIONREAD, &left);
	for (; left > 0; left -= (int)n) {
		n = journal_write_take(ex, which, JOURNAL_CHUNK);
		if (n == 0)
			break;
	}
}

/* A result comes after the output of its command, so move all existing output first. */
static long take_results(struct exec *ex, bool first)
{
	int there = 0;

	(void)sys_ioctl(ex->pipe[STREAMS - 1], FIONREAD, &there);
	if (there == 0 && !first)
		return 0;
	for (unsigned k = 0; k < STREAMS - 1; k++)
		take_present(ex, k);
	/*
	 * The loop reported the pipe, but no bytes are readable: this is the end of the
	 * stream.
	 */
	return journal_write_take(ex, STREAMS - 1,
				  there > 0 ? (long)there : (long)JOURNAL_CHUNK);
}

void journal_drain(struct exec *ex, unsigned which)
{
	/*
	 * Move a limited amount in each turn, so that the output of one exec does not
	 * delay the others.
	 */
	for (int i = 0; i < 16 && ex->used && ex->pipe[which] >= 0; i++)
		if ((which == STREAMS - 1
			     ? take_results(ex, i == 0)
			     : journal_write_take(ex, which, JOURNAL_CHUNK)) == 0)
			return;
}

/* All streams ended and the process is reaped: the journal is complete. */
void drain_end(struct exec *ex)
{
	if (ex->journal < 0 || ex->pid != 0)
		return;
	for (unsigned i = 0; i < STREAMS; i++)
		if (ex->pipe[i] >= 0)
			return;
	journal_write_publish(ex, 1);
	agent_exec_release(ex);
}
