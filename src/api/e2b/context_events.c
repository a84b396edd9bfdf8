/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context_events.c - read what a kernel writes
 *
 * The service reads the events of a kernel from the journal of its exec, like any other
 * output. A kernel is not trusted: each line must be an object of a known type, and goes
 * only to the client of the cell that runs. Events of a cell begin with the number of the
 * cell; what comes before belongs to no client. A line that is no event ends the cell for
 * its client, because the event that it should have been can be the end of the cell.
 *
 * A line is checked while it is read. It is only stored for a client, whose tenant the
 * memory counts for. A long line is sent in several turns; no more is read until it is
 * sent.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/e2b/context.h"

#define READ_MAX        65536 /* a record of the journal has at most this size */
#define PIECES_PER_TURN 8
#define PUSH_MAX        (256U << 10)                       /* bytes of a line per turn */
#define ENDLESS_MIN     ((size_t)4 * CODE_KERNEL_LINE_MAX) /* bytes of an endless line */

enum event_kind {
	EVENT_KIND_OTHER, /* for the client */
	EVENT_KIND_NUMBER,
	EVENT_KIND_END,
	EVENT_KIND_UNKNOWN,
};

static enum event_kind line_kind(const struct kernel_line *l)
{
	static const struct {
		const char *type;
		enum event_kind kind;
	} types[] = {
		{ "number_of_executions\"", EVENT_KIND_NUMBER },
		{ "stdout\"", EVENT_KIND_OTHER },
		{ "stderr\"", EVENT_KIND_OTHER },
		{ "result\"", EVENT_KIND_OTHER },
		{ "error\"", EVENT_KIND_OTHER },
		{ "end_of_execution\"", EVENT_KIND_END },
	};
	static const char begin[] = "{\"type\":\"";
	const char *type = l->head + sizeof(begin) - 1;

	if (!json_scan_ends(&l->scan) || strncmp(l->head, begin, sizeof(begin) - 1) != 0)
		return EVENT_KIND_UNKNOWN;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strncmp(type, types[i].type, strlen(types[i].type)) == 0)
			return types[i].kind;
	return EVENT_KIND_UNKNOWN;
}

static void line_reset(struct kernel_line *l)
{
	buf_done(&l->text);
	*l = (struct kernel_line){ .text = BUF_INIT(CODE_KERNEL_LINE_MAX + 1) };
}

void context_drop_lines(struct e2b_context *x)
{
	line_reset(&x->line);
	buf_done(&x->rest);
	x->rest = (struct buf)BUF_INIT(READ_MAX);
}

/* The text is not stored; @why: an error for the client, or "". */
static void line_refuse(struct kernel_line *l, const char *why)
{
	buf_done(&l->text);
	l->refused = true;
	(void)snprintf(l->why, sizeof(l->why), "%s", why);
}

/*
 * The line is no event. What began before the cell was sent is the rest of an earlier
 * cell.
 */
static void context_refuse_line(struct e2b_context *x)
{
	if (x->first && x->sent && !x->line.stray)
		context_disown_cell(x, "KernelBroken",
				    "the kernel wrote something that is not an event, "
				    "so the cell was interrupted; if later cells fail "
				    "as well, restart the context");
}

static void line_add(struct e2b_context *x, const char *data, size_t n)
{
	struct kernel_line *l = &x->line;
	size_t room = sizeof(l->head) - 1;

	if (l->n == 0 && !x->sent)
		l->stray = true;
	if (l->n < room)
		(void)memcpy(l->head + l->n, data, n < room - l->n ? n : room - l->n);
	l->n += n;
	if (!json_scan_add(&l->scan, data, n) || l->n > ENDLESS_MIN) {
		context_refuse_line(x);
		line_refuse(l, "");
	}
	if (!context_is_heard(x))
		line_refuse(l, "");
	if (l->refused)
		return;
	if (l->n > CODE_KERNEL_LINE_MAX)
		line_refuse(l, "the result is too large");
	else if (!cell_keep(x->first, l->n))
		line_refuse(l, "the result is too large for the memory that is left to "
			       "the tenant");
	else
		buf_add(&l->text, data, n);
}

