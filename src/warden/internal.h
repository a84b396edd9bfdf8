/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what the files of the warden share */
#ifndef WARDEN_INTERNAL_H
#define WARDEN_INTERNAL_H

#include "warden/warden.h"
#include "warden/wire.h"

/* image.c: start it; *@ret_fd is the end of a pipe with what it prints. */
int warden_image(const struct warden_policy *policy, const struct wire_image *m,
		 int *ret_fd, struct warren_error *err);

#endif /* WARDEN_INTERNAL_H */
