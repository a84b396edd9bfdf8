/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_run.c - start git with a clean environment
 *
 * The configuration and the attributes of the project name commands that git would run,
 * and a repository that the user has unpacked can be made so that git does. So git gets a
 * filter with which it cannot start a process; the options and variables below only keep
 * it from trying.
 *
 * Landlock is a second line of defence, against bugs in git itself: git can write only
 * below the directory that the command needs, which is opened here, beneath the project
 * or the work, without following links. A command that only reads cannot write at all.
 * Not every kernel has Landlock, so git runs without it, too, but never without the
 * filter.
 */
#include "work/git_run.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strv.h"
#include "os/landlock.h"
#include "os/seccomp.h"
#include "os/sig.h"
#include "work/files_internal.h"
#include "work/git_confine.h"
#include "work/git_errors.h"

static const char *const git_prefix[] = {
	"git",
	"-c",
	"core.hooksPath=/dev/null",
	"-c",
	"core.fsmonitor=false",
	"-c",
	"core.alternateRefsCommand=true",
	"-c",
	"gc.auto=0",
	"-c",
	"maintenance.auto=false",
	"-c",
	"protocol.allow=never",
	"-c",
	"pack.threads=1",
	"-c",
	"core.packedGitWindowSize=64m",
	"-c",
	"core.packedGitLimit=1g",
	/* Do not hold large files in memory to compare them with each other. */
	"-c",
	"core.bigFileThreshold=128m",
	"-c",
	"pack.windowMemory=256m",
};

/*
 * The caller's PATH is not used: a relative entry of it would find a program of the
 * project.
 */
static const char *const git_programs[] = {
	"/usr/local/bin/git",
	"/usr/bin/git",
	"/bin/git",
};

const char *git_program(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(git_programs); i++)
		if (access(git_programs[i], X_OK) == 0)
			return git_programs[i];
	return git_programs[0];
}

/*
 * A large pack, or the history of a large project, takes long. Any other command takes
 * long only if git waits for a named pipe, which its configuration includes or which
 * replaces one of its files; after that, such commands are not started again. A slow
 * command that uses no processor time at all for some seconds waits for a pipe: reading
 * from a slow disk or server uses a little.
 *
 * The caller ends git. The alarm ends a git whose caller was killed, except if git is the
 * first process of a pid namespace (git_confine.c), which ignores it.
 */
#define GIT_SECONDS_SLOW 900
#define GIT_SECONDS      10

static bool git_waits;

/*
 * A small pack can demand much memory and time: eight trees, each of which contains the
 * next one ten times, amount to a hundred million files. For a commit with a million
 * files, git allocates about 0.4 GiB. Packs that it maps into memory do not count as
 * data.
 */
#define GIT_MEMORY_GIB 2

static const struct {
	__rlimit_resource_t resource;
	rlim_t max;
} git_limits[] = {
	{ RLIMIT_AS, (rlim_t)8 << 30 },
	{ RLIMIT_DATA, (rlim_t)GIT_MEMORY_GIB << 30 },
	{ RLIMIT_CPU, 900 },
	{ RLIMIT_CORE, 0 },
};

static int git_limit(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(git_limits); i++) {
		struct rlimit limit;

		if (getrlimit(git_limits[i].resource, &limit) < 0)
			return -errno;
		if (limit.rlim_cur <= git_limits[i].max)
			continue;
		limit.rlim_cur = limit.rlim_max = git_limits[i].max;
		if (setrlimit(git_limits[i].resource, &limit) < 0)
			return -errno;
	}
	return 0;
}

/* The directory that the command writes to. */
static int git_written(const struct work *w, const struct git_command *c)
{
	AUTO_CLOSE int git = beneath_dir(c->own ? w->dir_fd : w->project_fd,
					 c->own ? "git" : ".git", O_PATH);

	return git < 0 ? git : beneath_dir(git, c->writes, O_PATH);
}

/* The rules for what git may write; -ENOSYS: this kernel has none. */
static int git_rules(const struct work *w, const struct git_command *c,
		     struct warren_error *err)
{
	AUTO_CLOSE int dir = c->writes ? git_written(w, c) : -1;

