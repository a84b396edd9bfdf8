/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_pull.h - pull missing images for `warren run`
 *
 * `warren run` first tries to use the image, so that running an existing image costs
 * nothing extra. Only if that fails, it starts warren-image, which can tell whether the
 * image is missing.
 */
#ifndef CLI_RUN_PULL_H
#define CLI_RUN_PULL_H

#include "cli/run_options.h"

/* Return whether to pull before the first attempt to create the sandbox. */
bool run_pull_first(const struct run_options *o);
/* Return whether to pull after the creation failed with -@code. */
bool run_pull_after(const struct run_options *o, int code);

/*
 * Pull the image, with progress on stderr. Return 0 if it exists afterwards, or the
 * signal from @signals that ended the pull. On -errno, the message of @err is empty if
 * the reason was already printed on stderr.
 */
int run_pull(const struct run_options *o, int signals,
	     struct warren_error *err) MUST_CHECK;

#endif /* CLI_RUN_PULL_H */
