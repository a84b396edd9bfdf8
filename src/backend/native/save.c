/* SPDX-License-Identifier: Apache-2.0 */
/*
 * save.c - copy the files of a sandbox; save them for a sandbox that hibernates
 *
 * Everything that was written to the root is in the upper directory of its overlay, to
 * which init has a descriptor (PROTO_FD_UPPER). A compromised init could present another
 *directory as this one, so only a process without privileges on the host may read it.
 *Therefore a child of this process does the copy, as root of a user namespace with the
 *ids of the sandbox: it can read what the sandbox can read, and no more. It writes
 *through a mount that maps these ids back.
 *
 *	<state_dir>/saved/<id>		the files of a sandbox that hibernates
 *	<state_dir>/saved/.new-<id>	an incomplete copy
 *	<state_dir>/saved/.image-<id>	the image that the files belong to, by its id
 *	<state_dir>/saved/.frozen-<id>	a marker: its processes are stopped during a copy
 *
 * A saved directory is valid only while no sandbox of that id lives: it gets its name
 * before the sandbox ends, and is removed after the sandbox is back. The next engine of
 * the same name removes what a crash left in between (saved_sweep()).
 */
#include <linux/sched.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "backend/native/create_op.h"
#include "backend/native/durable.h"
#include "backend/saved.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/copy.h"
#include "image/ref.h"
#include "image/store.h"
#include "initclient/sandbox_socket.h"
#include "os/mount.h"
#include "os/ns.h"
#include "os/tree_copy.h"

#define SAVED_NEW    "new-"
#define SAVED_FROZEN "frozen-"
#define SAVED_IMAGE  "image-"
/* Size of a name that begins with a dot and one of these prefixes. */
#define SAVED_NAME_SIZE (sizeof("." SAVED_FROZEN) + ID_LEN)

/* ------------------------------------------------------------- the child's side */

struct save_report {
	struct warren_error err; /* code 0: success */
	struct tree_copy copy;
};

/* The numbers of the child's descriptors; all others are closed. */
enum {
	SAVE_CONTROL = 3,
	SAVE_FROM,
	SAVE_FDS,
};

static int save_become_root(struct warren_error *err)
{
	/* -EPERM: the one-id map of an ordinary user forbids it. */
	if (syscall(SYS_setgroups, 0, NULL) < 0 && errno != EPERM)
		return error_errno(err, errno, "setgroups");
	if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
		return error_errno(err, errno, "become root of the user namespace");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return error_errno(err, errno, "prctl");
	return 0;
}

static int save_place_fds(int control, int from, struct warren_error *err)
{
	int high[] = { fcntl(control, F_DUPFD_CLOEXEC, SAVE_FDS),
		       fcntl(from, F_DUPFD_CLOEXEC, SAVE_FDS) };

	if (high[0] < 0 || high[1] < 0 || dup2(high[0], SAVE_CONTROL) < 0 ||
	    dup2(high[1], SAVE_FROM) < 0 || close_range(SAVE_FDS, ~0U, 0) < 0)
		return error_errno(err, errno, "place the descriptors");
	return 0;
}

/* Wait for two messages: the ids are mapped (with the destination), and begin. */
static int save_await(int *ret_to, struct warren_error *err)
{
	size_t n_fds = 1;
	char byte;
	ssize_t n = fd_recv(SAVE_CONTROL, &byte, 1, ret_to, &n_fds, 0);

	if (n == 1 && n_fds == 1)
		return 0;
	return error_errno(err, n < 0 ? (int)-n : EPIPE, "wait for the directory");
}

static int save_await_begin(struct warren_error *err)
{
	char byte;
	ssize_t n = recv(SAVE_CONTROL, &byte, 1, 0);

	return n == 1 ? 0 : error_errno(err, n < 0 ? errno : EPIPE, "wait to begin");
}

