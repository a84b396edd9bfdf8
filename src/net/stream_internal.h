/* SPDX-License-Identifier: Apache-2.0 */
/* stream_internal.h - what the reading and the writing half of a stream share */
#ifndef NET_STREAM_INTERNAL_H
#define NET_STREAM_INTERNAL_H

#include "net/stream.h"

/* Watch what the stream's state asks for. */
void stream_update(struct stream *s);
/* Tell the owner from the loop, and nothing else any more. */
void stream_fail(struct stream *s, int error);

/* As send(2) and recv(2) with -errno; -EAGAIN to wait for the socket. */
ssize_t stream_send(struct stream *s, const void *data, size_t n);
ssize_t stream_receive(struct stream *s, void *data, size_t n);

/* More is queued than is sent without waiting for a turn. */
bool stream_has_much(const struct stream *s);
/* Send from the queue what the socket takes. */
void stream_flush(struct stream *s);
void stream_drop_queue(struct stream *s);

#endif /* NET_STREAM_INTERNAL_H */
