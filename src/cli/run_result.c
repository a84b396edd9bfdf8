/* SPDX-License-Identifier: Apache-2.0 */
/* run_result.c - exit statuses, lines on stderr, and the JSON object of `warren run` */
#include "cli/run_result.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/run_signal.h"

#include "base/errno_names.h"
#include "spec/spec.h"

/* Two captures, each byte escaped at worst as \u0000, and the rest of the report. */
#define REPORT_MAX (16U << 20)

int result_status(const struct warren_result *res)
{
	if (res->timed_out)
		return STATUS_TIMEOUT;
	return res->signal ? STATUS_SIGNAL + res->signal : res->exit_code;
}

int result_exec_status(int code)
{
	/*
	 * The statuses that shells use. Errors that are not about the command are
	 * failures of Warren.
	 */
	static const struct {
		int code, status;
	} table[] = {
		{ ENOENT, STATUS_NOT_FOUND },         { EACCES, STATUS_CANNOT_EXEC },
		{ EPERM, STATUS_CANNOT_EXEC },        { ENOEXEC, STATUS_CANNOT_EXEC },
		{ EISDIR, STATUS_CANNOT_EXEC },       { ENOTDIR, STATUS_CANNOT_EXEC },
		{ ELOOP, STATUS_CANNOT_EXEC },        { ELIBBAD, STATUS_CANNOT_EXEC },
		{ ETXTBSY, STATUS_CANNOT_EXEC },      { E2BIG, STATUS_CANNOT_EXEC },
		{ ENAMETOOLONG, STATUS_CANNOT_EXEC },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].code == code)
			return table[i].status;
	return STATUS_FAILED;
}

static void put_ms(struct buf *b, uint64_t usec)
{
	buf_printf(b, "%" PRIu64 ".%03u ms", usec / 1000, (unsigned)(usec % 1000));
}

static void say_trace(const struct warren_sandbox *sb)
{
	size_t n = 0;
	const struct warren_step *s = warren_trace(sb, &n);
	static const char *const lanes[WARREN_LANES] = { "", "inside: ", "aside: " };
	uint64_t before[WARREN_LANES] = { 0 };

	for (size_t i = 0; i < n; i++) {
		uint64_t *last = &before[s[i].lane];
		uint64_t took = s[i].ns > *last ? s[i].ns - *last : 0;

		message_say("run", "%8.3f ms +%.3f %s%s", (double)s[i].ns / 1e6,
			    (double)took / 1e6, lanes[s[i].lane], s[i].name);
		*last = s[i].ns;
	}
}

/* Report everything that is not enforced on one line, because there may be several such
 * limits for an ordinary user.
 * */
void result_say_enforced(const char *command, const struct warren_enforcement *e,
			 size_t n, bool verbose)
{
	AUTO_BUF struct buf names = BUF_INIT(1024);

	for (size_t i = 0; verbose && i < n; i++)
		message_say(command, "%s %s: %s",
			    e[i].enforced ? "enforced" : "NOT enforced", e[i].name,
			    e[i].detail);
	if (!verbose)
		spec_put_not_enforced(&names, e, n);
	if (names.len)
		message_say(command,
			    "not enforced here: %s (--verbose says why, --quiet hides "
			    "this)",
			    names.data);
}

void result_say_sandbox(const struct run_options *o, const struct warren_sandbox *sb,
			const struct warren_enforcement *e, size_t n)
{
	if (o->verbose)
		message_say("run", "sandbox %s", warren_id(sb));
	if (!o->quiet)
		result_say_enforced("run", e, n, o->verbose);
	if (o->verbose)
		say_trace(sb);
}

static void say_timeout(uint64_t ms)
{
	if (ms < 1000)
		message_say("run", "timed out after %" PRIu64 "ms", ms);
	else if (ms % 1000)
		message_say("run", "timed out after %" PRIu64 ".%03us", ms / 1000,
			    (unsigned)(ms % 1000));
	else
		message_say("run", "timed out after %" PRIu64 "s", ms / 1000);
}

/* Unknown values are omitted. */
static void run_result_put_time(struct buf *b, const char *name, uint64_t usec)
{
	if (usec == WARREN_UNKNOWN)
		return;
	buf_printf(b, ", %s ", name);
	put_ms(b, usec);
}

static void put_kib(struct buf *b, const char *name, uint64_t bytes)
{
	if (bytes != WARREN_UNKNOWN)
		buf_printf(b, ", %s %" PRIu64 " KiB", name, bytes >> 10);
}

