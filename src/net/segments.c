/* SPDX-License-Identifier: Apache-2.0 */
/* segments.c - a queue of bytes to send: pieces of memory and ranges of files */
#include "net/segments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/loop.h"

#define SEGMENT_MIN 4096U

static void segments_append(struct segments *q, struct segment *seg)
{
	if (q->last)
		q->last->next = seg;
	else
		q->first = seg;
	q->last = seg;
}

static void segments_pop(struct segments *q, struct net_loop *loop)
{
	struct segment *seg = q->first;

	q->first = seg->next;
	if (!q->first)
		q->last = NULL;
	if (seg->fd >= 0)
		loop_close(loop, seg->fd);
	else
		q->queued -= (size_t)seg->left;
	free(seg);
}

bool segments_add(struct segments *q, const void *data, size_t n)
{
	struct segment *seg = q->last;

	if (n == 0)
		return true;
	if (!seg || seg->fd >= 0 || seg->size - seg->start - seg->left < n) {
		size_t size = n > SEGMENT_MIN ? n : SEGMENT_MIN;

		seg = malloc(sizeof(*seg) + size);
		if (!seg)
			return false;
		*seg = (struct segment){ .fd = -1, .size = size };
		segments_append(q, seg);
	}
	(void)memcpy(seg->data + seg->start + seg->left, data, n);
	seg->left += n;
	q->queued += n;
	return true;
}

bool segments_add_file(struct segments *q, int fd, uint64_t offset, uint64_t n)
{
	struct segment *seg = malloc(sizeof(*seg));

	if (!seg)
		return false;
	*seg = (struct segment){ .fd = fd, .offset = offset, .left = n };
	segments_append(q, seg);
	return true;
}

size_t segments_iov(const struct segments *q, struct iovec *iov, size_t n, size_t max)
{
	size_t parts = 0;

	for (struct segment *seg = q->first; seg && seg->fd < 0 && parts < n && max > 0;
	     seg = seg->next) {
		size_t len = seg->left < max ? (size_t)seg->left : max;

		iov[parts++] = (struct iovec){ .iov_base = seg->data + seg->start,
					       .iov_len = len };
		max -= len;
	}
	return parts;
}

ssize_t segments_read_file(const struct segments *q, void *data, size_t n)
{
	const struct segment *seg = q->first;
	ssize_t r;

	if (seg->left < n)
		n = (size_t)seg->left;
	do
		r = pread(seg->fd, data, n, (off_t)seg->offset);
	while (r < 0 && errno == EINTR);
	/* A file that is shorter than announced cannot be sent completely. */
	return r < 0 ? -errno : r == 0 && n > 0 ? -EIO : r;
}

void segments_sent(struct segments *q, struct net_loop *loop, uint64_t n)
{
	while (q->first && (n > 0 || q->first->left == 0)) {
		struct segment *seg = q->first;
		uint64_t part = n < seg->left ? n : seg->left;

		n -= part;
		seg->left -= part;
		if (seg->fd >= 0) {
			seg->offset += part;
		} else {
			seg->start += (size_t)part;
			q->queued -= (size_t)part;
		}
		if (seg->left == 0)
			segments_pop(q, loop);
	}
}

void segments_drop(struct segments *q, struct net_loop *loop)
{
	while (q->first)
		segments_pop(q, loop);
}
