/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - the text form of what is stored about a work
 *
 * Each line is "key value"; bytes of the value that are not printable, and '%', are
 * written as %XX. A key that is not known is ignored, so that an older program can read
 * the record of a newer one.
 */
#ifndef WORK_RECORD_H
#define WORK_RECORD_H

#include "base/buf.h"
#include "work/work.h"

#define RECORD_SIZE_MAX ((size_t)8 << 20)

/* Write "key value\n" with escapes. */
void record_line(struct buf *b, const char *key, const char *value);
/*
 * Split the next line at *@at, in place: the key, and the value without escapes. Returns
 * 1; 0: at the end; -EBADMSG: the text is damaged.
 */
int record_next(char **at, const char *end, char **ret_key, char **ret_value);

void work_record_write(struct buf *b, const struct work_record *r);
/* Parse @text, which is changed. -EBADMSG: it is damaged. */
int work_record_parse(char *text, size_t n, struct work_record *ret,
		      struct warren_error *err) MUST_CHECK;
void work_record_done(struct work_record *r);

#endif /* WORK_RECORD_H */
