/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code.c - warren_code(): run a program once, in a sandbox that is destroyed afterwards
 *
 * code/plan.h says what is written, compiled and run. The service does the same without
 * waiting (service/code).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/strv.h"
#include "core/code_run.h"

#define CODE_TIMED_OUT  124
#define CODE_PIECE      65536
#define CODE_BAD_OPTION 9 /* exit code of node for an unknown option */

struct code_job {
	struct warren_sandbox *sb;
	struct code_plan plan;
	struct warren_code_result *to;
	struct buf output[2];
	char *piece;    /* CODE_PIECE bytes, for reading output */
	uint64_t begun; /* ns */
	size_t fed;     /* number of bytes of stdin that were written */
};

/* ------------------------------------------------------------------ streams */

/* Read some output. Return false if the stream has ended. */
static bool code_job_read(struct code_job *j, int i, int fd)
{
	struct buf *out = &j->output[i];
	ssize_t n = read(fd, j->piece, CODE_PIECE);
	size_t room;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	room = (size_t)j->plan.max_output - out->len;
	if ((size_t)n > room) {
		j->to->output[i].truncated = true;
		n = (ssize_t)room;
	}
	buf_add(out, j->piece, (size_t)n);
	return true;
}

/* Write some of stdin. Return false if everything was written, or if stdin is no longer
 * read. */
static bool code_job_write(struct code_job *j, int fd)
{
	ssize_t n = 0;

	if (j->fed < j->plan.input_size)
		n = write(fd, (const char *)j->plan.input + j->fed,
			  j->plan.input_size - j->fed);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	j->fed += (size_t)n;
	return j->fed < j->plan.input_size;
}

/*
 * Serve the streams until the first process has ended; do not wait for processes that it
 * left.
 */
static int code_job_pump(struct code_job *j, struct warren_exec *ex,
			 struct warren_result *ret, struct warren_error *err)
{
	struct pollfd fds[] = { { .fd = warren_exec_wait_fd(ex), .events = POLLIN },
				{ .fd = warren_exec_fd(ex, 1), .events = POLLIN },
				{ .fd = warren_exec_fd(ex, 2), .events = POLLIN },
				{ .fd = warren_exec_fd(ex, 0), .events = POLLOUT } };
	int r = 0;

	for (int i = 1; i < 4; i++)
		if (fds[i].fd >= 0)
			(void)fcntl(fds[i].fd, F_SETFL,
				    fcntl(fds[i].fd, F_GETFL) | O_NONBLOCK);
	while (r == 0) {
		if (poll(fds, 4, -1) < 0 && errno != EINTR)
			return error_errno(err, errno, "wait for the program");
		for (int i = 1; i < 3; i++)
			if (fds[i].revents && !code_job_read(j, i - 1, fds[i].fd))
				fds[i].fd = -1;
		if (fds[3].revents && !code_job_write(j, fds[3].fd)) {
			fds[3].fd = -1;
			r = warren_exec_close_input(ex, err);
			if (r < 0)
				return r;
		}
		if (fds[0].revents)
			r = warren_exec_wait(ex, 0, ret, err);
	}
	if (r < 0)
		return r;
	for (int i = 1; i < 3; i++)
		while (fds[i].fd >= 0) {
			struct pollfd now = { .fd = fds[i].fd, .events = POLLIN };

			if (poll(&now, 1, 0) <= 0 || !code_job_read(j, i - 1, fds[i].fd))
				fds[i].fd = -1;
		}
	return 0;
}

/* -------------------------------------------------------------------- steps */

/* An error of the plan begins with the field of a JSON request ("/limits/memory: ..."):
 * translate it. */
static int code_job_refuse(const struct warren_error *why, struct warren_error *err)
{
	const char *msg = why->msg;

	if (strncmp(msg, "/limits/", 8) == 0)
		msg += 8;
	else if (msg[0] == '/')
		msg++;
	return error_set(err, why->code, "%s", msg);
}

static int code_job_missing(const struct code_job *j, const char *tools,
			    struct warren_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;

	(void)code_plan_missing(&j->plan, tools, &why);
	return code_job_refuse(&why, err);
}

/* Run a step with the first of its tools that exists in the image. Return 1 if none
 * exists. */
static int code_job_step(struct code_job *j, char **step, bool program,
			 struct warren_error *err)
{
	uint64_t spent = (clock_now() - j->begun) / 1000000;
	const uint64_t time = j->plan.limits.timeout_ms;
	AUTO_FREE const char **argv = calloc(strv_len(step) + 1, sizeof(*argv));
	struct warren_exec_spec spec = { .argv = argv,
					 .env = (const char *const *)j->plan.env,
					 .cwd = CODE_DIR,
					 .out = WARREN_STDIO_PIPE,
					 .err = WARREN_STDIO_PIPE,
					 .timeout_ms = spent < time ? time - spent : 1 };
	struct warren_exec *ex = NULL;
	char tool[256];
	int r = -ENOENT;

