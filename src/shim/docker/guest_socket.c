/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_socket.c - the connection to the guest agent, which serves files and ports like
 * an init
 *
 * A socket of the shim is mounted into the container. The shim listens on it until the
 * guest agent has connected (agent/guest/guest_server.c), which is before any other
 * process runs in the container; then it stops listening. The connection can transfer
 * descriptors, so the shim can read and write the files that are opened inside directly.
 * If no guest agent connects, the shim uses the image's own tools.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/fd.h"
#include "proto/init_proto.h"
#include "shim/docker/docker.h"

#define COME_MS 10000

void docker_guest_socket_path(const struct shim_sandbox *p, char path[DOCKER_GUEST_MAX])
{
	(void)snprintf(path, DOCKER_GUEST_MAX, "%s/door", p->dir);
}

/* Does the runtime use this machine's kernel? With another kernel, the sockets of this
 * machine cannot be used inside. */
bool docker_plain(const char *runtime)
{
	static const char *const plain[] = { "runc", "io.containerd.runc", "crun",
					     "youki" };

	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		if (strncmp(runtime, plain[i], strlen(plain[i])) == 0)
			return true;
	return false;
}

int docker_listen(const struct shim_sandbox *p, const struct docker_info *info,
		  int *ret_fd, struct warren_error *err)
{
	AUTO_CLOSE int dir = open(p->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un name = { .sun_family = AF_UNIX };

	*ret_fd = -1;
	if (!docker_plain(info->runtime))
		return 0;
	/*
	 * Use /proc, because the name of a socket has at most 107 characters, and a
	 * directory may have more.
	 */
	(void)snprintf(name.sun_path, sizeof(name.sun_path), "/proc/self/fd/%d/door",
		       dir);
	/*
	 * Allow all users to connect, because root inside may be any user on this
	 * machine.
	 */
	if (dir < 0 || fd < 0 || (unlinkat(dir, "door", 0) < 0 && errno != ENOENT) ||
	    bind(fd, (struct sockaddr *)&name, sizeof(name)) < 0 ||
	    fchmodat(dir, "door", 0666, 0) < 0 || listen(fd, 1) < 0)
		return error_errno(err, errno, "%s: listen in '%s'", p->name, p->dir);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static bool is_ready(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct proto_ready m = { 0 };
	size_t n_fds = 0;

	return poll(&p, 1, COME_MS) == 1 &&
	       fd_recv(fd, &m, sizeof(m), NULL, &n_fds, 0) == (ssize_t)sizeof(m) &&
	       m.h.version == PROTO_VERSION && m.h.type == PROTO_READY;
}

int docker_await(int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	AUTO_CLOSE int fd = -1;

	if (listener < 0 || poll(&p, 1, COME_MS) != 1)
		return -1;
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0 || !is_ready(fd) || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -1;
	return TAKE_FD(fd);
}
