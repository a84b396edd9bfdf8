/* SPDX-License-Identifier: Apache-2.0 */
/* oci_internal.h - what pulling, loading and importing share */
#ifndef IMAGE_OCI_INTERNAL_H
#define IMAGE_OCI_INTERNAL_H

#include "image/oci.h"

/* Has the caller had enough? -ECANCELED then. */
int oci_cancelled(const struct oci_options *o, struct warren_error *err);
/* The same after a moment, for who waits for something that gives no sign. */
int oci_pause(const struct oci_options *o, struct warren_error *err);
/* The store's lock, shared. */
int oci_lock(const struct store *s, const struct oci_options *o,
	     struct warren_error *err);
/* For unpack.h; @ctx are the options. */
bool oci_unpack_cancelled(void *ctx);
const char *oci_wanted_platform(const struct oci_options *o);
int oci_record(const struct store *s, struct store_image *image, const char *manifest,
	       const char *config, const struct ref *name, struct warren_error *err);
void oci_tidy(const struct store *s);

#endif /* IMAGE_OCI_INTERNAL_H */
