/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - rows of text with a header, in columns
 *
 *	struct table t = TABLE_INIT("ID", "STATE");
 *
 *	table_cell(&t, "%s", id);
 *	table_cell(&t, "%s", state);
 *
 * Cells hold what others chose (names, arguments): what could drive a
 * terminal is shown as a question mark.
 */
#ifndef CLI_CLIENT_TABLE_H
#define CLI_CLIENT_TABLE_H

#include "base/buf.h"
#include "base/macro.h"

#define TABLE_COLUMNS 10
#define TABLE_MAX     (64U << 20)

struct table {
	const char *head[TABLE_COLUMNS + 1]; /* ends with NULL */
	struct buf cells;                    /* each with its NUL */
	size_t n;
};

#define TABLE_INIT(...)                                                     \
	{                                                                   \
		.head = { __VA_ARGS__, NULL }, .cells = BUF_INIT(TABLE_MAX) \
	}

void table_cell(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* All of it. @max: cut lines off there; 0: nowhere. @end: of each line. */
void table_put(const struct table *t, size_t max, const char *end, struct buf *out);
void table_done(struct table *t);

#define AUTO_TABLE CLEANUP(table_done)

#endif /* CLI_CLIENT_TABLE_H */
