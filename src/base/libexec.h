/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libexec.h - the helper programs of this program
 *
 * What needs libraries is in programs of its own, which people do not call by name.
 */
#ifndef BASE_LIBEXEC_H
#define BASE_LIBEXEC_H

#include <limits.h>

#include "base/error.h"

/*
 * Where @name is: in $WARREN_LIBEXEC if that is set, else beside this program,
 * else where it was installed.
 */
int libexec_find(const char *name, char ret_path[PATH_MAX],
		 struct warren_error *err) MUST_CHECK;

#endif /* BASE_LIBEXEC_H */
