/* SPDX-License-Identifier: Apache-2.0 */
/* format.c - write sizes and times for people */
#include "cli/format.h"

#include <stdio.h>

#include "base/macro.h"

const char *human_size(uint64_t bytes, char text[HUMAN_MAX])
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB" };
	double value = (double)bytes;
	size_t unit = 0;

	/* A value that would be shown as 1000 uses the next unit. */
	for (; value >= 999.5 && unit + 1 < ARRAY_SIZE(units); unit++)
		value /= 1000;
	(void)snprintf(text, HUMAN_MAX, "%.*f%s",
		       unit == 0 || value >= 99.95 ? 0
		       : value >= 9.995            ? 1
						   : 2,
		       value, units[unit]);
	return text;
}

time_t human_parse_time(const char *text)
{
	struct tm tm = { 0 };
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

	return end ? timegm(&tm) : 0;
}

const char *human_ago(time_t then, time_t now, char text[HUMAN_MAX])
{
	static const struct {
		time_t seconds, from; /* a unit, and the age from which it is used */
		const char *name;
	} units[] = {
		{ 31536000, 63072000, "year" },
		{ 2592000, 5184000, "month" },
		{ 604800, 1209600, "week" },
		{ 86400, 172800, "day" },
		{ 3600, 7200, "hour" },
		{ 60, 120, "minute" },
		{ 1, 0, "second" },
	};
	time_t age = now > then ? now - then : 0;
	size_t i = 0;

	if (then == 0)
		return "";
	while (age < units[i].from)
		i++;
	(void)snprintf(text, HUMAN_MAX, "%lld %s%s ago",
		       (long long)(age / units[i].seconds), units[i].name,
		       age / units[i].seconds == 1 ? "" : "s");
	return text;
}
