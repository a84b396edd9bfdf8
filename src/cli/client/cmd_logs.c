/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_logs.c - warren logs: show the output of a command from any position */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "base/fd.h"
#include "cli/client/attach.h"
#include "cli/client/commands.h"
#include "cli/client/spec.h"
#include "cli/common_options.h"
#include "cli/run_result.h"

struct logs_options {
	uint64_t from;
	const char *stream;
	bool follow;
	bool json;
	bool quiet;
};

#define FIELD(name) offsetof(struct logs_options, name)

/* clang-format off */
static const struct opt logs_table[] = {
	{ NULL, "follow", 'f', NULL, NULL,
	  "follow until the command ends, and exit with its status",
	  opt_flag, FIELD(follow) },
	{ NULL, "from", 0, "CURSOR", "2048",
	  "start at this byte of the output",
	  value_number, FIELD(from) },
	{ NULL, "stream", 0, "STREAM", "stderr",
	  "stdout or stderr only",
	  opt_text, FIELD(stream) },
	{ NULL, OPT_QUIET("do not report dropped output", FIELD(quiet)) },
	{ NULL, OPT_JSON("events, with their cursors, a JSON object on each line",
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

static int logs_pass(void *arg, const char *data, size_t n)
{
	int *failure = arg;

	*failure = -fd_write_all(STDOUT_FILENO, data, n);
	return -*failure;
}

/* The stream as it is: NDJSON. */
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
	r = request_new(c, "GET", path.data, &request, &err);
	if (r == 0) {
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

static int run_logs(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct logs_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char id[ID_LEN + 1], exec[ID_LEN + 1];
	char **words = NULL;
	int status = 0;

	if (!command_operands(&client_logs, argc, argv, &o, 1, 2, &words, &status))
		return status;
	if (client_open(&c, &err) < 0 ||
	    resolve_id_find_sandbox(c, words[0], id, &err) < 0 ||
	    resolve_id_find_exec(c, id, words[1], exec, &err) < 0)
		return client_fail(&client_logs, &err);
	return o.json ? logs_json(c, id, exec, &o) : logs_text(c, id, exec, &o);
}

const struct command client_logs = {
	.name = "logs",
	.summary = "Show the output of a command in a sandbox.",
	.about = "Without EXEC: of the command that was started last.\n",
	.opts = &logs_opts,
	.run = run_logs,
	.complete = complete_sandbox,
};
