/* SPDX-License-Identifier: Apache-2.0 */
/* unpack_queue.c - the order in which layers are unpacked */
#include "image/unpack_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "base/fd.h"
#include "image/oci_internal.h"

#define WORKERS 2

/*
 * Take locks in the order of the digests, so that no two processes wait for each other.
 */
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

/* Another process may hold the lock for a long time: try repeatedly, and check for
 * cancellation. */
static int lock_layer(const struct oci_work *w, const char *diff_id,
		      struct warren_error *err)
{
	int fd, r;

	while ((fd = store_lock_layer(w->store, diff_id)) == -EWOULDBLOCK) {
		r = oci_pause(w->options, err);
		if (r < 0)
			return r;
	}
	return fd < 0 ? error_errno(err, -fd, "lock a layer") : fd;
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
		fd = lock_layer(w, w->layers[i].diff_id, err);
		if (fd < 0)
			return fd;
		w->state[i].lock = fd;
		/* Another process has finished it. */
		if (store_layer(w->store, w->layers[i].diff_id, name) == 0)
			w->layers[i].state = OCI_PRESENT;
	}
	/* A layer may occur twice in an image; unpack only the first occurrence. */
	for (size_t i = 0; i < w->n; i++)
		for (size_t k = 0; k < i; k++)
			if (strcmp(w->layers[i].diff_id, w->layers[k].diff_id) == 0)
				w->layers[i].state = OCI_PRESENT;
	return 0;
}

int oci_work_open(struct oci_work *w, const struct store *s, const struct oci_options *o,
		  struct warren_error *err)
{
	*w = (struct oci_work){ .store = s, .options = o };
	return oci_foreman_start(&w->foreman, s, err);
}

static int oci_work_claim(const struct oci_work *w, char **diff_ids,
			  struct store_claim *claim, struct warren_error *err)
{
	int r = oci_lock(w->store, w->options, err);

	if (r < 0)
		return r;
	r = store_claim_layers(w->store, diff_ids, claim, err);
	store_unlock(w->store);
	return r;
}

int oci_work_plan(struct oci_work *w, char **diff_ids, struct store_claim *claim,
		  struct warren_error *err)
{
	size_t n = 0;
	int r;

	while (diff_ids[n])
		n++;
	if (n > STORE_LAYERS_MAX)
		return error_set(err, E2BIG, "it has %zu layers; the maximum is %d", n,
				 STORE_LAYERS_MAX);
	w->layers = calloc(n + 1, sizeof(*w->layers));
	w->state = calloc(n + 1, sizeof(*w->state));
	if (!w->layers || !w->state)
		return error_errno(err, ENOMEM, "list the layers");
	w->n = n;
	for (size_t i = 0; i < n; i++) {
		(void)strcpy(w->layers[i].diff_id, diff_ids[i]);
		(void)strcpy(w->layers[i].digest, diff_ids[i]);
		w->state[i] =
			(struct oci_work_layer){ .lock = -1, .blob = -1, .report = -1 };
	}
	r = oci_work_claim(w, diff_ids, claim, err);
	return r < 0 ? r : lock_layers(w, err);
}

void oci_work_close(struct oci_work *w)
{
	oci_foreman_stop(&w->foreman);
	for (size_t i = 0; w->state && i < w->n; i++) {
		close_p(&w->state[i].lock);
		close_p(&w->state[i].blob);
		close_p(&w->state[i].report);
	}
	free(w->layers);
	free(w->state);
	*w = (struct oci_work){ 0 };
}

int oci_work_file(const struct store *s, struct warren_error *err)
{
	int fd = openat(s->data, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? error_errno(err, errno, "create a file in the store") : fd;
}

static int start_worker(struct oci_work *w, size_t i, struct warren_error *err)
{
	struct oci_work_layer *st = &w->state[i];
	int r = oci_foreman_unpack(&w->foreman, w->layers[i].diff_id,
				   w->options->max_bytes, st->blob, st->lock, &st->report,
				   err);

	if (r == 0)
		w->layers[i].state = OCI_UNPACKING;
	return r;
}

/* Has the worker of layer @i ended? Its report is in its pipe. */
static int take_in(struct oci_work *w, size_t i, struct warren_error *err)
{
	struct oci_work_layer *st = &w->state[i];
	struct pollfd p = { .fd = st->report, .events = POLLIN };
	struct warren_error said = WARREN_ERROR_INIT;

	if (poll(&p, 1, 0) <= 0)
		return 0;
	if (fd_read_all(st->report, &said, sizeof(said)) != sizeof(said))
		(void)error_set(&said, EIO, "the process that unpacked it died");
	(void)close(TAKE_FD(st->report));
	(void)close(TAKE_FD(st->blob));
	if (st->lock >= 0)
		(void)close(TAKE_FD(st->lock));
	if (said.code == 0) {
		w->layers[i].state = OCI_DONE;
		return 0;
	}
	said.msg[sizeof(said.msg) - 1] = '\0';
	*err = said;
	return error_wrap(err, "unpack layer %.19s", w->layers[i].digest);
}

int oci_work_step(struct oci_work *w, struct warren_error *err)
{
	size_t running = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < w->n; i++) {
		if (w->state[i].report >= 0)
			r = take_in(w, i, err);
		running += w->state[i].report >= 0;
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
			if (w->state[i].report >= 0)
				p[n++] = (struct pollfd){ .fd = w->state[i].report,
							  .events = POLLIN };
		if (n == 0)
			return 0;
		(void)poll(p, n, 100);
	}
}
