/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-state.c - the state of a durable sandbox with any bytes in it: all of it taken, or none */
#include "backend/native/state.h"

#include <stdlib.h>
#include <string.h>

#include "backend/native/native.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct native_box *parse(const void *data, size_t size, int *ret)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct native_box *box = calloc(1, sizeof(*box));
	char *text = malloc(size + 1);

	if (!box || !text)
		abort();
	box->pidfd = box->control = box->image_lock = -1;
	if (size)
		(void)memcpy(text, data, size);
	*ret = state_parse(box, text, size, &err);
	if (*ret < 0 && err.code != -*ret)
		abort();
	return box;
}

/* What is read and written again is read as the same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf one = BUF_INIT(STATE_MAX), two = BUF_INIT(STATE_MAX);
	struct native_box *box, *again;
	int r;

	box = parse(data, size, &r);
	if (r == 0) {
		state_encode(box, &one);
		again = parse(one.data, one.len, &r);
		state_encode(again, &two);
		if (r < 0 || one.len != two.len || memcmp(one.data, two.data, one.len))
			abort();
		native_forget(again);
	}
	native_forget(box);
	return 0;
}
