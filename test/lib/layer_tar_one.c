/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_tar_one.c - write one directory as the archive of a layer, for tests
 *
 *	layer_tar_one [-m MAX_BYTES] [-s SINK_BYTES] DIRECTORY > ARCHIVE
 *
 * -s makes the sink fail with ENOSPC after this number of bytes. Prints the result as
 * "key value" lines on stderr, or the error, with its code as the exit status.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/parse.h"
#include "image/layer_tar.h"

struct sink {
	uint64_t left;
	struct warren_error err;
};

static int take(void *ctx, const void *data, size_t n)
{
	struct sink *s = ctx;
	int r;

	if (n > s->left)
		return error_set(&s->err, ENOSPC, "the sink is full");
	s->left -= n;
	r = fd_write_all(1, data, n);
	return r < 0 ? error_errno(&s->err, -r, "write") : 0;
}

int main(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct sink sink = { UINT64_MAX, WARREN_ERROR_INIT };
	struct layer_tar_options options = { .sink = take, .ctx = &sink };
	struct layer_tar_result result = { 0 };
	AUTO_CLOSE int dir = -1;
	int c, r;

	while ((c = getopt(argc, argv, "m:s:")) != -1)
		if ((c != 'm' && c != 's') ||
		    parse_u64(optarg, UINT64_MAX,
			      c == 'm' ? &options.max_bytes : &sink.left, &err) < 0)
			return 2;
	dir = optind < argc ? open(argv[optind], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (dir < 0)
		return 2;
	r = layer_tar_write(dir, &options, &result, &err);
	if (r < 0) {
		(void)fprintf(stderr, "%s\n", sink.err.code ? sink.err.msg : err.msg);
		return -r;
	}
	(void)fprintf(stderr, "bytes %ju\nentries %ju\nskipped %ju\n",
		      (uintmax_t)result.bytes, (uintmax_t)result.entries,
		      (uintmax_t)result.skipped);
	return 0;
}