/* Runs after clone(2) of a process with threads: no malloc(3), no locks. */
_Noreturn static void save_main(int control, int from, bool only_root)
{
	struct save_report report = { .err = WARREN_ERROR_INIT,
				      .copy = { .only_root = only_root } };
	int to = -1, r;

	if (save_place_fds(control, from, &report.err) < 0)
		_exit(1);
	r = save_await(&to, &report.err);
	if (r == 0)
		r = save_become_root(&report.err);
	if (r == 0)
		r = save_await_begin(&report.err);
	if (r == 0)
		r = tree_copy(SAVE_FROM, to, &report.copy, &report.err);
	if (r == 0)
		report.err = (struct warren_error)WARREN_ERROR_INIT;
	(void)fd_send(SAVE_CONTROL, &report, sizeof(report), NULL, 0);
	_exit(0);
}

/* ---------------------------------------------------------------- our own side */

struct save_child {
	int pidfd, control;
};

static void save_child_done(struct save_child *c)
{
	siginfo_t info;

	if (c->pidfd >= 0) {
		(void)pidfd_send_signal(c->pidfd, SIGKILL, NULL, 0);
		/* -ECHILD: SIGCHLD is ignored, as in the warden. */
		while (waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED) < 0 &&
		       errno == EINTR)
			;
		(void)close(c->pidfd);
	}
	if (c->control >= 0)
		(void)close(c->control);
}

/* Map the child's ids, and give it the destination. */
static int save_admit(const struct native_sandbox *sandbox, pid_t pid, int control,
		      int dir, struct warren_error *err)
{
	const struct native *n = sandbox->engine;
	AUTO_CLOSE int userns = -1, to = -1;
	struct ns_maps maps;
	int r;

	idmap_sandbox(n, sandbox, &maps);
	r = ns_write_maps(pid, &maps, n->privileged, err);
	if (r == 0 && n->privileged) {
		userns = ns_open(pid, "user");
		if (userns < 0)
			return error_errno(err, -userns, "open the user namespace");
		r = mount_copy(dir, "", false,
			       MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
			       userns, &to, err);
	}
	if (r < 0)
		return r;
	r = fd_send(control, "", 1, n->privileged ? &to : &dir, 1);
	return r < 0 ? error_errno(err, -r, "send the directory") : 0;
}

static int save_child_start(const struct native_sandbox *sandbox, int from, int dir,
			    struct save_child *ret, struct warren_error *err)
{
	int pair[2], pidfd = -1;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_errno(err, errno, "create a connection");
	pid = ns_clone(CLONE_NEWUSER | CLONE_CLEAR_SIGHAND, NS_CGROUP_SAME, &pidfd);
	if (pid == 0) {
		(void)close(pair[0]);
		save_main(pair[1], from, !sandbox->engine->privileged);
	}
	(void)close(pair[1]);
	*ret = (struct save_child){ .pidfd = pid < 0 ? -1 : pidfd, .control = pair[0] };
	if (pid < 0)
		return error_errno(err, -pid, "start a process for the copy");
	return save_admit(sandbox, pid, pair[0], dir, err);
}

static int save_child_copy(const struct save_child *c, struct tree_copy *ret,
			   struct warren_error *err)
{
	struct save_report report;
	size_t n_fds = 0;
	ssize_t n;
	int r = fd_send(c->control, "", 1, NULL, 0);

	if (r < 0)
		return error_errno(err, -r, "begin the copy");
	n = fd_recv(c->control, &report, sizeof(report), NULL, &n_fds, 0);
	if (n != (ssize_t)sizeof(report))
		return error_set(err, EIO, "the process that copies the files has ended");
	report.err.msg[sizeof(report.err.msg) - 1] = '\0';
	if (report.err.code) {
		*err = report.err;
		return -err->code;
	}
	*ret = report.copy;
	return 0;
}

/*
 * Root takes the descriptor from the init process, which need not answer: it may be
 * frozen or compromised. An ordinary user is not allowed to do that, and sends init a
 * request.
 */
static int save_upper(struct native_sandbox *sandbox, int *ret_fd,
		      struct warren_error *err)
{
	struct proto_upper msg = { .h = { .type = PROTO_UPPER } };
	CLEANUP(init_reply_done) struct init_reply a = { 0 };
	struct stat st;
	int r;