	if (!argv)
		return error_errno(err, ENOMEM, "run the program");
	(void)memcpy(argv, step, strv_len(step) * sizeof(*argv));
	if (program && j->plan.input)
		spec.in = WARREN_STDIO_PIPE;
	for (size_t i = 0; r == -ENOENT && code_step_tool(step[0], i, tool, sizeof(tool));
	     i++) {
		argv[0] = tool;
		r = warren_exec(j->sb, &spec, &ex, err);
	}
	if (r == -ENOENT)
		return 1;
	if (r < 0)
		return r;
	r = code_job_pump(j, ex, &j->to->exec, err);
	(void)warren_exec_free(ex);
	return r;
}

static void code_job_fill(struct code_job *j, bool compiler)
{
	const struct warren_result *r = &j->to->exec;
	char text[96];

	j->to->compiler = compiler;
	j->to->duration_usec = (clock_now() - j->begun) / 1000;
	j->to->exit_code = r->signal ? 128 + r->signal : r->exit_code;
	if (!r->timed_out)
		return;
	j->to->exit_code = CODE_TIMED_OUT;
	(void)snprintf(text, sizeof(text), "Execution timed out after %ju ms\n",
		       (uintmax_t)j->plan.limits.timeout_ms);
	buf_puts(&j->output[1], text);
}

static void code_job_reset(struct code_job *j)
{
	for (int i = 0; i < 2; i++) {
		j->output[i].len = 0;
		j->to->output[i].truncated = false;
	}
}

static int code_job_run(struct code_job *j, struct warren_error *err)
{
	const struct code_plan *p = &j->plan;
	bool alone = false;
	int r = 0;

	j->begun = clock_now();
	if (p->compile) {
		r = code_job_step(j, p->compile, false, err);
		alone = r == 1 && p->run_alone;
		if (r == 1 && !alone)
			return code_job_missing(j, p->compile[0], err);
		if (r < 0)
			return r;
		if (r == 0 && (j->to->exec.exit_code != 0 || j->to->exec.timed_out)) {
			code_job_fill(j, true);
			return 0;
		}
		code_job_reset(j);
	}
	r = code_job_step(j, alone ? p->run_alone : p->run, true, err);
	if (r == 1)
		return code_job_missing(j, alone ? p->run_alone[0] : p->run[0], err);
	if (r == 0 && alone && j->to->exec.exit_code == CODE_BAD_OPTION &&
	    j->output[1].len > 0 && strstr(j->output[1].data, "bad option"))
		return code_job_missing(j, p->compile[0], err);
	if (r == 0)
		code_job_fill(j, false);
	return r;
}

/* ------------------------------------------------------------------ sandbox */

static int code_job_create(struct code_job *j, struct warren *w,
			   const struct warren_code *code, struct warren_error *err)
{
	const struct code_plan *p = &j->plan;
	const struct warren_mount mounts[] = { { .target = CODE_DIR,
						 .size = p->limits.disk },
					       { .target = "/tmp", .size = p->tmp } };
	struct warren_spec spec = { .image = p->image,
				    .workdir = CODE_DIR,
				    .network = WARREN_NETWORK_NONE,
				    .read_only = true,
				    .memory = p->limits.memory,
				    .pids = p->limits.pids,
				    .disk = CODE_DISK_MIN,
				    .mounts = mounts,
				    .n_mounts = ARRAY_SIZE(mounts) };

	/* A limit that the caller sets is enforced, or the run is refused. */
	spec.soft_limits = WARREN_LIMIT_DISK | (code->memory ? 0 : WARREN_LIMIT_MEMORY) |
			   (code->pids ? 0 : WARREN_LIMIT_PIDS);
	return warren_create(w, &spec, &j->sb, err);
}

/* Make a copy, because the sandbox is gone when the caller reads it. */
static int code_job_enforced(struct code_job *j, struct warren_error *err)
{
	struct warren_code_result *to = j->to;
	size_t n = 0;
	const struct warren_enforcement *e = warren_enforced(j->sb, &n);

	to->enforced = calloc(n + 1, sizeof(*to->enforced));
	for (size_t i = 0; to->enforced && i < n; i++) {
		to->enforced[i] = e[i];
		to->enforced[i].name = strdup(e[i].name);
		if (!to->enforced[i].name)
			break;
		to->n_enforced = i + 1;
	}
	return to->enforced && to->n_enforced == n
		       ? 0
		       : error_errno(err, ENOMEM, "run the program");
}

