/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-parse.c - numbers as people type them: the whole word is a number within bounds,
 * or an error
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

#define UNTOUCHED 0x5a5a5a5a5a5a5a5aULL

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * Check that a failure has a message and changes nothing, and that a success gives a
 * value from @min to @max.
 */
static void check(int r, uint64_t value, uint64_t min, uint64_t max,
		  struct warren_error *err)
{
	if (r < 0 && (err->code != -r || !err->msg[0] || value != UNTOUCHED))
		abort();
	if (r == 0 && (err->code != 0 || value < min || value > max))
		abort();
	*err = (struct warren_error)WARREN_ERROR_INIT;
}

static void check_u64(const char *s, struct warren_error *err)
{
	uint64_t v = UNTOUCHED;
	int r = parse_u64(s, UINT64_MAX, &v, err);
	char *end = NULL;

	check(r, v, 0, UINT64_MAX, err);
	errno = 0;
	if (r == 0 && (strtoull(s, &end, 10) != v || errno != 0 || *end != '\0'))
		abort(); /* the C library gives another result */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct warren_error err = WARREN_ERROR_INIT;
	uint64_t ms = UNTOUCHED, bytes = UNTOUCHED, millis = UNTOUCHED;
	uint32_t uid = 0, gid = 0;
	char *s = strndup((const char *)data, size);
	int r;

	if (!s)
		return 0;
	check_u64(s, &err);
	r = parse_duration(s, &ms, &err);
	check(r, ms, 1, INT64_MAX / 1000000, &err);
	r = parse_size(s, &bytes, &err);
	check(r, bytes, 1, INT64_MAX, &err);
	r = parse_cpus(s, &millis, &err);
	check(r, millis, 1, 1000000, &err);
	if (parse_ids(s, &uid, &gid, &err) >= 0 &&
	    (uid == UINT32_MAX || gid == UINT32_MAX))
		abort(); /* -1 means "unchanged" to system calls that take an id */
	free(s);
	return 0;
}
