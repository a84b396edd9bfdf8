/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faults.c - preloaded into the service: a fraction of the calls fails, while the test
 * requests it
 *
 * The test maps the same page ($WARREN_FAULTS names its file): it sets which calls must
 * fail and how often, and reads how often they failed. The test's seed determines which
 * calls fail, so that a run can be repeated, as far as threads allow.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum kind {
	MEMORY,      /* ENOMEM of malloc(3) and similar functions */
	DESCRIPTORS, /* EMFILE of calls that create a descriptor */
	SPACE,       /* ENOSPC of calls that write to or create files */
	DISK,        /* EIO of the same calls */
	MESSAGES,    /* errors of messages between processes: one of `passing` */
	SIGNALS,     /* a signal is not delivered: one of `passing` */
	INTERRUPTS,  /* EINTR of calls that wait, read or write */
	KIND_MAX,
};

static struct control {
	uint32_t kinds; /* bit mask; 0: nothing fails */
	uint32_t one_in;
	uint64_t seed; /* changes with each draw */
	uint64_t count[KIND_MAX];
	int64_t clock_shift; /* seconds by which the system time is ahead */
} off, *control = &off;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("WARREN_FAULTS");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *page = fd < 0 ? MAP_FAILED
			    : mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE,
				   MAP_SHARED, fd, 0);

	if (page != MAP_FAILED)
		control = page;
	if (fd >= 0)
		(void)close(fd);
}

