/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal_read.c - read a journal that init wrote (proto/journal.h has the format)
 *
 * The writer is inside a sandbox: each number in the file is checked against the others
 * before it is used, and each read makes progress or ends.
 *
 * An exec that writes single bytes creates millions of records. They are read many at a
 * time, and an index helps to find a position. If a journal has no usable index, it is
 * read in steps of about a millisecond.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "proto/journal.h"
#include "proto/journal_read.h"

#define WINDOW_MIN    512U
#define WINDOW_MAX    16384U
#define READS_MAX     128U /* number of windows to read before other work has its turn */
#define OVERTAKEN_MAX 16U
/* The largest counter: a cursor, which is at most a ring later, does not overflow. */
#define COUNTER_MAX (UINT64_MAX >> 2)

static int read_at(int fd, void *data, size_t size, uint64_t at)
{
	ssize_t n = pread(fd, data, size, (off_t)at);

	return n < 0 ? -errno : (size_t)n == size ? 0 : -EPROTO;
}

static int journal_read_header(int fd, struct journal_header *h)
{
	int r = read_at(fd, h, sizeof(*h), 0);

	if (r < 0)
		return r;
	if (h->magic != JOURNAL_MAGIC || h->version != JOURNAL_VERSION ||
	    h->capacity < JOURNAL_CAPACITY_MIN - 7 ||
	    h->capacity > JOURNAL_CAPACITY_MAX || h->capacity % 8 || h->head % 8 ||
	    h->tail % 8 || h->head > h->tail || h->tail - h->head > h->capacity ||
	    h->state >= JOURNAL_STATE_MAX ||
	    (h->lost | h->skipped | h->written) > COUNTER_MAX)
		return -EPROTO;
	return 0;
}

/* A part of the ring that was read: @n bytes from position @at on. */
struct window {
	int fd;
	const struct journal_header *h;
	uint64_t at;
	size_t n, want;
	unsigned reads; /* number of remaining reads; one takes several microseconds */
	char data[WINDOW_MAX];
};

static void window_init(struct window *w, int fd, const struct journal_header *h)
{
	w->fd = fd;
	w->h = h;
	w->at = 0;
	w->n = 0;
	w->want = WINDOW_MIN;
	w->reads = READS_MAX;
}

/*
 * Make sure that the window has the @need bytes at position @at. Many small records are
 * read at a time; of a large record, only the first bytes are read.
 */
static int window_fetch(struct window *w, uint64_t at, size_t need)
{
	uint64_t to_end = w->h->capacity - at % w->h->capacity, to_tail = w->h->tail - at;
	bool follows = at >= w->at && at - w->at <= w->n;
	size_t n;
	ssize_t r;

	if (follows && at - w->at + need <= w->n)
		return 0;
	if (w->reads == 0)
		return -EINPROGRESS;
	w->reads--;
	w->want = !follows                   ? WINDOW_MIN
		  : w->want < WINDOW_MAX / 4 ? w->want * 4
					     : WINDOW_MAX;
	if (w->want < need)
		w->want = need < WINDOW_MAX ? need : WINDOW_MAX;
	n = to_end < w->want ? (size_t)to_end : w->want;
	n = to_tail < n ? (size_t)to_tail : n;
	if (n < need)
		return -EPROTO;
	r = pread(w->fd, w->data, n, (off_t)(JOURNAL_RING + at % w->h->capacity));
	if (r < 0)
		return -errno;
	w->at = at;
	w->n = (size_t)r;
	return w->n < need ? -EPROTO : 0;
}

/* Read the record at @at; -EPROTO unless its end is between @at and the tail. */
static int read_record(struct window *w, uint64_t at, struct journal_record *rec)
{
	const struct journal_header *h = w->h;
	int r = window_fetch(w, at, sizeof(*rec));

	if (r < 0)
		return r;
	(void)memcpy(rec, w->data + (at - w->at), sizeof(*rec));
	if (journal_span(rec->size) > h->tail - at ||
	    at % h->capacity + journal_span(rec->size) > h->capacity || rec->stream > 3 ||
	    (rec->stream != 0 && (rec->size == 0 || rec->size > JOURNAL_CHUNK)))
		return -EPROTO;
	return 0;
}

/* Is @at, with @at_cursor, in the part that is kept, and before @cursor? */
static bool is_before(const struct journal_header *h, uint64_t at, uint64_t at_cursor,
		      uint64_t cursor)
{
	return at_cursor <= cursor && at % 8 == 0 && at >= h->head && at <= h->tail &&
	       at_cursor >= h->lost && at_cursor - h->lost <= at - h->head;
}

/* Find the last position before @cursor that is in the index. */
static void look_up(int fd, const struct journal_header *h, uint64_t cursor,
		    struct journal_hint *from)
{
	struct journal_slot slots[JOURNAL_SLOTS], again;
	size_t best = JOURNAL_SLOTS;

