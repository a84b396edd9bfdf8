/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp-policy.h - which system calls a sandbox may make, and why
 *
 * Only gen-seccomp reads this file, at build time. There are three kinds of entries:
 *
 *	policy_groups	calls whose number decides, grouped by purpose, with reasons
 *	policy_checks	calls whose arguments decide
 *	policy_numbers	numbers of calls that the build machine's libseccomp may not know
 *
 * A call that is not listed returns ENOSYS, as from a kernel without it, so that libc
 * uses a fallback. EPERM is for known calls that are refused: a fallback would only fail
 * later, with a less clear error. A call may appear only once; gen-seccomp checks this.
 *
 * The filter is not the only protection. The sandbox's root has eleven capabilities, all
 * of them in its own user namespace. Calls that the kernel already refuses are refused
 * here again, because an attack may target the kernel's check.
 */
#ifndef TOOLS_SECCOMP_POLICY_H
#define TOOLS_SECCOMP_POLICY_H

#include <linux/ioprio.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum policy_verdict {
	POLICY_ENOSYS, /* as if the kernel were too old: callers fall back */
	POLICY_ALLOW,
	POLICY_EPERM,
	POLICY_NO_PROTOCOL, /* EPROTONOSUPPORT: as if the kernel were built without it */
	POLICY_TOO_BIG,     /* E2BIG: as if the kernel's limit were lower */
	POLICY_KILL,        /* foreign ABIs only */
	POLICY_VERDICTS,
};

struct policy_group {
	enum policy_verdict verdict;
	const char *why;
	const char *calls; /* separated by spaces */
};

