/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create.c - create a sandbox: steps outside, then steps of the process that becomes
 * runsc
 *
 * After a failure, gvisor_unmake() destroys what exists; destroying a sandbox uses the
 * same function. The child reports over a pipe which of its steps failed; after it has
 * become runsc, errors are in runsc's log.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "os/sig.h"
#include "shim/gvisor/gvisor.h"
#include "shim/gvisor/sentry_rpc.h"
#include "spec/spec.h"

#define PIDS_DEFAULT   1024
#define NOFILE_DEFAULT 65536
#define DISK_MIN       (1U << 20)
#define MEMORY_MIN     (64U << 20)
#define PASSWD_MAX     (1U << 20)
#define IMAGE_TEXT_MAX (4096 + sizeof("dir:"))

/*
 * Processes inside are limited inside, by RLIMIT_NPROC for each user. Outside, the sentry
 * has a process for each of them, and each of these gets, over time, a thread for every
 * thread of the sentry that ever ran it (measured: 64 processes inside, 2,200 threads and
 * growing). So this limit is not meant for normal use: a sandbox does not survive
 * reaching it. It only keeps a hostile sandbox from using all process ids of the machine.
 */
#define HOST_THREADS 32768

extern const unsigned char warren_guest_blob[], warren_guest_blob_end[];

/* -------------------------------------------------------------------- steps outside */

static int find_runsc(struct gvisor_making *m, struct warren_error *err)
{
	return gvisor_find_runsc(m->sandbox->config, m->runsc, err);
}

static uint64_t host_threads(void)
{
	uint64_t max = 0;

	if (fd_read_u64_at(AT_FDCWD, "/proc/sys/kernel/pid_max", &max) < 0 ||
	    max / 4 > HOST_THREADS)
		return HOST_THREADS;
	return max / 4;
}

static int create_take_limits(struct gvisor_making *m, struct warren_error *err)
{
	const struct warren_spec *s = m->spec;
	struct sysinfo info;
	struct rlimit lim;

	m->limits = (struct cgroup_limits){
		.memory = s->memory,
		.cpu_millis = s->cpu_millis,
		.all = true,
	};
	if (!s->memory)
		m->limits.memory = sysinfo(&info) == 0
					   ? (uint64_t)info.totalram * info.mem_unit / 2
					   : 1U << 30;
	if (m->limits.memory < MEMORY_MIN)
		return error_set(err, EINVAL,
				 "memory: below 64m gVisor's own kernel cannot run");
	m->pids = s->pids ? s->pids : PIDS_DEFAULT;
	m->limits.pids = host_threads();
	m->disk = s->disk ? s->disk : m->limits.memory / 2;
	if (m->disk > m->limits.memory && s->soft_limits & WARREN_LIMIT_DISK)
		m->disk = m->limits.memory / 2;
	if (m->disk < DISK_MIN)
		return error_set(
			err, EINVAL,
			"disk: less than 1m leaves no space for a root filesystem");
	if (m->disk > m->limits.memory)
		return error_set(
			err, EOPNOTSUPP,
			"disk: written data stays in memory, so the disk limit cannot "
			"be above the memory limit (%ju bytes)",
			(uintmax_t)m->limits.memory);
	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return error_errno(err, errno, "getrlimit");
	/*
	 * The sentry does not need a descriptor outside for each file that is open
	 * inside.
	 */
	m->nofile = s->nofile ? s->nofile : NOFILE_DEFAULT;
	return 0;
}

static int check_cgroups(struct gvisor_making *m, struct warren_error *err)
{
	static const enum cgroup_controller needed[] = { CGROUP_CPU, CGROUP_MEMORY,
							 CGROUP_PIDS, CGROUP_FREEZER };

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (!cgroup_has(&m->cgroups, needed[i]))
			return error_set(
				err, EOPNOTSUPP,
				"gVisor needs the %s cgroup to limit a sandbox and to "
				"end it%s%s",
				cgroup_controller_name(needed[i]),
				m->cgroups.why[0] ? ": " : "", m->cgroups.why);
	return 0;
}

/* The image of a sandbox that hibernated: its name may refer to another one now. */
static int create_saved_image(const struct gvisor_making *m, char ret[IMAGE_TEXT_MAX],
			      struct warren_error *err)
{
	ssize_t n = shim_sandbox_saved_image(m->sandbox, ret, IMAGE_TEXT_MAX);

