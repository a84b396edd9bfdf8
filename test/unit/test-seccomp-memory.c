/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-seccomp-memory.c - the filter refuses calls that use kernel memory which is
 * charged to no cgroup
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "lib/seccomp-attempts.h"

/* These calls would let a process store data in the kernel without being charged. */
TEST(calls_that_use_uncharged_kernel_memory_are_refused)
{
	static char value[8192];
	const unsigned long fd = (unsigned)memfd_create("x", MFD_CLOEXEC);
	const unsigned long udp6 =
		(unsigned)socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const unsigned long tcp =
		(unsigned)socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const unsigned long name = (unsigned long)"user.x", v = (unsigned long)value;
	const unsigned long path = (unsigned long)"/nowhere/at/all", n = sizeof(int);
	const struct attempt list[] = {
		{ CALL(fsetxattr), { fd, name, v, 4096, 0 }, E2BIG },
		{ CALL(fsetxattr), { fd, name, v, 65536, 0 }, E2BIG },
		{ CALL(fsetxattr), { fd, name, v, 1UL << 32, 0 }, E2BIG },
		{ CALL(fsetxattr), { fd, name, v, 4095, 0 }, SAME },
		{ CALL(setxattr), { path, name, v, 4096, 0 }, E2BIG },
		{ CALL(setxattr), { path, name, v, 4095, 0 }, ENOENT },
		{ CALL(lsetxattr), { path, name, v, 4096, 0 }, E2BIG },
		{ CALL(lsetxattr), { path, name, v, 4095, 0 }, ENOENT },
		{ "setxattrat",
		  463,
		  { (unsigned)AT_FDCWD, path, 0, name, v, 16 },
		  ENOSYS },
		{ CALL(mbind), { 0, 0, 0, 0, 0 }, EPERM },
		{ OPTION(udp6, IPPROTO_IPV6, 6 /* IPV6_2292PKTOPTIONS */), EPERM },
		{ OPTION(udp6, IPPROTO_IPV6, 32 /* IPV6_FLOWLABEL_MGR */), EPERM },
		{ OPTION(udp6, IPPROTO_IPV6, IPV6_V6ONLY), 0 },
		{ OPTION(tcp, IPPROTO_TCP, 14 /* TCP_MD5SIG */), EPERM },
		{ OPTION(tcp, IPPROTO_TCP, 32 /* TCP_MD5SIG_EXT */), EPERM },
		{ OPTION(tcp, IPPROTO_TCP, 38 /* TCP_AO_ADD_KEY */), EPERM },
		{ OPTION(tcp, IPPROTO_TCP, 40 /* TCP_AO_INFO */), EPERM },
		{ OPTION(tcp, IPPROTO_TCP, 42 /* TCP_AO_REPAIR */), EPERM },
		{ OPTION(tcp, IPPROTO_TCP, TCP_NODELAY), 0 },
		{ "memfd_secret", 447, { 0 }, ENOSYS },
	};

	OK((int)fd >= 0 && (int)udp6 >= 0 && (int)tcp >= 0);
	attempt_all(list, ARRAY_SIZE(list));
}

TEST_MAIN()