static const struct policy_group policy_groups[] = {
	{ POLICY_ALLOW,
	  "bytes: whoever holds a descriptor may use it; the checks were made at open",
	  "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 "
	  "lseek close dup dup2 dup3 close_range fcntl flock pipe pipe2 sendfile "
	  "splice tee vmsplice copy_file_range fsync fdatasync sync syncfs "
	  "sync_file_range fallocate ftruncate fadvise64 readahead" },
	{ POLICY_ALLOW,
	  "names: paths resolve in the sandbox's own mount namespace and id range",
	  "open openat openat2 creat access faccessat faccessat2 stat fstat lstat "
	  "newfstatat statx statfs fstatfs getdents getdents64 getcwd chdir fchdir "
	  "mkdir mkdirat rmdir link linkat unlink unlinkat symlink symlinkat readlink "
	  "readlinkat rename renameat renameat2 truncate chmod fchmod fchmodat "
	  "fchmodat2 chown fchown lchown fchownat umask utime utimes futimesat "
	  "utimensat" },
	{ POLICY_ALLOW,
	  "extended attributes: trusted.* and security.* stay with the kernel's own "
	  "checks; the size of what is set is checked below",
	  "getxattr lgetxattr fgetxattr getxattrat "
	  "listxattr llistxattr flistxattr listxattrat removexattr "
	  "lremovexattr fremovexattr removexattrat" },
	{ POLICY_ALLOW,
	  "mknod makes fifos and sockets; device nodes need CAP_MKNOD in the first "
	  "user namespace. chroot: CAP_SYS_CHROOT is kept, and whoever breaks out of "
	  "one stands in the sandbox's own root",
	  "mknod mknodat chroot" },
	{ POLICY_ALLOW,
	  "memory: allocators, loaders, JITs, garbage collectors, memory protection "
	  "keys",
	  "mmap munmap mremap mprotect madvise process_madvise msync mincore brk "
	  "mlock mlock2 mlockall munlock munlockall remap_file_pages memfd_create "
	  "pkey_alloc pkey_free pkey_mprotect mseal map_shadow_stack "
	  "membarrier" },
	{ POLICY_ALLOW,
	  "NUMA placement: JVMs, databases, numerical code; bounded by the cpuset",
	  "set_mempolicy get_mempolicy set_mempolicy_home_node getcpu" },
	{ POLICY_ALLOW,
	  "processes: start, wait, end. clone is checked below; clone3 hides its "
	  "flags",
	  "fork vfork execve execveat exit exit_group wait4 waitid getpid getppid "
	  "gettid getpgid getpgrp setpgid getsid setsid prctl arch_prctl pidfd_open "
	  "pidfd_send_signal process_mrelease restart_syscall uname sysinfo" },
	{ POLICY_ALLOW, "threads: futexes, thread pointers, restartable sequences",
	  "futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list "
	  "get_robust_list set_tid_address rseq" },
	{ POLICY_ALLOW,
	  "signals: kill(2) reaches the sandbox's own pid namespace and no further",
	  "kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending "
	  "rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo rt_sigsuspend "
	  "sigaltstack pause signalfd signalfd4" },
	{ POLICY_ALLOW,
	  "debuggers, tracers, sanitizers: on the caller's own children and equals; "
	  "the kernel runs this filter after the tracer, which therefore cannot step "
	  "around it",
	  "ptrace process_vm_readv process_vm_writev" },
	{ POLICY_ALLOW, "waiting for several things at once",
	  "select pselect6 poll ppoll epoll_create epoll_create1 epoll_ctl epoll_wait "
	  "epoll_pwait epoll_pwait2 eventfd eventfd2 inotify_init inotify_init1 "
	  "inotify_add_watch inotify_rm_watch" },
	{ POLICY_ALLOW,
	  "time: reading and waiting. adjtimex and clock_adjtime read the clock's "
	  "state for ntp_gettime(3); to steer it takes CAP_SYS_TIME in the first user "
	  "namespace",
	  "time times gettimeofday clock_gettime clock_getres nanosleep "
	  "clock_nanosleep alarm getitimer setitimer timer_create timer_settime "
	  "timer_gettime timer_getoverrun timer_delete timerfd_create timerfd_settime "
	  "timerfd_gettime adjtimex clock_adjtime" },
	{ POLICY_ALLOW,
	  "scheduling and limits: can be lowered freely, raised only within the "
	  "cgroup; what sets them for another process is checked below",
	  "sched_yield sched_getparam sched_getscheduler sched_get_priority_max "
	  "sched_get_priority_min sched_rr_get_interval sched_getaffinity "
	  "sched_getattr getpriority ioprio_get getrlimit setrlimit getrusage" },
	{ POLICY_ALLOW,
	  "identity: ids and capabilities within the sandbox's own user namespace; "
	  "the changes of ids are checked below",
	  "getuid geteuid getgid getegid getresuid getresgid getgroups setgroups "
	  "capget capset" },
	{ POLICY_ALLOW,
	  "sockets once made: socket, socketpair and setsockopt are checked below",
	  "bind listen accept accept4 connect shutdown getsockname getpeername "
	  "getsockopt sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg" },
	{ POLICY_ALLOW, "System V and POSIX ipc: private to the sandbox's ipc namespace",
	  "shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd "
	  "msgrcv msgctl mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify "
	  "mq_getsetattr" },
	{ POLICY_ALLOW,
	  "random numbers, and the ways in which a program confines itself further",
	  "getrandom seccomp landlock_create_ruleset landlock_add_rule "
	  "landlock_restrict_self" },

	{ POLICY_EPERM,
	  "the mount API, reading included: mount trees are the sandbox's walls",
	  "mount umount2 pivot_root open_tree open_tree_attr move_mount fsopen "
	  "fsconfig fsmount fspick mount_setattr statmount listmount" },
	{ POLICY_EPERM,
	  "NUMA placement of single ranges: each takes kernel memory that is charged to "
	  "nobody, and there can be one for every other page",
	  "mbind" },
	{ POLICY_EPERM,
	  "entering or listing namespaces; making them is refused below by flag",
	  "setns listns" },
	{ POLICY_EPERM,
	  "subsystems with a long record of local root: not needed, and libuv, "
	  "liburing and JVMs carry on without them when told EPERM",
	  "io_uring_setup io_uring_enter io_uring_register bpf perf_event_open "
	  "userfaultfd keyctl add_key request_key fanotify_init fanotify_mark "
	  "modify_ldt" },
	{ POLICY_EPERM,
	  "file handles name inodes past every path check. Making one is harmless, but "
	  "of no use without opening it; systemd takes EPERM as a filter's word and "
	  "goes on without",
	  "open_by_handle_at name_to_handle_at" },
	{ POLICY_EPERM,
	  "taking descriptors from, or comparing kernel objects of, another process",
	  "pidfd_getfd kcmp" },
	{ POLICY_EPERM,
	  "the machine: kernels, modules, power, swap, ports, accounting, quotas, its "
	  "log",
	  "reboot kexec_load kexec_file_load init_module finit_module delete_module "
	  "create_module query_module swapon swapoff iopl ioperm acct quotactl "
	  "quotactl_fd syslog lookup_dcookie" },
	{ POLICY_EPERM,
	  "names, clock and terminal of the machine: set from outside, if at all",
	  "settimeofday clock_settime sethostname setdomainname vhangup" },
	{ POLICY_EPERM, "relics that no current program calls",
	  "uselib ustat sysfs _sysctl nfsservctl" },

	{ POLICY_ENOSYS,
	  "clone3 takes its flags through a pointer, which a filter cannot read; "
	  "every libc falls back to clone on ENOSYS, and on no other error",
	  "clone3" },
	{ POLICY_ENOSYS,
	  "takes its size through a pointer; callers fall back to setxattr",
	  "setxattrat" },
	{ POLICY_ENOSYS,
	  "each of its pages takes a page out of the kernel's direct map, which stays "
	  "split into small pages: the whole machine becomes slower",
	  "memfd_secret" },
	{ POLICY_ENOSYS,
	  "what is in the page cache of layers that tenants share; older kernels tell "
	  "anyone who can open the file",
	  "cachestat" },
	{ POLICY_ENOSYS,
	  "new ways to do what /proc/self/attr and ioctl do; callers fall back to "
	  "those",
	  "lsm_get_self_attr lsm_set_self_attr lsm_list_modules file_getattr "
	  "file_setattr" },
};