	return n > 0 ? 0
		     : error_errno(err, n < 0 ? (int)-n : EREMOTEIO,
				   "read the image of its saved files");
}

/* A reference may name another image later, so record the image's id. */
static int create_note_image(const struct gvisor_making *m, const char *ref,
			     struct warren_error *err)
{
	const char *image = m->image.has_config ? m->image.config.id : ref;
	char path[GVISOR_PATH_MAX];
	AUTO_CLOSE int fd = -1;
	int r;

	gvisor_path(m->sandbox, "image", path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, image, strlen(image));
	return r < 0 ? error_errno(err, -r, "write '%s'", path) : 0;
}

static int open_image(struct gvisor_making *m, struct warren_error *err)
{
	const char *ref = m->spec->image ? m->spec->image : "host";
	char saved[IMAGE_TEXT_MAX];
	int r = 0;

	if (m->spec->restore) {
		r = create_saved_image(m, saved, err);
		ref = saved;
	}
	if (r == 0)
		r = image_open(ref, m->sandbox->state_dir, &m->image, err);
	m->has_image = r == 0;
	return r < 0 ? r : create_note_image(m, ref, err);
}

static int create_open_in_image(void *ctx, const char *path)
{
	return image_open_file(ctx, path);
}

static int create_find_user(struct gvisor_making *m, struct warren_error *err)
{
	const char *user = m->spec->user;

	if (!user && m->image.has_config && m->image.config.user[0])
		user = m->image.config.user;
	return user_resolve(user, create_open_in_image, &m->image, &m->user, err);
}

static int write_first(const struct shim_sandbox *p, struct warren_error *err)
{
	char path[GVISOR_PATH_MAX];
	AUTO_CLOSE int fd = -1;
	int r;

	gvisor_path(p, "bundle/first", path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
	if (fd < 0)
		return error_errno(err, errno, "make '%s'", path);
	r = fd_write_all(fd, warren_guest_blob,
			 (size_t)(warren_guest_blob_end - warren_guest_blob));
	if (r == 0 && fchmod(fd, 0555) < 0)
		r = -errno;
	return r < 0 ? error_errno(err, -r, "write '%s'", path) : 0;
}

/* Copy the image's files with the names of users, which execs need. */
static int copy_names(struct gvisor_making *m, const char *from, const char *to,
		      struct warren_error *err)
{
	AUTO_FREE char *text = malloc(PASSWD_MAX);
	AUTO_CLOSE int in = image_open_file(&m->image, from), out = -1;
	char path[GVISOR_PATH_MAX];
	ssize_t n = in < 0 || !text ? 0 : fd_read_all(in, text, PASSWD_MAX);

	gvisor_path(m->sandbox, to, path);
	out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (out < 0 || (n > 0 && fd_write_all(out, text, (size_t)n) < 0))
		return error_errno(err, errno, "write '%s'", path);
	return 0;
}

static int create_make_dirs(struct gvisor_making *m, struct warren_error *err)
{
	static const char *const dirs[] = { "bundle", "root", "scratch" };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		char path[GVISOR_PATH_MAX];

		gvisor_path(m->sandbox, dirs[i], path);
		r = fd_make_dirs(path, 0700);
		if (r < 0)
			return error_errno(err, -r, "make '%s'", path);
	}
	r = write_first(m->sandbox, err);
	if (r == 0)
		r = copy_names(m, "/etc/passwd", "bundle/passwd", err);
	return r < 0 ? r : copy_names(m, "/etc/group", "bundle/group", err);
}

static int gvisor_create_make_cgroup(struct gvisor_making *m, struct warren_error *err)
{
	int r = cgroup_make(&m->cgroups, m->sandbox->id, 0, &m->limits, err);

	m->has_cgroup = r == 0;
	return r < 0 ? r : gvisor_write_limits(m->sandbox, &m->limits, err);
}

/* ----------------------------------------------------------------- steps in the child */

int gvisor_join(struct gvisor_making *m, struct warren_error *err)
{
	return cgroup_join(&m->cgroups, m->sandbox->id, err);
}

/*
 * Send the namespace in which the root is mounted, and the upper directory, to the parent
 * process.
 */
static int create_hand_over(struct gvisor_making *m, struct warren_error *err)
{
	AUTO_CLOSE int ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	int r = ns < 0 ? -errno
		       : fd_send(m->tell, "", 1, (const int[]){ ns, m->upper }, 2);

	return r < 0 ? error_errno(err, -r, "send the mount namespace") : 0;
}

