/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-seccomp.c - what the system call filter refuses and allows
 *
 * Most tests make the call. Refused calls have arguments that would fail even without the
 * filter, because the tests may run as root. An allowed call must have the same result
 * with the filter as without it.
 *
 * Calls that cannot be made here (of another architecture, or newer than the kernel) are
 * checked with the small interpreter below.
 */
#include "os/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/uio.h>

#include "lib/seccomp-attempts.h"
#include "lib/tap.h"

#define X32_BIT    0x40000000U
#define GARBAGE    0xdeadbeef00000000UL /* the kernel does not read this */
#define RET_EPERM  (SECCOMP_RET_ERRNO | EPERM)
#define RET_ENOSYS (SECCOMP_RET_ERRNO | ENOSYS)
#define MPTCP      262
#define NEWTIME    0x80UL
#define AF_UNHEARD 200

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#else
#define NATIVE AUDIT_ARCH_AARCH64
#endif

/* Run @fn in a child, with the filter if @filtered; return the wait status. */
static int filtered_child(void (*fn)(void), bool filtered)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		const struct rlimit no_core = { 0, 0 };

		(void)setrlimit(RLIMIT_CORE, &no_core);
		if (filtered)
			filter_on();
		fn();
		_exit(EXIT_SUCCESS);
	}
	OK(pid > 0);
	EQ(waitpid(pid, &status, 0), pid);
	return status;
}

/* Return the decision of the filter, interpreted as the kernel does. */
static uint32_t judge(struct seccomp_data data)
{
	const struct sock_fprog *prog = seccomp_program();
	uint32_t a = 0;

	for (unsigned pc = 0; pc < prog->len; pc++) {
		const struct sock_filter *f = &prog->filter[pc];
		bool yes = false;

		switch (f->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			OK(f->k % 4 == 0 && f->k + 4 <= sizeof(data));
			memcpy(&a, (const char *)&data + f->k, sizeof(a));
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= f->k;
			continue;
		case BPF_RET | BPF_K:
			return f->k;
		case BPF_JMP | BPF_JA:
			pc += f->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			yes = a == f->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			yes = a >= f->k;
			break;
		default:
			TAP_FAIL("instruction %u has code 0x%x", pc, (unsigned)f->code);
		}
		pc += yes ? f->jt : f->jf;
	}
	TAP_FAIL("the program runs past its end");
}

static uint32_t judge_nr(uint32_t arch, unsigned nr)
{
	return judge((struct seccomp_data){ .arch = arch, .nr = (int)nr });
}

static void allowed_all(const unsigned *numbers, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t action = judge_nr(NATIVE, numbers[i]);

		if (action != SECCOMP_RET_ALLOW)
			TAP_FAIL("call %u gets 0x%x", numbers[i], action);
	}
}

TEST(a_filter_can_be_loaded)
{
	OK(seccomp_available());
}

TEST(a_filter_needs_no_new_privs)
{
	struct warren_error err = WARREN_ERROR_INIT;

	SKIP_UNLESS(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0, "it is set already");
	if (geteuid() == 0)
		EQ(setresuid(65534, 65534, 65534), 0);
	EQ(seccomp_load(&err), -EACCES);
	EQ(err.code, EACCES);
	STREQ(err.msg, "load the syscall filter: no_new_privs must be set first");
	filter_on();
	EQ(prctl(PR_GET_SECCOMP, 0, 0, 0, 0), SECCOMP_MODE_FILTER);
}

TEST(every_system_call_number_is_decided)
{
	unsigned allowed = 0, refused = 0, unknown = 0;

	for (unsigned nr = 0; nr < 2000; nr++) {
		switch (judge_nr(NATIVE, nr)) {
		case SECCOMP_RET_ALLOW:
			allowed++;
			break;
		case RET_EPERM:
			refused++;
			break;
		case RET_ENOSYS:
			unknown++;
			break;
		default:
			TAP_FAIL("call %u gets 0x%x", nr, judge_nr(NATIVE, nr));
		}
	}
	OK(allowed > 240 && allowed < 340);
	OK(refused > 40 && refused < 70);
	EQ(allowed + refused + unknown, 2000);
	/* The time to load the filter is proportional to this. */
	OK(seccomp_program()->len < 200);
}

