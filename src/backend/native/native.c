/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native.c - sandboxes from this kernel's namespaces: the backend's table and its engine
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "backend/kind.h"
#include "backend/native/durable.h"
#include "backend/native/native.h"
#include "backend/native/persist.h"
#include "backend/native/undo.h"
#include "base/clock.h"
#include "base/fd.h"
#include "initclient/sandbox_socket.h"
#include "os/ca_mount.h"
#include "os/caps.h"
#include "spec/spec.h"

#define RESUME_NS 5000000000ULL /* time for init to handle overdue deadlines */

extern const char warren_init_blob[], warren_init_blob_end[];

static int native_destroy(void *state, struct backend_sandbox *sandbox,
			  struct warren_error *err)
{
	char id[ID_LEN + 1];
	int r;

	(void)memcpy(id, sandbox->id, sizeof(id));
	r = native_unmake(state, (struct native_sandbox *)sandbox, err);
	if (r == 0)
		r = persist_has(state, id, err);
	return r > 0 ? native_forget_saved(state, id, err) : r;
}

static int native_pause(void *state, struct backend_sandbox *base, bool paused,
			struct warren_error *err)
{
	struct native *n = state;
	struct native_sandbox *sandbox = (struct native_sandbox *)base;
	int r;

	if (!sandbox->has_cgroup)
		return error_set(err, EOPNOTSUPP, "pausing needs cgroups: %s",
				 n->cgroups.why);
	if (sandbox->one_shot)
		return error_set(err, EOPNOTSUPP, "it was created for a single exec");
	r = cgroup_freeze(&n->cgroups, base->id, paused, err);
	if (r < 0)
		return r;
	sandbox->paused = paused;
	/* Execs whose deadline passed during the pause end only now. */
	for (struct initclient_exec *ex = sandbox->execs; ex && !paused; ex = ex->next)
		if (ex->deadline && ex->deadline < clock_now() + RESUME_NS)
			ex->deadline = clock_now() + RESUME_NS;
	return 0;
}

/*
 * Ask the kernel how much was written to the root, without the help of a process inside
 * and without following a path inside. init may have ended, and another process may have
 * its pid now.
 */
static void count_disk(const struct native_sandbox *sandbox, struct warren_stats *s)
{
	struct pollfd ended = { .fd = sandbox->pidfd, .events = POLLIN };
	AUTO_CLOSE int root = -1;
	struct statvfs fs;
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d/root", (int)sandbox->pid);
	root = sandbox->pid > 0 && sandbox->pidfd >= 0
		       ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)
		       : -1;
	if (root < 0 || fstatvfs(root, &fs) < 0 || poll(&ended, 1, 0) != 0)
		return;
	s->disk = (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize;
	s->inodes = (uint64_t)(fs.f_files - fs.f_ffree);
}

static int native_stats(void *state, struct backend_sandbox *base,
			struct warren_stats *ret, struct warren_error *err)
{
	struct native *n = state;
	struct native_sandbox *sandbox = (struct native_sandbox *)base;
	struct cgroup_usage u;
	int r;

	if (!sandbox->has_cgroup)
		return error_set(err, EOPNOTSUPP, "statistics need cgroups: %s",
				 n->cgroups.why);
	r = cgroup_read_usage(&n->cgroups, base->id, &u, err);
	/*
	 * Other processes can start execs in a durable sandbox, so ask init. Without a
	 * connection, use kills_apart.
	 */
	if (r == 0 && base->durable && sandbox->control >= 0 &&
	    n->cgroups.mode == CGROUP_V1)
		r = durable_oom_kills(sandbox, &sandbox->oom_kills, err);
	if (r < 0)
		return r;
	if (n->cgroups.mode == CGROUP_V1) /* v2 itself counts the kills of all execs */
		u.oom_kills += sandbox->oom_kills;
	*ret = (struct warren_stats){ .memory = u.memory,
				      .memory_peak = u.memory_peak,
				      .cpu_usec = u.cpu_usec,
				      .pids = u.pids,
				      .oom_kills = u.oom_kills,
				      .sockets = u.sockets };
	count_disk(sandbox, ret);
	return 0;
}

