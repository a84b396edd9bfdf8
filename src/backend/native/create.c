/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create.c - making a sandbox: the steps outside, and their one undoing
 *
 * A create runs the table below; a failure anywhere unmakes what there is, in
 * one function that looks at the box and not at how far it got. Destroy is the
 * same function. A crash leaves the link in the registry, by which the next
 * engine finds the rest.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "backend/native/durable.h"
#include "backend/native/native.h"
#include "base/clock.h"
#include "base/fd.h"
#include "os/mount.h"

#define PIDS_DEFAULT   1024
#define NOFILE_DEFAULT 65536
#define DISK_MIN       (1U << 20)
#define MEMORY_MIN     (1U << 20)

/* A create under way: what the steps hand on to each other. */
struct making {
	struct native *engine;
	struct native_box *box;
	const struct warren_spec *spec;
	struct native_plan *plan; /* shared with the child */
	bool own_image;           /* not the engine's kept one */
	struct cgroup_limits limits;
	uint64_t disk;
	int child_end; /* of the connection */
	int userns;
	uint64_t started;
	uint64_t outside[20];
};

/* ------------------------------------------------------------------- steps */

/* Of an ordinary user: his own, and those that /etc/subuid and /etc/subgid both give him. */
static void count_ids(const struct native *n, struct native_box *box)
{
	uint32_t sub =
		n->subuid.count < n->subgid.count ? n->subuid.count : n->subgid.count;

	sub = sub < NATIVE_IDS ? sub : NATIVE_IDS;
	box->n_ids = n->privileged ? NATIVE_IDS : 1 + sub;
	box->groups = n->privileged || n->subuid.count > 0;
}

static int take_spec(struct making *m, struct warren_error *err)
{
	const struct warren_spec *s = m->spec;
	struct native *n = m->engine;
	struct native_box *box = m->box;
	struct rlimit lim;
	size_t n_env = 0;

	m->limits = (struct cgroup_limits){
		.memory = s->memory ? s->memory : n->memory_default,
		.cpu_millis = s->cpu_millis,
		.pids = s->pids ? s->pids : PIDS_DEFAULT,
		.only_limits = s->single,
		.all = s->durable,
	};
	m->disk = s->disk ? s->disk : m->limits.memory / 2;
	if (!s->disk && m->disk < DISK_MIN)
		m->disk = DISK_MIN;
	if (m->limits.memory < MEMORY_MIN)
		return error_set(err, EINVAL, "memory: below 1m no process can run");
	if (m->disk < DISK_MIN)
		return error_set(err, EINVAL,
				 "disk: below 1m there is no room for a root");
	m->plan->on_disk =
		n->privileged && (m->disk > m->limits.memory || !n->tmpfs_xattrs);
	if (m->disk > m->limits.memory && !m->plan->on_disk)
		return error_set(
			err, EOPNOTSUPP,
			"disk: without root what is written is held in memory, and a disk limit "
			"above the memory limit (%ju bytes) cannot be kept",
			(uintmax_t)m->limits.memory);
	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return error_errno(err, errno, "getrlimit");
	if (s->nofile > lim.rlim_max)
		return error_set(
			err, EPERM,
			"nofile: %ju is more than the %ju that this process may allow",
			(uintmax_t)s->nofile, (uintmax_t)lim.rlim_max);
	box->nofile = s->nofile                       ? s->nofile
		      : lim.rlim_max < NOFILE_DEFAULT ? lim.rlim_max
						      : NOFILE_DEFAULT;
	count_ids(n, box);
	while (s->env && s->env[n_env])
		n_env++;
	box->env = calloc(n_env + 1, sizeof(*box->env));
	box->workdir = strdup(s->workdir ? s->workdir : "/");
	box->hostname = strdup(s->hostname ? s->hostname : box->base.id);
	if (!box->env || !box->workdir || !box->hostname)
		return error_errno(err, ENOMEM, "take the spec");
	for (size_t i = 0; i < n_env; i++) {
		box->env[i] = strdup(s->env[i]);
		if (!box->env[i])
			return error_errno(err, ENOMEM, "take the spec");
	}
	return 0;
}