TEST(calls_of_foreign_architectures_kill_the_process)
{
	static const uint32_t archs[] = {
		AUDIT_ARCH_I386,
		AUDIT_ARCH_X86_64,
		AUDIT_ARCH_ARM,
		AUDIT_ARCH_AARCH64,
		AUDIT_ARCH_ARMEB,
		AUDIT_ARCH_RISCV64,
		0,
	};

	for (size_t i = 0; i < ARRAY_SIZE(archs); i++) {
		for (unsigned nr = 0; nr < 600 && archs[i] != NATIVE; nr++)
			EQ(judge_nr(archs[i], nr), SECCOMP_RET_KILL_PROCESS);
	}
	EQ(judge_nr(NATIVE, SYS_getpid), SECCOMP_RET_ALLOW);
}

static void call_x32(void)
{
	(void)syscall(X32_BIT | SYS_getpid);
}

TEST(an_x32_call_kills_the_process)
{
	int status;

#if !defined(__x86_64__)
	SKIP_UNLESS(false, "x32 is an ABI of x86_64");
#endif
	status = filtered_child(call_x32, true);
	OK(WIFSIGNALED(status));
	EQ(WTERMSIG(status), SIGSYS);
	EQ(filtered_child(call_x32, false), 0);
}

TEST(every_x32_call_number_kills_the_process)
{
#if !defined(__x86_64__)
	SKIP_UNLESS(false, "x32 is an ABI of x86_64");
#endif
	EQ(judge_nr(NATIVE, X32_BIT), SECCOMP_RET_KILL_PROCESS);
	EQ(judge_nr(NATIVE, X32_BIT | 512), SECCOMP_RET_KILL_PROCESS);
	EQ(judge_nr(NATIVE, 0x80000000U), SECCOMP_RET_KILL_PROCESS);
	EQ(judge_nr(NATIVE, 0xfffffffeU), SECCOMP_RET_KILL_PROCESS);
	EQ(judge_nr(NATIVE, X32_BIT - 1), RET_ENOSYS);
}

static void call_int80(void)
{
#if defined(__x86_64__)
	long r = 20; /* getpid, for i386 */

	__asm__ volatile("int $0x80" : "+a"(r) : : "r8", "r9", "r10", "r11", "memory");
	if (r != getpid())
		_exit(EXIT_FAILURE);
#endif
}

TEST(int_0x80_kills_the_process)
{
	int status;

#if !defined(__x86_64__)
	SKIP_UNLESS(false, "int 0x80 is an instruction of x86");
#endif
	SKIP_UNLESS(filtered_child(call_int80, false) == 0,
		    "this kernel has no i386 ABI");
	status = filtered_child(call_int80, true);
	OK(WIFSIGNALED(status));
	EQ(WTERMSIG(status), SIGSYS);
}

TEST(the_mount_api_is_refused)
{
	static const struct attempt list[] = {
		{ REFUSED(mount) },
		{ REFUSED(umount2) },
		{ REFUSED(pivot_root) },
		{ REFUSED(open_tree) },
		{ REFUSED(move_mount) },
		{ REFUSED(fsopen) },
		{ REFUSED(fsconfig) },
		{ REFUSED(fsmount) },
		{ REFUSED(fspick) },
		{ REFUSED(mount_setattr) },
		{ "statmount", 457, { 0 }, EPERM },
		{ "listmount", 458, { 0 }, EPERM },
		{ "open_tree_attr", 467, { -1UL }, EPERM },
		{ CALL(chdir), { (unsigned long)"/" }, 0 },
		{ CALL(statfs), { (unsigned long)"/", 0 }, EFAULT },
		{ CALL(chroot), { (unsigned long)"/no/such/place" }, SAME },
	};

	attempt_all(list, ARRAY_SIZE(list));
}

