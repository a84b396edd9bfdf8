/* SPDX-License-Identifier: Apache-2.0 */
/* gvisor.c - the platform's table, and operations on a sandbox from outside */
#include "shim/gvisor/gvisor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>

#include "base/fd.h"
#include "os/pidfd.h"
#include "shim/gvisor/sentry_rpc.h"

void gvisor_path(const struct shim_sandbox *p, const char *name,
		 char ret[GVISOR_PATH_MAX])
{
	(void)snprintf(ret, GVISOR_PATH_MAX, "%s/%s", p->dir, name);
}

int gvisor_connect(const struct shim_sandbox *p, struct warren_error *err)
{
	char root[GVISOR_PATH_MAX];
	AUTO_CLOSE int ns = -1;
	int r = gvisor_has_network(p) ? gvisor_network(p, &ns, err) : 0;

	gvisor_path(p, "root", root);
	return r < 0 ? r : control_open(root, p->id, ns, err);
}

/* ------------------------------------------------------------------- end of a sandbox */

int gvisor_remove_files(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!dir) {
		(void)close(fd);
		return -ENOMEM;
	}
	while ((d = readdir(dir)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			(void)unlinkat(fd, d->d_name, 0);
	(void)closedir(dir);
	return unlinkat(at, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int gvisor_unmake(const struct shim_sandbox *p, const struct cgroup_root *cgroups,
		  struct warren_error *err)
{
	static const char *const dirs[] = { "bundle", "root", "scratch" };
	static const char *const files[] = { "log", "limits" };
	AUTO_CLOSE int at = -1;
	int r = cgroup_kill(cgroups, p->id, err);

	if (r < 0)
		return r;
	r = cgroup_remove(cgroups, p->id);
	if (r < 0)
		return error_errno(err, -r, "remove the cgroup");
	at = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return errno == ENOENT ? 0 : error_errno(err, errno, "open '%s'", p->dir);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		(void)unlinkat(at, files[i], 0);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		r = gvisor_remove_files(at, dirs[i]);
		if (r < 0)
			return error_errno(err, -r, "remove '%s/%s'", p->dir, dirs[i]);
	}
	return 0;
}

static int gvisor_destroy(struct shim_sandbox *p, struct warren_error *err)
{
	struct cgroup_root cgroups;
	int r;

	cgroup_root_open(&cgroups);
	r = gvisor_unmake(p, &cgroups, err);
	cgroup_root_close(&cgroups);
	return r < 0 ? error_wrap(err, "%s: end the sandbox", p->name) : 0;
}

/*
 * The processes that runsc has recorded: the sentry, and the gofer, which serves its
 * files. 0: not known.
 */
struct members {
	pid_t sentry, gofer;
};

static struct members gvisor_members(const struct shim_sandbox *p)
{
	char name[2 * sizeof(p->id) + 32], path[GVISOR_PATH_MAX];
	struct members m;
	json_t *doc;

	(void)snprintf(name, sizeof(name), "root/%s_sandbox:%s.state", p->id, p->id);
	gvisor_path(p, name, path);
	doc = json_load_file(path, 0, NULL);
	m.sentry = (pid_t)json_integer_value(
		json_object_get(json_object_get(doc, "sandbox"), "pid"));
	m.gofer = (pid_t)json_integer_value(json_object_get(doc, "goferPid"));
	json_decref(doc);
	return m;
}

static bool gvisor_has_process(struct shim_sandbox *p, int pid)
{
	struct members m = gvisor_members(p);

	return pid == m.sentry || pid == m.gofer;
}

/* One of these processes; its pidfd is -1 if it is not known, or gone. */
struct member {
	int pidfd;
	int dir; /* in /proc */
};

static void member_open(struct member *m, pid_t pid)
{
	char path[32];

	m->pidfd = m->dir = -1;
	if (pid <= 0)
		return;
	m->pidfd = pidfd_open(pid, 0);
	(void)snprintf(path, sizeof(path), "/proc/%d", pid);
	if (m->pidfd >= 0)
		m->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void member_close(struct member *m)
{
	if (m->pidfd >= 0)
		(void)close(m->pidfd);
	if (m->dir >= 0)
		(void)close(m->dir);
}

/* Watch both processes: a restored sentry does not notice the end of the gofer. */
static void open_both(const struct shim_sandbox *p, struct member *ret_sentry,
		      struct member *ret_gofer)
{
	struct members m = gvisor_members(p);

	member_open(ret_sentry, m.sentry);
	member_open(ret_gofer, m.gofer);
}

bool gvisor_is_gone(const struct shim_sandbox *p, int within_ms)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_CLOSE int fd = gvisor_connect(p, &ignored);
	struct member sentry, gofer;
	struct pollfd both[2];
	bool gone;

	if (fd < 0)
		return true;
	open_both(p, &sentry, &gofer);
	both[0] = (struct pollfd){ .fd = sentry.pidfd, .events = POLLIN };
	both[1] = (struct pollfd){ .fd = gofer.pidfd, .events = POLLIN };
	gone = proc_is_ending(sentry.dir) || proc_is_ending(gofer.dir) ||
	       poll(both, ARRAY_SIZE(both), within_ms) > 0;
	member_close(&sentry);
	member_close(&gofer);
	return gone;
}

static void gvisor_await_end(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	if (pidfd >= 0)
		(void)poll(&p, 1, ENDING_MS);
}

/*
 * Wait until the sentry or the gofer ends. When one of them ends, the other one ends too,
 * sooner or later, so this process cannot see which one was first. The way in which each
 * of them ended shows it, and the shim finds that out before it gets the report of this
 * process.
 */
static int wait_end(int fd, const struct member *sentry, const struct member *gofer,
		    struct warren_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	struct pollfd either[2] = { { .fd = fd, .events = POLLIN },
				    { .fd = gofer->pidfd, .events = POLLIN } };
	int r;

	while (poll(either, ARRAY_SIZE(either), -1) < 0 && errno == EINTR)
		;
	/*
	 * The gofer has ended: kill a sentry that does not notice this at once, before
	 * the processes inside notice it. Do not kill the whole cgroup, which may belong
	 * to another sentry by now.
	 */
	if (!either[0].revents && sentry->pidfd >= 0 &&
	    (sentry->dir < 0 || !proc_is_ending(sentry->dir)))
		(void)pidfd_send_signal(sentry->pidfd, SIGKILL, NULL, 0);
	r = control_receive(fd, true, NULL, &why);
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "%s", why.msg);
	gvisor_await_end(gofer->pidfd);
	if (r < 0)
		gvisor_await_end(sentry->pidfd);
	return 1;
}

static int gvisor_wait(struct shim_sandbox *p, struct warren_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	AUTO_CLOSE int fd = gvisor_connect(p, &why);
	struct member sentry, gofer;
	int r;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0) {
		*err = why;
		return error_wrap(err, "%s: wait for the sandbox", p->name);
	}
	open_both(p, &sentry, &gofer);
	r = control_send(fd, "containerManager.Wait", json_string(p->id), NULL, 0, err);
	if (r == 0)
		r = wait_end(fd, &sentry, &gofer, err);
	else if (r != -ENOMEM)
		r = 0;
	member_close(&sentry);
	member_close(&gofer);
	return r;
}

