/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal.h - the file that holds what an exec has written, stdout and stderr apart, in order
 *
 * A header of one page, then a ring of `capacity` bytes. Positions are logical
 * and only grow: position p lies at JOURNAL_RING + p % capacity. Records stand
 * back to back from `head` to `tail`, 8-byte aligned; none wraps: where the
 * end of the ring is too near, a record of stream 0 pads it. To make room, the
 * writer drops whole records at `head` and counts their bytes in `lost`.
 *
 * The only writer is init; it publishes `head` before it overwrites and `tail`
 * after it wrote. A reader uses pread(2), never a mapping (the writer could
 * truncate the file under it), takes the header again after the data, and
 * discards what was overwritten meanwhile. It believes no length.
 */
#ifndef INIT_JOURNAL_H
#define INIT_JOURNAL_H

#include <stdint.h>

#define JOURNAL_MAGIC        0x4a4e5257 /* "WRNJ" */
#define JOURNAL_VERSION      1
#define JOURNAL_RING         4096
#define JOURNAL_CAPACITY_MIN 65536U
#define JOURNAL_CAPACITY_MAX (1ULL << 40)
#define JOURNAL_CHUNK        65536U /* the largest record's payload */

struct journal_header {
	uint32_t magic;
	uint32_t version;
	uint64_t capacity;
	uint64_t head;
	uint64_t tail;
	uint64_t lost;  /* bytes of output that were dropped */
	uint64_t ended; /* 1: nothing more will come */
};

struct journal_record {
	uint32_t size; /* of the payload */
	uint32_t stream;
};

static inline uint64_t journal_span(uint32_t size)
{
	return sizeof(struct journal_record) + (((uint64_t)size + 7) & ~7ULL);
}

#endif /* INIT_JOURNAL_H */
