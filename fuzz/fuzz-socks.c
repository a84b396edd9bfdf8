/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-socks.c - any bytes give the same events in one piece and byte by byte; a request
 * has a host */
#include <stdlib.h>
#include <string.h>

#include "network/socks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_result {
	struct socks s;
	enum socks_event event;
	size_t used, replies;
};

static void fuzz_talk(struct fuzz_result *f, const uint8_t *data, size_t size,
		      size_t step)
{
	*f = (struct fuzz_result){ 0 };
	while (f->event < SOCKS_REQUEST && (f->used < size || f->event == SOCKS_REPLY)) {
		size_t part = size - f->used < step ? size - f->used : step, used = 0;

		f->event = socks_feed(&f->s, data + f->used, part, &used);
		if (used > part || f->s.reply_len > SOCKS_REPLY_MAX)
			abort();
		f->used += used;
		f->replies += f->s.reply_len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_result whole, bytes;

	fuzz_talk(&whole, data, size, size);
	fuzz_talk(&bytes, data, size, 1);
	if (whole.event != bytes.event || whole.used != bytes.used ||
	    whole.replies != bytes.replies || strcmp(whole.s.user, bytes.s.user) != 0)
		abort();
	if (whole.event == SOCKS_REFUSED)
		return whole.s.why ? 0 : (abort(), 0);
	if (whole.event != SOCKS_REQUEST)
		return 0;
	if (whole.s.port == 0 || host_compare(&whole.s.host, &bytes.s.host) != 0 ||
	    (whole.s.host.kind != HOST_NAME && whole.s.host.net.bits != 128))
		abort();
	return 0;
}
