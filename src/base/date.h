/* SPDX-License-Identifier: Apache-2.0 */
/*
 * date.h - times as text, in UTC
 *
 * These functions do not use gmtime_r(3) and strftime(3). On their first call, those read
 * /etc/localtime, which a confined process cannot open; and they take longer than
 * everything else that a response needs.
 */
#ifndef BASE_DATE_H
#define BASE_DATE_H

#include <stdint.h>

#define DATE_SIZE 32

/*
 * Write "2026-01-31T23:59:59.123Z". Times before the year 0 or after 9999 become the
 * first or last time in that range.
 */
void date_iso(char out[DATE_SIZE], int64_t ms);
/* Write "Sat, 31 Jan 2026 23:59:59 GMT". */
void date_http(char out[DATE_SIZE], int64_t seconds);

/*
 * Parse an RFC 3339 time, such as "2026-01-31T23:59:59.123+01:00". 0, or -EINVAL; *@ret
 * is in milliseconds.
 */
int date_parse_ms(const char *text, int64_t *ret);

#endif /* BASE_DATE_H */
