/* SPDX-License-Identifier: Apache-2.0 */
/* work_decide.h - decide on the changes when the command has ended */
#ifndef CLI_WORK_DECIDE_H
#define CLI_WORK_DECIDE_H

#include "work/work.h"

enum work_action {
	WORK_ASK, /* at a terminal; otherwise keep the changes, and say how to decide */
	WORK_ACCEPT,
	WORK_DISCARD,
	WORK_KEEP,
};

struct work_decision {
	enum work_action action;
	bool quiet;
	int *signal; /* the signal that ended the review; not changed if there was none */
};

/* Write "warren work: @what: " and the commands that decide on the changes. */
void work_decide_kept(const struct work *w, const char *what, char *ret, size_t size);

void work_decide_say_kept(const struct work *w);

/*
 * The command of @w ended with @status: decide on the changes, and close the work. A work
 * without changes is removed, except with WORK_KEEP. If this fails, the changes are kept.
 */
int work_decide(struct work *w, int status, const struct work_decision *how,
		struct warren_error *err) MUST_CHECK;

#endif /* CLI_WORK_DECIDE_H */
