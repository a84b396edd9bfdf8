/* SPDX-License-Identifier: Apache-2.0 */
/*
 * splice.h - one stream on its way: from a descriptor to another, or into memory
 *
 * A pump never blocks on its sink, however slow the reader behind it, and never
 * changes the flags of a descriptor that others share (O_NONBLOCK on our stdout
 * would be on the shell's too). Bytes go by splice(2) where both ends allow it
 * without waiting, else through a buffer.
 *
 * The caller polls pump_fd() for pump_events() and calls pump_step() when
 * something is there.
 */
#ifndef CLI_SPLICE_H
#define CLI_SPLICE_H

#include <stdint.h>

#include "base/buf.h"

enum pump_state {
	PUMP_WAIT_IN,  /* nothing in hand: waits for the source to have something */
	PUMP_WAIT_OUT, /* the sink was full: waits for it to have room */
	PUMP_DONE, /* the source is at its end, or an end is broken: nothing is open */
};

enum pump_way {
	PUMP_UNDECIDED, /* looks at the sink when there is something for it */
	PUMP_SPLICE,
	PUMP_COPY,    /* looks at the sink too, if it did not yet */
	PUMP_CAPTURE, /* to memory, and no further than its maximum */
};

struct pump {
	enum pump_state state;
	enum pump_way way;
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

/* Nothing to do: pump_step() is never due. */
#define PUMP_IDLE                                                     \
	{                                                             \
		.state = PUMP_DONE, .from = -1, .to = -1, .sink = -1, \
	}

/* From a descriptor of ours, which it takes, to one of the caller's. */
void pump_init_out(struct pump *p, int from, int to);
/* From a descriptor of the caller's to one of ours, which it takes. */
void pump_init_in(struct pump *p, int from, int to);
/* For the master of a terminal, whose errors splice(2) would not tell from the sink's. */
void pump_copy(struct pump *p);
#define PUMP_CAPTURE_MAX (1U << 20) /* of a stream, in a report */
/* From a descriptor of ours, which it takes, into p->data. -1: by pump_keep() alone. */
void pump_init_capture(struct pump *p, int from, size_t max);
/* As if it had come from there. */
void pump_keep(struct pump *p, const void *data, size_t n);

int pump_fd(const struct pump *p); /* -1: nothing to wait for */
short pump_events(const struct pump *p);
void pump_step(struct pump *p, short revents);
/* Closes what it owns; what was captured stays. */
void pump_stop(struct pump *p);
void pump_done(struct pump *p);

#endif /* CLI_SPLICE_H */