/*
 * A decision about arguments: compare one 32-bit half of one argument, with a mask, and
 * continue with another switch or end in a verdict. Arguments have 64 bits in registers,
 * but the kernel uses most of them as int. So only the low half is compared; otherwise,
 * garbage in the high half could make a refused value look different.
 */
struct policy_case {
	uint32_t value;
	enum policy_verdict verdict;
	const struct policy_switch *next; /* replaces the verdict, if there is one */
};

struct policy_switch {
	unsigned arg;
	bool high;     /* compare bits 32..63 instead of 0..31 */
	uint32_t mask; /* 0 stands for all bits */
	enum policy_verdict otherwise;
	const struct policy_switch *then; /* replaces that verdict, if there is one */
	unsigned n;
	const struct policy_case *cases;
};

#define POLICY_CASES(...)                                          \
	.n = sizeof((const struct policy_case[]){ __VA_ARGS__ }) / \
	     sizeof(struct policy_case),                           \
	.cases = (const struct policy_case[])                      \
	{                                                          \
		__VA_ARGS__                                        \
	}

/*
 * socket, socketpair (family, type, protocol): allow the families that programs use, with
 * the protocols that need no privilege. The other families are the kernel's least tested
 * code, and often load a module that can be attacked; EPERM hides whether it exists. The
 * kernel takes the type from the low four bits, and refuses unknown flags above them with
 * EINVAL.
 */
#define TYPE_MASK 0xf

static const struct policy_switch socket_tcp = {
	.arg = 2,
	.otherwise = POLICY_EPERM, /* SCTP, SMC, and MPTCP, from which Go falls back */
	POLICY_CASES({ 0, POLICY_ALLOW }, { IPPROTO_TCP, POLICY_ALLOW }),
};

static const struct policy_switch socket_udp4 = {
	.arg = 2,
	.otherwise = POLICY_EPERM,
	POLICY_CASES({ 0, POLICY_ALLOW }, { IPPROTO_UDP, POLICY_ALLOW },
		     { IPPROTO_ICMP, POLICY_ALLOW }), /* ping without privileges */
};

static const struct policy_switch socket_udp6 = {
	.arg = 2,
	.otherwise = POLICY_EPERM,
	POLICY_CASES({ 0, POLICY_ALLOW }, { IPPROTO_UDP, POLICY_ALLOW },
		     { IPPROTO_ICMPV6, POLICY_ALLOW }),
};

static const struct policy_switch socket_inet = {
	.arg = 1,
	.mask = TYPE_MASK,
	.otherwise = POLICY_EPERM, /* SOCK_RAW; SOCK_PACKET, an alias of AF_PACKET */
	POLICY_CASES({ SOCK_STREAM, .next = &socket_tcp },
		     { SOCK_DGRAM, .next = &socket_udp4 }),
};

static const struct policy_switch socket_inet6 = {
	.arg = 1,
	.mask = TYPE_MASK,
	.otherwise = POLICY_EPERM,
	POLICY_CASES({ SOCK_STREAM, .next = &socket_tcp },
		     { SOCK_DGRAM, .next = &socket_udp6 }),
};

