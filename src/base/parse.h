/* SPDX-License-Identifier: Apache-2.0 */
/* parse.h - parse numbers as users type them; the whole word must match */
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

#include <stdint.h>

#include "base/error.h"

/* Parse decimal digits; the value is at most @max. */
int parse_u64(const char *s, uint64_t max, uint64_t *ret,
	      struct warren_error *err) MUST_CHECK;

/*
 * Parse "500ms", "30s", "2m", "1h" or a fraction ("1.5s") into milliseconds, at least 1.
 */
int parse_duration(const char *s, uint64_t *ret_ms, struct warren_error *err) MUST_CHECK;

/*
 * Parse "64k", "512m", "1.5g" or "1t" (powers of 1,024), with an optional "b" or "ib", or
 * a plain number of bytes.
 */
int parse_size(const char *s, uint64_t *ret_bytes, struct warren_error *err) MUST_CHECK;

/* Parse a number of processors, "2" or "0.5", into thousandths; at least 0.001. */
int parse_cpus(const char *s, uint64_t *ret_millis, struct warren_error *err) MUST_CHECK;

/* Parse "1000" (returns 0; no gid) or "1000:1000" (returns 1) into ids below 2^32 - 1. */
int parse_ids(const char *s, uint32_t *ret_uid, uint32_t *ret_gid,
	      struct warren_error *err) MUST_CHECK;

#endif /* BASE_PARSE_H */
