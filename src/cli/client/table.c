/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.c - print columns: the last one unchanged, the others as wide as their widest
 * cell
 */
#include "cli/client/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/strv.h"
#include "cli/command.h"

#define GAP      3
#define CELL_MAX 4096

void table_cell(struct table *t, const char *fmt, ...)
{
	char text[CELL_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	text[message_clean(text, strlen(text))] = '\0';
	buf_add(&t->cells, text, strlen(text) + 1);
	t->n++;
}

static void table_measure(const struct table *t, size_t n, size_t *width)
{
	const char *cell = t->cells.data;

	for (size_t i = 0; i < n; i++)
		width[i] = strlen(t->head[i]);
	for (size_t i = 0; i < t->n; i++, cell += strlen(cell) + 1)
		if (strlen(cell) > width[i % n])
			width[i % n] = strlen(cell);
}

/*
 * Write one line of cells starting at @cell (NULL: the header); return the position after
 * them.
 */
static const char *table_put_line(const struct table *t, const size_t *width, size_t n,
				  const char *cell, size_t max, struct buf *out)
{
	size_t start = out->len;

	for (size_t i = 0; i < n; i++) {
		const char *text = cell ? cell : t->head[i];

		if (i == n - 1)
			buf_puts(out, text);
		else
			buf_printf(out, "%-*s", (int)(width[i] + GAP), text);
		if (cell)
			cell += strlen(cell) + 1;
	}
	if (max && !out->failed && out->len - start > max)
		out->len = start + max;
	return cell;
}

void table_put(const struct table *t, size_t max, const char *end, struct buf *out)
{
	size_t width[TABLE_COLUMNS] = { 0 }, n = strv_len(t->head);
	const char *cell = t->cells.data;

	if (t->cells.failed || n == 0) {
		out->failed = true;
		return;
	}
	table_measure(t, n, width);
	(void)table_put_line(t, width, n, NULL, max, out);
	buf_puts(out, end);
	for (size_t i = 0; i < t->n / n; i++) {
		cell = table_put_line(t, width, n, cell, max, out);
		buf_puts(out, end);
	}
}

void table_done(struct table *t)
{
	buf_done(&t->cells);
}
