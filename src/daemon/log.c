/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - write a log line with one write, so that lines of two processes do not mix */
#include "daemon/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/date.h"
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

static void log_put_json(struct buf *out, const char *when, enum log_level level,
			 const char *request_id, const char *text,
			 const struct log_field *fields, size_t n)
{
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	json_str(&j, "time", when);
	json_str(&j, "level", names[level]);
	json_str(&j, "process", to.role);
	if (request_id)
		json_str(&j, "request_id", request_id);
	json_str(&j, "message", text);
	for (size_t i = 0; i < n; i++) {
		if (fields[i].text)
			json_str(&j, fields[i].key, fields[i].text);
		else
			json_u64(&j, fields[i].key, fields[i].number);
	}
	json_close(&j, '}');
}

/* Write a text so that a log entry stays on one line and does not control a terminal. */
static void log_put_text(struct buf *out, const char *when, enum log_level level,
			 const char *request_id, const char *text,
			 const struct log_field *fields, size_t n)
{
	buf_printf(out, "%s %-7s %s: %s%s%s%s", when, names[level], to.role,
		   request_id ? "[" : "", request_id ? request_id : "",
		   request_id ? "] " : "", text);
	for (size_t i = 0; i < n; i++) {
		if (fields[i].text)
			buf_printf(out, " %s=%s", fields[i].key, fields[i].text);
		else
			buf_printf(out, " %s=%ju", fields[i].key,
				   (uintmax_t)fields[i].number);
	}
	for (size_t i = 0; i < out->len; i++)
		if ((unsigned char)out->data[i] < ' ' || out->data[i] == 0x7f)
			out->data[i] = '?';
}

void log_fields(enum log_level level, const char *request_id, const char *message,
		const struct log_field *fields, size_t n)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	char when[DATE_SIZE];
	struct timespec ts;

	if (!log_wants(level))
		return;
	(void)clock_gettime(CLOCK_REALTIME, &ts);
	date_iso(when, (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000);
	(to.json ? log_put_json : log_put_text)(&out, when, level, request_id, message,
						fields, n);
	buf_puts(&out, "\n");
	if (!out.failed)
		(void)fd_write_all(2, out.data, out.len);
}

void log_line(enum log_level level, const char *fmt, ...)
{
	char text[4096];
	va_list ap;

	if (!log_wants(level))
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_fields(level, NULL, text, NULL, 0);
}
