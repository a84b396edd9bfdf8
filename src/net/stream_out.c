/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_out.c - the writing half of a stream: write what the socket accepts, queue the
 * rest
 *
 * A file in the queue is sent with sendfile(2), or piece by piece through TLS; in either
 * case only the part that is being sent is in memory.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "net/loop_internal.h"
#include "net/stream_internal.h"

/* Maximum for one stream before others have their turn. */
#define ROUND_BYTES (512U << 10)
#define FILE_BYTES  (256U << 10) /* maximum for one sendfile(2) */
/* Larger data is queued, and sent when it is this stream's turn. */
#define MUCH         (16U << 10)
#define RECORD_BYTES (16U << 10)
#define IOV_MAX_OURS 16

static void tell_queued(struct stream *s)
{
	if (s->ops->queued && s->out.first && !s->error && !s->is_closed)
		s->ops->queued(s->ctx);
}

void stream_drop_queue(struct stream *s)
{
	segments_drop(&s->out, s->loop);
}

/* Send to the socket, bypassing the queue. Return the number of bytes or -errno. */
static ssize_t send_iov(struct stream *s, const struct iovec *iov, size_t n)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)(uintptr_t)iov,
			      .msg_iovlen = n };
	ssize_t r, done = 0;

	if (n == 1)
		return stream_send(s, iov[0].iov_base, iov[0].iov_len);
	if (!s->ssl) {
		do
			r = sendmsg(s->fd, &msg, MSG_NOSIGNAL);
		while (r < 0 && errno == EINTR);
		return r < 0 ? -errno : r;
	}
	for (size_t i = 0; i < n; i++) {
		for (size_t off = 0; off < iov[i].iov_len; off += (size_t)r) {
			r = stream_send(s, (char *)iov[i].iov_base + off,
					iov[i].iov_len - off);
			if (r < 0)
				return done > 0 && r == -EAGAIN ? done : r;
			done += r;
		}
	}
	return done;
}

/* Sending failed. */
static void stream_out_fail(struct stream *s, int error)
{
	if (s->reads_on && (error == -EPIPE || error == -ECONNRESET)) {
		stream_drop_queue(s);
		s->finishing = s->finished = true;
		return;
	}
	stream_fail(s, error);
}

/* Send bytes now, or queue them. */
static void send_or_queue(struct stream *s, const struct iovec *iov, size_t n)
{
	bool was_idle = stream_idle(s);
	ssize_t r = was_idle ? send_iov(s, iov, n) : -EAGAIN;
	size_t done = r > 0 ? (size_t)r : 0;

	if (r < 0 && r != -EAGAIN) {
		stream_out_fail(s, (int)r);
		return;
	}
	s->sent += done;
	for (size_t i = 0; i < n; i++) {
		size_t skip = done < iov[i].iov_len ? done : iov[i].iov_len;

		done -= skip;
		if (!segments_add(&s->out, (char *)iov[i].iov_base + skip,
				  iov[i].iov_len - skip)) {
			stream_fail(s, -ENOMEM);
			return;
		}
	}
	stream_update(s);
	if (was_idle)
		tell_queued(s);
}

static void send_gathered(struct stream *s)
{
	struct net_loop *loop = s->loop;
	struct iovec iov = { .iov_base = loop->out, .iov_len = loop->out_len };

	loop->out_len = 0;
	if (iov.iov_len > 0)
		send_or_queue(s, &iov, 1);
}

static void stream_out_end_half(struct stream *s)
{
	if (!s->finishing || s->finished || s->out.first || s->error || s->is_closed ||
	    s->loop->corked == s)
		return;
	s->finished = true;
	if (s->ssl) {
		(void)SSL_shutdown(s->ssl);
		ERR_clear_error();
	}
	(void)shutdown(s->fd, SHUT_WR);
}

static int stream_out_fullness(const struct stream *s)
{
	if (s->error)
		return s->error;
	return s->out.queued > STREAM_HIGH || (s->out.last && s->out.last->fd >= 0);
}

