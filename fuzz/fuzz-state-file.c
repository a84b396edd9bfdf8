/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-state-file.c - any bytes as the state file of a durable sandbox: all of it is
 * accepted, or nothing
 */
#include "initclient/state_file.h"

#include <stdlib.h>
#include <string.h>

#include "initclient/initclient.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct initclient_sandbox *parse(const void *data, size_t size, int *ret)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct initclient_sandbox *sandbox = calloc(1, sizeof(*sandbox));
	char *text = malloc(size + 1);

	if (!sandbox || !text)
		abort();
	sandbox->pidfd = sandbox->control = -1;
	if (size)
		(void)memcpy(text, data, size);
	*ret = state_parse(sandbox, NULL, text, size, &err);
	if (*ret < 0 && err.code != -*ret)
		abort();
	return sandbox;
}

static void drop(struct initclient_sandbox *sandbox)
{
	initclient_done(sandbox);
	free(sandbox);
}

/* A state that is read and written again is read as the same state. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf one = BUF_INIT(STATE_MAX), two = BUF_INIT(STATE_MAX);
	struct initclient_sandbox *sandbox, *again;
	int r;

	sandbox = parse(data, size, &r);
	if (r == 0) {
		state_encode(sandbox, NULL, &one);
		again = parse(one.data, one.len, &r);
		state_encode(again, NULL, &two);
		if (r < 0 || one.len != two.len || memcmp(one.data, two.data, one.len))
			abort();
		drop(again);
	}
	drop(sandbox);
	return 0;
}
