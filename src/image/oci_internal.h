/* SPDX-License-Identifier: Apache-2.0 */
/* oci_internal.h - functions that pull, load and import share */
#ifndef IMAGE_OCI_INTERNAL_H
#define IMAGE_OCI_INTERNAL_H

#include "image/oci.h"

/* Return -ECANCELED if the caller has cancelled. */
int oci_cancelled(const struct oci_options *o, struct warren_error *err);
/* Like oci_cancelled(), after a brief sleep. For code that has to poll. */
int oci_pause(const struct oci_options *o, struct warren_error *err);
/* Take a shared lock on the store. */
int oci_lock(const struct store *s, const struct oci_options *o,
	     struct warren_error *err);
/* Callback for unpack.h; @ctx is struct oci_options. */
bool oci_unpack_cancelled(void *ctx);
const char *oci_wanted_platform(const struct oci_options *o);
int oci_record(const struct store *s, struct store_image *image, const char *manifest,
	       const char *config, const struct ref *name, struct warren_error *err);

#endif /* IMAGE_OCI_INTERNAL_H */
