/* SPDX-License-Identifier: Apache-2.0 */
/*
 * null.c - no isolation at all: commands run as children of ours, on the machine itself
 *
 * It keeps the contract of execs (streams, results, deadlines, signals) and
 * nothing else, so that what core does over exec can be tested against the
 * least a backend may bring. It enforces nothing, says so, and refuses a spec
 * that asks for anything to be enforced. Never use it for code you do not trust.
 *
 * A deadline is watched by the exec's first process' parent, a guard of ours:
 * engine -> guard (a session of its own) -> command.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/fd.h"

struct null_box {
	struct backend_box base;
	char *workdir;
	char **env;
};

/* What a guard reports: first whether the exec worked, then the result. */
struct report {
	int error; /* errno of execve(2), 0 when it worked */
	int status;
	bool timed_out;
	struct rusage ru;
	uint64_t wall_usec;
};

struct null_exec {
	struct backend_exec base;
	pid_t guard; /* leads the process group of the exec */
	int reports;
	bool done;
	struct report result;
};

static int null_open(const struct warren_options *options UNUSED, void **ret_state,
		     struct warren_error *err UNUSED)
{
	*ret_state = NULL;
	return 0;
}

static void null_close(void *state UNUSED)
{
}

static int null_probe(void *state UNUSED, struct warren_feature *features,
		      struct warren_error *err UNUSED)
{
	features[0] = (struct warren_feature){ .name = "isolation",
					       .effect = "everything runs on the machine itself" };
	return 1;
}

static void free_list(char **list)
{
	for (char **p = list; p && *p; p++)
		free(*p);
	free(list);
}

static char **merge_env(const char *const *a, const char *const *b)
{
	const char *const *lists[] = { a, b };
	size_t n = 0, at = 0;
	char **out;

	for (size_t i = 0; i < 2; i++)
		for (const char *const *p = lists[i]; p && *p; p++)
			n++;
	out = calloc(n + 2, sizeof(*out));
	if (!out)
		return NULL;
	for (size_t i = 0; i < 2; i++) {
		for (const char *const *p = lists[i]; p && *p; p++) {
			size_t len = strcspn(*p, "="), k = 0;

			while (k < at && !(strncmp(out[k], *p, len + 1) == 0))
				k++;
			free(out[k]);
			out[k] = strdup(*p);
			if (!out[k]) {
				free_list(out);
				return NULL;
			}
			at += k == at;
		}
	}
	return out;
}

static int null_create(void *state UNUSED, const struct warren_spec *spec,
		       struct backend_box **ret_box, struct warren_error *err)
{
	static const char *const path[] = { "PATH=/usr/local/bin:/usr/bin:/bin", NULL };
	struct null_box *box;

	if (spec->memory || spec->cpu_millis || spec->pids || spec->disk || spec->nofile ||
	    spec->read_only || spec->n_mounts || spec->hostname || spec->user ||
	    (spec->image && strcmp(spec->image, "host") != 0))
		return error_set(err, EOPNOTSUPP, "backend 'null' enforces nothing");
	box = calloc(1, sizeof(*box));
	if (!box)
		return error_errno(err, ENOMEM, "make a sandbox");
	id_make(box->base.id);
	box->workdir = strdup(spec->workdir ? spec->workdir : "/");
	box->env = merge_env(path, spec->env);
	backend_enforce(&box->base, "isolation", false, "none: this is the machine itself");
	if (!box->workdir || !box->env) {
		free(box->workdir);
		free_list(box->env);
		free(box);
		return error_errno(err, ENOMEM, "make a sandbox");
	}
	*ret_box = &box->base;
	return 0;
}

static int null_destroy(void *state UNUSED, struct backend_box *base,
			struct warren_error *err UNUSED)
{
	struct null_box *box = (struct null_box *)base;

	free(box->workdir);
	free_list(box->env);
	free(box);
	return 0;
}

/* ------------------------------------------------------------------- execs */