/* Did memory run out? The sentry does not survive this, but its cgroup records it. */
bool gvisor_was_oom(const struct shim_sandbox *p)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct cgroup_usage u = { 0 };
	struct cgroup_root cgroups;

	cgroup_root_open(&cgroups);
	(void)cgroup_read_usage(&cgroups, p->id, &u, &ignored);
	cgroup_root_close(&cgroups);
	return u.oom_kills > 0;
}

static void gvisor_explain(struct shim_sandbox *p, struct warren_error *ret)
{
	if (gvisor_was_oom(p))
		(void)error_set(
			ret, ENOMEM,
			"%s: the sandbox ran out of memory, and its kernel with it: "
			"give it a higher limit",
			p->name);
	else
		(void)error_set(ret, EOWNERDEAD,
				"%s: the sandbox's kernel was killed from outside",
				p->name);
}

/* ---------------------------------------------------------------- running sandboxes */

/*
 * Freeze everything, including the sentry, so that a paused sandbox uses no processor
 * time.
 */
static int gvisor_pause(struct shim_sandbox *p, bool paused, struct warren_error *err)
{
	struct cgroup_root cgroups;
	int r;

	cgroup_root_open(&cgroups);
	r = cgroup_freeze(&cgroups, p->id, paused, err);
	cgroup_root_close(&cgroups);
	return r < 0 ? error_wrap(err, "%s: %s the sandbox", p->name,
				  paused ? "pause" : "resume")
		     : 0;
}