/*
 * An ordinary user cannot open the namespaces of init, because init cannot be inspected.
 * So get the network namespace from a socket that init creates.
 */
static int native_capture_as_user(const struct native *n, struct native_sandbox *sandbox,
				  struct capture *ret, struct warren_error *err)
{
	AUTO_CLOSE int sock = -1;
	int r = 0;

	if (sandbox->control < 0)
		r = sandbox_socket_open_line(n->sandboxes_fd, native_talk(sandbox), err);
	if (r == 0)
		r = initclient_socket(native_talk(sandbox), &sock, err);
	return r < 0 ? r : capture_open_as_user(sock, ret, err);
}

static int native_capture_network(void *state, struct backend_sandbox *base,
				  int ret_fds[WARREN_CAPTURE_FDS],
				  struct warren_error *err)
{
	struct native *n = state;
	struct native_sandbox *sandbox = (struct native_sandbox *)base;
	struct capture c = sandbox->captured;
	int r = 0;

	sandbox->captured = (struct capture)CAPTURE_INIT;
	if (c.tcp >= 0) {
		ret_fds[0] = c.tcp;
		ret_fds[1] = c.udp;
		return 0;
	}
	if (sandbox->pidfd < 0)
		return error_set(err, ESRCH, "its init is not known");
	/* A sandbox for one exec may not be complete yet, and may still be in the
	 * host's network namespace. */
	if (sandbox->one_shot && !sandbox->ready) {
		r = client_wait_ready(native_talk(sandbox), err);
		sandbox->ready = r == 0;
	}
	if (r == 0)
		r = n->privileged ? capture_open(sandbox->pidfd, &c, err)
				  : native_capture_as_user(n, sandbox, &c, err);
	if (r < 0)
		return r;
	ret_fds[0] = c.tcp;
	ret_fds[1] = c.udp;
	return 0;
}

static int native_trust(void *state UNUSED, struct backend_sandbox *base, int bundle,
			struct warren_error *err)
{
	const struct native_sandbox *sandbox = (struct native_sandbox *)base;

	if (sandbox->pidfd < 0)
		return error_set(err, ESRCH, "its init is not known");
	return ca_mount(sandbox->pidfd, CLONE_NEWUSER | CLONE_NEWNS, bundle, err);
}

/* ------------------------------------------------------------------ engine functions */

