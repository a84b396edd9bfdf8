/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal_read.h - read an exec's journal, which may be hostile; proto/journal.h
 * describes the format
 */
#ifndef PROTO_JOURNAL_READ_H
#define PROTO_JOURNAL_READ_H

#include "base/error.h"
#include "proto/init_proto.h"
#include "proto/journal.h"

/* The last position of a reader, so that the next read need not search; zero at first. */
struct journal_hint {
	uint64_t cursor; /* bytes of output */
	uint64_t at;     /* position of the record that begins there */
};

/*
 * Read at @cursor, which may be within a record: the rest of that record, and as much of
 * the following records of the same stream as fits into @size. @hint may be NULL.
 */
int journal_read(int fd, uint64_t cursor, struct journal_hint *hint, void *buf,
		 size_t size, struct warren_output *ret);
/*
 * Like journal_read(), for callers that must not block for long: -EINPROGRESS if the
 * search for @cursor takes more than about a millisecond. Call again with the same @hint,
 * which keeps the position and must not be shared.
 */
int journal_read_some(int fd, uint64_t cursor, struct journal_hint *hint, void *buf,
		      size_t size, struct warren_output *ret);
/*
 * Read the exec's result from its journal. 1: there is a result; 0: the exec still runs;
 * -EPROTO: it never started.
 */
int journal_result(int fd, enum journal_state *ret_state, struct proto_exited *ret);
/* Get the pid of an exec that has ended; 0: unknown. */
int journal_pid(int fd);
/*
 * Get the cursors of the first byte that is kept and of the next byte to come. If the
 * header lacks the latter, it is searched for from @hint on; -EINPROGRESS: the search
 * takes long, call again.
 */
int journal_extent(int fd, struct journal_hint *hint, uint64_t *ret_from,
		   uint64_t *ret_to);

#endif /* PROTO_JOURNAL_READ_H */
