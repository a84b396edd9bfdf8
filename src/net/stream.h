/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h - a connected socket, plain or TLS: reads with back-pressure, queued writes
 *
 * A stream is part of its owner's struct. Received bytes are offered to data(); bytes
 * that it does not take are kept and offered again, before later ones. Sent bytes go to
 * the socket at once if they fit; the rest waits in a queue. An idle stream has no
 * buffers.
 *
 * stream_close() may be called anywhere, even from the stream's own callbacks: after it,
 * only closed() is called, from the loop, when the memory may be freed.
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "net/loop.h"
#include "net/segments.h"

/* Queued bytes: the producer should wait for drained(). */
#define STREAM_HIGH (128U << 10)
/* Maximum of queued bytes: a producer that does not wait fails. */
#define STREAM_MAX (8U << 20)

struct ssl_st;

struct stream_ops {
	/*
	 * Returns how many of the @n bytes it has taken. May pause the stream, and may
	 * overwrite the bytes.
	 */
	size_t (*data)(void *ctx, char *data, size_t n);
	/*
	 * Where to receive the next bytes, at most *@size of them; NULL: anywhere. data()
	 * must take all bytes that arrive there. May be NULL.
	 */
	char *(*room)(void *ctx, size_t *size);
	/*
	 * The peer has closed its half. If @drained, all its bytes were offered;
	 * otherwise more may come when reading is resumed.
	 */
	void (*ended)(void *ctx, bool drained);
	void (*drained)(void *ctx); /* the queue is empty again */
	/*
	 * The queue has become non-empty, or a part of it was sent and a part is left.
	 * Called for every write function. The owner must not write or close now. May be
	 * NULL.
	 */
	void (*queued)(void *ctx);
	void (*failed)(void *ctx, int error); /* -errno; the owner must close now */
	void (*closed)(void *ctx);
};

struct stream {
	uv_poll_t poll;
	struct net_loop *loop;
	const struct stream_ops *ops;
	void *ctx;
	struct ssl_st *ssl;
	struct loop_task
		task; /* offers kept bytes, and reports errors and ends from the loop */
	struct loop_task flush; /* continues a long write in a later turn */
	/*
	 * Bytes that data() has not taken yet, after the first @kept_off bytes, which it
	 * has taken.
	 */
	char *kept;
	uint32_t kept_off, kept_len, kept_size;
	struct segments out;     /* the queue */
	uint64_t sent, received; /* bytes in total */
	int fd;
	int error;       /* reported by failed() later */
	uint8_t events;  /* the events that are watched now */
	bool paused;     /* do not call data() */
	bool ended;      /* the peer has closed its half, and all bytes were received */
	bool hung_up;    /* the peer seems to have closed its half; bytes may be left */
	bool handshaken; /* the TLS handshake is done, or there is none */
	bool crossed;    /* TLS wants to write in order to read */
	bool finishing;  /* close this half when the queue is empty */
	bool finished;   /* this half is closed */
	/* Set by the owner: continue to read after the peer stopped receiving. */
	bool reads_on;
	bool is_closed;
	bool buffered; /* TLS holds bytes that the socket does not show */
};

/* Open a stream and start to read. Takes @fd, and @ssl if it is not NULL. */
int stream_open(struct stream *s, struct net_loop *loop, int fd, struct ssl_st *ssl,
		const struct stream_ops *ops, void *ctx);
void stream_close(struct stream *s);

void stream_pause(struct stream *s);
/* Deliver the kept bytes from the loop, and then continue to read. */
void stream_resume(struct stream *s);
static inline size_t stream_kept(const struct stream *s)
{
	return s->kept_len - s->kept_off;
}

/*
 * Queue bytes to send. 0: continue; 1: the queue is long, so wait for drained(); or
 * -errno. Errors are also reported with failed().
 */
int stream_write(struct stream *s, const void *data, size_t n);
int stream_writev(struct stream *s, const struct iovec *iov, size_t n);
/*
 * Send @n bytes of the file @fd from @offset; takes @fd. If the file is shorter, the
 * stream fails.
 */
int stream_write_file(struct stream *s, int fd, uint64_t offset, uint64_t n);
static inline bool stream_idle(const struct stream *s)
{
	return !s->out.first;
}
/* Close this half after everything in the queue was sent. */
void stream_finish(struct stream *s);

/* Writes to @s between these two calls are sent together; one stream at a time. */
void stream_cork(struct stream *s);
void stream_uncork(struct stream *s);

#endif /* NET_STREAM_H */
