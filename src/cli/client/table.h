/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - print rows of text in columns, with a header
 *
 *	struct table t = TABLE_INIT("ID", "STATE");
 *
 *	table_cell(&t, "%s", id);
 *	table_cell(&t, "%s", state);
 *
 * Cells contain text that others chose (names, arguments), so characters that could
 * control a terminal are shown as question marks.
 */
#ifndef CLI_CLIENT_TABLE_H
#define CLI_CLIENT_TABLE_H

#include "base/buf.h"
#include "base/macro.h"

#define TABLE_COLUMNS 10
#define TABLE_MAX     (64U << 20)

struct table {
	const char *head[TABLE_COLUMNS + 1]; /* ends with NULL */
	struct buf cells;                    /* each ends with a NUL */
	size_t n;
};

#define TABLE_INIT(...)                                                     \
	{                                                                   \
		.head = { __VA_ARGS__, NULL }, .cells = BUF_INIT(TABLE_MAX) \
	}

void table_cell(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
/*
 * Append the whole table. @max: width at which lines are cut off; 0: none. @end: end of
 * each line.
 */
void table_put(const struct table *t, size_t max, const char *end, struct buf *out);
void table_done(struct table *t);

#define AUTO_TABLE CLEANUP(table_done)

#endif /* CLI_CLIENT_TABLE_H */
