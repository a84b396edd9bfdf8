/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup.c - find the hierarchies; create, limit, freeze, read and remove cgroups */
#include "os/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>

#include "base/fd.h"

#define THAW_TRIES  8 /* attempts for a write that may fail temporarily */
#define MOUNT_POINT "/sys/fs/cgroup"
#define PARENT      "warren"

static const char *const names[] = {
	[CGROUP_CPU] = "cpu",   [CGROUP_CPUACCT] = "cpuacct", [CGROUP_MEMORY] = "memory",
	[CGROUP_PIDS] = "pids", [CGROUP_FREEZER] = "freezer",
};

_Static_assert(ARRAY_SIZE(names) == CGROUP_CONTROLLER_MAX, "a controller has no name");

const char *cgroup_controller_name(enum cgroup_controller c)
{
	return names[c];
}

const char *cgroup_mode_name(enum cgroup_mode mode)
{
	return mode == CGROUP_V1   ? "cgroup v1"
	       : mode == CGROUP_V2 ? "cgroup v2"
				   : "no cgroups";
}

bool cgroup_has(const struct cgroup_root *root, enum cgroup_controller c)
{
	return root->dir[c] >= 0;
}

/* --------------------------------------------------------- search for the hierarchies */

/*
 * Create and open "warren" in @path; -1 without permission. Only its owner may enter the
 * directory: a sandbox that got a descriptor for its cgroup could otherwise reach the
 * root of the hierarchy, or another sandbox's cgroup.
 */
static int cgroup_open_parent(const char *path)
{
	char dir[4096 + sizeof(PARENT) + 2];
	struct stat st;
	int fd;

	(void)snprintf(dir, sizeof(dir), "%s/" PARENT, path);
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return -1;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/*
	 * A cgroup "warren" of another user (root's, for an ordinary user) cannot be
	 * used.
	 */
	if (fd >= 0 && faccessat(fd, ".", W_OK, AT_EACCESS) < 0) {
		(void)close(fd);
		fd = -1;
	}
	/* An older version created the directory with access for all users. */
	if (fd >= 0 && (fstat(fd, &st) < 0 || (st.st_mode & 077)) &&
	    fchmod(fd, 0700) < 0) {
		(void)close(fd);
		fd = -1;
	}
	return fd;
}

/* Enable the controller @name for the children of @dirfd, if necessary. */
static bool v2_enable(int dirfd, const char *name)
{
	char text[256], word[16];

	(void)snprintf(word, sizeof(word), "+%s", name);
	if (fd_write_file_at(dirfd, "cgroup.subtree_control", word) == 0)
		return true;
	return fd_read_file_at(dirfd, "cgroup.subtree_control", text, sizeof(text)) > 0 &&
	       strstr(text, name);
}

/*
 * Find the directory of the v2 tree for Warren's cgroups: the top for root, otherwise the
 * process's own cgroup, if it is delegated.
 */
static int v2_base(char *path, size_t size)
{
	char text[4096], *own;

	if (geteuid() == 0) {
		(void)snprintf(path, size, MOUNT_POINT);
		return 0;
	}
	if (fd_read_file_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)) < 0)
		return -1;
	own = strstr(text, "0::");
	if (!own)
		return -1;
	own[strcspn(own, "\n")] = '\0';
	(void)snprintf(path, size, MOUNT_POINT "%s", own + 3);
	return access(path, W_OK);
}

static void open_v2(struct cgroup_root *root)
{
	static const enum cgroup_controller wanted[] = { CGROUP_CPU, CGROUP_MEMORY,
							 CGROUP_PIDS };
	AUTO_CLOSE int base = -1;
	char *path = root->base;
	int fd;

	if (v2_base(path, sizeof(root->base)) < 0) {
		(void)snprintf(root->why, sizeof(root->why),
			       "the cgroup of this session is not delegated to uid %u",
			       geteuid());
		return;
	}
	base = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (base >= 0)
		for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
			(void)v2_enable(base, names[wanted[i]]);
	fd = cgroup_open_parent(path);
	if (fd < 0) {
		(void)snprintf(root->why, sizeof(root->why),
			       "cannot create " PARENT " there: %s",
			       strerrordesc_np(errno));
		return;
	}
	root->mode = CGROUP_V2;
	root->dir[CGROUP_FREEZER] = fd;
	root->dir[CGROUP_CPUACCT] = fd;
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (v2_enable(fd, names[wanted[i]]))
			root->dir[wanted[i]] = fd;
}

