/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orphan.c - sandboxes whose run directory is gone, and cgroups without processes
 *
 * A durable sandbox is found by its socket, <run_dir>/boxes/<id>. When that directory is
 * removed (a wiped /run, a deleted test), the init or shim continues to run, but no
 * process can reach it. The kernel still lists the socket, with the device and the inode
 * of the file that the socket was bound to. A sandbox whose file exists is not an orphan,
 * whichever engine, service or mount namespace it belongs to: so the file is searched
 * wherever its filesystem is mounted, and undecided cases are left alone.
 *
 *	mounted nowhere		there is no such file
 *	tmpfs			the directories are walked
 *	ext4			the inode is opened by number, to see if it has a name
 *	any other		undecided
 *
 * Any user may bind a socket with the id of another user's sandbox, unlink it, and name
 * the process like a shim. So only properties that other users cannot choose count: this
 * engine's user created the socket, and the process that holds it is pid 1 of a sandbox,
 * or a shim, by its user and its program (is_init(), is_shim()). An id that any such
 * process serves from a file that exists, or may exist, is never removed.
 *
 * An init that was killed while its sandbox was frozen has lost its socket, and on cgroup
 * v1 it ends only when the other processes are thawed (range_look()).
 *
 * A cgroup is left over if the directory was lost together with its engine. The owner of
 * the cgroup is the root of a range of ids: if no process has one of these ids, and none
 * is in the cgroup, the sandbox is dead. The cgroup is removed only after a minute,
 * because a new one is empty too.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "backend/native/native.h"
#include "backend/native/orphan_proc.h"
#include "base/fd.h"
#include "base/id.h"

#define LISTENING    10 /* TCP_LISTEN, which unix sockets use as well */
#define ORPHANS_MAX  4096
#define ENTRIES_MAX  1000000 /* maximum number of entries of a tmpfs to walk */
#define DEPTH_MAX    16
#define YOUNG_SEC    60
#define END_MS       20000
#define DELETE_SEC   2 /* time for an engine to delete one of its sandboxes */
#define FILEID_INO32 1 /* handle of open_by_handle_at(2): inode and generation */

/* If there are several verdicts, the last one in this list applies. */
enum verdict {
	FILE_NOT_SEEN, /* not found so far, but there may be more places */
	FILE_UNKNOWN,  /* some places could not be searched */
	FILE_GONE,     /* reported by the filesystem itself, whatever else was found */
	FILE_THERE,
};

static enum verdict verdict_max(enum verdict a, enum verdict b)
{
	return a > b ? a : b;
}

/* A socket on which a sandbox listens. */
struct orphan_socket {
	char id[ID_LEN + 1];
	uint32_t socket;   /* inode of the socket */
	uint32_t dev, ino; /* device and inode of its file, according to the kernel */
	int pid;           /* the init or shim that holds it; 0: none */
	enum verdict file;
};

struct list {
	const char *only; /* the id to search for; NULL: all */
	struct warren_orphan *v;
	size_t n;
	struct orphan_socket *sockets;
	size_t n_sockets;
};

static void list_done(struct list *l)
{
	free(l->v);
	free(l->sockets);
}

/* ------------------------------------------------------------------ listening sockets */

static const struct rtattr *attr_of(const struct nlmsghdr *h, unsigned type)
{
	const struct unix_diag_msg *m = NLMSG_DATA(h);
	const struct rtattr *a = (const void *)(m + 1);
	int left = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof(*m)));

	for (; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == type)
			return a;
	return NULL;
}

/*
 * Did this engine's user create the socket? Kernels before 5.3 do not report this; then
 * the holder decides.
 */
static bool orphan_is_ours(const struct nlmsghdr *h)
{
	const struct rtattr *a = attr_of(h, UNIX_DIAG_UID);
	uint32_t uid = geteuid();

	if (a && RTA_PAYLOAD(a) >= sizeof(uid))
		(void)memcpy(&uid, RTA_DATA(a), sizeof(uid));
	return uid == geteuid();
}

/*
 * A socket that was bound as in sandbox_socket_bind(): the last part of its name is an
 * id.
 */
