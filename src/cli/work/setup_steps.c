/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setup_steps.c - run the steps of a setup in a sandbox, with a line of progress for each
 *
 * The output of a step is read by a thread, which keeps its end, to show it if the step
 * fails, and which updates the time on a terminal. What the steps write to the root and
 * to the project goes to the directories of the new layer.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strv.h"
#include "cli/command.h"
#include "cli/run_result.h"
#include "cli/work/setup_print.h"
#include "cli/work/setup_run.h"
#include "cli/work/work_run.h"

#define TAIL_SIZE  ((size_t)16384)
#define TAIL_LINES 20
#define TICK_MS    1000

/*
 * A shell that waits for its command in the foreground would notice a signal only after
 * the end of the command.
 */
static const char step_wait[] = "\"$@\" &\n"
				"trap 'exit 129' HUP; trap 'exit 130' INT\n"
				"trap 'exit 143' TERM; wait $!";

/* Tools neither ask questions nor print what is not read. */
static const char *const step_env[] = {
	"CI=1",
	"DEBIAN_FRONTEND=noninteractive",
	"PIP_BREAK_SYSTEM_PACKAGES=1",
	"PIP_ROOT_USER_ACTION=ignore",
	"PIP_DISABLE_PIP_VERSION_CHECK=1",
	"PIP_NO_INPUT=1",
	"npm_config_audit=false",
	"npm_config_fund=false",
	"npm_config_update_notifier=false",
	"COREPACK_ENABLE_DOWNLOAD_PROMPT=0",
};

/* A step that runs. */
struct step_run {
	const struct setup_work *w;
	const char *label; /* "npm ci (web/)" */
	const char *what;  /* "" or "verify " */
	int fd;            /* its output */
	bool terminal;     /* stderr */
	uint64_t started_ms;
	char tail[TAIL_SIZE];
	size_t n_tail;
};

static uint64_t step_now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --------------------------------------------------------------- progress */

/* Print "  npm ci (web/)  12.3 s"; @end "" while the step runs. */
static void step_say(const struct step_run *s, const char *end)
{
	struct buf AUTO_BUF out = BUF_INIT(4096);
	uint64_t ms = step_now_ms() - s->started_ms;

	if (s->w->o->options->quiet)
		return;
	buf_printf(&out, "%swarren %s: %s%s  %ju.%ju s%s", s->terminal ? "\r" : "",
		   s->w->o->command, s->what, s->label, (uintmax_t)(ms / 1000),
		   (uintmax_t)(ms % 1000 / 100), end);
	if (!out.failed)
		(void)fd_write_all(STDERR_FILENO, out.data, out.len);
}

static void step_keep_tail(struct step_run *s, const char *data, size_t n)
{
	size_t drop = s->n_tail + n > TAIL_SIZE ? s->n_tail + n - TAIL_SIZE : 0;

	if (drop > s->n_tail)
		drop = s->n_tail;
	(void)memmove(s->tail, s->tail + drop, s->n_tail - drop);
	s->n_tail -= drop;
	(void)memcpy(s->tail + s->n_tail, data, n);
	s->n_tail += n;
}

/* The thread: read until the last writer has closed the pipe. */
static void *step_read(void *ctx)
{
	struct step_run *s = ctx;
	char data[4096];

	for (;;) {
		struct pollfd p = { .fd = s->fd, .events = POLLIN };
		ssize_t n;

		if (poll(&p, 1, s->terminal ? TICK_MS : -1) == 0) {
			step_say(s, "");
			continue;
		}
		n = read(s->fd, data, sizeof(data));
		if (n == 0 || (n < 0 && errno != EINTR))
			return NULL;
		if (n > 0)
			step_keep_tail(s, data, (size_t)n);
	}
}

/* The last lines of the output, in which nothing controls the terminal. */
static void step_show_tail(const struct step_run *s)
{
	struct buf AUTO_BUF out = BUF_INIT(2 * TAIL_SIZE);
	size_t at = s->n_tail, lines = 0;

	while (at > 0 &&
	       (s->tail[at - 1] != '\n' || at == s->n_tail || ++lines < TAIL_LINES))
		at--;
	buf_puts(&out, "");
	setup_print_lines(&out, "    ", s->tail + at, s->n_tail - at);
	if (!out.failed)
		(void)fd_write_all(STDERR_FILENO, out.data, out.len);
}

