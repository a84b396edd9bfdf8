/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.c - an engine of sandboxes with shims: its directory, its lock, the cleanup
 * after a crash
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "backend/shimmed/shimmed.h"
#include "base/fd.h"
#include "base/libexec.h"

#define LOCK_TRIES 100

static bool engine_good_name(const char *name)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	size_t n = strlen(name);

	/* A name that looks like an id belongs to an engine without a name, which is
	 * never opened again. */
	return n > 0 && n < sizeof(((struct shimmed *)NULL)->name) &&
	       strspn(name, allowed) == n && !id_valid(name);
}

static int lock_dir(int dir, int tries)
{
	AUTO_CLOSE int fd =
		openat(dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	for (int i = 0; i < tries; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return TAKE_FD(fd);
		if (errno != EWOULDBLOCK)
			return -errno;
		(void)nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	return -EBUSY;
}

static int engine_sweep_batch(struct shimmed *k, int dir, const char *path,
			      struct sandbox_socket_look *look, size_t n)
{
	int left = 0;

	sandbox_socket_look_at(k->sandboxes_fd, look, n);
	for (size_t i = 0; i < n; i++) {
		struct warren_error ignored = WARREN_ERROR_INIT;
		bool stays;

		if (!look[i].alive && !shimmed_is_paused(k, look[i].id, NULL))
			(void)shimmed_end_shim(dir, look[i].id, &ignored);
		stays = !look[i].alive &&
			shimmed_remove(k, dir, path, look[i].id, &ignored) < 0;

		left += look[i].alive || stays;
		/*
		 * If it is another engine's sandbox, the next engine that is opened tries
		 * again.
		 */
		if (stays && dir == k->dir_fd)
			shimmed_keep_left(k, look[i].id);
	}
	return left;
}

/*
 * Remove the dead sandboxes in @dir, which is at @path. Return the number of sandboxes
 * that are left.
 */
static int sweep_dir(struct shimmed *k, int dir, const char *path)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), left = 0;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct sandbox_socket_look look[DOOR_LOOKS_MAX];
	struct dirent *e;
	size_t n = 0;

	while (d && (e = readdir(d))) {
		if (!id_valid(e->d_name))
			continue;
		look[n] = (struct sandbox_socket_look){ 0 };
		(void)strcpy(look[n++].id, e->d_name);
		if (n == ARRAY_SIZE(look)) {
			left += engine_sweep_batch(k, dir, path, look, n);
			n = 0;
		}
	}
	left += engine_sweep_batch(k, dir, path, look, n);
	if (d)
		(void)closedir(d);
	return left;
}

/* Remove leftovers of dead engines that had no name. */
static void sweep_others(struct shimmed *k)
{
	int copy = openat(k->all_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		const char *dot = strchr(e->d_name, '.');
		AUTO_FREE char *path = NULL;
		AUTO_CLOSE int dir = -1, lock = -1;

		if (!dot || !id_valid(dot + 1) || strcmp(dot + 1, k->name) == 0)
			continue;
		dir = openat(k->all_fd, e->d_name,
			     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		lock = dir < 0 ? -1 : lock_dir(dir, 1);
		if (lock < 0 ||
		    asprintf(&path, "%s/kept/%s", k->run_dir, e->d_name) < 0) {
			path = NULL;
			continue;
		}
		if (sweep_dir(k, dir, path) > 0)
			continue;
		(void)unlinkat(dir, "lock", 0);
		(void)unlinkat(k->all_fd, e->d_name, AT_REMOVEDIR);
	}
	if (d)
		(void)closedir(d);
}

static int open_dirs(struct shimmed *k, struct warren_error *err)
{
	AUTO_CLOSE int run = backend_open_run(k->run_dir, err);
	char name[sizeof(k->name) + 16];

	if (run < 0)
		return run;
	k->sandboxes_fd = backend_open_sub(run, "boxes", err);
	if (k->sandboxes_fd < 0)
		return k->sandboxes_fd;
	k->all_fd = backend_open_sub(run, "kept", err);
	if (k->all_fd < 0)
		return k->all_fd;
	(void)snprintf(name, sizeof(name), "%s.%s", k->kind, k->name);
	k->dir_fd = backend_open_sub(k->all_fd, name, err);
	if (k->dir_fd < 0)
		return k->dir_fd;
	if (asprintf(&k->path, "%s/kept/%s", k->run_dir, name) < 0) {
		k->path = NULL;
		return error_errno(err, ENOMEM, "name the directory");
	}
	k->lock_fd = lock_dir(k->dir_fd, LOCK_TRIES);
	if (k->lock_fd == -EBUSY)
		return error_set(err, EBUSY, "another process uses the engine '%s'",
				 k->name);
	return k->lock_fd < 0
		       ? error_errno(err, -k->lock_fd, "lock the engine '%s'", k->name)
		       : 0;
}

int shimmed_open(const struct warren_options *options, void **ret_state,
		 struct warren_error *err)
{
	struct shimmed *k = calloc(1, sizeof(*k));
	int r;

	if (!k)
		return error_errno(err, ENOMEM, "open the engine");
	k->kind = backend_by_name(options->backend)->name;
	k->dir_fd = k->all_fd = k->sandboxes_fd = k->lock_fd = -1;
	left_init(&k->left);
	if (libexec_find("warren-shim", k->shim, &k->missing) < 0)
		k->shim[0] = '\0';
	if (options->backend_config)
		k->config = strdup(options->backend_config);
	k->named = options->engine_name;
	if (!k->named)
		id_make(k->name);
	else if (engine_good_name(options->engine_name))
		(void)strcpy(k->name, options->engine_name);
	r = !k->name[0] ? error_set(err, EINVAL,
				    "engine name '%.40s' is not 1 to 32 letters, digits, "
				    "'-' and '_', or it looks like an id",
				    options->engine_name)
			: backend_choose_dirs(options, &k->run_dir, &k->state_dir, err);
	if (r == 0)
		r = open_dirs(k, err);
	if (r < 0) {
		shimmed_close(k);
		return r;
	}
	if (k->named) {
		(void)sweep_dir(k, k->dir_fd, k->path);
		shimmed_sweep_saved(k);
	}
	sweep_others(k);
	*ret_state = k;
	return 0;
}

void shimmed_close(void *state)
{
	struct shimmed *k = state;
	const int fds[] = { k->dir_fd, k->all_fd, k->sandboxes_fd, k->lock_fd };
	char name[sizeof(k->name) + 16];

	left_done(&k->left, shimmed_forget);
	(void)snprintf(name, sizeof(name), "%s.%s", k->kind, k->name);
	/*
	 * A directory that is not empty stays, so that the next engine can find its
	 * contents.
	 */
	if (!k->named && k->lock_fd >= 0 && k->dir_fd >= 0) {
		(void)unlinkat(k->dir_fd, "lock", 0);
		if (unlinkat(k->all_fd, name, AT_REMOVEDIR) < 0)
			(void)close(openat(k->dir_fd, "lock",
					   O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	}
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
	free(k->run_dir);
	free(k->state_dir);
	free(k->config);
	free(k->path);
	free((void *)(uintptr_t)k->probed);
	free(k);
}
