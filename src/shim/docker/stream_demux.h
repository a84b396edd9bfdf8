/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_demux.h - the data of a hijacked connection: a head, then frames. Pure functions
 * on bytes
 *
 * Without a terminal the streams of a command come in frames: a byte that names the
 * stream (1, 2; 0 is stdin, which is shown as output by some), three zeros, the length as
 * 32 bits, big-endian.
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
	size_t have;   /* of the head */
	uint32_t left; /* bytes of the frame at hand */
	int stream;
};

/*
 * The next piece of output in the @n bytes at @data: *@ret_used bytes are done with, of
 * which the last *@ret_size are the piece, of stream f->stream. A piece of 0 bytes: there
 * is no more in @data. 0, or -EBADMSG for what is no frame.
 */
int frames_next(struct frames *f, const char *data, size_t n, size_t *ret_used,
		size_t *ret_size);

/*
 * The head of an answer: its length once it is whole, 0 while it is not; *@ret_status is
 * 101, 200, ... -EBADMSG: that is no answer.
 */
ssize_t frame_answer(const char *data, size_t n, int *ret_status);

#endif /* SHIM_DOCKER_STREAM_DEMUX_H */
