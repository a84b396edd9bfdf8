/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_spawn.c - start warren-shim
 *
 * A program that embeds libwarren may ignore SIGCHLD, so that wait(2) does not work. So
 * the result of a shim arrives over a pipe.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "backend/shimmed/shimmed.h"
#include "base/clock.h"
#include "base/fd.h"

#define BEGIN_SECS 60 /* limit until the shim reports how long it may take */
#define MORE_SECS  10 /* added to the shim's time, because the shim gives up earlier */
#define ARGS_MAX   16
#define ENV_MAX    24

/*
 * These environment variables let tools find their servers and keys; no others are passed
 * on.
 */
static const char *const passed_on[] = {
	"PATH",          "HOME",           "USER",
	"LOGNAME",       "TMPDIR",         "DOCKER_HOST",
	"DOCKER_CONFIG", "CONTAINER_HOST", "XDG_RUNTIME_DIR",
	"SSH_AUTH_SOCK", "KUBECONFIG",     "HTTP_PROXY",
	"HTTPS_PROXY",   "NO_PROXY",
};

struct started {
	char *env[ENV_MAX];
	size_t n;
};

static void choose_env(struct started *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(passed_on); i++) {
		const char *value = getenv(passed_on[i]);

		if (value && asprintf(&s->env[s->n], "%s=%s", passed_on[i], value) >= 0)
			s->n++;
	}
	s->env[s->n] = NULL;
}

/* Descriptors 0, 1 and 2 are @in and /dev/null; @fds come after them. */
static int shim_spawn_start(const char *program, const char *const *argv, int in,
			    const int *fds, size_t n_fds, pid_t *ret_pid)
{
	AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	struct started s = { .n = 0 };
	int high[SHIM_FDS_MAX];
	sigset_t set;
	int r;

	if (null < 0)
		return -errno;
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawnattr_init(&attr);
	(void)sigemptyset(&set);
	(void)posix_spawnattr_setsigmask(&attr, &set);
	(void)sigfillset(&set);
	(void)posix_spawnattr_setsigdefault(&attr, &set);
	(void)posix_spawnattr_setflags(&attr,
				       POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	for (int i = 0; i < 3; i++)
		(void)posix_spawn_file_actions_adddup2(&actions,
						       i == 0 && in >= 0 ? in : null, i);
	/* Move the descriptors first, so that they do not overwrite each other. */
	for (size_t i = 0; i < n_fds; i++) {
		high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3 + SHIM_FDS_MAX);
		(void)posix_spawn_file_actions_adddup2(&actions, high[i], 3 + (int)i);
	}
	choose_env(&s);
	r = posix_spawn(ret_pid, program, &actions, &attr, (char **)(uintptr_t)argv,
			s.env);
	for (size_t i = 0; i < n_fds; i++)
		if (high[i] >= 0)
			(void)close(high[i]);
	while (s.n > 0)
		free(s.env[--s.n]);
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)posix_spawnattr_destroy(&attr);
	return -r;
}

static int find_shim(const struct shimmed *k, struct warren_error *err)
{
	if (k->shim[0])
		return 0;
	*err = k->missing;
	return -err->code;
}

static void shim_spawn_reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

int shimmed_start(const struct shimmed *k, const char *id, const int *fds, size_t n_fds,
		  struct warren_error *err)
{
	AUTO_FREE char *dir = NULL;
	const char *argv[] = { "warren-shim", "run", NULL, NULL };
	pid_t pid = 0;
	int r = find_shim(k, err);

	if (r < 0)
		return r;
	if (asprintf(&dir, "%s/%s", k->path, id) < 0) {
		dir = NULL;
		return error_errno(err, ENOMEM, "start a shim");
	}
	argv[2] = dir;
	r = shim_spawn_start(k->shim, argv, -1, fds, n_fds, &pid);
	if (r < 0)
		return error_errno(err, -r, "start '%s'", k->shim);
	shim_spawn_reap(pid); /* it has forked, and its child continues */
	return 0;
}