	if (sandbox->engine->privileged) {
		*ret_fd =
			(int)syscall(SYS_pidfd_getfd, sandbox->pidfd, PROTO_FD_UPPER, 0);
		if (*ret_fd < 0 && errno != EBADF)
			return error_errno(err, errno, "open the sandbox's files");
	} else {
		r = client_ask(native_talk(sandbox), &msg, sizeof(msg), -1, &a, err);
		if (r < 0)
			return r;
		*ret_fd = init_reply_take_only(&a);
	}
	if (*ret_fd >= 0 && fstat(*ret_fd, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	if (*ret_fd >= 0)
		(void)close(*ret_fd);
	return error_set(err, EOPNOTSUPP,
			 "an older version of Warren created it, which does not allow "
			 "its files to be saved");
}

/*
 * -ENOENT, without a message in @err: the directory does not exist, and @make is false.
 */
static int save_open_dir(const struct native *n, bool make, struct warren_error *err)
{
	AUTO_CLOSE int state = open(n->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd;

	if (state >= 0 && make && mkdirat(state, "saved", 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "create '%s/saved'", n->state_dir);
	fd = state < 0 ? -1
		       : openat(state, "saved",
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	if (errno == ENOENT && !make)
		return -ENOENT;
	return error_errno(err, errno, "open '%s/saved'", n->state_dir);
}

static void save_frozen_name(char name[SAVED_NAME_SIZE], const char *id)
{
	(void)snprintf(name, SAVED_NAME_SIZE, "." SAVED_FROZEN "%s", id);
}

/*
 * Stop the processes. If this process is killed, the marker file tells the next engine of
 * this name to let them continue.
 */
static int save_freeze(struct native_sandbox *sandbox, struct warren_error *err)
{
	struct native *n = sandbox->engine;
	AUTO_CLOSE int saved = -1, file = -1;
	char name[SAVED_NAME_SIZE];

	if (n->named) {
		saved = save_open_dir(n, true, err);
		if (saved < 0)
			return saved;
		save_frozen_name(name, sandbox->base.id);
		file = openat(saved, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
			      0600);
		if (file < 0)
			return error_errno(err, errno, "create '%s/saved/%s'",
					   n->state_dir, name);
	}
	return backend_native.pause(n, &sandbox->base, true, err);
}

static void save_forget_freeze(const struct native *n, const char *id)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_CLOSE int saved = n->named ? save_open_dir(n, false, &ignored) : -1;
	char name[SAVED_NAME_SIZE];

	save_frozen_name(name, id);
	if (saved >= 0)
		(void)unlinkat(saved, name, 0);
}

static int save_thaw(struct native_sandbox *sandbox, struct warren_error *err)
{
	struct native *n = sandbox->engine;
	int r = backend_native.pause(n, &sandbox->base, false, err);

	if (r == 0)
		save_forget_freeze(n, sandbox->base.id);
	return r;
}

static int save_frozen(struct native_sandbox *sandbox, const struct save_child *child,
		       bool freeze, struct warren_saved *ret, struct warren_error *err)
{
	struct warren_error second = WARREN_ERROR_INIT;
	struct tree_copy copy = { 0 };
	uint64_t since;
	int r = 0, r2 = 0;

	if (freeze)
		r = save_freeze(sandbox, err);
	if (r < 0)
		return r;
	since = clock_now();
	r = save_child_copy(child, &copy, err);
	if (freeze)
		r2 = save_thaw(sandbox, &second);
	ret->frozen_ns = freeze ? clock_now() - since : 0;
	if (r == 0 && r2 < 0) {
		*err = second;
		r = r2;
	}
	if (r == 0) {
		ret->files = copy.files;
		ret->bytes = copy.bytes;
	}
	return r;
}

static int save_to(struct native_sandbox *sandbox, int dir, unsigned flags,
		   struct warren_saved *ret, struct warren_error *err)
{
	struct save_child child = { -1, -1 };
	AUTO_CLOSE int from = -1;
	bool freeze = !(flags & WARREN_SAVE_UNFROZEN) && !sandbox->paused;
	int r = save_upper(sandbox, &from, err);

	*ret = (struct warren_saved){ 0 };
	if (r == 0)
		r = saved_check_space(from, dir, err);
	if (r == 0)
		r = save_child_start(sandbox, from, dir, &child, err);
	if (r == 0)
		r = save_frozen(sandbox, &child, freeze, ret, err);
	save_child_done(&child);
	return r;
}

int native_save_files(void *state UNUSED, struct backend_sandbox *base, int dir,
		      unsigned flags, struct warren_saved *ret, struct warren_error *err)
{
	struct native_sandbox *sandbox = (struct native_sandbox *)base;
	int r = save_to(sandbox, dir, flags, ret, err);

	if (r == 0)
		saved_drop_hosts(dir, sandbox->hostname);
	return r;
}

const char *native_image(const struct backend_sandbox *base)
{
	const struct native_sandbox *sandbox = (const struct native_sandbox *)base;

	return sandbox->image ? sandbox->image : "host";
}

/* ------------------------------------------------------------------ hibernating */

static int save_copy_to(struct native_sandbox *sandbox, int saved, const char *temp,
			struct warren_saved *ret, struct warren_error *err)
{
	AUTO_CLOSE int dir = -1;
	int r;

	copy_remove_tree(saved, temp);
	if (mkdirat(saved, temp, 0700) < 0)
		return error_errno(err, errno, "create a directory for its files");
	dir = openat(saved, temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return error_errno(err, errno, "open the directory for its files");
	r = save_to(sandbox, dir, WARREN_SAVE_UNFROZEN, ret, err);
	if (r == 0 && syncfs(dir) < 0)
		r = error_errno(err, errno, "write its files to disk");
	return r;
}

/*
 * The files make sense only on top of the same image, to which its name may not refer any
 * more when the sandbox comes back.
 */
static int save_note_image(const struct native_sandbox *sandbox, int saved,
			   struct warren_error *err)
{
	const char *image = native_image(&sandbox->base);
	char name[SAVED_NAME_SIZE];
	AUTO_CLOSE int fd = -1;
	int r;

	(void)snprintf(name, sizeof(name), "." SAVED_IMAGE "%s", sandbox->base.id);
	fd = openat(saved, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	r = fd < 0 ? -errno : fd_write_all(fd, image, strlen(image));
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r < 0 ? error_errno(err, -r, "record the image of its files") : 0;
}

int saved_image(const struct native *n, const char *id, char **ret,
		struct warren_error *err)
{
	AUTO_CLOSE int saved = save_open_dir(n, false, err);
	char name[SAVED_NAME_SIZE], text[4096 + sizeof("dir:")];
	ssize_t size = saved;

	(void)snprintf(name, sizeof(name), "." SAVED_IMAGE "%s", id);
	if (saved >= 0)
		size = fd_read_file_at(saved, name, text, sizeof(text));
	if (size == -ENOENT || size == 0)
		return error_set(err, EREMOTEIO,
				 "the saved files of the sandbox are missing");
	if (size < 0)
		return error_errno(err, (int)-size, "read the image of its saved files");
	*ret = strdup(text);
	return *ret ? 0 : error_errno(err, ENOMEM, "read the image of its saved files");
}

static int save_as(struct native_sandbox *sandbox, int saved, struct warren_saved *ret,
		   struct warren_error *err)
{
	const char *id = sandbox->base.id;
	char temp[sizeof("." SAVED_NEW) + ID_LEN];
	int r;

	(void)snprintf(temp, sizeof(temp), "." SAVED_NEW "%s", id);
	r = save_note_image(sandbox, saved, err);
	if (r == 0 && ref_digest_valid(native_image(&sandbox->base)))
		r = store_pin_image(sandbox->engine->state_dir,
				    native_image(&sandbox->base), id, err);
	if (r == 0)
		r = save_copy_to(sandbox, saved, temp, ret, err);
	if (r == 0) {
		copy_remove_tree(saved, id);
		if (renameat(saved, temp, saved, id) < 0 || fsync(saved) < 0)
			r = error_errno(err, errno, "name the saved files");
	}
	if (r < 0)
		copy_remove_tree(saved, temp);
	return r;
}

/*
 * The processes stay frozen from the copy to their end, so that nothing is written in
 * between.
 */
int native_hibernate(void *state, struct backend_sandbox *base, struct warren_saved *ret,
		     struct warren_error *err)
{
	struct native *n = state;
	struct native_sandbox *sandbox = (struct native_sandbox *)base;
	struct warren_error second = WARREN_ERROR_INIT;
	bool was_paused = sandbox->paused;
	AUTO_CLOSE int saved = -1;
	int r = 0;

	if (!base->durable)
		return error_set(err, EINVAL, "only a durable sandbox can hibernate");
	saved = save_open_dir(n, true, err);
	if (saved < 0)
		return saved;
	if (!was_paused)
		r = save_freeze(sandbox, err);
	if (r < 0)
		return r;
	r = save_as(sandbox, saved, ret, err);
	if (r == 0) {
		char id[ID_LEN + 1];

		/* If this leaves anything behind, the engine removes it later. */
		(void)memcpy(id, base->id, sizeof(id));
		(void)native_undo(n, sandbox, &second);
		save_forget_freeze(n, id);
		return 0;
	}
	if (!was_paused)
		(void)save_thaw(sandbox, &second);
	return r;
}

bool native_has_saved(void *state, const char *id)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_CLOSE int saved = save_open_dir(state, false, &ignored);

	return saved >= 0 && faccessat(saved, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int native_forget_saved(void *state, const char *id, struct warren_error *err)
{
	AUTO_CLOSE int saved = save_open_dir(state, false, err);
	char name[SAVED_NAME_SIZE];

	if (saved < 0)
		return saved == -ENOENT ? 0 : saved;
	copy_remove_tree(saved, id);
	if (faccessat(saved, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return error_set(err, EBUSY, "its saved files cannot be removed");
	(void)snprintf(name, sizeof(name), "." SAVED_IMAGE "%s", id);
	(void)unlinkat(saved, name, 0);
	return 0;
}

int saved_open(struct create_op *m, struct warren_error *err)
{
	AUTO_CLOSE int saved = -1;
	struct native_plan *p = m->plan;

	p->restores = m->spec->restore;
	if (!p->restores)
		return 0;
	saved = save_open_dir(m->engine, false, err);
	if (saved < 0 && saved != -ENOENT)
		return saved;
	errno = ENOENT;
	if (saved >= 0)
		p->saved = openat(saved, m->sandbox->base.id,
				  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (p->saved < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		return error_set(err, EREMOTEIO,
				 "the saved files of the sandbox are missing or damaged");
	return p->saved < 0 ? error_errno(err, errno, "open the saved files") : 0;
}

/* If this fails, the next engine removes them. */
void saved_drop(struct create_op *m)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (m->plan->restores)
		(void)native_forget_saved(m->engine, m->sandbox->base.id, &ignored);
}

/* Return the id in the name of a marker or incomplete copy; NULL: the prefix differs. */
static const char *saved_id(const char *name, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(name, prefix, n) == 0 && id_valid(name + n) ? name + n : NULL;
}

static void saved_sweep_one(struct native *n, int saved, const char *name)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	const char *frozen = saved_id(name, "." SAVED_FROZEN);
	const char *image = saved_id(name, "." SAVED_IMAGE);

	/* An engine was killed before it let the processes continue. */
	if (frozen) {
		if (sandbox_socket_has_state(n->sandboxes_fd, frozen))
			(void)cgroup_freeze(&n->cgroups, frozen, false, &ignored);
		(void)unlinkat(saved, name, 0);
	} else if (image) {
		/* Its files are missing, or the sandbox lives. */
		if (faccessat(saved, image, F_OK, AT_SYMLINK_NOFOLLOW) < 0 ||
		    sandbox_socket_has_state(n->sandboxes_fd, image))
			(void)unlinkat(saved, name, 0);
	} else if (saved_id(name, "." SAVED_NEW) ||
		   (id_valid(name) && sandbox_socket_has_state(n->sandboxes_fd, name))) {
		copy_remove_tree(saved, name);
	}
}

void saved_sweep(struct native *n)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int saved = save_open_dir(n, false, &ignored);
	DIR *d = saved < 0 ? NULL : fdopendir(saved);
	struct dirent *e;

	while (d && (e = readdir(d)))
		saved_sweep_one(n, saved, e->d_name);
	if (d)
		(void)closedir(d);
	else if (saved >= 0)
		(void)close(saved);
}
