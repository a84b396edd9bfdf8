/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-zip.c - any bytes as a zip archive: the result is a tar archive, or the input is
 * refused */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "archive/tar.h"
#include "archive/zip.h"

#define MADE_MAX (8U << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The output must be a tar archive, up to the point where the zip archive is invalid. */
static void read_tar(struct tar_reader *t, const char *data, size_t n, bool *refused)
{
	struct warren_error err = WARREN_ERROR_INIT;

	while (n > 0 && !*refused) {
		size_t used = 0;
		int ev = tar_take(t, data, n, &used, &err);

		assert(used <= n);
		*refused = ev < 0; /* for example, because a name leads outside */
		if (ev == TAR_OVER)
			return;
		data += used;
		n -= used;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char out[4096];
	struct warren_error err = WARREN_ERROR_INIT;
	struct zip *z = zip_new();
	size_t at = 0, total = 0, step = size > 0 ? 1 + data[size - 1] : 1;
	struct tar_reader t;
	bool refused = false;

	assert(z);
	tar_init(&t);
	while (total < MADE_MAX) {
		size_t n = size - at < step ? size - at : step, used = 0, made = 0;
		int r = zip_take(z, (const char *)data + at, n, &used, out, sizeof(out),
				 &made, &err);

		assert(used <= n && made <= sizeof(out));
		if (r < 0) {
			assert(err.msg[0]);
			break;
		}
		read_tar(&t, out, made, &refused);
		at += used;
		total += made;
		if (used == 0 && made == 0)
			break;
	}
	if (err.code == 0 && zip_is_whole(z) && !refused)
		assert(tar_is_whole(&t));
	tar_done(&t);
	(void)zip_free(z);
	return 0;
}
