/* SPDX-License-Identifier: Apache-2.0 */
/* durable.c - making, finding, adopting and changing sandboxes that outlive their maker */
#include "backend/native/durable.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#include "backend/native/state.h"
#include "base/fd.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

#define LOCK_TRIES    100
#define DYING_TRIES   200
#define CONNECT_SECS  5
#define MEMORY_MIN    (1U << 20)
#define BOX_NAME_SIZE (ID_LEN + sizeof(".state.new"))

static void nap(void)
{
	(void)nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
}

/* ------------------------------------------------------------------- engines */

static bool good_name(const char *name)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	size_t n = strlen(name);

	/* What looks like an id is the name of an engine that does not come back. */
	return n > 0 && n < sizeof(((struct native *)NULL)->name) &&
	       strspn(name, allowed) == n && !id_valid(name);
}

int durable_enrol(struct native *n, int run, int engines, const char *name,
		  struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	int r = -1;

	if (!good_name(name))
		return error_set(err, EINVAL,
				 "engine name '%.40s' is not 1 to 32 letters, digits, "
				 "'-' and '_', or it looks like an id",
				 name);
	(void)strcpy(n->name, name);
	n->named = true;
	fd = openat(engines, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_errno(err, errno, "open the lock file of '%s'", name);
	/* A sandbox half made by a dead engine has the descriptor until it sees that. */
	for (int i = 0; i < LOCK_TRIES && r < 0; i++) {
		r = flock(fd, LOCK_EX | LOCK_NB);
		if (r < 0 && errno != EWOULDBLOCK)
			return error_errno(err, errno, "lock the engine '%s'", name);
		if (r < 0)
			nap();
	}
	if (r < 0)
		return error_set(err, EBUSY, "another process has the engine '%s'", name);
	if (mkdirat(run, "boxes", 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "make the directory 'boxes'");
	n->boxes_fd =
		openat(run, "boxes", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (n->boxes_fd < 0)
		return error_errno(err, errno, "open the directory 'boxes'");
	n->lock_fd = TAKE_FD(fd);
	return 0;
}

/* The sandbox that link @name of ids/ is of, if it is one of ours. */
static bool read_link(const struct native *n, const char *name, char id[ID_LEN + 1])
{
	char target[sizeof(n->name) + ID_LEN + 2];
	ssize_t len = readlinkat(n->ids_fd, name, target, sizeof(target) - 1);
	size_t own = strlen(n->name);

	if (len < 0)
		return false;
	target[len] = '\0';
	if (strncmp(target, n->name, own) != 0 || target[own] != '/' ||
	    !id_valid(target + own + 1))
		return false;
	(void)strcpy(id, target + own + 1);
	return true;
}

static void state_name(char name[BOX_NAME_SIZE], const char *id, const char *suffix)
{
	(void)snprintf(name, BOX_NAME_SIZE, "%s.state%s", id, suffix);
}

static bool has_state(const struct native *n, const char *id)
{
	char name[BOX_NAME_SIZE];

	state_name(name, id, "");
	return faccessat(n->boxes_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* --------------------------------------------------------------- connections */

/* By way of /proc: the name of a socket has 107 characters, that of a directory more. */
static int socket_name(const struct native *n, const char *id, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	return snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s",
			n->boxes_fd, id);
}

/* A connection, or -errno; -ECONNREFUSED and -ENOENT: nobody is there. */
static int dial(const struct native *n, const char *id)
{
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct timeval patience = { .tv_sec = CONNECT_SECS }, none = { 0 };
	struct sockaddr_un name;

	if (fd < 0)
		return -errno;
	(void)socket_name(n, id, &name);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&name, sizeof(name)) < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
	return TAKE_FD(fd);
}

static bool nobody(int r)
{
	return r == -ECONNREFUSED || r == -ENOENT;
}

/* Who listens at the other end of box->control. -ESRCH: nobody any more. */
static int identify(struct native_box *box, struct warren_error *err)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred), fd_len = sizeof(int);
	int fd = -1;

	if (getsockopt(box->control, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return error_errno(err, errno, "ask who its init is");
	if (cred.pid <= 0)
		return error_set(err, ESRCH, "its init is gone");
	/*
	 * On older kernels by number, which is the right one if init answers afterwards
	 * (say_hello()): it had it all the time.
	 */
	if (getsockopt(box->control, SOL_SOCKET, SO_PEERPIDFD, &fd, &fd_len) < 0)
		fd = pidfd_open(cred.pid, 0);
	if (fd < 0)
		return error_errno(err, errno == EINVAL ? ESRCH : errno,
				   "get hold of its init");
	box->pidfd = fd;
	box->pid = cred.pid;
	if (box->engine->privileged &&
	    (cred.uid < box->base_id || cred.uid - box->base_id >= NATIVE_IDS))
		return error_set(err, EPERM, "its init is that of somebody else (uid %u)",
				 cred.uid);
	return 0;
}

static int say_hello(struct native_box *box, struct proto_welcome *ret,
		     struct warren_error *err)
{
	struct proto_hello msg = { .h = { .type = PROTO_HELLO } };
	CLEANUP(answer_done) struct answer a = { 0 };
	int r = client_ask(box, &msg, sizeof(msg), -1, &a, err);

	if (r < 0)
		return r;
	if (a.m.h.type != PROTO_WELCOME)
		return error_set(err, EPROTO,
				 "the sandbox's init does not keep to the protocol");
	*ret = a.m.welcome;
	return 0;
}

int durable_oom_kills(struct native_box *box, uint64_t *ret, struct warren_error *err)
{
	struct proto_welcome welcome;
	int r = say_hello(box, &welcome, err);

	if (r == 0)
		*ret = welcome.oom_kills;
	return r;
}

int durable_connection(void *state, struct backend_box *base, int *ret_fd,
		       struct warren_error *err)
{
	struct native_box *box = (struct native_box *)base;
	AUTO_CLOSE int fd = -1;
	struct native_box other = { .engine = state, .ready = true };
	struct proto_welcome welcome;
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	int r;

	if (!base->durable)
		return error_set(err, EOPNOTSUPP, "it is not durable");
	fd = dial(state, base->id);
	if (fd < 0)
		return error_errno(err, -fd, "dial");
	other.control = fd;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ||
	    cred.pid != box->pid)
		return error_set(err, ESRCH, "its init is gone");
	/* Taken, and not turned away for being one too many. */
	r = say_hello(&other, &welcome, err);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* -------------------------------------------------------------------- making */

int durable_bind(struct native *n, const struct native_box *box, int *ret_fd,
		 struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	struct sockaddr_un name;

	if (!n->named)
		return error_set(err, EINVAL,
				 "a durable sandbox needs an engine with a name");
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_errno(err, errno, "make a socket");
	(void)socket_name(n, box->base.id, &name);
	if (bind(fd, (struct sockaddr *)&name, sizeof(name)) < 0)
		return error_errno(err, errno, "name the socket '%s/boxes/%s'",
				   n->run_dir, box->base.id);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int durable_note(const struct native *n, const struct native_box *box,
		 struct warren_error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(STATE_MAX);
	char name[BOX_NAME_SIZE], fresh[BOX_NAME_SIZE];
	AUTO_CLOSE int fd = -1;
	int r;

	state_encode(box, &text);
	if (text.failed)
		return error_set(err, E2BIG, "its environment is too large to remember");
	state_name(name, box->base.id, "");
	state_name(fresh, box->base.id, ".new");
	fd = openat(n->boxes_fd, fresh,
		    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, text.data, text.len);
	/* It speaks of processes of this boot: whole or not there is enough, no fsync(2). */
	if (r == 0 && renameat(n->boxes_fd, fresh, n->boxes_fd, name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(n->boxes_fd, fresh, 0);
	return r < 0 ? error_errno(err, -r, "write its state") : 0;
}

int durable_keep(struct native_box *box, struct warren_error *err)
{
	struct proto_keep msg = { .h = { .type = PROTO_KEEP } };
	CLEANUP(answer_done) struct answer a = { 0 };
	int r = client_ask(box, &msg, sizeof(msg), -1, &a, err);

	if (r < 0)
		return r;
	r = reply_code(&a.m.reply);
	if (r)
		return error_errno(err, r, "have it kept");
	box->base.durable = true;
	return 0;
}

void durable_remove(const struct native *n, const char *id)
{
	char name[BOX_NAME_SIZE];

	if (n->boxes_fd < 0)
		return;
	/* The state before the socket: without it, what is left is no sandbox. */
	state_name(name, id, "");
	(void)unlinkat(n->boxes_fd, name, 0);
	state_name(name, id, ".new");
	(void)unlinkat(n->boxes_fd, name, 0);
	(void)unlinkat(n->boxes_fd, id, 0);
}

/* ------------------------------------------------------------------- finding */

/* Is init there to stay? What is not complete is about to see that its maker is dead. */
static bool is_alive(struct native *n, const char *id)
{
	for (int i = 0; i < DYING_TRIES; i++) {
		AUTO_CLOSE int fd = dial(n, id);
		struct native_box box = { .engine = n, .control = fd, .ready = true };
		struct warren_error ignored = WARREN_ERROR_INIT;
		struct proto_welcome welcome = { 0 };
		int r = fd;

		if (nobody(fd))
			return false;
		if (fd >= 0 && has_state(n, id))
			r = say_hello(&box, &welcome, &ignored);
		/* One with all its connections taken, or that hangs, is not dead. */
		if (welcome.flags & PROTO_WELCOME_KEPT || r == -EBUSY || r == -ETIMEDOUT)
			return true;
		nap();
	}
	return true;
}

void durable_sweep(struct native *n)
{
	int copy = openat(n->ids_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char id[ID_LEN + 1];

		if (!read_link(n, e->d_name, id) || is_alive(n, id))
			continue;
		/* What cannot be removed keeps its link, for the next one to try. */
		if (cgroup_remove(&n->cgroups, id) < 0)
			continue;
		durable_remove(n, id);
		(void)unlinkat(n->ids_fd, e->d_name, 0);
	}
	if (d)
		(void)closedir(d);
}

/* Pointers first, then what they point to. */
static int pack_ids(const struct buf *ids, char ***ret_ids, struct warren_error *err)
{
	size_t n = ids->len / (ID_LEN + 1);
	char **list = calloc(1, (n + 1) * sizeof(*list) + ids->len);
	char *text;

	if (!list || ids->failed) {
		free(list);
		return error_errno(err, ENOMEM, "list them");
	}
	text = (char *)(list + n + 1);
	if (n)
		(void)memcpy(text, ids->data, ids->len);
	for (size_t i = 0; i < n; i++)
		list[i] = text + i * (ID_LEN + 1);
	*ret_ids = list;
	return 0;
}

int durable_list(void *state, char ***ret_ids, struct warren_error *err)
{
	struct native *n = state;
	AUTO_BUF struct buf ids = BUF_INIT(1U << 20);
	struct dirent *e;
	int copy;
	DIR *d;

	if (!n->named)
		return error_set(err, EINVAL, "an engine without a name has none");
	copy = openat(n->ids_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = copy < 0 ? NULL : fdopendir(copy);
	if (!d)
		return error_errno(err, errno, "open the directory 'ids'");
	while ((e = readdir(d))) {
		char id[ID_LEN + 1];

		if (read_link(n, e->d_name, id) && has_state(n, id))
			buf_add(&ids, id, sizeof(id));
	}
	(void)closedir(d);
	return pack_ids(&ids, ret_ids, err);
}

/* ------------------------------------------------------------------ adopting */

static int read_state(const struct native *n, const char *id, struct native_box *box,
		      struct warren_error *err)
{
	char name[BOX_NAME_SIZE];
	AUTO_CLOSE int fd = -1;
	AUTO_FREE char *text = NULL;
	struct stat st;
	ssize_t size;

	state_name(name, id, "");
	fd = openat(n->boxes_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return error_set(err, ENOENT, "there is no such sandbox");
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "open its state");
	if (st.st_size <= 0 || st.st_size > STATE_MAX)
		return error_set(err, EINVAL, "its state has a size of %jd",
				 (intmax_t)st.st_size);
	text = malloc((size_t)st.st_size);
	if (!text)
		return error_errno(err, ENOMEM, "read its state");
	size = fd_read_all(fd, text, (size_t)st.st_size);
	if (size != st.st_size)
		return error_errno(err, size < 0 ? (int)-size : EIO, "read its state");
	return state_parse(box, TAKE_PTR(text), (size_t)size, err);
}

/* The link and the state must speak of the same. */
static int check_link(const struct native *n, const char *id, struct native_box *box,
		      struct warren_error *err)
{
	char name[16], linked[ID_LEN + 1] = "";

	(void)snprintf(name, sizeof(name), "%u", box->slot);
	if (!read_link(n, name, linked) || strcmp(linked, id) != 0 ||
	    strcmp(box->base.id, id) != 0 || registry_base(n, box->slot) != box->base_id)
		return error_set(err, ENOENT, "it is not one of engine '%s'", n->name);
	box->has_slot = true;
	return 0;
}

/* A handle on a live one. -ESRCH: it is dead, or was never complete. */
static int take_up(struct native *n, struct native_box *box, struct warren_error *err)
{
	struct proto_welcome welcome = { 0 };
	int r;

	box->control = dial(n, box->base.id);
	if (box->control < 0)
		return error_errno(err, nobody(box->control) ? ESRCH : -box->control,
				   "reach its init");
	r = identify(box, err);
	if (r == 0)
		r = say_hello(box, &welcome, err);
	if (r == 0 && !(welcome.flags & PROTO_WELCOME_KEPT))
		r = error_set(err, ESRCH, "it was never completed");
	if (r == -EPIPE)
		r = error_set(err, ESRCH, "its init is gone");
	if (r < 0)
		return r;
	box->next_exec = welcome.last_exec;
	box->paused = box->has_cgroup && cgroup_frozen(&n->cgroups, box->base.id);
	return 0;
}

int durable_adopt(void *state, const char *id, struct backend_box **ret_box,
		  struct warren_error *err)
{
	struct native *n = state;
	struct native_box *box;
	int r;

	if (!n->named)
		return error_set(err, EINVAL, "an engine without a name has none");
	box = calloc(1, sizeof(*box));
	if (!box)
		return error_errno(err, ENOMEM, "make a handle");
	box->engine = n;
	box->pidfd = box->control = box->image_lock = -1;
	box->ready = true;
	r = read_state(n, id, box, err);
	if (r == 0)
		r = check_link(n, id, box, err);
	if (r == 0)
		r = take_up(n, box, err);
	if (r == -ESRCH) {
		struct warren_error second = WARREN_ERROR_INIT;

		(void)native_unmake(n, box, &second);
		return r;
	}
	if (r < 0) {
		native_forget(box);
		return r;
	}
	box->base.durable = true;
	*ret_box = &box->base;
	return 0;
}

void durable_release(void *state UNUSED, struct backend_box *base)
{
	native_forget((struct native_box *)base);
}

/* ------------------------------------------------------------------ changing */

/* What is said of a limit: the same words as when it was made. */
static void note_limits(struct native_box *box)
{
	const char *by = cgroup_mode_name(box->engine->cgroups.mode);
	const struct cgroup_limits *l = &box->limits;

	backend_enforce(&box->base, "memory", true, "%ju bytes by %s",
			(uintmax_t)l->memory, by);
	backend_enforce(&box->base, "pids", true, "%ju by %s", (uintmax_t)l->pids, by);
	if (l->cpu_millis)
		backend_enforce(&box->base, "cpus", true, "%ju.%03u by %s",
				(uintmax_t)l->cpu_millis / 1000,
				(unsigned)(l->cpu_millis % 1000), by);
	else
		backend_enforce(&box->base, "cpus", false, "all there are");
}

int durable_update(void *state, struct backend_box *base,
		   const struct warren_limits *limits, struct warren_error *err)
{
	struct native *n = state;
	struct native_box *box = (struct native_box *)base;
	struct cgroup_limits old = box->limits, next = old;
	int r;

	if (!base->durable)
		return error_set(err, EOPNOTSUPP, "it is not durable");
	if (!box->has_cgroup)
		return error_set(err, EOPNOTSUPP, "limits need cgroups: %s",
				 n->cgroups.why);
	if (limits->memory == WARREN_UNLIMITED || limits->pids == WARREN_UNLIMITED)
		return error_set(err, EINVAL, "memory and pids always have a limit");
	if (limits->memory && limits->memory < MEMORY_MIN)
		return error_set(err, EINVAL, "memory: below 1m no process can run");
	if (limits->memory)
		next.memory = limits->memory;
	if (limits->pids)
		next.pids = limits->pids;
	if (limits->cpu_millis)
		next.cpu_millis =
			limits->cpu_millis == WARREN_UNLIMITED ? 0 : limits->cpu_millis;
	r = cgroup_update(&n->cgroups, base->id, &old, &next, err);
	if (r < 0)
		return r;
	box->limits = next;
	note_limits(box);
	r = durable_note(n, box, err);
	if (r < 0) {
		struct warren_error ignored = WARREN_ERROR_INIT;

		(void)cgroup_update(&n->cgroups, base->id, &next, &old, &ignored);
		box->limits = old;
		note_limits(box);
	}
	return r;
}

int durable_describe(void *state UNUSED, struct backend_box *base, struct buf *out)
{
	state_encode((const struct native_box *)base, out);
	return 0;
}