static void open_v1(struct cgroup_root *root)
{
	(void)snprintf(root->base, sizeof(root->base), MOUNT_POINT);
	for (size_t i = 0; i < CGROUP_CONTROLLER_MAX; i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), MOUNT_POINT "/%s", names[i]);
		root->dir[i] = cgroup_open_parent(path);
		if (root->dir[i] >= 0)
			root->mode = CGROUP_V1;
	}
	if (root->mode == CGROUP_NONE)
		(void)snprintf(root->why, sizeof(root->why),
			       "uid %u may not create v1 cgroups", geteuid());
}

void cgroup_root_open(struct cgroup_root *root)
{
	struct statfs fs;

	*root = (struct cgroup_root){ .mode = CGROUP_NONE };
	for (size_t i = 0; i < CGROUP_CONTROLLER_MAX; i++)
		root->dir[i] = -1;
	if (statfs(MOUNT_POINT, &fs) < 0)
		(void)snprintf(root->why, sizeof(root->why),
			       "nothing is mounted at " MOUNT_POINT);
	else if (fs.f_type == CGROUP2_SUPER_MAGIC)
		open_v2(root);
	else
		open_v1(root);
	if (root->mode != CGROUP_NONE)
		cgroup_limit_all(root);
}

void cgroup_root_close(struct cgroup_root *root)
{
	if (root->mode == CGROUP_V2) {
		(void)close(root->dir[CGROUP_FREEZER]);
	} else if (root->mode == CGROUP_V1) {
		for (size_t i = 0; i < CGROUP_CONTROLLER_MAX; i++)
			if (root->dir[i] >= 0)
				(void)close(root->dir[i]);
	}
	root->mode = CGROUP_NONE;
}

/* ---------------------------------------------------------------- creation and limits */

/* A limit: the file of a controller, and the value to write. */
struct setting {
	enum cgroup_controller controller;
	const char *file;
	char text[48];
	bool optional; /* the file does not exist on some kernels, which do not need it */
};

#define CPU_PERIOD 100000 /* in microseconds; the kernel's default */

static size_t v1_settings(const struct cgroup_root *root, const struct cgroup_limits *lim,
			  struct setting *out)
{
	size_t n = 0;

	if (lim->memory) {
		out[n] = (struct setting){ CGROUP_MEMORY, "memory.limit_in_bytes", "",
					   false };
		(void)snprintf(out[n++].text, sizeof(out->text), "%ju",
			       (uintmax_t)lim->memory);
		/* Swap is not allowed: the limit of memory plus swap is the same as that
		 * of memory. */
		out[n] = (struct setting){ CGROUP_MEMORY, "memory.memsw.limit_in_bytes",
					   "", true };
		(void)snprintf(out[n++].text, sizeof(out->text), "%ju",
			       (uintmax_t)lim->memory);
		out[n] = (struct setting){ CGROUP_MEMORY, CGROUP_SOCKETS_FILE, "", true };
		(void)snprintf(out[n++].text, sizeof(out->text), "%ju",
			       (uintmax_t)cgroup_socket_limit(root, lim->memory));
	}
	if (lim->cpu_millis) {
		out[n] = (struct setting){ CGROUP_CPU, "cpu.cfs_quota_us", "", false };
		(void)snprintf(out[n++].text, sizeof(out->text), "%ju",
			       (uintmax_t)lim->cpu_millis * CPU_PERIOD / 1000);
	}
	if (lim->pids) {
		out[n] = (struct setting){ CGROUP_PIDS, "pids.max", "", false };
		(void)snprintf(out[n++].text, sizeof(out->text), "%ju",
			       (uintmax_t)lim->pids);
	}
	return n;
}

