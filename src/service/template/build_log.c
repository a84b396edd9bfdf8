/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build_log.c - what a build prints, as entries with a time and a step
 *
 * The stages of the Dockerfile are named after the steps, "step3" or "files3", so the
 * lines with which warren-image(1) announces an instruction, "[step3 1/2] RUN ...", say
 * which step it is. The entry for the step has its text as the client wrote it. A command
 * that prints such a line spoils its own log only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/date.h"
#include "base/json.h"
#include "base/strv.h"
#include "service/template/internal.h"

#define LOG_MAX      (1U << 20)
#define LOG_LINE_MAX 4096U

void template_log_init(struct template_log *log)
{
	log->text = (struct buf)BUF_INIT(LOG_MAX + 65536);
	log->part = (struct buf)BUF_INIT(LOG_LINE_MAX);
}

void template_log_done(struct template_log *log)
{
	buf_done(&log->text);
	buf_done(&log->part);
	log->steps = strv_free(log->steps);
}

void template_log_add(struct template_log *log, const char *level, const char *text,
		      size_t n)
{
	static const char full[] = "the rest of the output is not kept";
	struct json j = { .out = &log->text };
	char number[24], at[DATE_SIZE];

	if (log->cut)
		return;
	if (log->text.len > LOG_MAX - 2 * LOG_LINE_MAX) {
		log->cut = true;
		level = "warn";
		text = full;
		n = sizeof(full) - 1;
	}
	if (n > LOG_LINE_MAX)
		n = LOG_LINE_MAX;
	date_iso(at, service_wall(service_time()));
	(void)snprintf(number, sizeof(number), "%zu", log->step);
	json_open(&j, NULL, '{');
	json_str(&j, "timestamp", at);
	json_str(&j, "level", level);
	json_strn(&j, "message", text, n);
	json_str(&j, "step", log->step ? number : "base");
	json_close(&j, '}');
	buf_puts(&log->text, "\n");
}

/* The step of a stage, whose name ends with @stop; -1: it is none. */
static long log_step_named(const struct template_log *log, const char *name, char stop)
{
	static const char *const names[] = { "base", "step", "files" };
	char *end = NULL;
	long n;

	if (strncmp(name, names[0], strlen(names[0])) == 0 &&
	    name[strlen(names[0])] == stop)
		return 0;
	for (size_t i = 1; i < ARRAY_SIZE(names); i++) {
		size_t len = strlen(names[i]);

		if (strncmp(name, names[i], len) != 0)
			continue;
		n = strtol(name + len, &end, 10);
		if (n > 0 && (size_t)n <= log->n_steps && *end == stop)
			return n;
	}
	return -1;
}

/* The step that a line announces; -1: it announces none. */
static long log_step_of(const struct template_log *log, const char *line)
{
	return line[0] == '[' ? log_step_named(log, line + 1, ' ') : -1;
}

long template_log_stage(const struct template_log *log, const char *line)
{
	size_t n = strcspn(line, "\n");
	const char *as = memmem(line, n, " AS ", 4);

	return strncmp(line, "FROM ", 5) == 0 && as ? log_step_named(log, as + 4, '\n')
						    : -1;
}

void template_log_begin(struct template_log *log, size_t step)
{
	AUTO_BUF struct buf text = BUF_INIT(LOG_LINE_MAX);

	if (step <= log->step) {
		log->step = step;
		return;
	}
	log->step = step;
	buf_printf(&text, "[builder %zu/%zu] %.2000s", log->step, log->n_steps,
		   log->steps[step - 1]);
	template_log_add(log, "info", text.data, text.len);
}

static void log_take_line(struct template_log *log, char *line, size_t n)
{
	long step = log_step_of(log, line);

	if (step < 0)
		template_log_add(log, "info", line, n);
	else if ((size_t)step > log->step)
		template_log_begin(log, (size_t)step);
}

static void log_end_line(struct template_log *log)
{
	buf_add(&log->part, "", 1);
	log_take_line(log, log->part.data, log->part.len - 1);
	log->part.len = 0;
}

void template_log_take(struct template_log *log, const char *text, size_t n)
{
	char head[32];

	/* The output of the last command may have had no end of line. */
	(void)snprintf(head, sizeof(head), "%.*s", n < 24 ? (int)n : 24, text);
	if (log->part.len > 0 && log_step_of(log, head) >= 0)
		log_end_line(log);
	while (n > 0) {
		const char *end = memchr(text, '\n', n);
		size_t len = end ? (size_t)(end - text) : n;
		size_t room = LOG_LINE_MAX - 1 - log->part.len;

		buf_add(&log->part, text, len < room ? len : room);
		text += len + (end ? 1 : 0);
		n -= len + (end ? 1 : 0);
		if (!end && len < room)
			break;
		log_end_line(log);
	}
}
