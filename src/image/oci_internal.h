/* SPDX-License-Identifier: Apache-2.0 */
/* oci_internal.h - what pulling, loading and importing share */
#ifndef IMAGE_OCI_INTERNAL_H
#define IMAGE_OCI_INTERNAL_H

#include "image/oci.h"

const char *oci_wanted_platform(const struct oci_options *o);
int oci_record(const struct store *s, struct store_image *image, const char *manifest,
	       const char *config, const struct ref *name, struct warren_error *err);
void oci_tidy(const struct store *s);

#endif /* IMAGE_OCI_INTERNAL_H */
