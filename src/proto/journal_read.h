/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal_read.h - read an exec's journal (proto/journal.h has the format), which may be
 * hostile
 */
#ifndef PROTO_JOURNAL_READ_H
#define PROTO_JOURNAL_READ_H

#include "base/error.h"
#include "proto/init_proto.h"
#include "proto/journal.h"

/* Where a reader was last, so that the next read need not search; zero at first. */
struct journal_hint {
	uint64_t cursor; /* bytes of output */
	uint64_t at;     /* position of the record that begins with them */
};

/*
 * What stands at @cursor, which may be within a record: the rest of it, and of the
 * records of the same stream that follow as much as fits into @size. @hint may be NULL.
 */
int journal_read(int fd, uint64_t cursor, struct journal_hint *hint, void *buf,
		 size_t size, struct warren_output *ret);
/*
 * The same for who must not stop for long: -EINPROGRESS when it has looked for @cursor
 * for a millisecond or so. @hint, which is this reader's alone, says how far it came; ask
 * again.
 */
int journal_read_some(int fd, uint64_t cursor, struct journal_hint *hint, void *buf,
		      size_t size, struct warren_output *ret);
/* How the exec ended, by its journal. 1, 0 while it runs, -EPROTO: it was never begun. */
int journal_result(int fd, enum journal_state *ret_state, struct proto_exited *ret);
/*
 * The cursors of the first byte that is kept and of the next that will come. Where the
 * writer does not tell, it is searched for from @hint on: -EINPROGRESS as above.
 */
int journal_extent(int fd, struct journal_hint *hint, uint64_t *ret_from,
		   uint64_t *ret_to);

#endif /* PROTO_JOURNAL_READ_H */
