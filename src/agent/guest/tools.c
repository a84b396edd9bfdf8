/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tools.c - do the work of an image's tools with system calls
 *
 * If starting a program takes milliseconds (gVisor), the mv and touch for each file of an
 * archive take most of the time. The guest agent therefore starts the persistent shell of
 * a shim, and the shell's scripts send requests to the guest agent instead of starting
 * these programs. This process runs as the same user as the shell, and has no further
 * rights.
 */
#include "agent/guest/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "nolibc/sys.h"

#define WORDS_MAX 256
#define FIRST_FD  10 /* above the numbers of the shell's descriptors */

static char request[256 * 1024];
static const char *words[WORDS_MAX];

static int word_is(const char *a, const char *b)
{
	size_t n = strlen(b) + 1;

	return strlen(a) + 1 == n && memcmp(a, b, n) == 0;
}

/* Parse a number of @base that ends at @end; -1: invalid or too large. */
static int64_t word_number(const char *s, unsigned base, char end)
{
	int64_t n = 0;

	if (*s == end || !*s)
		return -1;
	for (; *s != end; s++) {
		if (*s < '0' || (unsigned)(*s - '0') >= base || n > INT64_MAX / 64)
			return -1;
		n = n * base + (*s - '0');
	}
	return n;
}

/* -------------------------------------------------------- implementation of the tools */

/* Handle one path after another until one fails. */
struct tool_args {
	int64_t mode, seconds, uid, gid;
};

static long tool_mkdir(const char *path, const struct tool_args *a)
{
	long r = SYS_3(SYS_mkdirat, AT_FDCWD, path, a->mode);

	/* mkdir(2) ignores set-id bits, so set them afterwards. */
	if (r == 0 && a->mode & 06000)
		r = SYS_3(SYS_fchmodat, AT_FDCWD, path, a->mode);
	return r;
}

static long tool_rm(const char *path, const struct tool_args *a)
{
	long r = SYS_3(SYS_unlinkat, AT_FDCWD, path, 0);

	(void)a;
	return r == -ENOENT ? 0 : r;
}

