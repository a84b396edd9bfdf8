/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - a line to stderr, by one write, so that lines of two processes do not mix */
#include "daemon/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"

static const char *const names[] = { "error", "warning", "info", "debug" };

static struct {
	bool json;
	enum log_level level;
	const char *role;
} to = { .level = LOG_LEVEL_INFO, .role = "warden" };

void log_setup(bool json, enum log_level level, const char *role)
{
	to.json = json;
	to.level = level;
	to.role = role;
}

void log_role(const char *role)
{
	to.role = role;
}

bool log_wants(enum log_level level)
{
	return level <= to.level;
}

static void put(enum log_level level, const char *request_id, const char *fmt, va_list ap)
{
	AUTO_BUF struct buf out = BUF_INIT(8192);
	struct json j = { .out = &out };
	char text[4096], when[40];
	struct timespec ts;
	struct tm tm;
	size_t n;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	(void)gmtime_r(&ts.tv_sec, &tm);
	n = strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(when + n, sizeof(when) - n, ".%03ldZ", ts.tv_nsec / 1000000);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	if (to.json) {
		json_open(&j, NULL, '{');
		json_str(&j, "time", when);
		json_str(&j, "level", names[level]);
		json_str(&j, "process", to.role);
		if (request_id)
			json_str(&j, "request_id", request_id);
		json_str(&j, "message", text);
		json_close(&j, '}');
		buf_puts(&out, "\n");
	} else {
		buf_printf(&out, "%s %-7s %s: %s%s%s%s\n", when, names[level], to.role,
			   request_id ? "[" : "", request_id ? request_id : "",
			   request_id ? "] " : "", text);
	}
	if (!out.failed)
		(void)fd_write_all(2, out.data, out.len);
}

void log_line(enum log_level level, const char *fmt, ...)
{
	va_list ap;

	if (!log_wants(level))
		return;
	va_start(ap, fmt);
	put(level, NULL, fmt, ap);
	va_end(ap);
}

void log_request(enum log_level level, const char *request_id, const char *fmt, ...)
{
	va_list ap;

	if (!log_wants(level))
		return;
	va_start(ap, fmt);
	put(level, request_id, fmt, ap);
	va_end(ap);
}
