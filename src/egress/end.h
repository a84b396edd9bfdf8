/* SPDX-License-Identifier: Apache-2.0 */
/*
 * end.h - one of the two sockets of a flow: the client's or the server's
 *
 * All bytes of a flow pass through end_read() and end_write(), except those that relay.c
 * splices. If a flow's TLS is terminated (end_tls.h), the rest of the flow sees decrypted
 * bytes.
 *
 * Bytes that the socket does not accept are queued. The owner stops reading from the
 * other end while something is queued, so a queue holds at most what one read and one
 * rewritten head produce. An end without queued bytes has no buffer.
 */
#ifndef EGRESS_END_H
#define EGRESS_END_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "net/loop.h"

/* Maximum of queued bytes; a flow that queues more fails. */
#define END_QUEUE_MAX (512U << 10)

struct end {
	int fd; /* -1: not open */
	struct loop_watch *watch;
	unsigned events;     /* the watched events */
	bool ended;          /* everything from its peer was read */
	bool finishing;      /* close our half when the queue is empty */
	bool finished;       /* our half is closed */
	bool cut;            /* its peer closed the connection without ending TLS */
	bool tls_writes;     /* the handshake waits to write */
	bool bounded;        /* its buffers have grown enough (sockmem.h) */
	struct end_tls *tls; /* NULL: the bytes are not encrypted */
	char *queue;
	size_t queue_off, queue_len;
};

#define END_INIT         \
	{                \
		.fd = -1 \
	}

/* Takes @fd; no events are watched yet. -ENOMEM: @fd is closed. */
int end_open(struct end *e, struct net_loop *loop, int fd,
	     void (*fn)(void *ctx, unsigned events), void *ctx);
void end_close(struct end *e);
/* Close such that the peer sees a reset and not an end. */
void end_reset(struct end *e);
void end_watch(struct end *e, unsigned events);

static inline bool end_is_open(const struct end *e)
{
	return e->fd >= 0;
}
static inline bool end_has_queue(const struct end *e)
{
	return e->queue_len > 0;
}

/* Return whether end_read() has bytes although the socket may have none. */
bool end_has_data(const struct end *e);
/* The number of bytes; 0: the peer has closed its half; -EAGAIN; -errno. */
ssize_t end_read(struct end *e, void *data, size_t n);
/* Send bytes, and queue what the socket does not accept. 0 or -errno. */
int end_write(struct end *e, const void *data, size_t n);
/* Send queued bytes. 0 or -errno. */
int end_flush(struct end *e);
/*
 * Close our half after everything queued was sent. If @cut is set, TLS is not ended, so
 * that the peer notices that the data is incomplete.
 */
void end_finish(struct end *e);

#endif /* EGRESS_END_H */
