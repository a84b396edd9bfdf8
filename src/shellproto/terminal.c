/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminal.c - commands that are typed on a terminal
 *
 * A terminal takes what is typed line by line, of 4,095 bytes each, and keeps some bytes
 * for itself: ^C, ^D, ^U and their like. So a text comes as assignments, each its
 * own line, with whatever is not printable escaped:
 *
 *	{ @u+=$'first line\n';} 2>/dev/null
 *
 * Lines are added up in @u, and from time to time to @t: one variable alone would be
 * copied as a whole with each of them. `2>/dev/null` hides `set -x`, and who has `set -v`
 * sees what was typed before the marker, where nobody looks.
 *
 * A marker begins what is shown of a command, and another ends it. An interactive bash
 * that finds an error forgets the rest of the line with the second in it, and the report
 * is the prompt's: what that needs is in variables while the command runs, and the
 * command can read it. So the first marker, if it comes again, is believed to say that
 * the command was stopped by an error, and nothing else.
 */
#include <string.h>

#include "shellproto/shellproto_internal.h"

#define LINE_TEXT  3000 /* bytes of a line, escaped; the rest of it is short */
#define LINES_MANY 64   /* of them, before they are put away */

static bool terminal_is_plain(unsigned char c)
{
	return c >= ' ' && c != 0x7f && c != '\'' && c != '\\';
}

/* A character is not torn: half of one in quotes is none. */
static bool may_end(unsigned char next)
{
	return (next & 0xc0) != 0x80;
}

/* As much as one line takes; returns how much of the text that was. */
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
