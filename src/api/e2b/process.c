/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.c - commands of the data plane: start, connect, list, write, signal
 *
 * SDKs know a command by the pid of its first process inside the sandbox:
 * process_table.c.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "api/e2b/internal.h"
#include "api/path.h"
#include "api/v1/exec.h"
#include "base/base64.h"
#include "base/parse.h"
#include "config/config.h"
#include "net/loop.h"
#include "service/exec/exec.h"

#define ENV_OWN 4 /* variables that this API adds */

/* --------------------------------------------------------------------------- user, paths
 */

/* A name that no account has. */
#define INVALID_USER "?"

const char *e2b_user(struct call *c, char room[64])
{
	const char *auth = http_header(c->req, "Authorization");
	char text[128];
	ssize_t n;

	if (!auth || strncasecmp(auth, "Basic ", 6) != 0)
		return NULL;
	n = strlen(auth) > 128 ? -1 : base64_decode(auth + 6, strlen(auth + 6), text);
	/* No account has this name, so the request is refused. */
	if (n <= 0 || n > 127 || memchr(text, '\0', (size_t)n))
		return strcpy(room, INVALID_USER);
	text[n] = '\0';
	text[strcspn(text, ":")] = '\0';
	if (strlen(text) > 63)
		return strcpy(room, INVALID_USER);
	(void)strcpy(room, text);
	return room[0] ? room : NULL;
}

/* The directory for relative paths of a user. */
static const char *e2b_home(const struct sandbox *sandbox, const char *user,
			    char room[80])
{
	if (!user)
		return sandbox_workdir(sandbox);
	if (strcmp(user, "root") == 0)
		return "/root";
	(void)snprintf(room, 80, "/home/%s", user);
	return room;
}

bool e2b_path(const struct sandbox *sandbox, const char *user, const char *path,
	      char ret[4096])
{
	char room[80];

	if (path[0] == '~' && (path[1] == '/' || !path[1]))
		path += path[1] == '/' ? 2 : 1;
	return api_path(e2b_home(sandbox, user, room), path, ret);
}

/* --------------------------------------------------------------------------- start */

/* What the command needs, in the form of the service. */
struct command {
	const char **argv;
	char **env;
	char cwd[4096];
	char user[64];
	struct exec_start start;
};

static void command_done(struct command *k)
{
	free((void *)k->argv);
	for (size_t i = 0; k->env && k->env[i]; i++)
		free(k->env[i]);
	free(k->env);
}

static int command_read_argv(const struct body *process, struct command *k)
{
	json_t *args = body_json(process, "args"), *value;
	size_t i;

	k->argv = calloc(json_array_size(args) + 2, sizeof(*k->argv));
	if (!k->argv)
		return -ENOMEM;
	k->argv[0] = body_text(process, "cmd");
	json_array_foreach(args, i, value) k->argv[i + 1] = json_string_value(value);
	return 0;
}

static int command_read_env(const struct body *process, const struct sandbox *sandbox,
			    struct command *k)
{
	json_t *envs = body_json(process, "envs"), *value;
	const char *template = e2b_label(sandbox, E2B_LABEL_TEMPLATE), *name;
	size_t n = 0;

	k->env = calloc(json_object_size(envs) + ENV_OWN + 1, sizeof(*k->env));
	if (!k->env)
		return -ENOMEM;
	k->env[n++] = strdup("E2B_SANDBOX=true");
	k->env[n++] = strdup(E2B_EVENTS_ENV);
	if (!k->env[0] || !k->env[1])
		return -ENOMEM;
	if (asprintf(&k->env[n], "E2B_SANDBOX_ID=%s", sandbox_row(sandbox)->id) < 0)
		return -ENOMEM;
	n++;
	if (asprintf(&k->env[n], "E2B_TEMPLATE_ID=%s", template ? template : "") < 0)
		return -ENOMEM;
	n++;
	json_object_foreach(envs, name, value)
	{
		if (!*name || strchr(name, '='))
			return -EINVAL;
		if (asprintf(&k->env[n], "%s=%s", name, json_string_value(value)) < 0)
			return -ENOMEM;
		n++;
	}
	return 0;
}