	if (c->writes && dir < 0)
		return error_errno(err, -dir, "open '%s' of the repository", c->writes);
	return landlock_rules_to_write(dir, err);
}

/* Only in the child: there is no way to report what failed but the status. */
_Noreturn static void git_child(const struct work *w, const struct git_command *c,
				const struct git_confine *confine, int rules,
				const char *program, char **argv, char **env)
{
	AUTO_CLOSE int dir = c->own ? beneath_dir(w->dir_fd, "git", O_RDONLY)
				    : fcntl(w->project_fd, F_DUPFD_CLOEXEC, 3);
	struct stat st;
	struct warren_error ignored;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	sig_reset();
	/* A pipe in place of a file has no end, and takes no processor time. */
	(void)alarm(c->hostile || c->slow ? GIT_SECONDS_SLOW : GIT_SECONDS);
	if (null < 0 || dup2(c->in < 0 ? null : c->in, 0) < 0 || dup2(c->out, 1) < 0 ||
	    dup2(c->errors > 0 ? c->errors : null, 2) < 0 || dir < 0 || fchdir(dir) < 0 ||
	    fstat(dir, &st) < 0 || git_limit() < 0)
		_exit(126);
	if (confine->git >= 0 && !git_confine_enter(confine))
		_exit(126);
	if (geteuid() == 0 && st.st_uid != 0 &&
	    (setgroups(0, NULL) < 0 || setresgid(st.st_gid, st.st_gid, st.st_gid) < 0 ||
	     setresuid(st.st_uid, st.st_uid, st.st_uid) < 0))
		_exit(126);
	/* After mounting, which the rules forbid. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    (rules >= 0 && landlock_enter(rules, &ignored) < 0) ||
	    seccomp_load_no_child(&ignored) < 0)
		_exit(126);
	(void)close_range(3, ~0U, 0);
	(void)execve(program, argv, env);
	_exit(127);
}

/* Let git put new objects into @path in the git directory, which is at @prefix. */
static int git_add_incoming(char ***env, const char *prefix, const char *path)
{
	char text[512];
	int r;

	(void)snprintf(text, sizeof(text), "GIT_OBJECT_DIRECTORY=%s%s", prefix, path);
	r = strv_add(env, text);
	(void)snprintf(text, sizeof(text), "GIT_ALTERNATE_OBJECT_DIRECTORIES=%sobjects",
		       prefix);
	return r < 0 ? r : strv_add(env, text);
}

int git_start(const struct work *w, const struct git_command *c, struct warren_error *err)
{
	AUTO_STRV char **argv = NULL, **env = NULL;
	struct git_confine confine CLEANUP(git_confine_close) = { -1, -1, false };
	static const char *const clean[] = {
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"HOME=/nonexistent",
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_NO_LAZY_FETCH=1",
		"GIT_ALLOW_PROTOCOL=",
	};
	const char *program;
	pid_t pid;
	bool confined = c->hostile && geteuid() == 0;
	int r = confined ? git_confine_open(w, c->own, &confine, err) : 0;
	AUTO_CLOSE int rules = r < 0 ? r : git_rules(w, c, err);

	if (r < 0 || (rules < 0 && rules != -ENOSYS))
		return r < 0 ? r : rules;

	for (size_t i = 0; r == 0 && !c->program && i < ARRAY_SIZE(git_prefix); i++)
		r = strv_add(&argv, git_prefix[i]);
	for (const char *const *arg = c->argv; r == 0 && *arg; arg++)
		r = strv_add(&argv, *arg);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(clean); i++)
		r = strv_add(&env, clean[i]);
	r = r < 0 ? r : strv_add(&env, confined || c->own ? "GIT_DIR=." : "GIT_DIR=.git");
	/* Not what core.worktree says. */
	if (r == 0 && !confined && !c->own)
		r = strv_add(&env, "GIT_WORK_TREE=.");
	if (r == 0 && c->incoming)
		r = git_add_incoming(&env, confined ? "" : ".git/", c->writes);
	if (r < 0 || !argv) /* a program without argv[0] is not started */
		return error_errno(err, r < 0 ? -r : EINVAL, "start git");
	program = c->program ? c->program : git_program();
	pid = confined ? git_confine_fork() : fork();
	if (pid == 0)
		git_child(w, c, &confine, rules, program, argv, env);
	return pid < 0 ? error_errno(err, confined ? -pid : errno, "start git") : pid;
}