/* The cell whose number the line has begins. */
static void context_take_number(struct e2b_context *x)
{
	const char *count = strstr(x->line.head, "\"execution_count\":");
	const char *id = strstr(x->line.head, "\"id\":");
	char line[128];
	int n;

	if (x->heard || !count || !id || strtoull(id + 5, NULL, 10) != x->first->n)
		return;
	x->heard = true;
	n = snprintf(line, sizeof(line),
		     "{\"type\":\"number_of_executions\",\"execution_count\":%llu}",
		     strtoull(count + 18, NULL, 10));
	cell_send(x->first, line, (size_t)n);
}

/* Send the line to the client; false: it is long, and needs further turns. */
static bool context_send_line(struct e2b_context *x)
{
	struct kernel_line *l = &x->line;

	if (!context_is_heard(x))
		return true;
	if (l->text.failed)
		line_refuse(l, "out of memory");
	if (l->why[0])
		cell_send_error(x->first, "ResultTooLarge", l->why);
	if (l->refused)
		return true;
	if (l->text.len <= CONTEXT_SHORT_MAX) {
		cell_send(x->first, l->text.data, l->text.len);
		return true;
	}
	cell_flush(x->first);
	buf_puts(&l->text, "\n");
	l->complete = true;
	return false;
}

/* A line is complete. False: it is long, and needs further turns. */
static bool context_take_line(struct e2b_context *x)
{
	enum event_kind kind = line_kind(&x->line);

	if (kind == EVENT_KIND_UNKNOWN && x->line.n > 0)
		context_refuse_line(x);
	if (!x->first || !x->sent || kind == EVENT_KIND_UNKNOWN)
		return true;
	if (kind == EVENT_KIND_NUMBER) {
		context_take_number(x);
		return true;
	}
	if (!x->heard)
		return true; /* of an earlier cell */
	if (kind != EVENT_KIND_END)
		return context_send_line(x);
	cell_send_end(x->first);
	context_end_cell(x);
	return true;
}

static void context_take(struct e2b_context *x, const char *data, size_t n)
{
	while (n > 0) {
		const char *end = memchr(data, '\n', n);
		size_t part = end ? (size_t)(end - data) : n;

		line_add(x, data, part);
		data += part + (end != NULL);
		n -= part + (end != NULL);
		if (!end)
			return;
		if (!context_take_line(x)) {
			buf_add(&x->rest, data, n);
			return;
		}
		line_reset(&x->line);
	}
}

/* Send a part of a long line. */
static void context_push(struct e2b_context *x)
{
	struct kernel_line *l = &x->line;
	AUTO_BUF struct buf rest = BUF_INIT(READ_MAX);
	size_t n = l->text.len - l->sent;

	if (!context_is_heard(x))
		l->sent = l->text.len; /* the client has left */
	else
		cell_write(x->first, l->text.data + l->sent, n < PUSH_MAX ? n : PUSH_MAX);
	l->sent += n < PUSH_MAX ? n : PUSH_MAX;
	x->first->torn = l->sent < l->text.len;
	if (x->first->torn)
		return;
	rest = x->rest;
	x->rest = (struct buf)BUF_INIT(READ_MAX);
	line_reset(l);
	if (rest.failed && context_is_heard(x))
		http_abort(x->first->call->req);
	context_take(x, rest.data, rest.len);
	if (x->first)
		cell_flush(x->first);
}

/* Read a piece of output; false: there is no more now. */
static bool context_read(struct e2b_context *x)
{
	static char room[READ_MAX]; /* there is one thread */
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_output o;
	int r = exec_output(x->exec, x->at, &x->hint, room, sizeof(room), &o, &err);

	if (r == -EINPROGRESS)
		return true;
	if (r < 0) {
		context_kernel_gone(x);
		return false;
	}
	x->at = o.cursor;
	if (o.size == 0) {
		if (exec_row(x->exec)->ended || exec_lost(x->exec))
			context_kernel_gone(x);
		return false;
	}
	if (o.stream == 1)
		context_take(x, room, o.size);
	else if (o.stream == 2)
		buf_add(&x->reason, room, o.size);
	if (x->first)
		cell_flush(x->first);
	return true;
}

void context_on_turn(void *ctx)
{
	struct e2b_context *x = ctx;
	bool more = true;

	if (x->exec && x->line.complete && !x->blocked)
		context_push(x);
	for (int i = 0; i < PIECES_PER_TURN && more && x->exec; i++) {
		if (x->blocked || x->line.complete)
			break;
		exec_hold_move(&x->holder, x->at);
		more = context_read(x);
	}
	context_go_on(x);
	if (x->exec && more && !x->blocked)
		loop_later(service_loop(x->e2b->v1->service), &x->turn);
}
