/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_demux.c - parse the head of an answer, and the frames of two streams, as their
 * bytes arrive
 */
#include "shim/docker/stream_demux.h"

#include <errno.h>
#include <string.h>

#define STREAM_ERR 2

static int open_frame(struct frames *f)
{
	const unsigned char *h = f->head;

	if (h[0] > STREAM_ERR || h[1] || h[2] || h[3])
		return -EBADMSG;
	f->stream = h[0] == STREAM_ERR ? STREAM_ERR : 1;
	f->left =
		(uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
	f->have = 0;
	return 0;
}

int frames_next(struct frames *f, const char *data, size_t n, size_t *ret_used,
		size_t *ret_size)
{
	size_t at = 0, size;

	while (f->left == 0) {
		size_t want = FRAME_HEAD - f->have;
		size_t take = want < n - at ? want : n - at;
		int r;

		(void)memcpy(f->head + f->have, data + at, take);
		f->have += take;
		at += take;
		if (f->have < FRAME_HEAD) {
			*ret_used = at;
			*ret_size = 0;
			return 0;
		}
		r = open_frame(f);
		if (r < 0)
			return r;
	}
	size = f->left < n - at ? f->left : n - at;
	f->left -= (uint32_t)size;
	*ret_used = at + size;
	*ret_size = size;
	return 0;
}

ssize_t frame_answer(const char *data, size_t n, int *ret_status)
{
	static const char start[] = "HTTP/1.1 ";
	const size_t len = sizeof(start) - 1;
	const char *end;
	int status = 0;

	if (memcmp(data, start, n < len ? n : len) != 0)
		return -EBADMSG;
	if (n < len + 4)
		return 0;
	for (size_t i = len; i < len + 3; i++) {
		if (data[i] < '0' || data[i] > '9')
			return -EBADMSG;
		status = status * 10 + data[i] - '0';
	}
	if (data[len + 3] != ' ' && data[len + 3] != '\r')
		return -EBADMSG;
	end = memmem(data, n, "\r\n\r\n", 4);
	if (!end)
		return 0;
	*ret_status = status;
	return end - data + 4;
}
