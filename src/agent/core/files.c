/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.c - read directories, and create, remove, rename and watch files, as a user
 *
 * Every path is resolved by openat2(2): within the root, or below a directory that came
 * with the request. A name is changed in its parent directory, by a call that does not
 * follow links. A link that a process inside creates in the meantime can therefore only
 * lead to another place inside, or to an error.
 *
 * The size of the message (names to change) or of the reply (entries) bounds the work of
 * a request. A client with more work sends further requests, and other clients are served
 * in between.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/stat.h>
#include <sys/statfs.h>
#include <time.h>

#include "agent/core/agent.h"

#define DIRENTS_SIZE  8192
#define RESOLVE_TRIES 256

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1 << 0)
#endif

/* ----------------------------------------------------------------- identity of a user */

long as_user(const struct proto_who *who)
{
	if (who->n_groups > PROTO_GROUPS_MAX)
		return -EINVAL;
	if (who->n_groups > 0)
		(void)SYS_2(SYS_setgroups, who->n_groups, who->groups);
	(void)SYS_1(SYS_setfsgid, who->gid);
	(void)SYS_1(SYS_setfsuid, who->uid);
	/* init's capabilities are not effective unless the user is root. */
	if (who->uid != 0)
		take_caps(0);
	return 0;
}

void as_self(const struct proto_who *who)
{
	(void)SYS_1(SYS_setfsuid, 0);
	(void)SYS_1(SYS_setfsgid, 0);
	take_caps(~0ULL); /* last, because setfsuid(2) changes the capabilities */
	if (who->n_groups > 0)
		(void)SYS_2(SYS_setgroups, 0, NULL);
}

/* -------------------------------------------------------------------- path resolution */

bool files_forbid_set_id(void)
{
	/* Without the filter, it is -EBADF. */
	return SYS_2(SYS_fchmod, -1, S_ISUID) == -EPERM;
}

long files_resolve(int at, const char *path, int flags, uint32_t mode)
{
	struct open_how how = {
		.flags = (uint64_t)(uint32_t)flags | O_CLOEXEC,
		.resolve = RESOLVE_NO_MAGICLINKS |
			   (at == AT_FDCWD ? RESOLVE_IN_ROOT : RESOLVE_BENEATH),
	};

	if ((at == AT_FDCWD) != (path[0] == '/'))
		return -EINVAL;
	/* With O_PATH, openat2(2) refuses flags that openat(2) ignores. */
	if (!(flags & O_PATH))
		how.flags |= O_NONBLOCK | O_NOCTTY;
	if (flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)))
		how.mode = mode & 07777;
	if ((how.mode & (S_ISUID | S_ISGID)) && files_forbid_set_id())
		return -EPERM;
	/*
	 * While anything on the machine is renamed or mounted, the kernel may be unable
	 * to check a ".." in the path, and returns -EAGAIN.
	 */
	for (int tries = 0; tries < RESOLVE_TRIES; tries++) {
		long fd = SYS_4(SYS_openat2, at, path, &how, sizeof(how));

		if (fd != -EAGAIN)
			return fd;
	}
	return -EAGAIN;
}