static size_t v2_settings(const struct cgroup_limits *lim, struct setting *out)
{
	size_t n = 0;

	if (lim->memory) {
		out[n] = (struct setting){ CGROUP_MEMORY, "memory.max", "", false };
		(void)snprintf(out[n++].text, sizeof(out->text), "%ju",
			       (uintmax_t)lim->memory);
		out[n++] =
			(struct setting){ CGROUP_MEMORY, "memory.swap.max", "0", true };
	}
	if (lim->cpu_millis) {
		out[n] = (struct setting){ CGROUP_CPU, "cpu.max", "", false };
		(void)snprintf(out[n++].text, sizeof(out->text), "%ju %d",
			       (uintmax_t)lim->cpu_millis * CPU_PERIOD / 1000,
			       CPU_PERIOD);
	}
	if (lim->pids) {
		out[n] = (struct setting){ CGROUP_PIDS, "pids.max", "", false };
		(void)snprintf(out[n++].text, sizeof(out->text), "%ju",
			       (uintmax_t)lim->pids);
	}
	return n;
}

static int cgroup_make_dir(int at, const char *name, int *ret_fd,
			   struct warren_error *err)
{
	int fd;

	if (mkdirat(at, name, 0755) < 0)
		return error_errno(err, errno, "create the cgroup '%s'", name);
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "open the cgroup '%s'", name);
	*ret_fd = fd;
	return 0;
}

static int cgroup_apply(int dir, const struct setting *s, struct warren_error *err)
{
	int r = fd_write_file_at(dir, s->file, s->text);

	if (r < 0 && !(s->optional && r == -ENOENT))
		return error_errno(err, -r, "set %s to %s", s->file, s->text);
	return 0;
}

/* Is the controller needed? Each one costs a mkdir, an rmdir, and a move for every
 * process that joins. */
static bool cgroup_needed(enum cgroup_controller c, const struct cgroup_limits *limits)
{
	if (c == CGROUP_CPU)
		return limits->cpu_millis != 0 || limits->all;
	return !limits->only_limits || c == CGROUP_MEMORY || c == CGROUP_PIDS;
}

static int make_v1(const struct cgroup_root *root, const char *id, uid_t owner,
		   const struct cgroup_limits *limits, const struct setting *set,
		   size_t n_set, struct warren_error *err)
{
	for (size_t c = 0; c < CGROUP_CONTROLLER_MAX; c++) {
		AUTO_CLOSE int dir = -1;
		int r;

		if (root->dir[c] < 0 || !cgroup_needed(c, limits))
			continue;
		r = cgroup_make_dir(root->dir[c], id, &dir, err);
		for (size_t i = 0; r == 0 && i < n_set; i++)
			if (set[i].controller == c)
				r = cgroup_apply(dir, &set[i], err);
		if (r < 0)
			return r;
		if (owner != 0 && fchown(dir, owner, owner) < 0)
			return error_errno(err, errno, "change the cgroup's owner");
	}
	return 0;
}

/* Give the files of a delegated v2 cgroup to its owner. */
static int delegate_v2(int dir, uid_t owner, struct warren_error *err)
{
	static const char *const files[] = { ".", "cgroup.procs", "cgroup.threads",
					     "cgroup.subtree_control" };

	for (size_t i = 0; owner != 0 && i < ARRAY_SIZE(files); i++)
		if (fchownat(dir, files[i], owner, owner, 0) < 0)
			return error_errno(err, errno, "delegate the cgroup's %s",
					   files[i]);
	return 0;
}