	if (read_at(fd, slots, sizeof(slots), JOURNAL_INDEX) < 0)
		return;
	for (size_t i = 0; i < JOURNAL_SLOTS; i++)
		if (is_before(h, slots[i].at, slots[i].cursor, cursor) &&
		    slots[i].cursor > from->cursor)
			*from = (struct journal_hint){ slots[best = i].cursor,
						       slots[i].at };
	/* A slot that was being written may contain parts of two entries. */
	if (best < JOURNAL_SLOTS &&
	    (read_at(fd, &again, sizeof(again), JOURNAL_INDEX + best * sizeof(slots[0])) <
		     0 ||
	     again.at != slots[best].at || again.cursor != slots[best].cursor))
		*from = (struct journal_hint){ .cursor = h->lost, .at = h->head };
}

/*
 * Find the position from which to search. Bytes before the head were dropped, and `lost`
 * counts them, so the first record begins at that cursor.
 */
static struct journal_hint journal_read_begin(int fd, const struct journal_header *h,
					      uint64_t cursor,
					      const struct journal_hint *hint)
{
	struct journal_hint from = { .cursor = h->lost, .at = h->head };

	if (hint && hint->at > 0 && is_before(h, hint->at, hint->cursor, cursor))
		from = *hint;
	/* A reader that continues where it was needs no index. */
	if (from.cursor < cursor && h->tail - from.at > WINDOW_MAX)
		look_up(fd, h, cursor, &from);
	return from;
}

/*
 * Go from @position to the record that contains byte @cursor of the output and is not
 * before position @floor, or to the tail.
 */
static int journal_read_seek(struct window *w, uint64_t cursor, uint64_t floor,
			     struct journal_hint *position)
{
	unsigned pads = 0;

	while (position->at < w->h->tail) {
		struct journal_record rec;
		int r = read_record(w, position->at, &rec);

		if (r < 0)
			return r;
		/* A single pad record ends the ring; init never writes a file full of
		 * them. */
		if (rec.stream == 0 && ++pads > 2)
			return -EPROTO;
		if (rec.stream != 0 && position->at >= floor &&
		    position->cursor + rec.size > cursor)
			break;
		position->at += journal_span(rec.size);
		if (rec.stream != 0) {
			position->cursor += rec.size;
			pads = 0;
		}
	}
	return 0;
}

/* Read @n bytes at offset @skip of the record at @at. */
static int read_payload(struct window *w, uint64_t at, size_t skip, size_t n, char *buf)
{
	uint64_t from = at + sizeof(struct journal_record) + skip;

	if (n <= WINDOW_MAX / 2 && window_fetch(w, from, n) == 0) {
		(void)memcpy(buf, w->data + (from - w->at), n);
		return 0;
	}
	return read_at(w->fd, buf, n, JOURNAL_RING + from % w->h->capacity);
}

/*
 * Read the record at @position, from @skip bytes on, and following records of the same
 * stream; moves @position past them. Records of stream 3 are returned one at a time, as
 * they were written.
 */
static int journal_read_gather(struct window *w, struct journal_hint *position,
			       size_t skip, char *buf, size_t size,
			       struct warren_output *ret)
{
	size_t n = 0;

	while (position->at < w->h->tail) {
		struct journal_record rec = { 0 };
		int r = read_record(w, position->at, &rec);
		size_t part = rec.size - skip;

		if (r == 0 && n == 0 && part > size)
			return -EMSGSIZE;
		if (n > 0 && (r < 0 || (int)rec.stream != ret->stream || part > size - n))
			break;
		if (r == 0)
			r = read_payload(w, position->at, skip, part, buf + n);
		if (r < 0)
			return r;
		n += part;
		skip = 0;
		ret->stream = (int)rec.stream;
		position->at += journal_span(rec.size);
		position->cursor += rec.size;
		if (rec.stream == 3)
			break;
	}
	ret->size = n;
	return 0;
}

/*
 * Read the journal once from @cursor; -EAGAIN if it was overwritten in the meantime.
 * @tries is the number of times that this has happened. If the writer is about to
 * overwrite what is read, the reader makes little progress. So it skips what will be
 * dropped next, and skips more with each try.
 */
static int journal_read_look(int fd, uint64_t cursor, struct journal_hint *hint,
			     unsigned tries, void *buf, size_t size,
			     struct warren_output *ret)
{
	struct journal_header h, again;
	struct journal_hint position, first;
	struct warren_output o = { 0 };
	__attribute__((uninitialized)) struct window w;
	uint64_t skip = 0, floor = 0;
	int r = journal_read_header(fd, &h);

