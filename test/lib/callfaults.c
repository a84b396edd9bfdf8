/* SPDX-License-Identifier: Apache-2.0 */
/*
 * callfaults.c - preloaded into the service: one system call fails with one error at a
 * time
 *
 * faults.c simulates combined failures (a full disk, no memory). With this file, a test
 * makes all calls of api and warden fail, one after the other (test-every-call.py, which
 * reads the table below). A shared page ($WARREN_FAULTS names its file) says which call
 * must fail, how and how often, and counts how often each was called and failed.
 *
 * All wrappers are alike: they pass the arguments of a system call, at most seven words,
 * on unchanged.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* How a call fails; with CLOSES, the call is made in any case. */
enum style {
	MINUS,
	NONE,
	CODE,
	CLOSES
};

/*
 * CALL(name, how it fails, with which errors): test-every-call.py uses the classes.
 *	FD	creates a descriptor	FILE	needs space on a working disk
 *	WAIT	may be interrupted	MEM	needs memory of the kernel
 *	SOCK	a socket that is full or empty, or has no memory
 *	PROC	creates a process or a thread
 *	DISK	reads a disk that may fail
 *	RARE	not every third time: libuv ends the process, and the next one could not
 *		start
 */
/* clang-format off */
#define CALLS \
	CALL(__open64_2, MINUS, FD FILE WAIT) \
	CALL(_Fork, MINUS, PROC) \
	CALL(accept4, MINUS, FD WAIT SOCK) \
	CALL(access, MINUS, DISK MEM) \
	CALL(bind, MINUS, MEM) \
	CALL(chdir, MINUS, DISK MEM) \
	CALL(chmod, MINUS, FILE) \
	CALL(chown, MINUS, FILE) \
	CALL(clone, MINUS, PROC) \
	CALL(close, CLOSES, WAIT FILE) \
	CALL(connect, MINUS, WAIT SOCK) \
	CALL(copy_file_range, MINUS, FILE WAIT) \
	CALL(dup2, MINUS, WAIT) \
	CALL(epoll_create1, MINUS, FD) \
	CALL(epoll_ctl, MINUS, MEM RARE) \
	CALL(epoll_pwait, MINUS, WAIT) \
	CALL(epoll_wait, MINUS, WAIT) \
	CALL(eventfd, MINUS, FD) \
	CALL(faccessat, MINUS, DISK MEM) \
	CALL(fallocate64, MINUS, FILE WAIT) \
	CALL(fchdir, MINUS, DISK) \
	CALL(fchmod, MINUS, FILE) \
	CALL(fchmodat, MINUS, FILE) \
	CALL(fchown, MINUS, FILE) \
	CALL(fchownat, MINUS, FILE) \
	CALL(fcntl64, MINUS, FD) \
	CALL(fdatasync, MINUS, FILE) \
	CALL(fdopen, NONE, MEM) \
	CALL(fdopendir, NONE, MEM) \
	CALL(flock, MINUS, WAIT MEM) \
	CALL(fopen64, NONE, FD DISK) \
	CALL(fork, MINUS, PROC) \
	CALL(fsconfig, MINUS, MEM) \
	CALL(fsetxattr, MINUS, FILE) \
	CALL(fsmount, MINUS, FD) \
	CALL(fsopen, MINUS, FD) \
	CALL(fspick, MINUS, FD) \
	CALL(fstat64, MINUS, DISK) \
	CALL(fstatat64, MINUS, DISK MEM) \
	CALL(fstatfs64, MINUS, DISK) \
	CALL(fstatvfs64, MINUS, DISK) \
	CALL(fsync, MINUS, FILE) \
	CALL(ftruncate64, MINUS, FILE WAIT) \
	CALL(getpeername, MINUS, MEM) \
	CALL(getsockname, MINUS, MEM) \
	CALL(getsockopt, MINUS, MEM) \
	CALL(inotify_add_watch, MINUS, FILE MEM) \
	CALL(inotify_init1, MINUS, FD) \
	CALL(ioctl, MINUS, MEM) \
	CALL(kill, MINUS, SOCK) \
	CALL(listen, MINUS, MEM) \
	CALL(lseek64, MINUS, DISK) \
	CALL(linkat, MINUS, FILE) \
	CALL(lstat64, MINUS, DISK MEM) \
	CALL(memfd_create, MINUS, FD) \
	CALL(mkdir, MINUS, FILE) \
	CALL(mkdirat, MINUS, FILE) \
	CALL(mknod, MINUS, FILE) \
	CALL(mknodat, MINUS, FILE) \
	CALL(mmap64, MINUS, MEM) \
	CALL(mount, MINUS, MEM) \
	CALL(mount_setattr, MINUS, MEM) \
	CALL(move_mount, MINUS, MEM) \
	CALL(mremap, MINUS, MEM) \
	CALL(nanosleep, MINUS, WAIT) \
	CALL(open64, MINUS, FD FILE WAIT) \
	CALL(name_to_handle_at, MINUS, MEM) \
	CALL(open_by_handle_at, MINUS, FD) \
	CALL(open_tree, MINUS, FD) \
	CALL(openat64, MINUS, FD FILE WAIT) \
	CALL(opendir, NONE, FD DISK) \
	CALL(pidfd_open, MINUS, FD) \
	CALL(pidfd_send_signal, MINUS, SOCK) \
	CALL(pipe2, MINUS, FD) \
	CALL(poll, MINUS, WAIT MEM) \
	CALL(posix_spawn, CODE, PROC) \
	CALL(pread64, MINUS, DISK WAIT) \
	CALL(pthread_create, CODE, PROC) \
	CALL(pwrite64, MINUS, FILE WAIT) \
	CALL(read, MINUS, WAIT DISK) \
	CALL(readlink, MINUS, DISK MEM) \
	CALL(readlinkat, MINUS, DISK MEM) \
	CALL(realpath, NONE, DISK MEM) \
	CALL(recv, MINUS, SOCK WAIT) \
	CALL(recvmsg, MINUS, SOCK WAIT) \
	CALL(rename, MINUS, FILE) \
	CALL(renameat, MINUS, FILE) \
	CALL(renameat2, MINUS, FILE) \
	CALL(rmdir, MINUS, DISK) \
	CALL(send, MINUS, SOCK WAIT) \
	CALL(sendfile64, MINUS, SOCK WAIT) \
	CALL(sendmsg, MINUS, SOCK WAIT) \
	CALL(sendto, MINUS, SOCK WAIT) \
	CALL(setns, MINUS, MEM) \
	CALL(setsockopt, MINUS, MEM) \
	CALL(socket, MINUS, FD) \
	CALL(socketpair, MINUS, FD) \
	CALL(stat64, MINUS, DISK MEM) \
	CALL(statfs64, MINUS, DISK) \
	CALL(statvfs64, MINUS, DISK) \
	CALL(symlinkat, MINUS, FILE) \
	CALL(syncfs, MINUS, FILE) \
	CALL(syscall, MINUS, FD WAIT) \
	CALL(umount2, MINUS, MEM) \
	CALL(unlink, MINUS, FILE) \
	CALL(unlinkat, MINUS, FILE) \
	CALL(unshare, MINUS, MEM) \
	CALL(utimensat, MINUS, FILE) \
	CALL(wait4, MINUS, WAIT) \
	CALL(waitid, MINUS, WAIT) \
	CALL(waitpid, MINUS, WAIT) \
	CALL(write, MINUS, FILE WAIT)
