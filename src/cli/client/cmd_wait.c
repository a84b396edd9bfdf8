/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_wait.c - warren wait: wait for a state of a sandbox, or for a command in it */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/client/attach.h"
#include "cli/client/commands.h"
#include "cli/client/spec.h"
#include "cli/common_options.h"
#include "cli/run_result.h"

#define SLICE_MS 300000 /* maximum time of one request; a wait may need several */

struct wait_options {
	json_t *states;
	const char *exec;
	uint64_t timeout_ms; /* 0: forever */
	bool quiet;
	bool json;
};

#define FIELD(name) offsetof(struct wait_options, name)

/* clang-format off */
static const struct opt wait_table[] = {
	{ NULL, OPT_STATE("wait for this state (default: stopped, failed, lost or gone)",
		FIELD(states)) },
	{ NULL, "exec", 0, "EXEC", "t7v2x9c4m1kd",
	  "wait for this command, and exit with its status",
	  opt_text, FIELD(exec) },
	{ NULL, OPT_TIMEOUT("give up after this time, status 124", FIELD(timeout_ms)) },
	{ NULL, OPT_QUIET("print nothing", FIELD(quiet)) },
	{ NULL, OPT_JSON("print the outcome as one JSON object", FIELD(json)) },
};
/* clang-format on */

static const struct opt_conflict wait_conflicts[] = {
	{ "state", "exec", "one waits for a sandbox, the other for a command" },
};

static const struct opts wait_opts = {
	.table = wait_table,
	.n = ARRAY_SIZE(wait_table),
	.conflicts = wait_conflicts,
	.n_conflicts = ARRAY_SIZE(wait_conflicts),
	.operands = "SANDBOX",
	.example = "warren wait --state running k3f9x2m7qd1w",
	.mixed = true,
};

/* Return the rest of the time, limited to what one request allows; 0: none. */
static uint64_t wait_slice(const struct wait_options *o, uint64_t begun)
{
	uint64_t gone = (clock_now() - begun) / 1000000;

	if (!o->timeout_ms)
		return SLICE_MS;
	if (gone >= o->timeout_ms)
		return 0;
	return o->timeout_ms - gone < SLICE_MS ? o->timeout_ms - gone : SLICE_MS;
}

static int wait_tell(const struct wait_options *o, const json_t *answer, const char *word)
{
	AUTO_BUF struct buf out = BUF_INIT(256);

	if (o->quiet)
		return 0;
	if (o->json)
		return print_json(&client_wait, answer);
	buf_printf(&out, "%s\n", word);
	return message_print(client_wait.name, &out);
}

static void put_states(struct buf *path, const struct wait_options *o)
{
	static const char *const ends[] = { "stopped", "failed", "gone" };

	for (size_t i = 0; i < json_array_size(o->states); i++)
		put_query(path, "state", json_string_value(json_array_get(o->states, i)));
	for (size_t i = 0; !o->states && i < ARRAY_SIZE(ends); i++)
		put_query(path, "state", ends[i]);
}

static int wait_state(struct client *c, const char *id, const struct wait_options *o)
{
	struct warren_error err = WARREN_ERROR_INIT;
	uint64_t begun = clock_now(), ms;

	do {
		AUTO_BUF struct buf path = BUF_INIT(PATH_LIMIT);
		AUTO_JSON json_t *answer = NULL;
		char text[24];

		ms = wait_slice(o, begun);
		buf_printf(&path, "/v1/sandboxes/%s/wait", id);
		put_states(&path, o);
		(void)snprintf(text, sizeof(text), "%" PRIu64, ms);
		put_query(&path, "timeout_ms", text);
		if (client_call(c, "GET", path.data, NULL, &answer, &err) < 0)
			return client_fail(&client_wait, &err);
		if (json_is_true(json_object_get(answer, "reached")))
			return wait_tell(o, answer, print_text_of(answer, "state"));
		if (ms == 0 && o->json)
			(void)wait_tell(o, answer, "");
	} while (ms > 0);
	return STATUS_TIMEOUT;
}

static int wait_exec(struct client *c, const char *id, const struct wait_options *o)
{
	struct warren_error err = WARREN_ERROR_INIT;
	uint64_t begun = clock_now(), ms;
	struct warren_result result;
	char exec[ID_LEN + 1], path[128], text[24];

	if (resolve_id_find_exec(c, id, o->exec, exec, &err) < 0)
		return client_fail(&client_wait, &err);
	do {
		AUTO_JSON json_t *answer = NULL;
		int printed;

		ms = wait_slice(o, begun);
		(void)snprintf(path, sizeof(path),
			       "/v1/sandboxes/%s/execs/%s?wait_ms=%" PRIu64, id, exec,
			       ms);
		if (client_call(c, "GET", path, NULL, &answer, &err) < 0)
			return client_fail(&client_wait, &err);
		if (strcmp(print_text_of(answer, "state"), "running") == 0)
			continue;
		result_of(json_object_get(answer, "result"), &result);
		(void)snprintf(text, sizeof(text), "%d", result_status(&result));
		printed = wait_tell(o, answer, text);
		if (strcmp(print_text_of(answer, "state"), "lost") == 0)
			return STATUS_FAILED;
		return result_status(&result) ? result_status(&result) : printed;
	} while (ms > 0);
	return STATUS_TIMEOUT;
}

static int run_wait(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct wait_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char id[ID_LEN + 1];
	char **words = NULL;
	int status = 0;

	if (command_operands(&client_wait, argc, argv, &o, 1, 1, &words, &status)) {
		if (client_open(&c, &err) < 0 ||
		    resolve_id_find_sandbox(c, *words, id, &err) < 0)
			status = client_fail(&client_wait, &err);
		else
			status = o.exec ? wait_exec(c, id, &o) : wait_state(c, id, &o);
	}
	if (status == STATUS_TIMEOUT && o.timeout_ms && !o.quiet)
		message_say(client_wait.name, "timed out");
	json_decref(o.states);
	return status;
}

const struct command client_wait = {
	.name = "wait",
	.summary = "Wait for a sandbox, or for a command in it.",
	.opts = &wait_opts,
	.run = run_wait,
	.complete = complete_sandbox,
};
