/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_pull.h - `warren run` pulls missing images
 *
 * Whether an image is here is asked by using it: a run of one that is pays
 * nothing. Only when that failed is warren-image started, which knows the
 * difference between an image that is missing and one that is not.
 */
#ifndef CLI_RUN_PULL_H
#define CLI_RUN_PULL_H

#include "cli/run_options.h"

/* Before anything was tried. */
bool run_pull_first(const struct run_options *o);
/* After making a sandbox failed with -@code. */
bool run_pull_after(const struct run_options *o, int code);

/*
 * Pull it, with progress on stderr. @signals: those that end us end the pull
 * too, and are returned. 0: it is there. -errno: @err says why; its message is
 * empty when the reason was said on stderr.
 */
int run_pull(const struct run_options *o, int signals,
	     struct warren_error *err) MUST_CHECK;

#endif /* CLI_RUN_PULL_H */
