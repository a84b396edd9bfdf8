/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-tar.c - any bytes as an uploaded archive: names stay below the directory and sizes
 * are correct, or there is an error
 */
#include <stdlib.h>
#include <string.h>

#include "archive/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const char *name)
{
	size_t n = strlen(name);

	if (name[0] == '/' || strcmp(name, "..") == 0 || strncmp(name, "../", 3) == 0 ||
	    strstr(name, "/../") || (n >= 3 && strcmp(name + n - 3, "/..") == 0))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct warren_error err = WARREN_ERROR_INIT;
	static struct tar_reader r;
	uint64_t left = 0;
	size_t at = 0;

	tar_init(&r);
	/* Feed the data in pieces, whose size the first byte determines. */
	for (size_t piece = size > 0 ? data[0] * 7U + 1 : 1; at < size;) {
		size_t n = size - at < piece ? size - at : piece, used = 0;
		int ev = tar_take(&r, (const char *)data + at, n, &used, &err);

		if (used > n || (ev < 0 && err.code != -ev) ||
		    (ev == TAR_DATA && used > left))
			abort();
		at += used;
		if (ev < 0 || ev == TAR_OVER)
			break;
		if (ev == TAR_ENTRY) {
			check_name(r.entry.name);
			if (r.entry.type == TAR_LINK)
				check_name(r.entry.link);
			left = r.entry.size;
		}
		left -= ev == TAR_DATA ? used : 0;
	}
	(void)tar_is_whole(&r);
	tar_done(&r);
	return 0;
}