int gvisor_become_runsc(struct gvisor_making *m, struct warren_error *err)
{
	static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char root[GVISOR_PATH_MAX], log[GVISOR_PATH_MAX], bundle[GVISOR_PATH_MAX];
	const char *argv[18] = { "runsc", "--root", root, "--log", log };
	size_t n = 5;

	argv[n++] = "--log-format=json";
	argv[n++] = "--platform=ptrace";
	argv[n++] = "--ignore-cgroups";
	argv[n++] = m->captured ? "--network=host" : "--network=none";
	/* `runsc start` would create a loopback device: see start_root(). */
	argv[n++] = m->no_network ? "create" : m->saved < 0 ? "run" : "restore";
	if (!m->no_network)
		argv[n++] = "--detach";
	if (!m->no_network && m->saved >= 0) {
		argv[n++] = "--image-path";
		argv[n++] = bundle;
	}
	argv[n++] = "--bundle";
	argv[n++] = bundle;
	argv[n++] = m->sandbox->id;
	gvisor_path(m->sandbox, "root", root);
	gvisor_path(m->sandbox, "log", log);
	gvisor_path(m->sandbox, "bundle", bundle);
	for (int i = 0; i < 3; i++)
		(void)dup2(null, i);
	(void)execve(m->runsc, (char *const *)(uintptr_t)argv,
		     (char *const *)(uintptr_t)env);
	return error_errno(err, errno, "run '%s'", m->runsc);
}

static int write_bundle(struct gvisor_making *m, struct warren_error *err)
{
	return bundle_write(m, err);
}

static int run_steps(const struct gvisor_step *steps, size_t n, struct gvisor_making *m,
		     struct warren_error *err)
{
	for (size_t i = 0; i < n; i++)
		if (steps[i].run(m, err) < 0)
			return error_wrap(err, "%s", steps[i].name);
	return 0;
}

static const struct gvisor_step child_steps[] = {
	{ "enter the cgroup", gvisor_join }, /* before memory is allocated */
	{ "copy the mounts", root_copy },    /* this must happen in this namespace */
	{ "mount the root", root_mount },
	{ "create its network", network_create },
	{ "write the bundle", write_bundle },       /* this lists the mounts */
	{ "pass on the mounts", create_hand_over }, /* for times when no process of the
						       sandbox runs */
	{ "start runsc", gvisor_become_runsc },
};

__attribute__((noreturn)) static void
create_child_main(struct gvisor_making *m, const struct gvisor_step *in_child, size_t n)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };
	sigset_t all;

	sig_reset();
	(void)sigemptyset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)setsid();
	/* Remove the limit of processes, because the sentries of all sandboxes have the
	 * same user, `nobody`. */
	(void)setrlimit(RLIMIT_NPROC, &none);
	(void)run_steps(in_child, n, m, &err);
	(void)fd_write_all(m->tell, &err, sizeof(err));
	_exit(1);
}

/* --------------------------------------------------------------- starting the sandbox */

/* Is the client's request the cause of the error, rather than runsc? */
static bool is_refusal(const char *msg)
{
	static const char *const words[] = { "initial working directory",
					     "mount submount" };

	for (size_t i = 0; msg && i < ARRAY_SIZE(words); i++)
		if (strstr(msg, words[i]))
			return true;
	return false;
}

/* Find the last error in runsc's log: lines of {"msg": ..., "level": "error"}. */
static int create_explain(const struct shim_sandbox *p, struct warren_error *err)
{
	char path[GVISOR_PATH_MAX];
	const char *msg = NULL;
	json_t *doc = NULL, *next;
	FILE *f;
	int r;

	gvisor_path(p, "log", path);
	f = fopen(path, "re");
	while (f && (next = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL))) {
		json_decref(doc);
		doc = next;
	}
	if (f)
		(void)fclose(f);
	msg = json_string_value(json_object_get(doc, "msg"));
	r = error_set(err, is_refusal(msg) ? EINVAL : EIO, "%.400s",
		      msg ? msg : "it gave no reason");
	json_decref(doc);
	return r;
}

/* Wait as long as a step may take. */
static int await_word(int fd, struct warren_error *err)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int r;

	do
		r = poll(&p, 1, SHIM_PATIENCE);
	while (r < 0 && errno == EINTR);
	return r == 0 ? error_set(err, ETIMEDOUT, "it takes longer than %d s",
				  SHIM_PATIENCE / 1000)
		      : 0;
}

