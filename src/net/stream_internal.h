/* SPDX-License-Identifier: Apache-2.0 */
/* stream_internal.h - shared by the reading and the writing half of a stream */
#ifndef NET_STREAM_INTERNAL_H
#define NET_STREAM_INTERNAL_H

#include "net/stream.h"

/* Watch the events that the stream's state requires. */
void stream_update(struct stream *s);
/* Report the error to the owner from the loop; no other callback follows. */
void stream_fail(struct stream *s, int error);

/* Like send(2) and recv(2), but return -errno; -EAGAIN: wait for the socket. */
ssize_t stream_send(struct stream *s, const void *data, size_t n);
ssize_t stream_receive(struct stream *s, void *data, size_t n);

/* Return whether the queue is too long to be sent without waiting for a turn. */
bool stream_has_much(const struct stream *s);
/* Send as much of the queue as the socket accepts. */
void stream_flush(struct stream *s);
void stream_drop_queue(struct stream *s);

#endif /* NET_STREAM_INTERNAL_H */
