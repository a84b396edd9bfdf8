/* SPDX-License-Identifier: Apache-2.0 */
/* error.c - an error is a code and a message that callers extend */
#include "base/error.h"

#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A child reports its failure to its parent in one atomic write. */
_Static_assert(sizeof(struct warren_error) <= PIPE_BUF,
	       "an error must fit in a pipe write");

int error_set_(struct warren_error *err, int code, const char *fmt, ...)
{
	va_list ap;

	assert(code > 0);
	err->code = code;
	va_start(ap, fmt);
	(void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return -code;
}

int error_errno_(struct warren_error *err, int code, const char *fmt, ...)
{
	char what[sizeof(err->msg)];
	const char *text = strerrordesc_np(code);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return error_set(err, code, "%s: %s", what, text ? text : "unknown error");
}

int error_wrap_(struct warren_error *err, const char *fmt, ...)
{
	struct warren_error inner = *err;
	char context[sizeof(err->msg)];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(context, sizeof(context), fmt, ap);
	va_end(ap);
	return error_set(err, inner.code, "%s: %s", context, inner.msg);
}

void error_hide_dir(char *text, const char *dir)
{
	size_t n = strlen(dir);

	while (n > 0 && dir[n - 1] == '/')
		n--;
	if (n == 0)
		return;
	for (char *at = text; (at = memmem(at, strlen(at), dir, n)) != NULL;) {
		const char *end = at + n + strspn(at + n, "/");

		/* The name of another directory begins or ends like it. */
		if ((at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '/')) ||
		    (end == at + n && (isalnum((unsigned char)*end) || *end == '-')))
			at += n;
		else
			(void)memmove(at, end, strlen(end) + 1);
	}
}
