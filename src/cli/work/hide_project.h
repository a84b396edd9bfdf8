/* SPDX-License-Identifier: Apache-2.0 */
/* hide_project.h - hide the files that neither a command nor a setup may see */
#ifndef CLI_WORK_HIDE_PROJECT_H
#define CLI_WORK_HIDE_PROJECT_H

#include "work/hide.h"

/*
 * Fill the layer `hide` of @w, and set @w->hidden. The patterns are the default ones,
 * then those of the project (unless @no_setup), and then @given, which is NULL-terminated
 * or NULL.
 */
int hide_project(struct work *w, bool no_setup, char *const *given,
		 struct work_hidden *ret, struct warren_error *err) MUST_CHECK;

#endif /* CLI_WORK_HIDE_PROJECT_H */