/* ------------------------------------------------------------------ a step */

/* Text for the shell that checks for the program first. */
static char *step_script(const struct setup_work *w, const struct setup_step *step,
			 const char *run)
{
	const char *image = w->ready->image;
	char *text = NULL;

	if (!step->needs)
		return strdup(run);
	if (asprintf(
		    &text,
		    "command -v %s >/dev/null || { echo 'the image has no %s%s: choose "
		    "another one (--image, or image: in warren.yaml)' >&2; exit 127; }\n%s",
		    step->needs, step->needs,
		    image && strcmp(image, "host") != 0
			    ? ""
			    : " (programs in your home directory are hidden)",
		    run) < 0)
		return NULL;
	return text;
}

static int step_exec(struct setup_work *w, struct work_sandbox *sb,
		     const struct setup_step *step, const char *run, struct step_run *s,
		     struct warren_result *ret, struct warren_error *err)
{
	AUTO_FREE char *script = step_script(w, step, run);
	AUTO_FREE char *cwd = NULL;
	/* The commands of devcontainer.json go on after a failure, as elsewhere. */
	const char *argv[] = {
		"/bin/sh", "-c",
		step_wait, "sh",
		"/bin/sh", w->ready->plan.source == SETUP_DEVCONTAINER ? "-c" : "-ec",
		script,    NULL
	};
	pthread_t thread;
	int fds[2], r;

	if (asprintf(&cwd, "%s%s%s", w->ready->workdir, step->dir[0] ? "/" : "",
		     step->dir) < 0)
		cwd = NULL;
	if (!script || !cwd)
		return error_errno(err, ENOMEM, "run a step");
	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_errno(err, errno, "create a pipe");
	s->fd = fds[0];
	r = pthread_create(&thread, NULL, step_read, s);
	if (r != 0) {
		(void)close(fds[0]);
		(void)close(fds[1]);
		return error_errno(err, r, "start a thread");
	}
	r = work_sandbox_exec(
		sb, &(struct work_exec){ .argv = argv, .cwd = cwd, .output = fds[1] },
		ret, err);
	(void)close(fds[1]);
	(void)pthread_join(thread, NULL);
	(void)close(fds[0]);
	return r;
}

/* The user looks at what a failed step has left. */
static void step_offer_shell(struct setup_work *w, struct work_sandbox *sb,
			     struct run_options *o)
{
	const char *const shell[] = { "/bin/sh", NULL };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_result result = { 0 };
	char answer[8] = "";

	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return;
	(void)fprintf(stderr, "Open a shell in the sandbox of the setup? [y/N] ");
	if (!fgets(answer, sizeof(answer), stdin) ||
	    (answer[0] != 'y' && answer[0] != 'Y'))
		return;
	o->tty = o->interactive = true;
	if (work_sandbox_exec(sb,
			      &(struct work_exec){ .argv = shell,
						   .cwd = w->ready->workdir,
						   .output = -1 },
			      &result, &err) < 0)
		message_say(w->o->command, "%s", err.msg);
	o->tty = o->interactive = false;
}

/* The signal that interrupted a step; 0: none. */
static int step_signal(const struct work_sandbox *sb, int status)
{
	bool killed;

	if (status == STATUS_SIGNAL + SIGHUP || status == STATUS_SIGNAL + SIGINT ||
	    status == STATUS_SIGNAL + SIGTERM)
		return status - STATUS_SIGNAL;
	return work_sandbox_signal(sb, &killed);
}

