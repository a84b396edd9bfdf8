/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_events.c - warren events: follow events, one on each line */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "cli/client/commands.h"
#include "cli/client/spec.h"
#include "cli/common_options.h"

#define TRIES    50
#define AGAIN_NS 200000000L

struct events_options {
	json_t *types;
	const char *sandbox;
	uint64_t since;
	uint64_t count;
	bool json;
};

#define FIELD(name) offsetof(struct events_options, name)

/* clang-format off */
static const struct opt events_table[] = {
	{ NULL, "type", 0, "TYPE", "exec.finished",
	  "only events of this type (repeatable)",
	  value_word, FIELD(types) },
	{ NULL, OPT_SANDBOX("only events of this sandbox", FIELD(sandbox)) },
	{ NULL, "since", 0, "ID", "1207",
	  "start after the event with this number",
	  value_number, FIELD(since) },
	{ NULL, "count", 'n', "N", "10",
	  "exit after this many events",
	  value_count, FIELD(count) },
	{ NULL, OPT_JSON("print one JSON object on each line", FIELD(json)) },
};
/* clang-format on */

static const struct opts events_opts = {
	.table = events_table,
	.n = ARRAY_SIZE(events_table),
	.example = "warren events --type exec.finished",
};

struct following {
	const struct events_options *o;
	uint64_t last, seen;
	bool any; /* there was an event, and @last is its number */
	bool done;
	int failure;
};

static void events_put_event(struct buf *out, const json_t *e)
{
	static const char *const keys[] = { "sandbox_id", "exec_id", "session_id",
					    "state",      "image",   "reason" };
	const json_t *result = json_object_get(e, "result");
	const json_t *denial = json_object_get(e, "denial");

	buf_printf(out, "%s %6lld %-16s", print_text_of(e, "time"),
		   (long long)json_integer_value(json_object_get(e, "id")),
		   print_text_of(e, "type"));
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (*print_text_of(e, keys[i]))
			buf_printf(out, " %s=%s", keys[i], print_text_of(e, keys[i]));
	if (denial)
		buf_printf(out, " %s", print_text_of(denial, "reason"));
	if (result)
		buf_printf(out, " exit_code=%lld",
			   (long long)json_integer_value(
				   json_object_get(result, "exit_code")));
	if (!out->failed)
		out->len = message_clean(out->data, out->len);
}

static int events_on_event(void *arg, const char *line, size_t n)
{
	struct following *f = arg;
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	AUTO_JSON json_t *e = json_loadb(line, n, 0, NULL);
	int r;

	if (!e)
		return -1;
	if (strcmp(print_text_of(e, "type"), "heartbeat") == 0)
		return 0;
	f->last = (uint64_t)json_integer_value(json_object_get(e, "id"));
	f->any = true;
	if (f->o->json)
		buf_add(&out, line, n);
	else
		events_put_event(&out, e);
	buf_puts(&out, "\n");
	r = out.failed ? -ENOMEM : fd_write_all(STDOUT_FILENO, out.data, out.len);
	if (r < 0)
		f->failure = -r;
	f->done = f->o->count && ++f->seen == f->o->count;
	return r < 0 || f->done ? -1 : 0;
}

static int events_follow(struct client *c, const char *id, struct following *f,
			 struct warren_error *err)
{
	AUTO_BUF struct buf path = BUF_INIT(PATH_LIMIT);
	AUTO_REQUEST struct request *request = NULL;
	const json_t *types = f->o->types;
	char since[24];
	int r;

	buf_puts(&path, "/v1/events?format=ndjson");
	if (id)
		put_query(&path, "sandbox_id", id);
	for (size_t i = 0; i < json_array_size(types); i++)
		put_query(&path, "type", json_string_value(json_array_get(types, i)));
	(void)snprintf(since, sizeof(since), "%" PRIu64, f->last);
	if (f->any)
		put_query(&path, "since", since);
	r = request_new(c, "GET", path.data, &request, err);
	if (r < 0)
		return r;
	request->on_line = events_on_event;
	request->arg = f;
	r = request_start(request, err);
	return r < 0 ? r : request_wait(request, err);
}

/*
 * Follow events until stdout is closed, until there were --count events, or until the
 * service does not come back.
 */
static int follow_on(struct client *c, const char *id, struct following *f)
{
	static const struct timespec pause = { .tv_nsec = AGAIN_NS };
	struct warren_error err = WARREN_ERROR_INIT;

	for (unsigned tries = 0;; tries++) {
		uint64_t before = f->last;
		int r = events_follow(c, id, f, &err);

		if (f->failure == EPIPE || (f->done && !f->failure))
			return 0;
		if (f->failure)
			(void)error_errno(&err, f->failure, "write to stdout");
		if (f->last != before)
			tries = 0;
		/*
		 * If the stream breaks, continue from the last event; if the first
		 * request is refused, stop.
		 */
		if (f->failure || (r < 0 && r != -ECONNRESET && !f->any) ||
		    tries == TRIES || (r < 0 && r != -ECONNRESET && r != -ECONNREFUSED))
			return client_fail(&client_events, &err);
		(void)nanosleep(&pause, NULL);
	}
}

static int run_events(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct events_options o = { .since = UINT64_MAX };
	struct following f = { .o = &o };
	AUTO_CLIENT struct client *c = NULL;
	char id[ID_LEN + 1];
	char **words = NULL;
	int status = 0;

	if (command_operands(&client_events, argc, argv, &o, 0, 0, &words, &status)) {
		f.any = o.since != UINT64_MAX;
		f.last = f.any ? o.since : 0;
		if (client_open(&c, &err) < 0 ||
		    (o.sandbox && resolve_id_find_sandbox(c, o.sandbox, id, &err) < 0))
			status = client_fail(&client_events, &err);
		else
			status = follow_on(c, o.sandbox ? id : NULL, &f);
	}
	json_decref(o.types);
	return status;
}

const struct command client_events = {
	.name = "events",
	.summary = "Follow events, one on each line.",
	.opts = &events_opts,
	.run = run_events,
};
