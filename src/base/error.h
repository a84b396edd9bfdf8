/* SPDX-License-Identifier: Apache-2.0 */
/* error.h - create and extend errors */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/macro.h"
#include "warren.h"

/*
 * All of these return a negative value, and compilers and analysers are told so: a test
 * of the result has only one outcome.
 */
static inline int error_negative(int r)
{
	if (r >= 0)
		__builtin_unreachable();
	return r;
}

/* Fill @err and return -@code, so that a failing function is one return statement. */
#define error_set(...) error_negative(error_set_(__VA_ARGS__))
int error_set_(struct warren_error *err, int code, const char *fmt, ...)
	PRINTF_LIKE(3, 4);

/* As error_set(), with ": " and the text of @code appended. */
#define error_errno(...) error_negative(error_errno_(__VA_ARGS__))
int error_errno_(struct warren_error *err, int code, const char *fmt, ...)
	PRINTF_LIKE(3, 4);

/* Put "<context>: " in front of a failure of a callee; returns -err->code. */
#define error_wrap(...) error_negative(error_wrap_(__VA_ARGS__))
int error_wrap_(struct warren_error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif /* BASE_ERROR_H */