static int seal_init(struct native *n, struct warren_error *err)
{
	size_t size = (size_t)(warren_init_blob_end - warren_init_blob);
	AUTO_CLOSE int fd = memfd_create("init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return error_errno(err, errno, "create a memfd for init");
	r = fd_write_all(fd, warren_init_blob, size);
	/*
	 * If a process's user cannot read its program, the process does not own its files
	 * in /proc: the kernel gives /proc/1 to the owner of the program, who does not
	 * exist inside (would_dump()).
	 */
	if (r == 0 && fchmod(fd, 0111) < 0)
		r = -errno;
	if (r == 0 && fcntl(fd, F_ADD_SEALS,
			    F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		r = -errno;
	if (r < 0)
		return error_errno(err, -r, "write init");
	n->init_fd = TAKE_FD(fd);
	return 0;
}

static void native_forget_left(struct backend_sandbox *base)
{
	native_forget((struct native_sandbox *)base);
}

static void native_close(void *state)
{
	struct native *n = state;

	(void)prepared_drop(n, SIZE_MAX);
	left_done(&n->left, native_forget_left);
	engine_registry_close(n);
	take_forget_host(n);
	(void)pthread_mutex_destroy(&n->lock);
	cgroup_root_close(&n->cgroups);
	if (n->init_fd >= 0)
		(void)close(n->init_fd);
	free(n->run_dir);
	free(n->state_dir);
	free(n);
}

/* Check the version first: a trial would need a mount, which would slow down every
 * run. */
bool native_kernel_since(unsigned long major, unsigned long minor)
{
	struct utsname u;
	char *end = NULL;
	unsigned long a, b;

	if (uname(&u) < 0)
		return false;
	a = strtoul(u.release, &end, 10);
	b = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
	return a > major || (a == major && b >= minor);
}

static int native_open(const struct warren_options *options, void **ret_state,
		       struct warren_error *err)
{
	struct native *n = calloc(1, sizeof(*n));
	struct sysinfo info;
	int r;

	if (!n)
		return error_errno(err, ENOMEM, "open the engine");
	n->ids_fd = n->lock_fd = n->init_fd = n->sandboxes_fd = -1;
	n->trace = options->trace;
	(void)pthread_mutex_init(&n->lock, NULL);
	left_init(&n->left);
	n->privileged = geteuid() == 0 && caps_have(CAP_SYS_ADMIN);
	n->tmpfs_xattrs = !n->privileged || native_kernel_since(6, 6) ||
			  scratch_disk_tmpfs_has_xattrs();
	n->memory_default = sysinfo(&info) == 0
				    ? (uint64_t)info.totalram * info.mem_unit / 2
				    : 1U << 30;
	cgroup_root_open(&n->cgroups);
	if (!n->privileged) {
		(void)ns_subids("/etc/subuid", geteuid(), &n->subuid);
		(void)ns_subids("/etc/subgid", geteuid(), &n->subgid);
		if (n->subuid.count == 0 || n->subgid.count == 0 ||
		    access("/usr/bin/newuidmap", X_OK) < 0)
			n->subuid.count = n->subgid.count = 0;
	}
	r = backend_choose_dirs(options, &n->run_dir, &n->state_dir, err);
	if (r == 0)
		r = engine_registry_open(n, options->engine_name, err);
	if (r == 0)
		r = seal_init(n, err);
	if (r < 0) {
		native_close(n);
		return r;
	}
	*ret_state = n;
	return 0;
}

const struct backend_kind backend_kind_native = {
	.name = "native",
	.help = "Namespaces of this machine's kernel; there is exactly one backend of this "
		"kind, called native",
	.tier = TIER_NAMESPACE,
	.offered = true,
	.only_one = true,
	.network = true,
	.policies = true,
	.volumes = true,
	.trusts = true,
	.here = true,
	.hibernates = true,
	.snapshots = true,
	.persists = true,
	.images = BACKEND_IMAGES_OURS,
	.limits = SPEC_LIMIT_BITS, /* create.c checks which of them can be enforced */
};

const struct backend_ops backend_native = {
	.name = "native",
	.writes = true,
	.open = native_open,
	.close = native_close,
	.probe = native_probe,
	.create = native_create,
	.prepare = prepared_prepare,
	.unprepare = prepared_drop,
	.destroy = native_destroy,
	.exec = initclient_exec,
	.exec_wait = initclient_exec_wait,
	.exec_signal = initclient_exec_signal,
	.exec_free = initclient_exec_free,
	.exec_wait_fd = initclient_exec_wait_fd,
	.exec_resize = initclient_exec_resize,
	.exec_output = initclient_exec_output,
	.file_open = initclient_file_open,
	.connect = initclient_connect,
	.pause = native_pause,
	.stats = native_stats,
	.capture_network = native_capture_network,
	.trust = native_trust,
	.save_files = native_save_files,
	.diff = native_diff,
	.undo_keep = undo_keep,
	.undo = undo_restore,
	.undo_settle = undo_keep_settle,
	.undo_forget = undo_forget,
	.hibernate = native_hibernate,
	.forget_saved = native_forget_saved,
	.reset = native_reset,
	.image = native_image,
	.has_saved = native_has_saved,
	.list_kept = persist_list,
	.list = durable_list,
	.find = durable_find,
	.adopt = durable_adopt,
	.release = durable_release,
	.update = durable_update,
	.connection = durable_connection,
	.describe = durable_describe,
	.exec_attach = initclient_exec_attach,
	.exec_number = initclient_exec_number,
	.exec_close_input = initclient_exec_close_input,
	.exec_ack = initclient_exec_ack,
	.exec_signal_to = initclient_exec_signal_to,
	.orphans = orphan_list,
	.remove_orphan = orphan_remove,
};
