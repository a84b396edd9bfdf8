/* SPDX-License-Identifier: Apache-2.0 */
/*
 * null.c - no isolation at all: commands run as children of the engine, directly on the
 * host
 *
 * It implements only execs (streams, results, deadlines, signals), so that the parts of
 * core that work through exec can be tested against a minimal backend. It enforces
 * nothing, reports that, and refuses a spec with limits. Never use it for code you do not
 * trust.
 *
 * A guard process, the parent of the command, enforces the deadline: engine -> (gone) ->
 * guard (leads its own session) -> command. The guard's own parent has exited, so that an
 * abandoned exec leaves no zombie in the engine.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/default_path.h"
#include "base/fd.h"
#include "base/strv.h"
#include "os/sig.h"
#include "spec/spec.h"

#define FOR_EVER_MS (1ULL << 42) /* about a hundred years */

struct null_exec;

struct null_sandbox {
	struct backend_sandbox base;
	struct null_exec *execs;
	char *workdir;
	char **env;
};

/* Report of a child whose step before execve(2) failed. */
struct failure {
	int error;
	bool cwd; /* whether the directory was the cause */
};

/* Report of a guard: first whether the exec worked, later the result. */
struct report {
	struct failure failure;
	pid_t guard, pid;
	int status;
	bool timed_out;
	struct rusage ru;
	uint64_t wall_usec;
};

struct null_exec {
	struct backend_exec base;
	struct null_sandbox *sandbox; /* NULL if the sandbox is gone */
	struct null_exec *next;
	int reports;
	bool done;
	bool forgotten; /* its caller has freed it */
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
	features[0] =
		(struct warren_feature){ .name = "isolation",
					 .effect = "commands run directly on the host" };
	return 1;
}

static char **merge_env(const char *const *a, const char *const *b)
{
	const char *const *lists[] = { a, b };
	size_t at = 0;
	char **out;

	out = calloc(strv_len(a) + strv_len(b) + 2, sizeof(*out));
	if (!out)
		return NULL;
	for (size_t i = 0; i < 2; i++) {
		for (const char *const *p = lists[i]; p && *p; p++) {
			size_t len = strcspn(*p, "="), k = 0;

			while (k < at && !(strncmp(out[k], *p, len + 1) == 0))
				k++;
			free(out[k]);
			out[k] = strdup(*p);
			if (!out[k])
				return strv_free(out);
			at += k == at;
		}
	}
	return out;
}

static int null_create(void *state UNUSED, const struct warren_spec *spec,
		       struct backend_sandbox **ret_sandbox, struct warren_error *err)
{
	static const char *const path[] = { DEFAULT_PATH_ENV, NULL };
	struct null_sandbox *sandbox;

	if (spec_limit_beyond(spec, 0, 0) < SPEC_LIMIT_MAX || spec->read_only ||
	    spec->n_mounts || spec->network != WARREN_NETWORK_LOOPBACK ||
	    spec->hostname || spec->user ||
	    (spec->image && strcmp(spec->image, "host") != 0))
		return error_set(err, EOPNOTSUPP, "backend 'null' enforces nothing");
	sandbox = calloc(1, sizeof(*sandbox));
	if (!sandbox)
		return error_errno(err, ENOMEM, "allocate a sandbox");
	id_make(sandbox->base.id);
	sandbox->workdir = strdup(spec->workdir ? spec->workdir : "/");
	sandbox->env = merge_env(path, spec->env);
	backend_enforce(&sandbox->base, "isolation", false,
			"none: commands run directly on the host");
	if (!sandbox->workdir || !sandbox->env) {
		free(sandbox->workdir);
		(void)strv_free(sandbox->env);
		free(sandbox);
		return error_errno(err, ENOMEM, "allocate a sandbox");
	}
	*ret_sandbox = &sandbox->base;
	return 0;
}

static void null_exec_release(struct null_exec *ex)
{
	if (ex->reports >= 0)
		(void)close(ex->reports);
	free(ex);
}

static int null_destroy(void *state UNUSED, struct backend_sandbox *base,
			struct warren_error *err UNUSED)
{
	struct null_sandbox *sandbox = (struct null_sandbox *)base;
	struct null_exec *next;

	/*
	 * Processes that left the guard's session cannot be found: this backend isolates
	 * nothing.
	 */
	for (struct null_exec *ex = sandbox->execs; ex; ex = next) {
		next = ex->next;
		ex->sandbox = NULL;
		if (!ex->done) {
			(void)kill(-ex->result.guard, SIGKILL);
			ex->result.status = SIGKILL;
			ex->done = true;
		}
		if (ex->forgotten)
			null_exec_release(ex);
	}
	free(sandbox->workdir);
	(void)strv_free(sandbox->env);
	free(sandbox);
	return 0;
}

/* ------------------------------------------------------------------- commands */

