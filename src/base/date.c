/* SPDX-License-Identifier: Apache-2.0 */
/*
 * date.c - the calendar: years are counted from March, so that the leap day is the last
 * day of a year
 */
#include "base/date.h"

#include <errno.h>
#include <string.h>

#define DAY   86400
#define FIRST (-62167219200) /* the first second of the year 0 */
#define LAST  253402300799   /* the last second of the year 9999 */

struct date {
	unsigned year, month, day; /* month and day start at 1 */
	unsigned weekday;          /* 0: Thursday */
	unsigned hour, minute, second;
};

/*
 * @s is not before the year 0. To keep numbers positive, 400 years are added first and
 * subtracted at the end.
 */
static struct date date_split(int64_t s)
{
	uint64_t since = (uint64_t)(s - FIRST), day = since / DAY;
	uint64_t from_march =
		day + 146097 - 60; /* the year 0 begins 60 days before March */
	uint64_t of_era = from_march % 146097, era = from_march / 146097;
	uint64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	uint64_t of_year = of_era - (365 * year + year / 4 - year / 100);
	uint64_t month = (5 * of_year + 2) / 153; /* 0: March */

	return (struct date){
		.year = (unsigned)(year + era * 400 + (month >= 10) - 400),
		.month = (unsigned)(month < 10 ? month + 3 : month - 9),
		.day = (unsigned)(of_year - (153 * month + 2) / 5 + 1),
		.weekday = (unsigned)((day + 2) % 7), /* day 0 was a Saturday */
		.hour = (unsigned)(since / 3600 % 24),
		.minute = (unsigned)(since / 60 % 60),
		.second = (unsigned)(since % 60),
	};
}

static int64_t date_within(int64_t s)
{
	return s < FIRST ? FIRST : s > LAST ? LAST : s;
}

/* Write @n digits of @value and the next character. */
static char *date_put(char *p, unsigned value, int n, char then)
{
	for (int i = n; i > 0; value /= 10)
		p[--i] = (char)('0' + value % 10);
	p[n] = then;
	return p + n + 1;
}

void date_iso(char out[DATE_SIZE], int64_t ms)
{
	int64_t seconds = ms / 1000 - (ms % 1000 < 0);
	struct date d = date_split(date_within(seconds));
	char *p = date_put(out, d.year, 4, '-');

	p = date_put(p, d.month, 2, '-');
	p = date_put(p, d.day, 2, 'T');
	p = date_put(p, d.hour, 2, ':');
	p = date_put(p, d.minute, 2, ':');
	p = date_put(p, d.second, 2, '.');
	p = date_put(p, (unsigned)(ms - seconds * 1000), 3, 'Z');
	*p = '\0';
}

void date_http(char out[DATE_SIZE], int64_t seconds)
{
	static const char days[][4] = { "Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed" };
	static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
					  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	struct date d = date_split(date_within(seconds));
	char *p = stpcpy(stpcpy(out, days[d.weekday]), ", ");

	p = date_put(p, d.day, 2, ' ');
	p = stpcpy(stpcpy(p, months[d.month - 1]), " ");
	p = date_put(p, d.year, 4, ' ');
	p = date_put(p, d.hour, 2, ':');
	p = date_put(p, d.minute, 2, ':');
	p = date_put(p, d.second, 2, ' ');
	(void)strcpy(p, "GMT");
}

/* Read exactly @n digits, and advance *@text; -1: there are fewer. */
static int date_digits(const char **text, int n)
{
	int value = 0;

	for (; n > 0; n--, (*text)++) {
		if (**text < '0' || **text > '9')
			return -1;
		value = value * 10 + (**text - '0');
	}
	return value;
}

/* Days from 1970 to a date. */
static int64_t date_days(int64_t year, int64_t month, int64_t day)
{
	int64_t y = month <= 2 ? year - 1 : year, era = y / 400;
	int64_t of_era = y - era * 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* Read "Z" or "+01:00" as minutes. */
static int date_zone(const char **text, int *ret)
{
	int sign = **text == '-' ? -1 : 1, hours, minutes;

	*ret = 0;
	if (**text == 'Z' || **text == 'z') {
		(*text)++;
		return 0;
	}
	if (**text != '+' && **text != '-')
		return -EINVAL;
	(*text)++;
	hours = date_digits(text, 2);
	if (hours < 0 || hours > 23 || *(*text)++ != ':')
		return -EINVAL;
	minutes = date_digits(text, 2);
	if (minutes < 0 || minutes > 59)
		return -EINVAL;
	*ret = sign * (hours * 60 + minutes);
	return 0;
}

int date_parse_ms(const char *text, int64_t *ret)
{
	static const struct {
		int digits, low, high;
		const char *then; /* one of these follows */
	} parts[] = { { 4, 0, 9999, "-" }, { 2, 1, 12, "-" }, { 2, 1, 31, "Tt " },
		      { 2, 0, 23, ":" },   { 2, 0, 59, ":" }, { 2, 0, 60, ".Zz+-" } };
	int v[6], zone, ms = 0, scale = 100;

	for (int i = 0; i < 6; i++) {
		v[i] = date_digits(&text, parts[i].digits);
		if (v[i] < parts[i].low || v[i] > parts[i].high || !*text ||
		    !strchr(parts[i].then, *text))
			return -EINVAL;
		text += i < 5;
	}
	if (*text == '.') {
		if (*++text < '0' || *text > '9')
			return -EINVAL;
		for (; *text >= '0' && *text <= '9'; text++, scale /= 10)
			ms += (*text - '0') * scale;
	}
	if (date_zone(&text, &zone) < 0 || *text)
		return -EINVAL;
	*ret = ((date_days(v[0], v[1], v[2]) * 24 + v[3]) * 60 + v[4] - zone) * 60000 +
	       INT64_C(1000) * v[5] + ms;
	return 0;
}
