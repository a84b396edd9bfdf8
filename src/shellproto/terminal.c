/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminal.c - commands that are typed on a terminal
 *
 * A terminal accepts lines of at most 4,095 bytes, and interprets some bytes itself: ^C,
 * ^D, ^U and others. So a text is typed as assignments, each on its own line, in which
 * bytes that are not printable are escaped:
 *
 *	{ @u+=$'first line\n';} 2>/dev/null
 *
 * Lines are appended to @u, and from time to time to @t, because the shell copies a whole
 * variable each time. `2>/dev/null` hides the output of `set -x`. With `set -v`, the
 * shell shows the typed lines before the marker, where output is ignored.
 *
 * A marker begins the output of a command, and another one ends it. If an interactive
 * bash finds an error, it drops the rest of the line, which contains the second marker,
 * and the prompt reports the result instead. The prompt needs values that are in
 * variables while the command runs, where the command can read them. So if the first
 * marker is repeated, it can only mean that an error stopped the command.
 */
#include <string.h>

#include "shellproto/shellproto_internal.h"

/* Maximum size of the escaped text in a line; the rest of the line is short. */
#define LINE_TEXT  3000
#define LINES_MANY 64 /* number of lines before they are moved to @t */

static bool terminal_is_plain(unsigned char c)
{
	return c >= ' ' && c != 0x7f && c != '\'' && c != '\\';
}

/* May the line end before this byte? A character must not be split, because half of one
 * in quotes is invalid. */
static bool may_end(unsigned char next)
{
	return (next & 0xc0) != 0x80;
}

/* Add as much text as fits into one line; returns the number of bytes. */
static size_t type_line(struct buf *out, const char *text, size_t n)
{
	size_t from = out->len, i = 0;

	while (i < n && !out->failed &&
	       (out->len - from < LINE_TEXT || !may_end((unsigned char)text[i]))) {
		size_t run = 0;

		while (i + run < n && run < LINE_TEXT &&
		       terminal_is_plain((unsigned char)text[i + run]))
			run++;
		if (run > 0) {
			size_t room = out->len - from < LINE_TEXT
					      ? LINE_TEXT - (out->len - from)
					      : 1;

			run = run < room ? run : room;
			buf_add(out, text + i, run);
			i += run;
		} else {
			unsigned char c = (unsigned char)text[i++];

			buf_add(out,
				(const char[]){ '\\', (char)('0' + (c >> 6)),
						(char)('0' + (c >> 3 & 7)),
						(char)('0' + (c & 7)) },
				4);
		}
	}
	return i;
}

void terminal_type(struct shellproto *s, struct buf *out, const char *text, size_t n)
{
	for (size_t lines = 1; n > 0 && !out->failed; lines++) {
		size_t used;

		script_add(out, s, "{ @u+=$'");
		used = type_line(out, text, n);
		buf_puts(out, "';} 2>/dev/null\n");
		if (lines % LINES_MANY == 0)
			script_add(out, s, "{ @t+=$@u @u=;} 2>/dev/null\n");
		text += used;
		n -= used;
	}
}

void terminal_begin(struct shellproto *s, struct buf *out)
{
	framed_expect(s);
	script_add(out, s, "{ @a='");
	buf_add(out, s->marker, HALF_LEN);
	script_add(out, s, "' @b=");
	buf_puts(out, s->early + HALF_LEN);
	script_add(out, s, " @n=");
	buf_printf(out, "%ju", (uintmax_t)s->serial);
	script_add(out, s, ";\"$@k\" printf %s%s \"$@a\" \"$@b\" >&7;} 2>/dev/null;");
}

void terminal_ask(struct shellproto *s, struct buf *out)
{
	script_add(out, s, ";{ @e=$? @b=");
	buf_puts(out, s->marker + HALF_LEN);
	script_add(out, s, ";\"$@k\" eval \"$@r\";} 2>/dev/null\n");
}