static void say_usage(const struct warren_result *res)
{
	AUTO_BUF struct buf b = BUF_INIT(1024);
	char name[16];

	if (res->signal)
		buf_printf(&b, "ended by %s", signal_name(res->signal, name));
	else
		buf_printf(&b, "exit code %d", res->exit_code);
	buf_puts(&b, " after ");
	put_ms(&b, res->wall_usec);
	run_result_put_time(&b, "user", res->user_usec);
	run_result_put_time(&b, "system", res->system_usec);
	put_kib(&b, "memory", res->max_memory);
	put_kib(&b, "read", res->read_bytes);
	put_kib(&b, "written", res->written_bytes);
	if (!b.failed)
		message_say("run", "%s", b.data);
}

void result_say_end(const struct run_options *o, const struct warren_result *res)
{
	if (o->quiet)
		return;
	if (res->timed_out)
		say_timeout(o->timeout_ms);
	if (res->oom)
		message_say(
			"run",
			"out of memory: the kernel killed a process (raise the limit: "
			"--memory 2g)");
	if (o->verbose)
		say_usage(res);
}

void report_init(struct run_report *r)
{
	*r = (struct run_report){ .out = BUF_INIT(REPORT_MAX) };
	r->json.out = &r->out;
	json_open(&r->json, NULL, '{');
}

void report_done(struct run_report *r)
{
	buf_done(&r->out);
}

static void run_result_put_account(struct json *j, const char *key, uint64_t n,
				   void (*put)(struct json *j, const char *key,
					       uint64_t n))
{
	if (n == WARREN_UNKNOWN)
		json_nil(j, key);
	else
		put(j, key, n);
}

void report_result(struct run_report *r, const char *id, const struct warren_result *res)
{
	struct json *j = &r->json;
	char name[16];

	json_str(j, "id", id);
	if (res->signal)
		json_nil(j, "exit_code");
	else
		json_int(j, "exit_code", res->exit_code);
	json_str(j, "signal", res->signal ? signal_name(res->signal, name) : NULL);
	json_bool(j, "timed_out", res->timed_out);
	json_bool(j, "oom", res->oom);
	json_milli(j, "wall_ms", res->wall_usec);
	run_result_put_account(j, "user_ms", res->user_usec, json_milli);
	run_result_put_account(j, "system_ms", res->system_usec, json_milli);
	run_result_put_account(j, "max_memory_bytes", res->max_memory, json_u64);
	run_result_put_account(j, "read_bytes", res->read_bytes, json_u64);
	run_result_put_account(j, "written_bytes", res->written_bytes, json_u64);
}

void report_enforced(struct run_report *r, const struct warren_enforcement *e, size_t n)
{
	spec_put_enforced(&r->json, "enforced", e, n);
}

/*
 * Write bytes that may include NULs, which the string writer does not accept: the parts
 * between them are written as strings, and an escaped NUL replaces the quotes between two
 * parts.
 */
static void run_result_put_bytes(struct json *j, const char *key, const struct buf *b)
{
	struct buf *out = j->out;
	size_t at = 0;

	json_str(j, key, b->len ? b->data : "");
	for (;;) {
		size_t joint;

		at += b->len ? strlen(b->data + at) : 0;
		if (at >= b->len || out->failed)
			return;
		at++;
		out->len--; /* remove the closing quote */
		buf_puts(out, "\\u0000");
		joint = out->len;
		j->comma = false;
		json_str(j, NULL, b->data + at);
		if (out->failed)
			return;
		out->len--; /* remove the opening quote */
		(void)memmove(out->data + joint, out->data + joint + 1,
			      out->len - joint + 1);
	}
}

static void report_stream(struct run_report *r, const char *name, const struct splice *p)
{
	char key[32];

	run_result_put_bytes(&r->json, name, &p->data);
	(void)snprintf(key, sizeof(key), "%s_truncated", name);
	json_bool(&r->json, key, p->lost > 0);
	(void)snprintf(key, sizeof(key), "%s_lost_bytes", name);
	json_u64(&r->json, key, p->lost);
}

void report_output(struct run_report *r, const struct splice *out,
		   const struct splice *err)
{
	report_stream(r, "stdout", out);
	report_stream(r, "stderr", err);
}

void report_error(struct run_report *r, const struct warren_error *err, int status)
{
	json_open(&r->json, "error", '{');
	json_str(&r->json, "message", err->msg);
	json_str(&r->json, "errno", errno_name(err->code));
	json_int(&r->json, "status", status);
	json_close(&r->json, '}');
}

int report_print(struct run_report *r, int status)
{
	int failed;

	json_close(&r->json, '}');
	buf_puts(&r->out, "\n");
	failed = message_print("run", &r->out);
	return status ? status : failed;
}
