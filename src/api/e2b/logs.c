/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logs.c - the log of a sandbox: when its commands began and ended
 *
 * In E2B, a program inside the sandbox writes it. Here, it is made from what is known
 * about the execs of the sandbox, so it exists as long as they do.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/e2b/internal.h"
#include "base/date.h"
#include "base/parse.h"

#define LOGS_MAX      1000
#define LOGS_ARGS_MAX 4096 /* bytes of the arguments that an entry has */
#define LOGS_ROOM     (64U << 20)

struct log_event {
	int64_t at; /* ms since 1970 */
	uint32_t number;
	bool end;
	char id[ID_LEN + 1]; /* of the exec */
};

struct log_page {
	/* Events from the cursor on, or back from it. */
	uint64_t cursor, limit;
	bool backward;
	int level;
	char search[E2B_WORD_MAX + 1];
	struct log_event *all;
	size_t n, room;
};

static const char *const log_levels[] = { "debug", "info", "warn", "error" };

int e2b_log_level(const char *word)
{
	for (int i = 0; i < (int)ARRAY_SIZE(log_levels); i++)
		if (word && strcmp(word, log_levels[i]) == 0)
			return i;
	return -1;
}

static const char *log_message(bool end)
{
	return end ? "command ended" : "command started";
}

static int log_level_of(const struct exec_row *row, bool end)
{
	bool failed =
		end && (row->lost || row->result.signal || row->result.exit_code != 0);

	return failed ? 2 : 1;
}

/* ----------------------------------------------------------------- which events */

static int log_page_compare(const void *a, const void *b)
{
	const struct log_event *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return (int)x->end - (int)y->end;
}

static int log_page_add(struct log_page *p, const struct exec_row *row, bool end)
{
	struct log_event e = { service_wall(end ? row->ended_at : row->started_at),
			       row->number, end, "" };
	bool later = e.at >= 0 && (uint64_t)e.at >= p->cursor;

	if (log_level_of(row, end) < p->level ||
	    (p->backward ? later && (uint64_t)e.at != p->cursor : !later) ||
	    (p->search[0] && !strstr(log_message(end), p->search) &&
	     !strstr(row->argv, p->search)))
		return 0;
	if (p->n == p->room) {
		size_t room = p->room ? 2 * p->room : 64;
		struct log_event *all = reallocarray(p->all, room, sizeof(*all));

		if (!all)
			return -ENOMEM;
		p->all = all;
		p->room = room;
	}
	(void)memcpy(e.id, row->id, sizeof(e.id));
	p->all[p->n++] = e;
	return 0;
}

static int log_page_on_exec(void *ctx, const struct exec_row *row)
{
	int r = log_page_add(ctx, row, false);

	return r == 0 && row->ended ? log_page_add(ctx, row, true) : r;
}

static void log_page_done(struct log_page *p)
{
	free(p->all);
}

/* A parameter that is a number. */
static bool log_query_number(struct call *c, const char *name, uint64_t *number)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	char text[E2B_NUMBER_MAX + 1];

	if (!e2b_query(c, name, text, sizeof(text)) ||
	    parse_u64(text, INT64_MAX, number, &ignored) == 0)
		return true;
	e2b_refuse(c, 400, "%s: must be a number", name);
	return false;
}

static bool log_page_read(struct call *c, const char *cursor, struct log_page *p)
{
	char text[E2B_WORD_MAX + 1];

	p->limit = LOGS_MAX;
	if (e2b_query(c, "direction", text, sizeof(text))) {
		p->backward = strcmp(text, "backward") == 0;
		if (!p->backward && strcmp(text, "forward") != 0) {
			e2b_refuse(c, 400, "direction: must be forward or backward");
			return false;
		}
	}
	p->cursor = p->backward ? INT64_MAX : 0;
	if (!log_query_number(c, cursor, &p->cursor) ||
	    !log_query_number(c, "limit", &p->limit))
		return false;
	if (e2b_query(c, "level", text, sizeof(text)))
		p->level = e2b_log_level(text);
	if (p->level < 0) {
		e2b_refuse(c, 400, "level: must be debug, info, warn or error");
		return false;
	}
	(void)e2b_query(c, "search", p->search, sizeof(p->search));
	if (p->limit > LOGS_MAX)
		p->limit = LOGS_MAX;
	return true;
}

/* ------------------------------------------------------------------- one event */

static void log_put_number(struct json *j, const char *key, int number)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%d", number);
	json_str(j, key, text);
}

