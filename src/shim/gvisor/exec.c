/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - run a command: give the sentry its streams, and get its result
 *
 * No process copies the streams: the sentry reads and writes the pipes themselves. The
 * process of an exec only waits for the answer to WaitPID. If there is a terminal
 * outside, it is also that terminal's session leader, and passes the signals that the
 * kernel sends for keys and size changes on to the foreground group inside.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/parse.h"
#include "os/caps.h"
#include "shim/gvisor/gvisor.h"
#include "shim/gvisor/sentry_rpc.h"

#define WORD_MAX      131071 /* Linux's MAX_ARG_STRLEN, with the NUL */
#define TO_FOREGROUND 2      /* one of the sentry's ways to deliver a signal */

static const int keys[] = { SIGINT, SIGQUIT, SIGTSTP, SIGHUP, SIGWINCH };

__attribute__((noreturn)) static void gvisor_exec_fail(const struct shim_sandbox *p,
						       const struct shim_exec *e,
						       int code, struct warren_error *err)
{
	struct shim_outcome out = { .verdict = SHIM_NOT_STARTED, .code = code };

	(void)error_wrap(err, "%s", p->name);
	out.err = *err;
	shim_sandbox_exit(e, &out);
}

/* ------------------------------------------------------------------- command and user */

static int open_names(void *ctx, const char *path)
{
	const struct shim_sandbox *p = ctx;
	char own[GVISOR_PATH_MAX];
	int fd;

	gvisor_path(p, strcmp(path, "/etc/group") == 0 ? "bundle/group" : "bundle/passwd",
		    own);
	fd = open(own, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int exec_find_user(struct shim_sandbox *p, const struct shim_exec *e,
			  const json_t *process, struct initclient_user *ret,
			  struct warren_error *err)
{
	const json_t *def = json_object_get(process, "warrenUser");
	const json_t *groups = json_object_get(def, "additionalGids");

	*ret = (struct initclient_user){ 0 };
	if (e->user && parse_ids(e->user, &ret->uid, &ret->gid, err) == 1)
		return 0;
	if (e->user)
		return user_resolve(e->user, open_names, p, ret, err);
	ret->uid = (uint32_t)json_integer_value(json_object_get(def, "uid"));
	ret->gid = (uint32_t)json_integer_value(json_object_get(def, "gid"));
	for (size_t i = 0; i < json_array_size(groups) && i < ARRAY_SIZE(ret->groups);
	     i++)
		ret->groups[ret->n_groups++] =
			(uint32_t)json_integer_value(json_array_get(groups, i));
	return 0;
}

static int add_strings(json_t *list, const char *const *strings, struct warren_error *err)
{
	for (; strings && *strings; strings++) {
		/*
		 * Refuse a string that gVisor would accept, because the same limits
		 * should apply on all backends.
		 */
		if (strlen(*strings) > WORD_MAX)
			return error_set(
				err, E2BIG,
				"an argument or a variable is longer than %d bytes",
				WORD_MAX);
		if (json_array_append_new(list, json_string(*strings)) < 0)
			return error_set(
				err, EILSEQ,
				"an argument or a variable is not UTF-8, and gVisor "
				"accepts nothing else");
	}
	return 0;
}

/* Root has the permitted capabilities, other users have none. */
static json_t *exec_capabilities(uint32_t uid)
{
	json_int_t all = (json_int_t)caps_kept, has = uid == 0 ? all : 0;

	return json_pack("{s:I, s:I, s:I, s:i, s:i}", "PermittedCaps", has,
			 "EffectiveCaps", has, "BoundingCaps", all, "InheritableCaps", 0,
			 "AmbientCaps", 0);
}

static json_t *groups_json(const struct initclient_user *u)
{
	json_t *list = json_array();

	for (size_t i = 0; i < u->n_groups; i++)
		(void)json_array_append_new(list, json_integer(u->groups[i]));
	return list;
}

static int make_call(struct shim_sandbox *p, const struct shim_exec *e,
		     const json_t *process, json_t **ret, struct warren_error *err)
{
	json_t *env = json_copy(json_object_get(process, "env"));
	json_t *argv = json_array();
	const char *cwd = json_string_value(json_object_get(process, "cwd"));
	struct initclient_user user;
	char inside[4096 + 4];
	int r = exec_find_user(p, e, process, &user, err);

	/*
	 * A path that is not a directory has no "." (gVisor itself does not check this).
	 */
	if (snprintf(inside, sizeof(inside), "%s/.", e->cwd ? e->cwd : cwd) >=
	    (int)sizeof(inside))
		r = error_errno(err, ENAMETOOLONG, "name the directory");
	if (r == 0)
		r = add_strings(argv, e->argv, err);
	if (r == 0)
		r = add_strings(env, e->env, err);
	if (r == 0)
		*ret = json_pack(
			"{s:O, s:O, s:s, s:I, s:I, s:o, s:o, s:b, s:s, s:[i,i,i]}",
			"argv", argv, "envv", env, "wd", inside, "KUID",
			(json_int_t)user.uid, "KGID", (json_int_t)user.gid, "ExtraKGIDs",
			groups_json(&user), "Capabilities", exec_capabilities(user.uid),
			"StdioIsPty", (int)e->pty, "ContainerID", p->id, "GuestFDs", 0, 1,
			2);
	json_decref(argv);
	json_decref(env);
	if (r == 0 && !*ret)
		r = error_set(
			err, EILSEQ,
			"the directory is not UTF-8, and gVisor accepts nothing else");
	return r;
}

/* --------------------------------------------------------------- starting the command */

/* The error messages of the sentry, with their errno. */
static const struct {
	const char *text;
	int code;
} reasons[] = {
	{ "working directory", ENOTDIR }, /* for any reason */
	{ "no such file or directory", ENOENT },
	{ "executable file not found", ENOENT },
	{ "permission denied", EACCES },
	{ "exec format error", ENOEXEC },
	{ "not a directory", ENOTDIR },
	{ "is a directory", EACCES },
	{ "argument list too long", E2BIG },
	{ "cannot allocate memory", ENOMEM },
	{ "resource temporarily unavailable", EAGAIN },
	{ "try again", EAGAIN }, /* gVisor's message for too many processes */
	{ "too many levels of symbolic links", ELOOP },
	{ "failed to load", ENOEXEC }, /* for any other reason */
};

static int exec_reason(const struct warren_error *err)
{
	if (err->code != EREMOTEIO)
		return err->code;
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (strstr(err->msg, reasons[i].text))
			return reasons[i].code;
	return EIO;
}

/* Start the command. Return the pid inside, or -errno. */
static int gvisor_exec_start(struct shim_sandbox *p, const struct shim_exec *e,
			     int sentry, struct warren_error *err)
{
	static const int streams[] = { 0, 1, 2 };
	char path[GVISOR_PATH_MAX];
	json_t *config, *call = NULL, *pid = NULL;
	json_error_t why;
	int r;

	gvisor_path(p, "bundle/config.json", path);
	config = json_load_file(path, 0, &why);
	/* Do not use the errno here, because the client would relate it to the command.
	 */
	if (!config)
		return error_set(err, EIO, "read '%s': %s", path, why.text);
	r = make_call(p, e, json_object_get(config, "process"), &call, err);
	json_decref(config);
	if (r == 0)
		r = control_send(sentry, "containerManager.ExecuteAsync", call, streams,
				 ARRAY_SIZE(streams), err);
	if (r == 0)
		r = control_receive(sentry, false, &pid, err);
	if (r == 0) {
		r = (int)json_integer_value(pid);
		if (r <= 0)
			r = error_set(err, EPROTO, "the sandbox's answer is not a pid");
	}
	json_decref(pid);
	return r;
}

/* ---------------------------------------------------------------- waiting for the end */

/* Send the signal on another connection, because this one waits for the end. */
static void exec_pass_on(const struct shim_sandbox *p, int pid, int sig)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_CLOSE int fd = gvisor_connect(p, &ignored);

	if (fd >= 0)
		(void)control_call(fd, "containerManager.Signal",
				   json_pack("{s:s, s:i, s:i, s:i}", "CID", p->id,
					     "Signo", sig, "PID", pid, "Mode",
					     TO_FOREGROUND),
				   NULL, &ignored);
}

/* Wait until the sentry answers or ends. SIGTERM ends this process in any case. */
static void exec_attend(const struct shim_sandbox *p, int pid, int sentry, int signals)
{
	struct pollfd fds[] = { { .fd = sentry, .events = POLLIN },
				{ .fd = signals, .events = POLLIN } };

	for (;;) {
		struct signalfd_siginfo si;

		if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			return;
		if (fds[0].revents)
			return;
		if (!fds[1].revents || read(signals, &si, sizeof(si)) != sizeof(si))
			continue;
		if (si.ssi_signo == SIGTERM)
			_exit(128 + SIGTERM);
		exec_pass_on(p, pid, (int)si.ssi_signo);
	}
}

/* The signals are blocked, and read from a descriptor. */
static int catch_signals(const struct shim_exec *e)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	for (size_t i = 0; e->pty && i < ARRAY_SIZE(keys); i++)
		(void)sigaddset(&set, keys[i]);
	(void)sigprocmask(SIG_SETMASK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void gvisor_exec_read_outcome(const struct shim_sandbox *p, int sentry,
				     struct shim_outcome *ret)
{
	json_t *status = NULL;
	int r = control_receive(sentry, true, &status, &ret->err), s;

	/* If the sandbox ends, its commands end with it. */
	*ret = (struct shim_outcome){ .verdict = SHIM_SIGNALED, .code = SIGKILL };
	if (r < 0) {
		if (gvisor_was_oom(p))
			(void)error_set(&ret->err, ENOMEM,
					"the sandbox ran out of memory");
		else if (gvisor_is_gone(p, ENDING_MS))
			ret->verdict = SHIM_LOST;
		return;
	}
	s = (int)json_integer_value(status);
	json_decref(status);
	if (WIFEXITED(s))
		*ret = (struct shim_outcome){ .verdict = SHIM_EXITED,
					      .code = WEXITSTATUS(s) };
	else if (WIFSIGNALED(s))
		ret->code = WTERMSIG(s);
	/*
	 * Without a gofer, file accesses fail (SIGBUS, EIO), and a sentry that notices
	 * this kills all processes. So the exit status of a shell is meaningless.
	 */
	if (s != 0 && gvisor_is_gone(p, 0) && !gvisor_was_oom(p))
		ret->verdict = SHIM_LOST;
}

void gvisor_exec(struct shim_sandbox *p, const struct shim_exec *e)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct shim_outcome started = { .verdict = SHIM_STARTED };
	struct shim_outcome out;
	int signals = catch_signals(e);
	int sentry = gvisor_connect(p, &err), pid;

	if (sentry < 0)
		gvisor_exec_fail(p, e, -sentry == ENOENT ? ESRCH : -sentry, &err);
	pid = gvisor_exec_start(p, e, sentry, &err);
	if (pid < 0)
		gvisor_exec_fail(p, e, exec_reason(&err), &err);
	started.code = pid;
	(void)fd_write_all(e->outcome_fd, &started, sizeof(started));
	if (control_send(sentry, "containerManager.WaitPID",
			 json_pack("{s:i, s:s}", "PID", pid, "CID", p->id), NULL, 0,
			 &err) == 0)
		exec_attend(p, pid, sentry, signals);
	gvisor_exec_read_outcome(p, sentry, &out);
	shim_sandbox_exit(e, &out);
}