static int make_v2(const struct cgroup_root *root, const char *id, uid_t owner,
		   const struct setting *set, size_t n_set, struct warren_error *err)
{
	static const enum cgroup_controller all[] = { CGROUP_CPU, CGROUP_MEMORY,
						      CGROUP_PIDS };
	AUTO_CLOSE int top = -1, init = -1, sandbox = -1;
	int r = cgroup_make_dir(root->dir[CGROUP_FREEZER], id, &top, err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(all); i++)
		if (root->dir[all[i]] >= 0 && !v2_enable(top, names[all[i]]))
			r = error_set(err, EIO, "enable the %s controller for children",
				      names[all[i]]);
	if (r == 0)
		r = cgroup_make_dir(top, "init", &init, err);
	if (r == 0)
		r = cgroup_make_dir(top, "box", &sandbox, err);
	for (size_t i = 0; r == 0 && i < n_set; i++)
		r = cgroup_apply(sandbox, &set[i], err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(all); i++)
		if (root->dir[all[i]] >= 0)
			(void)v2_enable(sandbox, names[all[i]]);
	if (r == 0)
		r = delegate_v2(top, owner, err);
	if (r == 0)
		r = delegate_v2(init, owner, err);
	if (r == 0)
		r = delegate_v2(sandbox, owner, err);
	return r;
}

int cgroup_make(const struct cgroup_root *root, const char *id, uid_t owner,
		const struct cgroup_limits *limits, struct warren_error *err)
{
	struct setting set[8];
	int r = 0;

	if (root->mode == CGROUP_V1)
		r = make_v1(root, id, owner, limits, set, v1_settings(root, limits, set),
			    err);
	else if (root->mode == CGROUP_V2)
		r = make_v2(root, id, owner, set, v2_settings(limits, set), err);
	/* A cgroup that already existed must not be removed. */
	if (r < 0 && r != -EEXIST)
		(void)cgroup_remove(root, id);
	return r;
}

