/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create.c - create a sandbox: the steps outside, and one function that undoes them
 *
 * Creating a sandbox runs the table of steps below. After a failure, one function
 * destroys what exists: it inspects the sandbox and does not depend on the step that
 * failed. Destroying a sandbox uses the same function. After a crash, the link in the
 * registry remains, and the next engine uses it to find the rest.
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "backend/native/cow.h"
#include "backend/native/create_op.h"
#include "backend/native/durable.h"
#include "backend/native/persist.h"
#include "backend/native/undo.h"
#include "base/clock.h"
#include "base/fd.h"
#include "os/mount.h"
#include "os/pidfd.h"
#include "spec/spec.h"

#define END_MS 20000 /* time for killed processes to disappear */

/* ------------------------------------------------------------------ steps of a create */

/*
 * Open the image first for an ordinary user: the child needs the paths, and the id map
 * needs the user. Otherwise, the image can be opened later.
 */
static int open_image_before(struct create_op *m, struct warren_error *err)
{
	return m->engine->privileged ? 0 : take_image(m, err);
}

static int open_image_meanwhile(struct create_op *m, struct warren_error *err)
{
	return m->engine->privileged ? take_image(m, err) : 0;
}

static int find_user_before(struct create_op *m, struct warren_error *err)
{
	return m->engine->privileged ? 0 : take_user(m, err);
}

static int find_user_meanwhile(struct create_op *m, struct warren_error *err)
{
	return m->engine->privileged ? take_user(m, err) : 0;
}

/*
 * Reserve the range of ids and, for a durable sandbox, the name of its socket: from here
 * on, no other sandbox of any backend can have this id, so everything with this id
 * belongs to this sandbox.
 */
int create_claim(struct create_op *m, struct warren_error *err)
{
	int r = engine_registry_claim(m->engine, m->sandbox, err);

	if (r == 0 && m->spec->durable)
		r = durable_bind(m->engine, m->sandbox, &m->listener, err);
	return r;
}

static int create_make_cgroup(struct create_op *m, struct warren_error *err)
{
	struct native *n = m->engine;
	int r = cgroup_make(&n->cgroups, m->sandbox->base.id,
			    n->privileged ? m->sandbox->base_id : 0, &m->limits, err);

	m->sandbox->has_cgroup = r == 0;
	return r;
}

/*
 * On cgroup v2, init is cloned into its cgroup, and an ordinary user's child copies the
 * cgroup's directory, so the cgroup must exist first. Otherwise, it can be created while
 * the child starts.
 */
static bool cgroup_comes_first(const struct native *n)
{
	return n->cgroups.mode == CGROUP_V2 || !n->privileged;
}

int create_cgroup_before(struct create_op *m, struct warren_error *err)
{
	const struct native *n = m->engine;

	return n->cgroups.mode != CGROUP_NONE && cgroup_comes_first(n)
		       ? create_make_cgroup(m, err)
		       : 0;
}

int create_cgroup_meanwhile(struct create_op *m, struct warren_error *err)
{
	const struct native *n = m->engine;

	return n->cgroups.mode != CGROUP_NONE && !cgroup_comes_first(n)
		       ? create_make_cgroup(m, err)
		       : 0;
}

/*
 * Move @fd above the descriptors of later children, if there will be any and there is
 * room.
 */
static int keep_high(const struct create_op *m, int fd)
{
	int high = m->spec->one_shot ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, NATIVE_FDS_KEPT);

	if (high < 0)
		return fd;
	(void)close(fd);
	return high;
}

/* A part has a second connection, to the process that makes its mounts. */
static int connect_stage(struct create_op *m, int *ret_end, struct warren_error *err)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_errno(err, errno, "create a connection");
	m->stage = keep_high(m, ends[0]);
	*ret_end = ends[1];
	return 0;
}

/* Are all descriptors that @p needs among those that the child copies? */
static bool needs_are_low(const struct native_plan *p)
{
	const int needs[] = { p->control, p->listener, p->stage, p->maker,
			      p->engine->init_fd };

	for (size_t i = 0; i < ARRAY_SIZE(needs); i++)
		if (needs[i] >= NATIVE_FDS_KEPT)
			return false;
	return true;
}

void create_child_started(struct create_op *m, const struct ns_child *child)
{
	m->sandbox->pid = child->pid;
	m->sandbox->pidfd = keep_high(m, child->pidfd);
	(void)close(m->child_end);
	m->child_end = -1;
}