__attribute__((noreturn)) static void run_command(const struct warren_exec_spec *spec,
						  const char *cwd, char **env, const int *stdio,
						  int failed)
{
	sigset_t none;
	int code;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	for (int i = 0; i < 3; i++)
		(void)dup2(stdio[i], i);
	if (chdir(cwd) < 0) {
		code = ENOTDIR;
	} else {
		(void)execvpe(spec->argv[0], (char *const *)(uintptr_t)spec->argv, env);
		code = errno;
	}
	(void)fd_write_all(failed, &code, sizeof(code));
	_exit(127);
}

/* Wait for @pid until @deadline (0: none), then kill the group we lead. */
static void watch(pid_t pid, uint64_t deadline, struct report *rep)
{
	sigset_t chld;

	(void)sigemptyset(&chld);
	(void)sigaddset(&chld, SIGCHLD);
	while (wait4(pid, &rep->status, WNOHANG, &rep->ru) != pid) {
		struct timespec left = { .tv_sec = 3600 };
		uint64_t t = clock_now();

		if (deadline && t >= deadline) {
			rep->timed_out = true;
			(void)kill(pid, SIGKILL);
			deadline = 0;
			continue;
		}
		if (deadline) {
			left.tv_sec = (time_t)((deadline - t) / 1000000000);
			left.tv_nsec = (long)((deadline - t) % 1000000000);
		}
		(void)sigtimedwait(&chld, NULL, &left);
	}
}

__attribute__((noreturn)) static void guard_main(const struct warren_exec_spec *spec,
						 const char *cwd, char **env, const int *stdio,
						 int reports)
{
	struct report rep = { 0 };
	uint64_t started = clock_now();
	int failed[2];
	sigset_t all;
	pid_t pid;

	(void)setsid();
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, NULL);
	if (pipe2(failed, O_CLOEXEC) < 0)
		_exit(1);
	pid = fork();
	if (pid == 0)
		run_command(spec, cwd, env, stdio, failed[1]);
	(void)close(failed[1]);
	for (int i = 0; i < 3; i++)
		(void)close(stdio[i]); /* or its streams would never end */
	if (pid < 0)
		rep.error = errno;
	else
		(void)fd_read_all(failed[0], &rep.error, sizeof(rep.error));
	(void)fd_write_all(reports, &rep, sizeof(rep));
	if (rep.error)
		_exit(1);
	watch(pid, spec->timeout_ms ? started + spec->timeout_ms * 1000000 : 0, &rep);
	rep.wall_usec = (clock_now() - started) / 1000;
	(void)fd_write_all(reports, &rep, sizeof(rep));
	if (rep.timed_out)
		(void)kill(0, SIGKILL); /* what the command started, and us: the report is out */
	_exit(0);
}

static int open_stream(enum warren_stdio how, int which, int *ours, int *theirs)
{
	int ends[2];

	if (how == WARREN_STDIO_NULL) {
		*theirs = open("/dev/null", O_RDWR | O_CLOEXEC);
		return *theirs < 0 ? -errno : 0;
	}
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	*ours = ends[which == 0];
	*theirs = ends[which != 0];
	return 0;
}

static void null_exec_free(struct backend_exec *base)
{
	struct null_exec *ex = (struct null_exec *)base;

	for (int i = 0; i < 3; i++)
		if (base->fd[i] >= 0)
			(void)close(base->fd[i]);
	if (ex->reports >= 0)
		(void)close(ex->reports);
	if (ex->guard > 0 && ex->done)
		(void)waitpid(ex->guard, NULL, 0);
	free(ex);
}

static int start_guard(struct null_exec *ex, const struct null_box *box,
		       const struct warren_exec_spec *spec, const int *theirs,
		       struct warren_error *err)
{
	char **env = merge_env((const char *const *)box->env, spec->env);
	int reports[2];

	if (!env)
		return error_errno(err, ENOMEM, "start '%s'", spec->argv[0]);
	if (pipe2(reports, O_CLOEXEC) < 0) {
		free_list(env);
		return error_errno(err, errno, "start '%s'", spec->argv[0]);
	}
	ex->guard = fork();
	if (ex->guard == 0) {
		(void)close(reports[0]);
		for (int i = 0; i < 3; i++)
			if (ex->base.fd[i] >= 0)
				(void)close(ex->base.fd[i]);
		guard_main(spec, spec->cwd ? spec->cwd : box->workdir, env, theirs, reports[1]);
	}
	free_list(env);
	(void)close(reports[1]);
	ex->reports = ex->base.wait_fd = reports[0];
	if (ex->guard < 0)
		return error_errno(err, errno, "start '%s'", spec->argv[0]);
	if (fd_read_all(ex->reports, &ex->result, sizeof(ex->result)) != sizeof(ex->result))
		return error_set(err, EIO, "start '%s': the guard died", spec->argv[0]);
	if (ex->result.error) {
		ex->done = true;
		return error_errno(err, ex->result.error, "execute '%s'", spec->argv[0]);
	}
	return 0;
}

