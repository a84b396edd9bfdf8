/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_logs.c - warren logs: show the output of a command from any position */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base64.h"
#include "base/fd.h"
#include "cli/client/attach.h"
#include "cli/client/commands.h"
#include "cli/client/spec.h"
#include "cli/common_options.h"
#include "cli/run_result.h"

#define TAIL_ALL UINT64_MAX

struct logs_options {
	uint64_t from;
	const char *stream;
	uint64_t tail; /* lines; TAIL_ALL */
	const char *since;
	bool timestamps;
	bool follow;
	bool json;
	bool quiet;
};

#define FIELD(name) offsetof(struct logs_options, name)

static int logs_set_tail(void *field, const char *value, struct warren_error *err)
{
	if (strcmp(value, "all") != 0)
		return value_number(field, value, err);
	*(uint64_t *)field = TAIL_ALL;
	return 0;
}

/* clang-format off */
static const struct opt logs_table[] = {
	{ NULL, "follow", 'f', NULL, NULL,
	  "follow until the command ends, and exit with its status",
	  opt_flag, FIELD(follow) },
	{ NULL, "from", 0, "CURSOR", "2048",
	  "start at this byte of the output",
	  value_number, FIELD(from) },
	{ NULL, "tail", 'n', "LINES", "100",
	  "show only the last lines, or all",
	  logs_set_tail, FIELD(tail) },
	{ NULL, "since", 0, "TIME", "10m",
	  "only commands that ran since then: a duration, or an RFC 3339 time",
	  opt_text, FIELD(since) },
	{ NULL, "timestamps", 't', NULL, NULL,
	  "begin each line with the time at which it was received",
	  opt_flag, FIELD(timestamps) },
	{ NULL, "stream", 0, "STREAM", "stderr",
	  "stdout or stderr only",
	  opt_text, FIELD(stream) },
	{ NULL, OPT_QUIET("do not report dropped output", FIELD(quiet)) },
	{ NULL, OPT_JSON("print events with their cursors, one JSON object on each line",
		FIELD(json)) },
};
/* clang-format on */

static const struct opts logs_opts = {
	.table = logs_table,
	.n = ARRAY_SIZE(logs_table),
	.operands = "SANDBOX [EXEC]",
	.example = "warren logs -f k3f9x2m7qd1w",
	.mixed = true,
};

/* ------------------------------------------------------------------- --tail */

struct logs_tail {
	uint64_t *starts; /* ring of cursors at which lines begin */
	uint64_t n, seen, end;
	bool at_start; /* the next output begins a line */
};

static void logs_tail_note(struct logs_tail *t, uint64_t at)
{
	t->starts[t->seen++ % t->n] = at;
}

static int logs_tail_event(void *arg, const char *line, size_t n)
{
	struct logs_tail *t = arg;
	AUTO_JSON json_t *event = json_loadb(line, n, 0, NULL);
	const json_t *data = json_object_get(event, "data");
	AUTO_FREE char *bytes = data ? strdup(json_string_value(data)) : NULL;
	ssize_t size = bytes ? base64_decode(bytes, json_string_length(data), bytes) : 0;
	uint64_t end = (uint64_t)json_integer_value(json_object_get(event, "cursor"));

	t->end = end;
	for (ssize_t i = 0; i < size; i++) {
		if (t->at_start)
			logs_tail_note(t, end - (uint64_t)size + (uint64_t)i);
		t->at_start = bytes[i] == '\n';
	}
	return 0;
}

/* Find where the last lines of the current output begin. */
static int logs_find_tail(struct client *c, const char *id, const char *exec,
			  struct logs_options *o, struct warren_error *err)
{
	AUTO_BUF struct buf path = BUF_INIT(PATH_LIMIT);
	AUTO_REQUEST struct request *request = NULL;
	struct logs_tail t = { .n = o->tail + (o->tail == 0), .at_start = true };
	int r;

