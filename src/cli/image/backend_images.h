/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend_images.h - pull images of backends that have their own images, such as docker,
 * through the shim
 */
#ifndef CLI_IMAGE_BACKEND_IMAGES_H
#define CLI_IMAGE_BACKEND_IMAGES_H

#include "cli/image/progress.h"

/* Pull an image. @kind is the value of --backend; @id gets the image's id. */
int theirs_pull(const char *kind, const char *image, bool missing,
		struct progress *progress, char id[REF_DIGEST_LEN + 1],
		struct warren_error *err);

#endif /* CLI_IMAGE_BACKEND_IMAGES_H */