/* Like execvpe(3), but with the exec's own PATH, and without the fallback to a shell. */
static int null_execute(const char *const *argv, char **env)
{
	char *const *args = (char *const *)(uintptr_t)argv;
	const char *path = "";
	char file[4096];
	int seen = ENOENT;

	for (char **e = env; *e; e++)
		if (strncmp(*e, "PATH=", 5) == 0)
			path = *e + 5;
	if (strchr(argv[0], '/')) {
		(void)execve(argv[0], args, env);
		return errno;
	}
	while (*path) {
		size_t n = strcspn(path, ":");

		if (n > 0 && snprintf(file, sizeof(file), "%.*s/%s", (int)n, path,
				      argv[0]) < (int)sizeof(file)) {
			(void)execve(file, args, env);
			if (errno == EACCES)
				seen = EACCES;
			else if (errno != ENOENT && errno != ENOTDIR)
				return errno;
		}
		path += n + (path[n] == ':');
	}
	return seen;
}

__attribute__((noreturn)) static void
null_run_command(const struct warren_exec_spec *spec, const char *cwd, char **env,
		 const int *stdio, int failed)
{
	struct failure f = { 0 };
	sigset_t none;

	sig_reset();
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	for (int i = 0; i < 3; i++)
		(void)dup2(stdio[i], i);
	(void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
	f.cwd = chdir(cwd) < 0;
	f.error = f.cwd ? errno : null_execute(spec->argv, env);
	(void)fd_write_all(failed, &f, sizeof(f));
	_exit(127);
}

/* Wait for @pid until @deadline (0: none), then kill it. */
static void null_watch(pid_t pid, uint64_t deadline, struct report *rep)
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
						 const char *cwd, char **env,
						 const int *stdio, int reports)
{
	struct report rep = { .guard = getpid() };
	uint64_t started = clock_now(), deadline = 0;
	int failed[2];
	sigset_t all;
	pid_t pid;

	(void)setsid();
	(void)signal(SIGCHLD, SIG_DFL);
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, NULL);
	if (pipe2(failed, O_CLOEXEC) < 0)
		_exit(1);
	pid = fork();
	if (pid == 0)
		null_run_command(spec, cwd, env, stdio, failed[1]);
	(void)close(failed[1]);
	for (int i = 0; i < 3; i++)
		(void)close(stdio[i]); /* otherwise its streams would never end */
	rep.pid = pid;
	if (pid < 0)
		rep.failure.error = errno;
	else
		(void)fd_read_all(failed[0], &rep.failure, sizeof(rep.failure));
	(void)fd_write_all(reports, &rep, sizeof(rep));
	if (rep.failure.error)
		_exit(1);
	if (spec->timeout_ms && spec->timeout_ms < FOR_EVER_MS)
		deadline = started + spec->timeout_ms * 1000000;
	null_watch(pid, deadline, &rep);
	rep.wall_usec = (clock_now() - started) / 1000;
	(void)fd_write_all(reports, &rep, sizeof(rep));
	if (rep.timed_out)
		(void)kill(0, SIGKILL); /* also ends this process */
	_exit(0);
}

static int null_open_stream(enum warren_stdio how, int which, int *ours, int *theirs)
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

/* Has the guard reported the end of the command, or is the guard gone? */
static bool null_has_ended(const struct null_exec *ex)
{
	struct pollfd p = { .fd = ex->reports, .events = POLLIN };

	return ex->done || ex->reports < 0 || poll(&p, 1, 0) > 0;
}

/* Drop execs that have ended and that no client can ask for any more. */
static void drop_forgotten(struct null_sandbox *sandbox)
{
	for (struct null_exec **p = &sandbox->execs; *p;) {
		struct null_exec *ex = *p;

		if (!ex->forgotten || !null_has_ended(ex)) {
			p = &ex->next;
			continue;
		}
		*p = ex->next;
		null_exec_release(ex);
	}
}

/* A running exec continues without its caller until its sandbox is destroyed. */
static void null_exec_free(struct backend_exec *base)
{
	struct null_exec *ex = (struct null_exec *)base;

	for (int i = 0; i < 3; i++)
		if (base->fd[i] >= 0)
			(void)close(base->fd[i]);
	ex->forgotten = true;
	if (ex->sandbox)
		drop_forgotten(ex->sandbox);
	else
		null_exec_release(ex);
}

static int start_guard(struct null_exec *ex, const struct null_sandbox *sandbox,
		       const struct warren_exec_spec *spec, const int *theirs,
		       struct warren_error *err)
{
	char **env = merge_env((const char *const *)sandbox->env, spec->env);
	const char *cwd = spec->cwd ? spec->cwd : sandbox->workdir;
	int reports[2];
	pid_t child;