static int orphan_take_socket(struct list *l, const struct nlmsghdr *h)
{
	const struct unix_diag_msg *m = NLMSG_DATA(h);
	const struct rtattr *name = attr_of(h, UNIX_DIAG_NAME);
	const struct rtattr *vfs = attr_of(h, UNIX_DIAG_VFS);
	struct unix_diag_vfs file;
	char text[109] = "";
	const char *last;
	struct orphan_socket *more;

	if (m->udiag_type != SOCK_SEQPACKET || !name || !vfs ||
	    RTA_PAYLOAD(vfs) < sizeof(file) || RTA_PAYLOAD(name) >= sizeof(text))
		return 0;
	(void)memcpy(text, RTA_DATA(name), RTA_PAYLOAD(name));
	(void)memcpy(&file, RTA_DATA(vfs), sizeof(file));
	last = strrchr(text, '/');
	if (!last || !id_valid(last + 1) || !orphan_is_ours(h) ||
	    (l->only && strcmp(last + 1, l->only) != 0) || l->n_sockets == ORPHANS_MAX)
		return 0;
	more = realloc(l->sockets, (l->n_sockets + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	l->sockets = more;
	more[l->n_sockets] = (struct orphan_socket){ .socket = m->udiag_ino,
						     .dev = file.udiag_vfs_dev,
						     .ino = file.udiag_vfs_ino };
	(void)strcpy(more[l->n_sockets++].id, last + 1);
	return 0;
}

static int orphan_find_sockets(struct list *l, struct warren_error *err)
{
	AUTO_CLOSE int fd =
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	struct {
		struct nlmsghdr h;
		struct unix_diag_req req;
	} ask = {
		.h = { .nlmsg_len = sizeof(ask),
		       .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.req = { .sdiag_family = AF_UNIX,
			 .udiag_states = 1U << LISTENING,
			 .udiag_show =
				 UDIAG_SHOW_NAME | UDIAG_SHOW_VFS | UDIAG_SHOW_UID },
	};
	_Alignas(8) char text[32768];

	if (fd < 0 || send(fd, &ask, sizeof(ask), 0) < 0)
		return error_errno(err, errno, "ask the kernel for its sockets");
	for (;;) {
		ssize_t n = recv(fd, text, sizeof(text), 0);
		size_t left = n > 0 ? (size_t)n : 0;

		if (n <= 0)
			return error_errno(err, n < 0 ? errno : EPIPE,
					   "list the kernel's sockets");
		for (const struct nlmsghdr *h = (const void *)text; NLMSG_OK(h, left);
		     h = NLMSG_NEXT(h, left)) {
			if (h->nlmsg_type == NLMSG_DONE)
				return 0;
			if (h->nlmsg_type == NLMSG_ERROR)
				return error_set(err, EOPNOTSUPP,
						 "this kernel does not list unix sockets "
						 "(CONFIG_UNIX_DIAG)");
			if (orphan_take_socket(l, h) < 0)
				return error_errno(err, ENOMEM, "list sockets");
		}
	}
}

/* --------------------------------------------------------- search for a socket's file */

/* Walk the filesystem below @dir, without entering other mounts. Closes @dir. */
static enum verdict orphan_walk(int dir, const struct orphan_socket *want, dev_t dev,
				unsigned *left, unsigned depth)
{
	DIR *d = fdopendir(dir);
	enum verdict found = FILE_NOT_SEEN;
	struct dirent *e;

	if (!d) {
		(void)close(dir);
		return FILE_UNKNOWN;
	}
	while (found == FILE_NOT_SEEN && (e = readdir(d))) {
		struct stat st;
		int fd;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (depth == 0 || (*left)-- == 0) {
			found = FILE_UNKNOWN;
			break;
		}
		if (e->d_type == DT_SOCK && (uint32_t)e->d_ino == want->ino)
			found = FILE_THERE;
		if (e->d_type != DT_DIR)
			continue;
		fd = openat(dirfd(d), e->d_name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0 || fstat(fd, &st) < 0)
			found = FILE_UNKNOWN;
		else if (st.st_dev == dev) {
			found = orphan_walk(TAKE_FD(fd), want, dev, left, depth - 1);
			continue;
		}
		if (fd >= 0)
			(void)close(fd);
	}
	(void)closedir(d);
	return found;
}

static enum verdict ask_ext4(int dir, const struct orphan_socket *want)
{
	_Alignas(struct file_handle) char room[sizeof(struct file_handle) + 8] = { 0 };
	struct file_handle *handle = (void *)room;
	AUTO_CLOSE int fd = -1;
	struct stat st;

	handle->handle_bytes = 8; /* the inode, and its generation (0: any) */
	handle->handle_type = FILEID_INO32;
	(void)memcpy(handle->f_handle, &want->ino, sizeof(want->ino));
	fd = open_by_handle_at(dir, handle, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return errno == ESTALE ? FILE_GONE : FILE_UNKNOWN;
	if (fstat(fd, &st) < 0)
		return FILE_UNKNOWN;
	return st.st_nlink > 0 && S_ISSOCK(st.st_mode) ? FILE_THERE : FILE_GONE;
}

/*
 * Search the filesystem that is mounted at @path in the mount namespace of @pid, with
 * @root as its top directory.
 */
static enum verdict ask_mount(const char *pid, const char *path, const char *root,
			      const struct orphan_socket *want)
{
	char full[4096 + 64];
	AUTO_CLOSE int dir = -1;
	unsigned left = ENTRIES_MAX;
	enum verdict found;
	struct statfs fs;
	struct stat st;

	if (snprintf(full, sizeof(full), "/proc/%s/root%s", pid, path) >=
	    (int)sizeof(full))
		return FILE_UNKNOWN;
	dir = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || fstat(dir, &st) < 0 || fstatfs(dir, &fs) < 0)
		return FILE_UNKNOWN;
	/* Another filesystem is mounted over it. */
	if (st.st_dev != makedev(want->dev >> 20, want->dev & 0xfffff))
		return FILE_UNKNOWN;
	if (fs.f_type == EXT4_SUPER_MAGIC)
		return ask_ext4(dir, want);
	if (fs.f_type != TMPFS_MAGIC)
		return FILE_UNKNOWN;
	found = orphan_walk(TAKE_FD(dir), want, st.st_dev, &left, DEPTH_MAX);
	/* A bind mount of a part of the filesystem shows nothing about the rest. */
	return found == FILE_NOT_SEEN && strcmp(root, "/") != 0 ? FILE_UNKNOWN : found;
}

/* Search the mounts that process @pid sees. */
static enum verdict ask_process(const char *pid, const struct orphan_socket *want)
{
	char path[64], *line = NULL, where[4096], root[4096];
	enum verdict found = FILE_NOT_SEEN;
	size_t size = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%s/mountinfo", pid);
	f = fopen(path, "re");
	while (f && found < FILE_GONE && getline(&line, &size, f) > 0) {
		unsigned major = 0, minor = 0;
		enum verdict here;

		if (sscanf(line, "%*d %*d %u:%u %4095s %4095s", &major, &minor, root,
			   where) != 4 ||
		    (major << 20 | minor) != want->dev)
			continue;
		/*
		 * A path with whitespace is escaped. Such a path is not searched, so the
		 * result is unknown.
		 */
		here = strchr(where, '\\') ? FILE_UNKNOWN
					   : ask_mount(pid, where, root, want);
		found = verdict_max(found, here);
	}
	if (f)
		(void)fclose(f);
	free(line);
	return f ? found : FILE_UNKNOWN;
}

/* Search all mount namespaces of the machine, each through one of its processes. */
static enum verdict ask_all(const struct orphan_socket *want)
{
	enum verdict found = ask_process("self", want);
	ino_t seen[1024];
	size_t n_seen = 0;
	DIR *d = opendir("/proc");
	struct dirent *e;

	while (d && found < FILE_GONE && (e = readdir(d))) {
		enum verdict here;
		char path[280];
		struct stat st;
		size_t i = 0;

		(void)snprintf(path, sizeof(path), "/proc/%s/ns/mnt", e->d_name);
		/*
		 * Processes of a sandbox have no run directory; do not follow their
		 * paths.
		 */
		if (e->d_name[0] < '1' || e->d_name[0] > '9' || stat(path, &st) < 0 ||
		    engine_registry_is_range((uid_t)proc_uid(e->d_name)))
			continue;
		while (i < n_seen && seen[i] != st.st_ino)
			i++;
		if (i < n_seen)
			continue;
		if (n_seen == ARRAY_SIZE(seen)) {
			found = FILE_UNKNOWN;
			break;
		}
		seen[n_seen++] = st.st_ino;
		here = ask_process(e->d_name, want);
		/*
		 * A process that ended in the meantime reports nothing, but its mounts
		 * ended with it.
		 */
		if (here != FILE_UNKNOWN || stat(path, &st) == 0)
			found = verdict_max(found, here);
	}
	if (d)
		(void)closedir(d);
	return d ? found : FILE_UNKNOWN;
}

/* ------------------------------------------------------------- holders of the sockets */

/* Mark the sockets that @pid holds; return their number. */
static unsigned orphan_mark_holder(const char *pid, struct orphan_socket *sockets,
				   size_t n)
{
	char path[280], link[64];
	unsigned found = 0;
	struct dirent *e;
	DIR *d;

	(void)snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		ssize_t len = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);
		uint32_t socket;

		if (len <= 0)
			continue;
		link[len] = '\0';
		if (sscanf(link, "socket:[%u]", &socket) != 1)
			continue;
		for (size_t i = 0; i < n; i++)
			if (sockets[i].socket == socket) {
				sockets[i].pid = atoi(pid);
				found++;
			}
	}
	if (d)
		(void)closedir(d);
	return found;
}

/*
 * The memfd that init is started from belongs to the engine; no process inside can
 * imitate it.
 */
static bool is_init(const char *pid)
{
	uint32_t uids[3];
	int inner = 0;

	return proc_ids(pid, uids, &inner) && inner == 1 &&
	       engine_registry_is_range(uids[0]) && uids[0] == uids[1] &&
	       uids[0] == uids[2] && proc_runs(pid, "/memfd:init");
}

/*
 * Recognise a shim by its name in this version or in the previous one, whose sandboxes
 * may still exist.
 */
static bool is_shims_program(const char *pid, const char *name)
{
	return (strcmp(name, "warren-shim") == 0 && proc_runs(pid, "/warren-shim")) ||
	       (strcmp(name, "warren-keeper") == 0 && proc_runs(pid, "/warren-keeper"));
}

/*
 * All three ids must be ours: a set-user-ID program started by another user has that
 * user's id as its real id.
 */
static bool is_shim(const char *pid)
{
	uint32_t uids[3], ours = geteuid();
	char name[32];
	int inner = 0;

	proc_name(pid, name);
	return proc_ids(pid, uids, &inner) && uids[0] == ours && uids[1] == ours &&
	       uids[2] == ours && is_shims_program(pid, name);
}

/* Find out which sockets are held by an init or a shim. */
static void find_holders(struct list *l)
{
	DIR *d = opendir("/proc");
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' &&
		    (is_init(e->d_name) || is_shim(e->d_name)))
			(void)orphan_mark_holder(e->d_name, l->sockets, l->n_sockets);
	if (d)
		(void)closedir(d);
}

