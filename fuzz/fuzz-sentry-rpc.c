/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-sentry-rpc.c - any answer of a sentry is a result, or an error with a reason */
#include <assert.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "shim/gvisor/sentry_rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct warren_error err = WARREN_ERROR_INIT;
	json_t *result = NULL;
	int pair[2], r;

	/* A socket accepts at most about this much without a reader. */
	if (size > 60000)
		return 0;
	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	assert(fd_write_all(pair[1], data, size) == 0);
	(void)close(pair[1]);
	r = control_receive(pair[0], false, &result, &err);
	assert(r <= 0);
	assert(r == 0 || (err.code == -r && err.msg[0] && !result));
	json_decref(result);
	(void)close(pair[0]);
	return 0;
}