/*
 * If there is no network, call the sentry to start the sandbox. `runsc start` would first
 * create a loopback device.
 */
static int start_root(const struct gvisor_making *m, int sentry, struct warren_error *err)
{
	int r;

	if (!m->no_network)
		return 0;
	if (m->saved < 0)
		return control_call(sentry, "containerManager.StartRoot",
				    json_string(m->sandbox->id), NULL, err);
	r = control_send(sentry, "containerManager.Restore",
			 json_pack("{s:s}", "SandboxID", m->sandbox->id), &m->saved, 1,
			 err);
	if (r == 0)
		r = await_word(sentry, err);
	return r < 0 ? r : control_receive(sentry, true, NULL, err);
}

/* If another process has reaped this child (-1), ask the sentry. */
static int await_runsc(struct gvisor_making *m, pid_t pid, int pidfd,
		       struct warren_error *err)
{
	AUTO_CLOSE int sentry = -1;
	int status = -1, r = await_word(pidfd, err);

	if (r < 0)
		(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r < 0)
		return r;
	if (status != 0 && status != -1)
		return create_explain(m->sandbox, err);
	sentry = gvisor_connect(m->sandbox, err);
	return sentry < 0 ? sentry : start_root(m, sentry, err);
}

/*
 * Receive the child's report before it becomes runsc: the namespace, or which step
 * failed. Return -errno.
 */
static int hear_child(struct gvisor_making *m, int hear, struct warren_error *err)
{
	struct warren_error told;

	for (;;) {
		int fds[2] = { -1, -1 };
		size_t n_fds = ARRAY_SIZE(fds);
		ssize_t n = fd_recv(hear, &told, sizeof(told), fds, &n_fds, 0);

		if (n == 1 && fds[1] >= 0) {
			m->sandbox->held = fds[0];
			m->sandbox->upper = fds[1];
		} else if (n == (ssize_t)sizeof(told)) {
			*err = told;
			return -told.code;
		} else if (n != -EINTR) {
			return 0;
		}
	}
}

int gvisor_start(struct gvisor_making *m, const struct gvisor_step *in_child, size_t n,
		 struct warren_error *err)
{
	AUTO_CLOSE int tell = -1, hear = -1, pidfd = -1;
	int ends[2], r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_errno(err, errno, "create a pair of sockets");
	hear = ends[0];
	tell = m->tell = ends[1];
	pid = fork();
	if (pid == 0)
		create_child_main(m, in_child, n);
	if (pid < 0)
		return error_errno(err, errno, "fork");
	pidfd = pidfd_open(pid, 0);
	(void)close(TAKE_FD(tell));
	r = hear_child(m, hear, err);
	if (r < 0) {
		(void)waitpid(pid, NULL, 0);
		return r;
	}
	r = pidfd < 0 ? error_errno(err, errno, "watch it")
		      : await_runsc(m, pid, pidfd, err);
	return r < 0 ? error_wrap(err, "start the sandbox") : 0;
}

static int gvisor_create_start(struct gvisor_making *m, struct warren_error *err)
{
	return m->saved < 0
		       ? gvisor_start(m, child_steps, ARRAY_SIZE(child_steps), err)
		       : gvisor_start_saved(m, child_steps, ARRAY_SIZE(child_steps), err);
}

/* Open the saved files and memory of a sandbox that hibernated. */
static int create_open_saved(struct gvisor_making *m, struct warren_error *err)
{
	if (!m->spec->restore || shim_sandbox_is_reset(m->sandbox))
		return 0;
	m->files =
		shim_sandbox_saved(m->sandbox, SHIM_SAVED_FILES, O_RDONLY | O_DIRECTORY);
	if (m->files < 0)
		return error_errno(err, -m->files, "open the saved files");
	m->saved = shim_sandbox_saved(m->sandbox, SHIM_SAVED_MEMORY, O_RDONLY);
	return m->saved < 0 && m->saved != -ENOENT
		       ? error_errno(err, -m->saved, "open the saved memory")
		       : 0;
}

/* ---------------------------------------------------------------------- all steps */

static const struct gvisor_step steps[] = {
	{ "find runsc", find_runsc },
	{ "inspect the cgroups", check_cgroups },
	{ "read the limits", create_take_limits },
	{ "open the image", open_image },
	{ "find what was saved", create_open_saved },
	{ "find the user", create_find_user },
	{ "create its files", create_make_dirs },
	{ "create its cgroup", gvisor_create_make_cgroup },
	{ "run runsc", gvisor_create_start },
};