/* What was asked for and cannot be enforced is refused; what is by default is left out. */
static int check_limits(struct making *m, struct warren_error *err)
{
	const struct {
		enum cgroup_controller controller;
		bool asked;
		const char *what;
		uint64_t *limit;
	} wants[] = {
		{ CGROUP_MEMORY, m->spec->memory != 0, "memory", &m->limits.memory },
		{ CGROUP_CPU, m->spec->cpu_millis != 0, "cpus", &m->limits.cpu_millis },
		{ CGROUP_PIDS, m->spec->pids != 0, "pids", &m->limits.pids },
	};

	for (size_t i = 0; i < ARRAY_SIZE(wants); i++) {
		if (cgroup_has(&m->engine->cgroups, wants[i].controller))
			continue;
		if (wants[i].asked)
			return error_set(
				err, EOPNOTSUPP,
				"%s: a limit cannot be enforced here: %s; see 'warren doctor'",
				wants[i].what,
				m->engine->cgroups.why[0] ? m->engine->cgroups.why
							  : "the controller is missing");
		*wants[i].limit = 0;
	}
	return 0;
}

/* A disk that was asked for is one that can be filled; by default it is a bound, no more. */
static int check_disk(struct making *m, struct warren_error *err)
{
	const char *dir = m->engine->state_dir;
	struct statvfs fs;
	uint64_t left;

	if (!m->plan->on_disk || !m->spec->disk || statvfs(dir, &fs) < 0)
		return 0;
	left = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (left < m->disk)
		return error_set(err, ENOSPC,
				 "'%s' has %ju bytes left, the disk is to hold %ju", dir,
				 (uintmax_t)left, (uintmax_t)m->disk);
	return 0;
}

/* The image's variables before the spec's: the last of a name counts. */
static int prepend_env(struct native_box *box, char **first)
{
	size_t a = 0, b = 0;
	char **both;

	while (first[a])
		a++;
	while (box->env[b])
		b++;
	both = calloc(a + b + 1, sizeof(*both));
	if (!both)
		return -ENOMEM;
	for (size_t i = 0; i < a; i++)
		both[i] = TAKE_PTR(first[i]);
	(void)memcpy(both + a, box->env, b * sizeof(*both));
	free(box->env);
	box->env = both;
	return 0;
}

/* What the image says of how it is run, where the spec says nothing. */
static int take_config(struct making *m, struct warren_error *err)
{
	struct image *image = &m->plan->image;
	struct store_image *c = &image->config;
	struct native_box *box = m->box;
	size_t len = 0;

	if (!image->has_config)
		return 0;
	for (char **v = c->volumes; *v; v++) {
		if ((*v)[0] != '/' || len + strlen(*v) + 2 > sizeof(m->plan->volumes))
			return error_set(err, EINVAL,
					 "its volume '%s' is no path, or one too many",
					 *v);
		(void)strcpy(m->plan->volumes + len, *v);
		len += strlen(*v) + 1;
	}
	if (!m->spec->workdir && c->workdir[0] == '/') {
		free(box->workdir);
		box->workdir = TAKE_PTR(c->workdir);
	}
	box->base.entrypoint = TAKE_PTR(c->entrypoint);
	box->base.cmd = TAKE_PTR(c->cmd);
	box->image_lock = TAKE_FD(c->lock);
	return prepend_env(box, c->env) < 0
		       ? error_errno(err, ENOMEM, "take its environment")
		       : 0;
}

/* `host` is kept open between creates, and looked at again after a second. */
static int open_image(struct making *m, struct warren_error *err)
{
	const char *ref = m->spec->image ? m->spec->image : "host";
	struct native *n = m->engine;
	int r;

	if (strcmp(ref, "host") != 0) {
		r = image_open(ref, n->state_dir, &m->plan->image, err);
		m->own_image = r == 0;
		return r < 0 ? r : take_config(m, err);
	}
	if (n->host.n_mounts == 0 || clock_now() - n->host_checked > 1000000000) {
		struct image fresh;

		r = image_open("host", n->state_dir, &fresh, err);
		if (r < 0)
			return r;
		image_close(&n->host);
		n->host = fresh;
		n->host_checked = clock_now();
	}
	m->plan->image = n->host;
	return 0;
}

static int open_in_image(void *ctx, const char *path)
{
	return image_open_file(ctx, path);
}