/* In E2B, all values are texts. */
static void log_put_fields(struct json *j, const struct exec_row *row, bool end)
{
	json_t *argv = json_loads(row->argv, 0, NULL);

	json_str(j, "logger", "process");
	json_str(j, "exec", row->id);
	json_str(j, "cmd", json_string_value(json_array_get(argv, 0)));
	if (strlen(row->argv) <= LOGS_ARGS_MAX)
		json_str(j, "argv", row->argv);
	json_decref(argv);
	if (!end)
		return;
	if (row->lost)
		json_str(j, "error", "the sandbox failed before the command ended");
	else if (row->result.signal)
		log_put_number(j, "signal", row->result.signal);
	else
		log_put_number(j, "exit_code", row->result.exit_code);
}

static void log_put_entry(struct json *j, const struct log_event *e,
			  const struct exec_row *row)
{
	char at[DATE_SIZE];

	date_iso(at, e->at);
	json_open(j, NULL, '{');
	json_str(j, "timestamp", at);
	json_str(j, "level", log_levels[log_level_of(row, e->end)]);
	json_str(j, "message", log_message(e->end));
	json_open(j, "fields", '{');
	log_put_fields(j, row, e->end);
	json_close(j, '}');
	json_close(j, '}');
}

/* The same as a line of JSON, which older clients parse. */
static void log_put_line(struct json *j, const struct log_event *e,
			 const struct exec_row *row)
{
	AUTO_BUF struct buf line = BUF_INIT(65536);
	struct json l = { .out = &line };
	char at[DATE_SIZE];

	json_open(&l, NULL, '{');
	json_str(&l, "level", log_levels[log_level_of(row, e->end)]);
	json_str(&l, "message", log_message(e->end));
	log_put_fields(&l, row, e->end);
	json_close(&l, '}');
	date_iso(at, e->at);
	json_open(j, NULL, '{');
	json_str(j, "timestamp", at);
	json_str(j, "line", line.failed ? "{}" : line.data);
	json_close(j, '}');
}

/* --------------------------------------------------------------------- handlers */

/* Call @put for the events of the page. */
static void log_page_put(struct call *c, struct log_page *p, struct json *j,
			 const char *key,
			 void (*put)(struct json *j, const struct log_event *e,
				     const struct exec_row *row))
{
	size_t n = p->n < p->limit ? p->n : (size_t)p->limit;

	json_open(j, key, '[');
	for (size_t i = 0; i < n; i++) {
		const struct log_event *e = &p->all[p->backward ? p->n - 1 - i : i];
		struct exec_row row = { 0 };
		struct warren_error ignored = WARREN_ERROR_INIT;

		/* It may have been deleted in the meantime. */
		if (db_get_exec(service_db(c->v1->service), c->route.sandbox, e->id, &row,
				&ignored) < 0)
			continue;
		put(j, e, &row);
		exec_row_done(&row);
	}
	json_close(j, ']');
}

static bool log_page_find(struct call *c, const char *cursor, struct log_page *p)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (!e2b_sandbox(c) || !log_page_read(c, cursor, p))
		return false;
	r = db_each_exec(service_db(c->v1->service), c->route.sandbox, 0, 0,
			 log_page_on_exec, p, &err);
	if (r == -ENOMEM)
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
	else if (r < 0)
		call_fail(c, &err);
	else if (p->n > 0)
		qsort(p->all, p->n, sizeof(*p->all), log_page_compare);
	return r >= 0;
}

static void log_answer(struct call *c, struct buf *out)
{
	if (out->failed)
		call_refuse(c, API_ERR_OVERLOADED,
			    "the log is too long: set a smaller limit");
	else
		call_json(c, 200, out);
}

void e2b_logs(struct call *c)
{
	CLEANUP(log_page_done) struct log_page p = { 0 };
	AUTO_BUF struct buf out = BUF_INIT(LOGS_ROOM);
	struct json j = { .out = &out };

	if (!log_page_find(c, "start", &p))
		return;
	json_open(&j, NULL, '{');
	log_page_put(c, &p, &j, "logs", log_put_line);
	log_page_put(c, &p, &j, "logEntries", log_put_entry);
	json_close(&j, '}');
	log_answer(c, &out);
}

void e2b_logs_v2(struct call *c)
{
	CLEANUP(log_page_done) struct log_page p = { 0 };
	AUTO_BUF struct buf out = BUF_INIT(LOGS_ROOM);
	struct json j = { .out = &out };

	if (!log_page_find(c, "cursor", &p))
		return;
	json_open(&j, NULL, '{');
	log_page_put(c, &p, &j, "logs", log_put_entry);
	json_close(&j, '}');
	log_answer(c, &out);
}
