/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anchor.c - the first process of a container that somebody else made, and keeps for us
 *
 * A container lives as long as its first process, and what others start in it becomes that
 * one's when its parent is gone. So this one waits, and its children vanish when they end.
 * Nothing inside can signal it (the kernel spares the first process of a pid namespace), trace it
 * or read its memory (it is not dumpable).
 *
 *	anchor			wait for ever
 *	anchor serve DOOR	the same, and do file work for who listens there (within.c)
 *	anchor quiet		take the loopback device down; by who may do that
 *	anchor all SIG MARK	a signal to all who have WARREN_EXEC=MARK in their environment
 *	anchor first SIG MARK	to the eldest of them
 *	anchor connect ADDR PORT	its stdin, a socket, becomes a stream to a port (relay.c)
 *
 * The exit status of an errand is 0 when it was done, to somebody at least.
 */
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "init/relay.h"
#include "init/sys.h"
#include "init/within.h"

#define PASSES   16
#define MARK_MAX 64U

/* As the kernel has it, which is not as the C library does. */
struct kernel_sigaction {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};

struct kernel_dirent {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

__attribute__((noreturn, used)) void init_main(const long *stack);

static char entries[32768], environment[65536];

static long quiet(void)
{
	struct ifreq lo = { .ifr_name = "lo" };
	long fd = SYS_3(SYS_socket, AF_INET, SOCK_DGRAM, 0);
	long r = fd < 0 ? fd : sys_ioctl(fd, SIOCGIFFLAGS, &lo);

	if (r < 0)
		return r;
	lo.ifr_flags = (short)(lo.ifr_flags & ~IFF_UP);
	return sys_ioctl(fd, SIOCSIFFLAGS, &lo);
}

/* Decimal; -1 for what is none. */
static int number(const char *s)
{
	int n = 0;

	if (!*s)
		return -1;
	for (; *s; s++) {
		if (*s < '0' || *s > '9' || n > 100000000)
			return -1;
		n = n * 10 + *s - '0';
	}
	return n;
}

/* Is "WARREN_EXEC=<mark>" one of the texts in there? What is cut in two is looked at again. */
static int has_mark(long fd, const char *var, size_t size)
{
	size_t have = 0;

	for (;;) {
		long n = sys_read(fd, environment + have, sizeof(environment) - have);

		if (n <= 0)
			return 0;
		have += (size_t)n;
		for (size_t at = 0; at + size <= have; at++)
			if ((at == 0 || environment[at - 1] == '\0') &&
			    memcmp(environment + at, var, size) == 0)
				return 1;
		if (have > size) {
			(void)memmove(environment, environment + have - size, size);
			have = size;
		}
	}
}

static int is_marked(const char *pid, const char *var, size_t size)
{
	static const char tail[] = "/environ";
	char path[32] = "/proc/";
	size_t n = strlen(pid);
	long fd;
	int found;

	(void)memcpy(path + 6, pid, n + 1);
	(void)memcpy(path + 6 + n, tail, sizeof(tail));
	fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	found = has_mark(fd, var, size);
	sys_close(fd);
	return found;
}

/* One look at all processes: to how many it went. Numbers come in their order. */
static int signal_once(int sig, const char *var, size_t size, int all)
{
	long dir = sys_openat(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	int self = (int)SYS_0(SYS_getpid), count = 0;
	long n;

	while (dir >= 0 && (n = SYS_3(SYS_getdents64, dir, entries, sizeof(entries))) > 0)
		for (long at = 0; at < n && (all || count == 0);) {
			const struct kernel_dirent *e = (const void *)(entries + at);
			int pid = number(e->name);

			at += e->reclen;
			if (pid > 1 && pid != self && is_marked(e->name, var, size) &&
			    sys_kill(pid, sig) == 0)
				count++;
		}
	sys_close(dir);
	return count;
}

/* Whoever forks while we look is found the next time. The dead have no environment. */
static int signal_marked(const char *sig, const char *mark, int all)
{
	static const char name[] = "WARREN_EXEC=";
	char var[sizeof(name) + MARK_MAX];
	size_t n = strlen(mark);
	int any = 0, left = 1;

	if (number(sig) <= 0 || n == 0 || n > MARK_MAX)
		return 1;
	(void)memcpy(var, name, sizeof(name) - 1);
	(void)memcpy(var + sizeof(name) - 1, mark, n + 1);
	for (int i = 0; i < PASSES && left > 0; i++) {
		left = signal_once(number(sig), var, sizeof(name) + n, all);
		any |= left > 0;
		if (number(sig) != SIGKILL)
			break;
	}
	return !any;
}

static int is(const char *a, const char *b)
{
	size_t n = strlen(b) + 1;

	return strlen(a) + 1 == n && memcmp(a, b, n) == 0;
}

/* What the kernel put there: the number of arguments, then each. */
void init_main(const long *stack)
{
	const struct kernel_sigaction ignored = { .handler = SIG_IGN,
						  .flags = SA_NOCLDWAIT };
	const char *const *argv = (const char *const *)(stack + 1);
	int serve;

	if (stack[0] == 2 && is(argv[1], "quiet"))
		sys_exit(quiet() == 0 ? 0 : 1);
	if (stack[0] == 4 && (is(argv[1], "all") || is(argv[1], "first")))
		sys_exit(signal_marked(argv[2], argv[3], is(argv[1], "all")));
	if (stack[0] == 4 && is(argv[1], "connect"))
		relay(is(argv[2], "::1"), number(argv[3]));
	serve = stack[0] == 3 && is(argv[1], "serve");
	if (stack[0] > 1 && !serve)
		sys_exit(1);
	(void)SYS_2(SYS_prctl, PR_SET_DUMPABLE, 0);
	(void)SYS_4(SYS_rt_sigaction, SIGCHLD, &ignored, 0, sizeof(ignored.mask));
	for (int fd = 0; fd < 3; fd++)
		sys_close(fd);
	if (serve)
		within_serve(argv[2]);
	for (;;)
		(void)SYS_4(SYS_ppoll, 0, 0, 0, 0);
}
