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
	    h->capacity < JOURNAL_CAPACITY_MIN - 7 ||
	    h->capacity > JOURNAL_CAPACITY_MAX || h->capacity % 8 || h->head % 8 ||
	    h->tail % 8 || h->head > h->tail || h->tail - h->head > h->capacity)
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

/* One look at the journal from @cursor; -EAGAIN when it was overwritten meanwhile. */
static int look(int fd, uint64_t cursor, void *buf, size_t size,
		struct warren_output *ret)
{
	struct journal_header h, again;
	struct journal_record rec = { 0 };
	uint64_t at = cursor;
	int r = read_header(fd, &h);

	if (r < 0)
		return r;
	if (at % 8 || at > h.tail)
		return -EINVAL;
	*ret = (struct warren_output){ 0 };
	if (at < h.head) {
		ret->lost = h.head - at;
		at = h.head;
	}
	/* Past padding; at the tail there is nothing at present. */
	while (at < h.tail && rec.stream == 0 && r == 0) {
		r = read_record(fd, &h, at, &rec);
		if (r == 0 && rec.stream == 0)
			at += journal_span(rec.size);
	}
	if (r == 0 && at < h.tail) {
		if (rec.size > size)
			return -EMSGSIZE;
		r = read_at(fd, buf, rec.size,
			    JOURNAL_RING + at % h.capacity + sizeof(rec));
		ret->stream = (int)rec.stream;
		ret->size = rec.size;
		ret->cursor = at + journal_span(rec.size);
	} else {
		ret->cursor = at;
		ret->end = h.ended != 0;
	}
	/* Overwritten while we read: what we have may be of two ages. */
	if (read_header(fd, &again) == 0 && again.head > at)
		return -EAGAIN;
	return r;
}

int journal_read(int fd, uint64_t cursor, void *buf, size_t size,
		 struct warren_output *ret)
{
	int r = -EAGAIN;

	/* A flood can overtake us now and then; one that always does is no journal to read. */
	for (int tries = 0; r == -EAGAIN && tries < 1000; tries++)
		r = look(fd, cursor, buf, size, ret);
	return r;
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
		return error_set(err, EMSGSIZE, "the buffer must hold %u bytes",
				 JOURNAL_CHUNK);
	if (r < 0)
		return error_errno(err, -r, "read the journal");
	return 0;
}
