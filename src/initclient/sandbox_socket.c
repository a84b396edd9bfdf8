/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_socket.c - the socket and the state file of a durable sandbox */
#include "initclient/sandbox_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#include "base/fd.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

#define CONNECT_SECS      2
#define HELLO_MS          5000
#define SANDBOX_NAME_SIZE (ID_LEN + sizeof(".state.new"))

static void state_name(char name[SANDBOX_NAME_SIZE], const char *id, const char *suffix)
{
	(void)snprintf(name, SANDBOX_NAME_SIZE, "%s.state%s", id, suffix);
}

/*
 * Use /proc, because the name of a socket has at most 107 characters, and a directory may
 * have more.
 */
static void socket_name(int sandboxes, const char *id, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s",
		       sandboxes, id);
}

/* ------------------------------------------------------------ sockets and connections */

int sandbox_socket_bind(int sandboxes, const char *id, int *ret_fd,
			struct warren_error *err)
{
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un name;

	if (fd < 0)
		return error_errno(err, errno, "create a socket");
	socket_name(sandboxes, id, &name);
	if (bind(fd, (struct sockaddr *)&name, sizeof(name)) < 0)
		return errno == EADDRINUSE
			       ? error_set(err, EEXIST, "sandbox '%s' already exists", id)
			       : error_errno(err, errno, "bind the socket 'boxes/%s'",
					     id);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int sandbox_socket_dial_now(int sandboxes, const char *id)
{
	AUTO_CLOSE int fd =
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un name;

	if (fd < 0)
		return -errno;
	socket_name(sandboxes, id, &name);
	return connect(fd, (struct sockaddr *)&name, sizeof(name)) < 0 ? -errno
								       : TAKE_FD(fd);
}

int sandbox_socket_dial(int sandboxes, const char *id)
{
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct timeval patience = { .tv_sec = CONNECT_SECS }, none = { 0 };
	struct sockaddr_un name;

	if (fd < 0)
		return -errno;
	socket_name(sandboxes, id, &name);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&name, sizeof(name)) < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
	return TAKE_FD(fd);
}

bool sandbox_socket_nobody(int r)
{
	return r == -ECONNREFUSED || r == -ENOENT;
}