TEST(dangerous_subsystems_are_refused)
{
	static const struct attempt list[] = {
		{ REFUSED(io_uring_setup) },
		{ REFUSED(io_uring_enter) },
		{ REFUSED(io_uring_register) },
		{ REFUSED(bpf) },
		{ REFUSED(perf_event_open) },
		{ REFUSED(userfaultfd) },
		{ REFUSED(keyctl) },
		{ REFUSED(add_key) },
		{ REFUSED(request_key) },
		{ REFUSED(open_by_handle_at) },
		{ REFUSED(name_to_handle_at) },
		{ REFUSED(fanotify_init) },
		{ REFUSED(fanotify_mark) },
		{ REFUSED(kcmp) },
		{ REFUSED(pidfd_getfd) },
		{ REFUSED(setns) },
		{ "listns", 470, { -1UL }, EPERM },
#ifdef SYS_modify_ldt
		{ REFUSED(modify_ldt) },
#endif
		{ CALL(io_setup), { 1, 0 }, ENOSYS },
		{ CALL(epoll_create1), { 0 }, 0 },
		{ CALL(inotify_init1), { 0 }, SAME },
		{ CALL(pidfd_open), { 1, 0 }, SAME },
	};

	attempt_all(list, ARRAY_SIZE(list));
}

TEST(calls_that_change_the_machine_are_refused)
{
	static const struct attempt list[] = {
		{ REFUSED(reboot) },
		{ REFUSED(kexec_load) },
		{ REFUSED(kexec_file_load) },
		{ REFUSED(init_module) },
		{ REFUSED(finit_module) },
		{ REFUSED(delete_module) },
		{ REFUSED(swapon) },
		{ REFUSED(swapoff) },
		{ REFUSED(acct) },
		{ REFUSED(quotactl) },
		{ REFUSED(quotactl_fd) },
		{ REFUSED(syslog) },
		{ REFUSED(settimeofday) },
		{ REFUSED(clock_settime) },
		{ REFUSED(sethostname) },
		{ REFUSED(setdomainname) },
		{ REFUSED(vhangup) },
		{ REFUSED(lookup_dcookie) },
		{ REFUSED(nfsservctl) },
#if defined(__x86_64__)
		{ REFUSED(iopl) },
		{ REFUSED(ioperm) },
		{ REFUSED(uselib) },
		{ REFUSED(ustat) },
		{ REFUSED(sysfs) },
		{ REFUSED(_sysctl) },
		{ REFUSED(create_module) },
		{ REFUSED(query_module) },
#endif
		{ CALL(clock_gettime), { CLOCK_REALTIME, 0 }, SAME },
		{ CALL(sysinfo), { 0 }, EFAULT },
	};
	struct timex tx = { .modes = 0 };

	(void)setsid(); /* so that vhangup has no terminal if it is not refused */
	attempt_all(list, ARRAY_SIZE(list));
	OK(adjtimex(&tx) >= 0);
}

TEST(unknown_new_calls_are_refused)
{
	static const struct attempt list[] = {
		{ "clone3", 435, { 0 }, ENOSYS },
		{ "cachestat", 451, { -1UL }, ENOSYS },
		{ "lsm_list_modules", 461, { 0 }, ENOSYS },
		{ "file_setattr", 469, { -1UL }, ENOSYS },
		{ "a gap in the table", 400, { 0 }, ENOSYS },
		{ "one above the table", 1024, { 0 }, ENOSYS },
		{ "far above the table", 5000, { 0 }, ENOSYS },
		{ "minus one", -1, { 0 }, ENOSYS },
		{ CALL(getpid), { 0 }, 0 },
	};

	attempt_all(list, ARRAY_SIZE(list));
	/* This is allowed, so that a result which a tracer has set is kept. */
	EQ(judge_nr(NATIVE, 0xffffffffU), SECCOMP_RET_ALLOW);
}

static void *thread_main(void *arg)
{
	return arg;
}

