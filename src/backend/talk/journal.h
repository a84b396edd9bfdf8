/* SPDX-License-Identifier: Apache-2.0 */
/* journal.h - reading an exec's journal (init/journal.h has its format), whoever wrote it */
#ifndef TALK_JOURNAL_H
#define TALK_JOURNAL_H

#include "base/error.h"
#include "init/journal.h"
#include "init/proto.h"

struct journal_hint {
	uint64_t cursor; /* bytes of output */
	uint64_t at;     /* position of the record that begins with them */
};

/*
 * What stands at @cursor, which may be within a record: the rest of it. @hint:
 * where the reader was last, so that the next read need not search; may be NULL.
 */
int journal_read(int fd, uint64_t cursor, struct journal_hint *hint, void *buf,
		 size_t size, struct warren_output *ret);
/* How the exec ended, by its journal. 1, 0 while it runs, -EPROTO: it was never begun. */
int journal_result(int fd, enum journal_state *ret_state, struct proto_exited *ret);
/*
 * The cursors of the first byte that is kept and of the next that will come. @hint, zero at
 * first, is where that was last: what came since is all that is read.
 */
int journal_extent(int fd, struct journal_hint *hint, uint64_t *ret_from,
		   uint64_t *ret_to);

#endif /* TALK_JOURNAL_H */