uint64_t e2b_timeout_ms(const struct call *c)
{
	const char *text = http_header(c->req, "Connect-Timeout-Ms");
	struct warren_error why = WARREN_ERROR_INIT;
	uint64_t ms = 0;

	if (text && parse_u64(text, 9999999999, &ms, &why) < 0)
		return 0;
	return ms < UINT32_MAX ? ms : UINT32_MAX;
}

/* False: the call was refused. */
static bool command_read(struct call *c, const struct sandbox *sandbox, struct command *k)
{
	struct body process = body_object(&c->body, "process");
	struct body pty = body_object(&c->body, "pty");
	struct body size = body_object(&pty, "size");
	const char *cwd = body_text(&process, "cwd");
	const char *user = e2b_user(c, k->user);
	int r;

	if (!*body_text(&process, "cmd")) {
		e2b_refuse_rpc(c, "invalid_argument", "cmd: it is empty");
		return false;
	}
	r = command_read_argv(&process, k);
	if (r == 0)
		r = command_read_env(&process, sandbox, k);
	if (r < 0) {
		e2b_refuse_rpc(
			c, r == -EINVAL ? "invalid_argument" : "resource_exhausted",
			r == -EINVAL ? "envs: a name is not valid" : "out of memory");
		return false;
	}
	if (cwd && *cwd && !e2b_path(sandbox, user, cwd, k->cwd)) {
		e2b_refuse_rpc(c, "invalid_argument", "cwd: it is too long");
		return false;
	}
	k->start = (struct exec_start){
		.argv = k->argv,
		.env = (const char *const *)k->env,
		.cwd = k->cwd[0] ? k->cwd : NULL,
		.user = user,
		.account = true,
		.pty = pty.json != NULL,
		.rows = (uint16_t)body_int(&size, "rows"),
		.cols = (uint16_t)body_int(&size, "cols"),
		.input = !pty.json &&
			 (!body_has(&c->body, "stdin") || body_bool(&c->body, "stdin")),
		.hold = true,
		.timeout_ms = e2b_timeout_ms(c),
		.journal = c->v1->config->journal_default,
	};
	return true;
}

static void process_begin(struct call *c, struct exec *exec, int pid)
{
	process_keep(c, exec, pid);
	process_stream_begin(c, &(struct process_stream_options){
					.exec = exec_ref(exec),
					.pid = pid,
					.from_start = true,
					.bounded = exec_row(exec)->timeout_ms > 0,
				});
}

struct process_look {
	struct call *call;
	struct exec *exec;
};

static void process_on_pid(void *ctx, int pid)
{
	struct process_look *look = ctx;
	struct call *c = look->call;

	if (c->req && !c->answered)
		process_begin(c, look->exec, pid);
	(void)exec_unref(look->exec);
	call_unref(c);
	free(look);
}

static void process_fail(struct call *c, const struct warren_error *err)
{
	struct body process = body_object(&c->body, "process");
	const char *cwd = body_text(&process, "cwd");
	char user[64];

	if (e2b_refuse_user(c, e2b_user(c, user), err))
		return;
	if (cwd && *cwd && strstr(err->msg, "enter the directory"))
		e2b_refuse_rpc(c, "invalid_argument", "cwd '%s' does not exist", cwd);
	else if (err->code == EAGAIN)
		e2b_refuse_rpc(c, "resource_exhausted", "%s", err->msg);
	else
		call_fail_start(c, err);
}

static void process_on_started(void *ctx, struct exec *exec,
			       const struct warren_error *err)
{
	struct call *c = ctx;
	struct process_look *look = exec ? calloc(1, sizeof(*look)) : NULL;

	if (!c->req || c->answered) {
		free(look);
	} else if (!exec) {
		process_fail(c, err);
	} else if (!look) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
	} else {
		*look = (struct process_look){ call_ref(c), exec_ref(exec) };
		exec_find_pid(exec, process_on_pid, look);
	}
	call_unref(c);
}

