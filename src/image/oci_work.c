/* SPDX-License-Identifier: Apache-2.0 */
/* oci_work.c - workers that unpack */
#include "image/oci_work.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "image/store_write.h"
#include "image/unpack.h"

#define WORKERS   2
#define LAYER_MAX (1ULL << 40) /* bytes, unpacked: larger is no layer but an attack */

/* Locks in the order of the digests, whatever image they are of: no two wait for each other. */
static size_t next_by_name(const struct oci_work *w, const char *after)
{
	size_t best = w->n;

	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->layers[i].diff_id, after) > 0 &&
		    (best == w->n ||
		     strcmp(w->layers[i].diff_id, w->layers[best].diff_id) < 0))
			best = i;
	return best;
}

static int lock_layers(struct oci_work *w, struct warren_error *err)
{
	const char *after = "";

	for (size_t i; (i = next_by_name(w, after)) < w->n;
	     after = w->layers[i].diff_id) {
		char name[STORE_SHORT_LEN + 1];
		int fd;

		if (store_layer(w->store, w->layers[i].diff_id, name) == 0) {
			w->layers[i].state = OCI_PRESENT;
			continue;
		}
		fd = store_lock_layer(w->store, w->layers[i].diff_id);
		if (fd < 0)
			return error_errno(err, -fd, "lock a layer");
		w->state[i].lock = fd;
		/* Somebody else was at it, and is done. */
		if (store_layer(w->store, w->layers[i].diff_id, name) == 0)
			w->layers[i].state = OCI_PRESENT;
	}
	/* A layer may stand twice in an image: it is unpacked for the first. */
	for (size_t i = 0; i < w->n; i++)
		for (size_t k = 0; k < i; k++)
			if (strcmp(w->layers[i].diff_id, w->layers[k].diff_id) == 0)
				w->layers[i].state = OCI_PRESENT;
	return 0;
}

int oci_work_open(struct oci_work *w, const struct store *s, const struct oci_options *o,
		  char **diff_ids, struct warren_error *err)
{
	*w = (struct oci_work){ .store = s, .options = o };
	while (diff_ids[w->n])
		w->n++;
	w->layers = calloc(w->n + 1, sizeof(*w->layers));
	w->state = calloc(w->n + 1, sizeof(*w->state));
	if (!w->layers || !w->state)
		return error_errno(err, ENOMEM, "list the layers");
	for (size_t i = 0; i < w->n; i++) {
		(void)strcpy(w->layers[i].diff_id, diff_ids[i]);
		(void)strcpy(w->layers[i].digest, diff_ids[i]);
		w->state[i] =
			(struct oci_work_layer){ .lock = -1, .blob = -1, .report = -1 };
	}
	return lock_layers(w, err);
}

void oci_work_close(struct oci_work *w)
{
	for (size_t i = 0; w->state && i < w->n; i++) {
		struct oci_work_layer *st = &w->state[i];

		if (st->worker > 0) {
			(void)kill(st->worker,
				   SIGTERM); /* it takes its own children along */
			(void)waitpid(st->worker, NULL, 0);
		}
		if (st->lock >= 0)
			(void)close(st->lock);
		if (st->blob >= 0)
			(void)close(st->blob);
		if (st->report >= 0)
			(void)close(st->report);
	}
	free(w->layers);
	free(w->state);
	*w = (struct oci_work){ 0 };
}

int oci_work_file(const struct store *s, struct warren_error *err)
{
	int fd = openat(s->data, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? error_errno(err, errno, "make a file in the store") : fd;
}

/* The worker: from the archive to a layer of the store, or an error in one write. */
__attribute__((noreturn)) static void work(const struct oci_work *w, size_t i, int report)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct store_new layer = { .fd = -1 };
	struct unpack_result res;
	int r = store_new_layer(w->store, &layer, &err);

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (r == 0)
		r = unpack_archive(w->state[i].blob, layer.fd, w->layers[i].diff_id, true,
				   LAYER_MAX, &res, &err);
	if (r == 0)
		r = store_keep_layer(w->store, &layer, w->layers[i].diff_id, res.bytes,
				     &err);
	if (r < 0)
		store_drop_layer(w->store, &layer);
	if (r < 0)
		(void)fd_write_all(report, &err, sizeof(err));
	_exit(r < 0);
}

static int start_worker(struct oci_work *w, size_t i, struct warren_error *err)
{
	struct oci_work_layer *st = &w->state[i];
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "start a process");
	st->worker = fork();
	if (st->worker == 0)
		work(w, i, ends[1]);
	(void)close(ends[1]);
	st->report = ends[0];
	if (st->worker < 0)
		return error_errno(err, errno, "start a process");
	w->layers[i].state = OCI_UNPACKING;
	return 0;
}

/* Has the worker of layer @i ended? Its word is its pipe; its end is the pipe's. */
static int take_in(struct oci_work *w, size_t i, struct warren_error *err)
{
	struct oci_work_layer *st = &w->state[i];
	struct pollfd p = { .fd = st->report, .events = POLLIN };
	struct warren_error said = WARREN_ERROR_INIT;
	int status = 0;

	if (poll(&p, 1, 0) <= 0)
		return 0;
	if (fd_read_all(st->report, &said, sizeof(said)) == sizeof(said) &&
	    said.code > 0) {
		said.msg[sizeof(said.msg) - 1] = '\0';
		*err = said;
	}
	while (waitpid(st->worker, &status, 0) < 0 && errno == EINTR)
		;
	st->worker = 0;
	(void)close(TAKE_FD(st->report));
	(void)close(TAKE_FD(st->blob));
	if (st->lock >= 0)
		(void)close(TAKE_FD(st->lock));
	if (status == 0) {
		w->layers[i].state = OCI_DONE;
		return 0;
	}
	if (err->code == 0)
		(void)error_set(err, EIO, "the process that unpacked it died");
	return error_wrap(err, "unpack layer %.19s", w->layers[i].digest);
}

int oci_work_step(struct oci_work *w, struct warren_error *err)
{
	size_t running = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < w->n; i++) {
		if (w->state[i].worker > 0)
			r = take_in(w, i, err);
		running += w->state[i].worker > 0;
	}
	for (size_t i = 0; r == 0 && i < w->n && running < WORKERS; i++) {
		if (!w->state[i].ready || w->layers[i].state == OCI_PRESENT ||
		    w->layers[i].state == OCI_UNPACKING || w->layers[i].state == OCI_DONE)
			continue;
		r = start_worker(w, i, err);
		running++;
	}
	if (r == 0 && w->options->progress &&
	    w->options->progress(w->options->ctx, w->layers, w->n) != 0)
		r = error_set(err, ECANCELED, "cancelled");
	return r;
}

int oci_work_finish(struct oci_work *w, struct warren_error *err)
{
	for (;;) {
		struct pollfd p[WORKERS];
		nfds_t n = 0;
		int r = oci_work_step(w, err);

		if (r < 0)
			return r;
		for (size_t i = 0; i < w->n && n < WORKERS; i++)
			if (w->state[i].worker > 0)
				p[n++] = (struct pollfd){ .fd = w->state[i].report,
							  .events = POLLIN };
		if (n == 0)
			return 0;
		(void)poll(p, n, 100);
	}
}
