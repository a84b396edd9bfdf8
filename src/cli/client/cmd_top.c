/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_top.c - warren top: show resource usage; on a terminal, once a second
 *
 * Each round requests the list of sandboxes, and the usage of each one that fits on the
 * screen. Processor usage is the difference between two rounds, so the first round shows
 * none.
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/client/commands.h"
#include "cli/client/spec.h"
#include "cli/client/table.h"
#include "cli/common_options.h"
#include "cli/format.h"
#include "cli/run_tty.h"

#define EVERY_MS    1000
#define ROWS_PLAIN  1000
#define SCREEN_ROWS 24
#define CTRL_C      3

struct top_options {
	json_t *labels;
	bool once;
	bool json;
};

#define FIELD(name) offsetof(struct top_options, name)

/* clang-format off */
static const struct opt top_table[] = {
	{ NULL, OPT_LABEL("only sandboxes with this label (repeatable)",
		FIELD(labels)) },
	{ NULL, "once", '1', NULL, NULL,
	  "print once and exit (the default if stdout is not a terminal)",
	  opt_flag, FIELD(once) },
	{ NULL, OPT_JSON("print once, as one JSON array", FIELD(json)) },
};
/* clang-format on */

static const struct opts top_opts = {
	.table = top_table,
	.n = ARRAY_SIZE(top_table),
	.example = "warren top",
};

struct look {
	json_t *sandboxes; /* the list of sandboxes, each with "stats" */
	size_t max;
	uint64_t at; /* ns */
};

static int top_collect(void *arg, json_t *sandbox)
{
	struct look *l = arg;

	(void)json_array_append(l->sandboxes, sandbox);
	return json_array_size(l->sandboxes) == l->max;
}

static int top_look(struct client *c, const struct top_options *o, struct look *l,
		    struct warren_error *err)
{
	AUTO_BUF struct buf path = BUF_INIT(PATH_LIMIT);
	int r;

	json_decref(l->sandboxes);
	l->sandboxes = json_array();
	buf_puts(&path, "/v1/sandboxes?state=running&state=paused");
	for (size_t i = 0; i < json_array_size(o->labels); i++)
		put_query(&path, "label",
			  json_string_value(json_array_get(o->labels, i)));
	r = client_list(c, path.data, "sandboxes", top_collect, l, err);
	if (r < 0)
		return r;
	l->at = clock_now();
	for (size_t i = 0; i < json_array_size(l->sandboxes); i++) {
		json_t *sandbox = json_array_get(l->sandboxes, i), *stats = NULL;
		char stat[96];

		(void)snprintf(stat, sizeof(stat), "/v1/sandboxes/%s/stats",
			       print_text_of(sandbox, "id"));
		r = client_call(c, "GET", stat, NULL, &stats, err);
		if (r == 0)
			(void)json_object_set_new(sandbox, "stats", stats);
		else if (r == -ECONNREFUSED || r == -ECONNRESET)
			return r; /* otherwise the sandbox is gone */
	}
	return 0;
}

static json_int_t stat_of(const json_t *sandbox, const char *key)
{
	return json_integer_value(
		json_object_get(json_object_get(sandbox, "stats"), key));
}

/* Find the same sandbox in the previous sample. */
static const json_t *top_before(const struct look *old, const json_t *sandbox)
{
	for (size_t i = 0; i < json_array_size(old->sandboxes); i++) {
		const json_t *b = json_array_get(old->sandboxes, i);

		if (strcmp(print_text_of(b, "id"), print_text_of(sandbox, "id")) == 0 &&
		    json_object_get(b, "stats"))
			return b;
	}
	return NULL;
}

static void top_put_cpu(struct table *t, const struct look *old, const struct look *now,
			const json_t *sandbox)
{
	const json_t *then = top_before(old, sandbox);
	double usec = (double)(now->at - old->at) / 1000;

	if (then && usec > 0)
		table_cell(t, "%.1f%%",
			   (double)(stat_of(sandbox, "cpu_usec") -
				    stat_of(then, "cpu_usec")) *
				   100 / usec);
	else
		table_cell(t, "-");
}

/* Received and sent, as docker shows it. */
static void top_put_network(struct table *t, const json_t *sandbox)
{
	const json_t *network =
		json_object_get(json_object_get(sandbox, "stats"), "network");
	char in[HUMAN_MAX], out[HUMAN_MAX];

	if (!network) {
		table_cell(t, "-");
		return;
	}
	(void)human_size(
		(uint64_t)json_integer_value(json_object_get(network, "bytes_in")), in);
	(void)human_size(
		(uint64_t)json_integer_value(json_object_get(network, "bytes_out")), out);
	table_cell(t, "%s / %s", in, out);
}