static void create_report(const struct gvisor_making *m)
{
	const char *by = cgroup_mode_name(m->cgroups.mode);
	struct shim_sandbox *p = m->sandbox;

	shim_sandbox_enforce(p, "kernel", true,
			     "gVisor's kernel in user space, by ptrace");
	shim_sandbox_enforce(p, "capabilities", true,
			     "11 for root inside, none for others");
	shim_sandbox_enforce(p, "no_new_privs", true, "gVisor ignores set-id bits");
	shim_sandbox_enforce(p, "network", true, "%s",
			     spec_network_text(m->spec->network));
	shim_sandbox_enforce(p, "memory", true,
			     "%ju bytes by %s, including gVisor itself",
			     (uintmax_t)m->limits.memory, by);
	if (m->limits.cpu_millis)
		shim_sandbox_enforce(p, "cpus", true, "%ju.%03u by %s",
				     (uintmax_t)m->limits.cpu_millis / 1000,
				     (unsigned)(m->limits.cpu_millis % 1000), by);
	shim_sandbox_enforce(p, "pids", true,
			     "%ju for each user inside; %ju threads on the host by %s",
			     (uintmax_t)m->pids, (uintmax_t)m->limits.pids, by);
	shim_sandbox_enforce(p, "disk", true, "%ju bytes, in memory", (uintmax_t)m->disk);
	shim_sandbox_enforce(p, "nofile", true, "%ju for each process",
			     (uintmax_t)m->nofile);
	if (m->spec->read_only)
		shim_sandbox_enforce(p, "read_only", true, "the root");
}

int gvisor_create(struct shim_sandbox *p, const struct warren_spec *spec,
		  struct warren_error *err)
{
	struct gvisor_making *m = calloc(1, sizeof(*m));
	struct warren_error ignored = WARREN_ERROR_INIT;
	int r;

	if (!m)
		return error_errno(err, ENOMEM, "%s: allocate a sandbox", p->name);
	m->sandbox = p;
	m->spec = spec;
	m->no_network = spec->network == WARREN_NETWORK_NONE;
	m->captured = spec->network == WARREN_NETWORK_CAPTURED;
	m->saved = m->files = -1;
	cgroup_root_open(&m->cgroups);
	r = run_steps(steps, ARRAY_SIZE(steps), m, err);
	p->helper = GVISOR_FIRST;
	if (r == 0)
		create_report(m);
	else if (r != -EEXIST)
		(void)gvisor_unmake(p, &m->cgroups, &ignored);
	/*
	 * The open descriptors of an image lock it in the store, so keep them open as
	 * long as this process, the sandbox's shim, is alive.
	 */
	if (m->has_image && r < 0)
		image_close(&m->image);
	cgroup_root_close(&m->cgroups);
	if (m->saved >= 0)
		(void)close(m->saved);
	if (m->files >= 0)
		(void)close(m->files);
	free(m);
	return r < 0 ? error_wrap(err, "%s", p->name) : 0;
}

/* -------------------------------------------------------------------------- limits */

int gvisor_write_limits(const struct shim_sandbox *p, const struct cgroup_limits *limits,
			struct warren_error *err)
{
	char path[GVISOR_PATH_MAX];
	json_t *doc = json_pack("{s:I, s:I, s:I}", "memory", (json_int_t)limits->memory,
				"cpu_millis", (json_int_t)limits->cpu_millis, "pids",
				(json_int_t)limits->pids);
	int r;

	gvisor_path(p, "limits", path);
	r = json_dump_file(doc, path, JSON_COMPACT);
	json_decref(doc);
	return r < 0 ? error_errno(err, errno, "write '%s'", path) : 0;
}

int gvisor_read_limits(const struct shim_sandbox *p, struct cgroup_limits *ret,
		       struct warren_error *err)
{
	char path[GVISOR_PATH_MAX];
	json_t *doc;

	gvisor_path(p, "limits", path);
	doc = json_load_file(path, 0, NULL);
	if (!doc)
		return error_set(err, ENOENT, "there is no such sandbox");
	*ret = (struct cgroup_limits){
		.memory = (uint64_t)json_integer_value(json_object_get(doc, "memory")),
		.cpu_millis =
			(uint64_t)json_integer_value(json_object_get(doc, "cpu_millis")),
		.pids = (uint64_t)json_integer_value(json_object_get(doc, "pids")),
		.all = true,
	};
	json_decref(doc);
	return 0;
}