	if (!env)
		return error_errno(err, ENOMEM, "start '%s'", spec->argv[0]);
	if (pipe2(reports, O_CLOEXEC) < 0) {
		(void)strv_free(env);
		return error_errno(err, errno, "start '%s'", spec->argv[0]);
	}
	child = fork();
	if (child == 0) {
		if (fork() != 0)
			_exit(0);
		(void)close(reports[0]);
		for (int i = 0; i < 3; i++)
			if (ex->base.fd[i] >= 0)
				(void)close(ex->base.fd[i]);
		guard_main(spec, cwd, env, theirs, reports[1]);
	}
	(void)strv_free(env);
	(void)close(reports[1]);
	ex->reports = reports[0];
	if (child < 0)
		return error_errno(err, errno, "start '%s'", spec->argv[0]);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	if (fd_read_all(ex->reports, &ex->result, sizeof(ex->result)) !=
	    sizeof(ex->result))
		return error_set(err, EIO, "start '%s': the guard died", spec->argv[0]);
	if (ex->result.failure.cwd) {
		(void)error_errno(err, ex->result.failure.error,
				  "enter the directory '%s'", cwd);
		err->code = ENOTDIR; /* because ENOENT means that the command itself is
					missing */
		return -ENOTDIR;
	}
	if (ex->result.failure.error)
		return error_errno(err, ex->result.failure.error, "execute '%s'",
				   spec->argv[0]);
	return 0;
}

static int null_exec(void *state UNUSED, struct backend_sandbox *base,
		     const struct warren_exec_spec *spec, struct backend_exec **ret_exec,
		     struct warren_error *err)
{
	const enum warren_stdio how[3] = { spec->in, spec->out, spec->err };
	struct null_exec *ex = calloc(1, sizeof(*ex));
	int theirs[3] = { -1, -1, -1 };
	int r = 0;

	if (!ex)
		return error_errno(err, ENOMEM, "start '%s'", spec->argv[0]);
	ex->base = (struct backend_exec){ { -1, -1, -1, -1 }, -1 };
	ex->reports = -1;
	if (spec->user)
		r = error_set(err, EOPNOTSUPP, "backend 'null' has no users");
	for (int i = 0; r == 0 && i < 3; i++) {
		r = null_open_stream(how[i], i, &ex->base.fd[i], &theirs[i]);
		if (r < 0)
			r = error_errno(err, -r, "open a stream");
	}
	if (r == 0)
		r = start_guard(ex, (struct null_sandbox *)base, spec, theirs, err);
	for (int i = 0; i < 3; i++)
		if (theirs[i] >= 0)
			(void)close(theirs[i]);
	if (r < 0) {
		null_exec_free(&ex->base);
		return r;
	}
	ex->sandbox = (struct null_sandbox *)base;
	drop_forgotten(ex->sandbox);
	ex->next = ex->sandbox->execs;
	ex->sandbox->execs = ex;
	*ret_exec = &ex->base;
	return 0;
}

static uint64_t null_usec(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000 + (uint64_t)tv->tv_usec;
}

static int null_exec_wait(struct backend_exec *base, int64_t timeout_ms,
			  struct warren_result *ret, struct warren_error *err)
{
	struct null_exec *ex = (struct null_exec *)base;
	uint64_t until =
		clock_now() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000;
	const struct report *rep = &ex->result;
	bool for_ever = timeout_ms < 0 || timeout_ms >= (int64_t)FOR_EVER_MS;

	while (!ex->done) {
		struct pollfd p = { .fd = ex->reports, .events = POLLIN };
		uint64_t t = clock_now();
		uint64_t left =
			for_ever || t >= until ? 0 : (until - t + 999999) / 1000000;
		int r = poll(&p, 1, for_ever ? -1 : left > 60000 ? 60000 : (int)left);

		if (r == 0 && !for_ever && clock_now() >= until)
			return 0;
		if (r <= 0)
			continue;
		if (fd_read_all(ex->reports, &ex->result, sizeof(ex->result)) !=
		    sizeof(ex->result))
			return error_set(err, ESRCH, "the guard died");
		ex->done = true;
	}
	*ret = (struct warren_result){
		.exit_code = WIFEXITED(rep->status) ? WEXITSTATUS(rep->status) : -1,
		.signal = WIFSIGNALED(rep->status) ? WTERMSIG(rep->status) : 0,
		.timed_out = rep->timed_out,
		.wall_usec = rep->wall_usec,
		.user_usec = null_usec(&rep->ru.ru_utime),
		.system_usec = null_usec(&rep->ru.ru_stime),
		.max_memory = (uint64_t)rep->ru.ru_maxrss * 1024,
		.read_bytes = (uint64_t)rep->ru.ru_inblock * 512,
		.written_bytes = (uint64_t)rep->ru.ru_oublock * 512,
	};
	return 1;
}

static int null_exec_wait_fd(struct backend_exec *base)
{
	return ((struct null_exec *)base)->reports;
}

/* SIGKILL to the group also kills the guard, so its report is written here. */
static int null_exec_signal(struct backend_exec *base, int sig, struct warren_error *err)
{
	struct null_exec *ex = (struct null_exec *)base;
	pid_t to = sig == SIGKILL ? -ex->result.guard : ex->result.pid;

	if (ex->done || kill(to, sig) < 0)
		return error_set(err, ESRCH, "it has ended");
	if (sig == SIGKILL) {
		ex->result.status = SIGKILL;
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
	.exec_wait_fd = null_exec_wait_fd,
	.exec_signal = null_exec_signal,
	.exec_free = null_exec_free,
};