	t.starts = calloc(t.n, sizeof(*t.starts));
	if (!t.starts)
		return error_errno(err, ENOMEM, "--tail");
	buf_printf(&path, "/v1/sandboxes/%s/execs/%s/output?encoding=base64&follow=false",
		   id, exec);
	if (o->stream)
		put_query(&path, "stream", o->stream);
	r = request_new(c, "GET", path.data, &request, err);
	if (r == 0) {
		request->on_line = logs_tail_event;
		request->arg = &t;
		r = request_start(request, err);
	}
	if (r == 0)
		r = request_wait(request, err);
	if (o->tail == 0)
		o->from = t.end;
	else if (t.seen > o->tail)
		o->from = t.starts[t.seen % t.n];
	free(t.starts);
	return r;
}

/* ------------------------------------------------------------------ --since */

static int logs_read_since(const char *text, int64_t *ret_ms, struct warren_error *err)
{
	uint64_t ms = 0;
	struct tm tm = { 0 };
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

	if (end) {
		*ret_ms = (int64_t)timegm(&tm) * 1000;
		return 0;
	}
	if (opt_duration(&ms, text, err) < 0)
		return error_set(err, EINVAL,
				 "--since: '%.40s' is neither a duration nor an RFC 3339 "
				 "time (example: --since 10m)",
				 text);
	*ret_ms = (int64_t)time(NULL) * 1000 - (int64_t)ms;
	return 0;
}

static int64_t logs_time_of(const json_t *exec, const char *key)
{
	struct tm tm = { 0 };

	return strptime(print_text_of(exec, key), "%Y-%m-%dT%H:%M:%S", &tm)
		       ? (int64_t)timegm(&tm) * 1000
		       : 0;
}

/*
 * Is the output newer than the given time? Stored output has no times, but its command
 * has. Return 1 if all of the output is newer, or 0 if none is. If the command started
 * before the time and ended after it, refuse.
 */
static int logs_is_since(struct client *c, const char *id, const char *exec,
			 const struct logs_options *o, struct warren_error *err)
{
	AUTO_JSON json_t *info = NULL;
	int64_t since = 0, ended;
	char path[96];
	int r = logs_read_since(o->since, &since, err);

	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/execs/%s", id, exec);
	r = client_call(c, "GET", path, NULL, &info, err);
	if (r < 0)
		return r;
	ended = logs_time_of(info, "ended_at");
	if (logs_time_of(info, "started_at") + 999 >= since)
		return 1;
	if (ended && ended < since)
		return 0;
	return error_set(err, EOPNOTSUPP,
			 "--since: the command started earlier and continued, and its "
			 "output has no times: use --tail");
}

/* -------------------------------------------------------------- --timestamps */

static bool logs_line_begins[3] = { true, true, true };

