/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-capture-faults.c - each system call of os/capture.c and os/ca_mount.c fails, one
 * after the other
 *
 * The functions below replace those of the C library, also for the code that is tested.
 */
#include <dirent.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "lib/native-sandbox.h"
#include "os/ca_mount.h"

/* Shared with children, which make some of the calls. */
struct faults {
	int fail_at; /* number of the call that fails; 0: none */
	int code;
	int calls;
	char name[32]; /* of the call that failed; "": none has */
};

static struct faults *faults;

static bool fault(const char *name)
{
	if (!faults || !faults->fail_at || ++faults->calls != faults->fail_at)
		return false;
	(void)snprintf(faults->name, sizeof(faults->name), "%s", name);
	errno = faults->code;
	return true;
}

#define CALL(name, ...) \
	(fault(#name) ? -1 : (int)syscall(SYS_##name __VA_OPT__(, ) __VA_ARGS__))

int socket(int domain, int type, int protocol)
{
	return CALL(socket, domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
	return CALL(socketpair, domain, type, protocol, fds);
}

int bind(int fd, const struct sockaddr *at, socklen_t n)
{
	return CALL(bind, fd, at, n);
}

int listen(int fd, int n)
{
	return CALL(listen, fd, n);
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t n)
{
	return CALL(setsockopt, fd, level, option, value, n);
}

ssize_t send(int fd, const void *data, size_t n, int flags)
{
	return fault("send") ? -1 : sendto(fd, data, n, flags, NULL, 0);
}

int setns(int fd, int flags)
{
	return CALL(setns, fd, flags);
}

int mkdir(const char *path, mode_t mode)
{
	return CALL(mkdir, path, mode);
}

ssize_t pread(int fd, void *data, size_t n, off_t at)
{
	return fault("pread") ? -1 : syscall(SYS_pread64, fd, data, n, at);
}

int fsopen(const char *type, unsigned flags)
{
	return CALL(fsopen, type, flags);
}

int fsconfig(int fd, unsigned cmd, const char *key, const void *value, int aux)
{
	return CALL(fsconfig, fd, cmd, key, value, aux);
}

int fsmount(int fd, unsigned flags, unsigned attr)
{
	return CALL(fsmount, fd, flags, attr);
}

int move_mount(int from, const char *from_path, int to, const char *to_path,
	       unsigned flags)
{
	return CALL(move_mount, from, from_path, to, to_path, flags);
}

int open_tree(int fd, const char *path, unsigned flags)
{
	return CALL(open_tree, fd, path, flags);
}

int mount_setattr(int fd, const char *path, unsigned flags, struct mount_attr *attr,
		  size_t n)
{
	return CALL(mount_setattr, fd, path, flags, attr, n);
}

int openat(int at, const char *path, int flags, ...)
{
	va_list rest;
	mode_t mode;

	va_start(rest, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;
	va_end(rest);
	return CALL(openat, at, path, flags, mode);
}

static void faults_open(void)
{
	faults = mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	OK(faults != MAP_FAILED);
}

static void faults_arm(int fail_at, int code)
{
	*faults = (struct faults){ .fail_at = fail_at, .code = code };
}

/* Return whether a call failed. */
static bool faults_disarm(void)
{
	faults->fail_at = 0;
	return faults->name[0] != '\0';
}

/* Memory, space, descriptors. */
static const int codes[] = { ENOMEM, ENOSPC, EMFILE, ENOBUFS };

/* --------------------------------------------------------------------------- captures */

static void close_both(const int fds[WARREN_CAPTURE_FDS])
{
	(void)close(fds[0]);
	(void)close(fds[1]);
}

/* The network works: a connection and a DNS query arrive. */
static void expect_network(struct warren_sandbox *sb, const int fds[WARREN_CAPTURE_FDS])
{
	struct pollfd p[] = { { .fd = fds[0], .events = POLLIN },
			      { .fd = fds[1], .events = POLLIN } };

	STREQ(sandbox_says(sb, "bash -c 'for a in 8.8.8.8 2001:db8::1; do "
			       "exec 3<>/dev/tcp/$a/22 && echo open; done; "
			       "echo x >/dev/udp/9.9.9.9/53'"),
	      "open\nopen");
	EQ(poll(p, 2, 0), 2);
}

TEST(a_capture_during_which_a_call_fails_leaves_nothing)
{
	int fds[WARREN_CAPTURE_FDS];
	char home[64], after[64];

	faults_open();
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		bool failed = true;
		int n = 0, r;

		BEGIN(0);
		ns_name(gettid(), "net", home, sizeof(home));
		while (failed) {
			size_t before = sandbox_count_fds();

			faults_arm(++n, codes[i]);
			r = warren_capture_network(sb, fds, &err);
			failed = faults_disarm();
			/* Only the return to the own network is tried until it succeeds.
			 */
			if (r < 0)
				EQ(r, -codes[i]);
			else
				OK(!failed || strcmp(faults->name, "setns") == 0);
			if (r == 0)
				close_both(fds);
			EQ(sandbox_count_fds(), before);
			ns_name(gettid(), "net", after, sizeof(after));
			STREQ(after, home);
			GOOD(warren_capture_network(sb, fds, &err));
			if (!failed)
				expect_network(sb, fds);
			close_both(fds);
		}
		OK(n > 20); /* the control: so many calls did fail */
		END();
	}
}

/* --------------------------------------------------------------------- certificates */

#define PEM(text) "-----BEGIN CERTIFICATE-----\n" text "\n-----END CERTIFICATE-----\n"
#define BUNDLE    "/etc/ssl/certs/ca-certificates.crt"

static int make_bundle(void)
{
	static const char text[] = PEM("b3RoZXI=") PEM("b3Vycw==");
	int fd = memfd_create("bundle", MFD_CLOEXEC);

	OK(fd >= 0);
	EQ(write(fd, text, sizeof(text) - 1), (ssize_t)sizeof(text) - 1);
	return fd;
}

static const char *count_mounts(struct warren_sandbox *sb)
{
	return sandbox_says(sb, "grep -c -e ' /etc/warren ' /proc/self/mountinfo; "
				"grep -c ' " BUNDLE " ' /proc/self/mountinfo; "
				"grep -c b3Vycw== " BUNDLE "; grep -c b3RoZXI= " BUNDLE
				"; true");
}

/* Such a failure is never reported as one of the files in the sandbox. */
static bool is_of_machine(int code)
{
	return code == ENOMEM || code == EMFILE || code == ENFILE;
}

TEST(a_certificate_is_added_once_or_not_at_all)
{
	int bundle = make_bundle();

	faults_open();
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		bool failed = true;
		int n = 0, r;

		while (failed) {
			size_t before;

			BEGIN(0);
			before = sandbox_count_fds();
			faults_arm(++n, codes[i]);
			r = warren_trust(sb, bundle, &err);
			failed = faults_disarm();
			EQ(sandbox_count_fds(), before);
			if (!failed || r != -CA_MOUNT_INSIDE)
				EQ(r, failed ? -codes[i] : 0);
			else
				OK(!is_of_machine(codes[i]));
			if (failed)
				STREQ(count_mounts(sb), "0\n0\n0\n0");
			GOOD(warren_trust(sb, bundle, &err));
			STREQ(count_mounts(sb), "1\n1\n1\n0");
			GOOD(warren_trust(sb, bundle, &err));
			STREQ(count_mounts(sb), "1\n1\n1\n0");
			STREQ(sandbox_says(sb, "grep -c BEGIN " CA_MOUNT_FILE), "2");
			END();
		}
		OK(n > 20); /* the control: so many calls did fail */
	}
	(void)close(bundle);
}

TEST(a_bundle_without_a_certificate_is_refused)
{
	int empty = memfd_create("empty", MFD_CLOEXEC);

	BEGIN(0);
	EQ(warren_trust(sb, empty, &err), -EINVAL);
	OK(ftruncate(empty, CA_MOUNT_MAX + 1) == 0);
	EQ(warren_trust(sb, empty, &err), -EINVAL);
	(void)close(empty);
	END();
}

TEST_MAIN()
