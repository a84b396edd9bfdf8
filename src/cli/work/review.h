/* SPDX-License-Identifier: Apache-2.0 */
/*
 * review.h - let the user decide on the changes of a work, at a terminal
 *
 * First comes a summary; then the user accepts all changes, rejects them, chooses file by
 * file and hunk by hunk, or keeps them for later. Nothing changes before a decision is
 * complete, and the changes are kept if anything interrupts the review (^C, a signal, the
 * loss of the terminal).
 */
#ifndef CLI_WORK_REVIEW_H
#define CLI_WORK_REVIEW_H

#include "work/accept.h"

enum review_action {
	REVIEW_ASK,    /* at a terminal; otherwise, print the commands to decide with */
	REVIEW_ACCEPT, /* accept all changes that need no permission (`work --sync`) */
	REVIEW_REJECT, /* reject all changes (`work --no-sync`) */
};

struct review_options {
	const char *command; /* its name in messages: "work" */
	enum review_action action;
	bool quiet; /* print nothing but problems */
};

enum review_result {
	REVIEW_DONE, /* nothing is left to decide: the work can be removed */
	REVIEW_KEPT, /* changes are left, and a message said how to decide on them
		      */
};

/*
 * Review all changes of @w, which must be locked and ended (work_end()). Returns an enum
 * review_result, or -errno; then nothing is lost either.
 */
int review_at_exit(struct work *w, const struct review_options *o,
		   struct warren_error *err) MUST_CHECK;

#endif /* CLI_WORK_REVIEW_H */
