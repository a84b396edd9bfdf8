/* SPDX-License-Identifier: Apache-2.0 */
/* to_json.c - sandboxes, execs and their output as JSON */
#include <string.h>

#include "api/v1/exec.h"
#include "base/date.h"
#include "base/json.h"

static void to_json_put_time(struct json *j, const char *key, int64_t ms)
{
	char text[DATE_SIZE];

	if (ms == 0) {
		json_nil(j, key);
		return;
	}
	date_iso(text, service_wall(ms));
	json_str(j, key, text);
}

/* Write the members of an object that is stored as text into another object. */
static void to_json_splice(struct json *j, const char *object)
{
	size_t n = object ? strlen(object) : 0;

	if (n <= 2)
		return;
	if (j->comma)
		buf_add(j->out, ",", 1);
	buf_add(j->out, object + 1, n - 2);
	j->comma = true;
}

static void to_json_put_main(struct json *j, const struct sandbox_row *row)
{
	if (!row->command) {
		json_nil(j, "main");
		return;
	}
	json_open(j, "main", '{');
	to_json_splice(j, row->command);
	json_str(j, "exec_id", row->main_exec[0] ? row->main_exec : NULL);
	json_close(j, '}');
	json_str(j, "on_exit", v1_on_exit_names[row->on_exit]);
}

void sandbox_row_to_json(struct buf *out, const struct sandbox_row *row, bool checkpoint)
{
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	json_str(&j, "id", row->id);
	json_str(&j, "state", sandbox_state_name(row->state));
	json_str(&j, "error", row->error);
	json_bool(&j, "checkpoint", checkpoint);
	json_str(&j, "owner", row->owner);
	json_str(&j, "name", row->name);
	json_str(&j, "template", row->template);
	json_str(&j, "backend", row->backend);
	json_str(&j, "tier", row->tier);
	to_json_splice(&j, row->spec);
	json_open(&j, "labels", '{');
	for (size_t i = 0; i < row->n_labels; i++)
		json_str(&j, row->labels[i].key, row->labels[i].value);
	json_close(&j, '}');
	to_json_put_main(&j, row);
	if (row->expires_at)
		json_int(&j, "ttl_ms", row->expires_at - row->created_at);
	else
		json_nil(&j, "ttl_ms");
	if (row->idle_timeout_ms)
		json_u64(&j, "idle_timeout_ms", row->idle_timeout_ms);
	else
		json_nil(&j, "idle_timeout_ms");
	to_json_put_time(&j, "created_at", row->created_at);
	to_json_put_time(&j, "expires_at", row->expires_at);
	to_json_put_time(&j, "last_used_at",
			 row->last_used ? row->last_used : row->created_at);
	json_raw(&j, "enforced", row->enforced ? row->enforced : "[]",
		 row->enforced ? strlen(row->enforced) : 2);
	json_close(&j, '}');
}

void sandbox_to_json(struct buf *out, struct sandbox *sandbox)
{
	sandbox_row_to_json(out, sandbox_row(sandbox), sandbox_is_saved(sandbox));
}

static void to_json_put_account(struct json *j, const char *key, uint64_t n)
{
	if (n == WARREN_UNKNOWN)
		json_nil(j, key);
	else
		json_u64(j, key, n);
}

void result_to_json(struct buf *out, const struct warren_result *r)
{
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	json_int(&j, "exit_code", r->exit_code);
	json_int(&j, "signal", r->signal);
	json_bool(&j, "timed_out", r->timed_out);
	json_bool(&j, "oom", r->oom);
	json_u64(&j, "wall_usec", r->wall_usec);
	to_json_put_account(&j, "user_usec", r->user_usec);
	to_json_put_account(&j, "system_usec", r->system_usec);
	to_json_put_account(&j, "max_memory", r->max_memory);
	to_json_put_account(&j, "read_bytes", r->read_bytes);
	to_json_put_account(&j, "written_bytes", r->written_bytes);
	json_close(&j, '}');
}

static const char *const to_json_ended_by[EXEC_ENDED_BY_MAX] = {
	[EXEC_BY_HIBERNATION] = "hibernate",
	[EXEC_BY_REBOOT] = "reboot",
};

/* Write the exec without the closing brace, because more members may follow. */
void show_exec_open(struct buf *out, struct exec *exec)
{
	const struct exec_row *row = exec_row(exec);
	struct json j = { .out = out };
	uint64_t from, to;

	(void)exec_extent(exec, &from, &to);
	json_open(&j, NULL, '{');
	json_str(&j, "id", row->id);
	json_str(&j, "sandbox_id", row->sandbox);
	json_raw(&j, "argv", row->argv, strlen(row->argv));
	json_str(&j, "cwd", row->cwd);
	json_str(&j, "user", row->user);
	json_bool(&j, "pty", row->pty);
	json_str(&j, "state",
		 row->ended        ? "exited"
		 : exec_lost(exec) ? "lost"
				   : "running");
	to_json_put_time(&j, "started_at", row->started_at);
	to_json_put_time(&j, "ended_at", row->ended ? row->ended_at : 0);
	json_str(&j, "ended_by", row->ended ? to_json_ended_by[row->ended_by] : NULL);
	if (row->timeout_ms)
		json_u64(&j, "timeout_ms", row->timeout_ms);
	json_u64(&j, "output_from", from);
	json_u64(&j, "output_to", to);
	if (row->ended) {
		json_raw(&j, "result", "", 0);
		result_to_json(out, &row->result);
	} else {
		json_nil(&j, "result");
	}
}

void exec_to_json(struct buf *out, struct exec *exec)
{
	show_exec_open(out, exec);
	buf_add(out, "}", 1);
}

void bytes_to_json(struct buf *out, const char *data, size_t n, bool base64)
{
	struct json j = { .out = out };

	if (base64)
		json_base64(&j, NULL, data, n);
	else
		json_strn(&j, NULL, data, n);
}
