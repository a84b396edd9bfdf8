/* SPDX-License-Identifier: Apache-2.0 */
/*
 * date.h - times as text, in UTC
 *
 * Not by gmtime_r(3) and strftime(3): these read /etc/localtime when first called, which
 * a confined process may not, and cost more than the rest of an answer.
 */
#ifndef BASE_DATE_H
#define BASE_DATE_H

#include <stdint.h>

#define DATE_SIZE 32

/*
 * "2026-01-31T23:59:59.123Z". What is before the year 0 or after 9999 is the first or
 * last of these.
 */
void date_iso(char out[DATE_SIZE], int64_t ms);
/* "Sat, 31 Jan 2026 23:59:59 GMT" */
void date_http(char out[DATE_SIZE], int64_t seconds);

#endif /* BASE_DATE_H */
