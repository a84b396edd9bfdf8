/* SPDX-License-Identifier: Apache-2.0 */
/* private.c - the directory of a service for one client, and its removal */
#include "daemon/private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "image/copy.h"
#include "warren.h"

#define PRIVATE_MAX 1024 /* maximum number of services at a time */
#define ENGINE_WORD "private-"

struct private_service {
	int all;  /* <state_dir>/private */
	int fd;   /* <state_dir>/private/<n>, locked */
	int word; /* a second descriptor, without the lock, for the client */
	char number[16];
	char engine[32];
	char *dir;
};

int private_parse(const char *text, int *ret_fd, struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	uint64_t fd = 0;
	struct stat st;

	if (parse_u64(text, INT32_MAX, &fd, &ignored) < 0 || fstat((int)fd, &st) < 0 ||
	    !S_ISSOCK(st.st_mode))
		return error_set(err, EINVAL,
				 "--private: '%.20s' is not a descriptor of a socket",
				 text);
	*ret_fd = (int)fd;
	return fcntl(*ret_fd, F_SETFD, FD_CLOEXEC) < 0
		       ? error_errno(err, errno, "--private")
		       : 0;
}

/* ---------------------------------------------------------------- directories */

/* Allow the api's user to pass through the directory; only the owner can list it or
 * create files. */
static int private_dir_mode(int fd)
{
	return fchmod(fd, geteuid() == 0 ? 0711 : 0700);
}

static int private_open_all(struct private_service *p, const char *state_dir,
			    struct warren_error *err)
{
	AUTO_FREE char *path = NULL;
	struct stat st;
	int r;

	if (asprintf(&path, "%s/private", state_dir) < 0)
		return error_errno(err, ENOMEM, "name a directory");
	r = fd_make_dirs(path, 0700);
	if (r < 0)
		return error_errno(err, -r, "create the directory '%s'", path);
	p->all = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (p->all < 0 || fstat(p->all, &st) < 0)
		return error_errno(err, errno, "open the directory '%s'", path);
	if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return error_set(err, EPERM,
				 "the directory '%s' is not private to this user (uid "
				 "%u, mode %03o): remove it",
				 path, st.st_uid, st.st_mode & 07777);
	return private_dir_mode(p->all) < 0
		       ? error_errno(err, errno, "open the directory '%s'", path)
		       : 0;
}

/* Lock the directory @name. Return false if another service has it or has just removed
 * it. */
static bool private_take(struct private_service *p, const char *name)
{
	AUTO_CLOSE int fd =
		openat(p->all, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0 ||
	    st.st_nlink == 0 || private_dir_mode(fd) < 0)
		return false;
	(void)snprintf(p->number, sizeof(p->number), "%s", name);
	p->fd = TAKE_FD(fd);
	return true;
}

