/* SPDX-License-Identifier: Apache-2.0 */
/* layer_tar_internal.h - the attributes of a layer's entries */
#ifndef IMAGE_LAYER_TAR_INTERNAL_H
#define IMAGE_LAYER_TAR_INTERNAL_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/* Most programs refuse larger extended headers. */
#define LAYER_PAX_MAX (1U << 20)

/*
 * Append the extended attributes of @fd as records to @pax, sorted; *@ret_opaque
 * (optional): overlay hides the lower layers here. Adds to *@skipped what an image cannot
 * have.
 */
int layer_xattrs(int fd, const char *path, struct buf *pax, bool *ret_opaque,
		 uint64_t *skipped, struct warren_error *err);

#endif /* IMAGE_LAYER_TAR_INTERNAL_H */
