/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-shellproto.c - whatever a shell sends, the reported output contains no more than
 * that */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "shellproto/shellproto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t shown, sent;
static bool ended;

static void on_output(void *arg, enum shellproto_stream stream, const void *bytes,
		      size_t n)
{
	(void)arg, (void)bytes;
	assert(stream == SHELLPROTO_STDOUT || stream == SHELLPROTO_STDERR);
	shown += n;
}

static void on_result(void *arg, const struct shellproto_result *r)
{
	(void)arg;
	assert(r->exit_code >= 0 && r->exit_code <= 255 &&
	       r->outcome < SHELLPROTO_OUTCOME_MAX);
	assert(!r->cwd == (r->outcome == SHELLPROTO_ENDED));
	ended = r->outcome == SHELLPROTO_ENDED;
}

/* Add the marker that the last line requested: it follows _a=' and _b=. */
static void add_marker(struct buf *in, const char *asked)
{
	const char *half = strstr(asked, "' _");

	for (const char *next = half; next; next = strstr(half + 1, "' _"))
		half = next;
	if (!half)
		return;
	while (half > asked && half[-1] != '\'')
		half--;
	buf_add(in, half, strcspn(half, "'"));
	half = strchr(strchr(half, '\'') + 1, '=');
	buf_add(in, half + 1, strcspn(half + 1, " "));
}

/* Add a valid record, with the key or serial that follows _n= in the last line. */
static void add_record(struct buf *in, const char *asked)
{
	const char *known = NULL;

	for (const char *at = asked; (at = strstr(at, "n=")); at++)
		known = at + 2;
	if (!known)
		return;
	buf_add(in, known, strcspn(known, ";"));
	buf_add(in, " 0 d0  9 hx /", sizeof(" 0 d0  9 hx /"));
}

/*
 * A byte chooses the stream and the length; then the bytes follow. Values that the fuzzer
 * cannot guess are inserted: 0xff stands for the marker, 0xfe for a valid record.
 */
static int feed(struct shellproto *s, const char *asked, const uint8_t *data, size_t n,
		enum shellproto_stream stream)
{
	AUTO_BUF struct buf in = BUF_INIT(1 << 16);
	struct warren_error err;

	for (size_t i = 0; i < n; i++) {
		if (data[i] == 0xff)
			add_marker(&in, asked);
		else if (data[i] == 0xfe)
			add_record(&in, asked);
		else
			buf_add(&in, &data[i], 1);
	}
	sent += in.len;
	return in.len ? shellproto_on_bytes(s, stream, in.data, in.len, &err) : 0;
}

static void run(enum shellproto_transport transport, const uint8_t *data, size_t size)
{
	static const struct shellproto_events events = { on_output, on_result };
	AUTO_BUF struct buf out = BUF_INIT(1 << 16);
	CLEANUP(shellproto_freep) struct shellproto *s = NULL;
	struct warren_error err;
	uint64_t serial;
	int r = 0;

	shown = sent = 0;
	ended = false;
	if (shellproto_new(transport, &events, NULL, &s, &err) < 0 ||
	    shellproto_start(s, &out, &err) < 0)
		return;
	while (size > 1 && r == 0) {
		size_t n = 1 + data[0] / 4 % 64;

		n = n < size - 1 ? n : size - 1;
		if (!shellproto_running(s) && shellproto_alive(s))
			(void)shellproto_feed(s, "true", 4, &out, &serial, &err);
		r = feed(s, out.data, data + 1, n,
			 (enum shellproto_stream)(1 + data[0] % 3));
		assert(r == 0 || (r == -EPROTO && !shellproto_alive(s)));
		data += 1 + n;
		size -= 1 + n;
	}
	shellproto_on_exit(s, 1);
	assert(ended && shown <= sent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 4096)
		return 0;
	run(SHELLPROTO_CONTROL, data, size);
	run(SHELLPROTO_FRAMED, data, size);
	run(SHELLPROTO_TERMINAL, data, size);
	return 0;
}
