/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal_sweep.c - find and remove journals without an exec
 *
 * The directory may have thousands of files. A thread reads the directory, and the loop
 * looks the files up in the database, some at a time. The row of a journal is written in
 * the same turn of the loop in which the file is created, so a journal without a row
 * belongs to no exec, whenever the directory was read.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/exec/internal.h"

#define SLICE_NS 1000000

struct sweep {
	struct service *service; /* NULL: the service is gone */
	int dir;
	char (*id)[ID_LEN + 1];
	size_t n, room, at;
	bool reading; /* the thread is reading */
	bool failed;  /* the thread may not have read everything */
	struct loop_task turn;
};

static void sweep_free(struct sweep *w)
{
	if (w->service)
		service_execs(w->service)->sweep = NULL;
	loop_task_cancel(&w->turn);
	if (w->dir >= 0)
		(void)close(w->dir);
	free(w->id);
	free(w);
}

static int journal_sweep_add(struct sweep *w, const char *id)
{
	if (w->n == w->room) {
		size_t room = w->room ? w->room * 2 : 256;
		void *more = reallocarray(w->id, room, sizeof(*w->id));

		if (!more)
			return -ENOMEM;
		w->id = more;
		w->room = room;
	}
	(void)memcpy(w->id[w->n++], id, ID_LEN + 1);
	return 0;
}

/* Runs on another thread. */
static void journal_sweep_read_names(void *ctx)
{
	struct sweep *w = ctx;
	int copy = openat(w->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;

	w->failed = !d;
	if (!d && copy >= 0)
		(void)close(copy);
	while (d && !w->failed && (e = readdir(d)))
		if (id_valid(e->d_name))
			w->failed = journal_sweep_add(w, e->d_name) < 0;
	if (d)
		(void)closedir(d);
}

static void look_at(struct sweep *w, const char *id)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_EXEC_ROW struct exec_row row = { 0 };
	int found = db_get_exec(w->service->db, NULL, id, &row, &err);

	if (found == -ENOENT)
		exec_remove_journal(w->service, id);
	else if (found < 0 && found != -ENOENT)
		w->failed = true;
}

static void journal_sweep_on_turn(void *ctx)
{
	struct sweep *w = ctx;
	uint64_t until = clock_now() + SLICE_NS;

	while (w->at < w->n && clock_now() < until)
		look_at(w, w->id[w->at++]);
	if (w->at < w->n) {
		loop_later(w->service->loop, &w->turn);
		return;
	}
	if (w->failed)
		service_untidy(w->service);
	sweep_free(w);
}

static void on_names(void *ctx)
{
	struct sweep *w = ctx;

	w->reading = false;
	if (w->service)
		loop_later(w->service->loop, &w->turn);
	else
		sweep_free(w);
}

void sweep_start(struct service *s)
{
	struct sweep *w = service_execs(s)->sweep ? NULL : calloc(1, sizeof(*w));

	if (service_execs(s)->sweep)
		return;
	if (w) {
		w->service = s;
		w->turn = (struct loop_task){ .fn = journal_sweep_on_turn, .ctx = w };
		w->dir = fcntl(s->journals, F_DUPFD_CLOEXEC, 3);
	}
	if (w)
		w->reading = true;
	if (!w || w->dir < 0 ||
	    loop_work(s->loop, NULL, journal_sweep_read_names, on_names, w) < 0) {
		if (w)
			sweep_free(w);
		service_untidy(s);
		return;
	}
	service_execs(s)->sweep = w;
}

void sweep_close(struct service *s)
{
	struct sweep *w = TAKE_PTR(service_execs(s)->sweep);

	if (!w)
		return;
	w->service = NULL;
	if (!w->reading)
		sweep_free(w); /* otherwise it is freed after reading */
}