int sandbox_socket_identify(struct initclient_sandbox *sandbox, uid_t *ret_uid,
			    struct warren_error *err)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred), fd_len = sizeof(int);
	int fd = -1;

	if (getsockopt(sandbox->control, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return error_errno(err, errno, "identify its init");
	if (cred.pid <= 0)
		return error_set(err, ESRCH, "its init is gone");
	/*
	 * Older kernels report only the number, which is correct if init answers
	 * afterwards (sandbox_socket_hello()).
	 */
	if (getsockopt(sandbox->control, SOL_SOCKET, SO_PEERPIDFD, &fd, &fd_len) < 0)
		fd = pidfd_open(cred.pid, 0);
	if (fd < 0)
		return error_errno(err, errno == EINVAL ? ESRCH : errno,
				   "open its init process");
	sandbox->pidfd = fd;
	sandbox->pid = cred.pid;
	*ret_uid = cred.uid;
	return 0;
}

int sandbox_socket_hello(struct initclient_sandbox *sandbox, struct proto_welcome *ret,
			 struct warren_error *err)
{
	struct proto_hello msg = { .h = { .type = PROTO_HELLO } };
	CLEANUP(init_reply_done) struct init_reply a = { 0 };
	int r = client_ask_within(sandbox, &msg, sizeof(msg), -1, HELLO_MS, &a, err);

	if (r < 0)
		return r;
	if (a.m.h.type != PROTO_WELCOME)
		return error_set(err, EPROTO, "the sandbox's init violated the protocol");
	*ret = a.m.welcome;
	return 0;
}

int sandbox_socket_keep(struct initclient_sandbox *sandbox, struct warren_error *err)
{
	struct proto_keep msg = { .h = { .type = PROTO_KEEP } };
	CLEANUP(init_reply_done) struct init_reply a = { 0 };
	int r = client_ask(sandbox, &msg, sizeof(msg), -1, &a, err);

	if (r < 0)
		return r;
	r = reply_code(&a.m.reply);
	if (r)
		return error_errno(err, r, "make it durable");
	sandbox->base.durable = true;
	sandbox->fresh = true;
	return 0;
}

int sandbox_socket_connection(int sandboxes, struct initclient_sandbox *sandbox,
			      int *ret_fd, struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	struct initclient_sandbox other = { .ready = true,
					    .may_take_long = sandbox->may_take_long };
	struct proto_welcome welcome;
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	int r;

	if (!sandbox->base.durable)
		return error_set(err, EOPNOTSUPP, "it is not durable");
	/* If no message was sent to init so far, do not wait for it now either. */
	fd = sandbox->control >= 0 ? sandbox_socket_dial(sandboxes, sandbox->base.id)
				   : sandbox_socket_dial_now(sandboxes, sandbox->base.id);
	if (fd < 0)
		return error_errno(err, sandbox_socket_nobody(fd) ? ESRCH : -fd,
				   "connect to its init");
	other.control = fd;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ||
	    cred.pid != sandbox->pid)
		return error_set(err, ESRCH, "its init is gone");
	/*
	 * Check that init has accepted the connection, and not refused it because there
	 * are too many. The first connection cannot be refused; after find(), the
	 * recipient of the connection checks it.
	 */
	r = sandbox->fresh || sandbox->control < 0
		    ? 0
		    : sandbox_socket_hello(&other, &welcome, err);
	if (r < 0)
		return r;
	sandbox->fresh = false;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int sandbox_socket_open_line(int sandboxes, struct initclient_sandbox *sandbox,
			     struct warren_error *err)
{
	struct proto_welcome welcome = { 0 };
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	int r = 0;

	sandbox->control = sandbox_socket_dial(sandboxes, sandbox->base.id);
	if (sandbox->control < 0)
		return error_errno(err,
				   sandbox_socket_nobody(sandbox->control)
					   ? ESRCH
					   : -sandbox->control,
				   "connect to its init");
	if (getsockopt(sandbox->control, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ||
	    cred.pid != sandbox->pid)
		r = error_set(err, ESRCH, "its init is gone");
	if (r == 0)
		r = sandbox_socket_hello(sandbox, &welcome, err);
	if (r == 0 && !(welcome.flags & PROTO_WELCOME_KEPT))
		r = error_set(err, ESRCH, "it was never completed");
	/*
	 * init has ended or is about to end, and has reported the reason to its clients.
	 */
	if (r == -EPIPE || r == -EOWNERDEAD)
		r = error_set(err, ESRCH, "its init is gone");
	if (r < 0)
		return r;
	sandbox->next_exec = welcome.last_exec;
	sandbox->saved = welcome.flags & PROTO_WELCOME_SAVED;
	return 0;
}

/* --------------------------------------------------------------------- state files */

bool sandbox_socket_has_state(int sandboxes, const char *id)
{
	char name[SANDBOX_NAME_SIZE];

	state_name(name, id, "");
	return faccessat(sandboxes, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int sandbox_socket_write_state(int sandboxes, const struct initclient_sandbox *sandbox,
			       const struct state_table *more, struct warren_error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(STATE_MAX);
	char name[SANDBOX_NAME_SIZE], fresh[SANDBOX_NAME_SIZE];
	AUTO_CLOSE int fd = -1;
	int r;

	state_encode(sandbox, more, &text);
	if (text.failed && !text.full)
		return error_errno(err, ENOMEM, "record the sandbox");
	if (text.failed)
		return error_set(err, E2BIG,
				 "its environment is too large to be recorded");
	state_name(name, sandbox->base.id, "");
	state_name(fresh, sandbox->base.id, ".new");
	fd = openat(sandboxes, fresh,
		    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, text.data, text.len);
	/* The file describes processes of this boot, so it needs no fsync(2). */
	if (r == 0 && renameat(sandboxes, fresh, sandboxes, name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(sandboxes, fresh, 0);
	return r < 0 ? error_errno(err, -r, "write its state file") : 0;
}

int sandbox_socket_read_state(int sandboxes, const char *id,
			      struct initclient_sandbox *sandbox,
			      const struct state_table *more, struct warren_error *err)
{
	char name[SANDBOX_NAME_SIZE];
	AUTO_CLOSE int fd = -1;
	AUTO_FREE char *text = NULL;
	struct stat st;
	ssize_t size;

	state_name(name, id, "");
	fd = openat(sandboxes, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return error_set(err, ENOENT, "there is no such sandbox");
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "open its state file");
	if (st.st_size <= 0 || st.st_size > STATE_MAX)
		return error_set(err, EINVAL, "its state file has a size of %jd bytes",
				 (intmax_t)st.st_size);
	text = malloc((size_t)st.st_size);
	if (!text)
		return error_errno(err, ENOMEM, "read its state file");
	size = fd_read_all(fd, text, (size_t)st.st_size);
	if (size != st.st_size)
		return error_errno(err, size < 0 ? (int)-size : EIO,
				   "read its state file");
	return state_parse(sandbox, more, TAKE_PTR(text), (size_t)size, err);
}

void sandbox_socket_remove(int sandboxes, const char *id)
{
	char name[SANDBOX_NAME_SIZE];

	/* Remove the state file before the socket: without a state file, the rest is not
	 * a sandbox. */
	state_name(name, id, "");
	(void)unlinkat(sandboxes, name, 0);
	state_name(name, id, ".new");
	(void)unlinkat(sandboxes, name, 0);
	(void)unlinkat(sandboxes, id, 0);
}

int sandbox_socket_pack_ids(const struct buf *ids, char ***ret_ids,
			    struct warren_error *err)
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
