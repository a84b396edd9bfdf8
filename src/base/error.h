/* SPDX-License-Identifier: Apache-2.0 */
/* error.h - raising and wrapping errors */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/macro.h"
#include "warren.h"

/* Fill @err and return -@code, so that a failing function is one return statement. */
int error_set(struct warren_error *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* As error_set(), with ": " and the text of @code appended. */
int error_errno(struct warren_error *err, int code, const char *fmt, ...)
	PRINTF_LIKE(3, 4);

/* Put "<context>: " in front of a failure of a callee; returns -err->code. */
int error_wrap(struct warren_error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif /* BASE_ERROR_H */
