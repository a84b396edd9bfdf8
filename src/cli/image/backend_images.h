/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend_images.h - images of backends that have their own, such as docker: the shim
 * program pulls them
 */
#ifndef CLI_IMAGE_BACKEND_IMAGES_H
#define CLI_IMAGE_BACKEND_IMAGES_H

#include "cli/image/progress.h"

/* @kind as of --backend. The image's id goes to @id. */
int theirs_pull(const char *kind, const char *image, bool missing,
		struct progress *progress, char id[REF_DIGEST_LEN + 1],
		struct warren_error *err);

#endif /* CLI_IMAGE_BACKEND_IMAGES_H */
