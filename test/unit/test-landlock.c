/* SPDX-License-Identifier: Apache-2.0 */
/* test-landlock.c - what a process can do before and after it confines itself */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "lib/tap.h"
#include "os/landlock.h"

struct world {
	char dir[64];
	int listener; /* listens on loopback, at .port */
	uint16_t port;
	int abstract;
	struct sockaddr_un name;
	socklen_t name_len;
};

/* Return 0, or the errno of the failure. */
static int try_open(const struct world *w UNUSED)
{
	int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? errno : (close(fd), 0);
}

static int try_own(const struct world *w)
{
	char path[96];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/x", w->dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return fd < 0 ? errno : (close(fd), 0);
}

static int tcp(bool connects, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

	r = connects ? connect(fd, (struct sockaddr *)&a, sizeof(a))
		     : bind(fd, (struct sockaddr *)&a, sizeof(a));
	r = r < 0 ? errno : 0;
	(void)close(fd);
	return r;
}

static int try_bind(const struct world *w UNUSED)
{
	return tcp(false, 0);
}

static int try_connect(const struct world *w)
{
	return tcp(true, w->port);
}

static int try_signal(const struct world *w UNUSED)
{
	return kill(getppid(), 0) < 0 ? errno : 0;
}

static int try_self(const struct world *w UNUSED)
{
	return kill(getpid(), 0) < 0 ? errno : 0;
}

static int try_abstract(const struct world *w)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

	r = connect(fd, (const struct sockaddr *)&w->name, w->name_len) < 0 ? errno : 0;
	(void)close(fd);
	return r;
}

/* A socket that was opened before continues to work. */
static int try_accept(const struct world *w)
{
	return listen(w->listener, 8) < 0 ? errno : 0;
}

static const struct {
	const char *name;
	int (*try)(const struct world *w);
	int after;      /* expected errno after the restriction */
	unsigned since; /* the version of landlock that restricts it */
} tries[] = {
	{ "a file of the machine's", try_open, EACCES, 1 },
	{ "a file of its own", try_own, 0, 1 },
	{ "bind TCP", try_bind, EACCES, LANDLOCK_HAS_NET },
	{ "connect TCP", try_connect, EACCES, LANDLOCK_HAS_NET },
	{ "listen on what it has", try_accept, 0, 1 },
	{ "signal another", try_signal, EPERM, LANDLOCK_HAS_SCOPE },
	{ "signal itself", try_self, 0, 1 },
	{ "connect to an abstract socket", try_abstract, EPERM, LANDLOCK_HAS_SCOPE },
};

static void world_open(struct world *w)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);

	(void)strcpy(w->dir, "/tmp/warren-landlock-XXXXXX");
	OK(mkdtemp(w->dir));
	w->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	EQ(bind(w->listener, (struct sockaddr *)&a, sizeof(a)), 0);
	EQ(listen(w->listener, 8), 0);
	EQ(getsockname(w->listener, (struct sockaddr *)&a, &len), 0);
	w->port = ntohs(a.sin_port);
	w->abstract = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	w->name.sun_family = AF_UNIX;
	/* The kernel assigns a free abstract name. */
	EQ(bind(w->abstract, (struct sockaddr *)&w->name, sizeof(sa_family_t)), 0);
	w->name_len = sizeof(w->name);
	EQ(getsockname(w->abstract, (struct sockaddr *)&w->name, &w->name_len), 0);
	EQ(listen(w->abstract, 8), 0);
}

static int in_child(const struct world *w)
{
	const char *dirs[] = { w->dir, NULL };
	struct warren_error err = WARREN_ERROR_INIT;
	int failed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
		int r = tries[i].try(w);

		if (r != 0)
			failed = 1, printf("# before, %s: errno %d\n", tries[i].name, r);
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    landlock_restrict(dirs, &err) != 0)
		return 2;
	for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
		int r = tries[i].try(w);
		int want = landlock_version() >= tries[i].since ? tries[i].after : 0;

		if (r != want)
			failed = 1,
			printf("# after, %s: errno %d, not %d\n", tries[i].name, r, want);
	}
	(void)fflush(stdout);
	return failed;
}

TEST(a_confined_process_cannot_use_paths_and_sockets_outside_its_directories)
{
	struct world w = { 0 };
	char path[96];
	int status = 0;
	pid_t pid;

	SKIP_UNLESS(landlock_version() > 0, "this kernel has no landlock");
	world_open(&w);
	(void)fflush(stdout);
	pid = fork();
	OK(pid >= 0);
	if (pid == 0)
		_exit(in_child(&w));
	EQ(waitpid(pid, &status, 0), pid);
	EQ(status, 0);
	(void)close(w.listener);
	(void)close(w.abstract);
	(void)snprintf(path, sizeof(path), "%s/x", w.dir);
	(void)unlink(path);
	(void)rmdir(w.dir);
}

TEST_MAIN()
