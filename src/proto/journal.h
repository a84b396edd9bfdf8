/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal.h - the file with an exec's output: stdout and stderr, separate and in order
 *
 * The file has a page with the header and the result, then a ring of `capacity` bytes.
 * Positions are logical and only grow: position p lies at JOURNAL_RING + p % capacity.
 * Records are contiguous from `head` to `tail`, 8-byte aligned; none wraps: near the end
 * of the ring, a record of stream 0 pads it. To make space, the writer drops whole
 * records at `head` and counts their bytes in `lost`. Cursors count bytes of output, so
 * `lost` is the cursor of the record at `head`.
 *
 * Streams: 1 and 2 are stdout and stderr, or 1 a terminal; 3 is the data on an exec's
 * control pipe (init_proto.h), after all output that it wrote before.
 *
 * An index gives the positions of records, so that a reader need not read all earlier
 * ones: an exec that writes single bytes creates millions. Each slot covers a section of
 * the ring, and holds the position and the cursor of the first record that began in it in
 * the latest round. A slot from an earlier round is before `head`; a slot that was never
 * written is zero.
 *
 * The file also contains the exec's result, even if no client was connected at its end:
 * `state` says whether the struct journal_result is valid.
 *
 * Only init writes; it publishes `head` before it overwrites data and `tail` after it has
 * written data. A reader uses pread(2), never a mapping (the writer could truncate the
 * file), reads the header again after the data, and discards data that was overwritten in
 * the meantime. It does not trust any length in the file.
 */
#ifndef PROTO_JOURNAL_H
#define PROTO_JOURNAL_H

#include <stdint.h>

#define JOURNAL_MAGIC        0x4a4e5257 /* "WRNJ" */
#define JOURNAL_VERSION      2
#define JOURNAL_RESULT       1024 /* offset of the result */
#define JOURNAL_INDEX        2048 /* offset of the index */
#define JOURNAL_SLOTS        128U
#define JOURNAL_STRETCH_MIN  (256ULL << 10)
#define JOURNAL_RING         4096
#define JOURNAL_CAPACITY_MIN 65536U
#define JOURNAL_CAPACITY_MAX (1ULL << 40)
#define JOURNAL_CHUNK        65536U /* maximum payload of a record */

enum journal_state {
	JOURNAL_RUNNING,
	JOURNAL_EXITED, /* the first process has ended; see the result */
	JOURNAL_FAILED, /* the exec did not start; see the result */
	JOURNAL_STATE_MAX,
};

struct journal_header {
	uint32_t magic;
	uint32_t version;
	uint64_t capacity;
	uint64_t head;
	uint64_t tail;
	uint64_t lost;    /* bytes of output that were dropped */
	uint64_t ended;   /* 1: no more output follows */
	uint64_t skipped; /* bytes that did not fit into the file, at any position */
	uint64_t state;   /* enum journal_state, written after the result */
	uint64_t written; /* the cursor at `tail`; 0: not supported by this init */
};

struct journal_result {
	int32_t status; /* wait status, see wait(2); JOURNAL_FAILED: -errno */
	uint32_t stage; /* JOURNAL_FAILED: an enum proto_stage */
	uint32_t flags; /* PROTO_EXITED_* */
	uint32_t oom_kills;
	uint64_t wall_usec, user_usec, system_usec;
	uint64_t max_memory;
	uint64_t read_bytes, written_bytes;
	int32_t pid; /* first process inside the sandbox; 0: not recorded by this init */
	uint32_t reserved;
};

struct journal_record {
	uint32_t size; /* bytes of the payload */
	uint32_t stream;
};

struct journal_slot {
	uint64_t at;     /* the position of a record */
	uint64_t cursor; /* the cursor of its first byte */
};

/* The slot for position @at. */
static inline uint64_t journal_slot(uint64_t at, uint64_t capacity)
{
	uint64_t stretch = capacity / JOURNAL_SLOTS + 1;

	return at % capacity /
	       (stretch > JOURNAL_STRETCH_MIN ? stretch : JOURNAL_STRETCH_MIN);
}

static inline uint64_t journal_span(uint32_t size)
{
	return sizeof(struct journal_record) + (((uint64_t)size + 7) & ~7ULL);
}

#endif /* PROTO_JOURNAL_H */