#define CHILD_FLAGS (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_CLEAR_SIGHAND)

int create_child(struct create_op *m, struct warren_error *err)
{
	AUTO_CLOSE int cgroup =
		cgroup_open_init(&m->engine->cgroups, m->sandbox->base.id);
	AUTO_CLOSE int listener = TAKE_FD(m->listener), stage = -1;
	/* If this is -1, the child still notices when the connection ends. */
	AUTO_CLOSE int maker = pidfd_open(getpid(), 0);
	struct native_plan *p = m->plan;
	struct ns_child child = { .pidfd = -1 };
	int ends[2], r = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_errno(err, errno, "create a connection");
	m->sandbox->control = keep_high(m, ends[0]);
	m->child_end = ends[1];
	p->spec = m->spec;
	p->engine = m->engine;
	p->hostname = m->sandbox->hostname;
	p->cgroup = m->sandbox->has_cgroup && !m->engine->privileged ? m->sandbox->base.id
								     : NULL;
	p->disk = m->disk;
	p->shm = m->shm;
	p->tmpfs = m->tmpfs;
	p->control = ends[1];
	p->pts = -1;
	p->maker = maker;
	if (p->part)
		r = connect_stage(m, &stage, err);
	if (r < 0)
		return r;
	p->listener = listener;
	p->stage = stage;
	/*
	 * If the child shares the engine's memory, it also runs instead of this thread,
	 * and copies the descriptors before the thread continues.
	 */
	p->shares_fds = m->lend && needs_are_low(p);
	if (m->lend)
		return vfork_helper_thread(
			m, CHILD_FLAGS | (p->shares_fds ? CLONE_FILES : 0), cgroup, err);
	r = ns_clone_as(m->sandbox->base_id, CHILD_FLAGS, cgroup, &child);
	if (r == 0 && child.pid == 0) {
		(void)close(m->sandbox->control); /* otherwise the end of the sandbox
						     would not be noticed */
		inside_main(p);
	}
	if (r < 0)
		return error_errno(err, -r, "start a process in new namespaces");
	create_child_started(m, &child);
	return 0;
}

int create_maps(struct create_op *m, struct warren_error *err)
{
	struct ns_maps maps;

	idmap_sandbox(m->engine, m->sandbox, &maps);
	return ns_write_maps(m->sandbox->pid, &maps, m->engine->privileged, err);
}

/* The root's own layers, and the mounts of the spec. */
static int copy_spec_mounts(struct create_op *m, int *fds, size_t *n,
			    struct warren_error *err)
{
	int r = cow_copy_root(m, fds, n, err);

	for (size_t i = 0; r == 0 && i < m->spec->n_mounts; i++) {
		const struct warren_mount *v = &m->spec->mounts[i];

		if (!v->source)
			continue;
		if (v->writes) {
			r = cow_copy_mount(m, v, fds, n, err);
			continue;
		}
		r = v->volume ? volume_take(m, v, &fds[*n], err)
			      : volume_copy(m, v, &fds[*n], err);
		*n += r == 0;
	}
	return r;
}

/*
 * Create detached copies of all layers and volumes with the sandbox's ids, in the order
 * in which the child takes them.
 */
