/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - the first process of a container that another engine created
 *
 * A container lives as long as its first process, which becomes the parent of processes
 * whose parent has ended. This process therefore waits, and reaps its children. No
 * process inside can signal it (the kernel protects the first process of a pid
 * namespace), trace it or read its memory (it is not dumpable).
 *
 *	guest agent			wait forever
 *	guest agent serve DOOR	wait, and do file work for the listener (guest_server.c)
 *	guest agent quiet		bring the loopback device down (needs privileges)
 *	guest agent all SIG MARK	signal all processes with WARREN_EXEC=MARK
 *	guest agent first SIG MARK	signal the oldest of them
 *	guest agent everyone SIG	signal all processes but the first; 0: does any of
 *				them catch SIGTERM? SIGKILL: until none is left, or 2
 *	guest agent connect ADDR PORT	connect its stdin, a socket, to a port (relay.c)
 *	guest agent held		find what gVisor cannot save: see guest_held()
 *	guest agent tools SHELL	a shell, and the tools of its scripts: see tools.h
 *	guest agent name PID		print the name of a process in the same format
 *
 * The exit status is 0 if the command succeeded for at least one process.
 */
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "agent/guest/guest_server.h"
#include "agent/guest/relay.h"
#include "agent/guest/tools.h"
#include "nolibc/sys.h"

#define PASSES    16
#define MARK_MAX  64U
#define KILL_SECS 5

/* The layout of the kernel, which differs from that of the C library. */
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

__attribute__((noreturn, used)) void agent_main(const long *stack);

/* The letters that are printed for each kind of state that cannot be saved
 * (shim/gvisor/checkpoint.c). */
#define HELD_STREAM  'S'
#define HELD_REMOVED 'R'
#define HELD_COMMAND 'C'
#define HELD_LOOKS   100

static char entries[32768], environment[65536], text[4096 + 16];

static long guest_quiet(void)
{
	struct ifreq lo = { .ifr_name = "lo" };
	long fd = SYS_3(SYS_socket, AF_INET, SOCK_DGRAM, 0);
	long r = fd < 0 ? fd : sys_ioctl(fd, SIOCGIFFLAGS, &lo);

	if (r < 0)
		return r;
	lo.ifr_flags = (short)(lo.ifr_flags & ~IFF_UP);
	return sys_ioctl(fd, SIOCSIFFLAGS, &lo);
}

/* Parse a decimal number; -1 if it is not one. */
static int guest_number(const char *s)
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

/*
 * Is "WARREN_EXEC=<mark>" one of the strings? A string that was split between two reads
 * is checked again.
 */
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

static long open_of(const char *pid, const char *what, int flags)
{
	char path[32] = "/proc/";
	size_t n = strlen(pid);

	(void)memcpy(path + 6, pid, n + 1);
	(void)memcpy(path + 6 + n, what, strlen(what) + 1);
	return sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | flags, 0);
}

/* A walk over all processes except the first and this one, in the order of their numbers.
 */
struct guest_walk {
	long dir, n, at;
	int self;
};

static struct guest_walk guest_walk_open(void)
{
	return (struct guest_walk){
		.dir = sys_openat(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				  0),
		.self = (int)SYS_0(SYS_getpid),
	};
}

/* The number of the next process, as text; NULL: there are no more. */
static const char *guest_walk_next(struct guest_walk *w)
{
	while (w->dir >= 0) {
		const struct kernel_dirent *e = (const void *)(entries + w->at);

		if (w->at >= w->n) {
			w->n = SYS_3(SYS_getdents64, w->dir, entries, sizeof(entries));
			w->at = 0;
			if (w->n <= 0)
				return NULL;
			continue;
		}
		w->at += e->reclen;
		if (guest_number(e->name) > 1 && guest_number(e->name) != w->self)
			return e->name;
	}
	return NULL;
}

static int is_marked(const char *pid, const char *var, size_t size)
{
	long fd = open_of(pid, "/environ", 0);
	int found;

	if (fd < 0)
		return 0;
	found = has_mark(fd, var, size);
	sys_close(fd);
	return found;
}

/*
 * Visit all processes once, in ascending order of their numbers; return how many got the
 * signal.
 */
static int signal_once(int sig, const char *var, size_t size, int all)
{
	struct guest_walk walk = guest_walk_open();
	const char *name;
	int count = 0;

	while ((all || count == 0) && (name = guest_walk_next(&walk)))
		if (is_marked(name, var, size) && sys_kill(guest_number(name), sig) == 0)
			count++;
	sys_close(walk.dir);
	return count;
}

/*
 * Processes that are forked during this pass are found in the next one. Dead processes
 * have no environment.
 */
