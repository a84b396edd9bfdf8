/* SPDX-License-Identifier: Apache-2.0 */
/* hibernate.c - end a sandbox whose files stay on disk; find such files */
#include <errno.h>

#include "core/find.h"
#include "warden/internal.h"

/*
 * An error is not the same as no files: if it were, one descriptor too few would look
 * like a sandbox that has lost everything.
 */
int warden_if_saved(struct warren *engine, const char *id, int r,
		    struct warren_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	int saved;

	if (r != -ENOENT && r != -ESRCH)
		return r;
	saved = warren_has_saved(engine, id, &why);
	if (saved < 0)
		*err = why;
	return saved == 0 ? r : saved;
}

int warden_hibernate(struct warren *engine, const char *id, struct warren_error *err)
{
	struct warren_sandbox *sb = NULL;
	struct warren_saved saved;
	int r = warden_if_saved(engine, id, warren_find(engine, id, &sb, err), err);

	if (r > 0)
		*err = (struct warren_error)WARREN_ERROR_INIT;
	if (r != 0)
		return r < 0 ? r : 0;
	r = warren_hibernate(sb, &saved, err);
	if (r < 0)
		sb = warren_release(sb);
	return r;
}
