/* SPDX-License-Identifier: Apache-2.0 */
/* message.c - print messages on stderr, and results on stdout */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/utf8.h"
#include "cli/command.h"

/*
 * The message quotes what users typed, and names that a sandbox or a project chose: it
 * must stay on one line, must not control a terminal, and must not look like other text.
 */
size_t message_clean(char *line, size_t len)
{
	size_t to = 0, n;

	for (size_t i = 0; i < len; i += n) {
		if (!utf8_shows(line + i, len - i, &n)) {
			line[to++] = '?';
		} else {
			(void)memmove(line + to, line + i, n);
			to += n;
		}
	}
	return to;
}

void message_say(const char *command, const char *fmt, ...)
{
	char line[2048];
	/* Leaves space for the newline, which replaces the NUL. */
	size_t max = sizeof(line) - 1;
	size_t len;
	va_list ap;
	int n;

	n = snprintf(line, sizeof(line), "warren%s%s: ", command ? " " : "",
		     command ? command : "");
	len = n > 0 ? (size_t)n : 0;
	va_start(ap, fmt);
	n = vsnprintf(line + len, sizeof(line) - len, fmt, ap);
	va_end(ap);
	len += n > 0 ? (size_t)n : 0;
	if (len > max)
		len = max;
	len = message_clean(line, len);
	line[len++] = '\n';
	(void)fd_write_all(STDERR_FILENO, line, len);
}

int message_print(const char *command, const struct buf *b)
{
	int r = b->failed ? -ENOMEM : fd_write_all(STDOUT_FILENO, b->data, b->len);

	if (r == 0)
		return 0;
	message_say(command, "write to stdout: %s", strerrordesc_np(-r));
	return STATUS_FAILED;
}