enum range_state {
	RANGE_FREE,  /* no process has one of its ids */
	RANGE_DYING, /* init was killed, and the kernel waits for the other processes */
	RANGE_USED,
};

/*
 * No other process inside can have init's user id. A killed init waits for all processes
 * of its namespace, which on v1 do not end while they are frozen. *@ret_init is set to
 * the pid of such an init.
 */
static enum range_state range_look(uid_t base, int *ret_init)
{
	DIR *d = opendir("/proc");
	enum range_state state = d ? RANGE_FREE : RANGE_USED;
	bool lives = false;
	struct dirent *e;

	*ret_init = 0;
	while (d && (e = readdir(d))) {
		uint64_t uid = e->d_name[0] >= '1' && e->d_name[0] <= '9'
				       ? proc_uid(e->d_name)
				       : UINT64_MAX;
		uint32_t uids[3];
		int inner = 0;

		if (uid < base || uid > (uint64_t)base + NATIVE_IDS)
			continue;
		state = RANGE_USED;
		if (uid != (uint64_t)base + NATIVE_IDS)
			continue;
		if (proc_ids(e->d_name, uids, &inner) && inner == 1 &&
		    proc_is_exiting(e->d_name))
			*ret_init = atoi(e->d_name);
		else
			lives = true;
	}
	if (d)
		(void)closedir(d);
	return *ret_init && !lives ? RANGE_DYING : state;
}

