/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec.h - the helper programs of this program
 *
 * Features that need shared libraries are in separate programs, which users do not call
 * by name.
 */
#ifndef BASE_LIBEXEC_H
#define BASE_LIBEXEC_H

#include <limits.h>

#include "base/error.h"

/*
 * Find the helper program @name: in $WARREN_LIBEXEC if that is set, otherwise next to
 * this program, otherwise in the directory of the installation.
 */
int libexec_find(const char *name, char ret_path[PATH_MAX],
		 struct warren_error *err) MUST_CHECK;

#endif /* BASE_LIBEXEC_H */
