/* SPDX-License-Identifier: Apache-2.0 */
/* lifecycle.c - create, find again and destroy a sandbox and its shim */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "backend/shimmed/shimmed.h"
#include "base/fd.h"
#include "base/json.h"
#include "os/pidfd.h"
#include "spec/spec.h"

#define SHIM_END_MS  500      /* time for a killed shim to end by itself */
#define SHIM_KILL_MS 20000    /* time for a killed shim to disappear */
#define PLACE_NEW    "place~" /* the file "place" until it is complete */
#define TEXT_MAX     (16U << 20)

/* ------------------------------------------------------------ input of the shim */

static int shimmed_write_config(const struct shimmed *k, int dir, const char *id,
				struct warren_error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(TEXT_MAX);
	AUTO_FREE char *saved = shimmed_saved_path(k);
	struct json j = { .out = &text };
	AUTO_CLOSE int fd = -1;
	int r;

	if (!saved)
		return error_errno(err, ENOMEM, "record the sandbox");
	json_open(&j, NULL, '{');
	json_str(&j, "kind", k->kind);
	json_str(&j, "id", id);
	json_str(&j, "engine", k->name);
	json_str(&j, "state_dir", k->state_dir);
	json_str(&j, "saved_dir", saved);
	if (k->config)
		json_raw(&j, "config", k->config, strlen(k->config));
	json_close(&j, '}');
	/* The file is complete or does not exist, even if this process is killed. */
	(void)unlinkat(dir, PLACE_NEW, 0);
	fd = openat(dir, PLACE_NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	r = text.failed ? -ENOMEM
	    : fd < 0    ? -errno
			: fd_write_all(fd, text.data, text.len);
	if (r == 0 && renameat(dir, PLACE_NEW, dir, "place") < 0)
		r = -errno;
	return r < 0 ? error_errno(err, -r, "record the sandbox") : 0;
}

/*
 * Identify the file of a source: the shim opens it by name, and accepts only this file.
 * The descriptor stays open until the sandbox exists, so that no other file can get the
 * same inode number.
 */
static int put_identity(struct json *j, const struct warren_mount *m,
			struct warren_error *err)
{
	char text[64];
	struct stat st;

	if (!m->source_fd || m->volume)
		return 0;
	if (fstat(m->source_fd, &st) < 0)
		return error_errno(err, errno, "volume '%s'", m->source);
	(void)snprintf(text, sizeof(text), "%jx:%jx", (uintmax_t)st.st_dev,
		       (uintmax_t)st.st_ino);
	json_str(j, "is", text);
	return 0;
}

static int put_mounts(struct json *j, const char *name, const struct warren_spec *s,
		      struct warren_error *err)
{
	int r = 0;

	json_open(j, name, '[');
	for (size_t i = 0; r == 0 && i < s->n_mounts; i++) {
		json_open(j, NULL, '{');
		if (s->mounts[i].source)
			json_str(j, "source", s->mounts[i].source);
		json_str(j, "target", s->mounts[i].target);
		json_bool(j, "read_only", s->mounts[i].read_only);
		json_bool(j, "volume", s->mounts[i].volume);
		json_u64(j, "size", s->mounts[i].size);
		r = put_identity(j, &s->mounts[i], err);
		json_close(j, '}');
	}
	json_close(j, ']');
	return r;
}

/* shim/core/spec.c reads this. */
static int put_spec_field(struct json *j, const struct warren_spec *s,
			  const struct spec_field *f, struct warren_error *err)
{
	switch (f->kind) {
	case SPEC_TEXT:
		if (spec_text_get(s, f))
			json_str(j, f->name, spec_text_get(s, f));
		return 0;
	case SPEC_FLAG:
		json_bool(j, f->name, spec_flag_get(s, f));
		return 0;
	case SPEC_SOFT_LIMITS:
		json_u64(j, f->name, s->soft_limits);
		return 0;
	case SPEC_NETWORK:
		json_u64(j, f->name, s->network);
		return 0;
	case SPEC_ENV:
		json_open(j, f->name, '[');
		for (const char *const *v = s->env; v && *v; v++)
			json_str(j, NULL, *v);
		json_close(j, ']');
		return 0;
	case SPEC_MOUNTS:
		return put_mounts(j, f->name, s, err);
	}
	return -EINVAL;
}

static int put_spec(struct json *j, const struct warren_spec *s, struct warren_error *err)
{
	int r = 0;

	json_open(j, NULL, '{');
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++)
		json_u64(j, spec_limits[i].name, spec_limit_get(s, i));
	for (size_t i = 0; r == 0 && i < spec_n_fields; i++)
		r = put_spec_field(j, s, &spec_fields[i], err);
	json_close(j, '}');
	return r;
}