/* Return the next random number (splitmix64), in any thread. */
static uint64_t draw(void)
{
	uint64_t x = __atomic_add_fetch(&control->seed, 0x9e3779b97f4a7c15ULL,
					__ATOMIC_RELAXED);

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/* Decide whether the call must fail; if so, set errno. */
static int fails(enum kind kind)
{
	static const int codes[KIND_MAX] = { ENOMEM, EMFILE, ENOSPC, EIO, 0, 0, EINTR };
	static const int passing[] = { ENOMEM, ENOBUFS, EAGAIN, EINTR };
	uint64_t n;

	if (!(control->kinds & 1U << kind))
		return 0;
	n = draw();
	if (n % control->one_in != 0)
		return 0;
	__atomic_add_fetch(&control->count[kind], 1, __ATOMIC_RELAXED);
	errno = codes[kind] ? codes[kind] : passing[n / control->one_in % 4];
	return 1;
}

/* ------------------------------------------------------------------------ memory */

/* These are glibc's own functions, by the names that it exports for this purpose. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

void *malloc(size_t n)
{
	return fails(MEMORY) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return fails(MEMORY) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return n > 0 && fails(MEMORY) ? NULL : __libc_realloc(p, n);
}

/* ------------------------------------------------------------------------- calls */

/* A function that is called as declared, and fails with -1. */
#define WRAP(kind, type, name, params, ...)                          \
	type name params                                             \
	{                                                            \
		static type(*real) params;                           \
                                                                     \
		if (!real)                                           \
			*(void **)(&real) = dlsym(RTLD_NEXT, #name); \
		return fails(kind) ? (type)-1 : real(__VA_ARGS__);   \
	}

static int is_file(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

WRAP(DESCRIPTORS, int, eventfd, (unsigned n, int flags), n, flags)
WRAP(DESCRIPTORS, int, memfd_create, (const char *name, unsigned flags), name, flags)
WRAP(DESCRIPTORS, int, pipe2, (int fds[2], int flags), fds, flags)
WRAP(DESCRIPTORS, int, socket, (int family, int type, int protocol), family, type,
     protocol)
WRAP(DESCRIPTORS, int, accept4,
     (int fd, struct sockaddr *restrict a, socklen_t *restrict n, int flags), fd, a, n,
     flags)
WRAP(SIGNALS, int, pidfd_send_signal,
     (int pidfd, int sig, siginfo_t *info, unsigned flags), pidfd, sig, info, flags)
WRAP(SIGNALS, int, kill, (pid_t pid, int sig), pid, sig)
WRAP(INTERRUPTS, int, poll, (struct pollfd * p, nfds_t n, int ms), p, n, ms)
WRAP(INTERRUPTS, int, epoll_wait, (int fd, struct epoll_event *ev, int n, int ms), fd, ev,
     n, ms)
WRAP(INTERRUPTS, ssize_t, read, (int fd, void *data, size_t n), fd, data, n)
WRAP(INTERRUPTS, ssize_t, writev, (int fd, const struct iovec *v, int n), fd, v, n)
WRAP(INTERRUPTS, int, waitid, (idtype_t type, id_t id, siginfo_t *info, int flags), type,
     id, info, flags)

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	static int (*real)(clockid_t clock, struct timespec * ret);
	int r;

	if (!real)
		*(void **)(&real) = dlsym(RTLD_NEXT, "clock_gettime");
	r = real(clock, ret);
	if (r == 0 && clock == CLOCK_REALTIME)
		ret->tv_sec += control->clock_shift;
	return r;
}

static int is_message_socket(int fd)
{
	int type = 0;
	socklen_t size = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
	       type == SOCK_SEQPACKET;
}

/* Messages between api, warden and inits; connections of clients are streams. */
#define MESSAGE(name, params)                                                        \
	ssize_t name params                                                          \
	{                                                                            \
		static ssize_t(*real) params;                                        \
                                                                                     \
		if (!real)                                                           \
			*(void **)(&real) = dlsym(RTLD_NEXT, #name);                 \
		if (control->kinds & (1U << MESSAGES | 1U << INTERRUPTS) &&          \
		    is_message_socket(fd) && (fails(MESSAGES) || fails(INTERRUPTS))) \
			return -1;                                                   \
		return real(fd, msg, flags);                                         \
	}

MESSAGE(sendmsg, (int fd, const struct msghdr *msg, int flags))
MESSAGE(recvmsg, (int fd, struct msghdr *msg, int flags))
WRAP(SPACE, int, mkdirat, (int at, const char *path, mode_t mode), at, path, mode)
WRAP(DISK, int, fdatasync, (int fd), fd)
WRAP(DISK, int, ftruncate64, (int fd, off64_t n), fd, n)
WRAP(DISK, ssize_t, pread64, (int fd, void *data, size_t n, off64_t at), fd, data, n, at)

/* Sockets and pipes have no disk that can be full. */
#define WRITES(name, params, ...)                                                 \
	ssize_t name params                                                       \
	{                                                                         \
		static ssize_t(*real) params;                                     \
                                                                                  \
		if (!real)                                                        \
			*(void **)(&real) = dlsym(RTLD_NEXT, #name);              \
		if (control->kinds & (1U << SPACE | 1U << DISK) && is_file(fd) && \
		    (fails(SPACE) || fails(DISK)))                                \
			return -1;                                                \
		return real(__VA_ARGS__);                                         \
	}

WRITES(write, (int fd, const void *data, size_t n), fd, data, n)
WRITES(pwrite64, (int fd, const void *data, size_t n, off64_t at), fd, data, n, at)

/* A call that creates a file may also find no space. */
static int open_fails(int flags)
{
	return fails(DESCRIPTORS) || (flags & O_CREAT && (fails(SPACE) || fails(DISK)));
}

#define OPENS(name, params, ...)                                         \
	int name params                                                  \
	{                                                                \
		static int(*real) params;                                \
		mode_t mode = 0;                                         \
		va_list ap;                                              \
                                                                         \
		if (!real)                                               \
			*(void **)(&real) = dlsym(RTLD_NEXT, #name);     \
		if (flags & (O_CREAT | __O_TMPFILE)) {                   \
			va_start(ap, flags);                             \
			mode = va_arg(ap, mode_t);                       \
			va_end(ap);                                      \
		}                                                        \
		return open_fails(flags) ? -1 : real(__VA_ARGS__, mode); \
	}

OPENS(open, (const char *path, int flags, ...), path, flags)
OPENS(open64, (const char *path, int flags, ...), path, flags)
OPENS(openat, (int at, const char *path, int flags, ...), at, path, flags)
OPENS(openat64, (int at, const char *path, int flags, ...), at, path, flags)
