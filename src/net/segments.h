/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segments.h - a queue of bytes to send
 *
 * Each segment is a piece of memory or a range of a file. Of a file, only the part that
 * is being sent is in memory.
 */
#ifndef NET_SEGMENTS_H
#define NET_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct net_loop;

struct segment {
	struct segment *next;
	uint64_t offset; /* offset in the file */
	uint64_t left;
	int fd; /* -1: memory */
	bool no_sendfile;
	size_t size, start; /* for a segment in memory: @left bytes from @start on */
	char data[];
};

struct segments {
	struct segment *first, *last;
	size_t queued; /* bytes in memory */
};

/* Append a copy of @data. False: out of memory. */
bool segments_add(struct segments *q, const void *data, size_t n);
/* Append @n bytes of a file; takes @fd on success. False: out of memory. */
bool segments_add_file(struct segments *q, int fd, uint64_t offset, uint64_t n);
/*
 * Fill @iov with at most @n pieces and @max bytes of memory from the front of the queue,
 * up to the first file. Returns the number of pieces.
 */
size_t segments_iov(const struct segments *q, struct iovec *iov, size_t n, size_t max);
/* Read bytes of the file at the front of the queue. Returns their number, or -errno. */
ssize_t segments_read_file(const struct segments *q, void *data, size_t n);
/* Remove @n bytes from the front of the queue, and every segment that is then empty. */
void segments_sent(struct segments *q, struct net_loop *loop, uint64_t n);
void segments_drop(struct segments *q, struct net_loop *loop);

#endif /* NET_SEGMENTS_H */