/*
 * Read all output until its end. The output begins with the number of seconds that the
 * shim may take.
 */
static int shim_spawn_hear(int fd, struct buf *out)
{
	uint64_t begun = clock_now(), until = begun + BEGIN_SECS * 1000000000ULL;
	uint32_t secs;
	bool told = false;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t t = clock_now();
		char *room = buf_reserve(out, 65536);
		ssize_t n;

		if (!room)
			return -ENOMEM;
		if (t >= until)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)((until - t) / 1000000) + 1) <= 0)
			continue;
		n = read(fd, room, 65536);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return 0;
		out->len += n > 0 ? (size_t)n : 0;
		if (told || out->len < sizeof(secs))
			continue;
		(void)memcpy(&secs, out->data, sizeof(secs));
		until = begun + ((uint64_t)secs + MORE_SECS) * 1000000000ULL;
		told = true;
	}
}

static int shim_spawn_judge(const struct buf *said, const char *verb, struct buf *out,
			    struct warren_error *err)
{
	const size_t begin =
		sizeof(uint32_t); /* after the number that shim_spawn_hear() reads */
	struct warren_error told;

	if (said->len < begin + sizeof(told))
		return error_set(err, EIO, "warren-shim %s died", verb);
	(void)memcpy(&told, said->data + begin, sizeof(told));
	told.msg[sizeof(told.msg) - 1] = '\0';
	if (out)
		buf_add(out, said->data + begin + sizeof(told),
			said->len - begin - sizeof(told));
	if (told.code == 0)
		return 0;
	*err = told;
	return told.code > 0 && told.code < 4096 ? -told.code : -EIO;
}

/* NOLINTNEXTLINE(readability-function-size): a command, its input and its results */
int shimmed_call(const struct shimmed *k, const char *verb, const char *path,
		 const char *id, const char *const *more, const char *input, int pass,
		 struct buf *out, struct warren_error *err)
{
	AUTO_BUF struct buf said = BUF_INIT(4U << 20);
	AUTO_FREE char *dir = NULL;
	const char *argv[ARGS_MAX] = { "warren-shim", verb };
	int word[2] = { -1, -1 }, in[2] = { -1, -1 }, r = find_shim(k, err);
	size_t n = 3;
	pid_t pid = 0;

	if (r < 0)
		return r;
	if (asprintf(&dir, "%s%s%s", path, id[0] ? "/" : "", id) < 0) {
		dir = NULL;
		return error_errno(err, ENOMEM, "warren-shim %s", verb);
	}
	argv[2] = dir;
	for (; more && *more && n + 1 < ARGS_MAX; more++)
		argv[n++] = *more;
	if (pipe2(word, O_CLOEXEC) < 0 || (input && pipe2(in, O_CLOEXEC) < 0))
		r = -errno;
	if (r == 0 && input) /* the input is small enough for a pipe */
		r = fd_write_all(in[1], input, strlen(input));
	if (in[1] >= 0)
		(void)close(in[1]);
	if (r == 0)
		r = shim_spawn_start(k->shim, argv, in[0], (const int[]){ word[1], pass },
				     pass < 0 ? 1 : 2, &pid);
	if (in[0] >= 0)
		(void)close(in[0]);
	if (word[1] >= 0)
		(void)close(word[1]);
	if (r == 0)
		r = shim_spawn_hear(word[0], &said);
	if (r == -ETIMEDOUT)
		(void)kill(pid, SIGKILL);
	if (pid > 0)
		shim_spawn_reap(pid);
	else if (out)
		buf_puts(out, PROTO_UNCHANGED);
	if (word[0] >= 0)
		(void)close(word[0]);
	return r < 0 ? error_errno(err, -r, "warren-shim %s", verb)
		     : shim_spawn_judge(&said, verb, out, err);
}
