/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe-calls.c - this program runs inside a sandbox, and prints the name of each attempt
 * and its result
 *
 * The result is "ok", or the name of the errno. test-probe.py contains the expected
 * results. Pointers are NULL if the kernel would read them only after the check that is
 * tested.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef UDP_ENCAP
#define UDP_ENCAP 100
#endif
#ifndef TCP_ULP
#define TCP_ULP 31
#endif
#ifndef IP_XFRM_POLICY
#define IP_XFRM_POLICY 17
#endif
#ifndef IPV6_XFRM_POLICY
#define IPV6_XFRM_POLICY 35
#endif

static void say(const char *name, long r)
{
	int code = errno;

	if (r >= 0)
		printf("%s ok\n", name);
	else
		printf("%s %s\n", name,
		       strerrorname_np(code) ? strerrorname_np(code) : "?");
	(void)fflush(stdout);
}

/* The number of a call, or -1 if this machine's headers do not define it. */
static const struct {
	const char *name;
	long nr;
} refused[] = {
#define CALL(x)             \
	{                   \
#x, SYS_##x \
	}
	CALL(mount),
	CALL(umount2),
	CALL(pivot_root),
	CALL(fsopen),
	CALL(fsconfig),
	CALL(fsmount),
	CALL(fspick),
	CALL(open_tree),
	CALL(move_mount),
	CALL(mount_setattr),
	CALL(setns),
	CALL(keyctl),
	CALL(add_key),
	CALL(request_key),
	CALL(bpf),
	CALL(perf_event_open),
	CALL(io_uring_setup),
	CALL(io_uring_enter),
	CALL(io_uring_register),
	CALL(userfaultfd),
	CALL(open_by_handle_at),
	CALL(name_to_handle_at),
	CALL(fanotify_init),
	CALL(fanotify_mark),
	CALL(kcmp),
	CALL(pidfd_getfd),
	CALL(quotactl),
	CALL(init_module),
	CALL(finit_module),
	CALL(delete_module),
	CALL(kexec_load),
	CALL(reboot),
	CALL(swapon),
	CALL(swapoff),
	CALL(acct),
	CALL(syslog),
	CALL(sethostname),
	CALL(setdomainname),
	CALL(settimeofday),
	CALL(clock_settime),
	CALL(vhangup),
	{ "listmount", 458 },
	{ "statmount", 457 },
	{ "open_tree_attr", 467 },
#ifdef SYS_kexec_file_load
	CALL(kexec_file_load),
#endif
#ifdef SYS_quotactl_fd
	CALL(quotactl_fd),
#endif
#ifdef SYS_iopl
	CALL(iopl),
	CALL(ioperm),
	CALL(modify_ldt),
#endif
};

static void refused_calls(void)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		errno = 0;
		say(refused[i].name, syscall(refused[i].nr, 0, 0, 0, 0, 0, 0));
	}
	say("unknown-call", syscall(999, 0));
	say("clone3", syscall(SYS_clone3, NULL, 0));
	say("getpid", syscall(SYS_getpid));
}

static void namespaces(void)
{
	static const struct {
		const char *name;
		unsigned long flag;
	} kinds[] = { { "user", CLONE_NEWUSER },    { "mnt", CLONE_NEWNS },
		      { "pid", CLONE_NEWPID },      { "net", CLONE_NEWNET },
		      { "ipc", CLONE_NEWIPC },      { "uts", CLONE_NEWUTS },
		      { "cgroup", CLONE_NEWCGROUP } };
	char name[64];
	pid_t pid;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		(void)snprintf(name, sizeof(name), "unshare-%s", kinds[i].name);
		say(name, syscall(SYS_unshare, kinds[i].flag));
		pid = (pid_t)syscall(SYS_clone, kinds[i].flag | SIGCHLD, 0, 0, 0, 0);
		if (pid == 0)
			_exit(0);
		(void)snprintf(name, sizeof(name), "clone-%s", kinds[i].name);
		say(name, pid);
		if (pid > 0)
			(void)waitpid(pid, NULL, 0);
	}
	say("unshare-time", syscall(SYS_unshare, 0x80));
	say("unshare-user-garbage",
	    syscall(SYS_unshare, CLONE_NEWUSER | 0xff00000000000000UL));
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		_exit(0);
	say("clone", pid);
	(void)waitpid(pid, NULL, 0);
	say("unshare-files", syscall(SYS_unshare, CLONE_FILES));
}