static int find_user(struct making *m, struct warren_error *err)
{
	struct native_box *box = m->box;
	const struct image *image = &m->plan->image;
	const char *user = m->spec->user;
	int r;

	if (!user && image->has_config && image->config.user[0])
		user = image->config.user;
	r = user_resolve(user, open_in_image, &m->plan->image, &box->user, err);

	if (r < 0)
		return r;
	if (!m->engine->privileged && m->engine->subuid.count == 0 && box->user.uid != 0)
		return error_set(
			err, EOPNOTSUPP,
			"user '%s': without root and without a range in /etc/subuid and "
			"/etc/subgid a sandbox has one user, root; see 'warren doctor'",
			user);
	if (!idmap_has(m->engine, box, box->user.uid, box->user.gid))
		return error_set(err, EINVAL,
				 "user '%s' (%u:%u) has no id in a sandbox: below %u",
				 user, box->user.uid, box->user.gid, NATIVE_IDS);
	return 0;
}

/* An ordinary user's child needs the paths, and his id map the user; else there is time. */
static int open_image_before(struct making *m, struct warren_error *err)
{
	return m->engine->privileged ? 0 : open_image(m, err);
}

static int open_image_meanwhile(struct making *m, struct warren_error *err)
{
	return m->engine->privileged ? open_image(m, err) : 0;
}

static int find_user_before(struct making *m, struct warren_error *err)
{
	return m->engine->privileged ? 0 : find_user(m, err);
}

static int find_user_meanwhile(struct making *m, struct warren_error *err)
{
	return m->engine->privileged ? find_user(m, err) : 0;
}

static int claim(struct making *m, struct warren_error *err)
{
	return registry_claim(m->engine, m->box, err);
}

static int make_cgroup(struct making *m, struct warren_error *err)
{
	struct native *n = m->engine;
	int r = cgroup_make(&n->cgroups, m->box->base.id,
			    n->privileged ? m->box->base_id : 0, &m->limits, err);

	m->box->has_cgroup = r == 0;
	return r;
}

/* On v2 init is cloned into its cgroup, so that comes first; on v1 it can be made meanwhile. */
static int make_cgroup_before(struct making *m, struct warren_error *err)
{
	return m->engine->cgroups.mode == CGROUP_V2 ? make_cgroup(m, err) : 0;
}

static int make_cgroup_meanwhile(struct making *m, struct warren_error *err)
{
	return m->engine->cgroups.mode == CGROUP_V1 ? make_cgroup(m, err) : 0;
}

static int start_child(struct making *m, struct warren_error *err)
{
	AUTO_CLOSE int cgroup = cgroup_open_init(&m->engine->cgroups, m->box->base.id);
	AUTO_CLOSE int listener = -1;
	AUTO_CLOSE int maker =
		pidfd_open(getpid(), 0); /* -1: it sees the connection's end */
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_errno(err, errno, "make a connection");
	m->box->control = ends[0];
	m->child_end = ends[1];
	m->plan->spec = m->spec;
	m->plan->engine = m->engine;
	m->plan->hostname = m->box->hostname;
	m->plan->disk = m->disk;
	m->plan->control = ends[1];
	m->plan->listener = -1;
	m->plan->maker = maker;
	if (m->spec->durable) {
		int r = durable_bind(m->engine, m->box, &listener, err);

		if (r < 0)
			return r;
		m->plan->listener = listener;
	}
	pid = ns_clone_as(m->box->base_id,
			  CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
				  CLONE_CLEAR_SIGHAND,
			  cgroup, &m->box->pidfd);
	if (pid == 0) {
		(void)close(ends[0]); /* or we would never see its end */
		inside_main(m->plan);
	}
	if (pid < 0)
		return error_errno(err, -pid, "start a process in namespaces of its own");
	m->box->pid = pid;
	(void)close(m->child_end);
	m->child_end = -1;
	return 0;
}

static int write_maps(struct making *m, struct warren_error *err)
{
	struct ns_maps maps;

	idmap_sandbox(m->engine, m->box, &maps);
	return ns_write_maps(m->box->pid, &maps, m->engine->privileged, err);
}

static int copy_volume(struct making *m, const struct warren_mount *v, int *ret_fd,
		       struct warren_error *err)
{
	/* Opened once: what is looked at is what is mounted. */
	AUTO_CLOSE int at = open(v->source, O_PATH | O_CLOEXEC), map = -1;
	uint64_t attr = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID |
			(v->read_only ? MOUNT_ATTR_RDONLY : 0);
	struct ns_maps maps;
	struct stat st;
	int r;

	if (at < 0 || fstat(at, &st) < 0)
		return error_errno(err, errno, "volume '%s'", v->source);
	idmap_volume(m->box, st.st_uid, st.st_gid, &maps);
	r = ns_make_userns(&maps, &map, err);
	if (r == 0)
		r = mount_copy(at, "", true, attr, map, ret_fd, err);
	return r < 0 ? error_wrap(err, "volume '%s'", v->source) : 0;
}