static int lifecycle_write_spec(const struct warren_spec *spec, int *ret_fd,
				struct warren_error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(TEXT_MAX);
	AUTO_CLOSE int fd = memfd_create("warren-spec", MFD_CLOEXEC);
	struct json j = { .out = &text };
	int r;

	r = put_spec(&j, spec, err);
	if (r < 0)
		return r;
	r = fd < 0        ? -errno
	    : text.failed ? -E2BIG
			  : fd_write_all(fd, text.data, text.len);
	if (r < 0)
		return error_errno(err, -r, "write the spec");
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* ------------------------------------------------------------------------ destruction */

static void remove_files(int dir, const char *id)
{
	AUTO_CLOSE int fd =
		openat(dir, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	static const char *const files[] = { "made", "paused", PLACE_NEW, "place",
					     "image" };

	for (size_t i = 0; fd >= 0 && i < ARRAY_SIZE(files); i++)
		(void)unlinkat(fd, files[i], 0);
	(void)unlinkat(dir, id, AT_REMOVEDIR);
}

int shimmed_end_shim(int dir, const char *id, struct warren_error *err)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET }, again = lock;
	AUTO_CLOSE int fd = -1, pidfd = -1;
	char path[ID_LEN + 8];
	int r;

	(void)snprintf(path, sizeof(path), "%s/place", id);
	fd = openat(dir, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK ||
	    lock.l_pid <= 0)
		return 0;
	pidfd = pidfd_open(lock.l_pid, 0);
	/* The number may belong to another process by now. */
	if (pidfd < 0 || fcntl(fd, F_GETLK, &again) < 0 || again.l_type == F_UNLCK ||
	    again.l_pid != lock.l_pid)
		return 0;
	r = pidfd_end(pidfd, SHIM_KILL_MS);
	return r < 0 ? error_errno(err, -r, "end the shim of '%s'", id) : 0;
}

int shimmed_remove(const struct shimmed *k, int dir, const char *path, const char *id,
		   struct warren_error *err)
{
	char place[ID_LEN + 8];
	struct stat st;
	int r = 0;