/*
 * Audit: to libaudit, EPROTONOSUPPORT means a kernel without audit, and useradd, su, sudo
 * and PAM continue. Any other errno means that the audit service cannot be reached, and
 * they refuse to work.
 */
static const struct policy_switch socket_netlink_protocol = {
	.arg = 2,
	.otherwise = POLICY_EPERM,
	POLICY_CASES({ NETLINK_ROUTE, POLICY_ALLOW }, /* getifaddrs(3) */
		     { NETLINK_AUDIT, POLICY_NO_PROTOCOL }),
};

static const struct policy_switch socket_netlink = {
	.arg = 1,
	.mask = TYPE_MASK,
	.otherwise = POLICY_EPERM,
	POLICY_CASES({ SOCK_RAW, .next = &socket_netlink_protocol },
		     { SOCK_DGRAM, .next = &socket_netlink_protocol }),
};

static const struct policy_switch socket_family = {
	.arg = 0,
	.otherwise = POLICY_EPERM,
	POLICY_CASES({ AF_UNIX, POLICY_ALLOW }, { AF_INET, .next = &socket_inet },
		     { AF_INET6, .next = &socket_inet6 },
		     { AF_NETLINK, .next = &socket_netlink }),
};

/*
 * setsockopt (fd, level, name): refuse options that attach other kernel code to a plain
 * socket. UDP_ENCAP and TCP_ULP attach IPsec and TLS handling, the others attach an IPsec
 * policy.
 */
/*
 * Programs on sockets: their compiled code is charged to no cgroup. It counts against one
 * limit of the whole machine (net.core.bpf_jit_limit), which the filters of new sandboxes
 * need too.
 */
static const struct policy_switch setsockopt_socket = {
	.arg = 2,
	.otherwise = POLICY_ALLOW,
	POLICY_CASES({ SO_ATTACH_FILTER, POLICY_EPERM }, { SO_ATTACH_BPF, POLICY_EPERM },
		     { SO_ATTACH_REUSEPORT_CBPF, POLICY_EPERM },
		     { SO_ATTACH_REUSEPORT_EBPF, POLICY_EPERM }),
};

static const struct policy_switch setsockopt_ip = {
	.arg = 2,
	.otherwise = POLICY_ALLOW,
	POLICY_CASES({ IP_IPSEC_POLICY, POLICY_EPERM }, { IP_XFRM_POLICY, POLICY_EPERM }),
};

#ifndef IPV6_FLOWLABEL_MGR
/* Linux/in6.h and netinet/in.h cannot be included together. */
#define IPV6_FLOWLABEL_MGR 32
#endif

/*
 * IPV6_2292PKTOPTIONS keeps 64 kB for each socket, charged to no cgroup; the whole
 * machine has only 4096 flow labels.
 */
static const struct policy_switch setsockopt_ipv6 = {
	.arg = 2,
	.otherwise = POLICY_ALLOW,
	POLICY_CASES({ IPV6_IPSEC_POLICY, POLICY_EPERM },
		     { IPV6_XFRM_POLICY, POLICY_EPERM },
		     { IPV6_2292PKTOPTIONS, POLICY_EPERM },
		     { IPV6_FLOWLABEL_MGR, POLICY_EPERM }),
};

#ifndef TCP_AO_ADD_KEY
#define TCP_AO_ADD_KEY 38
#define TCP_AO_INFO    40
#define TCP_AO_REPAIR  42
#endif

/* Each socket can have hundreds of keys of TCP_MD5SIG and TCP_AO, which are charged to no
 * cgroup. */
static const struct policy_switch setsockopt_tcp = {
	.arg = 2,
	.otherwise = POLICY_ALLOW,
	POLICY_CASES({ TCP_ULP, POLICY_EPERM }, { TCP_MD5SIG, POLICY_EPERM },
		     { TCP_MD5SIG_EXT, POLICY_EPERM }, { TCP_AO_ADD_KEY, POLICY_EPERM },
		     { TCP_AO_INFO, POLICY_EPERM }, { TCP_AO_REPAIR, POLICY_EPERM }),
};

static const struct policy_switch setsockopt_udp = {
	.arg = 2,
	.otherwise = POLICY_ALLOW,
	POLICY_CASES({ UDP_ENCAP, POLICY_EPERM }),
};