/* The sandbox; NULL: it is gone, and the connection was cut. */
static struct sandbox *process_sandbox(struct call *c)
{
	struct sandbox *sandbox = sandbox_find(c->v1->service, NULL, c->route.sandbox);

	if (!sandbox)
		e2b_refuse_gone(c);
	return sandbox;
}

void e2b_process_start(struct call *c)
{
	CLEANUP(command_done) struct command k = { 0 };
	struct sandbox *sandbox = process_sandbox(c);

	if (sandbox && command_read(c, sandbox, &k))
		exec_start(sandbox, &k.start, process_on_started, call_ref(c));
}

void e2b_process_connect(struct call *c)
{
	int pid = 0;
	struct exec *exec = process_find(c, &c->body, &pid);

	if (exec)
		process_stream_begin(c, &(struct process_stream_options){
						.exec = exec,
						.pid = pid,
						.limit_ms = e2b_timeout_ms(c),
					});
}

/* ----------------------------------------------------------------------------- list */

struct process_listing {
	struct call *call;
	struct json json;
};

static void put_config(struct json *j, const struct e2b_process *p,
		       const struct exec *exec)
{
	const struct exec_row *row = exec_row(exec);
	const char *text = p ? p->config : NULL;
	json_t *argv = text ? NULL : json_loads(row->argv, 0, NULL), *value;
	size_t i;

	if (text) {
		json_raw(j, "config", text, strlen(text));
	} else {
		json_open(j, "config", '{');
		json_str(j, "cmd", json_string_value(json_array_get(argv, 0)));
		json_open(j, "args", '[');
		json_array_foreach(argv, i, value) if (i > 0)
			json_str(j, NULL, json_string_value(value));
		json_close(j, ']');
		json_open(j, "envs", '{');
		json_close(j, '}');
		if (row->cwd)
			json_str(j, "cwd", row->cwd);
		json_close(j, '}');
	}
	json_decref(argv);
}

static bool process_list_one(void *ctx, struct exec *exec)
{
	struct process_listing *l = ctx;
	struct e2b *e = call_e2b(l->call);
	const char *sandbox = l->call->route.sandbox;
	const struct e2b_process *p = process_of(e, sandbox, exec);
	int pid = p ? p->pid : exec_pid(exec);

	if (pid == 0 || exec_row(exec)->session ||
	    e2b_is_kernel(e, sandbox, exec_row(exec)->id))
		return false; /* it is no command of a client */
	json_open(&l->json, NULL, '{');
	put_config(&l->json, p, exec);
	json_int(&l->json, "pid", pid);
	if (p && p->tag)
		json_str(&l->json, "tag", p->tag);
	json_close(&l->json, '}');
	return false;
}

void e2b_process_list(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(64U << 20);
	struct process_listing l = { .call = c, .json = { .out = &out } };
	struct sandbox *sandbox = process_sandbox(c);

	if (!sandbox)
		return;
	json_open(&l.json, NULL, '{');
	json_open(&l.json, "processes", '[');
	(void)exec_each_running(sandbox, process_list_one, &l);
	json_close(&l.json, ']');
	json_close(&l.json, '}');
	call_json(c, 200, &out);
}

/* -------------------------------------------------------------------- input and signals
 */

static void process_answer_empty(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(16);

	buf_puts(&out, "{}");
	call_json(c, 200, &out);
}

static void process_on_done(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;

	if (c->req && r == -ESRCH)
		e2b_refuse_rpc(c, "not_found", "%s", err->msg);
	else if (c->req && r < 0)
		e2b_refuse_rpc(c, "internal", "%s", err->msg);
	else if (c->req)
		process_answer_empty(c);
	call_unref(c);
}

