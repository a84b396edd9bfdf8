/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack_spawner.c - both sides of the spawner
 *
 *	caller -> foreman -> worker (hashes, copies) -> decompress, untar (confined)
 *
 * The foreman has its own process group: ^C on a terminal goes only to the caller, and
 * one signal ends all workers. Processes that a killed worker leaves become children of
 * the foreman, which is their subreaper. So after its last wait(2), no process is left
 * that could still write into a directory that the caller is about to remove.
 */
#include "image/unpack_spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "image/store_write.h"
#include "image/unpack.h"

/* Maximum size of an unpacked layer; a larger layer is an attack. */
#define LAYER_MAX (1ULL << 40)

struct order {
	char diff_id[REF_DIGEST_LEN + 1];
	uint64_t max_bytes;
};

/* Descriptors of a request, in this order; the lock may be missing. */
enum {
	BLOB,
	REPORT,
	LOCK,
	DESCRIPTORS
};

/* --------------------------------------------------------- code of the foreman */

/* Unpack an archive into a layer of the store; on failure, nothing is left. */
static int unpack_layer(const struct store *s, const char *diff_id, uint64_t max_bytes,
			int blob, struct warren_error *err)
{
	struct store_new layer = { .fd = -1 };
	/* The file is in the store: it has no name, or was spooled there. */
	const struct unpack_options options = { .diff_id = diff_id,
						.overlay = true,
						.settled = true,
						.max_bytes = max_bytes };
	struct unpack_result res;
	int r = store_new_work(s, &layer, err);

	if (r == 0)
		r = unpack_archive(blob, layer.fd, &options, &res, err);
	if (r == 0)
		r = store_sync_layer(&layer, err);
	if (r == 0) {
		r = store_lock(s, false, true);
		if (r < 0)
			(void)error_errno(err, -r, "lock the image store");
	}
	if (r == 0) {
		r = store_keep_layer(s, &layer, diff_id, res.bytes, err);
		store_unlock(s);
	}
	if (r < 0)
		store_drop_layer(s, &layer);
	return r;
}

_Noreturn static void unpack_spawner_work(const struct store *s,
					  const struct order *order, const int *fds,
					  pid_t foreman)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct store own = *s;

	(void)signal(SIGTERM, SIG_DFL);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != foreman)
		_exit(1);
	/* Processes that share a descriptor share its lock, and could undo each other's.
	 */
	own.lock = openat(s->images, "lock", O_RDWR | O_CLOEXEC);
	if (own.lock < 0)
		(void)error_errno(&err, errno, "open the lock of the image store");
	else if (unpack_layer(&own, order->diff_id, order->max_bytes, fds[BLOB], &err) ==
		 0)
		err = (struct warren_error)WARREN_ERROR_INIT;
	(void)fd_write_all(fds[REPORT], &err, sizeof(err));
	_exit(0);
}

/* If a worker cannot be started, its report pipe is closed, which the caller treats as an
 * error. */
static void unpack_spawner_carry_out(const struct store *s, const struct order *order,
				     const int *fds, size_t n, int control)
{
	pid_t foreman = getpid();

	if (n >= LOCK && ref_digest_valid(order->diff_id) && fork() == 0) {
		(void)close(control);
		unpack_spawner_work(s, order, fds, foreman);
	}
	for (size_t i = 0; i < n; i++)
		(void)close(fds[i]);
}

_Noreturn static void unpack_spawner_lead(const struct store *s, int control)
{
	static const int usual[] = { SIGINT, SIGHUP, SIGQUIT, SIGCHLD };

	(void)setpgid(0, 0);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGTERM, SIG_IGN); /* this process stays; SIGTERM ends the others */
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		(void)signal(usual[i], SIG_DFL);
	for (;;) {
		int fds[DESCRIPTORS];
		size_t n_fds = DESCRIPTORS;
		struct order order = { 0 };
		ssize_t n = fd_recv(control, &order, sizeof(order), fds, &n_fds, 0);

		if (n != (ssize_t)sizeof(order))
			break;
		order.diff_id[REF_DIGEST_LEN] = '\0';
		unpack_spawner_carry_out(s, &order, fds, n_fds, control);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	(void)kill(-getpid(), SIGTERM);
	while (wait(NULL) > 0 || errno == EINTR)
		;
	_exit(0);
}

/* ----------------------------------------------------------------- code of the caller */

int oci_foreman_start(struct oci_foreman *ret, const struct store *s,
		      struct warren_error *err)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_errno(err, errno, "create a connection");
	pid = fork();
	if (pid == 0) {
		(void)close(pair[0]);
		unpack_spawner_lead(s, pair[1]);
	}
	(void)close(pair[1]);
	if (pid < 0) {
		(void)close(pair[0]);
		return error_errno(err, errno, "start a process");
	}
	*ret = (struct oci_foreman){ .pid = pid, .control = pair[0] };
	return 0;
}

int oci_foreman_unpack(const struct oci_foreman *f, const char *diff_id,
		       uint64_t max_bytes, int blob, int lock, int *ret_report,
		       struct warren_error *err)
{
	struct order order = { .max_bytes = max_bytes ? max_bytes : LAYER_MAX };
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "create a pipe");
	(void)memcpy(order.diff_id, diff_id, REF_DIGEST_LEN);
	r = fd_send(f->control, &order, sizeof(order),
		    (int[]){ [BLOB] = blob, [REPORT] = ends[1], [LOCK] = lock },
		    lock < 0 ? LOCK : DESCRIPTORS);
	(void)close(ends[1]);
	if (r < 0) {
		(void)close(ends[0]);
		return error_errno(err, -r, "start a process");
	}
	*ret_report = ends[0];
	return 0;
}

void oci_foreman_stop(struct oci_foreman *f)
{
	if (f->pid <= 0)
		return;
	(void)close(f->control);
	while (waitpid(f->pid, NULL, 0) < 0 && errno == EINTR)
		;
	*f = (struct oci_foreman){ 0 };
}