/* Use leftovers of a killed service first, so that they do not stay for long. */
static bool private_take_left(struct private_service *p)
{
	int copy = openat(p->all, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;
	bool taken = false;

	while (d && !taken && (e = readdir(d))) {
		size_t n = strlen(e->d_name);

		taken = n < 6 && strspn(e->d_name, "0123456789") == n &&
			private_take(p, e->d_name);
	}
	if (d)
		(void)closedir(d);
	return taken;
}

static int private_take_any(struct private_service *p, struct warren_error *err)
{
	char name[16];

	if (private_take_left(p))
		return 0;
	for (unsigned i = 0; i < PRIVATE_MAX; i++) {
		(void)snprintf(name, sizeof(name), "%u", i);
		if (mkdirat(p->all, name, 0700) < 0 && errno != EEXIST)
			return error_errno(err, errno, "create a private directory");
		if (private_take(p, name))
			return 0;
	}
	return error_set(err, EAGAIN, "%d private services are running", PRIVATE_MAX);
}

/* --------------------------------------------------------- start of a private service */

static void private_free(struct private_service *p)
{
	if (p->word >= 0)
		(void)close(p->word);
	if (p->fd >= 0)
		(void)close(p->fd);
	if (p->all >= 0)
		(void)close(p->all);
	free(p->dir);
	free(p);
}

/*
 * Name the socket through the descriptor of its directory, because the path may be too
 * long for a socket.
 */
static int private_configure(const struct private_service *p, struct config *c,
			     struct warren_error *err)
{
	char *text = NULL, **items = calloc(2, sizeof(*items));

	if (!items || asprintf(&text, "unix:/proc/self/fd/%d/sock", p->fd) < 0) {
		free(items);
		return error_errno(err, ENOMEM, "start a private service");
	}
	for (size_t i = 0; i < c->listen.n; i++)
		free(c->listen.items[i]);
	free(c->listen.items);
	items[0] = text;
	c->listen = (struct config_list){ .items = items, .n = 1 };
	c->on_stop = CONFIG_STOP_DELETE;
	c->log_format = CONFIG_LOG_TEXT;
	c->log_level = CONFIG_LOG_ERROR;
	c->pool_min = 0;
	return 0;
}

int private_open(struct config *c, struct private_service **ret, struct warren_error *err)
{
	struct private_service *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return error_errno(err, ENOMEM, "start a private service");
	p->all = p->fd = p->word = -1;
	r = private_open_all(p, c->state_dir, err);
	if (r == 0)
		r = private_take_any(p, err);
	if (r == 0) {
		p->word = openat(p->fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
		(void)snprintf(p->engine, sizeof(p->engine), ENGINE_WORD "%s", p->number);
		if (p->word < 0 ||
		    asprintf(&p->dir, "%s/private/%s/serve", c->state_dir, p->number) < 0)
			r = error_errno(err, ENOMEM, "start a private service");
	}
	if (r == 0) {
		copy_remove_tree(p->fd, "serve");
		r = private_configure(p, c, err);
	}
	if (r < 0)
		private_free(p);
	else
		*ret = p;
	return r;
}

const char *private_engine(const struct private_service *p)
{
	return p->engine;
}

const char *private_dir(const struct private_service *p)
{
	return p->dir;
}

/* ----------------------------------------------------------- end of a private service */

/* Remove the files of sandboxes that persist, whose processes have ended. */
static bool private_remove_files(struct warren *w)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_FREE char **ids = NULL;
	bool clean = warren_list_kept(w, &ids, &err) == 0;

	for (char **id = ids; clean && id && *id; id++)
		clean = warren_forget_saved(w, *id, &err) == 0;
	return clean;
}

/*
 * Destroy the remaining native sandboxes, because a killed api deleted none. Return
 * whether none is left.
 */
static bool private_destroy_left(const struct private_service *p, const struct config *c)
{
	const struct warren_options options = { .state_dir = c->state_dir,
						.run_dir = c->run_dir,
						.engine_name = p->engine };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_FREE char **ids = NULL;
	struct warren *w = NULL;
	bool clean =
		warren_open(&options, &w, &err) == 0 && warren_list(w, &ids, &err) == 0;

	for (char **id = ids; clean && id && *id; id++) {
		struct warren_sandbox *sb = NULL;
		int r = warren_adopt(w, *id, &sb, &err);

		if (r == 0)
			r = warren_destroy(sb, &err);
		clean = r == 0 || r == -ESRCH || r == -ENOENT;
	}
	if (clean)
		clean = private_remove_files(w);
	(void)warren_close(w);
	return clean;
}

/*
 * Remove the lock files of the service's engines, which no other process can open while
 * @p is locked. Return false if a sandbox on another backend is left.
 */
static bool private_remove_engines(const struct private_service *p,
				   const struct config *c)
{
	AUTO_CLOSE int run = open(c->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE int engines = openat(run, "engines", O_PATH | O_CLOEXEC);
	int kept = openat(run, "kept", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = kept < 0 ? NULL : fdopendir(kept);
	const size_t n = strlen(p->engine);
	struct dirent *e;
	bool clean = true;

	(void)unlinkat(engines, p->engine, 0);
	while (d && (e = readdir(d))) {
		const char *dot = strchr(e->d_name, '.');
		char lock[300];

		/* "<kind>.<engine>-<backend>" */
		if (!dot || strncmp(dot + 1, p->engine, n) != 0 || dot[1 + n] != '-')
			continue;
		(void)snprintf(lock, sizeof(lock), "%s/lock", e->d_name);
		(void)unlinkat(kept, lock, 0);
		if (unlinkat(kept, e->d_name, AT_REMOVEDIR) < 0)
			clean = false;
	}
	if (d)
		(void)closedir(d);
	return clean;
}

void private_close(struct private_service *p, const struct config *c)
{
	if (!p)
		return;
	(void)unlinkat(p->fd, "sock", 0);
	copy_remove_tree(p->fd, "serve");
	/* If something of a sandbox is left, keep it for the next service of this name.
	 */
	if (private_destroy_left(p, c) && private_remove_engines(p, c))
		(void)unlinkat(p->all, p->number, AT_REMOVEDIR);
	private_free(p);
}

/* ------------------------------------------------------------- messages to the client */

void private_tell_ready(int fd, const struct private_service *p)
{
	(void)fd_send_now(fd, "R", 1, &p->word, 1);
}

void private_tell_error(int fd, const struct warren_error *err)
{
	char text[sizeof(err->msg) + 1];
	int n = snprintf(text, sizeof(text), "E%s", err->msg);

	(void)send(fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
}