/* clang-format on */

enum call {
#define CALL(name, style, classes) CALL_##name,
	CALLS
#undef CALL
		CALL_MAX,
};

#define ROOM 256 /* the test sets the same number */
_Static_assert(CALL_MAX <= ROOM, "the page is too small");

static struct control {
	uint32_t call; /* 1 + the index in the table; 0: none fails */
	int32_t code;
	uint32_t one_in, unused;
	uint64_t seed; /* changes with each draw */
	uint64_t called[ROOM], failed[ROOM];
} off, *control = &off;

typedef long fn(long a, long b, long c, long d, long e, long f, long g);

static fn *real[CALL_MAX];

static const char *const names[] = {
#define CALL(name, style, classes) #name,
	CALLS
#undef CALL
};

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("WARREN_FAULTS");
	int (*open_real)(const char *name, int flags, ...);
	int fd = -1;

	for (int i = 0; i < CALL_MAX; i++)
		*(void **)(&real[i]) = dlsym(RTLD_NEXT, names[i]);
	*(void **)(&open_real) = dlsym(RTLD_NEXT, "open");
	/* Programs that the service starts are not affected. */
	if (path && strcmp(program_invocation_short_name, "warren-serve") == 0)
		fd = open_real(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		void *page = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE,
				  MAP_SHARED, fd, 0);

		if (page != MAP_FAILED)
			control = page;
		real[CALL_close](fd, 0, 0, 0, 0, 0, 0);
	}
}

/* splitmix64: each draw takes the next number, in any thread. */
static uint64_t draw(void)
{
	uint64_t x = __atomic_add_fetch(&control->seed, 0x9e3779b97f4a7c15ULL,
					__ATOMIC_RELAXED);

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/*
 * Can the call fail in this way? A pipe has no disk, and only one operation of fcntl(2)
 * creates a descriptor.
 */
static int may_fail(enum call call, long a, long b)
{
	struct stat st;

	if (call == CALL_fcntl64)
		return (int)b == F_DUPFD_CLOEXEC || (int)b == F_DUPFD;
	if ((call == CALL_read || call == CALL_write || call == CALL_close) &&
	    control->code != EINTR)
		return ((int (*)(int fd, struct stat *ret))(void *)real[CALL_fstat64])(
			       (int)a, &st) == 0 &&
		       S_ISREG(st.st_mode);
	return 1;
}

/* @a and @b are its first arguments. */
static int fails(enum call call, long a, long b)
{
	__atomic_add_fetch(&control->called[call], 1, __ATOMIC_RELAXED);
	if (control->call != call + 1U || !may_fail(call, a, b) ||
	    draw() % control->one_in != 0)
		return 0;
	__atomic_add_fetch(&control->failed[call], 1, __ATOMIC_RELAXED);
	return control->code;
}

#define CALL(name, style, classes)                                                      \
	long wrap_##name(long a, long b, long c, long d, long e, long f,                \
			 long g) __asm__(#name) __attribute__((visibility("default"))); \
	long wrap_##name(long a, long b, long c, long d, long e, long f, long g)        \
	{                                                                               \
		int code = fails(CALL_##name, a, b);                                    \
                                                                                        \
		if (code == 0)                                                          \
			return real[CALL_##name](a, b, c, d, e, f, g);                  \
		if (style == CLOSES)                                                    \
			(void)real[CALL_##name](a, b, c, d, e, f, g);                   \
		errno = code;                                                           \
		return style == NONE ? 0 : style == CODE ? code : -1;                   \
	}
CALLS