/* Create the directories of the files, with the image's mkdir. */
static int code_job_make_dir(struct code_job *j, const char *name,
			     struct warren_error *err)
{
	AUTO_FREE char *dir = strndup(name, (size_t)(strrchr(name, '/') - name));
	const char *const argv[] = { "mkdir", "-p", "--", dir, NULL };
	const struct warren_exec_spec spec = { .argv = argv, .cwd = CODE_DIR };
	struct warren_result result = { 0 };
	struct warren_exec *ex = NULL;
	int r;

	if (!dir)
		return error_errno(err, ENOMEM, "write the program");
	r = warren_exec(j->sb, &spec, &ex, err);
	if (r < 0)
		return r;
	r = warren_exec_wait(ex, -1, &result, err);
	(void)warren_exec_free(ex);
	if (r < 0)
		return r;
	return result.exit_code == 0
		       ? 0
		       : error_set(err, EINVAL,
				   "files: the directory '%s' cannot be created", dir);
}

static int code_job_write_files(struct code_job *j, struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < j->plan.n_files; i++) {
		const struct code_file *f = &j->plan.files[i];
		AUTO_FREE char *path = NULL;

		if (asprintf(&path, CODE_DIR "/%s", f->name) < 0)
			return error_errno(err, ENOMEM, "write the program");
		if (strchr(f->name, '/'))
			r = code_job_make_dir(j, f->name, err);
		if (r == 0)
			r = warren_file_write(j->sb, path, f->data, f->size, 0644, err);
	}
	return r;
}

static int code_job_finish(struct code_job *j, struct warren_error *err)
{
	for (int i = 0; i < 2; i++) {
		buf_add(&j->output[i], "", 1);
		if (j->output[i].failed)
			return error_errno(err, ENOMEM, "store the output");
		j->to->output[i].size = j->output[i].len - 1;
		j->to->output[i].data = TAKE_PTR(j->output[i].data);
	}
	return 0;
}

void warren_code_done(struct warren_code_result *result)
{
	for (int i = 0; i < 2; i++)
		free(result->output[i].data);
	for (size_t i = 0; i < result->n_artifacts; i++) {
		free((char *)result->artifacts[i].name);
		free((char *)result->artifacts[i].data);
	}
	free(result->artifacts);
	for (size_t i = 0; i < result->n_enforced; i++)
		free((char *)result->enforced[i].name);
	free(result->enforced);
	*result = (struct warren_code_result){ 0 };
}

static int code_job_plan(const struct warren_code *code, struct code_plan *ret,
			 struct warren_error *err)
{
	const struct code_settings settings = { .defaults = code_default_limits };
	const struct code_request q = {
		.language = code->language ? code->language : "",
		.code = code->code,
		.code_size = code->code_size ? code->code_size
			     : code->code    ? strlen(code->code)
					     : 0,
		.args = code->args,
		.env = code->env,
		.input = code->input,
		.input_size = code->input_size,
		.files = (const struct code_file *)code->files,
		.n_files = code->n_files,
		.artifacts = code->artifacts,
		.limits = { code->timeout_ms, code->memory, code->disk, code->pids },
		.max_output = code->max_output,
		.image = code->image,
	};
	struct warren_error why = WARREN_ERROR_INIT;
	int r = code_plan_make(&settings, &q, ret, &why);

	return r < 0 ? code_job_refuse(&why, err) : 0;
}

int warren_code(struct warren *w, const struct warren_code *code,
		struct warren_code_result *ret, struct warren_error *err)
{
	struct warren_code_result result = { .artifacts_complete = true };
	struct code_job j = { .to = &result };
	struct warren_error ignored = WARREN_ERROR_INIT;
	int r = code_job_plan(code, &j.plan, err);

	if (r < 0)
		return r;
	for (int i = 0; i < 2; i++)
		j.output[i] = (struct buf)BUF_INIT((size_t)j.plan.max_output + 128);
	j.piece = malloc(CODE_PIECE);
	r = j.piece ? code_job_create(&j, w, code, err)
		    : error_errno(err, ENOMEM, "run the program");
	if (r == 0)
		r = code_job_enforced(&j, err);
	if (r == 0)
		r = code_job_write_files(&j, err);
	if (r == 0)
		r = code_job_run(&j, err);
	if (r == 0 && j.plan.artifacts)
		r = code_artifacts_read(j.sb, &j.plan, &result, err);
	if (r == 0)
		r = code_job_finish(&j, err);
	if (j.sb)
		(void)warren_destroy(j.sb, &ignored);
	for (int i = 0; i < 2; i++)
		buf_done(&j.output[i]);
	free(j.piece);
	code_plan_done(&j.plan);
	if (r < 0)
		warren_code_done(&result);
	else
		*ret = result;
	return r;
}
