/* SPDX-License-Identifier: Apache-2.0 */
/* decide.h - accept or reject changes, and report what became of them */
#ifndef CLI_WORK_DECIDE_CHANGES_H
#define CLI_WORK_DECIDE_CHANGES_H

#include "base/buf.h"
#include "cli/work/choose.h"
#include "work/accept.h"

/* Exit status: some changes were not accepted, because they are in conflict. */
#define DECIDE_CONFLICTS 1

struct decide {
	const char *command; /* its name in messages */
	struct work *work;
	struct accept_options options;
	bool json, quiet;
};

/* What decide_all() left, by the reason. */
struct decide_left {
	size_t ignored;  /* .gitignore ignores it */
	size_t guarded;  /* needs a permission; or can never be accepted */
	unsigned guards; /* these permissions */
	bool repository; /* the repository (".git") changed */
};

/* Make items of all changes that the options permit to accept. */
int decide_all(const struct changes *changes, const struct accept_options *o,
	       struct choose_items *ret, struct decide_left *ret_left,
	       struct warren_error *err) MUST_CHECK;
/* Print how the changes that were left can be accepted. */
void decide_print_left(const struct decide *d, const struct decide_left *left);

/* Accept items. Returns the exit status, after printing what was done or failed. */
int decide_accept(struct decide *d, const struct choose_items *items);
int decide_reject(struct decide *d, const struct choose_items *items);
/*
 * If nothing is left to decide, remove the work. Otherwise, print how many changes are
 * left. Closes the work.
 */
void decide_finish(struct decide *d);
/* Print what is in conflict. */
void decide_print_conflicts(const struct decide *d, const struct accept_result *r);

#endif /* CLI_WORK_DECIDE_CHANGES_H */
