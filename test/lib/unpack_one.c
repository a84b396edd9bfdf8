/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack_one.c - unpack one archive, for tests
 *
 *	unpack_one [-s] [-o] [-f] [-d DIFF_ID] [-m MAX_BYTES] DIRECTORY < ARCHIVE
 *
 * -o translates whiteouts, -s spools an outer archive, -f declares that the file does not
 * change. Prints the result as "key value" lines, or the error on stderr, with its code
 * as the exit status.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "image/unpack.h"

static int fail(const struct warren_error *err)
{
	(void)fprintf(stderr, "%s\n", err->msg);
	return err->code;
}

int main(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct unpack_result result = { 0 };
	struct unpack_options options = { .max_bytes = 16ULL << 30 };
	bool spool = false;
	AUTO_CLOSE int dir = -1;
	int c, r;

	while ((c = getopt(argc, argv, "sofd:m:")) != -1) {
		if (c == 's')
			spool = true;
		else if (c == 'o')
			options.overlay = true;
		else if (c == 'f')
			options.settled = true;
		else if (c == 'd')
			options.diff_id = optarg;
		else if (c != 'm' ||
			 parse_u64(optarg, UINT64_MAX, &options.max_bytes, &err) < 0)
			return 2;
	}
	dir = optind < argc ? open(argv[optind], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (dir < 0)
		return 2;
	if (spool)
		r = unpack_spool(0, dir, options.max_bytes, NULL, &err);
	else
		r = unpack_archive(0, dir, &options, &result, &err);
	if (r < 0)
		return fail(&err);
	(void)printf("diff_id %s\nbytes %ju\nentries %ju\nskipped %ju\nremapped %ju\n",
		     result.diff_id, (uintmax_t)result.bytes, (uintmax_t)result.entries,
		     (uintmax_t)result.skipped, (uintmax_t)result.remapped);
	return 0;
}
