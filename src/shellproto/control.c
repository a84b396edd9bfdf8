/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c - results on a descriptor that the command does not have
 *
 * A command can still find that descriptor, because the shell only moves it to another
 * number. So a result counts only if it begins with the command's key. The key is in the
 * line of the command, which the shell reads and parses as a whole before the command
 * begins, and becomes an argument when the command has ended. So neither the text of the
 * command nor a process that it starts can know the key before that.
 */
#include "shellproto/shellproto_internal.h"

void control_expect(struct shellproto *s)
{
	/*
	 * The characters of a key, which needs no quotes. The key is short, because bash
	 * reads its input byte by byte.
	 */
	static const char digits[] =
		"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.";
	uint8_t bits[SHELLPROTO_MARKER_SIZE];

	shellproto_bits(s, bits);
	for (size_t i = 0; i < KEY_LEN; i++)
		s->key[i] = digits[bits[i] & 63];
}

void control_ask(struct shellproto *s, struct buf *out)
{
	control_expect(s);
	shellproto_ask_begin(s, out);
	if (shellproto_is_known(s)) {
		script_add(out, s, "@R ");
		buf_puts(out, s->key);
	} else {
		script_add(out, s, "@e=$? @t= @n=");
		buf_puts(out, s->key);
		script_add(out, s, ";\"$@k\" eval \"$@r\"");
	}
	shellproto_ask_end(s, out);
}

int control_on_bytes(struct shellproto *s, enum shellproto_stream stream,
		     const char *data, size_t n, struct warren_error *err)
{
	if (stream != SHELLPROTO_RESULTS) {
		shellproto_output(s, stream, data, n);
		return 0;
	}
	while (n > 0) {
		ssize_t used = shellproto_collect(s, data, n, err);
		int r = used < 0 ? (int)used : 0;

		if (r == 0 && s->have_record)
			r = shellproto_take_record(s, err);
		if (r < 0)
			return r;
		data += used;
		n -= (size_t)used;
	}
	return 0;
}
