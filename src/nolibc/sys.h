/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sys.h - system calls for init, without a C library
 *
 * init is linked without any library, so that it takes a few pages instead of a megabyte,
 * has no loader, locks or hidden state, and starts in a tenth of a millisecond. Constants
 * and structures come from the system's headers, functions from this file. Every call
 * returns a value or -errno.
 */
#ifndef NOLIBC_SYS_H
#define NOLIBC_SYS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

/*
 * Always inline: a child that shares its parent's stack must not return from a function
 * that the parent is still in.
 */
#define SYS_INLINE static inline __attribute__((always_inline))

#if defined(__clang_analyzer__)
/*
 * A declaration for the analyzer, which does not know what the kernel writes to memory.
 * It assumes that an unknown function may write.
 */
long sys_call6(long nr, long a, long b, long c, long d, long e, long f);
#elif defined(__x86_64__)
SYS_INLINE long sys_call6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
SYS_INLINE long sys_call6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}
#else
#error "init knows the system call convention of x86_64 and aarch64"
#endif

/* Take arguments of any integer or pointer type; missing ones are zero. */
#define SYS_ARG(x)         ((long)(x))
#define SYS_0(nr)          sys_call6(nr, 0, 0, 0, 0, 0, 0)
#define SYS_1(nr, a)       sys_call6(nr, SYS_ARG(a), 0, 0, 0, 0, 0)
#define SYS_2(nr, a, b)    sys_call6(nr, SYS_ARG(a), SYS_ARG(b), 0, 0, 0, 0)
#define SYS_3(nr, a, b, c) sys_call6(nr, SYS_ARG(a), SYS_ARG(b), SYS_ARG(c), 0, 0, 0)
#define SYS_4(nr, a, b, c, d) \
	sys_call6(nr, SYS_ARG(a), SYS_ARG(b), SYS_ARG(c), SYS_ARG(d), 0, 0)
#define SYS_5(nr, a, b, c, d, e) \
	sys_call6(nr, SYS_ARG(a), SYS_ARG(b), SYS_ARG(c), SYS_ARG(d), SYS_ARG(e), 0)
#define SYS_6(nr, a, b, c, d, e, f)                                               \
	sys_call6(nr, SYS_ARG(a), SYS_ARG(b), SYS_ARG(c), SYS_ARG(d), SYS_ARG(e), \
		  SYS_ARG(f))

#define sys_close(fd)                   (void)SYS_1(SYS_close, fd)
#define sys_read(fd, p, n)              SYS_3(SYS_read, fd, p, n)
#define sys_write(fd, p, n)             SYS_3(SYS_write, fd, p, n)
#define sys_pread(fd, p, n, off)        SYS_4(SYS_pread64, fd, p, n, off)
#define sys_pwrite(fd, p, n, off)       SYS_4(SYS_pwrite64, fd, p, n, off)
#define sys_openat(dir, path, flags, m) SYS_4(SYS_openat, dir, path, flags, m)
#define sys_ioctl(fd, req, arg)         SYS_3(SYS_ioctl, fd, req, arg)
#define sys_kill(pid, sig)              SYS_2(SYS_kill, pid, sig)
#define sys_exit(code)                  (void)SYS_1(SYS_exit_group, code)

/* Functions that the compiler may call implicitly, and strlen(). */
#if __STDC_HOSTED__ /* for the sources that a shim shares with init */
#include <string.h>
#else
void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);
size_t strlen(const char *s);
#endif

#endif /* NOLIBC_SYS_H */
