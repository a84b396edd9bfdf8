/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_argv.c - the command line of an exec in its row
 *
 * Rows remain after their execs have ended, in a database that all tenants share. So a
 * row contains only the beginning of a long command line, and the number of missing
 * bytes.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "service/exec/internal.h"

#define ARGV_SHOWN 8192U

_Static_assert(EXEC_ARGV_MAX >= 8UL * ARGV_SHOWN,
	       "the buffer for a command line is small");

/*
 * Write the first @n bytes of @word, without an incomplete character at the end. Return
 * false if nothing was written.
 */
static bool exec_put_word(struct json *j, const char *word, size_t n, size_t *ret)
{
	struct buf *out = j->out;
	struct json before = *j;
	size_t len = out->len, put = word[n] ? n - utf8_cut(word, n) : n;

	json_strn(j, NULL, word, put);
	if (out->len <= ARGV_SHOWN) {
		*ret = put;
		return true;
	}
	out->len = len;
	*j = before;
	return false;
}

void exec_write_argv(struct buf *out, const char *const *argv)
{
	struct json j = { .out = out };
	uintmax_t missing = 0;
	char mark[64];
	bool cut = false;

	json_open(&j, NULL, '[');
	for (; *argv; argv++) {
		size_t n = strlen(*argv), put = 0,
		       left = out->len < ARGV_SHOWN ? ARGV_SHOWN - out->len : 0;

		if (cut || (n <= left && exec_put_word(&j, *argv, n, &put))) {
			missing += n - put;
			continue;
		}
		cut = true;
		/* One byte can become six bytes of JSON. */
		if (!exec_put_word(&j, *argv, n < left / 2 ? n : left / 2, &put))
			(void)exec_put_word(&j, *argv, n < left / 8 ? n : left / 8, &put);
		missing += n - put;
	}
	if (cut) {
		(void)snprintf(mark, sizeof(mark), "[%ju more bytes were dropped]",
			       missing);
		json_str(&j, NULL, mark);
	}
	json_close(&j, ']');
}
