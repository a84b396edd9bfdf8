/* SPDX-License-Identifier: Apache-2.0 */
/* error.h - create and extend errors */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/macro.h"
#include "warren.h"

/* Tell compilers and analysers that the functions below return a negative value. */
static inline int error_negative(int r)
{
	if (r >= 0)
		__builtin_unreachable();
	return r;
}

/* Fill @err and return -@code, so that a caller can fail with one return statement. */
#define error_set(...) error_negative(error_set_(__VA_ARGS__))
int error_set_(struct warren_error *err, int code, const char *fmt, ...)
	PRINTF_LIKE(3, 4);

/* Like error_set(), with ": " and the text of @code appended. */
#define error_errno(...) error_negative(error_errno_(__VA_ARGS__))
int error_errno_(struct warren_error *err, int code, const char *fmt, ...)
	PRINTF_LIKE(3, 4);

/* Put "<context>: " in front of the message in @err; return -err->code. */
#define error_wrap(...) error_negative(error_wrap_(__VA_ARGS__))
int error_wrap_(struct warren_error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/*
 * Remove the directory of the service @dir from all paths in @text, so that a client does
 * not learn where the service has its files: "/var/lib/warren/x" becomes "x".
 */
void error_hide_dir(char *text, const char *dir);

#endif /* BASE_ERROR_H */
