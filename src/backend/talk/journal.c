/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal.c - reading what init wrote (init/journal.h has the format)
 *
 * The writer is inside a sandbox: no number in the file is believed before it
 * has been held against the others, and reading makes progress or ends.
 */
#include <errno.h>
#include <string.h>

#include "backend/talk/talk.h"
#include "init/journal.h"

static int read_at(int fd, void *data, size_t size, uint64_t at)
{
	ssize_t n = pread(fd, data, size, (off_t)at);

	return n < 0 ? -errno : (size_t)n == size ? 0 : -EPROTO;
}

static int read_header(int fd, struct journal_header *h)
{
	int r = read_at(fd, h, sizeof(*h), 0);

	if (r < 0)
		return r;
	if (h->magic != JOURNAL_MAGIC || h->version != JOURNAL_VERSION ||
	    h->capacity < JOURNAL_CAPACITY_MIN - 7 ||
	    h->capacity > JOURNAL_CAPACITY_MAX || h->capacity % 8 || h->head % 8 ||
	    h->tail % 8 || h->head > h->tail || h->tail - h->head > h->capacity ||
	    h->state >= JOURNAL_STATE_MAX)
		return -EPROTO;
	return 0;
}

/* The record at @at; -EPROTO unless it lies between there and the tail. */
static int read_record(int fd, const struct journal_header *h, uint64_t at,
		       struct journal_record *rec)
{
	int r = read_at(fd, rec, sizeof(*rec), JOURNAL_RING + at % h->capacity);

	if (r < 0)
		return r;
	if (h->tail - at < sizeof(*rec) || journal_span(rec->size) > h->tail - at ||
	    at % h->capacity + journal_span(rec->size) > h->capacity || rec->stream > 3 ||
	    (rec->stream != 0 && rec->size > JOURNAL_CHUNK))
		return -EPROTO;
	return 0;
}

/*
 * Where to walk from. What is before the head was dropped: its bytes are what `lost`
 * counts, so that is where the bytes of the first record begin. @hint saves walking from
 * there.
 */
static struct journal_hint begin(const struct journal_header *h, uint64_t cursor,
				 const struct journal_hint *hint)
{
	if (hint && hint->cursor <= cursor && hint->at > h->head && hint->at <= h->tail)
		return *hint;
	return (struct journal_hint){ .cursor = h->lost, .at = h->head };
}

/* Where the record is that holds byte @cursor of the output, or the tail. */
static int seek(int fd, const struct journal_header *h, uint64_t cursor,
		const struct journal_hint *hint, uint64_t *ret_at, uint64_t *ret_bytes)
{
	struct journal_hint from = begin(h, cursor, hint);
	uint64_t at = from.at, bytes = from.cursor;
	unsigned pads = 0;

	while (at < h->tail) {
		struct journal_record rec;
		int r = read_record(fd, h, at, &rec);

		if (r < 0)
			return r;
		/* One pad ends the ring; a file full of them is not of init's making. */
		if (rec.stream == 0 && ++pads > 2)
			return -EPROTO;
		if (rec.stream != 0 && bytes + rec.size > cursor)
			break;
		at += journal_span(rec.size);
		if (rec.stream != 0) {
			bytes += rec.size;
			pads = 0;
		}
	}
	*ret_at = at;
	*ret_bytes = bytes;
	return 0;
}

/* One look at the journal from @cursor; -EAGAIN when it was overwritten meanwhile. */
static int look(int fd, uint64_t cursor, struct journal_hint *hint, void *buf,
		size_t size, struct warren_output *ret)
{
	struct journal_header h, again;
	struct journal_record rec = { 0 };
	uint64_t at = 0, bytes = 0, skip = 0;
	int r = read_header(fd, &h);

	if (r == 0)
		r = seek(fd, &h, cursor, hint, &at, &bytes);
	if (r == 0 && at < h.tail)
		r = read_record(fd, &h, at, &rec);
	/* From the middle of a record: what is left of it. */
	if (r == 0 && cursor > bytes && cursor - bytes < rec.size)
		skip = cursor - bytes;
	if (r == 0 && rec.size - skip > size)
		return -EMSGSIZE;
	if (r == 0 && rec.size > 0)
		r = read_at(fd, buf, rec.size - skip,
			    JOURNAL_RING + at % h.capacity + sizeof(rec) + skip);
	/* Overwritten while we read: what we have may be of two ages. */
	if (read_header(fd, &again) == 0 && again.head > at)
		return -EAGAIN;
	if (r < 0)
		return r;
	if (cursor > bytes + skip)
		return -EINVAL;
	*ret = (struct warren_output){
		.cursor = bytes + rec.size,
		.stream = (int)rec.stream,
		.size = rec.size - skip,
		.lost = bytes + skip - cursor,
		.end = rec.size == 0 && h.ended != 0,
		.skipped = h.skipped,
	};
	if (hint)
		*hint = (struct journal_hint){
			ret->cursor, at + (rec.size ? journal_span(rec.size) : 0)
		};
	return 0;
}

int journal_read(int fd, uint64_t cursor, struct journal_hint *hint, void *buf,
		 size_t size, struct warren_output *ret)
{
	int r = -EAGAIN;

	/* A flood can overtake us now and then; one that always does is no journal to read. */
	for (int tries = 0; r == -EAGAIN && tries < 1000; tries++)
		r = look(fd, cursor, hint, buf, size, ret);
	return r;
}

int journal_result(int fd, enum journal_state *ret_state, struct proto_exited *ret)
{
	struct journal_header h;
	struct journal_result res;
	int r = read_header(fd, &h);

	if (r < 0 || h.state == JOURNAL_RUNNING)
		return r;
	/* After the header: what the state speaks of was written before it. */
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

int talk_exec_output(struct backend_exec *base, uint64_t cursor, void *buf, size_t size,
		     struct warren_output *ret, struct warren_error *err)
{
	struct talk_exec *ex = (struct talk_exec *)base;
	int r;

	if (ex->journal < 0)
		return error_set(err, EINVAL, "this exec has no journal");
	r = journal_read(ex->journal, cursor, &ex->hint, buf, size, ret);
	if (r == -EMSGSIZE)
		return error_set(err, EMSGSIZE, "the buffer must hold %u bytes",
				 JOURNAL_CHUNK);
	if (r < 0)
		return error_errno(err, -r, "read the journal");
	return 0;
}

int journal_extent(int fd, struct journal_hint *hint, uint64_t *ret_from,
		   uint64_t *ret_to)
{
	struct journal_header h, again;
	struct journal_hint from, to = { 0 };
	int r = read_header(fd, &h);

	if (r < 0)
		return r;
	from = begin(&h, UINT64_MAX, hint);
	r = seek(fd, &h, UINT64_MAX, &from, &to.at, &to.cursor);
	if (r < 0)
		return r;
	*ret_from = h.lost;
	*ret_to = to.cursor;
	/* Overwritten while we walked: good enough to be told, not to be built on. */
	if (from.at == h.tail || (read_header(fd, &again) == 0 && again.head <= from.at))
		*hint = to;
	return 0;
}
