/* SPDX-License-Identifier: Apache-2.0 */
/* work_decide.c - decide on the changes when the command has ended */
#include "cli/work/work_decide.h"

#include <stdio.h>

#include "cli/command.h"
#include "cli/work/keys.h"
#include "cli/work/review.h"

void work_decide_kept(const struct work *w, const char *what, char *ret, size_t size)
{
	const char *id = w->name ? w->name : w->id;

	(void)snprintf(ret, size,
		       "warren work: %s: warren diff %s, warren accept %s, warren "
		       "reject %s, warren work --resume %s\n",
		       what, id, id, id, id);
}

void work_decide_say_kept(const struct work *w)
{
	char text[1024];

	work_decide_kept(w, "the changes are kept", text, sizeof(text));
	(void)fputs(text, stderr);
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

	/* Also for later commands that show its changes. */
	keys_reset_terminal();
	if (r < 0)
		return error_wrap(err, "the changes are kept in work '%s'", w->id);
	if (how->action == WORK_KEEP) {
		if (!how->quiet)
			work_decide_say_kept(w);
		return 0;
	}
	if (how->action == WORK_DISCARD)
		return work_remove(TAKE_PTR(open), err);
	r = review_at_exit(w,
			   &(struct review_options){ .command = "work",
						     .action = actions[how->action],
						     .quiet = how->quiet },
			   err);
	if (keys_signal())
		*how->signal = keys_signal();
	if (r < 0)
		return error_wrap(err, "the changes are kept in work '%s'", w->id);
	return r == REVIEW_DONE ? work_remove(TAKE_PTR(open), err) : 0;
}