/* -------------------------------------------------------------------- list of orphans */

static struct warren_orphan *orphan_add(struct list *l, const char *id)
{
	struct warren_orphan *more;

	if (l->n == ORPHANS_MAX)
		return NULL;
	more = realloc(l->v, (l->n + 1) * sizeof(*more));
	if (!more)
		return NULL;
	l->v = more;
	more[l->n] = (struct warren_orphan){ 0 };
	(void)strcpy(more[l->n].id, id);
	return &more[l->n++];
}

static bool orphan_is_lost(const struct orphan_socket *sock)
{
	return sock->pid && (sock->file == FILE_NOT_SEEN || sock->file == FILE_GONE);
}

/* Does an init or shim serve @id from a file that exists or may exist? */
static bool is_served(const struct list *l, const char *id)
{
	for (size_t i = 0; i < l->n_sockets; i++)
		if (l->sockets[i].pid && !orphan_is_lost(&l->sockets[i]) &&
		    strcmp(l->sockets[i].id, id) == 0)
			return true;
	return false;
}

/* Does the engine's own run directory contain any file of @id? */
static bool is_known(const struct native *n, const char *id)
{
	static const char *const suffixes[] = { "", ".state" };
	char path[4096 + ID_LEN + 32];
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		(void)snprintf(path, sizeof(path), "%s/boxes/%s%s", n->run_dir, id,
			       suffixes[i]);
		if (lstat(path, &st) == 0 || errno != ENOENT)
			return true;
	}
	return false;
}