static int signal_marked(const char *sig, const char *mark, int all)
{
	static const char name[] = "WARREN_EXEC=";
	char var[sizeof(name) + MARK_MAX];
	size_t n = strlen(mark);
	int any = 0, left = 1;

	if (guest_number(sig) <= 0 || n == 0 || n > MARK_MAX)
		return 1;
	(void)memcpy(var, name, sizeof(name) - 1);
	(void)memcpy(var + sizeof(name) - 1, mark, n + 1);
	for (int i = 0; i < PASSES && left > 0; i++) {
		left = signal_once(guest_number(sig), var, sizeof(name) + n, all);
		any |= left > 0;
		if (guest_number(sig) != SIGKILL)
			break;
	}
	return !any;
}

/* Does the process have a handler for SIGTERM, according to its status? */
static int catches_term(const char *pid)
{
	static const char name[] = "\nSigCgt:\t";
	const size_t term = sizeof(name) - 1 + 12; /* the digit of signals 13 to 16 */
	long fd = open_of(pid, "/status", 0);
	long n = fd < 0 ? 0 : sys_read(fd, text, sizeof(text));

	sys_close(fd);
	for (size_t at = 0; n > 0 && at + term < (size_t)n; at++) {
		char c = text[at + term];
		int digit = c >= 'a' ? c - 'a' + 10 : c - '0';

		if (memcmp(text + at, name, sizeof(name) - 1) == 0)
			return (digit & 4) != 0;
	}
	return 0;
}

/*
 * Is the process more than a zombie? Count a process that ended since it was listed,
 * because it may have forked.
 */
static int guest_lives(const char *pid)
{
	long fd = open_of(pid, "/stat", 0);
	long n = fd < 0 ? 0 : sys_read(fd, text, sizeof(text));

	sys_close(fd);
	/* The state follows the name, which may contain any character. */
	for (long at = n - 3; at >= 0; at--)
		if (text[at] == ')')
			return text[at + 2] != 'Z' && text[at + 2] != 'X';
	return 1;
}

static int guest_any(int (*is)(const char *pid))
{
	struct guest_walk walk = guest_walk_open();
	const char *name;
	int any = 0;

	while (!any && (name = guest_walk_next(&walk)))
		any = is(name);
	sys_close(walk.dir);
	return any;
}

