/* SPDX-License-Identifier: Apache-2.0 */
/*
 * framed.c - results in the stream, after an unpredictable marker
 *
 * The shell writes the marker to stdout, followed by a record, and to stderr. The marker
 * begins with a byte that occurs in it only once. So if a match fails, no other match can
 * begin inside the matched bytes, and the search looks at each byte once, without a
 * table.
 *
 * The line that requests a marker contains it in two separate halves. So the input that a
 * shell shows (`set -v`), or the commands that it shows (`set -x`), never contain the
 * marker itself.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "shellproto/shellproto_internal.h"

/* ASCII's record separator: rare in output, harmless in quotes. */
#define MARKER_FIRST '\036'
#define EARLY_FIRST  'x'

void framed_expect(struct shellproto *s)
{
	uint8_t bits[SHELLPROTO_MARKER_SIZE];

	shellproto_bits(s, bits);
	s->marker[0] = MARKER_FIRST;
	(void)hex_encode(bits, sizeof(bits), s->marker + 1);
	/*
	 * The early marker has the same first half. Then follows a byte that is not a
	 * digit, which distinguishes the two.
	 */
	(void)snprintf(s->early, sizeof(s->early), "%.*s%c%.*s", HALF_LEN, s->marker,
		       EARLY_FIRST, HALF_LEN - 2, s->marker + 1);
	(void)memset(s->frames, 0, sizeof(s->frames));
}

void framed_ask(struct shellproto *s, struct buf *out)
{
	bool known = shellproto_is_known(s);

	framed_expect(s);
	shellproto_ask_begin(s, out);
	script_add(out, s, known ? "@R " : "@e=$? @t= @n=");
	buf_printf(out, "%" PRIu64, s->serial);
	script_add(out, s, known ? " '" : " @a='");
	buf_add(out, s->marker, HALF_LEN);
	script_add(out, s, known ? "' " : "' @b=");
	buf_puts(out, s->marker + HALF_LEN);
	if (!known)
		script_add(out, s, ";\"$@k\" eval \"$@r\"");
	shellproto_ask_end(s, out);
}

/* Return the marker that is being matched; its second half decides. */
static const char *framed_candidate(const struct shellproto *s, const struct frame *f)
{
	return f->early ? s->early : s->marker;
}

static bool is_next(const struct shellproto *s, struct frame *f, char c)
{
	if (f->matched <= HALF_LEN)
		f->early = s->transport == SHELLPROTO_TERMINAL &&
			   f->matched == HALF_LEN && c == EARLY_FIRST;
	return c == framed_candidate(s, f)[f->matched];
}

/*
 * Output everything up to the marker, if there is one. Return how many bytes of @data
 * were used.
 */
static size_t framed_search(struct shellproto *s, struct frame *f,
			    enum shellproto_stream stream, const char *data, size_t n)
{
	size_t i = 0;

	while (i < n) {
		const char *first;
		size_t start = i;

		while (f->matched < MARKER_LEN && i < n && is_next(s, f, data[i]))
			f->matched++, i++;
		if (f->matched == MARKER_LEN) {
			f->matched = 0;
			f->ended = true;
			return i;
		}
		if (i == n)
			return n;
		/* This is not a marker: the matched bytes are output. */
		if (f->matched > 0) {
			shellproto_output(s, stream, framed_candidate(s, f), f->matched);
			f->matched = 0;
			if (i > start)
				continue;
		}
		first = memchr(data + i, MARKER_FIRST, n - i);
		if (!first)
			first = data + n;
		if (first > data + i)
			shellproto_output(s, stream, data + i,
					  (size_t)(first - data) - i);
		i = (size_t)(first - data);
	}
	return n;
}

static int maybe_done(struct shellproto *s, struct warren_error *err)
{
	if (!s->have_record ||
	    (!s->frames[1].ended && s->transport != SHELLPROTO_TERMINAL))
		return 0;
	return shellproto_take_record(s, err);
}

int framed_on_bytes(struct shellproto *s, enum shellproto_stream stream, const char *data,
		    size_t n, struct warren_error *err)
{
	struct frame *f = &s->frames[stream == SHELLPROTO_STDERR];

	while (n > 0) {
		size_t used = n;
		int r = 0;

		if (f->in_record) {
			ssize_t got = shellproto_collect(s, data, n, err);

			if (got < 0)
				return (int)got;
			used = (size_t)got;
			f->in_record = !s->have_record;
			r = maybe_done(s, err);
		} else if (s->state == STATE_RUNNING && !f->ended) {
			used = framed_search(s, f, stream, data, n);
			/*
			 * At a terminal, the first marker begins the output, and the
			 * second one ends it.
			 */
			if (f->ended && f->early && !f->begun) {
				f->begun = true;
				f->ended = false;
			}
			f->in_record = f->ended && stream == SHELLPROTO_STDOUT;
			if (f->ended)
				r = maybe_done(s, err);
		} else {
			shellproto_output(s, stream, data, n);
		}
		if (r < 0)
			return r;
		data += used;
		n -= used;
	}
	return 0;
}

/* No more data follows: bytes that were held back are output. */
void framed_flush(struct shellproto *s)
{
	for (int i = 0; i < 2; i++) {
		if (s->frames[i].matched > 0)
			shellproto_output(s, i ? SHELLPROTO_STDERR : SHELLPROTO_STDOUT,
					  framed_candidate(s, &s->frames[i]),
					  s->frames[i].matched);
		s->frames[i].matched = 0;
	}
}
