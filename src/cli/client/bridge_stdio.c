/* SPDX-License-Identifier: Apache-2.0 */
/* bridge_stdio.c - messages as lines: read from stdin, write to stdout */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/client/bridge.h"

#define READ_SIZE  (64U << 10)
#define WRITE_SIZE 4096U /* a pipe accepts this size without blocking */
#define TEXT_MAX   1024

/* ---------------------------------------------------------------------- stdin */

static void bridge_end_line(struct bridge *b)
{
	struct bridge_input *in = &b->in;
	size_t n = in->line.len;

	if (in->skipping)
		bridge_put_error(b, NULL, BRIDGE_BAD_REQUEST,
				 "the message is too long: at most %u bytes",
				 BRIDGE_LINE_MAX);
	while (!in->skipping && n > 0 && strchr(" \t\r", in->line.data[n - 1]))
		n--;
	if (!in->skipping && n > 0)
		bridge_message(b, in->line.data, n);
	in->skipping = false;
	in->line.len = 0;
}

static void bridge_take(struct bridge *b, const char *data, size_t n)
{
	struct bridge_input *in = &b->in;

	while (n > 0) {
		const char *end = memchr(data, '\n', n);
		size_t part = end ? (size_t)(end - data) : n;

		if (!in->skipping && in->line.len + part > BRIDGE_LINE_MAX)
			in->skipping = true;
		if (!in->skipping)
			buf_add(&in->line, data, part);
		if (end)
			bridge_end_line(b);
		part += end != NULL;
		data += part;
		n -= part;
	}
}

void bridge_read(struct bridge *b)
{
	char data[READ_SIZE];
	ssize_t n = read(STDIN_FILENO, data, sizeof(data));

	if (n > 0)
		bridge_take(b, data, (size_t)n);
	else if (n == 0 || (errno != EINTR && errno != EAGAIN))
		b->in.ended = true;
	/* A last line without a line break is also a message. */
	if (b->in.ended && (b->in.line.len || b->in.skipping))
		bridge_end_line(b);
}

/* --------------------------------------------------------------------- stdout */

void bridge_put(struct bridge *b, const char *json, size_t n)
{
	size_t begin = b->out.len;

	buf_add(&b->out, json, n);
	/* A JSON string contains no line break, so each is between two tokens. */
	for (size_t i = begin; !b->out.failed && i < b->out.len; i++)
		if (b->out.data[i] == '\n' || b->out.data[i] == '\r')
			b->out.data[i] = ' ';
	buf_add(&b->out, "\n", 1);
	if (b->out.failed)
		b->broken = true;
}

void bridge_put_error(struct bridge *b, const json_t *id, int code, const char *fmt, ...)
{
	AUTO_FREE char *text = NULL;
	AUTO_JSON json_t *message = NULL;
	char words[TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	message = json_pack("{s:s, s:O, s:{s:i, s:s+}}", "jsonrpc", "2.0", "id",
			    id ? (json_t *)(uintptr_t)id : json_null(), "error", "code",
			    code, "message", words, "");
	text = message ? json_dumps(message, JSON_COMPACT) : NULL;
	if (text)
		bridge_put(b, text, strlen(text));
}

static ssize_t bridge_write_some(const char *data, size_t n)
{
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
	ssize_t r = send(STDOUT_FILENO, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (r >= 0 || errno != ENOTSOCK)
		return r;
	if (poll(&out, 1, 0) == 0) {
		errno = EAGAIN;
		return -1;
	}
	return write(STDOUT_FILENO, data, n < WRITE_SIZE ? n : WRITE_SIZE);
}

void bridge_flush(struct bridge *b)
{
	while (!b->broken && b->written < b->out.len) {
		ssize_t n = bridge_write_some(b->out.data + b->written,
					      b->out.len - b->written);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0 && errno != EINTR)
			b->broken = true;
		b->written += n > 0 ? (size_t)n : 0;
	}
	b->written = b->out.len = 0;
}
