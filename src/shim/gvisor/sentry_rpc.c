/* SPDX-License-Identifier: Apache-2.0 */
/* sentry_rpc.c - call the sentry */
#include "shim/gvisor/sentry_rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/fd.h"

#define ANSWER_MAX (4U << 20)
#define NOBODY     65534
/* Descriptors are sent with the first bytes; the rest may be sent in any number of
 * pieces. */
#define FIRST 4096

/* The address of the socket, which differs between versions. */
enum address {
	ABSTRACT_NUL, /* @runsc-sandbox.<id>@, until 2023 */
	ABSTRACT,
	IN_ROOT, /* <root>/runsc-<id>.sock */
	ADDRESSES,
};

static socklen_t make_address(enum address kind, const char *root, const char *id,
			      struct sockaddr_un *ret)
{
	size_t max = sizeof(ret->sun_path);
	int n;

	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (kind == IN_ROOT) {
		n = snprintf(ret->sun_path, max, "%s/runsc-%s.sock", root, id);
		return n >= (int)max ? 0 : sizeof(*ret);
	}
	n = snprintf(ret->sun_path + 1, max - 1, "runsc-sandbox.%s", id);
	if (n >= (int)max - 1)
		return 0;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n +
			   (kind == ABSTRACT_NUL));
}

/*
 * Check the peer, because any process may bind a free abstract name. The sentry runs as
 * `nobody`; its creator was root.
 */
static bool is_sentry(int fd)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	       (peer.uid == 0 || peer.uid == NOBODY);
}

/*
 * An abstract address is looked up in the network namespace in which the socket was
 * created. A process that cannot return to its own namespace must not continue in that of
 * the sandbox.
 */
static int control_socket(int ns)
{
	AUTO_CLOSE int home = -1;
	int fd;

	if (ns >= 0) {
		home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
		if (home < 0 || setns(ns, CLONE_NEWNET) < 0)
			return -errno;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		fd = -errno;
	if (ns >= 0 && setns(home, CLONE_NEWNET) < 0)
		_exit(1);
	return fd;
}

int control_open(const char *runsc_root, const char *id, int ns, struct warren_error *err)
{
	struct sockaddr_un to;

	for (enum address kind = 0; kind < ADDRESSES; kind++) {
		socklen_t size = make_address(kind, runsc_root, id, &to);
		AUTO_CLOSE int fd = -1;

		if (size == 0)
			continue;
		fd = control_socket(ns);
		if (fd < 0)
			return error_errno(err, -fd, "create a socket");
		if (connect(fd, (const struct sockaddr *)&to, size) == 0)
			return is_sentry(fd)
				       ? TAKE_FD(fd)
				       : error_set(
						 err, EPERM,
						 "another process answers for the sandbox");
	}
	return error_set(err, ENOENT, "the sandbox is not running");
}

int control_send(int fd, const char *method, json_t *arg, const int *fds, size_t n_fds,
		 struct warren_error *err)
{
	json_t *call = arg ? json_pack("{s:s, s:o}", "method", method, "arg", arg) : NULL;
	AUTO_FREE char *text = call ? json_dumps(call, JSON_COMPACT) : NULL;
	size_t n = text ? strlen(text) : 0, first = n < FIRST ? n : FIRST;
	int r;

	json_decref(call);
	if (!text)
		return error_errno(err, ENOMEM, "send a request to the sandbox");
	/* The socket's buffer is empty and larger than this, so either everything or
	 * nothing is written. */
	r = fd_send(fd, text, first, fds, n_fds);
	if (r == 0)
		r = fd_write_all(fd, text + first, n - first);
	return r < 0 ? error_errno(err, -r, "send a request to the sandbox") : 0;
}

struct answer {
	int fd;
	int failed; /* errno; 0: the connection ended */
	size_t left;
};

static size_t sentry_rpc_read_some(void *buffer, size_t size, void *ctx)
{
	struct answer *a = ctx;
	ssize_t n;

	do
		n = recv(a->fd, buffer, size < a->left ? size : a->left, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		a->failed = errno == EAGAIN ? ETIMEDOUT : errno;
	if (n <= 0)
		return 0;
	a->left -= (size_t)n;
	return (size_t)n;
}

/* No object was received: explain why. */
static int sentry_rpc_no_answer(const struct answer *a, struct warren_error *err)
{
	if (a->left == 0)
		return error_set(err, EMSGSIZE, "the sandbox's answer does not end");
	if (a->failed == ETIMEDOUT)
		return error_set(err, ETIMEDOUT, "the sandbox does not answer");
	if (a->left < ANSWER_MAX && a->failed == 0)
		return error_set(err, EPROTO, "the sandbox's answer is not JSON");
	return error_set(err, EPIPE, "the sandbox is gone");
}

int control_receive(int fd, bool patient, json_t **ret_result, struct warren_error *err)
{
	struct timeval limit = { .tv_sec = patient ? 0 : CONTROL_SECS };
	struct answer a = { .fd = fd, .left = ANSWER_MAX };
	json_t *doc;
	int r = 0;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) < 0)
		return error_errno(err, errno, "limit the time");
	doc = json_load_callback(sentry_rpc_read_some, &a,
				 JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, NULL);
	if (!doc)
		return sentry_rpc_no_answer(&a, err);
	if (!json_is_true(json_object_get(doc, "success"))) {
		const char *why = json_string_value(json_object_get(doc, "err"));

		r = error_set(err, EREMOTEIO, "%s", why && why[0] ? why : "it failed");
	} else if (ret_result) {
		*ret_result = json_incref(json_object_get(doc, "result"));
	}
	json_decref(doc);
	return r;
}

int control_call(int fd, const char *method, json_t *arg, json_t **ret_result,
		 struct warren_error *err)
{
	int r = control_send(fd, method, arg, NULL, 0, err);

	return r < 0 ? r : control_receive(fd, false, ret_result, err);
}
