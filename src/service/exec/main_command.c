/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main_command.c - a sandbox's main command: it starts with the sandbox, and the sandbox
 * is stopped or deleted when the command ends
 *
 * The row of the sandbox has the command and the id of its exec, which is written in one
 * transaction with the exec's row. So after a crash at any moment, the next process knows
 * whether the command was never started, is running, or has ended.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "service/exec/internal.h"

#define ROWS 24
#define COLS 80

struct main_command_op {
	struct service *service;
	char sandbox[ID_LEN + 1];
	service_done_fn done;
	void *ctx;
};

static void main_command_on_started(void *ctx, struct exec *exec,
				    const struct warren_error *err)
{
	struct main_command_op op = *(struct main_command_op *)ctx;
	const struct sandbox *sandbox = sandbox_find(op.service, NULL, op.sandbox);

	free(ctx);
	if (sandbox)
		sandbox_execs(sandbox)->main_starting--;
	op.done(op.ctx, exec ? 0 : -err->code, err);
}

/*
 * The row has the format {"argv": [...], "pty": false, "stdin": false}. The words belong
 * to @json.
 */
static const char **main_command_words(const json_t *json)
{
	const json_t *argv = json_object_get(json, "argv");
	size_t n = json_array_size(argv);
	const char **words = n > 0 ? calloc(n + 1, sizeof(*words)) : NULL;

	for (size_t i = 0; words && i < n; i++)
		words[i] = json_string_value(json_array_get(argv, i));
	return words;
}

void main_command_start(struct sandbox *sandbox, service_done_fn done, void *ctx)
{
	json_t *json = json_loads(sandbox->row.command, JSON_REJECT_DUPLICATES, NULL);
	struct main_command_op *op = malloc(sizeof(*op));
	const char **words = main_command_words(json);
	struct warren_error err = WARREN_ERROR_INIT;
	struct exec_start start = {
		.argv = words,
		.pty = json_is_true(json_object_get(json, "pty")),
		.input = json_is_true(json_object_get(json, "stdin")),
		.rows = ROWS,
		.cols = COLS,
		.main = true,
	};

	if (!op || !words) {
		free(op);
		done(ctx, error_errno(&err, ENOMEM, "start the command"), &err);
	} else {
		*op = (struct main_command_op){ .service = sandbox->service,
						.done = done,
						.ctx = ctx };
		(void)memcpy(op->sandbox, sandbox->row.id, sizeof(op->sandbox));
		sandbox_execs(sandbox)->main_starting++;
		exec_start(sandbox, &start, main_command_on_started, op);
	}
	free((void *)words);
	json_decref(json);
}

/* --------------------------------------------------------- command of a new sandbox */

/*
 * If the command cannot be started, the sandbox has failed, and the client that created
 * the sandbox gets the reason.
 */
static void main_command_on_first(void *ctx, int r, const struct warren_error *err)
{
	struct main_command_op op = *(struct main_command_op *)ctx;
	struct sandbox *sandbox = sandbox_find(op.service, NULL, op.sandbox);

	free(ctx);
	if (!sandbox || op.service->closing)
		return;
	/*
	 * Keep the sandbox in its starting phase until it has failed, so that a waiting
	 * client never sees it as running. A sandbox that hibernated must not lose its
	 * files, so it runs without its command.
	 */
	if (r < 0 && !sandbox->woken) {
		sandbox->failure = err->code;
		sandbox->command_failed = true;
		sandbox_end(sandbox, err);
		return;
	}
	sandbox->starting = false;
	loop_defer(op.service->loop, &sandbox->waiters_task);
}

void main_command_first(struct sandbox *sandbox)
{
	struct main_command_op *op = malloc(sizeof(*op));
	struct warren_error err = WARREN_ERROR_INIT;

	if (!op) {
		(void)error_errno(&err, ENOMEM, "start the command");
		sandbox_end(sandbox, &err);
		return;
	}
	*op = (struct main_command_op){ .service = sandbox->service };
	(void)memcpy(op->sandbox, sandbox->row.id, sizeof(op->sandbox));
	sandbox->starting = true;
	main_command_start(sandbox, main_command_on_first, op);
}

/* ----------------------------------------------------------------- end of the command */

static struct exec *main_command_exec(const struct sandbox *sandbox)
{
	struct exec *exec = sandbox_execs(sandbox)->list;

	while (exec && strcmp(exec->row.id, sandbox->row.main_exec) != 0)
		exec = exec->next;
	return exec;
}