static int null_exec(void *state UNUSED, struct backend_box *base,
		     const struct warren_exec_spec *spec, struct backend_exec **ret_exec,
		     struct warren_error *err)
{
	const enum warren_stdio how[3] = { spec->in, spec->out, spec->err };
	struct null_exec *ex = calloc(1, sizeof(*ex));
	int theirs[3] = { -1, -1, -1 };
	int r = 0;

	if (!ex)
		return error_errno(err, ENOMEM, "start '%s'", spec->argv[0]);
	ex->base = (struct backend_exec){ { -1, -1, -1 }, -1, -1 };
	ex->reports = -1;
	if (spec->user)
		r = error_set(err, EOPNOTSUPP, "backend 'null' has no users");
	for (int i = 0; r == 0 && i < 3; i++) {
		r = open_stream(how[i], i, &ex->base.fd[i], &theirs[i]);
		if (r < 0)
			r = error_errno(err, -r, "open a stream");
	}
	if (r == 0)
		r = start_guard(ex, (struct null_box *)base, spec, theirs, err);
	for (int i = 0; i < 3; i++)
		if (theirs[i] >= 0)
			(void)close(theirs[i]);
	if (r < 0) {
		null_exec_free(&ex->base);
		return r;
	}
	*ret_exec = &ex->base;
	return 0;
}

static uint64_t usec(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000 + (uint64_t)tv->tv_usec;
}

static int null_exec_wait(struct backend_exec *base, int64_t timeout_ms, struct warren_result *ret,
			  struct warren_error *err)
{
	struct null_exec *ex = (struct null_exec *)base;
	struct pollfd p = { .fd = ex->reports, .events = POLLIN };
	const struct report *rep = &ex->result;

	if (!ex->done) {
		int r = poll(&p, 1, timeout_ms < 0 ? -1 : (int)timeout_ms);

		if (r == 0 || (r < 0 && errno == EINTR))
			return 0;
		if (fd_read_all(ex->reports, &ex->result, sizeof(ex->result)) != sizeof(ex->result))
			return error_set(err, ESRCH, "the guard died");
		ex->done = true;
	}
	*ret = (struct warren_result){
		.exit_code = WIFEXITED(rep->status) ? WEXITSTATUS(rep->status) : -1,
		.signal = WIFSIGNALED(rep->status) ? WTERMSIG(rep->status) : 0,
		.timed_out = rep->timed_out,
		.wall_usec = rep->wall_usec,
		.user_usec = usec(&rep->ru.ru_utime),
		.system_usec = usec(&rep->ru.ru_stime),
		.max_memory = (uint64_t)rep->ru.ru_maxrss * 1024,
		.read_bytes = (uint64_t)rep->ru.ru_inblock * 512,
		.written_bytes = (uint64_t)rep->ru.ru_oublock * 512,
	};
	return 1;
}

/* The guard blocks what can be blocked; SIGKILL to the group takes it along. */
static int null_exec_signal(struct backend_exec *base, int sig, struct warren_error *err)
{
	struct null_exec *ex = (struct null_exec *)base;

	if (ex->done || kill(-ex->guard, sig) < 0)
		return error_set(err, ESRCH, "it has ended");
	if (sig == SIGKILL) {
		ex->result = (struct report){ .status = SIGKILL };
		ex->done = true;
	}
	return 0;
}

const struct backend_ops backend_null = {
	.name = "null",
	.open = null_open,
	.close = null_close,
	.probe = null_probe,
	.create = null_create,
	.destroy = null_destroy,
	.exec = null_exec,
	.exec_wait = null_exec_wait,
	.exec_signal = null_exec_signal,
	.exec_free = null_exec_free,
};
