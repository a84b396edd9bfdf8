/* SPDX-License-Identifier: Apache-2.0 */
/* work_decide.c - what becomes of the changes when the command has ended */
#include "cli/work/work_decide.h"

#include "cli/command.h"
#include "cli/work/review.h"

static int work_keep(struct work *w, bool quiet)
{
	const char *id = w->name ? w->name : w->id;

	if (!quiet)
		message_say("work",
			    "the changes are kept: warren diff %s, warren accept %s, "
			    "warren reject %s, warren work --resume %s",
			    id, id, id, id);
	return 0;
}

int work_decide(struct work *w, int status, const struct work_decision *how,
		struct warren_error *err)
{
	static const enum review_action actions[] = {
		[WORK_ASK] = REVIEW_ASK,
		[WORK_ACCEPT] = REVIEW_ACCEPT,
	};
	AUTO_WORK struct work *open = w;
	int r = work_end(w, status, err);

	if (r < 0)
		return error_wrap(err, "the changes are kept in work '%s'", w->id);
	if (how->action == WORK_KEEP)
		return work_keep(w, how->quiet);
	if (how->action == WORK_DISCARD)
		return work_remove(TAKE_PTR(open), err);
	r = review_at_exit(w,
			   &(struct review_options){ .command = "work",
						     .action = actions[how->action],
						     .quiet = how->quiet },
			   err);
	if (r < 0)
		return error_wrap(err, "the changes are kept in work '%s'", w->id);
	return r == REVIEW_DONE ? work_remove(TAKE_PTR(open), err) : 0;
}