/* Detached copies of all layers and volumes with the sandbox's ids; in the order the child takes them. */
static int copy_mounts(struct making *m, int *fds, size_t *n, struct warren_error *err)
{
	m->userns = ns_open(m->box->pid, "user");
	if (m->userns < 0)
		return error_errno(err, -m->userns, "open the user namespace");
	if (m->plan->on_disk) {
		int r = disk_mount(m->engine, m->disk, m->userns, &fds[*n], err);

		if (r < 0)
			return r;
		(*n)++;
	}
	for (size_t i = 0; i < m->plan->image.n_mounts; i++) {
		const struct image_mount *l = &m->plan->image.mounts[i];
		int r = mount_copy(l->fd, "", false,
				   MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID |
					   MOUNT_ATTR_RDONLY,
				   l->at[0] ? -1 : m->userns, &fds[*n], err);

		if (r < 0)
			return error_wrap(err, "layer '%s'", l->path);
		(*n)++;
	}
	for (size_t i = 0; i < m->spec->n_mounts; i++) {
		int r;

		if (!m->spec->mounts[i].source)
			continue;
		r = copy_volume(m, &m->spec->mounts[i], &fds[*n], err);
		if (r < 0)
			return r;
		(*n)++;
	}
	return 0;
}

static int send_mounts(struct making *m, struct warren_error *err)
{
	int fds[NATIVE_FDS_MAX];
	size_t n = 0, sent = 0;
	int r = m->engine->privileged ? copy_mounts(m, fds, &n, err) : 0;

	while (r == 0) {
		size_t batch = n - sent < PROTO_FDS_MAX ? n - sent : PROTO_FDS_MAX;
		struct proto_header h = { .version = PROTO_VERSION,
					  .type = PROTO_MOUNTS,
					  .seq = sent + batch < n };

		r = fd_send(m->box->control, &h, sizeof(h), fds + sent, batch);
		if (r < 0)
			r = error_errno(err, -r, "send the mounts");
		sent += batch;
		if (sent == n)
			break;
	}
	while (n > 0)
		(void)close(fds[--n]);
	return r;
}

static int configure(struct making *m, struct warren_error *err)
{
	static const enum proto_role dirs[] = {
		[CGROUP_CPUACCT] = PROTO_ROLE_CPU,
		[CGROUP_MEMORY] = PROTO_ROLE_MEMORY,
		[CGROUP_PIDS] = PROTO_ROLE_PIDS,
	};
	struct proto_config msg = { .h = { .version = PROTO_VERSION,
					   .type = PROTO_CONFIG } };
	struct cgroup_handle handles[CGROUP_HANDLES_MAX];
	int fds[PROTO_FDS_MAX], r = 0;
	size_t n = 0, all;
	bool v2 = m->engine->cgroups.mode == CGROUP_V2;

	if (m->box->has_cgroup)
		r = cgroup_open_handles(&m->engine->cgroups, m->box->base.id, handles, &n,
					err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		fds[i] = handles[i].fd;
		msg.role[i] = handles[i].kind == CGROUP_HANDLE_JOIN ? PROTO_ROLE_JOIN
			      : handles[i].kind == CGROUP_HANDLE_JOIN_BOX
				      ? PROTO_ROLE_JOIN_BOX
			      : v2 ? PROTO_ROLE_UNIFIED
				   : dirs[handles[i].controller];
	}
	/* Our locks, so that nobody takes the sandbox for dead, or its image, while init lives. */
	all = n;
	if (!m->engine->named) {
		fds[all] = m->engine->lock_fd;
		msg.role[all++] = PROTO_ROLE_ALIVE;
	}
	if (m->box->image_lock >= 0) {
		fds[all] = m->box->image_lock;
		msg.role[all++] = PROTO_ROLE_ALIVE;
	}
	msg.n = (uint32_t)all;
	r = fd_send(m->box->control, &msg, sizeof(msg), fds, all);
	while (n > 0)
		(void)close(handles[--n].fd);
	return r < 0 ? error_errno(err, -r, "configure init") : 0;
}

/* What is for one exec alone need not be waited for: the exec will be told what failed. */
static int await_ready(struct making *m, struct warren_error *err)
{
	int r;

	m->box->single = m->spec->single;
	if (m->spec->single && !m->engine->trace)
		return 0;
	r = client_wait_ready(native_talk(m->box), err);
	m->box->ready = r == 0;
	return r;
}