static int step_run(struct setup_work *w, struct work_sandbox *sb, struct run_options *o,
		    const struct setup_step *step, bool verify, struct warren_error *err)
{
	struct buf AUTO_BUF label = BUF_INIT(2048);
	struct step_run *s = calloc(1, sizeof(*s));
	struct warren_result result = { 0 };
	int r, status, sig;

	setup_print_step(&label, step);
	if (!s || label.failed) {
		free(s);
		return error_errno(err, ENOMEM, "run a step");
	}
	s->w = w;
	s->label = label.data;
	s->what = verify ? "verify " : "";
	s->terminal = isatty(STDERR_FILENO);
	s->started_ms = step_now_ms();
	r = step_exec(w, sb, step, verify ? step->verify : step->run, s, &result, err);
	status = result_status(&result);
	sig = step_signal(sb, status);
	if (r == 0 && sig && w->o->signal)
		*w->o->signal = sig;
	if (r == 0 && status == 0 && !sig) {
		step_say(s, "\n");
	} else if (r == 0 && sig) {
		step_say(s, "\n");
		r = error_set(err, EINTR, "interrupted during the setup");
	} else if (r == 0) {
		step_say(s, "  failed:\n");
		step_show_tail(s);
		r = error_set(err, EIO,
			      "setup: %s'%.200s' failed with status %d; 'warren work "
			      "--no-setup' starts without it",
			      s->what, s->label, status);
		if (!w->o->options->quiet)
			work_sandbox_say_denied(sb);
		step_offer_shell(w, sb, o);
	}
	free(s);
	return r;
}

/* ----------------------------------------------------------------- sandbox */

/* Environment, network and limits: nothing of the user's environment. */
static int setup_steps_options(const struct setup_work *w, struct run_options *o,
			       struct warren_error *err)
{
	const struct run_options *given = w->o->options;
	int r = 0;

	o->image = w->ready->image; /* borrowed */
	o->user = w->ready->user;
	o->workdir = w->ready->workdir;
	o->quiet = true;
	o->network.mode = setup_ready_network(w->o);
	o->network.rules = given->network.rules; /* borrowed */
	(void)memcpy(o->limits, given->limits, sizeof(o->limits));
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(step_env); i++)
		r = env_list_add(&o->env, step_env[i], err);
	for (char **v = w->ready->env; r == 0 && v && *v; v++)
		r = env_list_add(&o->env, *v, err);
	return r;
}

static int setup_steps_in(struct setup_work *w, struct work_sandbox *sb,
			  struct run_options *o, struct warren_error *err)
{
	const struct setup_steps *steps = &w->ready->plan.steps;
	int r = 0;

	for (size_t i = w->first; r == 0 && i < w->end; i++)
		if (!steps->v[i].start)
			r = step_run(w, sb, o, &steps->v[i], false, err);
	for (size_t i = w->verify_first; r == 0 && i < w->end; i++)
		if (!steps->v[i].start && steps->v[i].verify)
			r = step_run(w, sb, o, &steps->v[i], true, err);
	return r;
}

/* Layers of a base, below the layers that hide files. */
static int setup_steps_layers(const struct setup_work *w, char ***ret)
{
	int r = w->o->hide ? strv_add(ret, w->o->hide) : 0;

	for (char **v = w->ready->project_layers; r == 0 && v && *v; v++)
		r = strv_add(ret, *v);
	return r;
}

int setup_steps_run(struct setup_work *w, struct warren_error *err)
{
	AUTO_FREE char *root = NULL, *project = NULL;
	char AUTO_STRV **layers = NULL;
	struct run_options o = { 0 };
	struct warren_mount mount = { .source = w->o->project,
				      .source_fd = w->o->project_fd,
				      .target = w->ready->workdir };
	struct work_sandbox_options sandbox = {
		.command = w->o->command, .options = &o, .mounts = &mount, .n_mounts = 1
	};
	struct work_sandbox *sb = NULL;
	uint64_t started = step_now_ms();
	int r;

	if (asprintf(&root, "%s/%s/root", w->store_path, w->made->name) < 0)
		root = NULL;
	if (asprintf(&project, "%s/%s/project", w->store_path, w->made->name) < 0)
		project = NULL;
	if (!root || !project || setup_steps_layers(w, &layers) < 0)
		return error_errno(err, ENOMEM, "run the setup");
	mount.writes = project;
	mount.layers = (const char *const *)layers;
	mount.below = (const char *const *)w->ready->below_layers;
	sandbox.writes = root;
	sandbox.layers = (const char *const *)w->ready->root_layers;
	r = setup_steps_options(w, &o, err);
	if (r == 0)
		r = work_sandbox_open(&sandbox, &sb, w->o->signal, err);
	if (r == 0)
		r = setup_steps_in(w, sb, &o, err);
	sb = work_sandbox_close(sb);
	env_list_done(&o.env);
	w->took_ms = step_now_ms() - started;
	return r;
}
