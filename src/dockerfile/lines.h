/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines.h - read the lines of a Dockerfile: parser directives, comments, continuation
 * lines and heredocs
 */
#ifndef DOCKERFILE_LINES_H
#define DOCKERFILE_LINES_H

#include "base/buf.h"
#include "dockerfile/dockerfile.h"

struct lines {
	const char *p, *end;
	unsigned number; /* of the line that was read last */
	char escape;
};

/*
 * Start to read @size bytes at @text, and read the parser directives. After an error,
 * lines->number is the line.
 */
int lines_init(struct lines *l, const char *text, size_t size,
	       struct warren_error *err) MUST_CHECK;
/*
 * Read the next instruction into @out, with its continuation lines joined. *@ret_line is
 * the number of its first line. 0: there is none.
 */
int lines_next(struct lines *l, struct buf *out, unsigned *ret_line,
	       struct warren_error *err) MUST_CHECK;
/*
 * Read the heredocs that the instruction @text begins, and add them to @i. Call it only
 * for instructions that can have heredocs.
 */
int lines_heredocs(struct lines *l, const char *text, struct dockerfile_instruction *i,
		   struct warren_error *err) MUST_CHECK;

#endif /* DOCKERFILE_LINES_H */
