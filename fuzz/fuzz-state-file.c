/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-state-file.c - the state of a durable sandbox with any bytes in it: all of it taken, or none */
#include "initclient/state_file.h"

#include <stdlib.h>
#include <string.h>

#include "initclient/initclient.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct talk_box *parse(const void *data, size_t size, int *ret)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct talk_box *box = calloc(1, sizeof(*box));
	char *text = malloc(size + 1);

	if (!box || !text)
		abort();
	box->pidfd = box->control = -1;
	if (size)
		(void)memcpy(text, data, size);
	*ret = state_parse(box, NULL, text, size, &err);
	if (*ret < 0 && err.code != -*ret)
		abort();
	return box;
}

static void drop(struct talk_box *box)
{
	talk_done(box);
	free(box);
}

/* What is read and written again is read as the same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf one = BUF_INIT(STATE_MAX), two = BUF_INIT(STATE_MAX);
	struct talk_box *box, *again;
	int r;

	box = parse(data, size, &r);
	if (r == 0) {
		state_encode(box, NULL, &one);
		again = parse(one.data, one.len, &r);
		state_encode(again, NULL, &two);
		if (r < 0 || one.len != two.len || memcmp(one.data, two.data, one.len))
			abort();
		drop(again);
	}
	drop(box);
	return 0;
}
