/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - watch a socket, and read from it
 *
 * The watched events follow from the state (stream_wanted()), with one exception: a
 * stream that is paused stays watched for reading until bytes arrive. So a short pause,
 * as for a request that is answered within the same round, needs no epoll_ctl(2).
 */
#include "net/stream.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>

#include "net/loop_internal.h"
#include "net/stream_internal.h"

static void stream_on_poll(uv_poll_t *poll, int status, int events);

static unsigned stream_wanted(const struct stream *s)
{
	unsigned events = 0;

	if (s->error)
		return 0;
	if (!s->handshaken)
		return UV_READABLE | (s->crossed ? UV_WRITABLE : 0);
	if (!s->paused && !s->ended)
		events |= UV_READABLE;
	if (!s->hung_up)
		events |= UV_DISCONNECT;
	/* A stream that waits for its turn to write need not be watched for that. */
	if ((s->out.first && !s->flush.next) || s->crossed)
		events |= UV_WRITABLE;
	return events;
}

static void stream_watch(struct stream *s, unsigned events)
{
	int r;

	if (s->is_closed || s->events == events)
		return;
	s->events = (uint8_t)events;
	r = events ? uv_poll_start(&s->poll, (int)events, stream_on_poll)
		   : uv_poll_stop(&s->poll);
	if (r < 0)
		stream_fail(s, r);
}

void stream_update(struct stream *s)
{
	unsigned want = stream_wanted(s);

	if ((want | UV_READABLE) == (s->events | (unsigned)UV_READABLE) &&
	    !(want & ~(unsigned)s->events))
		return;
	stream_watch(s, want);
}

void stream_fail(struct stream *s, int error)
{
	if (s->error || s->is_closed)
		return;
	s->error = error;
	stream_drop_queue(s);
	loop_task_cancel(&s->flush);
	stream_watch(s, 0); /* an error persists, and would wake the loop until its owner
			       closes the stream */
	loop_defer(s->loop, &s->task);
}

/* Convert a failed result of SSL_read(), SSL_write() or SSL_do_handshake(). */
static int tls_errno(struct stream *s, int result)
{
	int e = SSL_get_error(s->ssl, result), code = errno;

	ERR_clear_error();
	switch (e) {
	case SSL_ERROR_WANT_READ:
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		s->crossed = true;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		return code ? -code : -ECONNRESET;
	default:
		return -EPROTO;
	}
}