TEST(libc_falls_back_from_clone3)
{
	char *argv[] = { (char *)"true", NULL };
	void *ret = NULL;
	pthread_t thread;
	int status = -1;
	pid_t pid = -1;

	filter_on();
	EQ(pthread_create(&thread, NULL, thread_main, argv), 0);
	EQ(pthread_join(thread, &ret), 0);
	OK(ret == argv);
	EQ(posix_spawnp(&pid, "true", NULL, NULL, argv, NULL), 0);
	EQ(waitpid(pid, &status, 0), pid);
	EQ(status, 0);
}

TEST(new_harmless_calls_are_allowed)
{
	static const unsigned numbers[] = { 434, 436, 437, 439, 440, 441, 444,
					    445, 446, 448, 449, 450, 452, 453,
					    454, 455, 456, 462, 464, 465, 466 };

	allowed_all(numbers, ARRAY_SIZE(numbers));
}

/* pid 1 of a sandbox has the same filter as all other processes in it. */
TEST(calls_that_init_needs_are_allowed)
{
	static const unsigned numbers[] = {
		SYS_execveat,        SYS_waitid,    SYS_epoll_ctl,
		SYS_epoll_pwait,     SYS_signalfd4, SYS_timerfd_create,
		SYS_timerfd_settime, SYS_eventfd2,  SYS_sendmsg,
		SYS_recvmsg,         SYS_openat2,   SYS_mkdirat,
		SYS_unlinkat,        SYS_splice,    SYS_pread64,
		SYS_pwrite64,        SYS_prctl,     SYS_setresuid,
		SYS_setresgid,       SYS_setgroups, SYS_setfsuid,
		SYS_setfsgid,        SYS_capset,    SYS_pidfd_send_signal,
		SYS_connect,         SYS_fstatfs,   SYS_dup3,
		SYS_close_range,     SYS_fchdir,
	};

	allowed_all(numbers, ARRAY_SIZE(numbers));
	EQ(judge((struct seccomp_data){
		   .arch = NATIVE,
		   .nr = SYS_clone,
		   .args = { CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD } }),
	   SECCOMP_RET_ALLOW);
}

TEST(socket_allows_common_protocols)
{
	int pair[2];
	const unsigned long sv = (unsigned long)pair;
	const struct attempt list[] = {
		{ SOCKET(AF_UNIX, SOCK_STREAM, 0), 0 },
		{ SOCKET(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), 0 },
		{ SOCKET(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0), 0 },
		{ SOCKET(AF_INET, SOCK_STREAM, 0), 0 },
		{ SOCKET(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP), 0 },
		{ SOCKET(AF_INET, SOCK_DGRAM, 0), 0 },
		{ SOCKET(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, IPPROTO_UDP), 0 },
		{ SOCKET(AF_INET, SOCK_DGRAM, IPPROTO_ICMP), SAME },
		{ SOCKET(AF_INET6, SOCK_STREAM, 0), SAME },
		{ SOCKET(AF_INET6, SOCK_STREAM, IPPROTO_TCP), SAME },
		{ SOCKET(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), SAME },
		{ SOCKET(AF_INET6, SOCK_DGRAM, IPPROTO_UDP), SAME },
		{ SOCKET(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6), SAME },
		{ SOCKET(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), 0 },
		{ SOCKET(AF_NETLINK, SOCK_DGRAM, NETLINK_ROUTE), 0 },
		{ SOCKET(AF_INET, SOCK_STREAM | 0x100, 0), EINVAL },
		{ SOCKET(GARBAGE | AF_INET, GARBAGE | SOCK_STREAM, GARBAGE), 0 },
		{ CALL(socketpair), { AF_INET, SOCK_STREAM, 0, sv }, EOPNOTSUPP },
		{ CALL(socketpair), { AF_UNIX, SOCK_STREAM, 0, sv }, 0 },
	};

	attempt_all(list, ARRAY_SIZE(list));
}

/*
 * The error is that of a kernel without audit: with EPERM, useradd, su and sudo refuse to
 * work.
 */
