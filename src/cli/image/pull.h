/* SPDX-License-Identifier: Apache-2.0 */
/* pull.h - pull an image as `warren image pull` does, for other commands */
#ifndef CLI_IMAGE_PULL_H
#define CLI_IMAGE_PULL_H

#include "cli/image/settings.h"
#include "image/store.h"

/* The options --public-only, --insecure and --trusted; NULL: not given. */
struct pull_rules {
	bool public_only;
	bool for_project; /* --for-project, which implies public_only */
	const struct host_list *insecure, *trusted;
};

/*
 * Pull @text with the settings of this machine and user; with @missing, only if the store
 * does not have it. @id gets the id of the image.
 */
int image_pull_ref(const struct store *s, const char *text,
		   const struct pull_rules *rules, bool missing, bool quiet,
		   char id[REF_DIGEST_LEN + 1], struct warren_error *err) MUST_CHECK;

#endif /* CLI_IMAGE_PULL_H */
