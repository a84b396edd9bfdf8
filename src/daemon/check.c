/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.c - check a configuration for this machine and user, without starting the service
 */
#include "daemon/check.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "net/tls.h"

/* @path, or its first existing parent, must be a directory that is writable. */
static int check_dir(const char *key, const char *path, const char *example,
		     struct warren_error *err)
{
	char way[PATH_MAX];
	struct stat st;
	int r;

	(void)snprintf(way, sizeof(way), "%s", path);
	while ((r = stat(way, &st)) < 0 && (errno == ENOENT || errno == ENOTDIR) &&
	       strcmp(way, "/") != 0) {
		char *slash = strrchr(way, '/');

		slash[slash == way] = '\0';
	}
	if (r == 0 && !S_ISDIR(st.st_mode)) {
		r = -1;
		errno = ENOTDIR;
	}
	if (r == 0)
		r = faccessat(AT_FDCWD, way, W_OK | X_OK, AT_EACCESS);
	if (r == 0)
		return 0;
	r = errno;
	return error_set(err, r,
			 "%s: '%s' cannot be %s: '%s': %s; choose another directory "
			 "(example: %s)",
			 key, path, strcmp(way, path) == 0 ? "written to" : "created",
			 way, strerrordesc_np(r), example);
}

int check_dirs(const struct config *c, struct warren_error *err)
{
	int r = check_dir("state_dir", c->state_dir, "--state-dir $HOME/warren", err);

	return r < 0 ? r
		     : check_dir("run_dir", c->run_dir, "--run-dir ~/warren-run", err);
}

static int check_tls(const struct config *c, struct warren_error *err)
{
	struct tls *tls = NULL;
	int r = c->tls_cert[0] ? tls_new(&tls, err) : 0;

	if (tls)
		r = tls_set_files(tls, c->tls_cert, c->tls_key, err);
	tls = tls_free(tls);
	return r;
}

int check_fits(const struct config *c, struct warren_error *err)
{
	int r = check_dirs(c, err);

	if (r == 0)
		r = check_tls(c, err);
	if (r < 0)
		return r;
	if (geteuid() == 0 && c->user[0] && !getpwnam(c->user))
		(void)fprintf(stderr,
			      "warren serve: note: there is no account '%s': the api "
			      "will run as 'nobody' (useradd --system %s creates it)\n",
			      c->user, c->user);
	for (size_t i = 0; i < c->mounts.n; i++) {
		char path[PATH_MAX];
		size_t n;

		(void)snprintf(path, sizeof(path), "%s", c->mounts.items[i]);
		n = strlen(path);
		if (n > 3 && (strcmp(path + n - 3, ":ro") == 0 ||
			      strcmp(path + n - 3, ":rw") == 0))
			path[n - 3] = '\0';
		if (access(path, F_OK) < 0)
			(void)fprintf(stderr, "warren serve: note: mounts: '%s': %s\n",
				      path, strerrordesc_np(errno));
	}
	return 0;
}