static long guest_clock(void)
{
	struct timespec t = { 0 };

	(void)SYS_2(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/*
 * Linux skips the first process and the sender, and misses no process that is being
 * forked. gVisor makes a list first, and misses processes that are forked later, so
 * repeat the call until no process is left.
 */
static int kill_everyone(void)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	long until = guest_clock() + KILL_SECS, r = sys_kill(-1, SIGKILL);

	if (r < 0)
		return 1;
	while (guest_any(guest_lives)) {
		if (guest_clock() >= until)
			return 2;
		(void)SYS_2(SYS_nanosleep, &moment, NULL);
		(void)sys_kill(-1, SIGKILL);
	}
	return 0;
}

static int signal_everyone(const char *sig)
{
	int number = guest_number(sig);

	if (number < 0)
		return 1;
	if (number == 0)
		return !guest_any(catches_term);
	if (number == SIGKILL)
		return kill_everyone();
	return sys_kill(-1, number) == 0 ? 0 : 1;
}

/* --------------------------------------------------------- state that cannot be saved */

static int guest_begins(const char *s, size_t n, const char *with)
{
	return n >= strlen(with) && memcmp(s, with, strlen(with)) == 0;
}

/*
 * Is this the name of a file that was removed? The gofer cannot save such a file; the
 * sentry can save what is in its own memory.
 */
static int is_removed(const char *name, size_t n)
{
	static const char *const own[] = { "/memfd:", "/dev/shm/", "/dev/zero", "/SYSV" };
	static const char tail[] = " (deleted)";
	size_t size = sizeof(tail) - 1;

	if (n < size || memcmp(name + n - size, tail, size) != 0)
		return 0;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (guest_begins(name, n, own[i]))
			return 0;
	return 1;
}

/* Return HELD_STREAM, HELD_REMOVED, or 0. */
static char holds_open(const char *pid)
{
	long dir = open_of(pid, "/fd", O_DIRECTORY), n;
	char held = 0;

	while (dir >= 0 && !held &&
	       (n = SYS_3(SYS_getdents64, dir, environment, sizeof(environment))) > 0)
		for (long at = 0; at < n && !held;) {
			const struct kernel_dirent *e = (const void *)(environment + at);
			long size =
				SYS_4(SYS_readlinkat, dir, e->name, text, sizeof(text));

			at += e->reclen;
			if (size > 0 && guest_begins(text, (size_t)size, "host:"))
				held = HELD_STREAM;
			else if (size > 0 && is_removed(text, (size_t)size))
				held = HELD_REMOVED;
		}
	sys_close(dir);
	return held;
}

/* Find lines of files that are mapped or executed, but no longer have a name. */
static char holds_mapped(const char *pid)
{
	long fd = open_of(pid, "/maps", 0), n;
	size_t have = 0;
	char held = 0;

	while (fd >= 0 && !held && have < sizeof(environment) &&
	       (n = sys_read(fd, environment + have, sizeof(environment) - have)) > 0) {
		size_t line = 0, path = 0, end = have + (size_t)n;

		for (size_t at = 0; at < end; at++) {
			if (environment[at] == '/' && path <= line)
				path = at;
			if (environment[at] != '\n')
				continue;
			if (path > line && is_removed(environment + path, at - path))
				held = HELD_REMOVED;
			line = at + 1;
			path = line;
		}
		have = end - line;
		(void)memmove(environment, environment + line, have);
	}
	sys_close(fd);
	return held;
}

/* Print "S 16 sleep": the kind, the process, and the first word of its command line. */
static int tell_held(char kind, const char *pid)
{
	long fd = open_of(pid, "/cmdline", 0);
	size_t n = strlen(pid);
	long size;

	text[0] = kind;
	text[1] = ' ';
	(void)memcpy(text + 2, pid, n + 1);
	text[n + 2] = ' ';
	size = sys_read(fd, text + n + 3, 64);
	(void)sys_write(1, text, n + 3 + (size > 0 ? (size_t)size : 0));
	return 3;
}

/*
 * Find a process with a stream from outside, or with a removed file; print the first to
 * stdout and return 3; 0: there is none. A process that got a signal may need a moment to
 * end, so check several times.
 */
static int guest_held(void)
{
	for (int looks = HELD_LOOKS; looks-- > 0;) {
		const struct timespec moment = { .tv_nsec = 20000000 };
		struct guest_walk walk = guest_walk_open();
		const char *name;
		char kind = 0;

		if (walk.dir < 0)
			return 1; /* the agent cannot see the process's files, which may
				     include such a file */
		while (!kind && (name = guest_walk_next(&walk))) {
			kind = holds_open(name);
			if (!kind)
				kind = holds_mapped(name);
			if (kind && looks == 0)
				sys_exit(tell_held(kind, name));
		}
		sys_close(walk.dir);
		if (!kind)
			return 0;
		if (looks > 0)
			(void)SYS_2(SYS_nanosleep, &moment, NULL);
	}
	return 1;
}

static int guest_is(const char *a, const char *b)
{
	size_t n = strlen(b) + 1;

	return strlen(a) + 1 == n && memcmp(a, b, n) == 0;
}

/* The layout that the kernel uses: the number of arguments, then each argument. */
void agent_main(const long *stack)
{
	const struct kernel_sigaction ignored = { .handler = SIG_IGN,
						  .flags = SA_NOCLDWAIT };
	const char *const *argv = (const char *const *)(stack + 1);
	int serve;

	if (stack[0] == 2 && guest_is(argv[1], "quiet"))
		sys_exit(guest_quiet() == 0 ? 0 : 1);
	if (stack[0] == 4 && (guest_is(argv[1], "all") || guest_is(argv[1], "first")))
		sys_exit(signal_marked(argv[2], argv[3], guest_is(argv[1], "all")));
	if (stack[0] == 3 && guest_is(argv[1], "everyone"))
		sys_exit(signal_everyone(argv[2]));
	if (stack[0] == 2 && guest_is(argv[1], "held"))
		sys_exit(guest_held());
	if (stack[0] == 3 && guest_is(argv[1], "name") && guest_number(argv[2]) > 0)
		sys_exit(tell_held(HELD_COMMAND, argv[2]));
	if (stack[0] == 3 && guest_is(argv[1], "tools"))
		tools_run(argv[2], argv + 4);
	if (stack[0] == 4 && guest_is(argv[1], "connect"))
		relay_run(guest_is(argv[2], "::1"), guest_number(argv[3]));
	serve = stack[0] == 3 && guest_is(argv[1], "serve");
	if (stack[0] > 1 && !serve)
		sys_exit(1);
	(void)SYS_2(SYS_prctl, PR_SET_DUMPABLE, 0);
	(void)SYS_4(SYS_rt_sigaction, SIGCHLD, &ignored, 0, sizeof(ignored.mask));
	for (int fd = 0; fd < 3; fd++)
		sys_close(fd);
	if (serve)
		guest_server_run(argv[2]);
	for (;;)
		(void)SYS_4(SYS_ppoll, 0, 0, 0, 0);
}