static int copy_mounts(struct create_op *m, int *fds, size_t *n, struct warren_error *err)
{
	m->userns = ns_open(m->sandbox->pid, "user");
	if (m->userns < 0)
		return error_errno(err, -m->userns, "open the user namespace");
	if (m->plan->on_disk) {
		int r = m->spec->persist ? persist_mount(m, &fds[*n], err)
					 : scratch_disk_mount(m->engine, m->disk,
							      m->userns, &fds[*n], err);

		if (r < 0)
			return r;
		(*n)++;
	}
	if (m->plan->restores) {
		int r = mount_copy(m->plan->saved, "", false,
				   MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID |
					   MOUNT_ATTR_RDONLY,
				   m->userns, &fds[*n], err);

		if (r < 0)
			return error_wrap(err, "open the saved files");
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
	return copy_spec_mounts(m, fds, n, err);
}

int create_send_mounts(struct create_op *m, int sock, struct warren_error *err)
{
	int fds[NATIVE_FDS_MAX] = { 0 };
	size_t n = 0, sent = 0;
	int r = m->engine->privileged ? copy_mounts(m, fds, &n, err) : 0;

	while (r == 0) {
		size_t batch = n - sent < PROTO_FDS_MAX ? n - sent : PROTO_FDS_MAX;
		struct proto_header h = { .version = PROTO_VERSION,
					  .type = PROTO_MOUNTS,
					  .seq = sent + batch < n };

		r = fd_send(sock, &h, sizeof(h), fds + sent, batch);
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

static int send_mounts(struct create_op *m, struct warren_error *err)
{
	return create_send_mounts(m, m->sandbox->control, err);
}

static const enum proto_role v1_roles[] = {
	[CGROUP_CPUACCT] = PROTO_ROLE_CPU,
	[CGROUP_MEMORY] = PROTO_ROLE_MEMORY,
	[CGROUP_PIDS] = PROTO_ROLE_PIDS,
};

enum proto_role create_cgroup_role(const struct cgroup_root *root,
				   const struct cgroup_handle *h)
{
	switch (h->kind) {
	case CGROUP_HANDLE_JOIN:
		return PROTO_ROLE_JOIN;
	case CGROUP_HANDLE_JOIN_BOX:
		return PROTO_ROLE_JOIN_BOX;
	case CGROUP_HANDLE_DIR:
		break;
	}
	return root->mode == CGROUP_V2 ? PROTO_ROLE_UNIFIED : v1_roles[h->controller];
}

/*
 * This lock shows that the sandbox's init is alive. Any holder of the descriptor can
 * unlock it, so init has its own descriptor, not the engine's.
 */
static int hold_engine(const struct native *n, int *fds, struct proto_config *msg,
		       struct warren_error *err)
{
	int fd, r = engine_registry_hold(n, &fd, err);

	if (r < 0)
		return r;
	fds[msg->n] = fd;
	msg->role[msg->n++] = PROTO_ROLE_ALIVE;
	return 0;
}

int create_configure(struct create_op *m, struct warren_error *err)
{
	struct proto_config msg = { .h = { .version = PROTO_VERSION,
					   .type = PROTO_CONFIG },
				    .flags = m->plan->part ? PROTO_CONFIG_AHEAD : 0 };
	struct cgroup_handle handles[CGROUP_HANDLES_MAX];
	const struct native *n = m->engine;
	int fds[PROTO_FDS_MAX], r = 0;
	size_t own = 0;

	/* An ordinary user's child has copied the directories itself. */
	if (m->sandbox->has_cgroup)
		r = cgroup_open_handles(&n->cgroups, m->sandbox->base.id, n->privileged,
					handles, &own, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < own; i++) {
		fds[i] = handles[i].fd;
		msg.role[msg.n++] = create_cgroup_role(&n->cgroups, &handles[i]);
	}
	if (!n->named)
		r = hold_engine(n, fds, &msg, err);
	own = msg.n;
	for (size_t i = 0; i < m->sandbox->n_writes; i++) {
		fds[msg.n] = m->sandbox->writes_locks[i];
		msg.role[msg.n++] = PROTO_ROLE_ALIVE;
	}
	if (m->sandbox->image_lock >= 0) {
		fds[msg.n] = m->sandbox->image_lock;
		msg.role[msg.n++] = PROTO_ROLE_ALIVE;
	}
	if (r == 0) {
		r = fd_send(m->sandbox->control, &msg, sizeof(msg), fds, msg.n);
		r = r < 0 ? error_errno(err, -r, "configure init") : 0;
	}
	while (own > 0)
		(void)close(fds[--own]);
	return r;
}

/* For a sandbox with a single exec, do not wait: the exec reports what failed. */
int create_ready(struct create_op *m, struct warren_error *err)
{
	int r;

	m->sandbox->one_shot = m->spec->one_shot;
	if (m->spec->one_shot && !m->engine->trace)
		return 0;
	r = client_wait_ready(native_talk(m->sandbox), err);
	m->sandbox->ready = r == 0;
	return r;
}

int create_note(struct create_op *m, struct warren_error *err)
{
	int r = saved_note(m, err);

	m->sandbox->limits = m->limits;
	if (r < 0)
		return r;
	return m->spec->durable ? durable_note(m->engine, m->sandbox, err) : 0;
}

/* The sandbox is complete and recorded: its init may outlive this process. */
int create_keep(struct create_op *m, struct warren_error *err)
{
	int r = m->spec->durable ? durable_keep(m->sandbox, err) : 0;

	if (r == 0)
		saved_drop(m);
	return r;
}

static const struct create_op_step steps[] = {
	{ "read the spec", take_spec },
	{ "check the limits", take_limits },
	{ "check the disk", take_disk },
	{ "claim an id range", create_claim }, /* from here on, a crash leaves a link */
	{ "open the saved files", saved_open },
	{ "open the directories for changes", cow_open },
	{ "open the image", open_image_before },
	{ "find the user", find_user_before },
	{ "create the cgroup", create_cgroup_before },
	{ "start the child", create_child }, /* from here on, there are two processes */
	{ "write the id maps", create_maps, true },
	{ "open the image in parallel", open_image_meanwhile, true },
	{ "find the user in parallel", find_user_meanwhile, true },
	{ "send the layers", send_mounts,
	  true }, /* the child mounts them while this process continues */
	{ "create the cgroup in parallel", create_cgroup_meanwhile, true },
	{ "configure init", create_configure,
	  true }, /* init reads it when it has started */
	{ "wait for init", create_ready },
	{ "report what is enforced", create_describe },
	{ "record the sandbox", create_note },
	{ "make it durable",
	  create_keep }, /* from here on, the sandbox outlives the engine */
};

_Static_assert(ARRAY_SIZE(steps) <= MAKING_STEPS_MAX, "create_op.outside is too small");

/* ----------------------------------------------------------- destruction of a sandbox */

void native_forget(struct native_sandbox *sandbox)
{
	if (sandbox->image_lock >= 0)
		(void)close(sandbox->image_lock);
	cow_close(sandbox);
	capture_done(&sandbox->captured);
	initclient_done(native_talk(sandbox));
	free(sandbox);
}

/*
 * Kill all processes, wait for their end, and remove the sandbox. Some parts of the
 * sandbox may not exist.
 */
static int create_remove(struct native *n, struct native_sandbox *sandbox,
			 struct warren_error *err)
{
	int r = 0;

	if (sandbox->pidfd >= 0) {
		/* On cgroup v1, a frozen process does not die. */
		if (sandbox->paused)
			(void)cgroup_freeze(&n->cgroups, sandbox->base.id, false, err);
		(void)pidfd_send_signal(sandbox->pidfd, SIGKILL, NULL, 0);
		/*
		 * Try this while init dies: usually the execs have ended, and the cgroup
		 * is empty.
		 */
		if (sandbox->has_cgroup &&
		    cgroup_try_remove(&n->cgroups, sandbox->base.id) == 0)
			sandbox->has_cgroup = false;
		/*
		 * Pid 1 of a namespace ends only after all its other processes. A process
		 * that the kernel cannot end now (because the server of a volume does not
		 * answer) delays this, but must not block the engine.
		 */
		r = pidfd_end(sandbox->pidfd, END_MS);
		if (r < 0)
			(void)error_set(
				err, -r,
				"a process of '%s' was killed but still exists after "
				"%d seconds",
				sandbox->base.id, END_MS / 1000);
	}
	if (r == 0 && sandbox->has_cgroup) {
		r = cgroup_remove(&n->cgroups, sandbox->base.id);
		if (r < 0)
			r = error_errno(err, -r, "remove the cgroup of '%s'",
					sandbox->base.id);
	}
	/*
	 * If something is left, the link stays, so that the next engine tries again.
	 * Remove the names only if they belong to this sandbox: if the id was already
	 * taken, they do not.
	 */
	if (r == 0) {
		if (sandbox->has_socket) {
			undo_drop(n, sandbox->base.id);
			durable_remove(n, sandbox->base.id);
		}
		engine_registry_release(n, sandbox);
	} else {
		n->leftovers = true;
	}
	return r;
}

int native_unmake(struct native *n, struct native_sandbox *sandbox,
		  struct warren_error *err)
{
	int r = create_remove(n, sandbox, err);

	native_forget(sandbox);
	return r;
}

int native_undo(struct native *n, struct native_sandbox *sandbox,
		struct warren_error *err)
{
	int r = create_remove(n, sandbox, err);

	if (r < 0 && n->named)
		left_put(&n->left, &sandbox->base);
	else
		native_forget(sandbox);
	return r;
}

_Static_assert(SPEC_LIMIT_BITS ==
		       (WARREN_LIMIT_MEMORY | WARREN_LIMIT_CPU | WARREN_LIMIT_PIDS |
			WARREN_LIMIT_DISK | WARREN_LIMIT_NOFILE),
	       "a limit is neither enforced here nor described below");

int create_describe(struct create_op *m, struct warren_error *err UNUSED)
{
	const struct native *n = m->engine;
	struct backend_sandbox *b = &m->sandbox->base;
	const char *by = cgroup_mode_name(n->cgroups.mode);

	/*
	 * The id of the image to which the reference referred when the sandbox was
	 * created.
	 */
	if (m->plan->image.has_config)
		backend_enforce(b, "image", true, "%s", m->plan->image.config.id);
	backend_enforce(b, "namespaces", true, "user, mount, pid, net, ipc, uts, cgroup");
	if (n->privileged)
		backend_enforce(b, "ids", true,
				"65,536 private ids, root inside is uid %u on the host",
				m->sandbox->base_id);
	else
		backend_enforce(b, "ids", n->subuid.count > 0,
				"%u besides the caller's own", n->subuid.count);
	backend_enforce(b, "capabilities", true, "%d for root inside, none for others",
			m->plan->no_set_id ? 10 : 11);
	backend_enforce(b, "seccomp", true, "allowlist, native calls only%s",
			m->plan->no_set_id ? ", no set-id bits" : "");
	backend_enforce(b, "no_new_privs", true, "set");
	backend_enforce(b, "network", true, "%s", spec_network_text(m->spec->network));
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
	backend_enforce(b, "tmpfs", true, "%ju bytes in all, within the memory limit",
			(uintmax_t)m->sandbox->tmpfs);
	backend_enforce(b, "nofile", true, "%ju for each process",
			(uintmax_t)m->sandbox->nofile);
	if (m->spec->read_only)
		backend_enforce(b, "read_only", true, "the root");
	backend_enforce(b, "exec_accounting", m->sandbox->has_cgroup, "%s%s",
			m->sandbox->has_cgroup
				? by
				: "by the kernel's accounting of each process",
			m->sandbox->has_cgroup && m->spec->one_shot
				? ", times by the accounting of each process"
				: "");
	return 0;
}

static void keep_trace(const struct create_op *m)
{
	struct backend_sandbox *b = &m->sandbox->base;
	size_t inside = m->plan->part ? inside_n_part_steps() : inside_n_steps();

	b->steps = calloc(m->n_outside + inside, sizeof(*b->steps));
	if (!b->steps)
		return;
	(void)memcpy(b->steps, m->outside, m->n_outside * sizeof(*b->steps));
	b->n_steps = m->n_outside;
	for (size_t i = 0; i < inside; i++) {
		struct warren_step step = inside_step(m->plan, i);

		/*
		 * The last step, the exec, never ends; steps that ran before this create
		 * are skipped.
		 */
		if (step.ns < m->started)
			continue;
		step.ns -= m->started;
		b->steps[b->n_steps++] = step;
	}
}

/* Run those of the remaining steps that can run while the child uses this thread. */
static void note_meanwhile(struct create_op *m, const struct create_op_step *left,
			   size_t n, int first)
{
	m->meanwhile = left;
	m->first_meanwhile = first;
	for (m->n_meanwhile = 0; m->n_meanwhile < n; m->n_meanwhile++)
		if (!left[m->n_meanwhile].meanwhile)
			break;
}

int create_op_run(struct create_op *m, const struct create_op_step *list, size_t n,
		  int first, struct warren_error *err)
{
	struct warren_step *row = m->outside;

	for (size_t i = 0; i < n; i++) {
		int r = 0;

		if (list[i].meanwhile && m->meanwhile_done)
			continue;
		if (!list[i].meanwhile)
			note_meanwhile(m, list + i + 1, n - i - 1, first + (int)i + 1);
		if (m->engine->inject.step == first + (int)i) {
			if (m->engine->inject.crash)
				(void)raise(SIGKILL);
			r = error_errno(err, EIO, "injected");
		}
		if (m->n_outside < MAKING_STEPS_MAX)
			row = &m->outside[m->n_outside++];
		*row = (struct warren_step){ list[i].name, 0, 0 };
		if (r == 0)
			r = list[i].run(m, err);
		if (m->engine->trace && row->ns == 0)
			row->ns = clock_now() - m->started;
		if (r < 0)
			return -err->code;
	}
	return 0;
}

void create_op_mark(struct create_op *m)
{
	if (m->n_outside > 0)
		m->outside[m->n_outside - 1].ns = clock_now() - m->started;
}

int create_op_begin(struct create_op *m, struct native *n, const char *id,
		    struct warren_error *err)
{
	m->engine = n;
	/*
	 * Only root can do this: an ordinary user must inspect the child, which is not
	 * possible while the child shares memory.
	 */
	m->lend =
		n->privileged && !SANITIZED; /* sanitizers keep a shadow of each stack */
	m->child_end = m->userns = m->stage = m->listener = -1;
	for (size_t i = 0; i < DIRS_OF_ROOT; i++)
		m->root_dirs[i] = -1;
	m->sandbox = calloc(1, sizeof(*m->sandbox));
	if (!m->sandbox)
		return error_errno(err, ENOMEM, "allocate a sandbox");
	m->sandbox->engine = n;
	m->sandbox->has_ids = idmap_has_ids;
	m->sandbox->pidfd = m->sandbox->control = m->sandbox->image_lock = -1;
	m->sandbox->captured = (struct capture)CAPTURE_INIT;
	if (id)
		(void)memcpy(m->sandbox->base.id, id, sizeof(m->sandbox->base.id));
	else
		id_make(m->sandbox->base.id);
	m->plan = mmap(NULL, sizeof(*m->plan), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (m->plan == MAP_FAILED) {
		free(m->sandbox);
		return error_errno(err, ENOMEM, "allocate a sandbox");
	}
	m->plan->saved = -1;
	m->started = clock_now();
	return 0;
}

void create_op_end(struct create_op *m, int r)
{
	struct warren_error second = WARREN_ERROR_INIT;

	if (m->userns >= 0)
		(void)close(m->userns);
	if (m->child_end >= 0)
		(void)close(m->child_end);
	if (m->stage >= 0)
		(void)close(m->stage);
	for (size_t i = 0; i < DIRS_OF_ROOT; i++)
		if (m->root_dirs[i] >= 0)
			(void)close(m->root_dirs[i]);
	cow_close_dirs(m);
	if (m->listener >= 0)
		(void)close(m->listener);
	if (m->plan->saved >= 0)
		(void)close(m->plan->saved);
	take_done(m);
	if (r == 0 && m->engine->trace)
		keep_trace(m);
	if (r < 0) {
		persist_undo(m);
		(void)native_undo(m->engine, m->sandbox, &second);
	}
	(void)munmap(m->plan, sizeof(*m->plan));
}

/* The error that the child reported is closer to the cause than the EPIPE seen here. */
int create_op_hear_child(struct create_op *m, int r, struct warren_error *err)
{
	struct warren_error told = WARREN_ERROR_INIT;

	if (m->sandbox->pidfd >= 0 && (r == -EPIPE || r == -ECONNRESET) &&
	    client_wait_ready(native_talk(m->sandbox), &told) < 0)
		*err = told;
	return r < 0 ? -err->code : 0;
}

int native_create(void *state, const struct warren_spec *spec,
		  struct backend_sandbox **ret_sandbox, struct warren_error *err)
{
	struct native *n = state;
	struct create_op m = { .spec = spec };
	struct native_prepared *part;
	int r;

	if (spec->n_mounts > NATIVE_MOUNTS_MAX)
		return error_set(err, E2BIG, "more than %d mounts", NATIVE_MOUNTS_MAX);
	if (spec->restore && spec->id && durable_clear(n, spec->id, err) < 0)
		return -err->code;
	part = spec->durable ? prepared_take(n, spec->id) : NULL;
	/* init of a prepared part runs already, and without this filter. */
	if (part && native_forbids_set_id(spec)) {
		prepared_end(part);
		part = NULL;
	}
	if (part) {
		r = prepared_finish(part, spec, ret_sandbox, err);
		/*
		 * The prepared part died while it waited: create the sandbox without it.
		 */
		if (r != -EPIPE)
			return r;
		*err = (struct warren_error)WARREN_ERROR_INIT;
	}
	r = create_op_begin(&m, n, spec->id, err);
	if (r < 0)
		return r;
	m.plan->no_set_id = native_forbids_set_id(spec);
	m.plan->inject = n->inject.step - (int)ARRAY_SIZE(steps);
	m.plan->crash = n->inject.crash;
	r = create_op_hear_child(&m, create_op_run(&m, steps, ARRAY_SIZE(steps), 1, err),
				 err);
	create_op_end(&m, r);
	if (r == 0)
		*ret_sandbox = &m.sandbox->base;
	return r;
}