static int logs_stamped(void *arg, const char *line, size_t n)
{
	int *failure = arg;
	AUTO_JSON json_t *event = json_loadb(line, n, 0, NULL);
	const json_t *data = json_object_get(event, "data");
	bool is_err = strcmp(print_text_of(event, "stream"), "stderr") == 0;
	AUTO_FREE char *bytes = data ? strdup(json_string_value(data)) : NULL;
	ssize_t size = bytes ? base64_decode(bytes, json_string_length(data), bytes) : 0;
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	int fd = is_err ? STDERR_FILENO : STDOUT_FILENO;
	time_t now = time(NULL);
	char stamp[32];
	struct tm tm;

	(void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ ", gmtime_r(&now, &tm));
	for (ssize_t i = 0; i < size; i++) {
		if (logs_line_begins[fd])
			buf_puts(&out, stamp);
		logs_line_begins[fd] = bytes[i] == '\n';
		buf_add(&out, bytes + i, 1);
	}
	*failure = out.len ? -fd_write_all(fd, out.data, out.len) : 0;
	return -*failure;
}

static int logs_pass(void *arg, const char *data, size_t n)
{
	int *failure = arg;

	*failure = -fd_write_all(STDOUT_FILENO, data, n);
	return -*failure;
}

/* Print the stream as NDJSON, without changes. */
static int logs_json(struct client *c, const char *id, const char *exec,
		     const struct logs_options *o)
{
	AUTO_BUF struct buf path = BUF_INIT(PATH_LIMIT);
	AUTO_REQUEST struct request *request = NULL;
	struct warren_error err = WARREN_ERROR_INIT;
	char from[24];
	int r, failure = 0;

	(void)snprintf(from, sizeof(from), "%" PRIu64, o->from);
	buf_printf(&path, "/v1/sandboxes/%s/execs/%s/output", id, exec);
	put_query(&path, "from", from);
	put_query(&path, "follow", o->follow ? "true" : "false");
	if (o->stream)
		put_query(&path, "stream", o->stream);
	if (o->timestamps)
		put_query(&path, "encoding", "base64");
	r = request_new(c, "GET", path.data, &request, &err);
	if (r == 0) {
		if (o->timestamps)
			request->on_line = logs_stamped;
		else
			request->on_data = logs_pass;
		request->arg = &failure;
		r = request_start(request, &err);
	}
	if (r == 0)
		r = request_wait(request, &err);
	if (failure == EPIPE)
		return 0;
	if (failure)
		r = error_errno(&err, failure, "write to stdout");
	return r < 0 ? client_fail(&client_logs, &err) : 0;
}

static int logs_text(struct client *c, const char *id, const char *exec,
		     const struct logs_options *o)
{
	const struct attach a = { .client = c,
				  .command = client_logs.name,
				  .sandbox = id,
				  .exec = exec,
				  .from = o->from,
				  .stream = o->stream,
				  .watch = true,
				  .once = !o->follow,
				  .quiet = o->quiet };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_result result = { 0 };
	bool ended = false;

	if (attach_run(&a, &result, &ended, &err) < 0)
		return client_fail(&client_logs, &err);
	return ended && o->follow ? result_status(&result) : 0;
}

/* Find the exec that was named; otherwise the sandbox's main command, or the newest
 * exec. */
static int logs_find_exec(struct client *c, const char *id, const char *word,
			  char ret[ID_LEN + 1], struct warren_error *err)
{
	AUTO_JSON json_t *sandbox = NULL;
	const char *main;
	char path[64];

	if (word)
		return resolve_id_find_exec(c, id, word, ret, err);
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s", id);
	if (client_call(c, "GET", path, NULL, &sandbox, err) < 0)
		return -err->code;
	main = print_text_of(json_object_get(sandbox, "main"), "exec_id");
	if (!*main)
		return resolve_id_find_exec(c, id, NULL, ret, err);
	(void)snprintf(ret, ID_LEN + 1, "%s", main);
	return 0;
}

static int run_logs(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct logs_options o = { .tail = TAIL_ALL };
	AUTO_CLIENT struct client *c = NULL;
	char id[ID_LEN + 1], exec[ID_LEN + 1];
	char **words = NULL;
	int status = 0;

	if (!command_operands(&client_logs, argc, argv, &o, 1, 2, &words, &status))
		return status;
	if (o.timestamps && !o.follow && !o.quiet)
		message_say(client_logs.name,
			    "stored output has no times: lines have the current time");
	if (client_open(&c, &err) < 0 ||
	    resolve_id_find_sandbox(c, words[0], id, &err) < 0 ||
	    logs_find_exec(c, id, words[1], exec, &err) < 0)
		return client_fail(&client_logs, &err);
	if (o.since && (status = logs_is_since(c, id, exec, &o, &err)) <= 0)
		return status < 0 ? client_fail(&client_logs, &err) : 0;
	if (o.tail != TAIL_ALL && logs_find_tail(c, id, exec, &o, &err) < 0)
		return client_fail(&client_logs, &err);
	return o.json || o.timestamps ? logs_json(c, id, exec, &o)
				      : logs_text(c, id, exec, &o);
}

const struct command client_logs = {
	.name = "logs",
	.summary = "Show the output of a command in a sandbox.",
	.about =
		"Without EXEC: of the main command, or the command that was started last.\n",
	.opts = &logs_opts,
	.run = run_logs,
	.complete = complete_sandbox,
};
