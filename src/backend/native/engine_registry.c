/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_registry.c - live engines, the owners of id ranges, and the cleanup after a
 * crash
 *
 *	<run_dir>/engines/<name>	a lock file per engine, locked while it runs
 *	<run_dir>/ids/<slot>		a link per sandbox: "<name>/<sandbox id>"
 *
 * An engine with a name from the caller is different (durable.h): its inits do not hold
 * the lock, and only the next engine of that name removes its leftovers.
 *
 * The link is created before everything else of a sandbox and removed last, so that a
 * sandbox can always be found by the id in its link. The engine and each of its inits
 * have the lock file open separately, with a shared lock (LOCK_SH). An exclusive lock
 * (LOCK_EX) is therefore possible only when the engine and all its sandboxes are dead;
 * then the sandboxes of its links may be removed. An engine that is opened does this for
 * all other engines. An init that gives up its lock can only make its own sandbox look
 * dead.
 *
 * A slot is a range of 65,536 ids. The ranges are in the region that systemd uses for
 * containers: far from the ids of people, and below 2^31, the maximum of some programs.
 * The distance between ranges is one id more: the kernel hashes users by their lower
 * bits, and would otherwise find the roots of all sandboxes in one bucket, which is slow.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "backend/native/durable.h"
#include "backend/native/native.h"
#include "backend/native/persist.h"
#include "backend/native/undo.h"
#include "base/fd.h"

#define SLOT_FIRST  0x10000000U
#define SLOT_STRIDE (NATIVE_IDS + 1)
#define SLOT_COUNT  0x5f00U

/*
 * Remove everything that the dead engine @name left: for each of its links, the sandbox
 * that the link names. Return whether nothing is left.
 */
static bool remove_leftovers(struct native *n, const char *name)
{
	bool all = true;
	int copy = openat(n->ids_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char target[64];
		ssize_t len =
			readlinkat(n->ids_fd, e->d_name, target, sizeof(target) - 1);

		if (len < 0)
			continue;
		target[len] = '\0';
		if (strncmp(target, name, ID_LEN) != 0 || target[ID_LEN] != '/' ||
		    !id_valid(target + ID_LEN + 1))
			continue;
		/*
		 * If something cannot be removed, the link stays, so that the next engine
		 * tries again.
		 */
		if (cgroup_remove(&n->cgroups, target + ID_LEN + 1) < 0 ||
		    unlinkat(n->ids_fd, e->d_name, 0) < 0)
			all = false;
	}
	if (d)
		(void)closedir(d);
	return d && all;
}

static void engine_registry_sweep(struct native *n, int engines)
{
	int copy = openat(engines, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		AUTO_CLOSE int fd = -1;

		if (!id_valid(e->d_name) || strcmp(e->d_name, n->name) == 0)
			continue;
		fd = openat(engines, e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
			continue;
		if (remove_leftovers(n, e->d_name))
			(void)unlinkat(engines, e->d_name, 0);
	}
	if (d)
		(void)closedir(d);
}

/*
 * Create and lock the file of this engine. Another engine may remove the file as a
 * leftover before it is locked: then try again.
 */
static int engine_registry_enrol(struct native *n, int engines, struct warren_error *err)
{
	for (int tries = 0; tries < 100; tries++) {
		AUTO_CLOSE int fd = -1;
		struct stat st;

		id_make(n->name);
		fd = openat(engines, n->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
			    0600);
		if (fd < 0 && errno == EEXIST)
			continue;
		if (fd < 0)
			return error_errno(err, errno, "create a lock file");
		if (flock(fd, LOCK_SH | LOCK_NB) < 0)
			continue;
		if (fstat(fd, &st) < 0 || st.st_nlink == 0)
			continue;
		n->lock_fd = TAKE_FD(fd);
		return 0;
	}
	return error_set(err, EBUSY, "cannot get a lock file");
}

int engine_registry_open(struct native *n, const char *name, struct warren_error *err)
{
	AUTO_CLOSE int run = backend_open_run(n->run_dir, err);
	AUTO_CLOSE int engines = -1;
	int r;

	if (run < 0)
		return run;
	engines = backend_open_sub(run, "engines", err);
	if (engines < 0)
		return engines;
	n->ids_fd = backend_open_sub(run, "ids", err);
	if (n->ids_fd < 0)
		return n->ids_fd;
	r = name ? durable_enrol(n, run, engines, name, err)
		 : engine_registry_enrol(n, engines, err);
	if (r < 0)
		return r;
	if (name) {
		durable_sweep(n);
		saved_sweep(n);
		persist_sweep(n);
		undo_sweep(n);
	}
	engine_registry_sweep(n, engines);
	return 0;
}

int engine_registry_hold(const struct native *n, int *ret_fd, struct warren_error *err)
{
	char path[4096 + sizeof(n->name) + 16];
	AUTO_CLOSE int fd = -1;

	(void)snprintf(path, sizeof(path), "%s/engines/%s", n->run_dir, n->name);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "open the lock file '%s'", path);
	if (flock(fd, LOCK_SH | LOCK_NB) < 0)
		return error_errno(err, errno, "lock '%s'", path);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

void engine_registry_close(struct native *n)
{
	char path[4096 + sizeof(n->name) + 16];

	if (n->lock_fd >= 0) {
		(void)snprintf(path, sizeof(path), "%s/engines/%s", n->run_dir, n->name);
		if (!n->leftovers && !n->named)
			(void)unlink(path);
		(void)close(n->lock_fd);
	}
	if (n->sandboxes_fd >= 0)
		(void)close(n->sandboxes_fd);
	if (n->ids_fd >= 0)
		(void)close(n->ids_fd);
}

uid_t engine_registry_base(const struct native *n, unsigned slot)
{
	return n->privileged ? SLOT_FIRST + slot * SLOT_STRIDE : geteuid();
}

bool engine_registry_is_range(uid_t uid)
{
	return uid >= SLOT_FIRST && uid < SLOT_FIRST + SLOT_COUNT * SLOT_STRIDE;
}

int engine_registry_claim(struct native *n, struct native_sandbox *sandbox,
			  struct warren_error *err)
{
	char target[sizeof(n->name) + ID_LEN + 2], name[16];
	unsigned start = 0;

	(void)snprintf(target, sizeof(target), "%s/%s", n->name, sandbox->base.id);
	if (getrandom(&start, sizeof(start), 0) != sizeof(start))
		start = 0;
	for (unsigned i = 0; i < SLOT_COUNT; i++) {
		unsigned slot = (start + i) % SLOT_COUNT;

		(void)snprintf(name, sizeof(name), "%u", slot);
		if (symlinkat(target, n->ids_fd, name) == 0) {
			sandbox->slot = slot;
			sandbox->has_slot = true;
			sandbox->base_id = engine_registry_base(n, slot);
			return 0;
		}
		if (errno != EEXIST)
			return error_errno(err, errno, "record the sandbox in '%s/ids'",
					   n->run_dir);
	}
	return error_set(err, EAGAIN, "all %u id ranges are in use", SLOT_COUNT);
}

void engine_registry_release(struct native *n, struct native_sandbox *sandbox)
{
	char name[16];

	if (!sandbox->has_slot)
		return;
	(void)snprintf(name, sizeof(name), "%u", sandbox->slot);
	(void)unlinkat(n->ids_fd, name, 0);
	sandbox->has_slot = false;
}
