/* SPDX-License-Identifier: Apache-2.0 */
/* format.h - format sizes and times for users */
#ifndef CLI_FORMAT_H
#define CLI_FORMAT_H

#include <stdint.h>
#include <time.h>

#define HUMAN_MAX 32

/* Format a size, as "77.8MB": powers of 1,000, three digits. */
const char *human_size(uint64_t bytes, char text[HUMAN_MAX]);
/* Parse an image's "2024-02-29T12:00:00.5Z"; 0 if it has another form. */
time_t human_parse_time(const char *text);
/* Format a time as "3 weeks ago"; 0 becomes "". */
const char *human_ago(time_t then, time_t now, char text[HUMAN_MAX]);

#endif /* CLI_FORMAT_H */
