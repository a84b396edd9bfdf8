/* SPDX-License-Identifier: Apache-2.0 */
/* setup_print.h - plans of setups for people */
#ifndef CLI_WORK_SETUP_PRINT_H
#define CLI_WORK_SETUP_PRINT_H

#include "base/buf.h"
#include "setup/plan.h"

/* Add text of a project, in which '?' replaces what would control a terminal or deceive.
 */
void setup_print_text(struct buf *out, const char *text);
void setup_print_bytes(struct buf *out, const char *text, size_t size);
/* The same for text of several lines: each begins with @indent, and tabs stay. */
void setup_print_lines(struct buf *out, const char *indent, const char *text,
		       size_t size);
/* Add "npm ci (web/)". */
void setup_print_step(struct buf *out, const struct setup_step *s);
struct setup_answers;
/* Add all lines of a plan. */
void setup_print_plan(struct buf *out, const char *project, const struct setup_plan *p,
		      const struct setup_answers *answers);

#endif /* CLI_WORK_SETUP_PRINT_H */
