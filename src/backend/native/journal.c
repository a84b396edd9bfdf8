/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal.c - reading what init wrote (init/journal.h has the format)
 *
 * The writer is inside a sandbox: no number in the file is believed before it
 * has been held against the others, and reading makes progress or ends.
 */
#include <errno.h>
#include <string.h>

#include "backend/native/native.h"
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
	    h->capacity < JOURNAL_CAPACITY_MIN - 7 || h->capacity > JOURNAL_CAPACITY_MAX ||
	    h->capacity % 8 || h->head % 8 || h->tail % 8 || h->head > h->tail ||
	    h->tail - h->head > h->capacity)
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
	    at % h->capacity + journal_span(rec->size) > h->capacity || rec->stream > 2)
		return -EPROTO;
	return 0;
}

/*
 * A cursor is a position in the journal; within a record it is counted by the
 * bytes already taken, which lie behind the record's own head.
 */
int journal_read(int fd, uint64_t cursor, void *buf, size_t size, struct warren_output *ret)
{
	struct journal_header h, again;
	struct journal_record rec;
	uint64_t at, offset, lost;
	int r;

retry:
	r = read_header(fd, &h);
	if (r < 0)
		return r;
	*ret = (struct warren_output){ .cursor = cursor };
	/* The low half walks the ring from the oldest record: a cursor is opaque to callers. */
	at = cursor;
	offset = 0;
	lost = 0;
	if (at < h.head) {
		lost = h.head - at;
		at = h.head;
	}
	if (at > h.tail)
		return -EINVAL;
	for (;;) {
		if (at == h.tail) {
			ret->end = h.ended != 0;
			ret->cursor = at;
			ret->lost = lost;
			return 0;
		}
		r = read_record(fd, &h, at, &rec);
		if (r < 0)
			break;
		if (rec.stream != 0)
			break;
		at += journal_span(rec.size);
	}
	if (r == 0) {
		if (rec.size > size)
			return -EMSGSIZE;
		offset = JOURNAL_RING + at % h.capacity + sizeof(rec);
		r = read_at(fd, buf, rec.size, offset);
	}
	/* Overwritten while we read: what we have may be of two ages. */
	if (read_header(fd, &again) == 0 && again.head > at)
		goto retry;
	if (r < 0)
		return r;
	ret->stream = (int)rec.stream;
	ret->size = rec.size;
	ret->lost = lost;
	ret->cursor = at + journal_span(rec.size);
	return 0;
}

int native_exec_output(struct backend_exec *base, uint64_t cursor, void *buf, size_t size,
		       struct warren_output *ret, struct warren_error *err)
{
	struct native_exec *ex = (struct native_exec *)base;
	int r;

	if (ex->journal < 0)
		return error_set(err, EINVAL, "this exec has no journal");
	r = journal_read(ex->journal, cursor, buf, size, ret);
	if (r == -EMSGSIZE)
		return error_set(err, EMSGSIZE, "the buffer must hold %u bytes", JOURNAL_CHUNK);
	if (r < 0)
		return error_errno(err, -r, "read the journal");
	return 0;
}
