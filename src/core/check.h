/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - check specs before any backend sees them */
#ifndef CORE_CHECK_H
#define CORE_CHECK_H

#include "base/error.h"

int check_spec(const struct warren_spec *spec, struct warren_error *err);
int check_exec_spec(const struct warren_exec_spec *spec, struct warren_error *err);
/* @path must be absolute, within the kernel's length limit, and without "." or "..". */
int check_path(const char *what, const char *path, struct warren_error *err);

#endif /* CORE_CHECK_H */
