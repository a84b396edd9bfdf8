/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_demux.h - parse the data of a hijacked connection: a head, then frames. Pure
 * functions on bytes
 *
 * Without a terminal, the streams of a command come in frames: a byte that identifies the
 * stream (1, 2; 0 is stdin, which counts as output), three zeros, and the length as 32
 * bits, big-endian.
 */
#ifndef SHIM_DOCKER_STREAM_DEMUX_H
#define SHIM_DOCKER_STREAM_DEMUX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FRAME_HEAD 8U

struct frames {
	unsigned char head[FRAME_HEAD];
	size_t have;   /* bytes of the head */
	uint32_t left; /* bytes left in the current frame */
	int stream;
};

/*
 * Find the next piece of output in the @n bytes at @data: *@ret_used bytes are consumed,
 * of which the last *@ret_size are output of stream f->stream. If *@ret_size is 0, @data
 * contains no more output. 0, or -EBADMSG if it is not a frame.
 */
int frames_next(struct frames *f, const char *data, size_t n, size_t *ret_used,
		size_t *ret_size);

/*
 * Parse the head of a response: return its length if it is complete, otherwise 0;
 * *@ret_status is 101, 200, ... -EBADMSG: it is not a response.
 */
ssize_t frame_answer(const char *data, size_t n, int *ret_status);

#endif /* SHIM_DOCKER_STREAM_DEMUX_H */