static long tool_rmdir(const char *path, const struct tool_args *a)
{
	(void)a;
	return SYS_3(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

static long tool_chmod(const char *path, const struct tool_args *a)
{
	return SYS_3(SYS_fchmodat, AT_FDCWD, path, a->mode);
}

static long tool_chown(const char *path, const struct tool_args *a)
{
	return SYS_5(SYS_fchownat, AT_FDCWD, path, a->uid, a->gid, AT_SYMLINK_NOFOLLOW);
}

static long tool_touch(const char *path, const struct tool_args *a)
{
	const struct timespec times[2] = { { .tv_sec = a->seconds },
					   { .tv_sec = a->seconds } };

	return SYS_4(SYS_utimensat, AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}

static long tool_mv(const char *from, const char *to)
{
	return SYS_5(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static long tool_symlink(const char *text, const char *path)
{
	return SYS_3(SYS_symlinkat, text, AT_FDCWD, path);
}

static long tool_link(const char *from, const char *to)
{
	return SYS_5(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

enum tool_argument {
	TOOL_PLAIN,
	TOOL_MODE,
	TOOL_OWNER,
	TOOL_TIME
};

/* The words of the command, and the position of the next word. */
static const struct tool {
	const char *begin[4];
	enum tool_argument argument;
	long (*each)(const char *path, const struct tool_args *a);
	long (*pair)(const char *from, const char *to);
} tools[] = {
	{ { "mkdir", "-m" }, TOOL_MODE, tool_mkdir, NULL },
	{ { "rm", "-f" }, TOOL_PLAIN, tool_rm, NULL },
	{ { "rmdir" }, TOOL_PLAIN, tool_rmdir, NULL },
	{ { "chmod" }, TOOL_MODE, tool_chmod, NULL },
	{ { "chown", "-h" }, TOOL_OWNER, tool_chown, NULL },
	{ { "touch", "-h", "-d" }, TOOL_TIME, tool_touch, NULL },
	{ { "mv", "-f" }, TOOL_PLAIN, NULL, tool_mv },
	{ { "ln", "-s" }, TOOL_PLAIN, NULL, tool_symlink },
	{ { "ln" }, TOOL_PLAIN, NULL, tool_link },
};

static int tool_argument(const struct tool *t, const char *word, struct tool_args *a)
{
	const char *colon = word;

	switch (t->argument) {
	case TOOL_PLAIN:
		return 1;
	case TOOL_MODE:
		a->mode = word_number(word, 8, '\0');
		return a->mode >= 0 && a->mode <= 07777;
	case TOOL_TIME:
		a->seconds = *word == '@' ? word_number(word + 1, 10, '\0') : -1;
		return a->seconds >= 0;
	case TOOL_OWNER:
		while (*colon && *colon != ':')
			colon++;
		if (*colon != ':')
			return 0;
		a->uid = word_number(word, 10, ':');
		a->gid = word_number(colon + 1, 10, '\0');
		return a->uid >= 0 && a->uid < UINT32_MAX && a->gid >= 0 &&
		       a->gid < UINT32_MAX;
	}
	return 0;
}

/*
 * Return 0 or -errno; a path never begins with "-" here, because every path is absolute.
 */
static long tool_do(const struct tool *t, size_t begin, size_t n)
{
	size_t paths = begin + (t->argument != TOOL_PLAIN);
	struct tool_args a = { 0 };
	long r = 0;

	if (paths >= n || !tool_argument(t, words[begin], &a))
		return -ENOSYS;
	for (size_t i = paths; i < n; i++)
		if (words[i][0] != '/' && !(t->pair == tool_symlink && i == paths))
			return -ENOSYS;
	if (t->pair)
		return n == paths + 2 ? t->pair(words[paths], words[paths + 1]) : -ENOSYS;
	for (size_t i = paths; r == 0 && i < n; i++)
		r = t->each(words[i], &a);
	return r;
}

static long tools_do(size_t n)
{
	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
		const struct tool *t = &tools[i];
		size_t begin = 0;

		while (begin < sizeof(t->begin) / sizeof(t->begin[0]) &&
		       t->begin[begin] && begin < n &&
		       word_is(words[begin], t->begin[begin]))
			begin++;
		if (begin < sizeof(t->begin) / sizeof(t->begin[0]) && t->begin[begin])
			continue;
		return tool_do(t, begin, n);
	}
	return -ENOSYS;
}

/* -------------------------------------------------------------- requests of the shell */

/* Split the first complete request in the @have bytes into words, and return its size; 0:
 * it is incomplete. */
static size_t tools_parse(size_t have, size_t *ret_n)
{
	int64_t count = -1;
	size_t at = 0, n = 0, from = 0;

	for (; at < have; at++) {
		if (request[at] != '\0')
			continue;
		if (count < 0) {
			count = word_number(request, 10, '\0');
			if (count < 1 || count > WORDS_MAX)
				sys_exit(1);
		} else {
			words[n++] = request + from;
		}
		from = at + 1;
		if (count >= 0 && n == (size_t)count) {
			*ret_n = n;
			return from;
		}
	}
	return 0;
}

static void tools_answer(int fd, long r)
{
	char text[8];
	size_t at = sizeof(text);
	unsigned long code = (unsigned long)-r;

	text[--at] = '\n';
	do
		text[--at] = (char)('0' + code % 10);
	while ((code /= 10) > 0 && at > 0);
	(void)sys_write(fd, text + at, sizeof(text) - at);
}

static void tools_serve(int ask, int answer)
{
	size_t have = 0;

	for (;;) {
		size_t size, n;
		long r = sys_read(ask, request + have, sizeof(request) - have);

		if (r == -EINTR)
			continue;
		if (r <= 0)
			return; /* the shell is gone, or sends endless data */
		have += (size_t)r;
		while ((size = tools_parse(have, &n)) > 0) {
			tools_answer(answer, tools_do(n));
			have -= size;
			(void)memmove(request, request + size, have);
		}
	}
}

static void shell_exec(const char *shell, const char *const *envp, int ask, int answer)
{
	const char *argv[] = { shell, NULL };

	(void)SYS_3(SYS_dup3, ask, TOOLS_ASK, 0);
	(void)SYS_3(SYS_dup3, answer, TOOLS_ANSWER, 0);
	(void)SYS_3(SYS_execve, shell, argv, envp);
	sys_exit(127);
}

/* Create a pipe with numbers above the shell's descriptors, which the shell does not
 * inherit. */
static int tools_pipe(int ends[2])
{
	int p[2];

	if (SYS_2(SYS_pipe2, p, O_CLOEXEC) < 0)
		return -1;
	for (int i = 0; i < 2; i++) {
		ends[i] = (int)SYS_3(SYS_fcntl, p[i], F_DUPFD_CLOEXEC, FIRST_FD);
		sys_close(p[i]);
	}
	return ends[0] < 0 || ends[1] < 0 ? -1 : 0;
}

void tools_run(const char *shell, const char *const *envp)
{
	int ask[2] = { -1, -1 }, answer[2] = { -1, -1 }, status = 0;
	long pid;

	if (tools_pipe(ask) < 0 || tools_pipe(answer) < 0)
		sys_exit(127);
	pid = SYS_2(SYS_clone, SIGCHLD, 0);
	if (pid == 0)
		shell_exec(shell, envp, ask[1], answer[0]);
	if (pid < 0)
		sys_exit(127);
	/* The streams of the shell end with the shell, not with this process. */
	for (int fd = 0; fd < 3; fd++)
		sys_close(fd);
	sys_close(ask[1]);
	sys_close(answer[0]);
	(void)SYS_1(SYS_umask, 0);
	tools_serve(ask[0], answer[1]);
	sys_close(answer[1]);
	while (SYS_4(SYS_wait4, pid, &status, 0, 0) == -EINTR)
		;
	sys_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	__builtin_unreachable();
}