static int gvisor_silent(struct shim_sandbox *p, struct warren_error *err)
{
	struct cgroup_root cgroups;
	bool frozen;

	cgroup_root_open(&cgroups);
	frozen = cgroup_frozen(&cgroups, p->id);
	cgroup_root_close(&cgroups);
	return frozen ? error_set(err, EBUSY, "%s: the sandbox is paused", p->name) : 0;
}

/*
 * Count the threads inside. There are more processes outside: those of the sentry, and
 * two for each process inside.
 */
static int count_inside(const struct shim_sandbox *p, uint64_t *ret,
			struct warren_error *err)
{
	AUTO_CLOSE int fd = gvisor_connect(p, err);
	json_t *list = NULL, *one;
	size_t i;
	int r = fd < 0 ? fd
		       : control_call(fd, "containerManager.Processes",
				      json_string(p->id), &list, err);

	if (r < 0)
		return r;
	*ret = 0;
	json_array_foreach(list, i, one) *ret +=
		json_array_size(json_object_get(one, "threads"));
	json_decref(list);
	return 0;
}

static int gvisor_stats(struct shim_sandbox *p, struct warren_stats *ret,
			struct warren_error *err)
{
	struct cgroup_root cgroups;
	struct cgroup_usage u;
	uint64_t pids = 0;
	int r;

	cgroup_root_open(&cgroups);
	r = cgroup_read_usage(&cgroups, p->id, &u, err);
	/* A paused sentry cannot answer, and a saved sandbox has none. */
	if (r == 0 && u.pids > 0 && !cgroup_frozen(&cgroups, p->id))
		r = count_inside(p, &pids, err);
	cgroup_root_close(&cgroups);
	if (r < 0)
		return error_wrap(err, "%s: read the statistics", p->name);
	*ret = (struct warren_stats){
		.memory = u.memory,
		.memory_peak = u.memory_peak,
		.cpu_usec = u.cpu_usec,
		.pids = pids,
		.oom_kills = u.oom_kills,
	};
	return 0;
}

static int gvisor_update(struct shim_sandbox *p, const struct warren_limits *limits,
			 struct warren_error *err)
{
	struct cgroup_root cgroups;
	struct cgroup_limits old, next;
	int r = gvisor_read_limits(p, &old, err);

	if (r == 0 && limits->pids)
		r = error_set(err, EOPNOTSUPP,
			      "pids: gVisor can set this limit only when a sandbox is "
			      "created");
	if (r < 0)
		return error_wrap(err, "%s: change the limits", p->name);
	next = old;
	if (limits->memory)
		next.memory = limits->memory;
	if (limits->cpu_millis)
		next.cpu_millis =
			limits->cpu_millis == WARREN_UNLIMITED ? 0 : limits->cpu_millis;
	cgroup_root_open(&cgroups);
	r = cgroup_update(&cgroups, p->id, &old, &next, err);
	cgroup_root_close(&cgroups);
	if (r == 0)
		r = gvisor_write_limits(p, &next, err);
	return r < 0 ? error_wrap(err, "%s: change the limits", p->name) : 0;
}

const struct shim_driver shim_driver_gvisor = {
	.kind = &backend_kind_gvisor,
	.tells_start = true,
	.tells_all = true,
	.own_kernel = true,
	.guest = GVISOR_FIRST,
	.probe = gvisor_probe,
	.create = gvisor_create,
	.destroy = gvisor_destroy,
	.exec = gvisor_exec,
	.silent = gvisor_silent,
	.wait = gvisor_wait,
	.has_process = gvisor_has_process,
	.explain = gvisor_explain,
	.pause = gvisor_pause,
	.savable = gvisor_savable,
	.save = gvisor_save,
	.restore = gvisor_restore,
	.stats = gvisor_stats,
	.network = gvisor_network,
	.update = gvisor_update,
};