bool on_proc(int fd)
{
	struct statfs fs = { 0 };

	return SYS_2(SYS_fstatfs, fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC;
}

void parent_dir_done(const struct parent_dir *p, int at)
{
	if (p->fd >= 0 && p->fd != at)
		sys_close(p->fd);
}

long parent_dir_find(int at, const char *path, struct parent_dir *ret)
{
	static char dir[4096];
	size_t n = strlen(path), cut;
	long fd;

	while (n > 1 && path[n - 1] == '/')
		n--;
	for (cut = n; cut > 0 && path[cut - 1] != '/'; cut--)
		;
	ret->fd = -1;
	ret->name = path + cut;
	/*
	 * "", ".", ".." and names that end in a slash do not name an entry of a
	 * directory.
	 */
	if (path[n] != '\0' || n == cut || cut >= sizeof(dir) ||
	    (ret->name[0] == '.' &&
	     (n - cut == 1 || (n - cut == 2 && ret->name[1] == '.'))))
		return -EINVAL;
	if (cut == 0) {
		if (at == AT_FDCWD)
			return -EINVAL;
		ret->fd = at;
		return 0;
	}
	__builtin_memcpy(dir, path, cut);
	dir[cut] = '\0';
	fd = files_resolve(at, dir, O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	if (on_proc((int)fd)) {
		sys_close(fd);
		return -EACCES;
	}
	ret->fd = (int)fd;
	return 0;
}

/* ------------------------------------------------------------------------ SCAN */

_Alignas(8) static struct {
	struct proto_entries head;
	char data[PROTO_ENTRIES_MAX];
} out;

struct dirent64 {
	uint64_t ino;
	int64_t off;
	uint16_t size;
	uint8_t type;
	char name[];
};

long files_append_entry(const struct proto_entry *is, const char *name, const char *text)
{
	struct proto_entry *e = (void *)(out.data + out.head.size);
	size_t name_size = strlen(name), text_size = strlen(text);
	size_t whole = (sizeof(*e) + name_size + 1 + text_size + 1 + 7) & ~(size_t)7;
	char *at = (char *)(e + 1);

	if (whole > sizeof(out.data) - out.head.size)
		return -ENOSPC;
	*e = *is;
	e->name_size = (uint16_t)name_size;
	e->link_size = (uint16_t)text_size;
	__builtin_memcpy(at, name, name_size + 1);
	__builtin_memcpy(at + name_size + 1, text, text_size + 1);
	out.head.size += (uint32_t)whole;
	out.head.n++;
	return 0;
}

/*
 * Append an entry for @name in @dir (or for @dir itself, if the name is empty). @marks:
 * find out whether it has attributes. -ENOSPC: no room.
 */
static long files_put_entry(int dir, const char *name, uint32_t type, bool marks)
{
	static struct statx stx;
	static char link[4096];
	size_t link_size = 0;
	long r = SYS_5(SYS_statx, dir, name, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH,
		       STATX_BASIC_STATS, &stx);

	if (r == -ENOENT)
		return r;
	if (r < 0) {
		__builtin_memset(&stx, 0, sizeof(stx));
		stx.stx_mode = (uint16_t)type;
	}
	if ((stx.stx_mode & S_IFMT) == S_IFLNK) {
		r = SYS_4(SYS_readlinkat, dir, name, link, sizeof(link) - 1);
		link_size = r > 0 ? (size_t)r : 0;
	}
	link[link_size] = '\0';
	return files_append_entry(
		&(struct proto_entry){
			.size = stx.stx_size,
			.ino = stx.stx_ino,
			.mtime_sec = stx.stx_mtime.tv_sec,
			.mtime_nsec = stx.stx_mtime.tv_nsec,
			.mode = stx.stx_mode,
			.uid = stx.stx_uid,
			.gid = stx.stx_gid,
			.flags = marks && attributes_any(dir, name, stx.stx_mode)
					 ? PROTO_ENTRY_ATTRIBUTES
					 : 0,
		},
		name, link);
}

static bool is_dots(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/*
 * Append entries until the reply is full; the position of the directory is then after the
 * last one.
 */
static long files_scan_directory(int dir, bool marks)
{
	_Alignas(8) static char dirents[DIRENTS_SIZE];
	int64_t behind = -1;

	for (;;) {
		long n = SYS_3(SYS_getdents64, dir, dirents, sizeof(dirents));

		if (n <= 0)
			return n;
		for (long at = 0; at < n;) {
			const struct dirent64 *d = (const void *)(dirents + at);
			long r =
				is_dots(d->name)
					? 0
					: files_put_entry(dir, d->name,
							  (uint32_t)d->type << 12, marks);

			if (r == -ENOSPC) {
				r = behind < 0 ? -EIO
					       : SYS_3(SYS_lseek, dir, behind, SEEK_SET);
				return r < 0 ? r : 0;
			}
			behind = d->off;
			at += d->size;
		}
	}
}

static long files_scan_one(int at, const struct proto_scan *msg)
{
	int follow = msg->flags & PROTO_SCAN_FOLLOW ? 0 : O_NOFOLLOW;
	long fd = files_resolve(at, msg->path, O_PATH | follow, 0), r;

	if (fd < 0)
		return fd;
	r = files_put_entry((int)fd, "", 0, false);
	if (r == 0 && msg->flags & PROTO_SCAN_ATTRIBUTES)
		attributes_append((int)fd);
	sys_close(fd);
	return r;
}

void agent_files_scan(int c, const struct proto_scan *msg, const int *fds, size_t n_fds)
{
	bool one = msg->flags & PROTO_SCAN_ONE;
	long r = -EINVAL;

	out.head = (struct proto_entries){ .h = { .version = PROTO_VERSION,
						  .type = PROTO_ENTRIES,
						  .seq = msg->h.seq } };
	if (msg->path[sizeof(msg->path) - 1] == '\0' && (one || n_fds > 0))
		r = as_user(&msg->who);
	if (r == 0) {
		r = one ? files_scan_one(n_fds > 0 ? fds[0] : AT_FDCWD, msg)
			: files_scan_directory(fds[0],
					       msg->flags & PROTO_SCAN_ATTRIBUTES);
		as_self(&msg->who);
	}
	if (r < 0)
		conn_reply(c, msg->h.seq, r, PROTO_STAGE_NONE, -1);
	else
		conn_send(c, &out, sizeof(out.head) + out.head.size, NULL, 0);
}

/* ---------------------------------------------------------------------- CHANGE */

static void files_put_number(char *text, int n)
{
	char digits[12];
	int i = 0;

	do
		digits[i++] = (char)('0' + n % 10);
	while ((n /= 10) > 0);
	while (i > 0)
		*text++ = digits[--i];
	*text = '\0';
}

const char *files_name_of(int fd)
{
	static char text[32] = "/proc/self/fd/";

	files_put_number(text + 14, fd);
	return text;
}

/*
 * Use a descriptor: before Linux 6.6, no call changes the mode of a name without
 * following it.
 */
static long change_mode(const struct proto_change *msg, int at, const char *path)
{
	int follow = msg->flags & PROTO_CHANGE_FOLLOW ? 0 : O_NOFOLLOW;
	long fd = files_resolve(at, path, O_PATH | follow, 0), r;
	struct statx stx = { 0 };

	if (fd < 0)
		return fd;
	r = SYS_5(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &stx);
	if (r == 0 && on_proc((int)fd))
		r = -EACCES;
	else if (r == 0 && (stx.stx_mode & S_IFMT) != S_IFLNK) {
		r = SYS_4(SYS_fchmodat2, fd, "", msg->mode & 07777, AT_EMPTY_PATH);
		if (r == -ENOSYS)
			r = SYS_3(SYS_fchmodat, AT_FDCWD, files_name_of((int)fd),
				  msg->mode & 07777);
	}
	sys_close(fd);
	return r;
}

/* -EALREADY: the flag LENIENT is set, and the directory or link already exists. */
static long files_make_dir(const struct proto_change *msg, const struct parent_dir *p)
{
	struct statx stx = { 0 };
	long r = SYS_3(SYS_mkdirat, p->fd, p->name, msg->mode & 07777);

	if (r != -EEXIST || !(msg->flags & PROTO_CHANGE_LENIENT))
		return r;
	r = SYS_5(SYS_statx, p->fd, p->name, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &stx);
	if (r < 0)
		return r;
	r = stx.stx_mode & S_IFMT;
	return r == S_IFDIR || r == S_IFLNK ? -EALREADY : -EEXIST;
}

static long agent_files_change_one(const struct proto_change *msg,
				   const struct parent_dir *p)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
				     { .tv_sec = msg->mtime_sec,
				       .tv_nsec = msg->mtime_nsec } };

	switch ((enum proto_verb)msg->verb) {
	case PROTO_MKDIR:
		return files_make_dir(msg, p);
	case PROTO_UNLINK:
		return SYS_3(SYS_unlinkat, p->fd, p->name, 0);
	case PROTO_RMDIR:
		return SYS_3(SYS_unlinkat, p->fd, p->name, AT_REMOVEDIR);
	case PROTO_CHOWN:
		/*
		 * Give no file to init's user: no process inside could create such a
		 * file.
		 */
		if (msg->owner == INIT_ID || msg->group == INIT_ID)
			return -EINVAL;
		return SYS_5(SYS_fchownat, p->fd, p->name, msg->owner, msg->group,
			     AT_SYMLINK_NOFOLLOW);
	case PROTO_UTIME:
		return SYS_4(SYS_utimensat, p->fd, p->name, times, AT_SYMLINK_NOFOLLOW);
	case PROTO_CHMOD:
	case PROTO_RENAME:
	case PROTO_SYMLINK:
	case PROTO_LINK:
	case PROTO_PUT:
	case PROTO_UNLINK_TREE:
	case PROTO_CHMOD_TREE:
	case PROTO_CHOWN_TREE:
	case PROTO_SET_ATTRIBUTES:
	case PROTO_VERB_MAX:
		break;
	}
	return -EINVAL;
}

static long change_pair(const struct proto_change *msg, int from, const char *first,
			const struct parent_dir *to)
{
	struct parent_dir p = { .fd = -1 };
	long r;

	if (msg->verb == PROTO_SYMLINK)
		return SYS_3(SYS_symlinkat, first, to->fd, to->name);
	r = parent_dir_find(from, first, &p);
	if (r == 0 && msg->verb == PROTO_LINK)
		r = SYS_5(SYS_linkat, p.fd, p.name, to->fd, to->name, 0);
	else if (r == 0)
		r = SYS_5(SYS_renameat2, p.fd, p.name, to->fd, to->name,
			  msg->flags & PROTO_CHANGE_KEEP ? RENAME_NOREPLACE : 0);
	parent_dir_done(&p, from);
	return r;
}

static bool is_pair(uint32_t verb)
{
	return verb == PROTO_RENAME || verb == PROTO_SYMLINK || verb == PROTO_LINK ||
	       verb == PROTO_PUT;
}

/*
 * Give an O_TMPFILE file its name. link(2) does not replace a file: if there is one, the
 * new file has the name @temporary until this function has renamed it. So no process that
 * could die in between is needed.
 */
static long files_put_file(const struct proto_change *msg, int dir, int file)
{
	const char *temporary = msg->strings, *name = temporary + strlen(temporary) + 1;
	long r = msg->flags & PROTO_CHANGE_OWNER
			 ? SYS_3(SYS_fchown, file, msg->owner, msg->group)
			 : 0;

	if (r == 0)
		r = SYS_5(SYS_linkat, AT_FDCWD, files_name_of(file), dir, name,
			  AT_SYMLINK_FOLLOW);
	if (r != -EEXIST)
		return r;
	r = SYS_5(SYS_linkat, AT_FDCWD, files_name_of(file), dir, temporary,
		  AT_SYMLINK_FOLLOW);
	if (r < 0)
		return r;
	r = SYS_5(SYS_renameat2, dir, temporary, dir, name, 0);
	if (r < 0)
		(void)SYS_3(SYS_unlinkat, dir, temporary, 0);
	return r;
}

static bool files_is_plain(const char *name)
{
	for (const char *c = name; *c; c++)
		if (*c == '/')
			return false;
	return name[0] != '\0';
}

static long change_put(const struct proto_change *msg, const int *fds, size_t n_fds)
{
	const char *temporary = msg->strings;
	long r;

	/* Accept only names inside the directory, not paths that lead elsewhere. */
	if (n_fds != 2 || msg->n != 2 || !files_is_plain(temporary) ||
	    !files_is_plain(temporary + strlen(temporary) + 1))
		return -EINVAL;
	r = files_write_failed(msg->mode);
	return r < 0 ? r : files_put_file(msg, fds[0], fds[1]);
}

static bool is_fine(const struct proto_change *msg, long r)
{
	if (!(msg->flags & PROTO_CHANGE_LENIENT))
		return false;
	return msg->verb == PROTO_MKDIR ? r == -EALREADY : r == -ENOENT;
}

/* Make all changes; return -errno of the first that failed. */
static long files_change_all(const struct proto_change *msg, const int *fds, size_t n_fds,
			     uint32_t *value)
{
	int from = n_fds > 0 ? fds[0] : AT_FDCWD;
	int to = n_fds > 1 ? fds[1] : from;
	const char *at = msg->strings, *first = at;
	uint32_t changed = 0, i;
	long r = 0;

	for (i = 0; i < msg->n && r == 0; i++, at += strlen(at) + 1) {
		bool pair = is_pair(msg->verb);
		struct parent_dir p = { .fd = -1 };

		if (pair && i % 2 == 0) {
			first = at;
			continue;
		}
		if (msg->verb == PROTO_CHMOD) {
			r = change_mode(msg, from, at);
		} else {
			r = parent_dir_find(pair ? to : from, at, &p);
			if (r == 0)
				r = pair ? change_pair(msg, from, first, &p)
					 : agent_files_change_one(msg, &p);
			parent_dir_done(&p, pair ? to : from);
		}
		changed += r == 0;
		if (is_fine(msg, r))
			r = 0;
	}
	*value = r < 0 ? i - 1 : changed;
	return r;
}

static bool files_is_whole(const struct proto_change *msg, size_t size)
{
	uint32_t n = 0;

	if (size < sizeof(*msg) || msg->strings_size != size - sizeof(*msg) ||
	    msg->verb >= PROTO_VERB_MAX || (is_pair(msg->verb) && msg->n % 2 != 0))
		return false;
	for (uint32_t i = 0; i < msg->strings_size; i++)
		n += msg->strings[i] == '\0';
	return n == msg->n &&
	       (msg->strings_size == 0 || msg->strings[msg->strings_size - 1] == '\0');
}

void agent_files_change(int c, const struct proto_change *msg, size_t size,
			const int *fds, size_t n_fds)
{
	uint32_t value = 0;
	long r = files_is_whole(msg, size) ? as_user(&msg->who) : -EINVAL;

	if (r == 0) {
		if (msg->verb == PROTO_PUT)
			r = change_put(msg, fds, n_fds);
		else if (msg->verb == PROTO_SET_ATTRIBUTES)
			r = attributes_set(msg, fds, n_fds);
		else
			r = files_change_all(msg, fds, n_fds, &value);
		as_self(&msg->who);
	}
	reply_value(c, msg->h.seq, r, value);
}

/* ----------------------------------------------------------------------- WATCH */

void files_watch(int c, const struct proto_watch *msg, const int *fds, size_t n_fds)
{
	long r = -EINVAL, fd;

	if (msg->path[sizeof(msg->path) - 1] == '\0' && n_fds > 0)
		r = as_user(&msg->who);
	if (r == 0) {
		fd = files_resolve(AT_FDCWD, msg->path, O_PATH, 0);
		r = fd;
		if (fd >= 0) {
			r = on_proc((int)fd) ? -EACCES
					     : SYS_3(SYS_inotify_add_watch, fds[0],
						     files_name_of((int)fd), msg->mask);
			sys_close(fd);
		}
		as_self(&msg->who);
	}
	reply_value(c, msg->h.seq, r < 0 ? r : 0, r < 0 ? 0 : (uint32_t)r);
}
