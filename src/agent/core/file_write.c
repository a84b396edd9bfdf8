/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_write.c - WRITE: write bytes of a request, or of a file that came with it, to an
 * open file
 */
#include <errno.h>

#include "agent/core/agent.h"

#define WRITE_PIECE 65536

/* The last stream on which a write failed, and the error. */
static struct {
	uint32_t stream;
	long error;
} write_failure;

long files_write_failed(uint32_t stream)
{
	return stream != 0 && stream == write_failure.stream ? write_failure.error : 0;
}

static long write_all(int fd, const char *data, size_t n)
{
	while (n > 0) {
		long r = sys_write(fd, data, n);

		if (r == -EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? r : -EIO;
		data += r;
		n -= (size_t)r;
	}
	return 0;
}

/* Copy through memory, because sendfile(2) cannot write to a file opened with
 * O_APPEND. */
static long write_from_slowly(int fd, int from, uint64_t offset, uint64_t n)
{
	static char piece[WRITE_PIECE];

	while (n > 0) {
		long r = sys_pread(from, piece, n < sizeof(piece) ? n : sizeof(piece),
				   offset);

		if (r == -EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? r : -EIO;
		offset += (uint64_t)r;
		n -= (uint64_t)r;
		r = write_all(fd, piece, (size_t)r);
		if (r < 0)
			return r;
	}
	return 0;
}

static long write_from(int fd, int from, uint64_t offset, uint64_t n)
{
	while (n > 0) {
		uint64_t at = offset;
		long r = SYS_4(SYS_sendfile, fd, from, &at, n);

		if (r == -EINTR)
			continue;
		if (r == -EINVAL)
			return write_from_slowly(fd, from, offset, n);
		if (r <= 0)
			return r < 0 ? r : -EIO;
		offset += (uint64_t)r;
		n -= (uint64_t)r;
	}
	return 0;
}

void agent_files_write(int c, const struct proto_write *msg, size_t size, const int *fds,
		       size_t n_fds)
{
	long r = -EINVAL;

	if (size >= sizeof(*msg) && n_fds == 1 && msg->size == size - sizeof(*msg))
		r = write_all(fds[0], msg->data, msg->size);
	else if (size == sizeof(*msg) && n_fds == 2)
		r = write_from(fds[0], fds[1], msg->offset, msg->size);
	if (r < 0 && size >= sizeof(*msg) && msg->stream != 0) {
		write_failure.stream = msg->stream;
		write_failure.error = r;
	}
	reply_value(c, ((const struct proto_header *)(const void *)msg)->seq, r, 0);
}
