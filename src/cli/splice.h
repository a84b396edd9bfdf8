/* SPDX-License-Identifier: Apache-2.0 */
/*
 * splice.h - move a stream from one descriptor to another, or into memory
 *
 * A stream never blocks on its sink, however slow the reader, and never changes the flags
 * of a shared descriptor (O_NONBLOCK on our stdout would also affect the shell). It uses
 * splice(2) if both ends allow that without blocking, otherwise a buffer.
 *
 * The caller polls splice_fd() for splice_events() and passes the result to
 * splice_step().
 */
#ifndef CLI_SPLICE_H
#define CLI_SPLICE_H

#include <stdint.h>

#include "base/buf.h"

enum splice_state {
	PUMP_WAIT_IN,  /* there is no data: wait until the source is readable */
	PUMP_WAIT_OUT, /* the sink is full: wait until the sink is writable */
	PUMP_DONE,     /* the source has ended or an end failed; both are closed */
};

enum splice_way {
	/* Not chosen yet: inspect the sink when the first data arrives. */
	PUMP_UNDECIDED,
	PUMP_SPLICE,
	PUMP_COPY,    /* copy, after the sink was inspected */
	PUMP_CAPTURE, /* collect data in memory, up to a maximum */
};

struct splice {
	enum splice_state state;
	enum splice_way way;
	int from, to;
	bool own_from, own_to; /* whether to close from and to at the end */
	/* PUMP_COPY: `to`, or the same file opened again; -1: neither. */
	int sink;
	bool socket;  /* the sink is a socket */
	int error;    /* positive errno if the sink failed; otherwise 0 */
	size_t chunk; /* PUMP_COPY: bytes per write */
	size_t start; /* PUMP_COPY: first byte of `data` not yet written */
	struct buf data;
	uint64_t lost; /* PUMP_CAPTURE: bytes beyond the maximum */
};

/* An idle stream, for which splice_step() is never called. */
#define PUMP_IDLE                                                     \
	{                                                             \
		.state = PUMP_DONE, .from = -1, .to = -1, .sink = -1, \
	}

/* Move data from @from, which the stream then owns, to the caller's descriptor @to. */
void splice_init_out(struct splice *p, int from, int to);
/* Move data from the caller's descriptor @from to @to, which the stream then owns. */
void splice_init_in(struct splice *p, int from, int to);
/*
 * Always copy. This is for the master of a terminal, because splice(2) does not
 * distinguish its errors from those of the sink.
 */
void splice_copy(struct splice *p);
#define PUMP_CAPTURE_MAX (1U << 20) /* maximum bytes per stream in a report */
/*
 * Move data from @from, which the stream then owns, into p->data. If @from is -1, only
 * splice_keep() adds data.
 */
void splice_init_capture(struct splice *p, int from, size_t max);
/* Add @data as if it had been read from the source. */
void splice_keep(struct splice *p, const void *data, size_t n);

int splice_fd(const struct splice *p); /* -1: not waiting */
short splice_events(const struct splice *p);
void splice_step(struct splice *p, short revents);
/* Close the descriptors that the stream owns; captured data stays. */
void splice_stop(struct splice *p);
void splice_done(struct splice *p);

#endif /* CLI_SPLICE_H */