static void sockets(void)
{
	char name[64];
	int fd, one = 1;

	for (int family = 0; family < 50; family++) {
		for (int type = 1; type <= 5; type++) {
			fd = socket(family, type, 0);
			if (fd < 0 && errno == EPERM)
				continue;
			(void)snprintf(name, sizeof(name), "socket-%d-%d-0", family,
				       type);
			say(name, fd);
			if (fd >= 0)
				(void)close(fd);
		}
	}
	for (int proto = 1; proto < 300; proto++) {
		for (int type = SOCK_STREAM; type <= SOCK_RAW; type++) {
			fd = socket(AF_INET, type, proto);
			if (fd < 0 && errno == EPERM)
				continue;
			(void)snprintf(name, sizeof(name), "socket-inet-%d-%d", type,
				       proto);
			say(name, fd);
			if (fd >= 0)
				(void)close(fd);
		}
	}
	for (int proto = 0; proto < 32; proto++) {
		fd = socket(AF_NETLINK, SOCK_RAW, proto);
		if (fd < 0 && errno == EPERM)
			continue;
		(void)snprintf(name, sizeof(name), "socket-netlink-%d", proto);
		say(name, fd);
		if (fd >= 0)
			(void)close(fd);
	}
	/* The kernel reads an int: the upper half must have no effect. */
	say("socket-packet-garbage", syscall(SYS_socket, 0x1100000011UL, SOCK_RAW, 0));
	say("socket-vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
	say("socket-alg", socket(AF_ALG, SOCK_SEQPACKET, 0));
	say("socketpair-unix", socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){ 0 }));
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	say("setsockopt-udp-encap",
	    setsockopt(fd, IPPROTO_UDP, UDP_ENCAP, &one, sizeof(one)));
	say("setsockopt-xfrm",
	    setsockopt(fd, IPPROTO_IP, IP_XFRM_POLICY, &one, sizeof(one)));
	say("setsockopt-reuse",
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	(void)close(fd);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	say("setsockopt-tcp-ulp", setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", 3));
	say("setsockopt-tcp-nodelay",
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	(void)close(fd);
	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	if (fd >= 0)
		say("setsockopt-xfrm6",
		    setsockopt(fd, IPPROTO_IPV6, IPV6_XFRM_POLICY, &one, sizeof(one)));
}

static void terminals(void)
{
	int master = -1, slave = -1;
	char c = 'x';

	say("openpty", openpty(&master, &slave, NULL, NULL, NULL));
	say("tiocsti", ioctl(slave, TIOCSTI, &c));
	say("tiocsti-garbage", syscall(SYS_ioctl, slave, 0xdead00000000UL | TIOCSTI, &c));
	say("tioclinux", ioctl(slave, TIOCLINUX, &c));
	say("tiocgwinsz", ioctl(slave, TIOCGWINSZ, &(struct winsize){ 0 }));
}

static void traced(void)
{
	pid_t pid = fork();
	char buf[8] = "before", to[8] = { 0 };
	struct iovec local = { to, sizeof(to) }, remote = { buf, sizeof(buf) };
	int status;

	if (pid == 0)
		for (;;)
			(void)pause();
	say("ptrace-init", ptrace(PTRACE_ATTACH, 1, NULL, NULL));
	say("ptrace-seize-init", ptrace(PTRACE_SEIZE, 1, NULL, NULL));
	say("process_vm_readv-init", process_vm_readv(1, &local, 1, &remote, 1, 0));
	say("process_vm_writev-init", process_vm_writev(1, &local, 1, &remote, 1, 0));
	say("ptrace-child", ptrace(PTRACE_ATTACH, pid, NULL, NULL));
	(void)waitpid(pid, &status, 0);
	say("process_vm_readv-child", process_vm_readv(pid, &local, 1, &remote, 1, 0));
	/*
	 * A tracer of a stopped child cannot bypass the filter through the child either.
	 */
	say("ptrace-detach", ptrace(PTRACE_DETACH, pid, NULL, NULL));
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	say("prlimit-init", prlimit(1, RLIMIT_NOFILE, &(struct rlimit){ 4, 4 }, NULL));
	say("prlimit-init-read", prlimit(1, RLIMIT_NOFILE, NULL, &(struct rlimit){ 0 }));
	say("setpgid-init", setpgid(1, getpid()));
	say("sched_setaffinity-init",
	    sched_setaffinity(1, sizeof(cpu_set_t), &(cpu_set_t){ { 1 } }));
	for (int sig = 1; sig < 65; sig++)
		(void)kill(1, sig);
	say("kill-init", kill(1, SIGKILL));
	usleep(50000);
	say("alive", kill(1, 0));
}

static void raise_limit(const char *name, int what)
{
	struct rlimit lim = { 0 };

	(void)getrlimit(what, &lim);
	if (lim.rlim_max == RLIM_INFINITY)
		return;
	lim.rlim_max++;
	say(name, setrlimit(what, &lim));
}

static void limits(void)
{
	struct rlimit lim;

	raise_limit("raise-nofile", RLIMIT_NOFILE);
	raise_limit("raise-nproc", RLIMIT_NPROC);
	raise_limit("raise-memlock", RLIMIT_MEMLOCK);
	raise_limit("raise-rtprio", RLIMIT_RTPRIO);
	raise_limit("raise-nice", RLIMIT_NICE);
	raise_limit("raise-msgqueue", RLIMIT_MSGQUEUE);
	(void)getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = lim.rlim_max;
	say("soft-nofile", setrlimit(RLIMIT_NOFILE, &lim));
	say("nice-up", setpriority(PRIO_PROCESS, 0, -5));
	say("realtime", sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ 1 }));
	say("nice-down", setpriority(PRIO_PROCESS, 0, 19));
}