static const struct policy_switch setsockopt_level = {
	.arg = 1,
	.otherwise = POLICY_ALLOW,
	POLICY_CASES({ SOL_SOCKET, .next = &setsockopt_socket },
		     { IPPROTO_IP, .next = &setsockopt_ip },
		     { IPPROTO_TCP, .next = &setsockopt_tcp },
		     { IPPROTO_UDP, .next = &setsockopt_udp },
		     { IPPROTO_IPV6, .next = &setsockopt_ipv6 }),
};

/*
 * ioctl (fd, request): refuse simulated input on a terminal that a person outside may be
 * using, and line disciplines, which are old kernel code that no process inside needs on
 * a pty.
 */
static const struct policy_switch ioctl_request = {
	.arg = 1,
	.otherwise = POLICY_ALLOW,
	POLICY_CASES({ TIOCSTI, POLICY_EPERM }, { TIOCLINUX, POLICY_EPERM },
		     { TIOCSETD, POLICY_EPERM }),
};

/*
 * clone (flags): refuse new namespaces. CLONE_NEWTIME is deliberately not included: its
 * bit is part of clone's exit signal, and the kernel does not treat it as a flag there.
 */
#define NAMESPACE_FLAGS                                                                \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET)

static const struct policy_switch clone_flags = {
	.arg = 0,
	.mask = NAMESPACE_FLAGS,
	.otherwise = POLICY_EPERM,
	POLICY_CASES({ 0, POLICY_ALLOW }),
};

/*
 * unshare (flags): allow only the flags that are not namespaces. This is a list of
 * allowed flags over all 64 bits, because new kernels add flags to unshare, some in bits
 * that clone uses for other purposes.
 */
#define UNSHARE_FLAGS \
	(CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_VM | CLONE_SIGHAND | CLONE_THREAD)

static const struct policy_switch unshare_low = {
	.arg = 0,
	.mask = ~(uint32_t)UNSHARE_FLAGS,
	.otherwise = POLICY_EPERM,
	POLICY_CASES({ 0, POLICY_ALLOW }),
};

static const struct policy_switch unshare_flags = {
	.arg = 0,
	.high = true,
	.otherwise = POLICY_EPERM,
	POLICY_CASES({ 0, .next = &unshare_low }),
};

/*
 * personality (persona): allow queries, and plain Linux with a fixed address space (for
 * gdb and the thread and memory sanitizers) or with an old version number. PER_LINUX32 is
 * not allowed: calls of the 32-bit ABI kill the process, so `uname -m` must not report
 * it. READ_IMPLIES_EXEC is not allowed either.
 */
static const struct policy_switch personality_value = {
	.arg = 0,
	.otherwise = POLICY_EPERM,
	POLICY_CASES({ 0xffffffff /* only asks */, POLICY_ALLOW },
		     { PER_LINUX, POLICY_ALLOW }, { ADDR_NO_RANDOMIZE, POLICY_ALLOW },
		     { UNAME26, POLICY_ALLOW },
		     { UNAME26 | ADDR_NO_RANDOMIZE, POLICY_ALLOW }),
};

/*
 * Pid 1 of the sandbox is its init. No process inside may change its limits, priority,
 * processors or scheduling, whatever its user: these calls compare user ids, and if an
 * ordinary user has a single id, init has the same one. A process in the sandbox cannot
 * be in another pid namespace, so the number always means init. 0 stands for the caller.
 * A call that selects processes by user (PRIO_USER, IOPRIO_WHO_USER) would affect init as
 * well.
 */
#define INIT_PID 1

static const struct policy_switch first_is_pid = {
	.arg = 0,
	.otherwise = POLICY_ALLOW,
	POLICY_CASES({ INIT_PID, POLICY_EPERM }),
};

static const struct policy_switch second_is_pid = {
	.arg = 1,
	.otherwise = POLICY_ALLOW,
	POLICY_CASES({ INIT_PID, POLICY_EPERM }),
};

static const struct policy_switch setpriority_which = {
	.arg = 0,
	.otherwise = POLICY_ALLOW,
	POLICY_CASES({ PRIO_PROCESS, .next = &second_is_pid },
		     { PRIO_PGRP, .next = &second_is_pid }, { PRIO_USER, POLICY_EPERM }),
};

static const struct policy_switch ioprio_set_which = {
	.arg = 0,
	.otherwise = POLICY_ALLOW,
	POLICY_CASES({ IOPRIO_WHO_PROCESS, .next = &second_is_pid },
		     { IOPRIO_WHO_PGRP, .next = &second_is_pid },
		     { IOPRIO_WHO_USER, POLICY_EPERM }),
};