static int describe(struct making *m, struct warren_error *err);

static int note(struct making *m, struct warren_error *err)
{
	m->box->limits = m->limits;
	return m->spec->durable ? durable_note(m->engine, m->box, err) : 0;
}

/* Complete and noted: its init may live on without us. */
static int keep(struct making *m, struct warren_error *err)
{
	return m->spec->durable ? durable_keep(m->box, err) : 0;
}

static const struct {
	const char *name;
	int (*run)(struct making *m, struct warren_error *err);
} steps[] = {
	{ "take the spec", take_spec },
	{ "check the limits", check_limits },
	{ "check the disk", check_disk },
	{ "claim an id range", claim }, /* from here on a crash leaves a trace */
	{ "open the image", open_image_before },
	{ "find the user", find_user_before },
	{ "make the cgroup", make_cgroup_before },
	{ "start the child", start_child }, /* from here on there are two of us */
	{ "write the id maps", write_maps },
	{ "open the image meanwhile", open_image_meanwhile },
	{ "find the user meanwhile", find_user_meanwhile },
	{ "send the layers", send_mounts }, /* the child mounts them while we go on */
	{ "make the cgroup meanwhile", make_cgroup_meanwhile },
	{ "configure init", configure }, /* read by init when it is up */
	{ "wait for init", await_ready },
	{ "say what is in force", describe },
	{ "note it for others", note },
	{ "keep it", keep }, /* from here on our end is not its end */
};

_Static_assert(ARRAY_SIZE(steps) <= 20, "making.outside is too small");

/* ---------------------------------------------------------------- unmaking */

void native_forget(struct native_box *box)
{
	if (box->image_lock >= 0)
		(void)close(box->image_lock);
	talk_done(native_talk(box));
	free(box);
}

/* Of one that is not our child: readable when it and all of its namespace are gone. */
static void await_end(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}

/* Kill all, wait until the kernel says so, remove. Whatever of it there is. */
int native_unmake(struct native *n, struct native_box *box, struct warren_error *err)
{
	int r = 0, dead;

	if (box->pidfd >= 0) {
		siginfo_t info = { 0 };

		/* A frozen process does not die on v1. */
		if (box->paused)
			(void)cgroup_freeze(&n->cgroups, box->base.id, false, err);
		(void)pidfd_send_signal(box->pidfd, SIGKILL, NULL, 0);
		/* While it dies: most often its execs have ended, and the cgroup is empty. */
		if (box->has_cgroup && cgroup_try_remove(&n->cgroups, box->base.id) == 0)
			box->has_cgroup = false;
		/* Pid 1 of a namespace is waited for only when all the others are gone. */
		do
			dead = waitid(P_PIDFD, (id_t)box->pidfd, &info, WEXITED);
		while (dead < 0 && errno == EINTR);
		if (dead < 0)
			await_end(box->pidfd);
	}
	if (box->has_cgroup) {
		r = cgroup_remove(&n->cgroups, box->base.id);
		if (r < 0)
			r = error_errno(err, -r, "remove the cgroup of '%s'",
					box->base.id);
	}
	/* With something left, the link stays: by it the next engine tries again. */
	if (r == 0) {
		durable_remove(n, box->base.id);
		registry_release(n, box);
	} else {
		n->leftovers = true;
	}
	native_forget(box);
	return r;
}