TEST(audit_sockets_are_refused)
{
	static const struct attempt list[] = {
		{ SOCKET(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT), EPROTONOSUPPORT },
		{ SOCKET(AF_NETLINK, SOCK_DGRAM, NETLINK_AUDIT), EPROTONOSUPPORT },
		{ SOCKET(GARBAGE | AF_NETLINK, GARBAGE | SOCK_RAW,
			 GARBAGE | NETLINK_AUDIT),
		  EPROTONOSUPPORT },
		{ SOCKET(AF_NETLINK, SOCK_STREAM, NETLINK_AUDIT), EPERM },
		{ SOCKET(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT - 1), EPERM },
		{ SOCKET(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT + 1), EPERM },
		{ SOCKET(AF_INET, SOCK_DGRAM, NETLINK_AUDIT), EPERM },
		{ SOCKET(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), 0 },
	};

	attempt_all(list, ARRAY_SIZE(list));
}

TEST(socket_refuses_everything_else)
{
	static const struct attempt list[] = {
		{ SOCKET(AF_INET, SOCK_RAW, IPPROTO_ICMP), EPERM },
		{ SOCKET(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW), EPERM },
		{ SOCKET(AF_INET, SOCK_PACKET, 0), EPERM },
		{ SOCKET(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP), EPERM },
		{ SOCKET(AF_INET, SOCK_STREAM, IPPROTO_SCTP), EPERM },
		{ SOCKET(AF_INET, SOCK_STREAM, MPTCP), EPERM },
		{ SOCKET(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPERM },
		{ SOCKET(AF_INET, SOCK_DGRAM, IPPROTO_TCP), EPERM },
		{ SOCKET(AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE), EPERM },
		{ SOCKET(AF_INET, SOCK_DGRAM, IPPROTO_ICMPV6), EPERM },
		{ SOCKET(AF_INET, SOCK_DGRAM, 115 /* L2TP */), EPERM },
		{ SOCKET(AF_INET, SOCK_DCCP, IPPROTO_DCCP), EPERM },
		{ SOCKET(AF_INET, 0, 0), EPERM },
		{ SOCKET(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6), EPERM },
		{ SOCKET(AF_INET6, SOCK_STREAM, MPTCP), EPERM },
		{ SOCKET(AF_INET6, SOCK_DGRAM, IPPROTO_ICMP), EPERM },
		{ SOCKET(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER), EPERM },
		{ SOCKET(AF_NETLINK, SOCK_DGRAM, NETLINK_XFRM), EPERM },
		{ SOCKET(AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT), EPERM },
		{ SOCKET(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC), EPERM },
		{ SOCKET(AF_NETLINK, SOCK_STREAM, NETLINK_ROUTE), EPERM },
		{ SOCKET(AF_PACKET, SOCK_RAW, 0), EPERM },
		{ SOCKET(AF_VSOCK, SOCK_STREAM, 0), EPERM },
		{ SOCKET(AF_ALG, SOCK_SEQPACKET, 0), EPERM },
		{ SOCKET(AF_KEY, SOCK_RAW, 2), EPERM },
		{ SOCKET(AF_XDP, SOCK_RAW, 0), EPERM },
		{ SOCKET(AF_SMC, SOCK_STREAM, 0), EPERM },
		{ SOCKET(AF_TIPC, SOCK_STREAM, 0), EPERM },
		{ SOCKET(AF_CAN, SOCK_RAW, 1), EPERM },
		{ SOCKET(AF_BLUETOOTH, SOCK_STREAM, 3), EPERM },
		{ SOCKET(AF_RDS, SOCK_SEQPACKET, 0), EPERM },
		{ SOCKET(AF_UNSPEC, SOCK_STREAM, 0), EPERM },
		{ SOCKET(AF_UNHEARD, SOCK_STREAM, 0), EPERM },
		{ SOCKET(-1UL, SOCK_STREAM, 0), EPERM },
		{ SOCKET(GARBAGE | AF_PACKET, SOCK_RAW, 0), EPERM },
		{ SOCKET(AF_INET, GARBAGE | SOCK_RAW, 0), EPERM },
		{ SOCKET(AF_INET, SOCK_STREAM, GARBAGE | MPTCP), EPERM },
		{ SOCKET(AF_NETLINK, SOCK_RAW, GARBAGE | NETLINK_GENERIC), EPERM },
		{ CALL(socketpair), { AF_TIPC, SOCK_STREAM, 0 }, EPERM },
		{ CALL(socketpair), { GARBAGE | AF_TIPC, SOCK_STREAM, 0 }, EPERM },
	};

	attempt_all(list, ARRAY_SIZE(list));
}

TEST(setsockopt_refuses_a_few_options)
{
	const unsigned long tcp =
		(unsigned)socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const unsigned long udp = (unsigned)socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const int one = 1;
	const unsigned long v = (unsigned long)&one, n = sizeof(one), g = GARBAGE;
	const struct attempt list[] = {
		{ OPTION(tcp, IPPROTO_TCP, TCP_ULP), EPERM },
		{ OPTION(tcp, g | IPPROTO_TCP, g | TCP_ULP), EPERM },
		{ OPTION(tcp, IPPROTO_IP, IP_IPSEC_POLICY), EPERM },
		{ OPTION(tcp, IPPROTO_IP, IP_XFRM_POLICY), EPERM },
		{ OPTION(tcp, IPPROTO_IPV6, IPV6_IPSEC_POLICY), EPERM },
		{ OPTION(tcp, IPPROTO_IPV6, IPV6_XFRM_POLICY), EPERM },
		{ OPTION(udp, IPPROTO_UDP, UDP_ENCAP), EPERM },
		{ OPTION(udp, g | IPPROTO_UDP, g | UDP_ENCAP), EPERM },
		{ OPTION(udp, g | IPPROTO_IP, g | IP_XFRM_POLICY), EPERM },
		{ OPTION(udp, SOL_SOCKET, SO_ATTACH_FILTER), EPERM },
		{ OPTION(udp, g | SOL_SOCKET, g | SO_ATTACH_FILTER), EPERM },
		{ OPTION(udp, SOL_SOCKET, SO_ATTACH_BPF), EPERM },
		{ OPTION(udp, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF), EPERM },
		{ OPTION(udp, SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF), EPERM },
		{ OPTION(udp, SOL_SOCKET, SO_DETACH_FILTER), SAME },
		{ OPTION(tcp, IPPROTO_TCP, TCP_NODELAY), 0 },
		{ OPTION(tcp, g | IPPROTO_TCP, g | TCP_NODELAY), 0 },
		{ OPTION(tcp, IPPROTO_TCP, UDP_ENCAP), SAME },
		{ OPTION(tcp, IPPROTO_IP, IP_TOS), SAME },
		{ OPTION(tcp, SOL_SOCKET, SO_REUSEADDR), 0 },
		{ OPTION(tcp, SOL_SOCKET, TCP_ULP), SAME },
		{ OPTION(udp, IPPROTO_UDP, UDP_CORK), 0 },
	};

	OK((int)tcp >= 0 && (int)udp >= 0);
	attempt_all(list, ARRAY_SIZE(list));
}

TEST(ioctl_refuses_to_insert_terminal_input)
{
	const unsigned long pty = (unsigned)posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct winsize ws = { 0 };
	const unsigned long w = (unsigned long)&ws, x = (unsigned long)"x";
	const struct attempt list[] = {
		{ CALL(ioctl), { pty, TIOCSTI, x }, EPERM },
		{ CALL(ioctl), { pty, GARBAGE | TIOCSTI, x }, EPERM },
		{ CALL(ioctl), { pty, 0x100000000UL | TIOCSTI, x }, EPERM },
		{ CALL(ioctl), { -1UL, -1UL << 32 | TIOCSTI, x }, EPERM },
		{ CALL(ioctl), { pty, TIOCLINUX, x }, EPERM },
		{ CALL(ioctl), { pty, GARBAGE | TIOCLINUX, x }, EPERM },
		{ CALL(ioctl), { pty, TIOCSETD, x }, EPERM },
		{ CALL(ioctl), { pty, TIOCGWINSZ, w }, 0 },
		{ CALL(ioctl), { pty, GARBAGE | TIOCGWINSZ, w }, 0 },
		{ CALL(ioctl), { pty, TIOCSWINSZ, w }, 0 },
	};

	SKIP_UNLESS((int)pty >= 0, "no pseudo terminals here");
	attempt_all(list, ARRAY_SIZE(list));
}

TEST(unshare_cannot_create_namespaces)
{
	static const struct attempt list[] = {
		{ CALL(unshare), { CLONE_NEWNS }, EPERM },
		{ CALL(unshare), { CLONE_NEWCGROUP }, EPERM },
		{ CALL(unshare), { CLONE_NEWUTS }, EPERM },
		{ CALL(unshare), { CLONE_NEWIPC }, EPERM },
		{ CALL(unshare), { CLONE_NEWUSER }, EPERM },
		{ CALL(unshare), { CLONE_NEWPID }, EPERM },
		{ CALL(unshare), { CLONE_NEWNET }, EPERM },
		{ CALL(unshare), { NEWTIME }, EPERM },
		{ CALL(unshare), { CLONE_FILES | CLONE_NEWUSER }, EPERM },
		{ CALL(unshare), { GARBAGE | CLONE_NEWUSER }, EPERM },
		{ CALL(unshare), { GARBAGE }, EPERM },
		{ CALL(unshare),
		  { CLONE_PARENT_SETTID },
		  EPERM }, /* may get another meaning in the future */
		{ CALL(unshare), { 0 }, 0 },
		{ CALL(unshare), { CLONE_FILES | CLONE_FS | CLONE_SYSVSEM }, 0 },
	};

	attempt_all(list, ARRAY_SIZE(list));
}

TEST(clone_cannot_create_namespaces)
{
	static const struct attempt list[] = {
		{ CALL(clone), { CLONE_NEWNS | SIGCHLD }, EPERM },
		{ CALL(clone), { CLONE_NEWCGROUP | SIGCHLD }, EPERM },
		{ CALL(clone), { CLONE_NEWUTS | SIGCHLD }, EPERM },
		{ CALL(clone), { CLONE_NEWIPC | SIGCHLD }, EPERM },
		{ CALL(clone), { CLONE_NEWUSER | SIGCHLD }, EPERM },
		{ CALL(clone), { CLONE_NEWPID | SIGCHLD }, EPERM },
		{ CALL(clone), { CLONE_NEWNET | SIGCHLD }, EPERM },
		{ CALL(clone), { CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD }, EPERM },
		{ CALL(clone), { GARBAGE | CLONE_NEWUSER | SIGCHLD }, EPERM },
		{ CALL(clone), { SIGCHLD }, 0 },
		{ CALL(clone), { CLONE_FS | CLONE_FILES | SIGCHLD }, 0 },
		{ CALL(clone), { CLONE_IO | CLONE_SYSVSEM | SIGCHLD }, 0 },
		{ CALL(clone),
		  { CLONE_VM | CLONE_VFORK | CLONE_NEWUSER | SIGCHLD },
		  EPERM },
	};

	attempt_all(list, ARRAY_SIZE(list));
}

/* The filter allows clone's bit 0x80. This test shows why that is safe. */
TEST(clone_cannot_create_a_time_namespace)
{
	char ours[64] = "", theirs[64] = "";
	int fd[2];
	long pid;

	OK(readlink("/proc/self/ns/time", ours, sizeof(ours) - 1) > 0);
	EQ(pipe2(fd, O_CLOEXEC), 0);
	filter_on();
	pid = syscall(SYS_clone, NEWTIME | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		ssize_t n = readlink("/proc/self/ns/time", theirs, sizeof(theirs) - 1);

		_exit(n > 0 && write(fd[1], theirs, (size_t)n) == n ? 0 : 1);
	}
	OK(pid > 0);
	OK(read(fd[0], theirs, sizeof(theirs) - 1) > 0);
	STREQ(ours, theirs);
}

TEST(personality_cannot_be_set_to_an_unsafe_value)
{
	static const struct attempt list[] = {
		{ CALL(personality), { PER_LINUX32 }, EPERM },
		{ CALL(personality), { PER_LINUX32 | ADDR_NO_RANDOMIZE }, EPERM },
		{ CALL(personality), { READ_IMPLIES_EXEC }, EPERM },
		{ CALL(personality), { READ_IMPLIES_EXEC | ADDR_NO_RANDOMIZE }, EPERM },
		{ CALL(personality), { MMAP_PAGE_ZERO }, EPERM },
		{ CALL(personality), { PER_SVR4 }, EPERM },
		{ CALL(personality), { GARBAGE | READ_IMPLIES_EXEC }, EPERM },
		{ CALL(personality), { 0xffffffff }, 0 },
		{ CALL(personality), { -1UL }, 0 },
		{ CALL(personality), { ADDR_NO_RANDOMIZE }, 0 },
		{ CALL(personality), { UNAME26 }, 0 },
		{ CALL(personality), { PER_LINUX }, 0 },
	};

	attempt_all(list, ARRAY_SIZE(list));
	EQ(personality(ADDR_NO_RANDOMIZE), PER_LINUX);
	EQ(personality(0xffffffff), ADDR_NO_RANDOMIZE);
}

static int debuggee_value = 42;

static pid_t debuggee_start(void)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(EXIT_FAILURE);
		(void)raise(SIGSTOP);
		_exit(debuggee_value);
	}
	OK(pid > 0);
	EQ(waitpid(pid, &status, 0), pid);
	OK(WIFSTOPPED(status));
	return pid;
}