static void put_look(const struct look *old, const struct look *now, size_t width,
		     const char *end, struct buf *out)
{
	AUTO_TABLE struct table t =
		TABLE_INIT("ID", "NAME", "STATE", "CPU", "CPU TIME", "MEMORY", "PEAK",
			   "PIDS", "NET I/O", "IMAGE");

	for (size_t i = 0; i < json_array_size(now->sandboxes); i++) {
		const json_t *sandbox = json_array_get(now->sandboxes, i);
		char memory[HUMAN_MAX], peak[HUMAN_MAX];

		if (!json_object_get(sandbox, "stats"))
			continue;
		(void)human_size((uint64_t)stat_of(sandbox, "memory"), memory);
		(void)human_size((uint64_t)stat_of(sandbox, "memory_peak"), peak);
		table_cell(&t, "%s", print_text_of(sandbox, "id"));
		table_cell(&t, "%s",
			   *print_text_of(sandbox, "name")
				   ? print_text_of(sandbox, "name")
				   : "-");
		table_cell(&t, "%s", print_text_of(sandbox, "state"));
		top_put_cpu(&t, old, now, sandbox);
		table_cell(&t, "%.2fs", (double)stat_of(sandbox, "cpu_usec") / 1e6);
		table_cell(&t, "%s", memory);
		table_cell(&t, "%s", peak);
		table_cell(&t, "%lld", (long long)stat_of(sandbox, "pids"));
		top_put_network(&t, sandbox);
		table_cell(&t, "%s", print_text_of(sandbox, "image"));
	}
	table_put(&t, width, end, out);
}

static int print_once(struct client *c, const struct top_options *o)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	struct look none = { 0 }, l = { .max = ROWS_PLAIN };
	struct warren_error err = WARREN_ERROR_INIT;
	int status;

	if (top_look(c, o, &l, &err) < 0) {
		status = client_fail(&client_top, &err);
	} else if (o->json) {
		status = print_json(&client_top, l.sandboxes);
	} else {
		put_look(&none, &l, 0, "\n", &out);
		status = message_print(client_top.name, &out);
	}
	json_decref(l.sandboxes);
	return status;
}

/* Was a key pressed within @ms that quits? */
static bool key_leaves(int ms)
{
	struct pollfd key = { .fd = STDIN_FILENO, .events = POLLIN };
	uint64_t until = clock_now() + (uint64_t)ms * 1000000;

	for (uint64_t now; (now = clock_now()) < until;) {
		char c = 0;
		int r = poll(&key, 1, (int)((until - now) / 1000000) + 1);

		if (r <= 0)
			continue;
		if (read(STDIN_FILENO, &c, 1) != 1 || c == 'q' || c == 'Q' || c == CTRL_C)
			return true;
	}
	return false;
}

static int top_follow(struct client *c, const struct top_options *o)
{
	static const char enter[] = "\033[?1049h\033[?25l",
			  leave[] = "\033[?25h\033[?1049l";
	struct look old = { 0 }, now = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	int status = 0;
	bool done = false;

	if (tty_raw(STDIN_FILENO, &err) < 0)
		return client_fail(&client_top, &err);
	(void)!write(STDOUT_FILENO, enter, sizeof(enter) - 1);
	while (!done && status == 0) {
		AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
		uint16_t rows = 0, cols = 0;

		tty_size(&rows, &cols);
		now.max = rows > 3 ? rows - 2U : SCREEN_ROWS - 2;
		if (top_look(c, o, &now, &err) < 0) {
			status = STATUS_FAILED;
			break;
		}
		buf_puts(&out, "\033[H\033[J");
		put_look(&old, &now, cols, "\r\n", &out);
		buf_puts(&out, "q: leave");
		status = message_print(client_top.name, &out);
		json_decref(old.sandboxes);
		old = now;
		now.sandboxes = NULL;
		done = key_leaves(EVERY_MS);
	}
	(void)!write(STDOUT_FILENO, leave, sizeof(leave) - 1);
	tty_restore();
	if (status)
		(void)client_fail(&client_top, &err);
	json_decref(old.sandboxes);
	json_decref(now.sandboxes);
	return status;
}

static int run_top(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct top_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0;

	if (command_operands(&client_top, argc, argv, &o, 0, 0, &words, &status)) {
		bool live = !o.once && !o.json && isatty(STDOUT_FILENO) &&
			    isatty(STDIN_FILENO);

		if (client_open(&c, &err) < 0)
			status = client_fail(&client_top, &err);
		else
			status = live ? top_follow(c, &o) : print_once(c, &o);
	}
	json_decref(o.labels);
	return status;
}

const struct command client_top = {
	.name = "top",
	.summary = "Show resource usage of sandboxes, live.",
	.opts = &top_opts,
	.run = run_top,
};