int cgroup_open_init(const struct cgroup_root *root, const char *id)
{
	char path[64];

	if (root->mode != CGROUP_V2)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/init", id);
	return openat(root->dir[CGROUP_FREEZER], path,
		      O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* -------------------------------------------------------------- directories for init */

/*
 * Each directory is passed to init as a detached mount, with the directory as its root:
 * so no process can leave it through "..". (The mode of the parent directory also
 * prevents this, but not for an ordinary user's processes.)
 */
static int open_detached(int at, const char *path)
{
	return open_tree(at, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

static int add_handle(int at, const char *path, int flags, bool required,
		      struct cgroup_handle h, struct cgroup_handle *out, size_t *n,
		      struct warren_error *err)
{
	h.fd = h.kind == CGROUP_HANDLE_DIR ? open_detached(at, path)
					   : openat(at, path, flags | O_CLOEXEC);
	if (h.fd < 0 && errno == ENOENT && !required)
		return 1; /* the controller was not needed */
	if (h.fd < 0)
		return error_errno(err, errno, "open the cgroup '%s'", path);
	out[(*n)++] = h;
	return 0;
}

/* Does the controller act on the whole sandbox? The quota and the freezer do; the others
 * count by exec. */
static bool acts_on_all(enum cgroup_controller c)
{
	return c == CGROUP_CPU || c == CGROUP_FREEZER;
}

static int add_dir(int at, const char *path, enum cgroup_controller c,
		   struct cgroup_handle *out, size_t *n, struct warren_error *err)
{
	struct cgroup_handle h = { .kind = CGROUP_HANDLE_DIR, .controller = c };

	return add_handle(at, path, 0, true, h, out, n, err);
}

static void close_handles(struct cgroup_handle *handles, size_t *n)
{
	while (*n > 0)
		(void)close(handles[--*n].fd);
}

int cgroup_open_handles(const struct cgroup_root *root, const char *id, bool dirs,
			struct cgroup_handle *ret, size_t *ret_n,
			struct warren_error *err)
{
	char path[64];
	size_t n = 0;
	int r = 0;

	if (root->mode == CGROUP_V2 && dirs) {
		(void)snprintf(path, sizeof(path), "%s/box", id);
		r = add_dir(root->dir[CGROUP_FREEZER], path, 0, ret, &n, err);
	}
	for (size_t c = 0; root->mode == CGROUP_V1 && r == 0 && c < CGROUP_CONTROLLER_MAX;
	     c++) {
		struct cgroup_handle join = {
			.kind = acts_on_all(c) ? CGROUP_HANDLE_JOIN
					       : CGROUP_HANDLE_JOIN_BOX,
			.controller = c,
		};

		if (root->dir[c] < 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s/tasks", id);
		r = add_handle(root->dir[c], path, O_WRONLY,
			       c == CGROUP_MEMORY || c == CGROUP_PIDS, join, ret, &n,
			       err);
		if (r == 1) {
			r = 0;
			continue;
		}
		if (r == 0 && dirs && !acts_on_all(c))
			r = add_dir(root->dir[c], id, c, ret, &n, err);
	}
	if (r < 0)
		close_handles(ret, &n);
	*ret_n = n;
	return r;
}

int cgroup_copy_dirs(const struct cgroup_root *root, const char *id,
		     struct cgroup_handle *ret, size_t *ret_n, struct warren_error *err)
{
	char path[sizeof(root->base) + 64];
	size_t n = 0;
	int r = 0;

	if (root->mode == CGROUP_V2) {
		(void)snprintf(path, sizeof(path), "%s/" PARENT "/%s/box", root->base,
			       id);
		r = add_dir(AT_FDCWD, path, 0, ret, &n, err);
	}
	for (size_t c = 0; root->mode == CGROUP_V1 && r == 0 && c < CGROUP_CONTROLLER_MAX;
	     c++) {
		(void)snprintf(path, sizeof(path), "%s/%s/" PARENT "/%s", root->base,
			       names[c], id);
		/* A controller that was not needed has no directory. */
		if (root->dir[c] >= 0 && !acts_on_all(c) && access(path, F_OK) == 0)
			r = add_dir(AT_FDCWD, path, c, ret, &n, err);
	}
	if (r < 0)
		close_handles(ret, &n);
	*ret_n = n;
	return r;
}

/*
 * On v2, a cgroup that enables controllers for its children cannot contain processes, so
 * join the cgroup of an exec.
 */
static int join_v2(int sandbox)
{
	if (mkdirat(sandbox, "e0", 0755) < 0 && errno != EEXIST)
		return -errno;
	return fd_write_file_at(sandbox, "e0/cgroup.procs", "0");
}

int cgroup_join(const struct cgroup_root *root, const char *id, struct warren_error *err)
{
	struct cgroup_handle handles[CGROUP_HANDLES_MAX];
	char path[64];
	size_t n = 0;
	int r = cgroup_open_handles(root, id, false, handles, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n && r == 0; i++)
		r = fd_write_all(handles[i].fd, "0", 1);
	close_handles(handles, &n);
	if (r == 0 && root->mode == CGROUP_V2) {
		AUTO_CLOSE int sandbox = -1;

		(void)snprintf(path, sizeof(path), "%s/box", id);
		sandbox = openat(root->dir[CGROUP_FREEZER], path,
				 O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = sandbox < 0 ? -errno : join_v2(sandbox);
	}
	return r < 0 ? error_errno(err, -r, "join the cgroup '%s'", id) : 0;
}

/* ----------------------------------------------------------- changes and usage */

/*
 * v1 freezes asynchronously: the state is FREEZING until every task has stopped. The
 * kernel can miss a task that is forked during the freeze; then the state stays FREEZING.
 * So the state is written again each time, and from time to time all tasks are thawed for
 * a moment.
 */
static int await_frozen(int dir, const char *file, const char *want, const char *again)
{
	for (int i = 0; i < 2000; i++) {
		struct timespec wait = { .tv_nsec = i < 10 ? 20000 : 500000 };
		char text[256];
		ssize_t n = fd_read_file_at(dir, file, text, sizeof(text));

		if (n < 0)
			return (int)n;
		if (strstr(text, want))
			return 0;
		if (again && i > 0 && i % 50 == 0)
			(void)fd_write_file_at(dir, file, "THAWED");
		(void)nanosleep(&wait, NULL);
		if (again && i >= 10)
			(void)fd_write_file_at(dir, file, again);
	}
	return -ETIMEDOUT;
}

bool cgroup_is_frozen(const struct cgroup_root *root, const char *id)
{
	bool v2 = root->mode == CGROUP_V2;
	char path[64], text[256];

	(void)snprintf(path, sizeof(path),
		       v2 ? "%s/box/cgroup.events" : "%s/freezer.state", id);
	return root->dir[CGROUP_FREEZER] >= 0 &&
	       fd_read_file_at(root->dir[CGROUP_FREEZER], path, text, sizeof(text)) > 0 &&
	       strstr(text, v2 ? "frozen 1" : "FROZEN");
}

int cgroup_freeze(const struct cgroup_root *root, const char *id, bool frozen,
		  struct warren_error *err)
{
	bool v2 = root->mode == CGROUP_V2;
	char path[64], told[64];
	int dir = root->dir[CGROUP_FREEZER], r;

	if (dir < 0)
		return error_set(err, EOPNOTSUPP,
				 "this machine has no freezer cgroup (%s)", root->why);
	(void)snprintf(path, sizeof(path),
		       v2 ? "%s/box/cgroup.freeze" : "%s/freezer.state", id);
	(void)snprintf(told, sizeof(told),
		       v2 ? "%s/box/cgroup.events" : "%s/freezer.state", id);
	r = fd_write_file_at(dir, path,
			     v2 ? (frozen ? "1" : "0") : (frozen ? "FROZEN" : "THAWED"));
	if (r == 0)
		r = await_frozen(dir, told,
				 v2 ? (frozen ? "frozen 1" : "frozen 0")
				    : (frozen ? "FROZEN" : "THAWED"),
				 !v2 && frozen ? "FROZEN" : NULL);
	/*
	 * A caller that gets an error assumes the old state, so the cgroup must not stay
	 * frozen.
	 */
	for (int i = 0; r < 0 && frozen && i < THAW_TRIES; i++)
		if (fd_write_file_at(dir, path, v2 ? "0" : "THAWED") == 0)
			break;
	if (r < 0)
		return error_errno(err, -r, "%s the cgroup", frozen ? "freeze" : "thaw");
	return 0;
}

int cgroup_read_usage(const struct cgroup_root *root, const char *id,
		      struct cgroup_usage *ret, struct warren_error *err)
{
	/* A missing file counts as zero, but at least one file must be readable. */
	const struct {
		enum cgroup_controller c;
		const char *v1, *v1_key, *v2, *v2_key;
		uint64_t *to;
		unsigned v1_divisor;
	} files[] = {
		{ CGROUP_MEMORY, "memory.usage_in_bytes", NULL, "memory.current", NULL,
		  &ret->memory, 1 },
		{ CGROUP_MEMORY, "memory.max_usage_in_bytes", NULL, "memory.peak", NULL,
		  &ret->memory_peak, 1 },
		{ CGROUP_MEMORY, "memory.oom_control", "oom_kill", "memory.events",
		  "oom_kill", &ret->oom_kills, 1 },
		{ CGROUP_CPUACCT, "cpuacct.usage", NULL, "cpu.stat", "usage_usec",
		  &ret->cpu_usec, 1000 },
		{ CGROUP_PIDS, "pids.current", NULL, "pids.current", NULL, &ret->pids,
		  1 },
		{ CGROUP_MEMORY, "memory.kmem.tcp.usage_in_bytes", NULL, "memory.stat",
		  "sock", &ret->sockets, 1 },
	};
	bool v2 = root->mode == CGROUP_V2;
	size_t good = 0;

	*ret = (struct cgroup_usage){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		const char *key = v2 ? files[i].v2_key : files[i].v1_key;
		int dir = root->dir[files[i].c], r;
		char path[96];

		if (dir < 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s%s/%s", id, v2 ? "/box" : "",
			       v2 ? files[i].v2 : files[i].v1);
		r = key ? fd_read_key_at(dir, path, key, files[i].to)
			: fd_read_u64_at(dir, path, files[i].to);
		if (r == 0 && !v2)
			*files[i].to /= files[i].v1_divisor;
		good += r == 0;
	}
	if (good == 0)
		return error_set(err, EOPNOTSUPP, "usage cannot be read: %s", root->why);
	return 0;
}

static bool cgroup_kill_one(void *ctx UNUSED, pid_t pid)
{
	(void)kill(pid, SIGKILL);
	return true;
}

/*
 * v1 has no file that kills all processes, so freeze the cgroup first. Frozen processes
 * neither end nor fork, so every pid is valid and none is missed. They get the signal
 * when they are thawed.
 */
int cgroup_kill(const struct cgroup_root *root, const char *id, struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int dir = root->dir[CGROUP_FREEZER], r;
	char path[64];

	if (root->mode == CGROUP_NONE || dir < 0)
		return 0;
	if (root->mode == CGROUP_V2) {
		(void)snprintf(path, sizeof(path), "%s/box/cgroup.kill", id);
		r = fd_write_file_at(dir, path, "1");
		return r < 0 && r != -ENOENT ? error_errno(err, -r, "kill the cgroup")
					     : 0;
	}
	(void)cgroup_freeze(root, id, true, &ignored);
	r = cgroup_processes(root, id, cgroup_kill_one, NULL);
	(void)cgroup_freeze(root, id, false, &ignored);
	return r < 0 ? error_errno(err, -r, "kill the cgroup") : 0;
}

/* ---------------------------------------------------------------- removal */

/* Try rmdir(2) first, because usually there are no cgroups below. */
static int cgroup_remove_tree(int at, const char *name, int depth)
{
	AUTO_CLOSE int fd = -1;
	struct dirent *d;
	DIR *dir;

	if (unlinkat(at, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if ((errno != EBUSY && errno != ENOTEMPTY) || depth == 0)
		return -errno;
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir)
		return -errno;
	fd = -1; /* closedir() closes it */
	while ((d = readdir(dir)))
		if (d->d_type == DT_DIR && d->d_name[0] != '.')
			(void)cgroup_remove_tree(dirfd(dir), d->d_name, depth - 1);
	(void)closedir(dir);
	return unlinkat(at, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

int cgroup_try_remove(const struct cgroup_root *root, const char *id)
{
	size_t last = root->mode == CGROUP_V2 ? 1 : CGROUP_CONTROLLER_MAX;
	int worst = 0;

	for (size_t c = 0; root->mode != CGROUP_NONE && c < last; c++) {
		int dir = root->dir[root->mode == CGROUP_V2 ? CGROUP_FREEZER : c];
		int r = dir < 0 ? 0 : cgroup_remove_tree(dir, id, 3);

		if (r < 0)
			worst = r;
	}
	return worst;
}

/* On v1, frozen processes do not die; the process that froze them may be dead. */
static void cgroup_thaw(const struct cgroup_root *root, const char *id)
{
	char path[64];

	if (root->mode != CGROUP_V1 || root->dir[CGROUP_FREEZER] < 0)
		return;
	(void)snprintf(path, sizeof(path), "%s/freezer.state", id);
	(void)fd_write_file_at(root->dir[CGROUP_FREEZER], path, "THAWED");
}

int cgroup_remove(const struct cgroup_root *root, const char *id)
{
	int r = cgroup_try_remove(root, id);

	if (r == -EBUSY)
		cgroup_thaw(root, id);
	/*
	 * The last process may still be ending: the kernel reports its end before it
	 * updates the count.
	 */
	for (int i = 0; r == -EBUSY && i < 200; i++) {
		struct timespec wait = { .tv_nsec = 200000 + 50000L * i };

		(void)nanosleep(&wait, NULL);
		r = cgroup_try_remove(root, id);
	}
	return r;
}