/*
 * setuid(2) and similar calls: root inside may become any user of the sandbox except
 * init's, which is mapped only for init (INIT_ID of src/agent/core/agent.h). The child
 * that becomes init takes that id before this filter is loaded.
 */
#define INIT_USER 65536

static const struct policy_switch third_is_user = {
	.arg = 2,
	.otherwise = POLICY_ALLOW,
	POLICY_CASES({ INIT_USER, POLICY_EPERM }),
};

static const struct policy_switch two_are_users = {
	.arg = 0,
	.then = &(
		const struct policy_switch){ .arg = 1,
					     .otherwise = POLICY_ALLOW,
					     POLICY_CASES({ INIT_USER, POLICY_EPERM }) },
	POLICY_CASES({ INIT_USER, POLICY_EPERM }),
};

static const struct policy_switch three_are_users = {
	.arg = 0,
	.then = &(
		const struct policy_switch){ .arg = 1,
					     .then = &third_is_user,
					     POLICY_CASES({ INIT_USER, POLICY_EPERM }) },
	POLICY_CASES({ INIT_USER, POLICY_EPERM }),
};

static const struct policy_switch first_is_user = {
	.arg = 0,
	.otherwise = POLICY_ALLOW,
	POLICY_CASES({ INIT_USER, POLICY_EPERM }),
};

/*
 * setxattr (path, name, value, size) and similar calls: an ACL is kept in kernel memory
 * that is charged to no cgroup, and each directory can have two. The kernel itself
 * refuses sizes above 32 bits.
 */
#define XATTR_MASK 0xfffff000U /* in sizes below 4 kB, all these bits are 0 */

static const struct policy_switch xattr_size = {
	.arg = 3,
	.mask = XATTR_MASK,
	.otherwise = POLICY_TOO_BIG,
	POLICY_CASES({ 0, POLICY_ALLOW }),
};

static const struct {
	const char *call;
	const struct policy_switch *check;
} policy_checks[] = {
	{ "socket", &socket_family },
	{ "socketpair", &socket_family },
	{ "setsockopt", &setsockopt_level },
	{ "setxattr", &xattr_size },
	{ "lsetxattr", &xattr_size },
	{ "fsetxattr", &xattr_size },
	{ "ioctl", &ioctl_request },
	{ "clone", &clone_flags },
	{ "unshare", &unshare_flags },
	{ "personality", &personality_value },
	{ "prlimit64", &first_is_pid },
	{ "sched_setparam", &first_is_pid },
	{ "sched_setscheduler", &first_is_pid },
	{ "sched_setattr", &first_is_pid },
	{ "sched_setaffinity", &first_is_pid },
	{ "migrate_pages", &first_is_pid },
	{ "move_pages", &first_is_pid },
	{ "setpriority", &setpriority_which },
	{ "ioprio_set", &ioprio_set_which },
	{ "setuid", &first_is_user },
	{ "setgid", &first_is_user },
	{ "setfsuid", &first_is_user },
	{ "setfsgid", &first_is_user },
	{ "setreuid", &two_are_users },
	{ "setregid", &two_are_users },
	{ "setresuid", &three_are_users },
	{ "setresgid", &three_are_users },
};

/*
 * The numbers of calls that libseccomp 2.5 may not know. From 424 on, a call has the same
 * number on every architecture. If libseccomp knows the call, gen-seccomp checks that
 * both numbers agree.
 */
static const struct {
	const char *call;
	int nr;
} policy_numbers[] = {
	{ "process_mrelease", 448 },
	{ "futex_waitv", 449 },
	{ "set_mempolicy_home_node", 450 },
	{ "cachestat", 451 },
	{ "fchmodat2", 452 },
	{ "map_shadow_stack", 453 },
	{ "futex_wake", 454 },
	{ "futex_wait", 455 },
	{ "futex_requeue", 456 },
	{ "statmount", 457 },
	{ "listmount", 458 },
	{ "lsm_get_self_attr", 459 },
	{ "lsm_set_self_attr", 460 },
	{ "lsm_list_modules", 461 },
	{ "mseal", 462 },
	{ "setxattrat", 463 },
	{ "getxattrat", 464 },
	{ "listxattrat", 465 },
	{ "removexattrat", 466 },
	{ "open_tree_attr", 467 },
	{ "file_getattr", 468 },
	{ "file_setattr", 469 },
	{ "listns", 470 },
};

#endif /* TOOLS_SECCOMP_POLICY_H */
