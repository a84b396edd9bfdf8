/* SPDX-License-Identifier: Apache-2.0 */
/*
 * container_lock.c - a lock that prevents a command from starting during a pause
 *
 * A runtime that starts a command in a container first puts one of its processes into the
 * container's cgroup. If a pause freezes that process, the start never ends, the daemon
 * waits for it, and the container can neither be resumed nor removed. So a start and a
 * pause lock the file with the container's id, and each waits for the other. Each is a
 * separate process, and a lock ends with the process that has it.
 *
 * All commands that are starting share LOCK_STARTS; a pause has it exclusively. LOCK_TURN
 * is taken before it: a pause holds it for as long as it waits and works, and a start
 * only for an instant. So commands that start one after another cannot keep a pause
 * waiting.
 */
#include <errno.h>
#include <fcntl.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "shim/docker/docker.h"

#define LOCK_EVERY_MS 5

enum {
	LOCK_STARTS,
	LOCK_TURN,
};

static int container_lock_open(const struct docker *d, const struct shim_sandbox *p,
			       int *ret_fd, struct warren_error *err)
{
	char path[DOCKER_GUEST_MAX];
	int fd;

	docker_id_path(p, path);
	fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	/* If no id was written, this sandbox has no container to start or pause. */
	if (fd < 0 && errno != ENOENT)
		return error_errno(err, errno, "%s: open '%s'", d->name, path);
	*ret_fd = fd;
	return 0;
}

static int container_lock_set(int fd, int command, short type, off_t byte)
{
	struct flock l = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1
	};
	int r;

	do
		r = fcntl(fd, command, &l);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

int docker_lock_start(const struct docker *d, const struct shim_sandbox *p, int *ret_fd,
		      struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	int r = container_lock_open(d, p, &fd, err);

	if (r < 0)
		return r;
	if (fd >= 0)
		r = container_lock_set(fd, F_OFD_SETLKW, F_RDLCK, LOCK_TURN);
	if (fd >= 0 && r == 0)
		r = container_lock_set(fd, F_OFD_SETLKW, F_RDLCK, LOCK_STARTS);
	if (fd >= 0 && r == 0)
		r = container_lock_set(fd, F_OFD_SETLK, F_UNLCK, LOCK_TURN);
	if (r < 0)
		return error_errno(err, -r, "%s: wait for a pause", d->name);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Lock a byte exclusively, before @until. */
static int container_lock_alone(int fd, off_t byte, uint64_t until)
{
	const struct timespec t = { .tv_nsec = LOCK_EVERY_MS * 1000000L };
	int r;

	while ((r = container_lock_set(fd, F_OFD_SETLK, F_WRLCK, byte)) == -EAGAIN ||
	       r == -EACCES) {
		if (clock_now() >= until)
			return -ETIMEDOUT;
		(void)nanosleep(&t, NULL);
	}
	return r;
}

int docker_lock_pause(const struct docker *d, const struct shim_sandbox *p, int *ret_fd,
		      struct warren_error *err)
{
	uint64_t until = clock_now() + (uint64_t)d->patience_ms * 1000000;
	AUTO_CLOSE int fd = -1;
	int r = container_lock_open(d, p, &fd, err);

	if (r < 0)
		return r;
	if (fd >= 0)
		r = container_lock_alone(fd, LOCK_TURN, until);
	if (fd >= 0 && r == 0)
		r = container_lock_alone(fd, LOCK_STARTS, until);
	if (r == -ETIMEDOUT)
		return error_set(err, ETIMEDOUT,
				 "%s: pause the container: a command is still starting",
				 d->name);
	if (r < 0)
		return error_errno(err, -r, "%s: wait for commands that start", d->name);
	*ret_fd = TAKE_FD(fd);
	return 0;
}