static int describe(struct making *m, struct warren_error *err UNUSED)
{
	const struct native *n = m->engine;
	struct backend_box *b = &m->box->base;
	const char *by = cgroup_mode_name(n->cgroups.mode);

	backend_enforce(b, "namespaces", true, "user, mount, pid, net, ipc, uts, cgroup");
	if (n->privileged)
		backend_enforce(b, "ids", true,
				"65,536 of its own, root inside is %u outside",
				m->box->base_id);
	else
		backend_enforce(b, "ids", n->subuid.count > 0,
				"%u beside the caller's own", n->subuid.count);
	backend_enforce(b, "capabilities", true, "11 for root inside, none for others");
	backend_enforce(b, "seccomp", true, "allowlist, native calls only");
	backend_enforce(b, "no_new_privs", true, "set");
	backend_enforce(b, "network", true, "%s",
			m->spec->network == WARREN_NETWORK_NONE ? "none"
								: "loopback only");
	if (m->limits.memory)
		backend_enforce(b, "memory", true, "%ju bytes by %s",
				(uintmax_t)m->limits.memory, by);
	else
		backend_enforce(b, "memory", false, "%s", n->cgroups.why);
	if (m->limits.cpu_millis)
		backend_enforce(b, "cpus", true, "%ju.%03u by %s",
				(uintmax_t)m->limits.cpu_millis / 1000,
				(unsigned)(m->limits.cpu_millis % 1000), by);
	if (m->limits.pids)
		backend_enforce(b, "pids", true, "%ju by %s", (uintmax_t)m->limits.pids,
				by);
	else
		backend_enforce(b, "pids", false, "%s", n->cgroups.why);
	backend_enforce(b, "disk", true, "%ju bytes, %s", (uintmax_t)m->disk,
			m->plan->on_disk ? "in a file" : "in memory");
	backend_enforce(b, "nofile", true, "%ju a process", (uintmax_t)m->box->nofile);
	if (m->spec->read_only)
		backend_enforce(b, "read_only", true, "the root");
	backend_enforce(
		b, "exec_accounting", m->box->has_cgroup, "%s%s",
		m->box->has_cgroup ? by : "by the kernel's account of each process",
		m->box->has_cgroup && m->spec->single ? ", times by that of each process"
						      : "");
	return 0;
}

static void keep_trace(const struct making *m)
{
	struct backend_box *b = &m->box->base;
	size_t inside = inside_n_steps();

	b->steps = calloc(ARRAY_SIZE(steps) + inside, sizeof(*b->steps));
	if (!b->steps)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		b->steps[b->n_steps++] =
			(struct warren_step){ steps[i].name, m->outside[i] - m->started,
					      0 };
	/* The last, an exec, has no end of its own. */
	for (size_t i = 0; i + 1 < inside; i++) {
		struct warren_step step = inside_step(m->plan, i);

		step.ns -= m->started;
		b->steps[b->n_steps++] = step;
	}
}

static int run_steps(struct making *m, struct warren_error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		int r = 0;

		if (m->engine->inject.step == (int)i + 1) {
			if (m->engine->inject.crash)
				(void)raise(SIGKILL);
			r = error_errno(err, EIO, "injected");
		}
		if (r == 0)
			r = steps[i].run(m, err);
		if (m->engine->trace)
			m->outside[i] = clock_now();
		if (r < 0) {
			struct warren_error told = WARREN_ERROR_INIT;

			/* What the child said of its end is nearer to the cause than our EPIPE. */
			if (m->box->pidfd >= 0 && (r == -EPIPE || r == -ECONNRESET) &&
			    client_wait_ready(native_talk(m->box), &told) < 0)
				*err = told;
			return -err->code;
		}
	}
	return 0;
}

int native_create(void *state, const struct warren_spec *spec,
		  struct backend_box **ret_box, struct warren_error *err)
{
	struct native *n = state;
	struct making m = { .engine = n, .spec = spec, .child_end = -1, .userns = -1 };
	int r;

	if (spec->n_mounts > NATIVE_MOUNTS_MAX)
		return error_set(err, E2BIG, "more than %d mounts", NATIVE_MOUNTS_MAX);
	m.box = calloc(1, sizeof(*m.box));
	if (!m.box)
		return error_errno(err, ENOMEM, "make a sandbox");
	m.box->engine = n;
	m.box->has_ids = idmap_has_ids;
	m.box->pidfd = m.box->control = m.box->image_lock = -1;
	if (spec->id)
		(void)memcpy(m.box->base.id, spec->id, sizeof(m.box->base.id));
	else
		id_make(m.box->base.id);
	m.plan = mmap(NULL, sizeof(*m.plan), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (m.plan == MAP_FAILED) {
		free(m.box);
		return error_errno(err, ENOMEM, "make a sandbox");
	}
	m.plan->inject = n->inject.step - (int)ARRAY_SIZE(steps);
	m.plan->crash = n->inject.crash;
	m.started = clock_now();
	r = run_steps(&m, err);
	if (m.userns >= 0)
		(void)close(m.userns);
	if (m.child_end >= 0)
		(void)close(m.child_end);
	if (m.own_image) {
		/* A copy: the child may not have read the plan yet. */
		struct image own = m.plan->image;

		image_close(&own);
	}
	if (r == 0) {
		if (n->trace)
			keep_trace(&m);
		*ret_box = &m.box->base;
	} else {
		struct warren_error second = WARREN_ERROR_INIT;

		(void)native_unmake(n, m.box, &second);
	}
	(void)munmap(m.plan, sizeof(*m.plan));
	return r;
}
