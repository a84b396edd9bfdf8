/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse.c - parse numbers with units strictly, with one scanner and one table for each
 * kind of unit
 */
#include "base/parse.h"

#include <errno.h>
#include <string.h>

struct unit {
	const char *suffix;
	uint64_t factor;
};

static const struct unit durations[] = {
	{ "", 1000 },
	{ "ms", 1 },
	{ "s", 1000 },
	{ "m", 60ULL * 1000 },
	{ "h", 3600ULL * 1000 },
};

static const struct unit sizes[] = {
	{ "", 1 },
	{ "b", 1 },
	{ "k", 1ULL << 10 },
	{ "kb", 1ULL << 10 },
	{ "kib", 1ULL << 10 },
	{ "m", 1ULL << 20 },
	{ "mb", 1ULL << 20 },
	{ "mib", 1ULL << 20 },
	{ "g", 1ULL << 30 },
	{ "gb", 1ULL << 30 },
	{ "gib", 1ULL << 30 },
	{ "t", 1ULL << 40 },
	{ "tb", 1ULL << 40 },
	{ "tib", 1ULL << 40 },
};

static const struct unit cpus[] = {
	{ "", 1000 },
};

/*
 * A decimal number: whole part and up to nine digits of fraction, scaled by @factor
 * without floating point. The scanner returns the position after the number, or NULL if
 * there is none.
 */
struct decimal {
	uint64_t whole;
	uint64_t fraction; /* of 10^9 */
	bool overflow;
};

static const char *scan_decimal(const char *s, struct decimal *d)
{
	const char *p = s;
	uint64_t place = 100000000;

	*d = (struct decimal){ 0 };
	for (; *p >= '0' && *p <= '9'; p++) {
		unsigned digit = (unsigned)(*p - '0');

		if (d->whole > (UINT64_MAX - digit) / 10)
			d->overflow = true;
		else
			d->whole = d->whole * 10 + digit;
	}
	if (p == s)
		return NULL;
	if (*p != '.')
		return p;
	if (p[1] < '0' || p[1] > '9')
		return NULL;
	for (p++; *p >= '0' && *p <= '9'; p++, place /= 10)
		d->fraction += place * (unsigned)(*p - '0');
	return p;
}

static int parse_scale(const struct decimal *d, uint64_t factor, uint64_t *ret)
{
	uint64_t n, part;

	if (d->overflow || __builtin_mul_overflow(d->whole, factor, &n))
		return -ERANGE;
	part = (uint64_t)((unsigned __int128)d->fraction * factor / 1000000000);
	if (__builtin_add_overflow(n, part, &n))
		return -ERANGE;
	*ret = n;
	return 0;
}

static int parse_units(const char *s, const struct unit *units, size_t n_units,
		       uint64_t *ret)
{
	struct decimal d;
	const char *end = scan_decimal(s, &d);

	if (!end)
		return -EINVAL;
	for (size_t i = 0; i < n_units; i++)
		if (strcasecmp(end, units[i].suffix) == 0)
			return parse_scale(&d, units[i].factor, ret);
	return -EINVAL;
}

int parse_u64(const char *s, uint64_t max, uint64_t *ret, struct warren_error *err)
{
	struct decimal d;
	const char *end = scan_decimal(s, &d);

	if (!end || *end != '\0' || strchr(s, '.'))
		return error_set(err, EINVAL, "'%s' is not a whole number", s);
	if (d.overflow || d.whole > max)
		return error_set(err, ERANGE, "'%s' is more than %ju", s, (uintmax_t)max);
	*ret = d.whole;
	return 0;
}

int parse_duration(const char *s, uint64_t *ret_ms, struct warren_error *err)
{
	uint64_t ms = 0;
	int r = parse_units(s, durations, ARRAY_SIZE(durations), &ms);

	if (r == -ERANGE || (r == 0 && ms > INT64_MAX / 1000000))
		return error_set(err, ERANGE, "duration '%s' is too long", s);
	if (r < 0)
		return error_set(
			err, EINVAL,
			"'%s' is not a duration: use seconds, or a number with ms, s, "
			"m or h",
			s);
	if (ms == 0)
		return error_set(err, EINVAL, "duration '%s' is less than 1ms", s);
	*ret_ms = ms;
	return 0;
}

int parse_size(const char *s, uint64_t *ret_bytes, struct warren_error *err)
{
	uint64_t bytes = 0;
	int r = parse_units(s, sizes, ARRAY_SIZE(sizes), &bytes);

	if (r == -ERANGE || (r == 0 && bytes > INT64_MAX))
		return error_set(err, ERANGE, "size '%s' is too large", s);
	if (r < 0)
		return error_set(err, EINVAL,
				 "'%s' is not a size: use a number with k, m, g or t", s);
	if (bytes == 0)
		return error_set(err, EINVAL, "size '%s' is less than a byte", s);
	*ret_bytes = bytes;
	return 0;
}

int parse_cpus(const char *s, uint64_t *ret_millis, struct warren_error *err)
{
	uint64_t millis = 0;
	int r = parse_units(s, cpus, ARRAY_SIZE(cpus), &millis);

	if (r == -EINVAL)
		return error_set(err, EINVAL, "'%s' is not a number of processors", s);
	if (r < 0 || millis == 0 || millis > 1000000)
		return error_set(err, ERANGE,
				 "'%s' is not between 0.001 and 1000 processors", s);
	*ret_millis = millis;
	return 0;
}

int parse_ids(const char *s, uint32_t *ret_uid, uint32_t *ret_gid,
	      struct warren_error *err)
{
	const char *colon = strchr(s, ':');
	char word[16];
	uint64_t uid = 0, gid = 0;
	size_t n = colon ? (size_t)(colon - s) : strlen(s);
	int r;

	if (n >= sizeof(word))
		return error_set(err, EINVAL, "'%s' is not uid or uid:gid", s);
	(void)memcpy(word, s, n);
	word[n] = '\0';
	r = parse_u64(word, UINT32_MAX - 1, &uid, err);
	if (r < 0)
		return r;
	if (colon) {
		r = parse_u64(colon + 1, UINT32_MAX - 1, &gid, err);
		if (r < 0)
			return r;
		*ret_gid = (uint32_t)gid;
	}
	*ret_uid = (uint32_t)uid;
	return colon ? 1 : 0;
}