static void find_lost(const struct native *n, struct list *l)
{
	find_holders(l);
	for (size_t i = 0; i < l->n_sockets; i++)
		if (l->sockets[i].pid)
			l->sockets[i].file = ask_all(&l->sockets[i]);
	for (size_t i = 0; i < l->n_sockets; i++) {
		const struct orphan_socket *sock = &l->sockets[i];
		struct warren_orphan *o;
		char name[16];

		if (!orphan_is_lost(sock) || is_served(l, sock->id) ||
		    is_known(n, sock->id))
			continue;
		o = orphan_add(l, sock->id);
		if (!o)
			continue;
		(void)snprintf(name, sizeof(name), "%d", sock->pid);
		o->pid = sock->pid;
		o->uid = (uint32_t)proc_uid(name);
		(void)snprintf(
			o->detail, sizeof(o->detail),
			"%s (process %d) is running, but its run directory is gone",
			engine_registry_is_range(o->uid) ? "init" : "shim", o->pid);
	}
}

/* Is there a live init or shim with this id? */
static bool orphan_has_socket(const struct list *l, const char *id)
{
	for (size_t i = 0; i < l->n_sockets; i++)
		if (l->sockets[i].pid && strcmp(l->sockets[i].id, id) == 0)
			return true;
	return false;
}

static void find_left(const struct native *n, struct list *l)
{
	int top = n->cgroups.mode == CGROUP_NONE ? -1 : n->cgroups.dir[CGROUP_PIDS];
	int copy = top < 0 ? -1 : openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		struct warren_orphan *o;
		enum range_state state;
		struct stat st;
		int init;

		if (!id_valid(e->d_name) ||
		    (l->only && strcmp(e->d_name, l->only) != 0) ||
		    orphan_has_socket(l, e->d_name) || is_known(n, e->d_name) ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !engine_registry_is_range(st.st_uid))
			continue;
		state = range_look(st.st_uid, &init);
		if (state == RANGE_USED ||
		    (state == RANGE_DYING && !cgroup_is_frozen(&n->cgroups, e->d_name)) ||
		    (state == RANGE_FREE && st.st_ctime > time(NULL) - YOUNG_SEC))
			continue;
		o = orphan_add(l, e->d_name);
		if (!o)
			continue;
		o->uid = st.st_uid;
		o->pid = init;
		(void)snprintf(o->detail, sizeof(o->detail),
			       init ? "init, process %d, was killed and cannot end: the "
				      "sandbox is frozen"
				    : "an empty cgroup is left",
			       init);
	}
	if (d)
		(void)closedir(d);
}