/* Has the command been started, and has it ended, and by what? */
static bool main_command_end_of(const struct sandbox *sandbox, enum exec_ended_by *by)
{
	AUTO_EXEC_ROW struct exec_row row = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	const struct exec *exec;
	int r;

	*by = EXEC_BY_ITSELF;
	if (!sandbox->row.command || !sandbox->row.main_exec[0])
		return false;
	exec = main_command_exec(sandbox);
	if (exec) {
		*by = exec->row.ended_by;
		return exec->row.ended || exec->lost;
	}
	r = db_get_exec(sandbox->service->db, sandbox->row.id, sandbox->row.main_exec,
			&row, &err);
	if (r == 0)
		*by = row.ended_by;
	/* An exec that ended long ago may have been deleted. */
	return r == -ENOENT || (r == 0 && row.ended);
}

static bool main_command_has_ended(const struct sandbox *sandbox)
{
	enum exec_ended_by ignored;

	return main_command_end_of(sandbox, &ignored);
}

void main_command_ends_within(struct sandbox *sandbox, uint64_t ms)
{
	struct exec *exec = sandbox->row.command ? main_command_exec(sandbox) : NULL;
	struct warren_error err = WARREN_ERROR_INIT;

	if (!exec || exec->row.ended || (ms == 0 && exec->row.ends_until == 0))
		return;
	exec->row.ends_until = ms > 0 ? service_time() + (int64_t)ms : 0;
	survive(sandbox->service, db_set_ends_until(sandbox->service->db, exec->row.id,
						    exec->row.ends_until, &err));
}

/* A stop that is in progress continues: the other processes keep their grace period. */
static void main_command_exit(struct sandbox *sandbox)
{
	enum exec_ended_by by;

	/* The command of a sandbox that hibernates runs again when it wakes. */
	if (sandbox_stop_has_begun(sandbox) ||
	    sandbox->row.state == SANDBOX_HIBERNATING ||
	    sandbox_state_sleeps(sandbox->row.state))
		return;
	/* An earlier process ended it for a hibernation, and was killed. */
	if (main_command_end_of(sandbox, &by) && by == EXEC_BY_HIBERNATION) {
		if (!sandbox->hibernating && sandbox->row.state == SANDBOX_RUNNING)
			sandbox_start(sandbox, service_ignore, NULL);
		return;
	}
	if (sandbox->row.on_exit == SANDBOX_EXIT_DELETES)
		sandbox_delete_for(sandbox, "exit", service_ignore, NULL);
	else if (sandbox->row.on_exit == SANDBOX_EXIT_STOPS)
		sandbox_stop_for(sandbox, "exit", 0, service_ignore, NULL);
}

void main_command_look(struct sandbox *sandbox, const char *exec)
{
	if (!sandbox->service->closing && sandbox->row.command &&
	    strcmp(sandbox->row.main_exec, exec) == 0)
		main_command_exit(sandbox);
}

void main_command_stopped(struct sandbox *sandbox)
{
	if (!sandbox->service->closing && !sandbox->hibernating &&
	    sandbox->row.on_exit == SANDBOX_EXIT_DELETES &&
	    main_command_has_ended(sandbox))
		main_command_exit(sandbox);
}

bool main_command_is_over(const struct sandbox *sandbox)
{
	return sandbox_execs(sandbox)->main_starting == 0 &&
	       main_command_has_ended(sandbox);
}

bool main_command_runs(const struct sandbox *sandbox)
{
	return sandbox_execs(sandbox)->main_starting > 0 ||
	       (sandbox->row.main_exec[0] && !main_command_has_ended(sandbox));
}

void main_command_resumed(struct sandbox *sandbox)
{
	if (!sandbox->service->closing && main_command_is_over(sandbox))
		main_command_exit(sandbox);
}

/*
 * The sandbox is stopped, but should have been deleted: the earlier process was killed in
 * between.
 */
void main_command_restore(struct sandbox *sandbox)
{
	/* The command that ended with the hibernation is started again. */
	if (!sandbox->row.command || sandbox->woken ||
	    sandbox->row.state == SANDBOX_HIBERNATING ||
	    sandbox_state_sleeps(sandbox->row.state))
		return;
	if (sandbox->row.state == SANDBOX_RUNNING && !sandbox->row.main_exec[0])
		main_command_first(sandbox);
	else if ((sandbox->row.state == SANDBOX_RUNNING ||
		  sandbox->row.on_exit == SANDBOX_EXIT_DELETES) &&
		 main_command_has_ended(sandbox))
		main_command_exit(sandbox);
}