int stream_writev(struct stream *s, const struct iovec *iov, size_t n)
{
	struct net_loop *loop = s->loop;
	size_t total = 0;

	if (s->error || s->is_closed || s->finishing)
		return s->error ? s->error : -EPIPE;
	for (size_t i = 0; i < n; i++)
		total += iov[i].iov_len;
	if (s->out.queued > STREAM_HIGH && s->out.queued + total > STREAM_MAX) {
		stream_fail(s, -ENOBUFS);
		return -ENOBUFS;
	}
	if (!s->out.first && (loop->corked == s || (s->ssl && !loop->corked))) {
		if (total > LOOP_OUT_SIZE - loop->out_len)
			send_gathered(s);
		if (total <= LOOP_OUT_SIZE && !s->out.first && !s->error) {
			for (size_t i = 0; i < n; i++) {
				(void)memcpy(loop->out + loop->out_len, iov[i].iov_base,
					     iov[i].iov_len);
				loop->out_len += iov[i].iov_len;
			}
			if (loop->corked != s)
				send_gathered(s);
			return stream_out_fullness(s);
		}
	}
	if (!s->error)
		send_or_queue(s, iov, n);
	return stream_out_fullness(s);
}

int stream_write(struct stream *s, const void *data, size_t n)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = n };

	return stream_writev(s, &iov, 1);
}

int stream_write_file(struct stream *s, int fd, uint64_t offset, uint64_t n)
{
	bool was_idle;

	if (!s->error && !s->is_closed && !s->finishing && s->loop->corked == s)
		send_gathered(s);
	was_idle = stream_idle(s);
	if (s->error || s->is_closed || s->finishing ||
	    !segments_add_file(&s->out, fd, offset, n)) {
		loop_close(s->loop, fd);
		if (!s->error && !s->is_closed && !s->finishing)
			stream_fail(s, -ENOMEM);
		return s->error ? s->error : -EPIPE;
	}
	stream_update(s);
	if (was_idle)
		tell_queued(s);
	return stream_out_fullness(s);
}

static ssize_t flush_memory(struct stream *s)
{
	struct iovec iov[IOV_MAX_OURS];
	size_t n = segments_iov(&s->out, iov, ARRAY_SIZE(iov), SIZE_MAX);
	ssize_t sent = send_iov(s, iov, n);

	if (sent > 0)
		segments_sent(&s->out, s->loop, (uint64_t)sent);
	return sent;
}

/* Copy through memory: for TLS, and for files that sendfile(2) does not support. */
static ssize_t stream_out_copy_file(struct stream *s)
{
	char data[RECORD_BYTES];
	ssize_t r = segments_read_file(&s->out, data, sizeof(data));

	return r > 0 ? stream_send(s, data, (size_t)r) : r;
}

static ssize_t stream_out_send_file(struct stream *s, struct segment *seg)
{
	off_t offset = (off_t)seg->offset;
	ssize_t r;

	if (s->ssl || seg->no_sendfile)
		return stream_out_copy_file(s);
	do
		r = sendfile(s->fd, seg->fd, &offset,
			     seg->left < FILE_BYTES ? (size_t)seg->left : FILE_BYTES);
	while (r < 0 && errno == EINTR);
	if (r < 0 && (errno == EINVAL || errno == ENOSYS)) {
		seg->no_sendfile = true;
		return stream_out_copy_file(s);
	}
	/* The file is shorter than announced, so the answer cannot be completed. */
	return r < 0 ? -errno : r == 0 ? -EIO : r;
}

static ssize_t flush_file(struct stream *s)
{
	struct segment *seg = s->out.first;
	ssize_t r = seg->left > 0 ? stream_out_send_file(s, seg) : 0;

	if (r >= 0)
		segments_sent(&s->out, s->loop, (uint64_t)r);
	return r;
}

bool stream_has_much(const struct stream *s)
{
	return s->out.first && (s->out.first->fd >= 0 || s->out.queued > MUCH);
}

void stream_flush(struct stream *s)
{
	size_t budget = ROUND_BYTES;
	bool waited = s->out.first != NULL;
	uint64_t before = s->sent;

	s->crossed = false;
	while (s->out.first && budget > 0) {
		ssize_t r = s->out.first->fd < 0 ? flush_memory(s) : flush_file(s);

		if (r == -EAGAIN)
			break;
		if (r < 0) {
			stream_out_fail(s, (int)r);
			return;
		}
		s->sent += (uint64_t)r;
		budget -= budget < (size_t)r ? budget : (size_t)r;
	}
	stream_out_end_half(s);
	if (waited && !s->out.first && !s->error)
		s->ops->drained(s->ctx);
	else if (s->sent != before)
		tell_queued(s);
}

void stream_finish(struct stream *s)
{
	s->finishing = true;
	stream_out_end_half(s);
}

void stream_cork(struct stream *s)
{
	if (!s->loop->corked && !s->is_closed)
		s->loop->corked = s;
}

void stream_uncork(struct stream *s)
{
	if (s->loop->corked != s)
		return;
	send_gathered(s);
	s->loop->corked = NULL;
	stream_out_end_half(s);
}