static int find_orphans(const struct native *n, struct list *l, struct warren_error *err)
{
	int r;

	if (!n->privileged)
		return error_set(err, EPERM,
				 "only root can see the sandboxes of the whole machine");
	r = orphan_find_sockets(l, err);
	if (r < 0)
		return r;
	find_lost(n, l);
	find_left(n, l);
	return 0;
}

static bool orphan_list_has(const struct list *l, const struct warren_orphan *o)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].pid == o->pid && strcmp(l->v[i].id, o->id) == 0)
			return true;
	return false;
}

/*
 * A sandbox that its engine is deleting has no file any longer, but its processes are
 * still ending. So a sandbox that has a process must look like an orphan twice.
 */
int orphan_list(void *state, struct warren_orphan **ret, size_t *ret_n,
		struct warren_error *err)
{
	const struct timespec wait = { .tv_sec = DELETE_SEC };
	struct list first = { 0 }, l = { 0 };
	bool lives = false;
	size_t n = 0;
	int r = find_orphans(state, &first, err);

	for (size_t i = 0; r == 0 && i < first.n; i++)
		lives |= first.v[i].pid != 0;
	if (lives)
		(void)nanosleep(&wait, NULL);
	if (r == 0)
		r = find_orphans(state, &l, err);
	for (size_t i = 0; r == 0 && i < l.n; i++)
		if (!l.v[i].pid || orphan_list_has(&first, &l.v[i]))
			l.v[n++] = l.v[i];
	if (r == 0) {
		*ret = TAKE_PTR(l.v);
		*ret_n = n;
	}
	list_done(&first);
	list_done(&l);
	return r;
}

/* ------------------------------------------------------------------------ removal */

static int orphan_end_process(const struct native *n, const struct orphan_socket *sock,
			      struct warren_error *err)
{
	AUTO_CLOSE int pidfd = pidfd_open(sock->pid, 0);
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	char name[16];

	if (pidfd < 0 && errno == ESRCH)
		return 0;
	if (pidfd < 0)
		return error_errno(err, errno, "open process %d", sock->pid);
	/*
	 * Another process may have this number now. Kill it only if the process of the
	 * descriptor still has the socket and the right program.
	 */
	(void)snprintf(name, sizeof(name), "%d", sock->pid);
	if (orphan_mark_holder(name, &(struct orphan_socket){ .socket = sock->socket },
			       1) == 0 ||
	    (!is_init(name) && !is_shim(name)))
		return error_set(err, ESRCH, "process %d is now a different process",
				 sock->pid);
	/* On cgroup v1, a frozen process does not die. */
	(void)cgroup_freeze(&n->cgroups, sock->id, false, &ignored);
	if (pidfd_send_signal(pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
		return error_errno(err, errno, "kill process %d", sock->pid);
	return poll(&p, 1, END_MS) > 0
		       ? 0
		       : error_set(err, EBUSY, "process %d cannot be killed at present",
				   sock->pid);
}

int orphan_remove(void *state, const char *id, struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct native *n = state;
	struct list l = { .only = id };
	int r = find_orphans(n, &l, err);
	bool lives = r == 0 && l.n > 0 && l.v[0].pid;

	if (r == 0 && l.n == 0)
		r = error_set(err, ENOENT, "'%s' is not an orphan, or no longer one", id);
	/*
	 * Every socket of this id that a process holds has lost its file; otherwise, the
	 * sandbox would not be an orphan.
	 */
	for (size_t i = 0; r == 0 && i < l.n_sockets; i++)
		if (orphan_is_lost(&l.sockets[i]))
			r = orphan_end_process(n, &l.sockets[i], err);
	/*
	 * A sandbox may have more processes. If only a cgroup is left, nothing is killed.
	 */
	if (r == 0 && lives)
		(void)cgroup_kill(&n->cgroups, id, &ignored);
	if (r == 0) {
		r = cgroup_remove(&n->cgroups, id);
		if (r < 0)
			r = error_errno(err, -r, "remove the cgroup of '%s'", id);
	}
	list_done(&l);
	return r;
}