/* A command that has ended, or has no stdin, has none to close. */
static void process_on_closed(void *ctx, int r, const struct warren_error *err)
{
	process_on_done(ctx, r == -EPIPE || r == -ESRCH ? 0 : r, err);
}

void process_refuse_input(struct call *c, const struct exec *exec, int pid)
{
	if (exec_row(exec)->ended)
		process_refuse_ended(c, pid);
	else
		e2b_refuse_rpc(c, "internal",
			       "error writing to stdin: stdin not enabled or closed");
}

/* It may have ended in the meantime. */
static void process_refuse_feed(struct call *c)
{
	int pid = 0;
	struct exec *exec = process_find(c, &c->body, &pid);

	if (exec)
		process_refuse_input(c, exec, pid);
	(void)exec_unref(exec);
}

static void process_on_fed(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;

	if (c->req && r == -ENOBUFS)
		e2b_refuse_rpc(c, "resource_exhausted", "%s", err->msg);
	else if (c->req && r < 0)
		process_refuse_feed(c);
	else if (c->req)
		process_answer_empty(c);
	call_unref(c);
}

/* The bytes of the field `input`; NULL: refused. The caller frees them. */
char *process_input(struct call *c, const struct body *from, bool pty, size_t *ret_n)
{
	struct body input = body_object(from, "input");
	const char *text = body_text(&input, pty ? "pty" : "stdin");
	char *data = text ? malloc(strlen(text) / 4 * 3 + 4) : NULL;
	ssize_t n = data ? base64_decode(text, strlen(text), data) : -1;

	if (n < 0) {
		free(data);
		e2b_refuse_rpc(c, "invalid_argument", "input: it has no bytes for %s",
			       pty ? "a terminal" : "stdin");
		return NULL;
	}
	*ret_n = (size_t)n;
	return data;
}

void e2b_process_send_input(struct call *c)
{
	int pid = 0;
	struct exec *exec = process_find_running(c, &c->body, &pid);
	size_t n = 0;
	char *data = exec ? process_input(c, &c->body, exec_row(exec)->pty, &n) : NULL;

	if (data)
		exec_feed_shared(exec, data, n, process_on_fed, call_ref(c));
	free(data);
	(void)exec_unref(exec);
}

void e2b_process_close_stdin(struct call *c)
{
	int pid = 0;
	struct exec *exec = process_find(c, &c->body, &pid);

	if (exec && exec_row(exec)->ended)
		process_answer_empty(c);
	else if (exec && exec_row(exec)->pty)
		e2b_refuse_rpc(c, "failed_precondition",
			       "a terminal cannot be closed: send the byte 0x04 instead");
	else if (exec)
		exec_close_input(exec, process_on_closed, call_ref(c));
	(void)exec_unref(exec);
}

void e2b_process_send_signal(struct call *c)
{
	static const int signals[] = { 0, SIGTERM, SIGKILL };
	int sig = signals[body_word(&c->body, "signal")];
	int pid = 0;
	struct exec *exec;

	if (sig == 0) {
		e2b_refuse_rpc(c, "invalid_argument", "signal: it is not given");
		return;
	}
	exec = process_find_running(c, &c->body, &pid);
	if (exec)
		exec_signal(exec, sig, WARREN_WHOM_FIRST, process_on_done, call_ref(c));
	(void)exec_unref(exec);
}

void e2b_process_update(struct call *c)
{
	struct body pty = body_object(&c->body, "pty");
	struct body size = body_object(&pty, "size");
	struct warren_error err = WARREN_ERROR_INIT;
	int pid = 0;
	struct exec *exec = process_find_running(c, &c->body, &pid);

	if (exec && size.json &&
	    exec_resize(exec, (uint16_t)body_int(&size, "rows"),
			(uint16_t)body_int(&size, "cols"), &err) < 0)
		e2b_refuse_rpc(c, "failed_precondition", "%s", err.msg);
	else if (exec)
		process_answer_empty(c);
	(void)exec_unref(exec);
}
