/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - log lines: text for users, JSON for programs */
#ifndef DAEMON_LOG_H
#define DAEMON_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
};

/*
 * Set up the log of this process and its children. @role is printed in front of each
 * line.
 */
void log_setup(bool json, enum log_level level, const char *role);
void log_role(const char *role);
bool log_wants(enum log_level level);
void log_line(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* An additional field of a line: a text, or a number if the text is NULL. */
struct log_field {
	const char *key, *text;
	uint64_t number;
};

void log_fields(enum log_level level, const char *request_id, const char *message,
		const struct log_field *fields, size_t n);

#endif /* DAEMON_LOG_H */