TEST(calls_for_debugging_are_allowed)
{
	int copy = 0, status = 0;
	const struct iovec local = { &copy, sizeof(copy) };
	const struct iovec remote = { &debuggee_value, sizeof(debuggee_value) };
	pid_t pid;

	filter_on();
	pid = debuggee_start();
	EQ(process_vm_readv(pid, &local, 1, &remote, 1, 0), sizeof(copy));
	EQ(copy, 42);
	copy = 7;
	EQ(process_vm_writev(pid, &local, 1, &remote, 1, 0), sizeof(copy));
	EQ(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
	EQ(waitpid(pid, &status, 0), pid);
	OK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

TEST(calls_that_agents_need_are_allowed)
{
	static const struct attempt list[] = {
		{ CALL(memfd_create), { (unsigned long)"x", 0 }, 0 },
		{ CALL(landlock_create_ruleset), { 0, 0, 1 /* version */ }, SAME },
		{ CALL(landlock_restrict_self), { -1UL, 0 }, SAME },
		{ CALL(seccomp), { SECCOMP_GET_ACTION_AVAIL, 0, 0 }, EFAULT },
		{ CALL(get_mempolicy), { 0, 0, 0, 0, 0 }, SAME },
		{ CALL(set_mempolicy), { 0, 0, 0 }, SAME },
		{ CALL(process_vm_readv), { 0 }, SAME },
		{ CALL(mknodat), { (unsigned)AT_FDCWD, (unsigned long)"", 0 }, ENOENT },
		{ CALL(membarrier), { 0, 0 }, SAME },
		{ CALL(getrandom), { 0, 0, 0 }, 0 },
	};

	attempt_all(list, ARRAY_SIZE(list));
	filter_on(); /* a filter that is loaded inside is combined with this one */
}

/* A filter that is added inside cannot allow what this one refuses. */
TEST(a_loaded_filter_cannot_be_weakened)
{
	struct sock_filter allow[] = { { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW } };
	const struct sock_fprog prog = { .len = ARRAY_SIZE(allow), .filter = allow };

	filter_on();
	EQ(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog), 0);
	EQ(syscall(SYS_unshare, CLONE_NEWUSER), -1);
	EQ(errno, EPERM);
	EQ(syscall(SYS_unshare, CLONE_FILES), 0);
}

TEST_MAIN()