ssize_t stream_send(struct stream *s, const void *data, size_t n)
{
	ssize_t r;

	if (s->ssl) {
		size_t done = 0;

		errno = 0;
		if (SSL_write_ex(s->ssl, data, n, &done) == 1)
			return (ssize_t)done;
		r = tls_errno(s, 0);
		return r == 0 ? -EPIPE : r;
	}
	do
		r = send(s->fd, data, n, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

/* TLS records are small: read as many as fit, in one round. */
static ssize_t receive_tls(struct stream *s, char *data, size_t n)
{
	size_t got = 0;
	int r = 0;

	s->crossed = false;
	while (got < n) {
		size_t part = 0;

		errno = 0;
		if (SSL_read_ex(s->ssl, data + got, n - got, &part) != 1) {
			r = tls_errno(s, 0);
			break;
		}
		got += part;
	}
	/* An end or an error that follows these bytes is reported again by the next read.
	 */
	s->buffered = got > 0 && r != -EAGAIN;
	return got > 0 ? (ssize_t)got : r;
}

ssize_t stream_receive(struct stream *s, void *data, size_t n)
{
	ssize_t r;

	if (s->ssl)
		return receive_tls(s, data, n);
	do
		r = recv(s->fd, data, n, 0);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

/* Append @n bytes to those that are kept. */
static bool stream_keep(struct stream *s, const char *data, size_t n)
{
	size_t have = stream_kept(s), need = have + n;

	if (s->kept_off > 0 && have > 0)
		(void)memmove(s->kept, s->kept + s->kept_off, have);
	s->kept_off = 0;
	s->kept_len = (uint32_t)have;
	if (need > s->kept_size) {
		size_t size = need < 1024 ? 1024 : need + need / 2;
		char *p = size < UINT32_MAX ? realloc(s->kept, size) : NULL;

		if (!p) {
			stream_fail(s, -ENOMEM);
			return false;
		}
		s->kept = p;
		s->kept_size = (uint32_t)size;
	}
	(void)memcpy(s->kept + have, data, n);
	s->kept_len = (uint32_t)need;
	return true;
}

static void offer_kept(struct stream *s)
{
	size_t used;

	if (stream_kept(s) > 0) {
		used = s->ops->data(s->ctx, s->kept + s->kept_off, stream_kept(s));
		if (s->is_closed)
			return;
		s->kept_off += (uint32_t)used;
	}
	if (stream_kept(s) == 0) {
		free(s->kept);
		s->kept = NULL;
		s->kept_off = s->kept_len = s->kept_size = 0;
	}
}

static void stream_offer(struct stream *s, char *data, size_t n)
{
	size_t used;

	if (stream_kept(s) > 0) {
		if (stream_keep(s, data, n))
			offer_kept(s);
		return;
	}
	used = s->ops->data(s->ctx, data, n);
	if (!s->is_closed && used < n)
		(void)stream_keep(s, data + used, n - used);
}

static void stream_read_some(struct stream *s)
{
	size_t size = 0;
	char *in =
		s->ops->room && stream_kept(s) == 0 ? s->ops->room(s->ctx, &size) : NULL;
	ssize_t n;

	if (!in) {
		in = s->loop->in;
		size = LOOP_IN_SIZE;
	}
	n = stream_receive(s, in, size);
	if (n == -EAGAIN)
		return;
	if (n < 0) {
		stream_fail(s, (int)n);
		return;
	}
	if (n == 0) {
		s->ended = s->hung_up = true;
		s->ops->ended(s->ctx, true);
		return;
	}
	s->received += (uint64_t)n;
	stream_offer(s, in, (size_t)n);
	if (!s->is_closed && s->buffered && !s->paused)
		loop_defer(s->loop, &s->task);
}

/* Continue the TLS handshake. Return true if it is complete. */
static bool shake_hands(struct stream *s)
{
	int r;

	s->crossed = false;
	errno = 0;
	r = SSL_do_handshake(s->ssl);
	if (r == 1) {
		s->handshaken = true;
		return true;
	}
	r = tls_errno(s, r);
	if (r != -EAGAIN)
		stream_fail(s, r == 0 ? -ECONNRESET : r);
	return false;
}

static int socket_error(int fd)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error == 0)
		return -ECONNRESET;
	return -error;
}

/*
 * The connection was reset. Earlier data is still in the socket, and may be an answer: a
 * server that refuses a body without reading it sends an answer and resets the
 * connection. If the stream is paused, the data is read later: the next watch calls this
 * function again.
 */
static void on_reset(struct stream *s)
{
	uint64_t before = s->received - 1;

	if (!s->reads_on || !s->handshaken || s->ended) {
		stream_fail(s, socket_error(s->fd));
		return;
	}
	while (!s->is_closed && !s->error && !s->ended && !s->paused) {
		if (s->received == before) {
			stream_fail(s, socket_error(s->fd));
			return;
		}
		before = s->received;
		stream_read_some(s);
	}
}

static void on_ready(struct stream *s, int status, int events)
{
	unsigned before = stream_wanted(s);

	if (status < 0) {
		s->events = 0;
		on_reset(s);
		return;
	}
	if (!s->handshaken && !shake_hands(s)) {
		stream_update(s);
		return;
	}
	if (events & UV_WRITABLE && stream_has_much(s))
		loop_later(s->loop, &s->flush);
	else if (events & UV_WRITABLE)
		stream_flush(s);
	if (s->is_closed || s->error)
		return;
	if (!s->paused && !s->ended) {
		if (events & (UV_READABLE | UV_DISCONNECT) || s->crossed)
			stream_read_some(s);
	} else if (events & UV_DISCONNECT && !s->hung_up) {
		s->hung_up = true;
		s->ops->ended(s->ctx, false);
	}
	/*
	 * Stop watching unwanted events, which would wake the loop forever. If bytes have
	 * just become unwanted, wait until more arrive.
	 */
	if (!s->is_closed && (events & (int)~(stream_wanted(s) | (before & UV_READABLE))))
		stream_watch(s, stream_wanted(s));
	else if (!s->is_closed)
		stream_update(s);
}

static void stream_on_poll(uv_poll_t *poll, int status, int events)
{
	struct stream *s = poll->data;
	struct net_loop *loop = s->loop;

	loop_enter(loop);
	on_ready(s, status, events);
	loop_leave(loop, LOOP_NAME(on_poll));
}

static void stream_on_task(void *ctx)
{
	struct stream *s = ctx;

	if (s->error) {
		s->ops->failed(s->ctx, s->error);
		return;
	}
	if (!s->paused && stream_kept(s) > 0)
		offer_kept(s);
	else if (!s->paused && s->buffered && !s->ended)
		stream_read_some(s);
	if (s->is_closed)
		return;
	if (!s->paused && s->buffered)
		loop_defer(s->loop, &s->task);
	stream_update(s);
}

static void on_flush(void *ctx)
{
	struct stream *s = ctx;

	stream_flush(s);
	if (!s->is_closed)
		stream_update(s);
}

int stream_open(struct stream *s, struct net_loop *loop, int fd, struct ssl_st *ssl,
		const struct stream_ops *ops, void *ctx)
{
	int r;

	*s = (struct stream){ .loop = loop,
			      .ops = ops,
			      .ctx = ctx,
			      .ssl = ssl,
			      .fd = fd,
			      .handshaken = !ssl,
			      .task = { .fn = stream_on_task, .ctx = s },
			      .flush = { .fn = on_flush, .ctx = s } };
	r = uv_poll_init(&loop->uv, &s->poll, fd);
	if (r < 0)
		return r;
	s->poll.data = s;
	stream_update(s);
	return 0;
}

static void stream_on_closed(uv_handle_t *handle)
{
	struct stream *s = handle->data;

	s->ops->closed(s->ctx);
}

void stream_close(struct stream *s)
{
	if (s->is_closed)
		return;
	s->is_closed = true;
	loop_task_cancel(&s->task);
	loop_task_cancel(&s->flush);
	if (s->loop->corked == s) {
		s->loop->corked = NULL;
		s->loop->out_len = 0;
	}
	stream_drop_queue(s);
	free(s->kept);
	s->kept = NULL;
	s->kept_len = s->kept_off = 0;
	/* Stop watching first: another file may immediately get the same descriptor
	 * number. */
	(void)uv_poll_stop(&s->poll);
	SSL_free(s->ssl);
	s->ssl = NULL;
	(void)close(s->fd);
	s->fd = -1;
	uv_close((uv_handle_t *)&s->poll, stream_on_closed);
}

void stream_pause(struct stream *s)
{
	s->paused = true;
}

void stream_resume(struct stream *s)
{
	if (!s->paused || s->is_closed)
		return;
	s->paused = false;
	if (stream_kept(s) > 0 || s->buffered)
		loop_defer(s->loop, &s->task);
	stream_update(s);
}