	if (r < 0)
		return r;
	window_init(&w, fd, &h);
	position = journal_read_begin(fd, &h, cursor, hint);
	if (tries > 0 && cursor < h.lost)
		floor = h.head + (h.tail - h.head) / OVERTAKEN_MAX * tries;
	r = journal_read_seek(&w, cursor, floor, &position);
	first = position;
	/* The cursor is in the middle of a record: return the rest of it. */
	if (r == 0 && position.at < h.tail && cursor > position.cursor)
		skip = cursor - position.cursor;
	w.reads = READS_MAX;
	if (r == 0)
		r = journal_read_gather(&w, &position, (size_t)skip, buf, size, &o);
	/* The journal was overwritten during the read, so the data may be a mixture of
	 * old and new. */
	if (journal_read_header(fd, &again) == 0 && again.head > first.at)
		return -EAGAIN;
	if (hint && r == -EINPROGRESS)
		*hint = first;
	if (r < 0)
		return r;
	if (cursor > first.cursor + skip)
		return -EINVAL;
	*ret = (struct warren_output){
		.cursor = position.cursor,
		.stream = o.stream,
		.size = o.size,
		.lost = first.cursor + skip - cursor,
		.end = o.size == 0 && h.ended != 0,
		.skipped = h.skipped,
	};
	if (hint)
		*hint = position;
	return 0;
}

int journal_read_some(int fd, uint64_t cursor, struct journal_hint *hint, void *buf,
		      size_t size, struct warren_output *ret)
{
	int r = -EAGAIN;

	for (unsigned tries = 0; r == -EAGAIN && tries < OVERTAKEN_MAX; tries++)
		r = journal_read_look(fd, cursor, hint, tries, buf, size, ret);
	return r == -EAGAIN ? -EINPROGRESS : r;
}

int journal_read(int fd, uint64_t cursor, struct journal_hint *hint, void *buf,
		 size_t size, struct warren_output *ret)
{
	struct journal_hint own = { 0 };
	int r;

	/*
	 * A flood of output may overtake the reader sometimes; a journal in which this
	 * always happens cannot be read.
	 */
	for (int overtaken = 0; overtaken < 1000; overtaken++) {
		struct journal_hint *at = hint ? hint : &own, before = *at;

		r = journal_read_some(fd, cursor, at, buf, size, ret);
		if (r != -EINPROGRESS)
			return r;
		/* The reader makes progress, but slowly. */
		if (at->cursor > before.cursor)
			overtaken = 0;
	}
	return -EAGAIN;
}

int journal_result(int fd, enum journal_state *ret_state, struct proto_exited *ret)
{
	struct journal_header h;
	struct journal_result res;
	int r = journal_read_header(fd, &h);

	if (r < 0 || h.state == JOURNAL_RUNNING)
		return r;
	/*
	 * Read this after the header: everything that the state refers to was written
	 * before it.
	 */
	r = read_at(fd, &res, sizeof(res), JOURNAL_RESULT);
	if (r < 0)
		return r;
	*ret_state = (enum journal_state)h.state;
	*ret = (struct proto_exited){
		.h = { .version = PROTO_VERSION, .type = PROTO_EXITED },
		.flags = res.flags,
		.status = res.status,
		.oom_kills = res.oom_kills,
		.wall_usec = res.wall_usec,
		.user_usec = res.user_usec,
		.system_usec = res.system_usec,
		.max_memory = res.max_memory,
		.read_bytes = res.read_bytes,
		.written_bytes = res.written_bytes,
	};
	return 1;
}

int journal_pid(int fd)
{
	struct journal_header h;
	struct journal_result res;

	if (journal_read_header(fd, &h) < 0 || h.state != JOURNAL_EXITED ||
	    read_at(fd, &res, sizeof(res), JOURNAL_RESULT) < 0)
		return 0;
	return res.pid > 0 ? res.pid : 0;
}

int journal_extent(int fd, struct journal_hint *hint, uint64_t *ret_from,
		   uint64_t *ret_to)
{
	struct journal_header h, again;
	struct journal_hint from, to;
	__attribute__((uninitialized)) struct window w;
	int r = journal_read_header(fd, &h);

	if (r < 0)
		return r;
	*ret_from = h.lost;
	*ret_to = h.written;
	if (h.written > 0 && h.written >= h.lost && h.written - h.lost <= h.tail - h.head)
		return 0;
	window_init(&w, fd, &h);
	from = to = journal_read_begin(fd, &h, UINT64_MAX, hint);
	r = journal_read_seek(&w, UINT64_MAX, 0, &to);
	*ret_to = to.cursor;
	/*
	 * The journal was overwritten during the search: the result is good enough to
	 * report, but is not kept.
	 */
	if ((r == 0 || r == -EINPROGRESS) &&
	    (from.at == h.tail ||
	     (journal_read_header(fd, &again) == 0 && again.head <= from.at)))
		*hint = to;
	return r;
}
