/* SPDX-License-Identifier: Apache-2.0 */
/*
 * splice.h - move a stream from one descriptor to another, or into memory
 *
 * A pump never blocks on its sink, however slow the reader behind it, and never
 * changes the flags of a descriptor that others share (O_NONBLOCK on our stdout
 * would be on the shell's too). Bytes go by splice(2) where both ends allow it
 * without waiting, else through a buffer.
 *
 * The caller polls splice_fd() for splice_events() and calls splice_step() when
 * something is there.
 */
#ifndef CLI_SPLICE_H
#define CLI_SPLICE_H

#include <stdint.h>

#include "base/buf.h"

enum splice_state {
	PUMP_WAIT_IN,  /* nothing in hand: waits for the source to have something */
	PUMP_WAIT_OUT, /* the sink was full: waits for it to have room */
	PUMP_DONE, /* the source is at its end, or an end is broken: nothing is open */
};

enum splice_way {
	PUMP_UNDECIDED, /* looks at the sink when there is something for it */
	PUMP_SPLICE,
	PUMP_COPY,    /* looks at the sink too, if it did not yet */
	PUMP_CAPTURE, /* to memory, and no further than its maximum */
};

struct splice {
	enum splice_state state;
	enum splice_way way;
	int from, to;
	bool own_from, own_to; /* closed at the end */
	int sink;              /* of a copy: `to`, or the same file opened anew; -1 */
	bool socket;           /* the sink is one */
	int error;             /* positive errno when the sink failed; 0 */
	size_t chunk;          /* how much a copy writes at once */
	size_t start;          /* of a copy: the first byte of data not yet written */
	struct buf data;
	uint64_t lost; /* of a capture: bytes beyond the maximum */
};

/* Nothing to do: splice_step() is never due. */
#define PUMP_IDLE                                                     \
	{                                                             \
		.state = PUMP_DONE, .from = -1, .to = -1, .sink = -1, \
	}

/* From a descriptor of this process, which it takes over, to one of the caller. */
void splice_init_out(struct splice *p, int from, int to);
/* From a descriptor of the caller's to one of ours, which it takes. */
void splice_init_in(struct splice *p, int from, int to);
/* For the master of a terminal, whose errors splice(2) would not tell from the sink's. */
void splice_copy(struct splice *p);
#define PUMP_CAPTURE_MAX (1U << 20) /* of a stream, in a report */
/* From a descriptor of ours, which it takes, into p->data. -1: by splice_keep() alone. */
void splice_init_capture(struct splice *p, int from, size_t max);
/* As if it had come from there. */
void splice_keep(struct splice *p, const void *data, size_t n);

int splice_fd(const struct splice *p); /* -1: nothing to wait for */
short splice_events(const struct splice *p);
void splice_step(struct splice *p, short revents);
/* Closes what it owns; what was captured stays. */
void splice_stop(struct splice *p);
void splice_done(struct splice *p);

#endif /* CLI_SPLICE_H */
