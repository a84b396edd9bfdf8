/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setup_ask.h - ask the user once about commands that a project brings along
 *
 * setup.sh, the target `setup` of a makefile, and postStartCommand run only if the user
 * approves them. The answer belongs to these contents: it is remembered until they
 * change, and --yes replaces it. A command that is not run is always named.
 */
#ifndef CLI_WORK_SETUP_ASK_H
#define CLI_WORK_SETUP_ASK_H

#include "cli/work/setup_run.h"

/* Returns 1: run it; 0: the user has not approved it; -errno. */
int setup_ask_script(const struct setup_ready_options *o, const struct setup_store *store,
		     const struct setup_plan *p, struct warren_error *err) MUST_CHECK;
int setup_ask_starts(const struct setup_ready_options *o, const struct setup_store *store,
		     const struct setup_plan *p, struct warren_error *err) MUST_CHECK;

/* The answers so far, without a question. */
struct setup_answers {
	int script, starts; /* 1: yes; 0: no; -ENOENT: not asked yet, or nothing to ask */
};
void setup_ask_known(const struct setup_plan *p, struct setup_answers *ret);

/* How a refused setup.sh or postStartCommand is approved. */
#define SETUP_APPROVE_SCRIPT "'warren setup --yes' approves it"
#define SETUP_APPROVE_STARTS "'warren work --yes' approves it"

#endif /* CLI_WORK_SETUP_ASK_H */