int git_wait(int pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The processor time that a process has used, in nanoseconds; 0 if it has ended. */
static uint64_t git_used(int pid)
{
	struct timespec t;
	clockid_t clock;

	if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 ||
	    clock_gettime(clock, &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* How git_collect() finds out that git waits or takes too long. */
struct git_watch {
	int pid, sender;
	uint64_t used;
	unsigned seconds, idle; /* in total; without output and use of the processor */
};

/* A second has passed without output. Does git wait for something, or take too long? */
static bool git_watch_tick(struct git_watch *w)
{
	uint64_t used = git_used(w->pid) + git_used(w->sender);

	w->idle = used == w->used ? w->idle + 1 : 0;
	w->used = used;
	return w->idle >= GIT_SECONDS || ++w->seconds >= GIT_SECONDS_SLOW;
}

static int git_collect(int fd, struct git_watch *watch, struct buf *out)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char *room = buf_reserve(out, 65536);
		/* Seconds in which this process was stopped do not count. */
		int ready = room ? poll(&p, 1, 1000) : -1;
		ssize_t n;

		if (!room)
			return -EFBIG;
		if (ready == 0 && git_watch_tick(watch))
			return -ETIMEDOUT;
		if (ready == 0 || (ready < 0 && errno == EINTR))
			continue;
		n = ready < 0 ? -1 : read(fd, room, 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		out->len += (size_t)n;
		watch->idle = 0;
	}
}

static int git_timed_out(struct warren_error *err)
{
	git_waits = true;
	return error_set(err, ETIMEDOUT,
			 "git did not end in this repository: it may be waiting for a "
			 "named pipe that its configuration includes, or that replaces "
			 "one of git's files ('find .git -type p' lists them)");
}

int git_failed(const struct git_command *c, int status, int errors,
	       struct warren_error *err)
{
	char said[GIT_ERRORS_SIZE];
	int code = git_errors_read(errors, said);

	if (status == 127)
		return error_set(err, ENOENT, "git is not installed on this machine");
	if (code == ENOMEM)
		return error_set(err, ENOMEM,
				 "'git %s' needs more memory than it may use (%d GiB)",
				 c->argv[0], GIT_MEMORY_GIB);
	return said[0] ? error_set(err, code ? code : EPROTO, "'git %s' failed: %s",
				   c->argv[0], said)
		       : error_set(err, EPROTO, "'git %s' failed with status %d",
				   c->argv[0], status);
}

int git_run(const struct work *w, const struct git_command *c, struct buf *out,
	    struct warren_error *err)
{
	struct git_command command = *c;
	struct git_watch watch = { .sender = c->sender };
	/*
	 * Keep the directory open: without a cache, some filesystems (9p) forget
	 * directories that are not open, and the rules for it would not apply.
	 */
	AUTO_CLOSE int held UNUSED = c->writes ? git_written(w, c) : -1;
	AUTO_CLOSE int errors = git_errors_open();
	int ends[2], r, status;

	if (git_waits)
		return git_timed_out(err);
	if (errors < 0)
		return error_errno(err, -errors, "start git");
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "create a pipe");
	command.out = ends[1];
	command.errors = errors;
	watch.pid = git_start(w, &command, err);
	(void)close(ends[1]);
	r = watch.pid < 0 ? watch.pid : git_collect(ends[0], &watch, out);
	(void)close(ends[0]);
	if (watch.pid < 0)
		return watch.pid;
	if (r < 0)
		(void)kill(watch.pid, SIGKILL);
	status = git_wait(watch.pid);
	if (r == -ETIMEDOUT || status == 128 + SIGALRM)
		return git_timed_out(err);
	if (r < 0)
		return error_errno(err, -r, "read the output of git");
	return status == 0 ? 0 : git_failed(c, status, errors, err);
}