static void devices(void)
{
	static const struct {
		const char *name;
		mode_t mode;
		dev_t dev;
	} nodes[] = { { "mknod-mem", S_IFCHR | 0600, 0 },
		      { "mknod-null", S_IFCHR | 0600, 0 },
		      { "mknod-disk", S_IFBLK | 0600, 0 },
		      { "mknod-fifo", S_IFIFO | 0600, 0 },
		      { "mknod-whiteout", S_IFCHR, 0 } };
	const dev_t devs[] = { makedev(1, 1), makedev(1, 3), makedev(8, 0), 0, 0 };

	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		(void)unlink("/tmp/node");
		say(nodes[i].name, mknod("/tmp/node", nodes[i].mode, devs[i]));
	}
	(void)unlink("/tmp/node");
}

static void capabilities(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { 0 };

	(void)syscall(SYS_capget, &h, d);
	d[0].permitted |= 1U << CAP_SYS_ADMIN;
	say("capset-admin", syscall(SYS_capset, &h, d));
	d[0].permitted &= ~(1U << CAP_SYS_ADMIN);
	d[0].inheritable = 1U << CAP_NET_RAW;
	say("capset-inheritable", syscall(SYS_capset, &h, d));
	say("unset-no-new-privs", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
	say("securebits", prctl(PR_SET_SECUREBITS, 1, 0, 0, 0));
	say("seccomp-off", prctl(PR_SET_SECCOMP, 0, NULL));
	say("dumpable", prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
	say("personality-ask", personality(0xffffffff));
	say("personality-no-random", personality(ADDR_NO_RANDOMIZE));
	say("personality-exec", personality(READ_IMPLIES_EXEC));
	say("personality-linux32", personality(PER_LINUX32));
}

static void *thread(void *arg)
{
	return arg;
}

static void needed(void)
{
	pthread_t t;
	int fd, r;
	struct sock_filter allow = { BPF_RET, 0, 0, SECCOMP_RET_ALLOW };
	struct sock_fprog prog = { 1, &allow };
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t len = sizeof(at);

	errno = pthread_create(&t, NULL, thread, NULL);
	say("pthread", errno ? -1 : 0);
	(void)pthread_join(t, NULL);
	say("memfd", memfd_create("x", MFD_CLOEXEC));
	say("inotify", inotify_init1(IN_CLOEXEC));
	say("epoll", epoll_create1(EPOLL_CLOEXEC));
	say("eventfd", eventfd(0, EFD_CLOEXEC));
	say("pidfd_open", syscall(SYS_pidfd_open, getpid(), 0));
	say("shm_open", shm_open("/warren-probe", O_RDWR | O_CREAT, 0600));
	r = shmget(IPC_PRIVATE, 4096, 0600);
	say("shmget", r);
	say("shmctl", shmctl(r, IPC_RMID, NULL));
	say("mq_open", mq_open("/warren-probe", O_RDWR | O_CREAT, 0600,
			       &(struct mq_attr){ .mq_maxmsg = 1, .mq_msgsize = 16 }));
	say("landlock", syscall(SYS_landlock_create_ruleset, NULL, 0, 1));
	say("seccomp-filter", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog));
	say("mbind", syscall(SYS_get_mempolicy, NULL, NULL, 0, NULL, 0));
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	at.sin_port = htons(80);
	say("bind-80", bind(fd, (void *)&at, sizeof(at)));
	say("listen", listen(fd, 1));
	(void)getsockname(fd, (void *)&at, &len);
	say("connect",
	    connect(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), (void *)&at, len));
}

/* Try the classic escape: a chroot below the working directory, which then leads
 * outside. */
static void chroot_tricks(void)
{
	struct stat first, st;
	int top = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)stat("/", &first);
	(void)mkdir("/tmp/jail", 0755);
	say("chroot", chroot("/tmp/jail"));
	for (int i = 0; i < 64; i++)
		(void)chdir("..");
	say("chroot-again", chroot("."));
	(void)stat("/", &st);
	printf("chroot-ends-inside %s\n",
	       st.st_dev == first.st_dev && st.st_ino == first.st_ino ? "ok" : "OUTSIDE");
	(void)fchdir(top);
	for (int i = 0; i < 64; i++)
		(void)chdir("..");
	(void)stat(".", &st);
	printf("fchdir-ends-inside %s\n",
	       st.st_dev == first.st_dev && st.st_ino == first.st_ino ? "ok" : "OUTSIDE");
	(void)openat(top, "../../../../../../etc/shadow", O_RDONLY);
	say("shadow", openat(top, "../../../../../../etc/shadow", O_RDONLY));
}

int main(void)
{
	refused_calls();
	namespaces();
	sockets();
	terminals();
	traced();
	limits();
	devices();
	capabilities();
	chroot_tricks();
	needed();
	return 0;
}