	(void)snprintf(place, sizeof(place), "%s/place", id);
	/*
	 * Without this file, nothing was created, or the shim has determined that nothing
	 * is left. An older version that was killed has left it empty.
	 */
	if (fstatat(dir, place, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0)
		r = shimmed_call(k, "destroy", path, id, NULL, NULL, -1, NULL, err);
	if (r < 0)
		return r;
	sandbox_socket_remove(k->sandboxes_fd, id);
	remove_files(dir, id);
	if (faccessat(dir, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return error_set(err, ENOTEMPTY, "files are left in '%s/%s'", path, id);
	return 0;
}

/* The engine has all information that the directory had. */
int shimmed_reclaim(const struct shimmed *k, const char *id, struct warren_error *err)
{
	AUTO_CLOSE int dir = -1, made = -1;
	struct stat st;
	int r;

	(void)mkdirat(k->dir_fd, id, 0700);
	dir = openat(k->dir_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return error_errno(err, errno, "open '%s/%s', to remove it", k->path, id);
	if (fstatat(dir, "place", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0)
		return 0;
	r = shimmed_write_config(k, dir, id, err);
	if (r < 0)
		return r;
	/* Without this file, the process that removes the sandbox would not look for
	 * running processes. */
	made = openat(dir, "made", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return made < 0 ? error_errno(err, errno, "mark '%s/%s' as created", k->path, id)
			: 0;
}

static void lifecycle_await_end(const struct shimmed_sandbox *sandbox, int timeout_ms)
{
	struct pollfd p = { .fd = sandbox->pidfd, .events = POLLIN };

	while (sandbox->pidfd >= 0 && poll(&p, 1, timeout_ms) < 0 && errno == EINTR)
		;
}

void shimmed_forget(struct backend_sandbox *base)
{
	struct shimmed_sandbox *sandbox = (struct shimmed_sandbox *)base;

	initclient_done(shimmed_talk(sandbox));
	free(sandbox);
}

static int lifecycle_remove(struct shimmed *k, struct shimmed_sandbox *sandbox,
			    struct warren_error *err)
{
	const char *id = sandbox->base.id;
	int r;

	if (sandbox->pidfd >= 0)
		(void)pidfd_send_signal(sandbox->pidfd, SIGKILL, NULL, 0);
	/*
	 * A frozen shim or sandbox ends only after its platform has thawed it. This
	 * concerns a paused sandbox, or one whose shim was killed while it was ending the
	 * sandbox.
	 */
	lifecycle_await_end(sandbox, shimmed_is_paused(k, id, NULL) ? 0 : SHIM_END_MS);
	r = sandbox->ready ? shimmed_reclaim(k, id, err) : 0;
	if (r == 0)
		r = shimmed_remove(k, k->dir_fd, k->path, id, err);
	if (r == 0 && sandbox->pidfd >= 0)
		r = pidfd_end(sandbox->pidfd, SHIM_KILL_MS);
	if (r == -EBUSY && !err->code)
		(void)error_set(err, EBUSY,
				"the shim of '%s' was killed but still exists after "
				"%d seconds",
				id, SHIM_KILL_MS / 1000);
	return r;
}

int shimmed_destroy(void *state, struct backend_sandbox *base, struct warren_error *err)
{
	int r = lifecycle_remove(state, (struct shimmed_sandbox *)base, err);

	shimmed_forget(base);
	return r;
}

void shimmed_release(void *state UNUSED, struct backend_sandbox *base)
{
	shimmed_forget(base);
}

/* --------------------------------------------------------------------------- creation */

static struct shimmed_sandbox *lifecycle_sandbox_new(struct shimmed *k)
{
	struct shimmed_sandbox *sandbox = calloc(1, sizeof(*sandbox));

	if (sandbox) {
		sandbox->engine = k;
		sandbox->pidfd = sandbox->control = -1;
		sandbox->may_take_long = true;
	}
	return sandbox;
}

void shimmed_keep_left(struct shimmed *k, const char *id)
{
	struct shimmed_sandbox *sandbox = lifecycle_sandbox_new(k);

	if (!sandbox)
		return; /* the next engine tries again */
	(void)memcpy(sandbox->base.id, id, sizeof(sandbox->base.id));
	sandbox->has_dir = sandbox->has_socket = true;
	left_put(&k->left, &sandbox->base);
}

static int lifecycle_undo(struct shimmed *k, struct shimmed_sandbox *sandbox,
			  struct warren_error *err);

/*
 * Before a sandbox wakes, remove leftovers: of an attempt to save or wake it that failed,
 * because they would be removed together with the sandbox later, and of an earlier engine
 * that was killed in between. -EEXIST: the sandbox is awake.
 */
static int lifecycle_clear(struct shimmed *k, const char *id, struct warren_error *err)
{
	struct sandbox_socket_look look = { 0 };
	struct backend_sandbox *left;
	int r = 0;

	while (r == 0 && (left = left_take(&k->left, id)))
		r = lifecycle_undo(k, (struct shimmed_sandbox *)left, err);
	if (r < 0)
		return r;
	if (faccessat(k->dir_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	(void)memcpy(look.id, id, sizeof(look.id));
	sandbox_socket_look_at(k->sandboxes_fd, &look, 1);
	if (look.alive && !look.dying)
		return error_set(err, EEXIST, "sandbox '%s' already exists", id);
	r = shimmed_end_shim(k->dir_fd, id, err);
	return r < 0 ? r : shimmed_remove(k, k->dir_fd, k->path, id, err);
}

/*
 * Create the sandbox's directory first; then its socket, whose name no sandbox of any
 * backend shares; and only then the file that is needed to destroy the sandbox on its
 * platform.
 */
static int lifecycle_claim(const struct shimmed *k, struct shimmed_sandbox *sandbox,
			   int *ret_listener, struct warren_error *err)
{
	AUTO_CLOSE int dir = -1;
	const char *id = sandbox->base.id;
	int r;

	if (mkdirat(k->dir_fd, id, 0700) < 0)
		return errno == EEXIST
			       ? error_set(err, EEXIST, "sandbox '%s' already exists", id)
			       : error_errno(err, errno, "record the sandbox in '%s'",
					     k->path);
	sandbox->has_dir = true;
	dir = openat(k->dir_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return error_errno(err, errno, "open '%s/%s'", k->path, id);
	r = sandbox_socket_bind(k->sandboxes_fd, id, ret_listener, err);
	if (r < 0)
		return r;
	sandbox->has_socket = true;
	return shimmed_write_config(k, dir, id, err);
}

/*
 * Undo a failed creation: remove what belongs to this sandbox, and nothing of another. If
 * that fails, a named engine keeps @sandbox.
 */
static int lifecycle_undo(struct shimmed *k, struct shimmed_sandbox *sandbox,
			  struct warren_error *err)
{
	int r = sandbox->has_socket ? lifecycle_remove(k, sandbox, err) : 0;

	if (r < 0 && k->named) {
		left_put(&k->left, &sandbox->base);
		return r;
	}
	if (!sandbox->has_socket && sandbox->has_dir)
		remove_files(k->dir_fd, sandbox->base.id);
	shimmed_forget(&sandbox->base);
	return r;
}

/* Receive what the shim found out, and check its identity. */
static int get_acquainted(const struct shimmed *k, struct shimmed_sandbox *sandbox,
			  struct warren_error *err)
{
	struct initclient_sandbox other = { .ready = true, .pidfd = -1 };
	char path[ID_LEN + 8], id[ID_LEN + 1];
	AUTO_FREE char *text = NULL;
	AUTO_CLOSE int fd = -1, line = -1;
	struct stat st;
	uid_t uid = 0;
	int r;

	(void)strcpy(id, sandbox->base.id);
	(void)snprintf(path, sizeof(path), "%s/made", id);
	fd = openat(k->dir_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > STATE_MAX)
		return error_errno(err, fd < 0 ? errno : EFBIG, "read the shim's answer");
	text = malloc((size_t)st.st_size + 1);
	if (!text || fd_read_all(fd, text, (size_t)st.st_size) != st.st_size)
		return error_errno(err, EIO, "read the shim's answer");
	r = state_parse(shimmed_talk(sandbox), NULL, TAKE_PTR(text), (size_t)st.st_size,
			err);
	if (r < 0)
		return r;
	if (strcmp(sandbox->base.id, id) != 0)
		return error_set(err, EPROTO, "the shim belongs to another sandbox");
	line = sandbox_socket_dial(k->sandboxes_fd, id);
	if (line < 0)
		return error_errno(err, -line, "connect to its shim");
	other.control = line;
	r = sandbox_socket_identify(&other, &uid, err);
	sandbox->pidfd = other.pidfd;
	sandbox->pid = other.pid;
	sandbox_socket_note_init(shimmed_talk(sandbox));
	return r;
}

static int start_shim(const struct shimmed *k, struct shimmed_sandbox *sandbox,
		      const struct warren_spec *spec, int listener,
		      struct warren_error *err)
{
	AUTO_CLOSE int text = -1, theirs = -1;
	int fds[SHIM_FDS_MAX], ends[2], r = lifecycle_write_spec(spec, &text, err);
	size_t n = 3;

	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_errno(err, errno, "create a connection");
	sandbox->control = ends[0];
	theirs = ends[1];
	fds[0] = theirs;
	fds[1] = listener;
	fds[2] = text;
	for (size_t i = 0; i < spec->n_mounts; i++) {
		if (!spec->mounts[i].volume)
			continue;
		if (n == SHIM_FDS_MAX)
			return error_set(err, E2BIG, "more than %d volumes",
					 SHIM_FDS_MAX - 3);
		fds[n++] = spec->mounts[i].source_fd;
	}
	return shimmed_start(k, sandbox->base.id, fds, n, err);
}

static int lifecycle_make(struct shimmed *k, struct shimmed_sandbox *sandbox,
			  const struct warren_spec *spec, struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_CLOSE int listener = -1;
	int r;

	if (spec->durable && !k->named)
		return error_set(err, EINVAL,
				 "a durable sandbox needs an engine with a name");
	if (spec->one_shot && spec->durable)
		return error_set(err, EINVAL,
				 "a sandbox for a single exec cannot be durable");
	r = spec->restore ? lifecycle_clear(k, sandbox->base.id, err) : 0;
	if (r == 0)
		r = lifecycle_claim(k, sandbox, &listener, err);
	if (r == 0)
		r = start_shim(k, sandbox, spec, listener, err);
	if (r == 0)
		r = client_wait_ready(shimmed_talk(sandbox), err);
	sandbox->ready = r == 0;
	if (r == 0)
		r = get_acquainted(k, sandbox, err);
	if (r == 0 && spec->durable)
		r = sandbox_socket_write_state(k->sandboxes_fd, shimmed_talk(sandbox),
					       NULL, err);
	if (r == 0 && spec->durable)
		r = sandbox_socket_keep(shimmed_talk(sandbox), err);
	/* If this fails, the next engine removes it. */
	if (r == 0 && spec->restore)
		(void)shimmed_drop_saved(k, sandbox->base.id, &ignored);
	return r;
}

int shimmed_create(void *state, const struct warren_spec *spec,
		   struct backend_sandbox **ret_sandbox, struct warren_error *err)
{
	struct shimmed *k = state;
	struct shimmed_sandbox *sandbox = lifecycle_sandbox_new(k);
	struct warren_error ignored = WARREN_ERROR_INIT;
	int r;

	if (!sandbox)
		return error_errno(err, ENOMEM, "allocate a sandbox");
	if (spec->id)
		(void)memcpy(sandbox->base.id, spec->id, sizeof(sandbox->base.id));
	else
		id_make(sandbox->base.id);
	r = lifecycle_make(k, sandbox, spec, err);
	if (r < 0) {
		(void)lifecycle_undo(k, sandbox, &ignored);
		return r;
	}
	*ret_sandbox = &sandbox->base;
	return 0;
}

/* --------------------------------------------------------------------------- search */

/* Is @id a sandbox of another engine, which knows how to destroy it? */
static bool is_elsewhere(const struct shimmed *k, const char *id)
{
	int copy = openat(k->all_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;
	bool found = false;

	while (d && !found && (e = readdir(d))) {
		char path[NAME_MAX + ID_LEN + 2];

		(void)snprintf(path, sizeof(path), "%s/%s", e->d_name, id);
		found = strchr(e->d_name, '.') && e->d_name[0] != '.' &&
			faccessat(k->all_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	}
	if (d)
		(void)closedir(d);
	return found;
}

int shimmed_list(void *state, char ***ret_ids, struct warren_error *err)
{
	struct shimmed *k = state;
	AUTO_BUF struct buf ids = BUF_INIT(1U << 20);
	int copy = openat(k->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	if (!k->named || !d) {
		if (d)
			(void)closedir(d);
		return k->named
			       ? error_errno(err, errno, "open '%s'", k->path)
			       : error_set(
					 err, EINVAL,
					 "an engine without a name has no durable sandboxes");
	}
	while ((e = readdir(d)))
		if (id_valid(e->d_name) &&
		    sandbox_socket_has_state(k->sandboxes_fd, e->d_name))
			buf_add(&ids, e->d_name, ID_LEN + 1);
	(void)closedir(d);
	left_list(&k->left, &ids);
	return sandbox_socket_pack_ids(&ids, ret_ids, err);
}

bool shimmed_is_paused(const struct shimmed *k, const char *id, bool *ret_left)
{
	char path[ID_LEN + 10];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/paused", id);
	if (fstatat(k->dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	if (ret_left)
		*ret_left = st.st_size > 0;
	return true;
}

/*
 * Open a handle of a live sandbox. Connect to it if @line is set, or if it is paused,
 * because only its shim knows whether it is also saved. -ESRCH: it is dead, or its
 * creation was never completed.
 */
static int lifecycle_take_up(struct shimmed *k, struct shimmed_sandbox *sandbox,
			     bool line, struct warren_error *err)
{
	uid_t uid = 0;
	bool paused = shimmed_is_paused(k, sandbox->base.id, &sandbox->left_paused);
	int r = sandbox_socket_find_init(k->sandboxes_fd, shimmed_talk(sandbox), &uid,
					 err);

	if (r == 0 && uid != geteuid())
		r = error_set(err, EPERM, "its shim belongs to another user (uid %u)",
			      uid);
	if (r == 0 && (line || paused))
		r = sandbox_socket_open_line(k->sandboxes_fd, shimmed_talk(sandbox), err);
	sandbox->paused = sandbox->saved || paused;
	return r;
}

static int lifecycle_find(struct shimmed *k, const char *id, bool line,
			  struct backend_sandbox **ret_sandbox, struct warren_error *err)
{
	struct shimmed_sandbox *sandbox;
	struct backend_sandbox *left;
	int r;

	if (!k->named)
		return error_set(err, EINVAL,
				 "an engine without a name has no durable sandboxes");
	/* The creation was never completed: remove what is left. */
	left = left_take(&k->left, id);
	if (left) {
		r = lifecycle_undo(k, (struct shimmed_sandbox *)left, err);
		return r < 0 ? r : error_set(err, ESRCH, "it could not be created");
	}
	/*
	 * If a sandbox has lost its directory, find it by its state file, unless it
	 * belongs to another engine.
	 */
	if (faccessat(k->dir_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
	    (!sandbox_socket_has_state(k->sandboxes_fd, id) || is_elsewhere(k, id)))
		return error_set(err, ENOENT, "there is no such sandbox");
	sandbox = lifecycle_sandbox_new(k);
	if (!sandbox)
		return error_errno(err, ENOMEM, "allocate a handle");
	sandbox->ready = true;
	r = sandbox_socket_read_state(k->sandboxes_fd, id, shimmed_talk(sandbox), NULL,
				      err);
	if (r == 0)
		r = lifecycle_take_up(k, sandbox, line, err);
	if (r == -ESRCH) {
		struct warren_error second = WARREN_ERROR_INIT;

		/* If nothing is left, the next call returns -ENOENT. */
		if (shimmed_destroy(k, &sandbox->base, &second) < 0)
			(void)error_set(err, ESRCH,
					"it has ended, and its remains cannot be "
					"removed: %s",
					second.msg);
		return r;
	}
	if (r < 0) {
		shimmed_forget(&sandbox->base);
		return r;
	}
	sandbox->base.durable = true;
	*ret_sandbox = &sandbox->base;
	return 0;
}

int shimmed_find(void *state, const char *id, struct backend_sandbox **ret_sandbox,
		 struct warren_error *err)
{
	return lifecycle_find(state, id, false, ret_sandbox, err);
}

int shimmed_adopt(void *state, const char *id, struct backend_sandbox **ret_sandbox,
		  struct warren_error *err)
{
	return lifecycle_find(state, id, true, ret_sandbox, err);
}
